use std::fs;
use std::num::NonZeroUsize;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use rustix::fs::{CWD, Mode, mkfifoat};

use super::super::{CheckpointFolder, ScannedFile};
use super::{absent_folder, checkpoint, folder_with, noon};

/// One line for each file: its name, then the status or the reason.
fn picture(folder: &CheckpointFolder) -> String {
    let lines = folder.scan().unwrap().into_iter().map(|found| match found {
        ScannedFile::Good { path, checkpoint } => {
            format!(
                "{}: {}",
                path.file_name().unwrap().display(),
                checkpoint.status.as_str()
            )
        }
        ScannedFile::Damaged { path, reason } => {
            format!("{}: {reason}", path.file_name().unwrap().display())
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn an_absent_folder_is_an_empty_one() {
    assert_eq!(absent_folder().1.scan().unwrap(), []);
}

#[test]
fn the_bad_ones_never_stop_the_rest() {
    let (top, folder) = folder_with(&["a", "m", "team/z"]);
    let write = |name: &str, content: &[u8]| fs::write(folder.path().join(name), content).unwrap();
    write("b.json", b"");
    write("c.json", &[0; 4096]);
    write("d.json", &checkpoint("d").seal()[..99]);
    write("e.json", &checkpoint("f").seal());
    write("gr\u{fc}n.json", &checkpoint("gr\u{fc}n").seal());
    symlink(folder.path_of("a"), folder.path_of("g")).unwrap();
    mkfifoat(CWD, folder.path_of("h"), Mode::RUSR).unwrap();
    fs::create_dir(folder.path_of("i")).unwrap();
    symlink(top.path().join("nowhere"), folder.path_of("j")).unwrap();
    insta::assert_snapshot!(picture(&folder), @r#"
    a.json: in_progress
    b.json: empty
    c.json: zero-filled
    d.json: torn: ends too early at line 6 column 0
    e.json: holds workflow "f", which belongs into another file
    g.json: a symbolic link, not a file
    grün.json: in_progress
    h.json: not a regular file
    i.json: not a regular file
    j.json: a symbolic link, not a file
    m.json: in_progress
    team%2Fz.json: in_progress
    "#);
}

#[test]
fn what_is_not_a_checkpoint_is_passed_over() {
    let (_top, folder) = folder_with(&["a"]);
    for name in [
        ".a.json.tmp-1-2",
        ".swap.json",
        "README.md",
        "a.json.bak",
        "json",
    ] {
        fs::write(folder.path().join(name), "x").unwrap();
    }
    fs::write(folder.path_of("bad"), "x").unwrap();
    folder
        .quarantine(&folder.path_of("bad"), "bad", noon())
        .unwrap();
    insta::assert_snapshot!(picture(&folder), @"a.json: in_progress");
}

#[test]
fn any_number_of_threads_finds_the_same() {
    let (_top, folder) = folder_with(&[]);
    let ids: Vec<String> = (0..1000).map(|number| format!("w{number:03}")).collect();
    for id in &ids {
        fs::write(folder.path_of(id), checkpoint(id).seal()).unwrap();
    }
    for threads in [1, 2, 3, 4, 5, 1000] {
        let found = folder.scan_with(NonZeroUsize::new(threads).unwrap(), |found| match found {
            ScannedFile::Good { checkpoint, .. } => Some(checkpoint.workflow_id),
            ScannedFile::Damaged { .. } => None,
        });
        assert_eq!(found.unwrap(), ids);
    }
}

#[test]
fn a_file_that_may_not_be_read_is_reported_beside_the_others() {
    if rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: root may read everything; run this test as another user");
        return;
    }
    let (_top, folder) = folder_with(&["a", "b", "c"]);
    fs::set_permissions(folder.path_of("b"), fs::Permissions::from_mode(0o000)).unwrap();
    insta::assert_snapshot!(picture(&folder), @"
    a.json: in_progress
    b.json: cannot be read: Permission denied (os error 13)
    c.json: in_progress
    ");
}
