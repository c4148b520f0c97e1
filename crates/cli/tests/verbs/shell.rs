//! `relight completions` and `relight man`, from outside.

use crate::relight;

use relight::Stage;

#[test]
fn every_shell_gets_a_script_and_an_unknown_one_is_refused() {
    let stage = Stage::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = stage.run(&["completions", shell]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.stdout.contains("relight") && ran.stdout.contains("checkpoint"), "{shell}");
    }
    let ran = stage.run(&["completions", "tcsh"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("possible values"), "{ran:?}");
}

#[test]
fn every_command_has_its_page() {
    let stage = Stage::new();
    let ran = stage.run(&["man", "--dir", "man/man1"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let folder = stage.folder.path().join("work/man/man1");
    for page in ["relight.1", "relight-task-start.1", "relight-setup-agents-md.1"] {
        let text = std::fs::read_to_string(folder.join(page)).unwrap();
        assert!(text.contains(".SH \"EXIT STATUS\"") && text.contains(".SH EXAMPLES"), "{page}");
    }
    assert!(folder.join("relight-task.1").exists());
    assert!(!folder.join("relight-help.1").exists());
    let one = stage.run(&["man"]);
    assert_eq!(one.stdout, std::fs::read_to_string(folder.join("relight.1")).unwrap());
}

#[test]
fn a_folder_that_cannot_be_made_is_an_io_error() {
    let stage = Stage::new();
    std::fs::write(stage.folder.path().join("work/file"), "").unwrap();
    let ran = stage.run(&["man", "--dir", "file/man1"]);
    assert_eq!(ran.code, 74);
    assert!(ran.stderr.contains("file/man1"), "{ran:?}");
}
