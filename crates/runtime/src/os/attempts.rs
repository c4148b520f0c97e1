//! The attempt of an agent that a process belongs to.

use std::fs::File;
use std::io::Read as _;
use std::sync::LazyLock;

use relight_core::agent::AttemptTag;

use super::environment;

/// The variable that marks all processes of an attempt.
pub const VARIABLE: &str = "RELIGHT_ATTEMPT";

/// Bytes of another process's environment that are read; the kernel's limit is far below.
const ENVIRONMENT_BYTES_MAX: u64 = 16 << 20;

/// The attempt that this process belongs to.
pub fn own() -> Option<&'static AttemptTag> {
    // A fact of this process, read once.
    static OWN: LazyLock<Option<AttemptTag>> = LazyLock::new(|| {
        let variables = environment::variables();
        let own = environment::texts(&variables).find(|(name, _)| *name == VARIABLE);
        own.map(|(_, tag)| AttemptTag::from_text(tag))
    });
    OWN.as_ref()
}

/// The attempt that another process belongs to, by the environment that it was started with. Reading it
/// may block for as long as that process likes.
pub fn of_process(pid: u32) -> Option<AttemptTag> {
    let file = File::open(format!("/proc/{pid}/environ")).ok()?;
    let mut bytes = Vec::new();
    file.take(ENVIRONMENT_BYTES_MAX)
        .read_to_end(&mut bytes)
        .ok()?;
    let mut entries = bytes.split(|byte| *byte == 0);
    let value =
        entries.find_map(|entry| entry.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"="))?;
    Some(AttemptTag::from_text(std::str::from_utf8(value).ok()?))
}
