//! Presets: what Relight knows of an agent program, as data.
//!
//! A preset says how the program is launched and resumed, where its own session id comes from, what its
//! output says about its end, and how it is stopped. Computes only; `library` alone reads files.
//! Leaves to others: starting, tailing and stopping (see `supervise`).

mod launch;
mod library;
mod output_parser;
mod prompt;
mod reset_time;
mod usage;

use std::collections::BTreeMap;
use std::path::PathBuf;

use relight_core::agent::death::{HowEnded, ReportedEnd, signal_name};
use relight_core::agent::silence::SignSource;
use relight_core::time::Span;
use serde::{Deserialize, Serialize};

use crate::transcripts::{Format, TranscriptRule};

pub use launch::Launch;
pub use library::{BUILT_IN, PresetError};
pub use output_parser::{Fact, LINE_BYTES_MAX, StreamReader};
pub(crate) use usage::AMOUNT_MAX;
pub use usage::UsageScope;

use launch::{ArgumentPosition, ScreenRule, StreamRule};
use output_parser::{Match, ToolCallRule};
use prompt::PromptRule;
use usage::UsageRule;

/// What is known of one agent program.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    #[serde(skip)]
    name: String,
    #[serde(skip)]
    source: String,
    about: String,
    #[serde(default)]
    launch: Vec<String>,
    #[serde(default)]
    resume: Vec<String>,
    /// Instead of `resume` while the session's id is not known.
    resume_latest: Option<Vec<String>>,
    #[serde(default)]
    stream: StreamRule,
    #[serde(default)]
    place: ArgumentPosition,
    /// How it is resumed with its screen, where that is another command than without.
    screen: Option<ScreenRule>,
    #[serde(default)]
    prompt: PromptRule,
    #[serde(default)]
    session: SessionRule,
    #[serde(default)]
    success: Vec<Match>,
    #[serde(default)]
    failure: Vec<Match>,
    #[serde(default)]
    later: Vec<Match>,
    /// What says that it waits and goes on by itself.
    #[serde(default)]
    wait: Vec<Match>,
    /// What says that it repeats a request that no retry can cure.
    #[serde(default)]
    incurable: Vec<Match>,
    /// Where its output tells what it uses.
    #[serde(default)]
    usage: Vec<UsageRule>,
    /// Where tool calls begin and end.
    tool_call: Option<ToolCallRule>,
    /// A stream that began and never said success has failed, whatever the exit code.
    #[serde(default)]
    must_say_success: bool,
    #[serde(default)]
    exit_codes: BTreeMap<ExitCode, ExitWord>,
    #[serde(default)]
    stop: Vec<StopRung>,
    #[serde(default = "all_signs")]
    signs: Vec<SignSource>,
    config_dir_variable: Option<String>,
    /// Where it keeps a conversation, if that is a file that can be repaired.
    transcript: Option<TranscriptRule>,
    #[serde(default)]
    resume_variables: BTreeMap<String, String>,
}

/// Where the id of the agent's own session comes from.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionRule {
    #[serde(default)]
    from: SessionSource,
    /// Which event has it, and where in it.
    when: Option<serde_json::Value>,
    path: Option<String>,
    /// Options by which a user chooses a session, with the number of their values.
    #[serde(default)]
    flags: BTreeMap<String, usize>,
    /// What the program says when there is no such session.
    #[serde(default)]
    gone: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SessionSource {
    /// Relight chooses it before the first launch.
    Assigned,
    /// The program says it in its output.
    Stream,
    /// There is none.
    #[default]
    None,
}

fn all_signs() -> Vec<SignSource> {
    SignSource::DECLARED.to_vec()
}

/// One rung of a stop ladder as people write it; without `wait` it gets the agent's grace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopRung {
    /// The signal's number.
    #[serde(deserialize_with = "read_signal")]
    pub signal: i32,
    /// How long it has to work.
    #[serde(default, deserialize_with = "read_span")]
    pub wait: Option<Span>,
}

/// One rung of a stop ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rung {
    /// The signal's number.
    pub signal: i32,
    /// How long it has to work.
    pub wait: Span,
}

impl StopRung {
    /// With the wait that it gets.
    pub fn rung(self, grace: Span) -> Rung {
        Rung {
            signal: self.signal,
            wait: self.wait.unwrap_or(grace),
        }
    }
}

/// The number of a signal by its usual name, with or without `SIG`.
pub fn signal_number(name: &str) -> Option<i32> {
    let name = name.strip_prefix("SIG").unwrap_or(name);
    let is_named = |number: &i32| signal_name(*number) == name && name != signal_name(0);
    (1..=31).find(is_named)
}

fn read_signal<'de, D: serde::Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    let name = String::deserialize(from)?;
    signal_number(&name).ok_or_else(|| {
        serde::de::Error::custom(format!(
            "unknown signal {name:?}; write INT, TERM, HUP or the like"
        ))
    })
}

fn read_span<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Span>, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

/// An exit code as a key; TOML has only texts there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct ExitCode(i32);

impl TryFrom<String> for ExitCode {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse::<u8>()
            .map(|code| Self(i32::from(code)))
            .map_err(|_| format!("{text:?} is not an exit code; write 0 to 255"))
    }
}

/// What an exit code says.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum ExitWord {
    Plain(PlainExitWord),
    Failure { failure: String },
    Incurable { incurable: String },
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PlainExitWord {
    Success,
    Failure,
    Later,
    /// Somebody else told it to end; to Relight that is no success.
    Stopped,
}

impl Preset {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One line for people.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// The file that it was read from, as it is written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The id of a new session, where Relight assigns it; `uuid` is a random UUID of version 4.
    pub fn new_session(&self, uuid: String) -> Option<String> {
        (self.session.from == SessionSource::Assigned).then_some(uuid)
    }

    /// What an attempt gets beside its environment.
    pub fn environment(&self, launch: Launch<'_>) -> Vec<(String, String)> {
        if launch.first || launch.anew {
            return Vec::new();
        }
        let pairs = self.resume_variables.iter();
        pairs
            .map(|(name, value)| (name.clone(), launch.fill(value)))
            .collect()
    }

    /// How its tree is ended; SIGKILL comes after the last rung.
    pub fn ladder(&self, grace: Span) -> Vec<Rung> {
        if self.stop.is_empty() {
            return vec![Rung {
                signal: TERM,
                wait: grace,
            }];
        }
        self.stop.iter().map(|rung| rung.rung(grace)).collect()
    }

    /// Which signs of life count.
    pub fn signs(&self) -> &[SignSource] {
        &self.signs
    }

    /// The same with hooks, which every agent may use.
    pub fn sign_sources(&self) -> Vec<SignSource> {
        [self.signs(), &[SignSource::Hook]].concat()
    }

    /// The variable that names the folder of its settings and sessions; agents get it passed on.
    pub fn config_dir_variable(&self) -> Option<&str> {
        self.config_dir_variable.as_deref()
    }

    /// The transcript of a session; none where there is none, or where it is not known.
    pub fn transcript(
        &self,
        session: &str,
        variable: impl Fn(&str) -> Option<PathBuf>,
    ) -> Option<(PathBuf, Format)> {
        let rule = self.transcript.as_ref()?;
        let own = self.config_dir_variable.as_deref().and_then(&variable);
        let found = rule.locate(own.as_deref(), variable("HOME").as_deref(), session)?;
        Some((found, rule.format))
    }

    /// What the exit code says by itself; nothing where it is an exit code like any other.
    pub fn said_by_exit(&self, how: HowEnded) -> Option<ReportedEnd> {
        let HowEnded::Code(code) = how else {
            return None;
        };
        Some(match self.exit_codes.get(&ExitCode(code))? {
            ExitWord::Plain(PlainExitWord::Success) => ReportedEnd::Success,
            ExitWord::Plain(PlainExitWord::Later) => ReportedEnd::Later(None),
            ExitWord::Plain(PlainExitWord::Failure) => ReportedEnd::Failure(format!("exit {code}")),
            ExitWord::Plain(PlainExitWord::Stopped) => {
                ReportedEnd::Failure(format!("interrupted (exit {code})"))
            }
            ExitWord::Failure { failure } => ReportedEnd::Failure(failure.clone()),
            ExitWord::Incurable { incurable } => ReportedEnd::Incurable(incurable.clone()),
        })
    }

    /// Whether its output has to be read at all.
    pub fn reads_stream(&self) -> bool {
        let matches = [
            &self.success,
            &self.failure,
            &self.later,
            &self.wait,
            &self.incurable,
        ];
        let has_session = self.session.path.is_some() || !self.session.gone.is_empty();
        let has_other = self.tool_call.is_some() || !self.usage.is_empty();
        has_session || has_other || matches.iter().any(|rules| !rules.is_empty())
    }

    /// Reads the output of one attempt.
    pub fn reader(&self) -> StreamReader {
        StreamReader::new(self)
    }
}

const TERM: i32 = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_known_by_name() {
        assert_eq!(signal_number("INT"), Some(2));
        assert_eq!(signal_number("SIGTERM"), Some(15));
        for bad in ["", "other", "int", "STOPP", "9"] {
            assert_eq!(signal_number(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_rung_without_a_wait_gets_the_grace() {
        let grace = Span::from_secs(10);
        let wait = Some(Span::from_secs(5));
        assert_eq!(
            StopRung { signal: 2, wait }.rung(grace).wait,
            Span::from_secs(5)
        );
        assert_eq!(
            StopRung {
                signal: 2,
                wait: None
            }
            .rung(grace)
            .wait,
            grace
        );
    }
}
