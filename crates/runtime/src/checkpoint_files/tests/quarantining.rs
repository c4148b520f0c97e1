use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::super::QUARANTINE;
use super::{checkpoint, folder_with, names_in, noon};

#[test]
fn a_damaged_file_is_set_aside_with_its_reason() {
    let (_top, folder) = folder_with(&["good"]);
    fs::write(folder.path_of("bad"), "half").unwrap();
    let moved = folder
        .quarantine(&folder.path_of("bad"), "torn", noon())
        .unwrap();
    assert_eq!(
        moved,
        folder.path().join("quarantine/bad.json.20260324T120000Z.0")
    );
    assert_eq!(fs::read_to_string(&moved).unwrap(), "half");
    let reason = moved.with_file_name("bad.json.20260324T120000Z.0.reason.txt");
    assert_eq!(fs::read_to_string(reason).unwrap(), "torn\n");
    assert_eq!(names_in(folder.path()), ["good.json", "quarantine"]);
    let mode = fs::metadata(folder.path().join(QUARANTINE))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o700);
}

#[test]
fn nothing_set_aside_earlier_is_overwritten() {
    let (_top, folder) = folder_with(&[]);
    for content in ["first", "second", "third"] {
        fs::write(folder.path_of("bad"), content).unwrap();
        let moved = folder
            .quarantine(&folder.path_of("bad"), "torn", noon())
            .unwrap();
        assert_eq!(fs::read_to_string(moved).unwrap(), content);
    }
    assert_eq!(names_in(&folder.path().join(QUARANTINE)).len(), 6);
}

#[test]
fn a_file_without_its_reason_is_not_overwritten_either() {
    let (_top, folder) = folder_with(&[]);
    fs::write(folder.path_of("bad"), "first").unwrap();
    let first = folder
        .quarantine(&folder.path_of("bad"), "torn", noon())
        .unwrap();
    fs::remove_file(first.with_extension("0.reason.txt")).unwrap();
    fs::write(folder.path_of("bad"), "second").unwrap();
    folder
        .quarantine(&folder.path_of("bad"), "torn", noon())
        .unwrap();
    assert_eq!(fs::read_to_string(first).unwrap(), "first");
}

#[test]
fn a_link_is_moved_itself() {
    let (top, folder) = folder_with(&[]);
    let outside = top.path().join("outside");
    fs::write(&outside, "precious").unwrap();
    symlink(&outside, folder.path_of("bad")).unwrap();
    let moved = folder
        .quarantine(&folder.path_of("bad"), "a link", noon())
        .unwrap();
    assert_eq!(fs::read_link(moved).unwrap(), outside);
    assert_eq!(fs::read_to_string(outside).unwrap(), "precious");
}

#[test]
fn a_planted_quarantine_link_is_refused_and_the_file_stays() {
    let (top, folder) = folder_with(&["bad"]);
    symlink(top.path(), folder.path().join(QUARANTINE)).unwrap();
    assert!(
        folder
            .quarantine(&folder.path_of("bad"), "torn", noon())
            .is_err()
    );
    assert_eq!(folder.read("bad").unwrap(), Some(checkpoint("bad")));
    assert_eq!(names_in(top.path()), ["memory"]);
}

#[test]
fn a_file_of_another_folder_is_refused() {
    let (top, folder) = folder_with(&[]);
    let outside = top.path().join("outside.json");
    fs::write(&outside, "").unwrap();
    let error = folder.quarantine(&outside, "torn", noon()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn a_file_that_is_gone_leaves_no_reason_behind() {
    let (_top, folder) = folder_with(&["good"]);
    let error = folder
        .quarantine(&folder.path_of("bad"), "torn", noon())
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert_eq!(names_in(folder.path()), ["good.json"]);
}

#[test]
fn the_longest_names_can_be_set_aside() {
    let id = "/".repeat(128);
    let (_top, folder) = folder_with(&[&id]);
    let moved = folder
        .quarantine(&folder.path_of(&id), "torn", noon())
        .unwrap();
    assert!(moved.exists());
}
