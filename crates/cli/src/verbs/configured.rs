//! Agents of `relight.toml`: which file it is, and what a supervisor is told of each of them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use relight_core::agent::Takes;
use relight_core::agent::silence::SignSource;
use relight_core::ids::AgentName;
use relight_runtime::engine::Engine;
use relight_runtime::os::word::Word;
use relight_runtime::project::Project;
use relight_runtime::supervise::log::LogLimits;
use relight_runtime::supervise::shim::wire::Input;
use relight_runtime::supervise::spec::AgentSpec;
use relight_runtime::supervise::supervisor::QueueSettings;

use super::supervision::{self, cannot_use};
use crate::config::{self, AgentConfig, Config};
use crate::environment::Environment;
use crate::exit::{Exit, Failure};
use crate::trust;
use crate::work::{Work, find_config};

/// The configuration: the given one, else the one that is found.
pub(super) fn load(environment: &Environment, given: Option<&Path>) -> Result<Config, Failure> {
    if let Some(config) = find_config(environment, given)? {
        return Ok(config);
    }
    let project = environment.project()?;
    if let Some(missing) = project.and_then(Project::missing) {
        return Err(missing.into());
    }
    let text = "there is no relight.toml here, nor in the user's configuration";
    Err(Failure::new(Exit::Config, text)
        .hint("relight init writes one; or give --config FILE; relight run -- CMD needs none"))
}

/// The same for a command that tells somebody of alerts: what it takes from the file has to be approved.
pub(super) fn load_alerts(
    environment: &Environment,
    given: Option<&Path>,
) -> Result<Config, Failure> {
    let config = load(environment, given)?;
    let keys = [trust::STORE_URL, trust::ALERT_COMMAND, trust::ALERT_WEBHOOK];
    environment.require_approval(&config, &keys)?;
    Ok(config)
}

/// The agents of the configuration that are switched on.
pub(super) fn specs(
    environment: &Environment,
    engine: &Engine,
    config: &Config,
) -> Result<Vec<AgentSpec>, Failure> {
    let mut specs: Vec<AgentSpec> = Vec::new();
    for agent in config.agents.iter().filter(|agent| agent.enabled) {
        specs.extend(pool(agent, spec(environment, engine, config, agent)?)?);
    }
    let mut names = BTreeSet::new();
    match specs.iter().find(|spec| !names.insert(&spec.name)) {
        None => Ok(specs),
        Some(twice) => Err(Failure::new(
            Exit::Config,
            format!(
                "two agents would be called {}: one of a pool, and one of its own",
                twice.name
            ),
        )
        .hint("give one of them another name in relight.toml")),
    }
}

/// As many as work at a time: those that are started with tasks are one process a task.
fn pool(agent: &AgentConfig, spec: AgentSpec) -> Result<Vec<AgentSpec>, Failure> {
    if agent.takes == Takes::Claim || agent.concurrency == 1 {
        return Ok(vec![spec]);
    }
    let member = |number: u32| {
        let mut member = spec.clone();
        member.name = AgentName::new(format!("{}-{number}", spec.name))
            .map_err(|error| Failure::new(Exit::Config, error.to_string()))?;
        member.plan.pool = Some(spec.name.clone());
        member.plan.concurrency = Some(1);
        Ok(member)
    };
    (1..=agent.concurrency).map(member).collect()
}

/// Refuses strategies of agents that could not be asked when they are needed.
pub(super) fn check_strategies(config: &Config, work: &Work) -> Result<(), Failure> {
    for agent in &config.agents {
        work.strategies
            .check(&agent.recovery.strategy)
            .map_err(|error| {
                let text = format!("agent {}: {error}", agent.name);
                Failure::new(Exit::Config, text)
                    .hint("write exec = [\"PROGRAM\", …] in [recovery] of relight.toml")
            })?;
    }
    Ok(())
}

/// What it says of the queue.
pub(super) fn queue_settings(queue: &config::QueueConfig) -> QueueSettings {
    QueueSettings {
        sweep: queue.sweep,
        resume_rate: queue.resume_rate,
        resume_at_once: queue.resume_at_once,
        budget: queue.budget,
    }
}

fn spec(
    environment: &Environment,
    engine: &Engine,
    config: &Config,
    agent: &AgentConfig,
) -> Result<AgentSpec, Failure> {
    let preset = supervision::preset(environment, Some(&agent.preset))?;
    let mut plan = agent.plan();
    engine
        .check_agent(&agent.name, plan.task.as_ref(), &plan.skills)
        .map_err(|error| {
            // The name may be the secret.
            let name = engine.redactor().text(agent.name.as_str());
            Failure::new(
                Exit::Config,
                format!("agent {name} of relight.toml: {error}"),
            )
            .hint("correct its `name`, `task` or `skills`")
        })?;
    // The shim that starts it does not stand where we do.
    let folder = std::path::absolute(&plan.folder)
        .map_err(|error| cannot_use(Path::new(&plan.folder), &error))?;
    plan.folder = folder.to_string_lossy().into_owned();
    let command: Vec<Word> = agent.command.iter().cloned().map(Word::from).collect();
    plan.command = supervision::readable(engine.redactor(), &command);
    let signs: Vec<SignSource> = match &agent.signs {
        Some(signs) => signs.clone(),
        None => preset.sign_sources(),
    };
    let strategy = agent.recovery.strategy.clone();
    Ok(AgentSpec {
        strategy: (strategy != config.recovery.strategy).then_some(strategy),
        name: agent.name.clone(),
        environment: agent.environment(&environment.variables_for_agents(), &preset),
        ladder: Some(agent.ladder(&preset, plan.grace)),
        plan,
        command,
        signs,
        preset: Arc::new(preset),
        resume_args: agent
            .resume_args
            .clone()
            .map(|words| words.into_iter().map(Word::from).collect()),
        input: Input::Null,
        user: user(agent)?,
        until: None,
        placement: agent.placement.clone(),
        log_limits: LogLimits {
            file_bytes_max: config.log.file_max,
            files_max: config.log.files,
        },
    })
}

/// The user that an agent runs as. One that cannot be had is a mistake of the file.
fn user(agent: &AgentConfig) -> Result<Option<(u32, u32)>, Failure> {
    let found = agent.user.as_deref().map(supervision::user).transpose();
    found.map_err(|failure| {
        let text = format!("agent {}: {}", agent.name, failure.message);
        Failure::new(Exit::Config, text).hint("mend `user` in relight.toml, or leave it out")
    })
}
