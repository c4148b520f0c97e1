//! `relight session`: conversations whose turns can be cut off.

mod file;
pub(super) mod recovery;
mod text;

use relight_core::ids::SessionKey;
use relight_core::lease::Holder;
use relight_core::session::{Generation, SessionEvent, SessionStateKind};
use relight_core::time::Span;
use relight_runtime::engine::Engine;
use relight_runtime::sessions::{self, Owner};
use relight_server::view;
use serde_json::json;

use self::text::{list_text, show_text};
use crate::arguments::HolderArguments;
use crate::arguments::session::{
    SessionBeginArguments, SessionCommand, SessionEndArguments, SessionListArguments,
    ShutdownArguments, TouchArguments,
};
use crate::environment::Environment;
use crate::exit::{Failure, Outcome};
use crate::output::shell_quote;
use crate::{block_on, output};

pub(crate) fn run(environment: &Environment, command: SessionCommand) -> Outcome {
    match command {
        SessionCommand::Begin(arguments) => begin(environment, arguments),
        SessionCommand::End(arguments) => end(environment, arguments),
        SessionCommand::Touch(arguments) => touch(environment, arguments),
        SessionCommand::List(arguments) => list(environment, arguments),
        SessionCommand::Show(which) => show(environment, which.key),
        SessionCommand::Resume(which) => resume(environment, which.key),
        SessionCommand::Suspend(arguments) => {
            let suspend = SessionEvent::Suspend { reason: arguments.reason };
            persons_verb(environment, arguments.key, suspend)
        }
        SessionCommand::Clear(which) => persons_verb(environment, which.key, SessionEvent::Clear),
        SessionCommand::Shutdown(arguments) => shutdown(environment, &arguments),
        SessionCommand::Recover(arguments) => recovery::recover(environment, &arguments),
        SessionCommand::Import(arguments) => file::import(environment, &arguments),
        SessionCommand::Export(arguments) => file::export(environment, &arguments),
    }
}

fn begin(environment: &Environment, arguments: SessionBeginArguments) -> Outcome {
    let key = environment.session(arguments.key)?;
    let engine = environment.engine()?;
    let (owner, ttl) = owner(environment, &engine, &arguments.holder)?;
    let context = arguments.context.into_iter().collect();
    let event = SessionEvent::Begin { session_id: arguments.id, owner, ttl, context };
    let acted = block_on(sessions::act(&engine, &key, event))?;
    let resumed = acted.was_cut_off();
    let generation = acted.after.generation;
    if arguments.export {
        output::line(&format!(
            "export RELIGHT_SESSION={}\nexport RELIGHT_GENERATION={generation}\nexport RELIGHT_RESUMED={}",
            shell_quote(key.as_str()),
            u8::from(resumed)
        ));
        return Ok(0);
    }
    output::answer(environment, &view::begun_turn(&acted), &generation.to_string());
    if let (true, false, Some(reason)) = (resumed, environment.json, &acted.after.reason) {
        output::note(environment, &format!("its turn before was cut off: {}", reason.text));
    }
    Ok(0)
}

/// Whose life a turn follows. Those without a process or an attempt are told apart by their user alone.
fn owner(
    environment: &Environment,
    engine: &Engine,
    given: &HolderArguments,
) -> Result<(Holder, Option<Span>), Failure> {
    let (holder, ttl) = environment.holder(given, None, &**engine.store())?;
    Ok(match holder {
        Holder::Time { .. } => (Holder::Time { by: environment.user() }, ttl),
        Holder::Process(_) | Holder::Attempt { .. } => (holder, ttl),
    })
}

fn end(environment: &Environment, arguments: SessionEndArguments) -> Outcome {
    let key = environment.session(arguments.key)?;
    let generation = Generation(environment.generation(&key, arguments.generation)?);
    let engine = environment.engine()?;
    let acted = block_on(sessions::act(&engine, &key, SessionEvent::End { generation }))?;
    let text = match acted.changed {
        true => format!("session {key}: turn {generation} ended"),
        false => format!("session {key}: turn {generation} had ended before"),
    };
    output::answer(environment, &view::ended_turn(&acted, generation), &text);
    Ok(0)
}

fn touch(environment: &Environment, arguments: TouchArguments) -> Outcome {
    let key = environment.session(arguments.key)?;
    let engine = environment.engine()?;
    let at = relight_runtime::os::clock::now();
    let event = SessionEvent::Touch { session_id: arguments.id, at };
    let acted = block_on(sessions::act(&engine, &key, event))?;
    let text = format!("session {key} was seen");
    output::answer(environment, &view::session(&acted.after), &text);
    Ok(0)
}

fn list(environment: &Environment, arguments: SessionListArguments) -> Outcome {
    let engine = environment.engine()?;
    let listing = sessions::list(&engine, arguments.states, arguments.after, arguments.limit);
    let (found, next) = block_on(listing)?;
    let items: Vec<_> = found.iter().map(view::session).collect();
    output::answer(environment, &json!({"items": items, "next": next}), &list_text(&found));
    if let (Some(next), false) = (next, environment.json) {
        output::note(
            environment,
            &format!("there are more: --after {}", output::shell_word(next.as_str())),
        );
    }
    Ok(0)
}

fn show(environment: &Environment, key: Option<SessionKey>) -> Outcome {
    let key = environment.session(key)?;
    let engine = environment.engine()?;
    let session = block_on(sessions::session(&engine, &key))?;
    output::answer(environment, &view::session(&session), &show_text(&session));
    Ok(0)
}

fn resume(environment: &Environment, key: Option<SessionKey>) -> Outcome {
    let key = environment.session(key)?;
    let engine = environment.engine()?;
    let acted = block_on(sessions::act(&engine, &key, SessionEvent::Resume))?;
    let was = acted.previous_state().expect("only what is there is resumed");
    let text = format!("session {key} goes on with {}; it was {was}", acted.after.session_id);
    output::answer(environment, &view::changed_session(&acted), &text);
    Ok(0)
}

/// One event, then the session as it is now.
fn persons_verb(
    environment: &Environment,
    key: Option<SessionKey>,
    event: SessionEvent,
) -> Outcome {
    let key = environment.session(key)?;
    let engine = environment.engine()?;
    let acted = block_on(sessions::act(&engine, &key, event))?;
    let text = format!("session {key} is {}", acted.after.state.kind());
    output::answer(environment, &view::changed_session(&acted), &text);
    if acted.previous_state() == Some(SessionStateKind::Active) {
        let turn = acted.after.generation;
        output::note(environment, &format!("its turn {turn} was taken from its owner"));
    }
    Ok(0)
}

fn shutdown(environment: &Environment, arguments: &ShutdownArguments) -> Outcome {
    let engine = environment.engine()?;
    let whose = match arguments.owner_pid {
        Some(pid) => Owner::process(pid),
        None => {
            let given = HolderArguments { owner_pid: None, lease: None };
            Owner::Holder(owner(environment, &engine, &given)?.0)
        }
    };
    let discarded = block_on(sessions::shutdown(&engine, &whose))?;
    let text = match discarded.len() {
        0 => "no turn was in flight".to_owned(),
        count => format!("{count} marks discarded"),
    };
    output::answer(environment, &json!({"discarded": discarded}), &text);
    Ok(0)
}
