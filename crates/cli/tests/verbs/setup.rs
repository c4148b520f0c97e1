//! `relight setup`, from outside.

use crate::relight;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use relight::Stage;

fn agents_md(stage: &Stage) -> PathBuf {
    stage.folder.path().join("work/AGENTS.md")
}

fn skill(stage: &Stage) -> PathBuf {
    stage
        .folder
        .path()
        .join("work/skills/restart-recovery/SKILL.md")
}

/// A whole block of another version, as that version would have written it.
fn block_of_version(version: u32) -> String {
    let text = "other words\n";
    let hash = &blake3::hash(text.as_bytes()).to_hex()[..16];
    format!("<!-- relight:begin v{version} {hash} -->\n{text}<!-- relight:end -->\n")
}

#[test]
fn the_block_comes_stays_and_goes_without_touching_the_rest() {
    let stage = Stage::new();
    let file = agents_md(&stage);
    for content in ["# Ours\r\n\r\ntext\r\n", "# Ours\nno line end", "one\n\n\n"] {
        fs::write(&file, content).unwrap();
        assert_eq!(stage.run(&["setup", "agents-md", "--check"]).code, 1);
        assert_eq!(stage.run(&["setup", "agents-md"]).code, 0);
        let with = fs::read_to_string(&file).unwrap();
        assert!(with.starts_with(content) && with.contains("relight checkpoint resume"));
        let lines = with.matches('\n').count();
        let is_crlf = content.contains('\r');
        assert!(
            !is_crlf || with.matches("\r\n").count() == lines,
            "all lines end alike"
        );
        let inode = fs::metadata(&file).unwrap().ino();
        let again = stage.run(&["setup", "agents-md"]);
        assert!(
            again.code == 0 && again.stdout.contains("nothing to do"),
            "{again:?}"
        );
        assert_eq!(
            fs::metadata(&file).unwrap().ino(),
            inode,
            "not written again"
        );
        assert_eq!(stage.run(&["setup", "agents-md", "--check"]).code, 0);
        assert_eq!(stage.run(&["setup", "agents-md", "--remove"]).code, 0);
        assert_eq!(fs::read_to_string(&file).unwrap(), content);
    }
}

#[test]
fn a_file_that_is_only_ours_is_made_and_removed() {
    let stage = Stage::new();
    let file = agents_md(&stage);
    let ran = stage.run(&["setup", "agents-md", "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &answer["action"]), (0, &"created".into()));
    let printed = stage.run(&["setup", "agents-md", "--print"]).stdout;
    assert_eq!(fs::read_to_string(&file).unwrap(), printed);
    assert_eq!(stage.run(&["setup", "agents-md", "--remove"]).code, 0);
    assert!(!file.exists());
    assert_eq!(
        stage.run(&["setup", "agents-md", "--remove"]).code,
        0,
        "twice does no harm"
    );
}

#[test]
fn an_older_block_is_updated_in_place_and_a_newer_one_is_left() {
    let stage = Stage::new();
    let file = agents_md(&stage);
    fs::write(&file, format!("above\n\n{}below\n", block_of_version(0))).unwrap();
    let ran = stage.run(&["setup", "agents-md", "--check"]);
    assert!(ran.code == 1 && ran.stdout.contains("outdated"), "{ran:?}");
    assert_eq!(stage.run(&["setup", "agents-md"]).code, 0);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("above\n\n<!-- relight:begin v") && text.ends_with("-->\nbelow\n"));

    let newer = block_of_version(999);
    fs::write(&file, &newer).unwrap();
    assert_eq!(stage.run(&["setup", "agents-md", "--check"]).code, 0);
    assert_eq!(stage.run(&["setup", "agents-md"]).code, 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), newer);
}

#[test]
fn what_a_person_edited_is_kept_unless_forced() {
    let stage = Stage::new();
    let file = agents_md(&stage);
    stage.run(&["setup", "agents-md"]);
    let edited = fs::read_to_string(&file)
        .unwrap()
        .replace("crash", "mishap");
    fs::write(&file, &edited).unwrap();
    for arguments in [
        &["setup", "agents-md"][..],
        &["setup", "agents-md", "--remove"],
    ] {
        let ran = stage.run(arguments);
        assert!(ran.code == 1 && ran.stderr.contains("--force"), "{ran:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), edited);
    }
    assert_eq!(stage.run(&["setup", "agents-md", "--force"]).code, 0);
    assert_eq!(stage.run(&["setup", "agents-md", "--check"]).code, 0);
}

#[test]
fn a_link_keeps_its_target_and_a_file_its_mode() {
    let stage = Stage::new();
    let target = stage.folder.path().join("work/CLAUDE.md");
    fs::write(&target, "text\n").unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).unwrap();
    symlink("CLAUDE.md", agents_md(&stage)).unwrap();
    assert_eq!(stage.run(&["setup", "agents-md"]).code, 0);
    assert!(
        fs::read_to_string(&target)
            .unwrap()
            .contains("relight:begin")
    );
    assert_eq!(fs::metadata(&target).unwrap().mode() & 0o777, 0o600);
    assert!(agents_md(&stage).is_symlink());
}

#[test]
fn files_that_cannot_be_understood_are_not_touched() {
    let stage = Stage::new();
    let file = agents_md(&stage);
    let two = block_of_version(0) + &block_of_version(0);
    let cases: [(&[u8], i32); 4] = [
        (b"<!-- relight:begin v1 0 -->\nno end\n", 65),
        (b"<!-- relight:end -->\n", 65),
        (two.as_bytes(), 65),
        (b"\xff\xfe#\0 \0T\0", 65),
    ];
    for (content, code) in cases {
        fs::write(&file, content).unwrap();
        for flag in ["--check", "--remove", "--force"] {
            let ran = stage.run(&["setup", "agents-md", flag]);
            assert_eq!(ran.code, code, "{ran:?}");
            assert_eq!(fs::read(&file).unwrap(), content);
        }
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(stage.run(&["setup", "agents-md"]).code, 74);
    assert_eq!(
        stage
            .run(&["setup", "agents-md", "--check", "--remove"])
            .code,
        2
    );
}

#[test]
fn the_skill_comes_and_goes_with_its_folder() {
    let stage = Stage::new();
    let file = skill(&stage);
    assert_eq!(stage.run(&["setup", "skill", "--check"]).code, 1);
    assert_eq!(stage.run(&["setup", "skill"]).code, 0);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("---\nname: restart-recovery\ndescription: "));
    assert_eq!(text, stage.run(&["setup", "skill", "--print"]).stdout);
    assert_eq!(stage.run(&["setup", "skill", "--check"]).code, 0);

    fs::write(&file, text + "mine\n").unwrap();
    assert_eq!(stage.run(&["setup", "skill", "--check"]).code, 1);
    assert_eq!(stage.run(&["setup", "skill"]).code, 1);
    assert_eq!(stage.run(&["setup", "skill", "--remove"]).code, 1);
    assert_eq!(
        stage.run(&["setup", "skill", "--remove", "--force"]).code,
        0
    );
    assert!(!file.parent().unwrap().exists());

    assert_eq!(
        stage
            .run(&["setup", "skill", "--dir", ".agents/skills"])
            .code,
        0
    );
    fs::write(
        stage
            .folder
            .path()
            .join("work/.agents/skills/restart-recovery/x"),
        "",
    )
    .unwrap();
    assert_eq!(
        stage
            .run(&["setup", "skill", "--dir", ".agents/skills", "--remove"])
            .code,
        0
    );
    assert!(
        stage
            .folder
            .path()
            .join("work/.agents/skills/restart-recovery/x")
            .exists()
    );
}

#[test]
fn the_client_itself_is_asked_what_it_still_wants() {
    let stage = Stage::new();
    let client = |answer: &str| {
        let program = stage.folder.path().join("bin/claude");
        fs::write(
            &program,
            format!("#!/bin/sh\necho \"$*\" > asked\n{answer}\n"),
        )
        .unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let check = |flags: &[&str]| stage.run(&[&["setup", "mcp", "--for", "claude"], flags].concat());
    let absent = check(&["--check"]);
    assert_eq!(absent.code, 1, "{absent:?}");
    assert!(
        absent.stdout.contains("does not have the entry"),
        "{absent:?}"
    );
    assert!(
        absent.stdout.contains("is not installed here"),
        "{absent:?}"
    );
    assert_eq!(check(&["--merge"]).code, 0);
    let alone = check(&["--check"]);
    assert_eq!(alone.code, 0, "{alone:?}");
    client("echo 'relight:'; echo '  Status: ⏸ Pending approval'");
    let pending = check(&["--check", "--json"]);
    assert_eq!(pending.code, 1, "{pending:?}");
    assert!(
        pending.stdout.contains("\"answer\": \"wants\""),
        "{pending:?}"
    );
    let asked = fs::read_to_string(stage.folder.path().join("work/asked")).unwrap();
    assert_eq!(asked, "mcp get relight\n");
    client("echo '  Status: ✔ Connected'");
    let ready = check(&["--check"]);
    assert_eq!(ready.code, 0, "{ready:?}");
    assert!(ready.stdout.contains("can use it"), "{ready:?}");
}

#[test]
fn no_password_is_written_into_a_file() {
    let stage = Stage::new();
    let with = |url: &str, words: &[&str]| stage.run(&[&["--store", url], words].concat());
    let file = stage.folder.path().join("work/.mcp.json");
    let merge = ["setup", "mcp", "--for", "claude", "--merge"];
    for words in [&merge[..], &["trap", "bash"]] {
        let refused = with("postgres://ann:s3cret@db/work", words);
        assert_eq!(refused.code, 78, "{refused:?}");
        assert!(refused.stderr.contains("PGPASSWORD"), "{refused:?}");
        assert!(!format!("{refused:?}").contains("s3cret"), "{refused:?}");
        assert!(!file.exists());
    }
    for words in [&merge[..], &["trap", "bash"]] {
        let written = with("postgres://ann@db/work", words);
        assert_eq!(written.code, 0, "{written:?}");
    }
    assert!(
        fs::read_to_string(&file)
            .unwrap()
            .contains("postgres://ann@db/work")
    );
}

#[test]
fn a_link_out_of_the_folder_is_not_written_through() {
    let stage = Stage::new();
    let target = stage.folder.path().join("elsewhere.md");
    fs::write(&target, "theirs\n").unwrap();
    symlink(&target, agents_md(&stage)).unwrap();
    for arguments in [
        &["setup", "agents-md"][..],
        &["setup", "agents-md", "--force"],
    ] {
        let ran = stage.run(arguments);
        assert!(
            ran.code == 78 && ran.stderr.contains("elsewhere.md"),
            "{ran:?}"
        );
        assert_eq!(fs::read_to_string(&target).unwrap(), "theirs\n");
    }
}

#[test]
fn hooks_are_merged_checked_and_removed() {
    let stage = Stage::new();
    let file = stage.folder.path().join("work/.claude/settings.json");
    fs::create_dir(file.parent().unwrap()).unwrap();
    let theirs = "{\n    // mine\n    \"model\": \"opus\"\n}\n";
    fs::write(&file, theirs).unwrap();
    let hooks = |more: &[&str]| stage.run(&[&["setup", "hooks", "--for", "claude"], more].concat());
    assert_eq!(hooks(&["--check"]).code, 1);
    let added = hooks(&[]);
    assert!(
        added.code == 0 && added.stdout.contains("8 hooks added"),
        "{added:?}"
    );
    let with = fs::read_to_string(&file).unwrap();
    assert!(
        with.contains("hook before-tool --for claude") && with.contains("// mine"),
        "{with}"
    );
    assert_eq!(hooks(&["--check"]).code, 0);
    assert!(hooks(&[]).stdout.contains("nothing to do"));
    assert_eq!(hooks(&["--remove"]).code, 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), theirs);
    fs::write(&file, "{").unwrap();
    assert_eq!(
        (hooks(&[]).code, fs::read_to_string(&file).unwrap().as_str()),
        (65, "{")
    );
    let users = stage.run(&["setup", "hooks", "--for", "kimi"]);
    assert_eq!(users.code, 0, "{users:?}");
    assert!(
        stage
            .folder
            .path()
            .join("user/.kimi-code/config.toml")
            .exists()
    );
}

#[test]
fn everything_for_an_agent_is_shown_first_and_then_set_up_at_once() {
    let stage = Stage::new();
    let work = stage.folder.path().join("work");
    let shown = stage.run(&["setup", "agent", "--for", "claude"]);
    assert_eq!(shown.code, 2, "{shown:?}");
    let files = [".claude/settings.json", ".mcp.json", "CLAUDE.md"];
    assert!(
        files.iter().all(|file| shown.stderr.contains(file)),
        "{shown:?}"
    );
    assert_eq!(
        fs::read_dir(&work).unwrap().count(),
        0,
        "nothing was written"
    );
    let done = stage.run(&["setup", "agent", "--for", "claude", "--yes"]);
    assert_eq!(done.code, 0, "{done:?}");
    let skill = ".claude/skills/restart-recovery/SKILL.md";
    assert!(
        files
            .iter()
            .chain([&skill])
            .all(|file| work.join(file).exists()),
        "{done:?}"
    );
    assert_eq!(
        stage
            .run(&["setup", "agent", "--for", "claude", "--yes"])
            .code,
        0,
        "again"
    );
}

#[test]
fn a_link_to_nothing_is_not_followed_by_setup_config() {
    let stage = Stage::new();
    let elsewhere = stage.folder.path().join("elsewhere");
    symlink(&elsewhere, stage.folder.path().join("work/relight.toml")).unwrap();
    let ran = stage.run(&["setup", "config"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(!elsewhere.exists(), "{ran:?}");
}

#[test]
fn a_daemon_without_a_configuration_says_what_writes_one() {
    let stage = Stage::new();
    let ran = stage.run(&["up"]);
    assert!(
        ran.code == 78 && ran.stderr.contains("try: relight init writes"),
        "{ran:?}"
    );
}

#[test]
fn the_block_goes_into_the_file_that_the_program_reads() {
    for (program, theirs, file) in [
        ("claude", None, "CLAUDE.md"),
        (
            "claude",
            Some(("CLAUDE.md", "# Ours\n@AGENTS.md\n")),
            "AGENTS.md",
        ),
        ("gemini", None, "GEMINI.md"),
        ("codex", None, "AGENTS.md"),
    ] {
        let stage = Stage::new();
        let work = stage.folder.path().join("work");
        if let Some((name, text)) = theirs {
            fs::write(work.join(name), text).unwrap();
        }
        assert_eq!(
            stage
                .run(&["setup", "agent", "--for", program, "--yes"])
                .code,
            0
        );
        assert!(
            fs::read_to_string(work.join(file))
                .unwrap()
                .contains("relight:begin")
        );
        let blocks = ["AGENTS.md", "CLAUDE.md", "GEMINI.md"].map(|name| work.join(name));
        let blocks = blocks
            .iter()
            .filter_map(|path| fs::read_to_string(path).ok());
        assert_eq!(
            blocks.filter(|text| text.contains("relight:begin")).count(),
            1,
            "{program}"
        );
        fs::write(work.join(file), block_of_version(0)).unwrap();
        let checked = stage
            .run(&["setup", "agents-md", "--file", file, "--check"])
            .stdout;
        let flag = if file == "AGENTS.md" {
            String::new()
        } else {
            format!(" --file {file}")
        };
        assert!(
            checked.contains(&format!("relight setup agents-md{flag} brings")),
            "{checked}"
        );
    }
}
