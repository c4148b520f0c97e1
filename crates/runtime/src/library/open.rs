//! Opening a store with strategies and limits of one's own.

use std::path::Path;
use std::time::Duration;

use relight_core::agent::AttemptTag;
use relight_core::ids::AgentName;
use relight_core::recovery::TaskPolicy;
use relight_redact::{MarkKey, Redactor};
use relight_store::StoreError;
use relight_store::sqlite::Use;

use super::engine_access::EngineAccess as _;
use super::redact_key::mark_key_beside;
use super::relight::Relight;
use crate::dialect::take_in_file;
use crate::engine::Engine;
use crate::os::{attempts, environment, random};
use crate::recovery::{Recoverer, RecoveryStrategy, Strategies, UnknownStrategy};
use crate::store_url::{StoreUrl, StoreUrlError};

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL names no store.
    #[error(transparent)]
    Url(#[from] StoreUrlError),
    /// The store itself.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The folder of the store.
    #[error("cannot use the folder of the store")]
    Folder(#[source] std::io::Error),
    /// The default strategy is none that was registered.
    #[error(transparent)]
    Strategy(#[from] UnknownStrategy),
}

/// A store about to be opened.
#[derive(Debug)]
pub struct RelightBuilder {
    url: String,
    strategies: Strategies,
    default_strategy: Option<String>,
    policy: TaskPolicy,
}

impl RelightBuilder {
    pub(super) fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            strategies: Strategies::default(),
            default_strategy: None,
            policy: TaskPolicy::default(),
        }
    }

    /// Registers a strategy of the program's own under a name that tasks can choose.
    #[must_use]
    pub fn strategy(
        mut self,
        name: impl Into<String>,
        strategy: impl RecoveryStrategy + 'static,
    ) -> Self {
        self.strategies = self.strategies.register(name, strategy);
        self
    }

    /// Sets the strategy of tasks that choose none; `fail-and-reassign` otherwise.
    #[must_use]
    pub fn default_strategy(mut self, name: impl Into<String>) -> Self {
        self.default_strategy = Some(name.into());
        self
    }

    /// Sets how long a registered strategy may think before `fail-and-reassign` answers for it.
    #[must_use]
    pub fn strategy_time_max(mut self, time_max: Duration) -> Self {
        self.strategies = self.strategies.with_time_max(time_max);
        self
    }

    /// Sets how often, how long and at what price tasks are brought back.
    #[must_use]
    pub fn policy(mut self, policy: TaskPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Opens the store, creating it when there is none. An unknown default strategy is refused here,
    /// not at the first death.
    pub async fn open(self) -> Result<Relight, OpenError> {
        let strategies = match &self.default_strategy {
            Some(name) => self.strategies.with_default(name)?,
            None => self.strategies,
        };
        let url = StoreUrl::parse(&self.url, Path::new("."))?;
        let store = url.open(Use::Long)?;
        let key = match store.file().as_deref().and_then(Path::parent) {
            Some(folder) => mark_key_beside(folder).map_err(OpenError::Folder)?,
            None => MarkKey::new(random::bytes()),
        };
        let variables = environment::variables();
        let redactor = Redactor::new(key).with_environment(environment::texts(&variables));
        let agent = attempts::own().and_then(AttemptTag::agent);
        let engine = Engine::new(store, redactor)
            .with_file_intake(take_in_file)
            .with_caller(agent.and_then(|name| AgentName::new(name).ok()));
        Ok(Relight::with_recoverer(Recoverer::new(
            engine,
            strategies,
            self.policy,
        )))
    }
}
