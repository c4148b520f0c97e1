use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::super::CheckpointFolder;
use super::{absent_folder, checkpoint, folder_with, names_in};

#[test]
fn the_first_write_creates_the_folder() {
    let (top, folder) = absent_folder();
    folder
        .write("deploy", &checkpoint("deploy").seal())
        .unwrap();
    assert_eq!(folder.read("deploy").unwrap(), Some(checkpoint("deploy")));
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(top.path().join("memory")), 0o700);
    assert_eq!(mode(folder.path().to_owned()), 0o700);
    assert_eq!(mode(folder.path_of("deploy")), 0o600);
}

#[test]
fn a_folder_removed_meanwhile_is_created_again() {
    let (top, folder) = folder_with(&["deploy"]);
    fs::remove_dir_all(top.path().join("memory")).unwrap();
    folder
        .write("deploy", &checkpoint("deploy").seal())
        .unwrap();
    assert_eq!(folder.read("deploy").unwrap(), Some(checkpoint("deploy")));
}

#[test]
fn a_write_replaces_the_file_and_leaves_nothing_else() {
    let (_top, folder) = folder_with(&["deploy"]);
    let mut newer = checkpoint("deploy");
    newer.seq += 1;
    folder.write("deploy", &newer.seal()).unwrap();
    assert_eq!(folder.read("deploy").unwrap(), Some(newer));
    assert_eq!(names_in(folder.path()), ["deploy.json"]);
}

#[test]
fn a_failed_rename_leaves_no_temporary_file() {
    let (_top, folder) = folder_with(&["other"]);
    fs::create_dir(folder.path_of("deploy")).unwrap();
    let error = folder
        .write("deploy", &checkpoint("deploy").seal())
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    assert_eq!(names_in(folder.path()), ["deploy.json", "other.json"]);
}

#[test]
fn a_file_that_no_reader_accepts_is_not_written() {
    let (_top, folder) = folder_with(&["deploy"]);
    let error = folder
        .write("deploy", &vec![b' '; (4 << 20) + 1])
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    assert_eq!(folder.read("deploy").unwrap(), Some(checkpoint("deploy")));
}

#[test]
fn a_planted_link_is_replaced_and_not_written_through() {
    let (top, folder) = folder_with(&[]);
    let outside = top.path().join("outside");
    fs::write(&outside, "precious").unwrap();
    symlink(&outside, folder.path_of("deploy")).unwrap();
    folder
        .write("deploy", &checkpoint("deploy").seal())
        .unwrap();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "precious");
    assert_eq!(folder.read("deploy").unwrap(), Some(checkpoint("deploy")));
}

#[test]
fn a_folder_in_the_place_of_a_file_is_an_error() {
    let (top, _folder) = absent_folder();
    let path = top.path().join("file");
    fs::write(&path, "").unwrap();
    let folder = CheckpointFolder::at(&path);
    assert!(folder.write("deploy", b"{}").is_err());
    assert!(folder.scan().is_err());
}

#[test]
fn the_longest_ids_can_be_written_and_read() {
    let id = "/:@".repeat(42);
    let (_top, folder) = folder_with(&[&id]);
    assert_eq!(folder.read(&id).unwrap(), Some(checkpoint(&id)));
    assert_eq!(folder.scan().unwrap().len(), 1);
}

#[test]
fn many_writers_of_one_file_leave_one_whole_file() {
    let (_top, folder) = folder_with(&["deploy"]);
    std::thread::scope(|scope| {
        for seq in 0..8 {
            let folder = &folder;
            scope.spawn(move || {
                let mut checkpoint = checkpoint("deploy");
                checkpoint.seq = seq;
                folder.write("deploy", &checkpoint.seal()).unwrap();
            });
        }
    });
    assert!(folder.read("deploy").unwrap().unwrap().seq < 8);
    assert_eq!(names_in(folder.path()), ["deploy.json"]);
}

#[test]
fn a_removed_file_is_gone_and_removing_again_is_harmless() {
    let (_top, folder) = folder_with(&["deploy"]);
    assert!(folder.remove("deploy").unwrap());
    assert_eq!(folder.read("deploy").unwrap(), None);
    assert!(!folder.remove("deploy").unwrap());
    assert!(!absent_folder().1.remove("deploy").unwrap());
}
