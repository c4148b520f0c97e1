//! Names of files for workflow ids, which are any text.
//!
//! One way only: which workflow a file belongs to is said by its content, and a file whose content
//! does not lead back to its name is damaged.

use std::fmt::Write as _;

/// What the common file systems allow.
const NAME_BYTES_MAX: usize = 255;
const SUFFIX: &str = ".json";
const DIGEST_HEX_BYTES: usize = 32;

/// The name of a workflow's file: never a path, never hidden, never longer than 255 bytes.
///
/// All outside `A-Za-z0-9._-` and a leading dot are percent-encoded. A name that would be too long
/// keeps its beginning and ends in a hash of the id.
pub fn file_name(workflow_id: &str) -> String {
    encoded_name(workflow_id) + SUFFIX
}

/// The name that the original script gives to the file of a workflow, which is the id as it is;
/// none when that is our own name, or no safe one.
pub(super) fn plain_name(workflow_id: &str) -> Option<String> {
    let plain = format!("{workflow_id}{SUFFIX}");
    let is_safe = plain.len() <= NAME_BYTES_MAX
        && !plain.starts_with('.')
        && !plain.contains(|c: char| c == '/' || c.is_control());
    (is_safe && plain != file_name(workflow_id)).then_some(plain)
}

/// Whether the file of a workflow may have this name.
pub fn is_name_of(name: &[u8], workflow_id: &str) -> bool {
    file_name(workflow_id).as_bytes() == name
        || plain_name(workflow_id).is_some_and(|plain| plain.as_bytes() == name)
}

/// The same without the suffix, for folders that are named after an id.
pub fn encoded_name(id: &str) -> String {
    let mut name = encoded(id);
    if name.len() + SUFFIX.len() > NAME_BYTES_MAX {
        let digest = blake3::hash(id.as_bytes()).to_hex();
        name.truncate(NAME_BYTES_MAX - SUFFIX.len() - DIGEST_HEX_BYTES - 1);
        name.push('-');
        name.push_str(&digest[..DIGEST_HEX_BYTES]);
    }
    name
}

fn encoded(workflow_id: &str) -> String {
    let mut name = String::with_capacity(workflow_id.len() + SUFFIX.len());
    for (index, byte) in workflow_id.bytes().enumerate() {
        let is_leading_dot = index == 0 && byte == b'.';
        let is_plain = byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if is_plain && !is_leading_dot {
            name.push(char::from(byte));
        } else {
            write!(name, "%{byte:02X}").expect("writing to memory cannot fail");
        }
    }
    name
}

/// Whether a file of that name can be a checkpoint: not hidden, ends in `.json`, and not the schema
/// that comes with the original script.
pub(super) fn is_checkpoint_name(name: &[u8]) -> bool {
    name.ends_with(SUFFIX.as_bytes())
        && !name.starts_with(b".")
        && name != b"CHECKPOINT_SCHEMA.json"
}

/// As much of a name as leaves room for what is put around it.
pub(super) fn shortened(name: &[u8]) -> &[u8] {
    const KEPT_BYTES_MAX: usize = 180;
    &name[..name.len().min(KEPT_BYTES_MAX)]
}
