use std::fs;
use std::os::unix::fs::symlink;

use jiff::{SignedDuration, Timestamp};

use super::super::CheckpointFolder;
use super::{absent_folder, folder_with, names_in};

const TEMPORARY: &str = ".a.json.tmp-4711-0";

/// When the temporary file in the folder was last written.
fn written_at(folder: &CheckpointFolder) -> Timestamp {
    let metadata = fs::metadata(folder.path().join(TEMPORARY)).unwrap();
    metadata.modified().unwrap().try_into().unwrap()
}

#[test]
fn only_old_temporary_files_of_ours_are_swept() {
    let (_top, folder) = folder_with(&["a"]);
    for name in [TEMPORARY, ".a.json.tmp-x-0", ".a.json.tmp-1", ".json.tmp-1-1", "b.json.tmp-1-1"] {
        fs::write(folder.path().join(name), "half").unwrap();
    }
    symlink("a.json", folder.path().join(".c.json.tmp-1-1")).unwrap();
    let two_hours_later = written_at(&folder) + SignedDuration::from_hours(2);
    assert_eq!(folder.sweep_temporary_files(two_hours_later).unwrap(), 1);
    insta::assert_snapshot!(names_in(folder.path()).join("\n"), @"
    .a.json.tmp-1
    .a.json.tmp-x-0
    .c.json.tmp-1-1
    .json.tmp-1-1
    a.json
    b.json.tmp-1-1
    ");
}

#[test]
fn a_young_temporary_file_is_left_to_its_writer() {
    let (_top, folder) = folder_with(&["a"]);
    fs::write(folder.path().join(TEMPORARY), "half").unwrap();
    let now = written_at(&folder);
    assert_eq!(folder.sweep_temporary_files(now + SignedDuration::from_mins(59)).unwrap(), 0);
    assert_eq!(folder.sweep_temporary_files(now - SignedDuration::from_hours(9)).unwrap(), 0);
}

#[test]
fn an_absent_folder_needs_no_sweep() {
    assert_eq!(absent_folder().1.sweep_temporary_files(Timestamp::UNIX_EPOCH).unwrap(), 0);
}
