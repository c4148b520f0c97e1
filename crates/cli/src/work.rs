//! What the configuration says of work: the strategies, the limits of tasks, and the pace.
//!
//! Only verbs that ask a strategy, or that keep a limit, read the file; without one the defaults hold.

use std::path::Path;
use std::time::Duration;

use relight_core::decide::StartLimits;
use relight_core::recovery::TaskPolicy;
use relight_core::recovery::strategies::Builtin;
use relight_core::session::Rules;
use relight_core::time::Span;
use relight_runtime::engine::Engine;
use relight_runtime::queue::Queue;
use relight_runtime::recovery::{Exec, Recoverer, Strategies};

use crate::config::{Config, Recovery};
use crate::environment::Environment;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::trust;

/// The strategy that is a command of the user's.
const EXEC: &str = "exec";
/// How long a command may take that has no limit.
const EXEC_FOR_EVER: Span = Span::from_secs(365 * 24 * 60 * 60);
/// What asking a command may take beside the time that the command has.
const ASKING: Duration = Duration::from_secs(1);

/// How work is recovered, and how fast.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    /// By name, with the default.
    pub(crate) strategies: Strategies,
    /// What tasks may use up.
    pub(crate) policy: TaskPolicy,
    /// How often it is looked for holders that died.
    pub(crate) sweep: Span,
    /// What becomes of sessions that were cut off.
    pub(crate) sessions: Rules,
}

impl Work {
    /// As the configuration has it: the given file, else the one that `up` would find, else defaults. A
    /// command that decides has to be approved.
    pub(crate) fn find(environment: &Environment, given: Option<&Path>) -> Result<Self, Failure> {
        match find_config(environment, given)? {
            Some(config) => {
                environment.require_approval(&config, &[trust::EXEC])?;
                Self::of(&config)
            }
            None => Self::by_default(),
        }
    }

    /// The same for a command that asks no strategy: nothing is run, and nothing needs approval.
    pub(crate) fn find_to_read(
        environment: &Environment,
        given: Option<&Path>,
    ) -> Result<Self, Failure> {
        Self::of(&find_config(environment, given)?.unwrap_or_default())
    }

    /// As it is without a configuration.
    pub(crate) fn by_default() -> Result<Self, Failure> {
        Self::of(&Config::default())
    }

    /// As this configuration has it.
    pub(crate) fn of(config: &Config) -> Result<Self, Failure> {
        let Config {
            recovery,
            queue,
            sessions,
            folder,
            ..
        } = config;
        let strategies = strategies(recovery, folder).with_default(&recovery.strategy);
        Ok(Self {
            strategies: strategies
                .map_err(|error| Failure::new(Exit::Config, error.to_string()))?,
            policy: queue.policy(recovery),
            sweep: queue.sweep,
            sessions: *sessions,
        })
    }

    /// Recovers tasks of this store so.
    pub(crate) fn recoverer(&self, engine: Engine) -> Recoverer {
        Recoverer::new(engine, self.strategies.clone(), self.policy.clone())
    }

    /// The queue of this store, by these rules.
    pub(crate) fn queue(&self, engine: Engine) -> Queue {
        Queue::new(self.recoverer(engine)).with_sweep(self.sweep)
    }
}

/// What keeps a task from being started by its name, as the configuration has it.
pub(crate) fn start_limits(
    environment: &Environment,
    given: Option<&Path>,
    force: bool,
) -> Result<StartLimits, Failure> {
    if force {
        return Ok(StartLimits::Forced);
    }
    match Work::find(environment, given) {
        Ok(work) => Ok(StartLimits::Policy(work.policy)),
        Err(failure) if given.is_some() => Err(failure),
        // One that nobody named keeps no agent from its work.
        Err(failure) => {
            let text = format!("the usual limits hold: {}", failure.message);
            output::note(environment, &text);
            Ok(StartLimits::Policy(TaskPolicy::default()))
        }
    }
}

/// The strategies that a task's own must be one of. Relight's own need no file.
pub(crate) fn strategies_for(
    environment: &Environment,
    given: Option<&Path>,
    strategy: Option<&str>,
) -> Result<Strategies, Failure> {
    let is_own = strategy.is_none_or(|name| Builtin::named(name).is_some());
    if is_own {
        return Ok(Strategies::default());
    }
    Ok(Work::find_to_read(environment, given)?.strategies)
}

/// The configuration that there is: the given file, `$RELIGHT_CONFIG`, `relight.toml` here, the user's.
pub(crate) fn find_config(
    environment: &Environment,
    given: Option<&Path>,
) -> Result<Option<Config>, Failure> {
    let Some(source) = environment.config_file(given) else {
        return Ok(None);
    };
    Config::load(&source, environment.presets_folder().as_deref()).map(Some)
}

/// Relight's own strategies, and the user's command where there is one.
fn strategies(recovery: &Recovery, folder: &Path) -> Strategies {
    // `0s` is no limit; a recovery waits a year for its answer then.
    let time_max = recovery
        .exec_timeout
        .as_limit()
        .unwrap_or(EXEC_FOR_EVER)
        .as_duration();
    // The command itself is stopped first: what it did wrong is told better then.
    let strategies = Strategies::default().with_time_max(time_max * 2 + ASKING);
    if recovery.exec.is_empty() {
        return strategies;
    }
    let exec = Exec {
        command: recovery.exec.clone(),
        folder: Some(folder.to_path_buf()),
        time_max,
    };
    strategies.register(EXEC, exec)
}
