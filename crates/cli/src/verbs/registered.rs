//! Agents that were registered over HTTP with their command: the store is their configuration, so that
//! they are supervised again after every start of the daemon.

use std::sync::Arc;

use relight_core::agent::{AgentPlan, REGISTERED};
use relight_core::ids::AgentName;
use relight_core::node::Placement;
use relight_core::time::Span;
use relight_runtime::engine::Engine;
use relight_runtime::os::word::Word;
use relight_runtime::supervise::control::AgentRegistration;
use relight_runtime::supervise::log::LogLimits;
use relight_runtime::supervise::shim::wire::Input;
use relight_runtime::supervise::spec::AgentSpec;
use relight_store::AgentQuery;

use super::supervision;
use crate::config::{Config, short_environment};
use crate::environment::Environment;
use crate::exit::Failure;
use crate::output;

/// What somebody wants of an agent, with what the configuration says of all.
pub(super) fn plan(config: &Config, new: AgentRegistration) -> AgentPlan {
    let recovery = &config.recovery;
    let folder = new.folder.unwrap_or_else(|| config.folder.clone());
    let silence_max = match new.silence_max {
        None => recovery.silence_max,
        given => given.and_then(Span::as_limit),
    };
    AgentPlan {
        command: new.command,
        folder: folder.to_string_lossy().into_owned(),
        preset: new.preset.unwrap_or_else(|| "generic".to_owned()),
        restart: new.restart,
        silence_max,
        skills: new.skills,
        labels: [(REGISTERED.to_owned(), "true".to_owned())].into(),
        ..recovery.limits()
    }
}

/// How it is supervised. Its environment is the short list that every agent of the daemon gets.
pub(super) fn spec(
    environment: &Environment,
    config: &Config,
    name: AgentName,
    plan: AgentPlan,
) -> Result<AgentSpec, Failure> {
    let preset = supervision::preset(environment, Some(&plan.preset))?;
    Ok(AgentSpec {
        name,
        command: plan.command.iter().cloned().map(Word::from).collect(),
        environment: short_environment(&environment.variables_for_agents(), &preset),
        signs: preset.sign_sources(),
        ladder: Some(preset.ladder(plan.grace)),
        plan,
        preset: Arc::new(preset),
        resume_args: None,
        input: Input::Null,
        user: None,
        until: None,
        strategy: None,
        placement: Placement::Any,
        log_limits: LogLimits {
            file_bytes_max: config.log.file_max,
            files_max: config.log.files,
        },
    })
}

/// All that the store knows. What the configuration names too is the configuration's; where commands
/// are not taken over the network any more, none of them is started.
pub(super) async fn specs(
    environment: &Environment,
    engine: &Engine,
    config: &Config,
    configured: &[AgentSpec],
) -> Result<Vec<AgentSpec>, Failure> {
    if !config.daemon.commands {
        return Ok(Vec::new());
    }
    let mut specs = Vec::new();
    for agent in engine.store().agents(AgentQuery::default()).await? {
        let is_configured = configured.iter().any(|spec| spec.name == agent.name);
        if agent.plan.is_registered() && !is_configured {
            // One that cannot be had any more keeps no other from its work.
            match spec(environment, config, agent.name.clone(), agent.plan) {
                Ok(spec) => specs.push(spec),
                Err(failure) => {
                    let text = format!("{} is left alone: {}", agent.name, failure.message);
                    output::note(environment, &text);
                }
            }
        }
    }
    Ok(specs)
}
