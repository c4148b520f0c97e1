use std::fs;
use std::os::unix::fs::symlink;

use super::{absent_folder, folder_with, names_in};

#[test]
fn only_temporary_files_of_ours_are_swept() {
    let (_top, folder) = folder_with(&["a"]);
    for name in [
        ".a.json.tmp-4711-0",
        ".a.json.tmp-x-0",
        ".a.json.tmp-1",
        ".json.tmp-1-1",
        "b.json.tmp-1-1",
    ] {
        fs::write(folder.path().join(name), "half").unwrap();
    }
    symlink("a.json", folder.path().join(".c.json.tmp-1-1")).unwrap();
    assert_eq!(folder.sweep_temporary_files(false).unwrap(), 1);
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
fn an_absent_folder_needs_no_sweep() {
    assert_eq!(absent_folder().1.sweep_temporary_files(false).unwrap(), 0);
}
