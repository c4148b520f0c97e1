use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;

use relight_core::checkpoint::hash::content_hash;
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Map, Value};

use super::super::{CheckpointFolder, ReadError};
use super::{absent_folder, checkpoint, folder_with};

/// The reason why the file of `deploy` is damaged.
fn damage_of(folder: &CheckpointFolder) -> String {
    match folder.read("deploy") {
        Err(ReadError::Damaged { path, reason }) => {
            assert_eq!(path, folder.path_of("deploy"));
            reason.to_string()
        }
        other => panic!("damage expected, not {other:?}"),
    }
}

fn damage_of_content(content: &[u8]) -> String {
    let (_top, folder) = folder_with(&[]);
    fs::write(folder.path_of("deploy"), content).unwrap();
    damage_of(&folder)
}

fn sealed_with_schema(version: &str) -> Vec<u8> {
    let mut members: Map<String, Value> =
        serde_json::from_slice(&checkpoint("deploy").seal()).unwrap();
    members["schemaVersion"] = version.into();
    members["checkpointHash"] = content_hash(&members).into();
    serde_json::to_vec(&members).unwrap()
}

#[test]
fn what_is_not_there_is_none() {
    assert_eq!(absent_folder().1.read("deploy").unwrap(), None);
    assert_eq!(folder_with(&["other"]).1.read("deploy").unwrap(), None);
}

#[test]
fn a_torn_file_is_damaged() {
    let sealed = checkpoint("deploy").seal();
    insta::assert_snapshot!(damage_of_content(&sealed[..60]), @"torn: ends too early at line 4 column 6");
}

#[test]
fn an_empty_file_is_damaged() {
    insta::assert_snapshot!(damage_of_content(b""), @"empty");
}

#[test]
fn a_zero_filled_file_is_damaged() {
    insta::assert_snapshot!(damage_of_content(&[0; 700]), @"zero-filled");
}

#[test]
fn a_file_with_a_wrong_hash_is_damaged() {
    let edited = String::from_utf8(checkpoint("deploy").seal())
        .unwrap()
        .replace("go on", "go off");
    assert!(damage_of_content(edited.as_bytes()).starts_with("checkpointHash does not fit"));
}

#[test]
fn a_file_of_a_wrong_schema_is_damaged() {
    insta::assert_snapshot!(damage_of_content(&sealed_with_schema("0.1")), @r#"not a checkpoint: schemaVersion is "0.1""#);
}

#[test]
fn a_file_of_a_newer_schema_is_damaged() {
    insta::assert_snapshot!(damage_of_content(&sealed_with_schema("2.0")), @r#"schemaVersion "2.0" is newer than this Relight understands"#);
}

#[test]
fn a_file_of_another_workflow_is_damaged() {
    insta::assert_snapshot!(damage_of_content(&checkpoint("other").seal()), @r#"holds workflow "other", which belongs into another file"#);
}

#[test]
fn a_huge_file_is_damaged_without_being_read() {
    let (_top, folder) = folder_with(&[]);
    let file = fs::File::create(folder.path_of("deploy")).unwrap();
    file.set_len(1 << 40).unwrap();
    insta::assert_snapshot!(damage_of(&folder), @"too large: 1099511627776 bytes, 4194304 are allowed");
}

#[test]
fn a_link_to_a_good_file_is_not_followed() {
    let (top, folder) = folder_with(&[]);
    let outside = top.path().join("outside.json");
    fs::write(&outside, checkpoint("deploy").seal()).unwrap();
    symlink(&outside, folder.path_of("deploy")).unwrap();
    insta::assert_snapshot!(damage_of(&folder), @"a symbolic link, not a file");
}

#[test]
fn a_pipe_is_damaged_and_not_waited_for() {
    let (_top, folder) = folder_with(&[]);
    mkfifoat(CWD, folder.path_of("deploy"), Mode::RUSR | Mode::WUSR).unwrap();
    insta::assert_snapshot!(damage_of(&folder), @"not a regular file");
}

#[test]
fn a_socket_is_damaged() {
    let (_top, folder) = folder_with(&[]);
    let _listener = UnixListener::bind(folder.path_of("deploy")).unwrap();
    insta::assert_snapshot!(damage_of(&folder), @"not a regular file");
}

#[test]
fn a_folder_is_damaged() {
    let (_top, folder) = folder_with(&[]);
    fs::create_dir(folder.path_of("deploy")).unwrap();
    insta::assert_snapshot!(damage_of(&folder), @"not a regular file");
}

#[test]
fn a_file_that_may_not_be_read_is_an_error_and_not_damage() {
    if rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: root may read everything; run this test as another user");
        return;
    }
    let (_top, folder) = folder_with(&["deploy"]);
    fs::set_permissions(folder.path_of("deploy"), fs::Permissions::from_mode(0o000)).unwrap();
    match folder.read("deploy") {
        Err(ReadError::Io { source, .. }) => {
            assert_eq!(source.kind(), io::ErrorKind::PermissionDenied);
        }
        other => panic!("an I/O error expected, not {other:?}"),
    }
}
