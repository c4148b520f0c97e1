//! `relight session recover`: what a gateway calls at its start.

use std::path::{Path, PathBuf};

use relight::sessions::{self, Decided};
use relight_core::session::{Policy, Rules};
use serde::Serialize;

use crate::arguments::session::RecoverArguments;
use crate::config::Config;
use crate::environment::Environment;
use crate::exit::{Failure, Outcome, cannot_use};
use crate::{block_on, output};

#[derive(Debug, Serialize)]
struct Answer {
    dry_run: bool,
    policy: Policy,
    items: Vec<Decided>,
}

pub(super) fn recover(environment: &Environment, arguments: &RecoverArguments) -> Outcome {
    let rules = rules(environment, arguments)?;
    let engine = environment.long_engine()?;
    let dry_run = arguments.dry_run;
    let items = block_on(async {
        match dry_run {
            true => sessions::find(&engine, &rules).await,
            false => sessions::recover(&engine, &rules).await,
        }
    })?;
    if environment.json {
        // Not through a tree of values: there may be a hundred thousand.
        output::json(&Answer { dry_run, policy: rules.policy, items });
    } else {
        output::answer(environment, &(), &in_words(&items, dry_run));
    }
    Ok(0)
}

/// What the flags say, over what the configuration says.
fn rules(environment: &Environment, arguments: &RecoverArguments) -> Result<Rules, Failure> {
    let configured = configured(environment, arguments.config.as_deref())?;
    Ok(Rules {
        policy: arguments.policy.unwrap_or(configured.policy),
        freshness: arguments.freshness.unwrap_or(configured.freshness),
        window: arguments.window.unwrap_or(configured.window),
    })
}

/// `[sessions]` of the configuration that `relight up` would find; the defaults where there is none.
fn configured(environment: &Environment, given: Option<&Path>) -> Result<Rules, Failure> {
    let user = environment.config_folder();
    let user_config = user.as_deref().and_then(Path::parent);
    let Some(file) = Config::find(given, &PathBuf::from("."), user_config) else {
        return Ok(Rules::default());
    };
    let file = std::path::absolute(&file).map_err(|error| cannot_use(&file, &error))?;
    let config = Config::load(&file, environment.presets_folder().as_deref())?;
    Ok(config.sessions)
}

fn in_words(items: &[Decided], dry_run: bool) -> String {
    if items.is_empty() {
        return "no session was cut off".to_owned();
    }
    let verb = if dry_run { "would become" } else { "is" };
    let line = |one: &Decided| {
        let reason = one.reason.as_deref().unwrap_or("no reason is known");
        let (key, state) = (&one.key, one.state);
        output::one_line(&format!("session {key} {verb} {state}: {reason}"))
    };
    items.iter().map(line).collect::<Vec<_>>().join("\n")
}
