//! `relight session`: conversations whose turns can be cut off.

mod file;
pub(super) mod recovery;
mod text;

use relight_core::ids::SessionKey;
use relight_core::lease::Holder;
use relight_core::session::SessionStateKind;
use relight_runtime::engine::Engine;
use relight_runtime::operations::page_limit;
use relight_runtime::operations::session::{
    self, ChangedSession, SessionBegin, SessionCaller, SessionClear, SessionEnd, SessionOperation,
    SessionResume, SessionShutdown, SessionSuspend, SessionTouch,
};

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
        SessionCommand::End(arguments) => end(environment, &arguments),
        SessionCommand::Touch(arguments) => touch(environment, arguments),
        SessionCommand::List(arguments) => list(environment, arguments),
        SessionCommand::Show(which) => show(environment, which.key),
        SessionCommand::Resume(which) => resume(environment, which.key),
        SessionCommand::Suspend(arguments) => {
            let reason = arguments.reason;
            persons_verb(environment, arguments.key, |key| SessionSuspend {
                key,
                reason,
            })
        }
        SessionCommand::Clear(which) => {
            persons_verb(environment, which.key, |key| SessionClear { key })
        }
        SessionCommand::Shutdown(arguments) => shutdown(environment, &arguments),
        SessionCommand::Recover(arguments) => recovery::recover(environment, &arguments),
        SessionCommand::Import(arguments) => file::import(environment, &arguments),
        SessionCommand::Export(arguments) => file::export(environment, &arguments),
    }
}

/// Runs a verb as this user, or as the attempt that the command is part of.
fn operate<O: SessionOperation>(
    environment: &Environment,
    owner_pid: Option<u32>,
    request: O,
) -> Result<O::Answer, Failure> {
    check_owner(environment, owner_pid)?;
    let engine = environment.engine()?;
    let caller = SessionCaller {
        owner: owner(environment, &engine)?,
        is_local: true,
    };
    Ok(block_on(request.run(&engine, &caller))?)
}

/// A process that is named as an owner must live.
fn check_owner(environment: &Environment, owner_pid: Option<u32>) -> Result<(), Failure> {
    if let Some(pid) = owner_pid {
        environment.named_process(pid, environment.engine()?.store().as_ref())?;
    }
    Ok(())
}

/// Whose life a turn follows. Those without an attempt are told apart by their user only.
fn owner(environment: &Environment, engine: &Engine) -> Result<Holder, Failure> {
    let given = HolderArguments {
        owner_pid: None,
        lease: None,
    };
    let (holder, _) = environment.holder(&given, None, &**engine.store())?;
    Ok(match holder {
        Holder::Time { .. } => Holder::Time {
            by: environment.user(),
        },
        Holder::Process(_) | Holder::Attempt { .. } => holder,
    })
}

fn begin(environment: &Environment, arguments: SessionBeginArguments) -> Outcome {
    let HolderArguments { owner_pid, lease } = arguments.holder;
    let request = SessionBegin {
        key: environment.session(arguments.key)?,
        id: arguments.id,
        owner: None,
        owner_pid,
        lease,
        set: arguments.context.into_iter().collect(),
    };
    let begun = operate(environment, owner_pid, request)?;
    if arguments.export {
        output::line(&format!(
            "export RELIGHT_SESSION={}\nexport RELIGHT_GENERATION={}\nexport RELIGHT_RESUMED={}",
            shell_quote(begun.key.as_str()),
            begun.generation,
            u8::from(begun.resumed)
        ));
        return Ok(0);
    }
    output::answer(environment, &begun, &begun.generation.to_string());
    if let (true, false, Some(reason)) = (begun.resumed, environment.json, &begun.reason) {
        output::note(
            environment,
            &format!("its turn before was cut off: {reason}"),
        );
    }
    Ok(0)
}

fn end(environment: &Environment, arguments: &SessionEndArguments) -> Outcome {
    let key = environment.session(arguments.key.clone())?;
    let generation = environment.generation(&key, arguments.generation)?;
    let ended = operate(environment, None, SessionEnd { key, generation })?;
    let how = if ended.ended_before {
        "had ended before"
    } else {
        "ended"
    };
    let text = format!("session {}: turn {generation} {how}", ended.key);
    output::answer(environment, &ended, &text);
    Ok(0)
}

fn touch(environment: &Environment, arguments: TouchArguments) -> Outcome {
    let TouchArguments {
        key,
        id,
        generation,
        owner_pid,
    } = arguments;
    let key = environment.session(key)?;
    let touched = operate(
        environment,
        owner_pid,
        SessionTouch {
            key,
            id,
            generation,
            owner: None,
            owner_pid,
        },
    )?;
    let text = match generation {
        Some(generation) => format!("session {}: turn {generation} is renewed", touched.key),
        None => format!("session {} was seen", touched.key),
    };
    output::answer(environment, &touched, &text);
    Ok(0)
}

fn list(environment: &Environment, arguments: SessionListArguments) -> Outcome {
    let engine = environment.engine()?;
    let SessionListArguments {
        states,
        after,
        limit,
        ..
    } = arguments;
    let limit = page_limit(Some(limit))?;
    let found = block_on(session::list(&engine, states, after, limit))?;
    output::answer(environment, &found, &list_text(&found.items));
    output::left_out(&found.unreadable);
    if let (Some(next), false) = (found.next, environment.json) {
        output::note(
            environment,
            &format!("there are more: --after {}", output::shell_word(&next)),
        );
    }
    Ok(0)
}

fn show(environment: &Environment, key: Option<SessionKey>) -> Outcome {
    let key = environment.session(key)?;
    let engine = environment.engine()?;
    let session = block_on(session::show(&engine, &key))?;
    output::answer(environment, &session, &show_text(&session));
    Ok(0)
}

fn resume(environment: &Environment, key: Option<SessionKey>) -> Outcome {
    let key = environment.session(key)?;
    let changed = operate(environment, None, SessionResume { key })?;
    let was = changed
        .previous_state
        .expect("only what is there is resumed");
    let ChangedSession { session, .. } = &changed;
    let text = format!(
        "session {} continues with {}; it was {was}",
        session.key, session.session_id
    );
    output::answer(environment, &changed, &text);
    Ok(0)
}

/// One verb, then the session as it is now.
fn persons_verb<O: SessionOperation<Answer = ChangedSession>>(
    environment: &Environment,
    key: Option<SessionKey>,
    request: impl FnOnce(SessionKey) -> O,
) -> Outcome {
    let key = environment.session(key)?;
    let changed = operate(environment, None, request(key))?;
    let session = &changed.session;
    let text = format!("session {} is {}", session.key, session.state);
    output::answer(environment, &changed, &text);
    if changed.previous_state == Some(SessionStateKind::Active) {
        let turn = session.generation;
        output::note(
            environment,
            &format!("its turn {turn} was taken from its owner"),
        );
    }
    Ok(0)
}

fn shutdown(environment: &Environment, arguments: &ShutdownArguments) -> Outcome {
    let owner_pid = arguments.owner_pid;
    let done = operate(
        environment,
        None,
        SessionShutdown {
            owner: None,
            owner_pid,
        },
    )?;
    let text = match done.discarded.len() {
        0 => "no turn was in flight".to_owned(),
        count => format!("{count} marks discarded"),
    };
    output::answer(environment, &done, &text);
    Ok(0)
}
