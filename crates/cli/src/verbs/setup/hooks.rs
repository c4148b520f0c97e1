//! `relight setup hooks`: our commands among the hooks of an agent's program.
//!
//! Its file belongs to the user: entries are put in and taken out, and every other byte stays.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use relight_core::shell::shell_word;
use serde_json::{Value, json};
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table};

use super::json_edit;
use super::{program, refuse_link_out};
use crate::arguments::hook::HookProgram;
use crate::arguments::other::SetupHooksArguments;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::{output, whole_file};

/// What a hook may take before its program gives up on it.
const TIMEOUT_SECS: u32 = 10;
const PLUGIN: &str = include_str!("opencode_plugin.js");
const PLUGIN_COMMAND: &str = "[\"relight\"]";

/// Names of events in a program, with ours.
type Events = &'static [(&'static str, &'static str)];

const CLAUDE: Events = &[
    ("SessionStart", "session-start"),
    ("UserPromptSubmit", "prompt"),
    ("PreToolUse", "before-tool"),
    ("PostToolUse", "after-tool"),
    ("PostToolUseFailure", "after-tool"),
    ("Stop", "stop"),
    ("StopFailure", "failure"),
    ("SessionEnd", "session-end"),
];
const CODEX: Events = &[
    ("SessionStart", "session-start"),
    ("UserPromptSubmit", "prompt"),
    ("PreToolUse", "before-tool"),
    ("PostToolUse", "after-tool"),
    ("Stop", "stop"),
    ("SessionEnd", "session-end"),
];
const GEMINI: Events = &[
    ("SessionStart", "session-start"),
    ("BeforeAgent", "prompt"),
    ("BeforeTool", "before-tool"),
    ("AfterTool", "after-tool"),
    ("AfterAgent", "stop"),
    ("SessionEnd", "session-end"),
];
const CURSOR: Events = &[
    ("sessionStart", "session-start"),
    ("beforeSubmitPrompt", "prompt"),
    ("preToolUse", "before-tool"),
    ("postToolUse", "after-tool"),
    ("postToolUseFailure", "after-tool"),
    ("stop", "stop"),
    ("sessionEnd", "session-end"),
];
const COPILOT: Events = &[
    ("sessionStart", "session-start"),
    ("userPromptSubmitted", "prompt"),
    ("preToolUse", "before-tool"),
    ("postToolUse", "after-tool"),
    ("agentStop", "stop"),
    ("errorOccurred", "failure"),
    ("sessionEnd", "session-end"),
];

impl HookProgram {
    fn events(self) -> Events {
        match self {
            Self::Claude | Self::Qwen | Self::Kimi => CLAUDE,
            Self::Codex => CODEX,
            Self::Gemini => GEMINI,
            Self::Cursor => CURSOR,
            Self::Copilot => COPILOT,
            Self::Opencode => &[],
        }
    }

    /// The file that it reads, in this folder or in the user's.
    fn file(self, environment: &Environment, is_users: bool) -> Result<PathBuf, Failure> {
        let home = || {
            let no_home = || Failure::new(Exit::Config, "HOME is not set");
            environment
                .get("HOME")
                .map(PathBuf::from)
                .ok_or_else(no_home)
        };
        let under = |folder: &str, name: &str| match is_users {
            true => Ok(home()?.join(folder).join(name)),
            false => Ok(Path::new(folder).join(name)),
        };
        match self {
            Self::Claude => under(".claude", "settings.json"),
            Self::Gemini => under(".gemini", "settings.json"),
            Self::Qwen => under(".qwen", "settings.json"),
            Self::Cursor => under(".cursor", "hooks.json"),
            Self::Codex => match environment.get("CODEX_HOME").filter(|_| is_users) {
                Some(folder) => Ok(Path::new(folder).join("hooks.json")),
                None => under(".codex", "hooks.json"),
            },
            Self::Copilot if is_users => Ok(home()?.join(".copilot/hooks/relight.json")),
            Self::Copilot => Ok(".github/hooks/relight.json".into()),
            Self::Opencode if is_users => Ok(environment
                .config_home()?
                .join("opencode/plugins/relight.js")),
            Self::Opencode => Ok(".opencode/plugins/relight.js".into()),
            // It has no file of a project.
            Self::Kimi => Ok(home()?.join(".kimi-code/config.toml")),
        }
    }

    /// One entry of an event.
    fn entry(self, command: &str) -> Value {
        let in_group = |timeout: u32| json!({"hooks": [{"type": "command", "command": command, "timeout": timeout}]});
        match self {
            // It allows no more, and would report a longer one in every session.
            Self::Codex if command.contains(" session-end ") => in_group(3),
            Self::Claude | Self::Codex => in_group(TIMEOUT_SECS),
            Self::Gemini | Self::Qwen => in_group(TIMEOUT_SECS * 1_000),
            Self::Cursor => json!({"command": command, "timeout": TIMEOUT_SECS}),
            Self::Copilot => {
                json!({"type": "command", "bash": command, "timeoutSec": TIMEOUT_SECS})
            }
            Self::Kimi | Self::Opencode => Value::Null,
        }
    }

    /// What the user has to do beside.
    fn then(self) -> &'static str {
        match self {
            Self::Codex => "; Codex asks once whether to trust them: /hooks in Codex",
            Self::Gemini => "; Gemini runs hooks of a project in trusted folders only",
            _ => "",
        }
    }
}

/// Where our hooks are to be, and how they are called.
struct HookTarget {
    program: HookProgram,
    file: PathBuf,
    /// Program and flags.
    words: Vec<String>,
}

pub(super) fn run(environment: &Environment, given: &SetupHooksArguments) -> Outcome {
    let place = HookTarget::of(environment, given.program, given.user)?;
    let bytes = whole_file::read(&place.file)
        .map_err(|error| whole_file::failure("read", &place.file, &error))?;
    let is_there = bytes.is_some();
    let text = String::from_utf8(bytes.unwrap_or_default())
        .map_err(|_| place.unreadable("not a text in UTF-8"))?;
    let with = place.with(&text).map_err(|why| place.unreadable(&why))?;
    let (shown, events) = (place.file.display(), place.program.events().len());
    let report = |action: &str, state: &str| {
        json!({"program": place.program.as_str(), "file": place.file, "state": state,
            "action": action})
    };
    if given.print {
        let whole = place.with("").map_err(|why| place.unreadable(&why))?;
        output::write_out(whole.as_bytes());
        output::note(environment, &format!("for {shown}"));
        return Ok(0);
    }
    if given.check {
        let is_current = is_there && with == text;
        let state = if is_current { "current" } else { "absent" };
        let says = if is_current {
            "the hooks are current"
        } else {
            "the hooks are not there, or not current"
        };
        output::answer(
            environment,
            &report("none", state),
            &format!("{shown}: {says}"),
        );
        return Ok(if is_current { 0 } else { Exit::No as u8 });
    }
    let (whole, action, says) = match given.remove {
        true => (
            place.without(&text).map_err(|why| place.unreadable(&why))?,
            "removed",
            "hooks removed".to_owned(),
        ),
        false if is_there => (
            with,
            "added",
            format!("{} added{}", counted(events), place.program.then()),
        ),
        false => (
            with,
            "created",
            format!("created with {}{}", counted(events), place.program.then()),
        ),
    };
    if whole == text {
        output::answer(
            environment,
            &report("none", "current"),
            &format!("{shown}: nothing to do"),
        );
        return Ok(0);
    }
    refuse_link_out(&place.file)?;
    let is_empty = given.remove && whole.trim().is_empty();
    let done = match is_empty {
        true => whole_file::remove(&place.file).map(|_| ()),
        false => whole_file::replace(&place.file, whole.as_bytes()),
    };
    done.map_err(|error| whole_file::failure("write", &place.file, &error))?;
    let state = if given.remove { "absent" } else { "current" };
    output::answer(
        environment,
        &report(action, state),
        &format!("{shown}: {says}"),
    );
    Ok(0)
}

/// What `setup agent` shows before it acts.
pub(super) fn plan(environment: &Environment, program: HookProgram) -> Result<String, Failure> {
    let place = HookTarget::of(environment, program, false)?;
    Ok(format!(
        "{}: {}, each calls {}",
        place.file.display(),
        counted(program.events().len()),
        place.command("EVENT")
    ))
}

fn counted(events: usize) -> String {
    if events == 0 {
        "a plugin".to_owned()
    } else {
        format!("{events} hooks")
    }
}

impl HookTarget {
    fn of(environment: &Environment, to: HookProgram, is_users: bool) -> Result<Self, Failure> {
        let mut words = vec![program(environment)?];
        words.extend(
            environment
                .flags_for_state()?
                .into_iter()
                .flat_map(|(flag, value)| [flag.to_owned(), value]),
        );
        Ok(Self {
            program: to,
            file: to.file(environment, is_users)?,
            words,
        })
    }

    fn unreadable(&self, why: &str) -> Failure {
        let text = format!("{} cannot be understood: {why}", self.file.display());
        Failure::new(Exit::Data, text)
            .hint("it was not changed; correct it, or put in by hand what --print shows")
    }

    /// `relight hook before-tool --for claude`.
    fn command(&self, event: &str) -> String {
        let flags: String = self.words[1..]
            .iter()
            .map(|word| format!(" {}", shell_word(word)))
            .collect();
        let program = shell_word(&self.words[0]);
        format!(
            "{program} hook {event} --for {}{flags}",
            self.program.as_str()
        )
    }

    /// Whether a command is ours, of whichever version: all of it. What only contains ours is the user's.
    fn is_ours(&self, command: &str) -> bool {
        let Some(words) = shlex::split(command) else {
            return false;
        };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let [program, "hook", _, "--for", name, flags @ ..] = words.as_slice() else {
            return false;
        };
        Path::new(program).file_name() == Some(OsStr::new("relight"))
            && *name == self.program.as_str()
            && flags.chunks(2).all(
                |flag| matches!(flag, [flag, _] if ["--home", "--project", "--store"].contains(flag)),
            )
    }

    /// The file with our hooks; as it is when it has them.
    fn with(&self, text: &str) -> Result<String, String> {
        match self.program {
            HookProgram::Opencode => self.plugin(text),
            HookProgram::Kimi => self.toml(text, true),
            _ => self.json(text, true),
        }
    }

    /// The file without our hooks; empty when nothing else was in it.
    fn without(&self, text: &str) -> Result<String, String> {
        match self.program {
            HookProgram::Opencode => self.plugin(text).map(|_| String::new()),
            HookProgram::Kimi => self.toml(text, false),
            _ => self.json(text, false),
        }
    }

    fn json(&self, text: &str, adds: bool) -> Result<String, String> {
        let expected: Vec<(&str, Value)> = self
            .program
            .events()
            .iter()
            .map(|(name, event)| (*name, self.program.entry(&self.command(event))))
            .collect();
        let ours = |command: &str| self.is_ours(command);
        if adds && json_edit::has_exactly(text, "hooks", &expected, &ours)? {
            return Ok(text.to_owned());
        }
        let mut whole = json_edit::without(text, "hooks", &ours)?;
        if !adds {
            let rest: String = whole.split_whitespace().collect();
            let is_only_ours = rest == "{}" || rest == "{\"version\":1}";
            return Ok(if is_only_ours { String::new() } else { whole });
        }
        if matches!(self.program, HookProgram::Cursor | HookProgram::Copilot) {
            whole = json_edit::with_member(&whole, "version", &json!(1))?;
        }
        for (name, entry) in &expected {
            whole = json_edit::with_item(&whole, "hooks", name, entry)?;
        }
        Ok(whole)
    }

    fn toml(&self, text: &str, adds: bool) -> Result<String, String> {
        let (mark, rest) = match text.strip_prefix('\u{feff}') {
            Some(rest) => ("\u{feff}", rest),
            None => ("", text),
        };
        // Whoever writes TOML ends its lines with a line feed.
        let lines = rest.matches('\n').count();
        match rest.matches("\r\n").count() {
            0 => Ok(format!("{mark}{}", self.toml_lines(rest, adds)?)),
            all if all == lines => {
                let whole = self.toml_lines(&rest.replace("\r\n", "\n"), adds)?;
                Ok(format!("{mark}{}", whole.replace('\n', "\r\n")))
            }
            _ => Err("some of its lines end with CR LF and others with LF".to_owned()),
        }
    }

    fn toml_lines(&self, text: &str, adds: bool) -> Result<String, String> {
        let mut whole: DocumentMut = text
            .parse()
            .map_err(|error: toml_edit::TomlError| error.message().to_owned())?;
        let expected: Vec<(&str, String)> = self
            .program
            .events()
            .iter()
            .map(|(name, event)| (*name, self.command(event)))
            .collect();
        let hooks = whole
            .entry("hooks")
            .or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        let hooks = hooks
            .as_array_of_tables_mut()
            .ok_or("hooks is not an array of tables")?;
        let text_of = |table: &Table, key: &str| {
            table
                .get(key)
                .and_then(Item::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let found: Vec<(String, String)> = hooks
            .iter()
            .map(|table| (text_of(table, "event"), text_of(table, "command")))
            .filter(|(_, command)| self.is_ours(command))
            .collect();
        let is_same = found
            .iter()
            .map(|(event, command)| (event.as_str(), command))
            .eq(expected.iter().map(|(event, command)| (*event, command)));
        if adds && is_same {
            return Ok(text.to_owned());
        }
        hooks.retain(|table| !self.is_ours(&text_of(table, "command")));
        for (event, command) in expected.iter().filter(|_| adds) {
            let mut table = Table::new();
            table.insert("event", toml_edit::value(*event));
            table.insert("command", toml_edit::value(command));
            table.insert("timeout", toml_edit::value(i64::from(TIMEOUT_SECS)));
            hooks.push(table);
        }
        Ok(whole.to_string())
    }

    /// The whole file is ours.
    fn plugin(&self, text: &str) -> Result<String, String> {
        let first = PLUGIN.lines().next().unwrap_or_default();
        if !text.is_empty() && !text.starts_with(first) {
            return Err("it is not a plugin of Relight".to_owned());
        }
        let (program, flags) = (vec![self.words[0].clone()], &self.words[1..]);
        let words: Vec<String> = program.into_iter().chain(flags.iter().cloned()).collect();
        Ok(PLUGIN.replace(PLUGIN_COMMAND, &json!(words).to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAMS: [HookProgram; 8] = [
        HookProgram::Claude,
        HookProgram::Codex,
        HookProgram::Gemini,
        HookProgram::Kimi,
        HookProgram::Qwen,
        HookProgram::Cursor,
        HookProgram::Opencode,
        HookProgram::Copilot,
    ];

    fn place(program: HookProgram) -> HookTarget {
        HookTarget {
            program,
            file: "f".into(),
            words: vec!["relight".to_owned()],
        }
    }

    #[test]
    fn twice_is_as_once_and_nothing_is_left() {
        for program in PROGRAMS {
            let place = place(program);
            let once = place.with("").unwrap();
            assert_eq!(place.with(&once).unwrap(), once, "{program:?}");
            assert_eq!(place.without(&once).unwrap().trim(), "", "{program:?}");
            let moved = HookTarget {
                words: vec!["/opt/relight".to_owned()],
                ..place
            };
            let moved_text = moved.with(&once).unwrap();
            assert_eq!(
                moved_text.matches("/opt/relight").count().max(1),
                program.events().len().max(1)
            );
        }
    }

    #[test]
    fn every_byte_of_the_user_stays() {
        let texts = [
            "{}",
            "{\n  \"model\": \"x\"\n}\n",
            "{\n\t// mine\n\t\"z\": 1.50, /* two */\n\t\"hooks\": {\n\t\t\"PreToolUse\": [\n\t\t\t{\"matcher\": \"Bash\", \"hooks\": [{\"type\": \"command\", \"command\": \"a } ] \\\" b\"}]}\n\t\t],\n\t\t\"Other\": []\n\t},\n\t\"a\": []\n}\n",
            "{\"hooks\":{\"SessionStart\":[]},\"b\":{\"hooks\":{}}}",
        ];
        for program in [HookProgram::Claude, HookProgram::Gemini, HookProgram::Codex] {
            for text in texts {
                let place = place(program);
                let with = place.with(text).unwrap();
                assert_eq!(place.with(&with).unwrap(), with);
                let without = place.without(&with).unwrap();
                let expected = if text == "{}" { "" } else { text };
                // A list that was empty before may go with what was in it.
                let is_same = without == expected || text.contains("\"SessionStart\":[]");
                assert!(is_same, "{program:?}\n{text}\n{with}\n{without}");
            }
        }
        let theirs = "# mine\ndefault_model = 'k' # why\n\n[[hooks]]\nevent = \"Stop\" # keep\ncommand = \"x\"\n";
        let place = place(HookProgram::Kimi);
        let with = place.with(theirs).unwrap();
        assert!(
            with.starts_with(theirs) && with.contains("relight hook before-tool --for kimi"),
            "{with}"
        );
        assert_eq!(place.without(&with).unwrap(), theirs);
    }

    #[test]
    fn a_hook_of_the_user_stays_wherever_it_stands() {
        let place = place(HookProgram::Claude);
        let mine = [
            "./notify.sh",
            "echo relight hook stop --for claude | tee x",
            "relight hook stop --for claude && ./mine.sh",
            "relight hook stop --for claude; ./mine.sh",
            "env X=1 relight hook stop --for claude",
            "relight hook stop --for claudette",
        ];
        for command in mine {
            let shared = json!({"hooks": {"Stop": [{"matcher": "x", "hooks": [
                {"type": "command", "command": "/opt/a b/relight"},
                {"type": "command", "command": "relight hook stop --for claude", "timeout": 5},
                {"type": "command", "command": command},
            ]}]}});
            let text = serde_json::to_string_pretty(&shared).unwrap();
            let with = place.with(&text).unwrap();
            assert_eq!(place.with(&with).unwrap(), with, "{command}");
            let ours = "\"relight hook stop --for claude\"";
            assert_eq!(with.matches(ours).count(), 1, "{with}");
            let without: Value = serde_json::from_str(&place.without(&with).unwrap()).unwrap();
            let expected = json!({"hooks": {"Stop": [{"matcher": "x", "hooks": [
                {"type": "command", "command": "/opt/a b/relight"},
                {"type": "command", "command": command},
            ]}]}});
            assert_eq!(without, expected, "{command}");
        }
        for command in [
            "relight hook stop --for claude",
            "/opt/relight hook stop --for claude --home '/a b'",
            "'/it'\\''s/relight' hook stop --for claude --project x",
        ] {
            assert!(place.is_ours(command), "{command}");
        }
    }

    #[test]
    fn a_file_keeps_its_line_ends() {
        let place = place(HookProgram::Kimi);
        let theirs = "\u{feff}a = 1\r\n[b]\r\nc = 2\r\n";
        let with = place.with(theirs).unwrap();
        assert!(with.starts_with(theirs), "{with:?}");
        assert_eq!(with.matches('\n').count(), with.matches("\r\n").count());
        assert_eq!(place.with(&with).unwrap(), with);
        assert_eq!(place.without(&with).unwrap(), theirs);
        assert!(place.with("a = 1\r\nb = 2\n").is_err());
    }

    #[test]
    fn what_cannot_be_understood_is_refused() {
        for text in [
            "{",
            "[]",
            "{\"hooks\": []}",
            "{\"hooks\": {\"PreToolUse\": 1}}",
            "{} x",
        ] {
            assert!(place(HookProgram::Claude).with(text).is_err(), "{text}");
        }
        assert!(place(HookProgram::Kimi).with("hooks = 1").is_err());
        assert!(
            place(HookProgram::Opencode)
                .with("export const Mine = 1")
                .is_err()
        );
    }

    #[test]
    fn each_program_gets_what_it_reads() {
        let all = PROGRAMS.map(|program| {
            format!(
                "# {}\n{}",
                program.as_str(),
                place(program).with("").unwrap()
            )
        });
        insta::assert_snapshot!("programs", all.join(""));
    }
}
