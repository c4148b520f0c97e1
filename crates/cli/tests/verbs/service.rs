//! `relight service`, from outside, with schedulers that only write down what they are told.

use crate::relight;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use relight::Stage;

fn script(stage: &Stage, name: &str, text: &str) {
    let path = stage.folder.path().join("bin").join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A user manager that answers, and keeps what it was asked.
fn with_systemd(stage: &Stage) -> PathBuf {
    let log = stage.folder.path().join("systemctl.log");
    script(
        stage,
        "systemctl",
        &format!("echo \"$@\" >> '{}'", log.display()),
    );
    log
}

fn without_systemd(stage: &Stage) {
    script(
        stage,
        "systemctl",
        "echo 'Failed to connect to bus' >&2; exit 1",
    );
}

/// A crontab in a file.
fn with_cron(stage: &Stage) -> PathBuf {
    let table = stage.folder.path().join("crontab.txt");
    let text = r#"table='TABLE'
case "$1" in
-l) if [ -e "$table" ]; then cat "$table"; else echo 'no crontab for somebody' >&2; exit 1; fi ;;
-) cat > "$table" ;;
esac"#;
    script(
        stage,
        "crontab",
        &text.replace("TABLE", table.to_str().unwrap()),
    );
    table
}

fn unit(stage: &Stage, name: &str) -> PathBuf {
    stage
        .folder
        .path()
        .join("user/.config/systemd/user")
        .join(name)
}

#[test]
fn systemd_units_are_written_enabled_and_removed() {
    let stage = Stage::new();
    let log = with_systemd(&stage);
    let ran = stage.run(&[
        "service", "install", "check", "--every", "5m", "--stale", "90s",
    ]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let service = fs::read_to_string(unit(&stage, "relight-check.service")).unwrap();
    let binary = env!("CARGO_BIN_EXE_relight");
    let home = stage.folder.path().join("home");
    let work = stage.folder.path().join("work");
    let start = format!(
        "ExecStart=\"{binary}\" check --stale 90s --root {} --log {}/check.log\n",
        work.display(),
        home.display()
    );
    assert!(service.contains(&start), "{service}");
    assert!(service.contains(&format!(
        "Environment=\"RELIGHT_HOME={}\"\n",
        home.display()
    )));
    let timer = fs::read_to_string(unit(&stage, "relight-check.timer")).unwrap();
    assert!(timer.contains("OnUnitActiveSec=300s\n"), "{timer}");
    let asked = fs::read_to_string(&log).unwrap();
    assert!(
        asked.contains("--user daemon-reload\n--user enable relight-check.timer\n"),
        "{asked}"
    );

    let again = stage.run(&[
        "service", "install", "check", "--every", "5m", "--stale", "90s",
    ]);
    assert!(
        again.code == 0 && again.stdout.contains("already"),
        "{again:?}"
    );
    let looked = stage.run(&["service", "remove", "check", "--print"]);
    assert!(looked.stdout.contains("would be removed"), "{looked:?}");
    assert!(unit(&stage, "relight-check.timer").exists());
    assert_eq!(stage.run(&["service", "remove", "check"]).code, 0);
    assert!(!unit(&stage, "relight-check.timer").exists());
    assert!(!unit(&stage, "relight-check.service").exists());
    assert!(
        fs::read_to_string(&log)
            .unwrap()
            .contains("--user disable --now relight-check.timer")
    );
    let nothing = stage.run(&["service", "remove", "check"]);
    assert!(
        nothing.code == 0 && nothing.stdout.contains("nothing"),
        "{nothing:?}"
    );
}

#[test]
fn without_a_manager_the_units_are_written_and_the_rest_is_to_be_typed() {
    let stage = Stage::new();
    without_systemd(&stage);
    let ran = stage.run(&["service", "install", "check", "--systemd"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.stderr
            .contains("type: systemctl --user enable --now relight-check.timer")
    );
    assert!(unit(&stage, "relight-check.service").exists());
}

#[test]
fn a_unit_of_somebody_else_is_left_alone() {
    let stage = Stage::new();
    with_systemd(&stage);
    let path = unit(&stage, "relight-check.service");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "[Service]\n").unwrap();
    assert_eq!(stage.run(&["service", "install", "check"]).code, 1);
    assert_eq!(stage.run(&["service", "remove", "check"]).code, 1);
    assert_eq!(fs::read_to_string(&path).unwrap(), "[Service]\n");
}

#[test]
fn cron_gets_one_marked_line_among_the_others() {
    let stage = Stage::new();
    without_systemd(&stage);
    let table = with_cron(&stage);
    fs::write(&table, "MAILTO=me\n0 4 * * * backup\n").unwrap();
    assert_eq!(stage.run(&["service", "install", "check"]).code, 0);
    assert_eq!(
        stage
            .run(&["service", "install", "check", "--every", "1h"])
            .code,
        0
    );
    let text = fs::read_to_string(&table).unwrap();
    assert!(
        text.starts_with("MAILTO=me\n0 4 * * * backup\n0 * * * * RELIGHT_HOME="),
        "{text}"
    );
    assert_eq!(text.matches("# relight:check\n").count(), 1, "{text}");
    assert_eq!(stage.run(&["service", "remove", "check"]).code, 0);
    assert_eq!(
        fs::read_to_string(&table).unwrap(),
        "MAILTO=me\n0 4 * * * backup\n"
    );
}

#[test]
fn a_first_crontab_is_made() {
    let stage = Stage::new();
    let table = with_cron(&stage);
    assert_eq!(
        stage.run(&["service", "install", "check", "--cron"]).code,
        0
    );
    assert!(
        fs::read_to_string(&table)
            .unwrap()
            .ends_with("# relight:check\n")
    );
}

#[test]
fn a_crontab_that_cannot_be_read_is_not_replaced() {
    let stage = Stage::new();
    let trace = stage.folder.path().join("written");
    let text = format!(
        "[ \"$1\" = - ] && touch '{}'; echo 'not allowed' >&2; exit 1",
        trace.display()
    );
    script(&stage, "crontab", &text);
    let ran = stage.run(&["service", "install", "check", "--cron"]);
    assert!(
        ran.code == 69 && ran.stderr.contains("not allowed"),
        "{ran:?}"
    );
    assert!(!trace.exists());
}

#[test]
fn without_cron_it_is_unreachable() {
    let stage = Stage::new();
    let mut command = stage.command(&["service", "install", "check", "--cron"]);
    let ran = relight::finish(command.env("PATH", "/nowhere").spawn().unwrap());
    assert!(ran.code == 69 && ran.stderr.contains("no cron"), "{ran:?}");
    let mut command = stage.command(&["service", "install", "check"]);
    let ran = relight::finish(command.env("PATH", "/nowhere").spawn().unwrap());
    assert_eq!(ran.code, 69, "neither answers: {ran:?}");
}

#[test]
fn printing_writes_nothing_and_paths_are_quoted_for_each_format() {
    let stage = Stage::new();
    let odd = "a b&c%d$e'f";
    fs::create_dir(stage.folder.path().join("work").join(odd)).unwrap();
    let print = |scheduler: &str| {
        let ran = stage.run(&[
            "service", "install", "check", scheduler, "--print", "--root", odd,
        ]);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.stdout
    };
    assert!(print("--systemd").contains("a b&c%%d$$e'f\""));
    assert!(print("--cron").contains(r"a b&c\%d$e'\''f'"));
    let plist = print("--launchd");
    assert!(
        plist.starts_with("<?xml") && plist.contains("a b&amp;c%d$e'f</string>"),
        "{plist}"
    );
    assert_eq!(
        fs::read_dir(stage.folder.path().join("user"))
            .unwrap()
            .count(),
        0
    );
    assert!(!stage.folder.path().join("home").exists());
}

/// The words that cron's shell makes of the line are those that were meant.
#[test]
fn the_line_of_cron_says_to_the_shell_what_was_meant() {
    let stage = Stage::new();
    let odd = "it's 100% $HOME `x`";
    fs::create_dir(stage.folder.path().join("work").join(odd)).unwrap();
    let ran = stage.run(&[
        "service", "install", "check", "--cron", "--print", "--root", odd,
    ]);
    let line = ran.stdout.strip_prefix("*/10 * * * * ").unwrap();
    let line = line
        .replace(r"\%", "%")
        .replace(env!("CARGO_BIN_EXE_relight"), "printf '%s\\n'");
    let said = shell(
        &line.replace(">/dev/null", ""),
        &stage.folder.path().join("work"),
    );
    assert!(said.lines().any(|word| word.ends_with(odd)), "{said}");
}

#[expect(clippy::disallowed_methods, reason = "stands for cron's shell")]
fn shell(line: &str, folder: &Path) -> String {
    let done = std::process::Command::new("sh")
        .args(["-c", line])
        .current_dir(folder)
        .output();
    String::from_utf8(done.unwrap().stdout).unwrap()
}

#[test]
fn wrong_usage_is_told() {
    let stage = Stage::new();
    with_cron(&stage);
    for arguments in [
        &["service", "install", "check", "--cron", "--every", "7m"][..],
        &["service", "install", "check", "--every", "10s"],
        &["service", "install", "check", "--every", "soon"],
        &["service", "install", "check", "--root", "nowhere"],
        &["service", "install", "check", "--systemd", "--cron"],
        &["service", "install", "something"],
        &["service", "install"],
    ] {
        let ran = stage.run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?} {ran:?}");
    }
    let ran = stage.run(&[
        "--store", "memory:", "service", "install", "check", "--print",
    ]);
    assert_eq!(ran.code, 78, "{ran:?}");
}

#[test]
fn launchd_gets_a_file_that_is_called_untested() {
    let stage = Stage::new();
    let ran = stage.run(&["service", "install", "check", "--launchd"]);
    assert!(ran.code == 0 && ran.stderr.contains("untested"), "{ran:?}");
    let plist = stage
        .folder
        .path()
        .join("user/Library/LaunchAgents/relight.check.plist");
    assert!(plist.exists());
    assert_eq!(
        stage.run(&["service", "remove", "check", "--launchd"]).code,
        0
    );
    assert!(!plist.exists());
}

#[test]
fn the_daemon_is_written_enabled_started_and_removed() {
    let stage = Stage::new();
    let log = with_systemd(&stage);
    let work = stage.folder.path().join("work");
    fs::write(work.join("relight.toml"), "").unwrap();
    let ran = stage.run(&["service", "install", "daemon"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let text = fs::read_to_string(unit(&stage, "relight.service")).unwrap();
    let start = format!(
        "ExecStart=\"{}\" up --config {}/relight.toml\n",
        env!("CARGO_BIN_EXE_relight"),
        work.display()
    );
    assert!(text.contains(&start), "{text}");
    for line in [
        "Type=notify",
        "Restart=always",
        "KillMode=process",
        "Delegate=yes",
    ] {
        assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
    }
    let asked = fs::read_to_string(&log).unwrap();
    let expected =
        "--user daemon-reload\n--user enable relight.service\n--user start relight.service\n";
    assert!(
        asked.contains(expected) && !asked.contains("restart"),
        "{asked}"
    );

    let again = stage.run(&["service", "install", "daemon"]);
    assert!(
        again.code == 0 && again.stdout.contains("already"),
        "{again:?}"
    );
    assert_eq!(stage.run(&["service", "remove", "check"]).code, 0);
    assert!(
        unit(&stage, "relight.service").exists(),
        "the check is not the daemon"
    );
    assert_eq!(stage.run(&["service", "remove", "daemon"]).code, 0);
    assert!(!unit(&stage, "relight.service").exists());
    assert!(
        fs::read_to_string(&log)
            .unwrap()
            .contains("--user disable --now relight.service")
    );
}

/// systemd itself reads the units that are written, with odd names in them.
#[test]
fn systemd_takes_the_units_as_they_are_meant() {
    let stage = Stage::new();
    let odd = stage.folder.path().join("work/a b%c$d");
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join("relight.toml"), "").unwrap();
    without_systemd(&stage);
    let config = "a b%c$d/relight.toml";
    let daemon = [
        "service",
        "install",
        "daemon",
        "--systemd",
        "--config",
        config,
    ];
    assert_eq!(stage.run(&daemon).code, 0);
    assert_eq!(
        stage
            .run(&["service", "install", "check", "--systemd"])
            .code,
        0
    );
    for name in [
        "relight.service",
        "relight-check.service",
        "relight-check.timer",
    ] {
        let file = unit(&stage, name).display().to_string();
        let line = format!("systemd-analyze --man=no verify '{file}' 2>&1; echo \"code $?\"");
        let said = shell(&line, stage.folder.path());
        if said.contains("not found") {
            eprintln!("SKIPPED: there is no systemd-analyze here");
            return;
        }
        let about_ours: Vec<&str> = said
            .lines()
            .filter(|line| line.contains("relight"))
            .collect();
        assert!(said.contains("code 0") && about_ours.is_empty(), "{said}");
    }
}

#[test]
fn cron_starts_the_daemon_with_the_host() {
    let stage = Stage::new();
    let table = with_cron(&stage);
    assert_eq!(
        stage.run(&["service", "install", "check", "--cron"]).code,
        0
    );
    let ran = stage.run(&["service", "install", "daemon", "--cron"]);
    assert!(
        ran.code == 0 && ran.stderr.contains("stays dead"),
        "{ran:?}"
    );
    let text = fs::read_to_string(&table).unwrap();
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("@reboot RELIGHT_HOME="), "{text}");
    assert!(last.ends_with(" up >/dev/null # relight:daemon"), "{text}");
    assert_eq!(stage.run(&["service", "remove", "daemon"]).code, 0);
    let text = fs::read_to_string(&table).unwrap();
    assert!(
        text.ends_with("# relight:check\n") && text.lines().count() == 1,
        "{text}"
    );
}

#[test]
fn printing_the_daemon_writes_nothing() {
    let stage = Stage::new();
    let plist = stage
        .run(&["service", "install", "daemon", "--launchd", "--print"])
        .stdout;
    assert!(plist.contains("<string>relight.daemon</string>"), "{plist}");
    assert!(
        plist.contains("<key>KeepAlive</key>") && plist.contains("Untested"),
        "{plist}"
    );
    let unit = stage
        .run(&["service", "install", "daemon", "--systemd", "--print"])
        .stdout;
    assert!(
        unit.starts_with("# Written by `relight service install daemon`.\n[Unit]"),
        "{unit}"
    );
    assert_eq!(
        fs::read_dir(stage.folder.path().join("user"))
            .unwrap()
            .count(),
        0
    );
    let ran = stage.run(&[
        "service",
        "install",
        "daemon",
        "--print",
        "--config",
        "nowhere.toml",
    ]);
    assert!(
        ran.code == 2 && ran.stderr.contains("no such file"),
        "{ran:?}"
    );
}
