//! `relight presets`: what Relight knows of kinds of agents, and what that does to a command.

use relight_core::agent::death::signal_name;
use relight_core::error_code::{ErrorCode, with_causes};
use relight_core::time::Span;
use relight_runtime::os::word::Word;
use relight_runtime::presets::{Launch, Preset, PresetError};
use serde_json::{Value, json};

use crate::arguments::agent::{PresetTestArguments, PresetsCommand};
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::output::shell_quote;

/// Stands for the id of a session that an agent has.
const SESSION: &str = "00000000-0000-4000-8000-000000000000";
/// Stands for what a resumed agent is told.
const BRIEF: &str = "(the brief)";
/// What `run` gives an agent to end, unless told otherwise.
const GRACE: Span = Span::from_secs(10);

pub(crate) fn run(environment: &Environment, command: &PresetsCommand) -> Outcome {
    match command {
        PresetsCommand::List => Ok(list(environment)),
        PresetsCommand::Show(arguments) => show(environment, &arguments.name),
        PresetsCommand::Test(arguments) => test(environment, arguments),
    }
}

/// One that is not valid is listed with the reason; the others are as good as ever.
fn list(environment: &Environment) -> u8 {
    let mut rows = vec![vec!["preset".to_owned(), "for".to_owned()]];
    let mut values: Vec<Value> = Vec::new();
    for (name, preset) in Preset::all(environment.presets_folder().as_deref()) {
        let (about, error) = match &preset {
            Ok(preset) => (Some(preset.about()), None),
            Err(error) => (None, Some(with_causes(error))),
        };
        values.push(json!({"name": name, "about": about, "error": error}));
        let text = about
            .map(str::to_owned)
            .or(error.map(|error| format!("not valid: {error}")));
        rows.push(vec![name, text.unwrap_or_default()]);
    }
    output::list(environment, values, &output::table(&rows));
    0
}

fn show(environment: &Environment, name: &str) -> Outcome {
    let preset = find(environment, name)?;
    let value = json!({"name": name, "about": preset.about(), "source": preset.source()});
    output::answer(environment, &value, preset.source().trim_end());
    Ok(0)
}

fn test(environment: &Environment, arguments: &PresetTestArguments) -> Outcome {
    let preset = find(environment, &arguments.name)?;
    let given: Vec<Word> = arguments
        .command
        .iter()
        .map(|word| word.as_os_str().into())
        .collect();
    let session = preset.new_session(SESSION.to_owned());
    let first = Launch {
        first: true,
        anew: false,
        session: session.as_deref(),
        brief: BRIEF,
        brief_file: "brief.md",
        resume_args: None,
        has_terminal: arguments.tty,
    };
    let resumed = Launch {
        first: false,
        session: Some(SESSION),
        ..first
    };
    let anew = Launch {
        anew: true,
        session: first.session,
        ..resumed
    };
    let texts = |launch| -> Option<Vec<String>> {
        let is_given = !given.is_empty();
        is_given.then(|| {
            preset
                .command(&given, launch)
                .iter()
                .map(Word::to_text)
                .collect()
        })
    };
    let tested = Tested {
        first: texts(first),
        resumed: texts(resumed),
        anew: texts(anew),
        variables: preset.environment(resumed),
        ladder: preset
            .ladder(GRACE)
            .iter()
            .map(|rung| (rung.signal, rung.wait))
            .collect(),
        signs: preset.signs().iter().map(|sign| sign.as_str()).collect(),
    };
    output::answer(environment, &tested.to_json(&preset), &tested.text());
    Ok(0)
}

/// What a preset makes of a command.
struct Tested {
    first: Option<Vec<String>>,
    resumed: Option<Vec<String>>,
    /// After a death, where no session is known to resume.
    anew: Option<Vec<String>>,
    variables: Vec<(String, String)>,
    ladder: Vec<(i32, Span)>,
    signs: Vec<&'static str>,
}

impl Tested {
    fn to_json(&self, preset: &Preset) -> Value {
        let rung =
            |(signal, wait): &(i32, Span)| json!({"signal": signal, "wait_ms": wait.as_ms()});
        let variables: serde_json::Map<String, Value> = self
            .variables
            .iter()
            .map(|(name, value)| (name.clone(), json!(value)))
            .collect();
        json!({
            "preset": preset.name(),
            "first": self.first,
            "resumed": self.resumed,
            "without_session": self.anew,
            "resumed_environment": variables,
            "stop": self.ladder.iter().map(rung).collect::<Vec<_>>(),
            "signs": self.signs,
        })
    }

    fn text(&self) -> String {
        let words = |words: &Vec<String>| words.iter().map(|word| shown(word)).collect::<Vec<_>>();
        let rung = |(signal, wait): &(i32, Span)| format!("{}, {wait}", signal_name(*signal));
        let stop: Vec<String> = self.ladder.iter().map(rung).collect();
        let mut rows = Vec::new();
        let mut row = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
        if let (Some(first), Some(resumed)) = (&self.first, &self.resumed) {
            row("first", words(first).join(" "));
            row("resumed", words(resumed).join(" "));
            if let Some(anew) = self.anew.as_ref().filter(|anew| *anew != resumed) {
                row("without a session", words(anew).join(" "));
            }
        }
        for (name, value) in &self.variables {
            row("with", format!("{name}={}", shown(value)));
        }
        row("stopped by", format!("{}, then KILL", stop.join(", then ")));
        row("signs of life", self.signs.join(", "));
        output::table(&rows)
    }
}

/// A word as it could be typed.
fn shown(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/=:@%+,-".contains(c);
    let is_simple = !word.is_empty() && word.chars().all(is_plain);
    if is_simple {
        word.to_owned()
    } else {
        shell_quote(word)
    }
}

pub(super) fn find(environment: &Environment, name: &str) -> Result<Preset, Failure> {
    let found = Preset::by_name(name, environment.presets_folder().as_deref());
    found.map_err(|error| {
        let failure = |exit| Failure::new(exit, with_causes(&error));
        match &error {
            PresetError::Unknown { nearest, .. } => {
                let hint = match nearest {
                    Some(nearest) => format!("relight presets show {nearest}"),
                    None => "relight presets list".to_owned(),
                };
                Failure::of(ErrorCode::NOT_FOUND, with_causes(&error)).hint(hint)
            }
            PresetError::Unreadable { .. } => failure(Exit::Io),
            PresetError::Invalid { .. } => failure(Exit::Config),
        }
    })
}
