//! `relight hook`: one program for the hooks of all agents' programs.
//!
//! It never gets in the agent's way: whatever goes wrong, it exits with 0 and writes to a log file only. What
//! is recorded is decided in `runtime/hooks`; here JSON comes in, and what the program wants to read goes out.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use relight_core::checkpoint::{Limits, StrictError, check_unambiguous};
use relight_runtime::hooks::{
    Conversation, HookEvent, Observation, Payload, RunsIn, Telling, ToolRules,
};
use relight_runtime::os::{clock, file};
use relight_runtime::supervise::notify::{self, NotifySign};
use serde_json::{Value, json};

use crate::arguments::hook::{HookArguments, HookProgram};
use crate::config::Config;
use crate::environment::Environment;
use crate::exit::{Exit, Failure};
use crate::{block_on, output, trust};

/// Most bytes of an event.
const INPUT_BYTES_MAX: u64 = 32 << 20;
/// How deep an event is looked into for names that stand there twice.
const LIMITS: Limits = Limits {
    bytes_max: INPUT_BYTES_MAX as usize,
    depth_max: 128,
};
/// An agent does not wait longer for its hook, even if the store is busy.
const PATIENCE: Duration = Duration::from_secs(3);
/// A larger log is set aside, and the one before it is lost.
const LOG_BYTES_MAX: u64 = 256 << 10;
/// More is not a brief.
const BRIEF_BYTES_MAX: u64 = 16 << 10;

pub(crate) fn run(environment: &Environment, given: &HookArguments) -> u8 {
    let (event, program) = (given.event, given.program);
    let failed = move |environment: &Environment, why: &str| {
        log(
            environment,
            &format!("{event:?} of {}: {why}", program.as_str()),
        );
    };
    // A bug is a bug for the log, not for the agent's terminal.
    std::panic::set_hook(Box::new(|_| {}));
    // Beside the work, which stays on this thread: memory of another one would have to be set up first.
    let watched = environment.clone();
    let (is_at_work, has_ended) = mpsc::channel::<()>();
    let watch = move || {
        if has_ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            failed(&watched, &format!("it took longer than {PATIENCE:?}"));
            std::process::exit(0);
        }
    };
    // Without a thread nobody limits the time.
    let _ = std::thread::Builder::new().spawn(watch);
    let observe = || observe(environment, event, program);
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(observe)) {
        Ok(Ok(Some(answer))) => output::line(&answer.to_string()),
        Ok(Ok(None)) => {}
        Ok(Err(failure)) => failed(environment, &failure.message),
        Err(_) => failed(environment, "a bug ended it"),
    }
    drop(is_at_work);
    0
}

/// What the flags of a hook said could not be understood: there is no home to log to.
pub(crate) fn not_understood(failure: &Failure) {
    // Programs show this, or keep it in their own log.
    let message = output::one_line(&failure.message);
    let _ = writeln!(std::io::stderr(), "relight hook: {message}");
}

/// Records one event; what the program is to read.
fn observe(
    environment: &Environment,
    event: HookEvent,
    program: HookProgram,
) -> Result<Option<Value>, Failure> {
    let payload = read()?;
    show_life(environment, program, &payload);
    let rule_of = |tool: &str| tool_rules(environment).of(tool);
    let Some(observation) = Observation::of(event, &payload, rule_of) else {
        return Ok(None);
    };
    let engine = environment.engine()?;
    let given = environment.own_task()?;
    let program_name = program.as_str();
    let conversation = Conversation {
        engine: &engine,
        program: program_name,
        payload: &payload,
        given,
        runs_in: RunsIn::Caller,
        is_metered: environment.get("RELIGHT_METERED").is_some(),
    };
    // A supervisor has written a brief for its own agent, and may have passed it already.
    let is_supervised = environment.get("RELIGHT_ATTEMPT").is_some();
    let telling = Telling {
        at: program.told_at(),
        brief: is_supervised.then_some(|| brief_of_attempt(environment, &payload.session)),
    };
    let told = block_on(observation.record(&conversation, telling))?;
    Ok(told.map(|text| program.context(payload.event.as_deref(), &text)))
}

fn read() -> Result<Payload, Failure> {
    let mut bytes = Vec::new();
    let input = std::io::stdin()
        .lock()
        .take(INPUT_BYTES_MAX)
        .read_to_end(&mut bytes);
    input.map_err(|error| Failure::new(Exit::Io, format!("standard input: {error}")))?;
    let bad = |why: String| Failure::new(Exit::Data, format!("standard input: {why}"));
    if let Err(error @ StrictError::DuplicateKey { .. }) = check_unambiguous(&bytes, LIMITS) {
        return Err(bad(error.to_string()));
    }
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))?;
    Payload::read(&value).ok_or_else(|| bad("it names no session".to_owned()))
}

/// Tells the supervisor, where there is one, that its agent lives and which conversation it has.
fn show_life(environment: &Environment, program: HookProgram, payload: &Payload) {
    let Some(address) = environment.get("NOTIFY_SOCKET") else {
        return;
    };
    let session = NotifySign::Session(program.as_str().to_owned(), payload.session.clone());
    // Its next event tells again.
    let _ = notify::try_send(address, &[NotifySign::Alive, session]);
}

/// Of the configuration that `up` would find. One that cannot be used leaves the defaults.
fn tool_rules(environment: &Environment) -> ToolRules {
    let content = environment
        .config_file(None)
        .and_then(|source| source.read().ok());
    let content = content.filter(|content| content.refuse_stranger().is_ok());
    let rules = Config::tool_rules_of(content.as_ref().map_or("", |content| &content.text));
    let defaults = Config::tool_rules_of("");
    // A foreign folder could switch the records off.
    let approved = match &content {
        Some(content) if rules != defaults => {
            environment.require_approval_of(&content.origin(), &[trust::HOOKS])
        }
        _ => Ok(()),
    };
    match approved {
        Ok(()) => rules,
        Err(failure) => {
            log(
                environment,
                &format!("{}; the default rules of tools apply", failure.message),
            );
            defaults
        }
    }
}

fn brief_of_attempt(environment: &Environment, session: &str) -> Option<String> {
    let read = |variable, most| {
        let bytes = file::read_regular(Path::new(environment.get(variable)?), most)?;
        String::from_utf8(bytes).ok()
    };
    let state = read("RELIGHT_STATE_FILE", BRIEF_BYTES_MAX)?;
    let state: Value = serde_json::from_str(&state).ok()?;
    // A program that the agent calls as a tool has another conversation.
    let is_its_own = state["session_id"].as_str().is_none_or(|id| id == session);
    let is_passed = environment.get("RELIGHT_BRIEF_PASSED").is_some();
    let brief = read("RELIGHT_BRIEF_FILE", BRIEF_BYTES_MAX)?;
    (is_its_own && !is_passed).then_some(brief)
}

impl HookProgram {
    /// The event with whose answer it takes context.
    fn told_at(self) -> HookEvent {
        match self {
            Self::Claude
            | Self::Codex
            | Self::Gemini
            | Self::Qwen
            | Self::Cursor
            | Self::Copilot => HookEvent::SessionStart,
            Self::Kimi | Self::Opencode => HookEvent::Prompt,
        }
    }

    /// A text for the model's context.
    fn context(self, event: Option<&str>, text: &str) -> Value {
        match self {
            Self::Claude | Self::Codex | Self::Gemini | Self::Qwen => {
                json!({"hookSpecificOutput": {
                    "hookEventName": event.unwrap_or("SessionStart"), "additionalContext": text,
                }})
            }
            Self::Cursor => json!({"additional_context": text}),
            Self::Kimi => json!({"message": text}),
            Self::Opencode | Self::Copilot => json!({"additionalContext": text}),
        }
    }
}

fn log(environment: &Environment, text: &str) {
    let Ok(home) = environment.home() else { return };
    let path = home.join("hooks.log");
    if std::fs::metadata(&path).is_ok_and(|found| found.len() > LOG_BYTES_MAX) {
        let _ = std::fs::rename(&path, home.join("hooks.log.1"));
    }
    let line = format!("{} {}\n", clock::now(), output::one_line(text));
    // There is nobody else to tell.
    let _ = file::open_to_append(&path).and_then(|mut file| file.write_all(line.as_bytes()));
}
