//! Each preset with a fake agent that imitates its stream, its ids, its exits and its signals.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};

use relight_runtime::core::agent::death::{HowEnded, ReportedEnd};
use relight_runtime::core::time::{Span, Time};
use relight_runtime::os::word::Word;
use relight_runtime::presets::{Fact, Launch, Preset};

const FIRST: Launch<'_> = Launch {
    first: true,
    anew: false,
    session: None,
    brief: "go on",
    brief_file: "/run/brief.md",
    resume_args: None,
    has_terminal: false,
};

/// The usual command of each preset's program.
const USUAL: [(&str, &str); 10] = [
    ("generic", "./agent.sh --fast"),
    ("claude-code", "claude -p PROMPT --model opus"),
    ("codex", "codex exec --sandbox workspace-write PROMPT"),
    ("gemini", "gemini -p PROMPT --approval-mode yolo"),
    ("opencode", "opencode run --model a/b fix the bug"),
    ("kimi", "kimi --print -p PROMPT"),
    ("aider", "aider --yes-always --message PROMPT main.py"),
    ("qwen", "qwen --yolo -p PROMPT"),
    ("pi", "pi -p PROMPT --model m"),
    ("copilot", "copilot -p PROMPT --allow-all-tools"),
];

fn preset(name: &str) -> Preset {
    Preset::by_name(name, None).unwrap()
}

fn words(command: &str) -> Vec<Word> {
    command.split(' ').map(Word::from).collect()
}

fn shown(command: &[Word]) -> String {
    let quoted = |word: &Word| match word.to_text() {
        text if text.contains(' ') => format!("'{text}'"),
        text => text,
    };
    command
        .iter()
        .map(quoted)
        .collect::<Vec<_>>()
        .join(" ")
        .replace("\n\n", " // ")
}

fn now() -> Time {
    "2026-05-01T12:00:00Z".parse().unwrap()
}

/// One attempt of a fake agent.
struct Attempt {
    preset: Preset,
    child: Child,
    out: tempfile::TempDir,
    facts: Vec<Fact>,
    first_line: String,
}

/// What came of it.
struct Outcome {
    facts: Vec<Fact>,
    said: Option<ReportedEnd>,
    how: HowEnded,
}

impl Attempt {
    /// Starts the fake in place of the program, with the words that the preset made.
    fn start(name: &str, fake: &str, launch: Launch<'_>) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), name, fake, launch)
    }

    fn start_in(out: tempfile::TempDir, name: &str, fake: &str, launch: Launch<'_>) -> Self {
        let preset = preset(name);
        let usual = USUAL.iter().find(|(known, _)| *known == name).unwrap().1;
        let made = preset.command(&words(usual), launch);
        let arguments: Vec<_> = made.iter().skip(1).map(Word::as_os_str).collect();
        let child = relight_runtime::os::process::command(fake_program(name), &arguments)
            .env("FAKE", fake)
            .env("FAKE_OUT", out.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            preset,
            child,
            out,
            facts: Vec::new(),
            first_line: String::new(),
        }
    }

    /// Reads all that it says until it ends; signals it after its first line when asked to.
    fn finish(mut self, signal: Option<i32>) -> (Outcome, tempfile::TempDir) {
        let mut reader = self.preset.reader();
        let mut lines = BufReader::new(self.child.stdout.take().unwrap());
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).unwrap() > 0 {
            self.facts.extend(reader.line(&line, now()));
            if self.first_line.is_empty() {
                self.first_line = String::from_utf8_lossy(&line).into_owned();
                signal.into_iter().for_each(|signal| self.send(signal));
            }
            line.clear();
        }
        let mut errors = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut errors)
            .unwrap();
        for line in errors.lines() {
            self.facts.extend(reader.line(line.as_bytes(), now()));
        }
        let how = how(self.child.wait().unwrap());
        let said = reader.ended(&self.preset, how, None);
        (
            Outcome {
                facts: self.facts,
                said,
                how,
            },
            self.out,
        )
    }

    fn send(&self, signal: i32) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let signal = rustix::process::Signal::from_named_raw(signal).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

fn fake_program(name: &str) -> PathBuf {
    let fakes = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fakes");
    fakes.join(if name == "claude-code" {
        "claude"
    } else {
        name
    })
}

fn how(status: ExitStatus) -> HowEnded {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => HowEnded::Code(code),
        (_, Some(signal)) => HowEnded::Signal(signal),
        _ => HowEnded::Unknown,
    }
}

fn outcome(name: &str, fake: &str, launch: Launch<'_>) -> Outcome {
    Attempt::start(name, fake, launch).finish(None).0
}

fn session(text: &str) -> Fact {
    Fact::Session(text.to_owned())
}

#[test]
fn commands_of_all_presets() {
    let mut table = String::new();
    for (name, usual) in USUAL {
        let preset = preset(name);
        let id = preset.new_session("UUID".to_owned());
        let first = Launch {
            session: id.as_deref(),
            ..FIRST
        };
        let again = Launch {
            first: false,
            session: Some("ID"),
            ..FIRST
        };
        let lost = Launch {
            first: false,
            session: None,
            ..FIRST
        };
        for (what, launch) in [("first", first), ("again", again), ("no id", lost)] {
            let command = shown(&preset.command(&words(usual), launch));
            table += &format!("{name:<12}{what:<6} {command}\n");
        }
    }
    insta::assert_snapshot!(table, @r"
    generic     first  ./agent.sh --fast
    generic     again  ./agent.sh --fast
    generic     no id  ./agent.sh --fast
    claude-code first  claude --output-format stream-json --verbose --session-id UUID -p PROMPT --model opus
    claude-code again  claude --output-format stream-json --verbose --resume ID -p 'go on' --model opus
    claude-code no id  claude --output-format stream-json --verbose -p 'PROMPT // go on' --model opus
    codex       first  codex exec --json --sandbox workspace-write PROMPT
    codex       again  codex exec --json --sandbox workspace-write resume ID 'go on'
    codex       no id  codex exec --json --sandbox workspace-write 'PROMPT // go on'
    gemini      first  gemini --output-format stream-json -p PROMPT --approval-mode yolo
    gemini      again  gemini --output-format stream-json --resume ID -p 'go on' --approval-mode yolo
    gemini      no id  gemini --output-format stream-json -p 'PROMPT // go on' --approval-mode yolo
    opencode    first  opencode run --format json --print-logs --log-level ERROR --model a/b fix the bug
    opencode    again  opencode run --format json --print-logs --log-level ERROR --session ID --model a/b 'go on'
    opencode    no id  opencode run --format json --print-logs --log-level ERROR --model a/b 'fix the bug // go on'
    kimi        first  kimi --output-format stream-json --print -p PROMPT
    kimi        again  kimi --output-format stream-json --session ID --print -p 'go on'
    kimi        no id  kimi --output-format stream-json --print -p 'PROMPT // go on'
    aider       first  aider --yes-always --message PROMPT main.py
    aider       again  aider --restore-chat-history --yes-always --message 'go on' main.py
    aider       no id  aider --restore-chat-history --yes-always --message 'go on' main.py
    qwen        first  qwen --output-format stream-json --session-id UUID --yolo -p PROMPT
    qwen        again  qwen --output-format stream-json --resume ID --yolo -p 'go on'
    qwen        no id  qwen --output-format stream-json --yolo -p 'PROMPT // go on'
    pi          first  pi --mode json -p PROMPT --model m
    pi          again  pi --mode json --session ID -p 'go on' --model m
    pi          no id  pi --mode json -p 'PROMPT // go on' --model m
    copilot     first  copilot --output-format json --session-id UUID -p PROMPT --allow-all-tools
    copilot     again  copilot --output-format json --resume ID -p 'go on' --allow-all-tools
    copilot     no id  copilot --output-format json -p 'PROMPT // go on' --allow-all-tools
    ");
}

#[test]
fn the_id_comes_before_everything_else() {
    for (name, id) in [
        ("codex", "0199a213-81c0-7800-8aa1-bbab2a035a53"),
        ("gemini", "6f3c0a52-7f1e-4b0e-9f56-0d7f4d1c2b3a"),
        ("opencode", "ses_494719016ffe85dkDMj0FPRbHK"),
        ("pi", "01a1ed5f-da66-7385-867d-35fd454fb8b4"),
    ] {
        let outcome = outcome(name, "odd", FIRST);
        assert_eq!(outcome.facts[0], session(id), "{name}");
    }
}

#[test]
fn an_id_that_only_comes_at_the_end_is_taken_then() {
    assert_eq!(
        outcome("kimi", "ok", FIRST).facts,
        [session("session_f4472906")]
    );
}

#[test]
fn claude_code_is_given_an_id_and_resumed_by_it() {
    let launch = Launch {
        session: Some("a-b-c"),
        ..FIRST
    };
    let (first, out) = Attempt::start("claude-code", "odd", launch).finish(None);
    assert_eq!(first.facts[0], session("a-b-c"));
    let launch = Launch {
        first: false,
        ..launch
    };
    let (again, out) = Attempt::start_in(out, "claude-code", "odd", launch).finish(None);
    assert_eq!(again.facts[0], session("a-b-c"));
    let argv = std::fs::read_to_string(out.path().join("argv")).unwrap();
    insta::assert_snapshot!(argv.trim_end().replace('\n', " "), @"--output-format stream-json --verbose --resume a-b-c -p go on --model opus");
}

#[test]
fn a_session_that_was_never_saved_is_told() {
    let launch = Launch {
        first: false,
        session: Some("a-b-c"),
        ..FIRST
    };
    let outcome = outcome("claude-code", "ok", launch);
    assert_eq!(outcome.facts, [Fact::SessionGone]);
    assert_eq!(outcome.said, None);
}

#[test]
fn the_agent_gets_its_words_as_they_are() {
    let brief = "a; $(rm -rf x)\n--flag 'q'";
    let launch = Launch {
        first: false,
        session: Some("ID"),
        brief,
        ..FIRST
    };
    let (_, out) = Attempt::start("codex", "odd", launch).finish(None);
    let argv = std::fs::read_to_string(out.path().join("argv")).unwrap();
    assert!(argv.ends_with(&format!("resume\nID\n{brief}\n")), "{argv}");
}

#[test]
fn success_counts_whatever_the_exit_code() {
    for name in [
        "claude-code",
        "codex",
        "gemini",
        "opencode",
        "qwen",
        "pi",
        "copilot",
    ] {
        let outcome = outcome(name, "odd", FIRST);
        assert_ne!(outcome.how, HowEnded::Code(0), "{name}");
        assert_eq!(outcome.said, Some(ReportedEnd::Success), "{name}");
    }
}

#[test]
fn a_failure_in_the_stream_counts_also_with_exit_0() {
    for (name, why) in [
        ("claude-code", "no"),
        ("codex", "the model refused"),
        ("gemini", "no model"),
        ("opencode", "no model"),
        (
            "qwen",
            "[API Error: Connection error. (cause: fetch failed)]",
        ),
        ("pi", "no model"),
        ("copilot", "500: the model refused"),
    ] {
        let outcome = outcome(name, "fail", FIRST);
        assert_eq!(outcome.how, HowEnded::Code(0), "{name}");
        assert_eq!(
            outcome.said,
            Some(ReportedEnd::Failure(why.to_owned())),
            "{name}"
        );
    }
}

#[test]
fn codex_that_exits_with_0_in_the_middle_has_failed() {
    assert!(matches!(
        outcome("codex", "cut", FIRST).said,
        Some(ReportedEnd::Failure(_))
    ));
}

/// When the limit ends that stopped it; it has a message.
fn limit(said: Option<ReportedEnd>) -> Option<Time> {
    match said {
        Some(ReportedEnd::Limited { until, why }) if !why.is_empty() => until,
        said => panic!("{said:?}"),
    }
}

#[test]
fn a_limit_says_when_it_ends() {
    for (name, time) in [
        ("claude-code", "2026-05-01T13:00:00Z"),
        ("codex", "2026-05-01T13:30:00Z"),
        ("gemini", "2026-05-01T13:30:00Z"),
        ("opencode", "2026-05-01T13:30:00Z"),
        ("qwen", "2026-05-01T13:30:00Z"),
        ("pi", "2026-05-01T13:30:00Z"),
        ("copilot", "2026-05-01T13:30:00Z"),
    ] {
        let time = Some(time.parse().unwrap());
        assert_eq!(limit(outcome(name, "limit", FIRST).said), time, "{name}");
    }
    // It says so by its exit code.
    assert_eq!(
        outcome("kimi", "limit", FIRST).said,
        Some(ReportedEnd::Later(None))
    );
    // In the zone of this machine, whatever that is.
    let time = limit(outcome("codex", "clock", FIRST).said).unwrap();
    assert!(time.since(now()) <= Span::from_secs(24 * 3_600), "{time}");
}

#[test]
fn a_key_that_is_refused_is_nothing_to_retry() {
    for name in ["claude-code", "qwen", "pi", "copilot"] {
        let said = outcome(name, "refused", FIRST).said;
        assert!(
            matches!(&said, Some(ReportedEnd::Incurable(why)) if why.contains("401")),
            "{said:?}"
        );
    }
}

#[test]
fn what_no_retry_cures_is_known_by_its_words() {
    for text in [
        "Quota exceeded. Check your plan and billing details.",
        "The 'stub' model is not supported when using Codex with a ChatGPT account.",
        "Codex ran out of room in the model's context window. Start a new thread.",
        "Your workspace is out of credits.",
        "You've hit your monthly spend limit.",
    ] {
        let said = ReportedEnd::failed(None, text.to_owned());
        assert_eq!(said, ReportedEnd::Incurable(text.to_owned()));
    }
    let said = ReportedEnd::failed(Some(429), "Quota exceeded for metric x".to_owned());
    assert!(matches!(said, ReportedEnd::Failure(_)), "{said:?}");
}

#[test]
fn qwen_tells_of_an_error_in_two_ways() {
    let said = outcome("qwen", "refused-now", FIRST).said;
    assert!(
        matches!(&said, Some(ReportedEnd::Incurable(why)) if why.contains("401")),
        "{said:?}"
    );
    assert_eq!(limit(outcome("qwen", "limit-now", FIRST).said), None);
}

#[test]
fn exit_codes_with_a_meaning_are_told_in_words() {
    let said = outcome("gemini", "login", FIRST).said;
    assert_eq!(
        said,
        Some(ReportedEnd::Incurable("not logged in".to_owned()))
    );
    for name in ["generic", "aider"] {
        assert_eq!(outcome(name, "fail", FIRST).said, None, "{name}");
    }
}

#[test]
fn the_first_rung_ends_each_agent_in_order() {
    for (name, usual) in [
        ("claude-code", "TERM"),
        ("codex", "INT"),
        ("gemini", "TERM"),
        ("opencode", "TERM"),
        ("kimi", "INT"),
        ("aider", "INT"),
        ("generic", "TERM"),
        ("qwen", "TERM"),
        ("pi", "TERM"),
        ("copilot", "TERM"),
    ] {
        let rung = preset(name).ladder(Span::from_secs(10))[0];
        let launch = Launch {
            session: Some("a-b-c"),
            ..FIRST
        };
        let (outcome, out) = Attempt::start(name, "work", launch).finish(Some(rung.signal));
        let signal = std::fs::read_to_string(out.path().join("signal")).unwrap();
        assert_eq!(signal.trim(), usual, "{name}");
        assert!(
            !matches!(outcome.said, Some(ReportedEnd::Success)),
            "{name}"
        );
    }
}

#[test]
fn ladders_of_all_presets() {
    let mut table = String::new();
    for (name, _) in USUAL {
        let rungs = preset(name).ladder(Span::from_secs(10));
        let rungs = rungs.iter().map(|rung| {
            let signal = relight_runtime::core::agent::death::signal_name(rung.signal);
            format!("{signal} {}", rung.wait)
        });
        table += &format!("{name:<12}{}\n", rungs.collect::<Vec<_>>().join(", "));
    }
    insta::assert_snapshot!(table, @r"
    generic     TERM 10s
    claude-code TERM 10s
    codex       INT 5s, TERM 10s
    gemini      TERM 10s
    opencode    TERM 10s
    kimi        INT 5s, TERM 10s
    aider       INT 5s, TERM 10s
    qwen        TERM 10s
    pi          TERM 10s
    copilot     TERM 10s
    ");
}

#[test]
fn what_the_user_chose_counts() {
    let claude = preset("claude-code");
    let command = |given: &str, launch| shown(&claude.command(&words(given), launch));
    let first = Launch {
        session: Some("OURS"),
        ..FIRST
    };
    let again = Launch {
        first: false,
        session: Some("ID"),
        ..FIRST
    };
    let theirs = "claude --output-format=json --session-id X -p P";
    insta::assert_snapshot!(command(theirs, first), @"claude --verbose --output-format=json --session-id X -p P");
    insta::assert_snapshot!(command(theirs, again), @"claude --verbose --resume ID --output-format=json -p 'go on'");
    let words = [
        Word::from("--resume={session}"),
        Word::from("--note"),
        Word::from("{brief_file}"),
    ];
    let own = Launch {
        resume_args: Some(&words),
        ..again
    };
    insta::assert_snapshot!(command("claude -p P", own), @"claude --resume=ID --note /run/brief.md -p P");
}

#[test]
fn a_session_that_the_user_resumes_is_resumed_by_its_id() {
    let again = Launch {
        first: false,
        session: Some("ID"),
        ..FIRST
    };
    for (name, given, resumed) in [
        (
            "codex",
            "codex exec resume --last P",
            "codex exec --json resume ID 'go on'",
        ),
        (
            "codex",
            "codex exec resume OLD -m o P",
            "codex exec --json -m o resume ID 'go on'",
        ),
        (
            "claude-code",
            "claude -p --safe-mode --permission-mode X P",
            "claude --output-format stream-json --verbose --resume ID -p --safe-mode --permission-mode X 'go on'",
        ),
    ] {
        assert_eq!(shown(&preset(name).command(&words(given), again)), resumed);
    }
}

#[test]
fn a_session_with_a_screen_keeps_it() {
    let mut table = String::new();
    for (name, given, has_terminal) in [
        ("claude-code", "claude --model opus", false),
        ("claude-code", "claude --model opus", true),
        ("claude-code", "claude -p PROMPT", true),
        ("claude-code", "claude --print PROMPT", false),
        ("codex", "codex PROMPT", true),
        ("codex", "codex --yolo", true),
        ("codex", "codex resume --last PROMPT", true),
        ("codex", "codex mcp list", true),
        ("codex", "codex exec PROMPT", true),
        ("gemini", "gemini -i PROMPT", true),
        ("gemini", "gemini PROMPT", false),
        ("opencode", "opencode", true),
        ("opencode", "opencode sub --prompt PROMPT -m a/b", true),
        ("opencode", "opencode stats", true),
        ("kimi", "kimi --yolo", false),
        ("kimi", "kimi -p PROMPT", true),
    ] {
        let preset = preset(name);
        let id = preset.new_session("UUID".to_owned());
        let first = Launch {
            session: id.as_deref(),
            has_terminal,
            ..FIRST
        };
        let again = Launch {
            first: false,
            session: Some("ID"),
            has_terminal,
            ..FIRST
        };
        for launch in [first, again] {
            let terminal = if has_terminal { "tty" } else { "" };
            let command = shown(&preset.command(&words(given), launch));
            table += &format!("{terminal:<4}{command}\n");
        }
    }
    insta::assert_snapshot!(table, @r"
        claude --session-id UUID --model opus
        claude --resume ID --model opus 'go on'
    tty claude --session-id UUID --model opus
    tty claude --resume ID --model opus 'go on'
    tty claude --session-id UUID -p PROMPT
    tty claude --resume ID -p 'go on'
        claude --output-format stream-json --verbose --session-id UUID --print PROMPT
        claude --output-format stream-json --verbose --resume ID --print 'go on'
    tty codex PROMPT
    tty codex resume ID 'go on'
    tty codex --yolo
    tty codex --yolo resume ID 'go on'
    tty codex resume --last PROMPT
    tty codex resume ID 'go on'
    tty codex mcp list
    tty codex mcp list
    tty codex exec PROMPT
    tty codex exec resume ID 'go on'
    tty gemini -i PROMPT
    tty gemini --resume ID -i 'go on'
        gemini --output-format stream-json PROMPT
        gemini --output-format stream-json --resume ID 'go on'
    tty opencode
    tty opencode --session ID --prompt 'go on'
    tty opencode sub --prompt PROMPT -m a/b
    tty opencode --session ID sub --prompt 'go on' -m a/b
    tty opencode stats
    tty opencode stats
        kimi --yolo
        kimi --session ID --yolo
    tty kimi -p PROMPT
    tty kimi --session ID -p 'go on'
    ");
}

#[test]
fn variables_are_for_resumed_agents() {
    let folder = tempfile::tempdir().unwrap();
    let text =
        "about = \"x\"\nresume_variables = { MY_SESSION = \"{session}\" }\nsigns = [\"beat\"]";
    std::fs::write(folder.path().join("mine.toml"), text).unwrap();
    let preset = Preset::by_name("mine", Some(folder.path())).unwrap();
    assert_eq!(preset.environment(FIRST), []);
    let again = Launch {
        first: false,
        session: Some("ID"),
        ..FIRST
    };
    assert_eq!(
        preset.environment(again),
        [("MY_SESSION".to_owned(), "ID".to_owned())]
    );
    assert_eq!(
        preset.signs(),
        [relight_core::agent::silence::SignSource::Beat]
    );
}

#[test]
fn only_presets_with_something_to_read_read() {
    let reading: Vec<&str> = USUAL
        .iter()
        .map(|it| it.0)
        .filter(|name| preset(name).reads_stream())
        .collect();
    assert_eq!(
        reading,
        [
            "claude-code",
            "codex",
            "gemini",
            "opencode",
            "kimi",
            "qwen",
            "pi",
            "copilot"
        ]
    );
}
