//! What a configuration means, and how its mistakes are told.

use std::ffi::OsString;
use std::path::Path;

use relight_core::agent::RestartRule;
use relight_core::time::Span;
use relight_runtime::hooks::ToolRules;
use relight_runtime::os::word::Word;
use relight_runtime::presets::Preset;

use super::{AgentConfig, Config, Source};
use crate::exit::{Exit, Failure};

const AGENT: &str = "[[agent]]\nname = \"a\"\ncommand = [\"true\"]\n";

fn parse(text: &str) -> Config {
    read(text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn read(text: &str) -> Result<Config, String> {
    let file = Path::new("relight.toml");
    Config::parse(text, file, &Preset::names(None)).map_err(|error| error.to_string())
}

fn mistakes(text: &str) -> String {
    read(text).unwrap_err()
}

fn agent(lines: &str) -> AgentConfig {
    parse(&format!("{AGENT}{lines}")).agents.remove(0)
}

#[test]
fn programs_that_embed_relight_have_the_default_rules_of_tools() {
    assert_eq!(Config::tool_rules_of(""), ToolRules::usual());
}

#[test]
fn the_example_of_the_contract_is_read() {
    let config = parse(
        r#"
        [store]
        url = "sqlite:relight.db"
        [recovery]
        strategy     = "fail-and-reassign"
        max_attempts = 5
        cooldown     = "30s"
        silence_max  = "0s"
        [sessions]
        policy    = "suspend"
        freshness = "1h"
        window    = "120s"
        [[agent]]
        name    = "writer"
        command = ["./agents/writer.sh"]
        preset  = "generic"
        restart = "always"
        cooldown = "5s"
        [alert]
        command = ["notify-send", "relight"]
        webhook = "https://example.org"
        "#,
    );
    let plan = config.agents[0].plan();
    assert_eq!(plan.policy.max_attempts, 5);
    assert_eq!(plan.policy.cooldown, Span::from_secs(5));
    assert_eq!(plan.silence_max, None);
    assert_eq!(plan.restart, RestartRule::Always);
    assert_eq!(plan.command, ["./agents/writer.sh"]);
}

#[test]
fn all_mistakes_are_told_at_once_with_their_places() {
    let text = r#"[recovery]
cooldwn = "60s"
silence_max = 180
strategy = "resumee"

[[agent]]
name = "a b"
command = "claude -p hello"
preset = "claude"
stop = [{ signal = "TREM" }]

[[agents]]
name = "x"
"#;
    insta::assert_snapshot!(mistakes(text), @r#"
    relight.toml:2:1: unknown key `cooldwn` in [recovery]
      2 | cooldwn = "60s"
        | ^^^^^^^ did you mean `cooldown`?

    relight.toml:3:15: `silence_max` in [recovery] is a number
      3 | silence_max = 180
        |               ^^^ expected a duration in quotes, such as "90s" or "10m"

    relight.toml:4:12: bad `strategy` in [recovery]
      4 | strategy = "resumee"
        |            ^^^^^^^^^ did you mean `resume`?

    relight.toml:7:8: bad `name` in [[agent]]
      7 | name = "a b"
        |        ^^^^^ agent name "a b" has the character ' '; allowed are A-Z a-z 0-9 . _ : @ / -

    relight.toml:8:11: bad `command` in [[agent]]
      8 | command = "claude -p hello"
        |           ^^^^^^^^^^^^^^^^^ write an array: command = ["claude", "-p", "hello"]

    relight.toml:9:10: bad `preset` in [[agent]]
      9 | preset = "claude"
        |          ^^^^^^^^ there is no such preset; did you mean `claude-code`?

    relight.toml:10:20: bad `signal` in [[stop]]
      10 | stop = [{ signal = "TREM" }]
         |                    ^^^^^^ there is no such signal; write INT, TERM, HUP or the like

    relight.toml:12:3: unknown key `agents` in the file
      12 | [[agents]]
         |   ^^^^^^ did you mean `agent`?
    "#);
}

#[test]
fn a_limit_of_0s_is_no_limit() {
    let config = parse("[alert]\ntimeout = \"0s\"\n[recovery]\nexec_timeout = \"0s\"\n");
    assert!(config.alert.timeout > Span::from_secs(24 * 60 * 60));
}

#[test]
fn a_mistake_in_the_grammar_is_told_with_its_place() {
    insta::assert_snapshot!(mistakes("[store]\nurl = sqlite\n[log\n"), @r#"
    relight.toml:2:7: string values must be quoted, expected literal string
      2 | url = sqlite
        |       ^^^^^^

    relight.toml:3:5: unclosed table, expected `]`
      3 | [log
        |     ^
    "#);
}

#[test]
fn tokens_are_counted_beyond_32_bits() {
    assert!(read("[recovery]\ntokens_max = 5_000_000_000").is_ok());
}

#[test]
fn each_kind_of_mistake_has_its_hint() {
    let mut told = String::new();
    for lines in [
        "[log]\nfile_max = \"10\"",
        "[log]\nfiles = 0",
        "[sessions]\npolicy = \"wait\"",
        "[daemon]\nlisten = \"7717\"",
        "[node]\nlease = \"2s\"\nrenew = \"2s\"",
        "[store]\nurl = \"mysql:x\"",
        "[recovery]\nstrategy = \"exec\"",
        "[recovery]\nmax_attempts = -1",
        "[recovery]\ntokens_max = 9223372036854775808",
        "[agent]\nname = \"a\"",
        "[[agent]]\ncommand = [\"true\"]",
        "[[agent]]\nname = \"a\"\ncommand = []",
        "[[agent]]\nname = \"a\"\ncommand = [\"true\"]\nenv = { RELIGHT_STORE = \"x\" }",
        "[[agent]]\nname = \"a\"\ncommand = [\"true\"]\n[[agent]]\nname = \"a\"\ncommand = [\"true\"]",
        "recovery = 5",
    ] {
        let text = mistakes(lines);
        told += &text.replace("relight.toml:", "");
        told += "\n";
    }
    insta::assert_snapshot!(told, @r#"
    2:12: bad `file_max` in [log]
      2 | file_max = "10"
        |            ^^^^ write at least 1kB, such as 10MB
    2:9: bad `files` in [log]
      2 | files = 0
        |         ^ write a number from 1 to 1000
    2:10: bad `policy` in [sessions]
      2 | policy = "wait"
        |          ^^^^^^ known are suspend, resume_pending
    2:10: bad `listen` in [daemon]
      2 | listen = "7717"
        |          ^^^^^^ write ADDRESS:PORT, such as 127.0.0.1:7717
    2:9: `lease` must be at least 3s: agents need time to end
      2 | lease = "2s"
        |         ^^^^

    3:9: `renew` must be between 100ms and a third of `lease` (666ms)
      3 | renew = "2s"
        |         ^^^^
    2:7: bad `url` in [store]
      2 | url = "mysql:x"
        |       ^^^^^^^^^ write sqlite:PATH or postgres://…
    2:12: the strategy `exec` has no command
      2 | strategy = "exec"
        |            ^^^^^^ write exec = ["PROGRAM", …] in [recovery]
    2:16: bad `max_attempts` in [recovery]
      2 | max_attempts = -1
        |                ^^ write a number from 0 to 4294967295
    2:14: bad `tokens_max` in [recovery]
      2 | tokens_max = 9223372036854775808
        |              ^^^^^^^^^^^^^^^^^^^ write a number from 0 to 9223372036854775807
    1:1: `agent` in the file is a table
      1 | [agent]
        | ^^^^^^^ expected tables: write [[agent]]
    1:1: an agent needs a `name`
      1 | [[agent]]
        | ^^^^^^^^^
    3:11: the command is empty
      3 | command = []
        |           ^^ write ["PROGRAM", "ARG", …]
    4:9: bad variable "RELIGHT_STORE"
      4 | env = { RELIGHT_STORE = "x" }
        |         ^^^^^^^^^^^^^ Relight sets its own variables
    5:8: there is an agent "a" already
      5 | name = "a"
        |        ^^^
    1:12: `recovery` in the file is a number
      1 | recovery = 5
        |            ^ expected a table: write [recovery]
    "#);
}

#[test]
fn a_line_with_a_secret_is_not_shown() {
    let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let text = format!("{AGENT}env = {{ GITHUB_TOKEN = \"{secret}\", X = 1 }}\n");
    let told = mistakes(&text);
    assert!(told.starts_with("relight.toml:4:"), "{told}");
    assert!(!told.contains(&secret), "{told}");
    let told = mistakes(&format!(
        "[[agent]]\nname = \"a\"\ncommand = \"x {secret}\"\n"
    ));
    assert!(!told.contains(&secret), "{told}");
}

#[test]
fn hostile_files_are_mistakes_and_no_panic() {
    let deep = format!("x = {}", "[".repeat(10_000));
    let many = "[[agent]]\n".repeat(300);
    for text in [
        "\u{feff}=",
        "a\0b",
        "é = \u{202e}",
        "[[agent]]\nname = \"ä\"",
        &deep,
        &many,
        "]",
    ] {
        let told = mistakes(text);
        assert!(told.starts_with("relight.toml:"), "{told}");
        assert!(told.lines().count() < 300);
    }
}

#[test]
fn a_bad_configuration_is_exit_78() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("relight.toml");
    let missing: Failure = Config::load(&Source::named(&file), None).unwrap_err();
    assert_eq!(missing.exit, Exit::Config);
    std::fs::write(&file, "x = 1").unwrap();
    let bad = Config::load(&Source::named(&file), None).unwrap_err();
    assert_eq!(bad.exit, Exit::Config);
    assert!(bad.message.contains("relight.toml:1:1"), "{}", bad.message);
}

#[test]
fn the_file_is_looked_for_in_order() {
    let (here, user) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let find = |given: Option<&Path>| Source::find(given, here.path(), Some(user.path()));
    assert_eq!(find(None), None);
    std::fs::create_dir(user.path().join("relight")).unwrap();
    let of_user = user.path().join("relight/relight.toml");
    std::fs::write(&of_user, "").unwrap();
    assert_eq!(find(None), Some(Source::named(of_user)));
    let of_here = here.path().join("relight.toml");
    std::fs::write(&of_here, "").unwrap();
    assert_eq!(
        find(None),
        Some(Source {
            file: of_here,
            is_found_here: true
        })
    );
    assert_eq!(
        find(Some(Path::new("x.toml"))),
        Some(Source::named("x.toml"))
    );
    // In the folder of the user's own file it is that one.
    let folder = user.path().join("relight");
    let own = Source::find(None, &folder, Some(user.path())).unwrap();
    assert!(!own.is_found_here);
}

#[test]
fn folders_count_from_the_file() {
    let presets = Preset::names(None);
    let folder = |lines: &str| {
        let text = format!("{AGENT}{lines}");
        let config =
            Config::parse(&text, Path::new("/etc/relight/relight.toml"), &presets).unwrap();
        config.agents[0].folder.clone()
    };
    assert_eq!(folder(""), Path::new("/etc/relight"));
    assert_eq!(
        folder("folder = \"work/./a\""),
        Path::new("/etc/relight/work/a")
    );
    assert_eq!(folder("folder = \"/srv\""), Path::new("/srv"));
    assert_eq!(agent("").folder, Path::new("."));
}

fn environment(agent: &AgentConfig, preset: &str) -> Vec<String> {
    let daemon = [
        ("PATH", "/bin"),
        ("HOME", "/root"),
        ("LC_ALL", "C"),
        ("XDG_CACHE_HOME", "/c"),
        ("OPENAI_API_KEY", "sk"),
        ("AWS_REGION", "eu"),
        ("CODEX_HOME", "/codex"),
        ("RELIGHT_STORE", "postgres://u:p@h/d"),
        ("RELIGHT_TOKEN", "t"),
        ("NOTIFY_SOCKET", "/run/systemd/notify"),
        ("OTHER", "1"),
    ];
    let daemon = daemon.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let pairs = agent.environment(&daemon, &Preset::by_name(preset, None).unwrap());
    pairs
        .iter()
        .map(|(name, value)| format!("{}={}", Word::to_text(name), value.to_text()))
        .collect()
}

#[test]
fn an_agent_gets_a_short_list_and_what_was_asked_for() {
    let plain = environment(&agent(""), "generic");
    assert_eq!(
        plain,
        ["HOME=/root", "LC_ALL=C", "PATH=/bin", "XDG_CACHE_HOME=/c"]
    );
    let asked =
        agent("env_pass = [\"OPENAI_API_KEY\", \"AWS_*\"]\nenv = { HOME = \"/h\", A = \"1\" }");
    assert_eq!(
        environment(&asked, "codex"),
        [
            "A=1",
            "AWS_REGION=eu",
            "CODEX_HOME=/codex",
            "HOME=/h",
            "LC_ALL=C",
            "OPENAI_API_KEY=sk",
            "PATH=/bin",
            "XDG_CACHE_HOME=/c",
        ]
    );
}

#[test]
fn even_an_agent_that_inherits_gets_nothing_of_relight() {
    let all = environment(&agent("env_inherit = true"), "generic").join(" ");
    assert!(all.contains("OTHER=1"), "{all}");
    assert!(
        !all.contains("RELIGHT_") && !all.contains("NOTIFY_SOCKET"),
        "{all}"
    );
    let told = mistakes(&format!("{AGENT}env_pass = [\"RELIGHT_TOKEN\"]"));
    assert!(told.contains("Relight sets its own variables"), "{told}");
}

#[test]
fn a_text_where_an_array_belongs_is_told_with_the_array() {
    for key in ["env_pass", "skills", "command"] {
        let told = mistakes(&format!("[[agent]]\nname = \"b\"\n{key} = \"FOO BAR\"\n"));
        let array = format!("write an array: {key} = [\"FOO\", \"BAR\"]");
        assert!(told.contains(&array), "{told}");
    }
}

#[test]
fn the_ladder_of_the_file_counts_more_than_the_presets() {
    let grace = Span::from_secs(7);
    let codex = Preset::by_name("codex", None).unwrap();
    assert_eq!(agent("").ladder(&codex, grace).len(), 2);
    let own = agent("stop = [{ signal = \"SIGHUP\", wait = \"1s\" }, { signal = \"TERM\" }]");
    let rungs = own.ladder(&codex, grace);
    assert_eq!((rungs[0].signal, rungs[0].wait), (1, Span::from_secs(1)));
    assert_eq!((rungs[1].signal, rungs[1].wait), (15, grace));
}
