//! The documented exit codes of what goes wrong outside.

use crate::cases;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use cases::Place;

/// A place whose store has a task, with nothing of it only in the log.
fn with_store() -> Place {
    let place = Place::new();
    place.ok("task add t");
    let database = rusqlite::Connection::open(place.home("relight.db")).expect("it opens");
    let emptied = database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    emptied.expect("the log is emptied");
    place
}

/// Verbs that read and verbs that write.
const VERBS: [&str; 7] = [
    "task list",
    "task show t",
    "task add u",
    "task start t",
    "step list --task t",
    "checkpoint list",
    "check",
];

#[track_caller]
fn says_damaged(place: &Place) {
    let before = place.picture("home").remove(&place.home("relight.db"));
    let path = place.home("relight.db").display().to_string();
    for verb in VERBS {
        let answer = place.relight(verb).run().with_code(65);
        assert!(answer.stdout.is_empty(), "{verb}: {}", answer.text());
        answer.says(&[&path, "relight doctor --salvage"]);
    }
    let after = place.picture("home").remove(&place.home("relight.db"));
    assert_eq!(after, before, "a damaged store is left as it is");
}

#[test]
fn a_store_of_garbage_is_65() {
    let place = with_store();
    fs::write(
        place.home("relight.db"),
        b"not a database, but long enough to be one".repeat(200),
    )
    .unwrap();
    says_damaged(&place);
}

#[test]
fn a_truncated_store_is_65() {
    let place = with_store();
    let bytes = fs::read(place.home("relight.db")).unwrap();
    fs::write(place.home("relight.db"), &bytes[..bytes.len() / 2]).unwrap();
    says_damaged(&place);
}

#[test]
fn an_empty_store_file_is_65() {
    let place = with_store();
    fs::write(place.home("relight.db"), "").unwrap();
    says_damaged(&place);
}

#[test]
fn a_zero_filled_store_is_65() {
    let place = with_store();
    let length = fs::metadata(place.home("relight.db")).unwrap().len();
    fs::write(place.home("relight.db"), vec![0; length as usize]).unwrap();
    says_damaged(&place);
}

#[test]
fn a_store_that_is_gone_while_its_log_is_there_is_65() {
    let place = Place::new();
    place.ok("task add t");
    assert!(fs::metadata(place.home("relight.db-wal")).unwrap().len() > 0);
    fs::remove_file(place.home("relight.db")).unwrap();
    says_damaged(&place);
    assert!(
        !place.home("relight.db").exists(),
        "no empty start over a lost store"
    );
}

#[test]
fn a_database_of_somebody_else_is_65() {
    let place = with_store();
    fs::remove_file(place.home("relight.db")).unwrap();
    let database = rusqlite::Connection::open(place.home("relight.db")).unwrap();
    database.execute_batch("CREATE TABLE notes (text)").unwrap();
    drop(database);
    says_damaged(&place);
}

#[test]
fn pages_overwritten_in_the_middle_are_65_and_never_an_empty_answer() {
    let place = with_store();
    let mut bytes = fs::read(place.home("relight.db")).unwrap();
    let length = bytes.len();
    bytes[4096..length].fill(0xaa);
    fs::write(place.home("relight.db"), bytes).unwrap();
    for verb in ["task list", "task show t", "check"] {
        place.fails(verb, 65).says(&["relight doctor --salvage"]);
    }
}

#[test]
fn a_newer_schema_is_65_and_asks_for_a_newer_relight() {
    let place = with_store();
    let database = rusqlite::Connection::open(place.home("relight.db")).unwrap();
    database.pragma_update(None, "user_version", 9_999).unwrap();
    drop(database);
    for verb in VERBS {
        let path = place.home("relight.db").display().to_string();
        place.fails(verb, 65).says(&[&path, "version of relight"]);
    }
}

/// As somebody for whom permissions count: `nobody` when this is root.
fn unprivileged(place: &Place, words: &str) -> cases::Answer {
    let call = place.relight(words);
    if rustix::process::geteuid().is_root() {
        call.by_nobody().run()
    } else {
        call.run()
    }
}

#[test]
fn a_home_that_cannot_be_written_is_74() {
    let place = with_store();
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(place.path("home"), fs::Permissions::from_mode(0o555)).unwrap();
    for file in place.picture("home").into_keys() {
        fs::set_permissions(file, fs::Permissions::from_mode(0o444)).unwrap();
    }
    for verb in ["task add u", "task start t", "step begin s --task t"] {
        unprivileged(&place, verb)
            .with_code(74)
            .says(&["relight.db"]);
    }
    fs::set_permissions(place.path("home"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(
        place.json("task list")["items"].as_array().unwrap().len(),
        1
    );
}

#[test]
fn a_store_that_was_read_only_for_a_while_is_usable_again() {
    let place = with_store();
    let files = ["relight.db", "relight.db-wal", "relight.db-shm"].map(|name| place.home(name));
    let chmod = |file: &Path, mode| {
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    };
    if rustix::process::geteuid().is_root() {
        chmod(&place.path(""), 0o755);
        let all = place.picture("home").into_keys();
        for file in all.chain([place.path("home")]) {
            std::os::unix::fs::chown(file, Some(65_534), None).unwrap();
        }
    }
    // As SQLite makes them beside a store that is 0400.
    for file in &files {
        fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(file)
            .unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(file, Some(65_534), None).unwrap();
        }
        chmod(file, 0o400);
    }
    unprivileged(&place, "task add u").with_code(74);
    chmod(&files[0], 0o600);
    unprivileged(&place, "task add u").with_code(0);
    for file in files.iter().filter(|file| file.exists()) {
        let mode = fs::metadata(file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.display());
    }
}

#[test]
fn a_home_that_cannot_be_made_is_74() {
    let place = Place::new();
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o555)).unwrap();
    unprivileged(&place, "task add t")
        .with_code(74)
        .says(&["RELIGHT_HOME", "--home DIR"]);
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let file = place.work("a-file");
    fs::write(&file, "").unwrap();
    let call = place
        .relight("task add t")
        .env("RELIGHT_HOME", file.to_str().unwrap());
    call.run().with_code(74);
}

#[test]
fn init_in_a_folder_that_cannot_be_written_is_74() {
    let place = Place::new();
    for folder in ["", "work"] {
        fs::set_permissions(place.path(folder), fs::Permissions::from_mode(0o555)).unwrap();
    }
    let refused = unprivileged(&place, "init --yes").with_code(74);
    let folder = place.path("work").canonicalize().unwrap();
    refused.says(&[
        &folder.join("relight.toml").display().to_string(),
        "ermission denied",
        &format!("ls -ld {}", folder.display()),
    ]);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    // Half of a file is not left, either.
    let limited = "(ulimit -f 0; trap '' XFSZ; relight init --yes 2>&1; echo code $?) | cat";
    let text = place.shell(limited).run().text();
    assert!(text.ends_with("code 74\n"), "{text}");
    assert!(!place.work("relight.toml").exists(), "{text}");
}

#[test]
fn a_full_disk_is_74_and_the_last_good_state_is_intact() {
    let place = with_store();
    let before = place.json("task show t")["seq"].clone();
    let limited = "(ulimit -f 0; trap '' XFSZ; relight task set t a=b 2>&1; echo code $?) | cat";
    let text = place.shell(limited).run().text();
    assert!(
        text.contains("nothing was saved") && text.ends_with("code 74\n"),
        "{text}"
    );
    assert_eq!(place.json("task show t")["seq"], before);
    place.ok("task set t a=b");
}

/// Not 78, after which a service is not started again: the disk may have room later.
#[test]
fn a_token_that_cannot_be_read_or_written_is_74_for_every_verb() {
    for kind in ["a lock that cannot be taken", "a link", "a pipe"] {
        let place = with_store();
        let made = match kind {
            "a link" => "ln -s elsewhere ../home/token",
            "a pipe" => "mkfifo ../home/token",
            _ => "mkdir ../home/tokens.lock",
        };
        place.shell(made).run().with_code(0);
        fs::write(place.work("relight.toml"), "").unwrap();
        for words in ["token show", "up", "up -d"] {
            let ran = place.relight(words).run().with_code(74);
            assert!(ran.stderr.contains("cannot use"), "{kind}: {}", ran.stderr);
        }
    }
}

#[test]
fn a_bad_flag_is_2_and_says_so_on_standard_error() {
    let place = Place::new();
    for words in [
        "--nonsense",
        "task",
        "nonsense",
        "task list --nonsense",
        "step run",
        "",
    ] {
        let answer = place.relight(words).run().with_code(2);
        assert!(
            answer.stdout.is_empty() && !answer.stderr.is_empty(),
            "{words}"
        );
    }
    assert!(!place.path("home").exists());
}

/// Bad input: what is typed, what is said of it, and what to type instead.
const BAD: &[(&str, i32, &str, &str)] = &[
    ("task add a --priority high", 2, "write a whole number", ""),
    (
        "task add a --max-retries -1",
        2,
        "'--max-retries': it must not be negative",
        "",
    ),
    (
        "task add a --max-retries=-1",
        2,
        "write 0 to 4294967295",
        "",
    ),
    (
        "task add a --ttl -5s",
        2,
        "'--ttl': it must not be negative",
        "",
    ),
    (
        "run ./x.sh --fast",
        2,
        "'./x.sh'",
        "put -- before the command: relight run -- ./x.sh --fast",
    ),
    (
        "step run build make",
        2,
        "'make'",
        "relight step run build -- make",
    ),
    (
        "token new",
        2,
        "<--read-only|--operate>",
        "token new <--read-only|--operate>",
    ),
    ("task start t --lease 0s", 2, "longer than 0s", ""),
    ("session begin s --id c --lease 0s", 2, "longer than 0s", ""),
    (
        "task defer t --until 2020-01-01T00:00:00Z",
        2,
        "in the past",
        "",
    ),
    (
        "beat --waiting-until 2020-01-01T00:00:00Z",
        2,
        "in the past",
        "",
    ),
    ("events -n 0", 2, "-n 0 shows nothing", "add -f"),
    ("logs a -n 0", 2, "-n 0 shows nothing", "add -f"),
    (
        "task done t --fence 99",
        77,
        "fence 99 was never given out, the newest is 0",
        "RELIGHT_FENCE",
    ),
    (
        "recover t --resume",
        1,
        "task t is created: there is nothing to recover",
        "task start t",
    ),
    (
        "task list --store sqlite:typo/x.db",
        78,
        "there is no folder ./typo",
        "mkdir -p ./typo",
    ),
    (
        "task list --home typo/home",
        78,
        "there is no folder typo for the home",
        "mkdir -p typo",
    ),
    (
        "store copy sqlite:x.db sqlite:typo/x.db",
        78,
        "there is no folder ./typo",
        "mkdir",
    ),
    (
        "task list --store sqlite:/dev/zero",
        78,
        "it is not a regular file",
        "",
    ),
    (
        "checkpoint start --workflow w --agent a --step s --idempotency k --dir typo/mem",
        2,
        "there is no folder typo",
        "mkdir -p typo",
    ),
    (
        "setup skill --dir typo/skills",
        2,
        "there is no folder typo",
        "",
    ),
    ("man --dir typo/man1", 2, "there is no folder typo", ""),
    (
        "setup config --file typo/relight.toml",
        2,
        "there is no folder typo",
        "",
    ),
    (
        "session export typo/agents.json",
        2,
        "there is no folder typo",
        "",
    ),
    (
        "check --log typo/check.log",
        2,
        "there is no folder typo",
        "",
    ),
    (
        "step run s --task u -- ./no-such-program",
        127,
        "cannot start ./no-such-program",
        "",
    ),
    (
        "step run s --task u -- ./plain",
        126,
        "cannot start ./plain",
        "",
    ),
    (
        "step run s --task u -- ./no-interpreter",
        126,
        "cannot start ./no-interpreter",
        "",
    ),
    (
        "run --name a -- ./no-such-program",
        127,
        "there is no program ./no-such-program",
        "",
    ),
    (
        "run --name a -- ./plain",
        126,
        "./plain may not be executed",
        "",
    ),
    ("nonsense", 2, "unrecognized subcommand 'nonsense'", ""),
    (
        "task list --home /dev/null",
        74,
        "the home /dev/null is not a folder",
        "--home DIR, a folder of your own",
    ),
    (
        "task show a,b/c",
        1,
        "there is no task",
        "allowed are A-Z a-z 0-9 . _ : @ / -",
    ),
    (
        "logs --grep [",
        2,
        "it is not a regular expression: found unclosed character class",
        "",
    ),
    (
        "run --tokens-max 99999999999999999999 -- true",
        2,
        "write 0 to 9223372036854775807",
        "",
    ),
    (
        "run --tokens-max 9999999999999999999 -- true",
        2,
        "write 0 to 9223372036854775807",
        "",
    ),
    ("ps --all nobody", 1, "there is no agent nobody", ""),
];

#[test]
fn bad_input_says_what_is_wrong_and_what_to_type() {
    let place = Place::new();
    place.ok("task add t");
    place.ok("task start u");
    fs::write(place.work("plain"), "no program").unwrap();
    let script = place.work("no-interpreter");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    place
        .fails("run --name b --restart never -- ./no-interpreter", 126)
        .says(&["interpreter"]);
    for (words, code, message, hint) in BAD {
        place.fails(words, *code).says(&[message, hint]);
        assert!(!place.work("typo").exists(), "{words} made a folder");
        // The same as JSON: one document on standard error, whatever went wrong.
        let answer = place
            .relight("--json")
            .args(words.split(' '))
            .run()
            .with_code(*code);
        // What is asked of several tasks is answered for each of them.
        let is_of_many = words.starts_with("recover");
        let error = if is_of_many {
            answer.json()["tasks"][0]["error"].clone()
        } else {
            answer.error()
        };
        assert_eq!(error["exit"], *code, "{words}: {error}");
        for (part, wanted) in [("message", message), ("hint", hint)] {
            let said = error[part].as_str().unwrap_or_default();
            assert!(
                said.contains(wanted),
                "{words}: {wanted:?} is not in {error}"
            );
        }
    }
    let usage = place.fails("--json task add", 2).error();
    assert_eq!(
        (&usage["code"], &usage["status"]),
        (&"invalid".into(), &422.into())
    );
    place
        .relight("task done t")
        .env("RELIGHT_FENCE", "99")
        .run()
        .with_code(77);
    place
        .relight("task done t")
        .env("RELIGHT_FENCE", "x")
        .run()
        .with_code(2)
        .says(&["RELIGHT_FENCE"]);
}

#[test]
fn help_and_version_are_0_on_standard_output() {
    let place = Place::new();
    for words in [
        "--help",
        "--version",
        "task --help",
        "step run --help",
        "help checkpoint",
    ] {
        let answer = place.ok(words);
        assert!(
            !answer.stdout.is_empty() && answer.stderr.is_empty(),
            "{words}"
        );
    }
}

#[test]
fn no_home_at_all_is_78() {
    let place = Place::new();
    let call = place
        .relight("task list")
        .without("HOME")
        .without("RELIGHT_HOME");
    call.run()
        .with_code(78)
        .says(&["HOME", "RELIGHT_HOME", "--home"]);
}

#[test]
fn the_home_is_found_in_the_documented_order() {
    let place = Place::new();
    let base = || place.relight("task add t").without("RELIGHT_HOME");
    base().run().with_code(0);
    assert!(place.path("user/.local/state/relight/relight.db").exists());
    let state = place.path("state").display().to_string();
    base().env("XDG_STATE_HOME", &state).run().with_code(0);
    assert!(place.path("state/relight/relight.db").exists());
    place
        .relight("task add t")
        .env("XDG_STATE_HOME", &state)
        .run()
        .with_code(0);
    assert!(place.home("relight.db").exists());
    let flag = place.path("flag").display().to_string();
    place
        .relight("task add t --home")
        .arg(&flag)
        .run()
        .with_code(0);
    assert!(place.path("flag/relight.db").exists());
}

#[test]
fn the_store_is_found_in_the_documented_order() {
    let place = Place::new();
    let url = |name: &str| format!("sqlite:{}", place.path(name).display());
    place
        .relight("task add t")
        .env("RELIGHT_STORE", &url("env.db"))
        .run()
        .with_code(0);
    assert!(place.path("env.db").exists());
    let call = place.relight("task add t --store").arg(&url("flag.db"));
    call.env("RELIGHT_STORE", &url("env2.db"))
        .run()
        .with_code(0);
    assert!(place.path("flag.db").exists() && !place.path("env2.db").exists());
}

#[test]
fn a_store_url_that_is_none_is_78() {
    let place = Place::new();
    for url in [
        "redis://h",
        "sqlite:",
        "sqlite::memory:",
        "relight.db",
        "nonsense",
    ] {
        place
            .relight("task list --store")
            .arg(url)
            .run()
            .with_code(78)
            .says(&["sqlite:PATH"]);
        place
            .relight("task list")
            .env("RELIGHT_STORE", url)
            .run()
            .with_code(78);
    }
}

#[test]
fn a_home_whose_name_is_not_text_is_not_passed_over() {
    let place = Place::new();
    place
        .shell(r#"RELIGHT_HOME="$PWD/h$(printf '\377')" relight task add t"#)
        .run();
    assert!(!place.path("user").exists());
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let place = Place::new();
    for n in 0..30 {
        place.ok(&format!("task add task-{n} --title {}", "x".repeat(1000)));
    }
    for words in [
        "task list",
        "task list --json",
        "task states",
        "--help",
        "check --stale 0s",
    ] {
        let mut running = place.relight(words).spawn();
        running.close_output();
        let answer = running.end();
        assert!(
            !answer.stderr.contains("panic"),
            "{words}: {}",
            answer.stderr
        );
        assert!(
            ![70, 101, 134].contains(&answer.code),
            "{words}: {}",
            answer.code
        );
    }
}

#[test]
fn a_full_standard_error_is_no_panic() {
    Place::new()
        .shell("relight task show nobody 2>/dev/full")
        .run()
        .with_code(1);
}

#[test]
fn an_answer_that_cannot_be_written_is_not_0() {
    Place::new()
        .shell("relight task start t --json >/dev/full")
        .run()
        .with_code(74);
}

#[test]
fn a_closed_standard_error_is_no_panic() {
    let place = Place::new();
    place
        .shell("relight task show nobody 2>&-")
        .run()
        .with_code(1);
    place
        .shell("relight task show nobody >&- 2>&-")
        .run()
        .with_code(1);
}

#[test]
fn an_error_is_named_for_programs() {
    let place = Place::new();
    place.ok("task add t");
    let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    for (words, code, exit, status) in [
        ("token revoke nobody", "not_found", 1, 404),
        ("presets show nothing", "not_found", 1, 404),
        ("deaths nobody", "not_found", 1, 404),
        ("trust --remove relight.toml", "not_found", 1, 404),
        ("task show none", "not_found", 1, 404),
        ("checkpoint resume", "nothing", 1, 409),
        ("checkpoint resume --workflow w", "not_found", 1, 404),
        ("task done t", "illegal", 1, 409),
        (&format!("task add {secret}"), "invalid", 2, 422),
    ] {
        let error = place
            .relight("--json")
            .args(words.split(' '))
            .run()
            .with_code(exit)
            .error();
        let told = (&error["code"], &error["exit"], &error["status"]);
        assert_eq!(
            told,
            (&code.into(), &exit.into(), &status.into()),
            "{words}: {error}"
        );
    }
    place.ok("task cancel t");
    let nothing = place.fails("--json task claim --agent a", 1).error();
    assert_eq!(nothing["code"], "nothing");
}

#[test]
fn texts_that_are_too_long_are_refused_and_not_repeated() {
    let place = Place::new();
    let long = "x".repeat(70_000);
    let name = format!("token new --read-only --name {long}");
    place
        .fails(&name, 65)
        .says(&["name of the token", "at most 200"]);
    let told = place.fails(&format!("task add {long}"), 2).stderr;
    assert!(told.len() < 1_000, "{} bytes", told.len());
    let run = format!("run --name a -- true {long} {long}");
    place.fails(&run, 65).says(&["command", "at most 131072"]);
}

#[test]
fn a_store_that_this_user_may_not_write_is_a_matter_of_permission() {
    let place = Place::new();
    place.ok("task add t");
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can act as another user");
        return;
    }
    for folder in ["", "home", "work"] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(place.path(folder), mode).unwrap();
    }
    let told = place
        .relight("task add u")
        .by_nobody()
        .run()
        .with_code(74)
        .stderr;
    assert!(
        told.contains("ermission denied") && told.contains("RELIGHT_HOME"),
        "{told}"
    );
}
