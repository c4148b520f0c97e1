//! Recovery strategies by name, and asking them safely.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use relight_core::limits;
use relight_core::recovery::strategies::Builtin;
use relight_core::recovery::{Decision, HolderDeath, RecoveryContext};
use relight_core::task::{STRATEGY_DEFAULT, Task};
use tokio::sync::oneshot;

use super::strategy::{RecoveryAnswer, RecoveryStrategy, StrategyError};

use crate::boxed::boxed;

/// Default time limit of a strategy.
const TIME_DEFAULT: Duration = Duration::from_secs(10);
/// Hanging strategies keep their thread; beyond this number no other is asked.
const HANGING_MAX: usize = 32;

/// Strategies by name: built-in and registered ones.
#[derive(Clone)]
pub struct Strategies {
    registered: BTreeMap<String, Arc<dyn RecoveryStrategy>>,
    default: String,
    time_max: Duration,
    asking: Arc<AtomicUsize>,
}

/// No strategy has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no strategy {name:?}; known are {}", .known.join(", "))]
pub struct UnknownStrategy {
    /// The unknown name.
    pub name: String,
    /// The known names.
    pub known: Vec<String>,
}

/// The answer of a strategy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrategyAnswer {
    /// The strategy that was asked.
    pub strategy: String,
    /// What happens to the task.
    pub decision: Decision,
    /// Why.
    pub reason: Option<String>,
    /// Why its own answer could not be used.
    pub trouble: Option<String>,
}

impl Default for Strategies {
    fn default() -> Self {
        Self {
            registered: BTreeMap::new(),
            default: STRATEGY_DEFAULT.to_owned(),
            time_max: TIME_DEFAULT,
            asking: Arc::default(),
        }
    }
}

impl Strategies {
    /// Adds or replaces a strategy.
    #[must_use]
    pub fn register(
        mut self,
        name: impl Into<String>,
        strategy: impl RecoveryStrategy + 'static,
    ) -> Self {
        self.registered.insert(name.into(), Arc::new(strategy));
        self
    }

    /// Sets the default strategy.
    pub fn with_default(mut self, name: &str) -> Result<Self, UnknownStrategy> {
        self.check(name)?;
        name.clone_into(&mut self.default);
        Ok(self)
    }

    /// Sets the time limit of custom strategies.
    #[must_use]
    pub fn with_time_max(self, time_max: Duration) -> Self {
        Self { time_max, ..self }
    }

    /// Checks that the name is known.
    pub fn check(&self, name: &str) -> Result<(), UnknownStrategy> {
        if self.registered.contains_key(name) || Builtin::named(name).is_some() {
            return Ok(());
        }
        Err(UnknownStrategy {
            name: name.to_owned(),
            known: self.names(),
        })
    }

    /// All names.
    pub fn names(&self) -> Vec<String> {
        let builtin = Builtin::ALL.map(|builtin| builtin.as_str().to_owned());
        builtin
            .into_iter()
            .chain(self.registered.keys().cloned())
            .collect()
    }

    /// The name of a task's strategy.
    pub fn name_for<'a>(&'a self, task: &'a Task) -> &'a str {
        task.spec.strategy.as_deref().unwrap_or(&self.default)
    }

    /// Whether a task's strategy leaves it to the agent that had it.
    pub fn keep_agent(&self, task: &Task) -> bool {
        self.name_for(task) == Builtin::Resume.as_str()
    }

    /// Whether this is a built-in strategy, which only computes.
    pub fn is_own(&self, name: &str) -> bool {
        !self.registered.contains_key(name) && Builtin::named(name).is_some()
    }

    /// Asks the strategy of a task, or `instead`. If it fails, panics, hangs or is unknown,
    /// `fail-and-reassign` answers and the error is recorded.
    #[boxed]
    pub async fn ask(
        &self,
        instead: Option<&str>,
        task: &Task,
        death: &HolderDeath,
        context: &RecoveryContext,
    ) -> StrategyAnswer {
        let name = instead
            .or(task.spec.strategy.as_deref())
            .unwrap_or(&self.default)
            .to_owned();
        let answered = match self.registered.get(&name) {
            Some(strategy) => {
                let strategy = Arc::clone(strategy);
                self.ask_aside(strategy, task.clone(), death.clone(), context.clone())
                    .await
            }
            None => match Builtin::named(&name) {
                Some(builtin) => {
                    let (decision, reason) = builtin.recover(task, death, context);
                    Ok(RecoveryAnswer {
                        decision,
                        reason: Some(reason),
                    })
                }
                None => Err(self
                    .check(&name)
                    .expect_err("nothing has this name")
                    .to_string()),
            },
        };
        let answered = answered.map(|RecoveryAnswer { decision, reason }| StrategyAnswer {
            strategy: name.clone(),
            decision,
            reason: reason.map(|reason| limits::REASON.shorten(reason)),
            trouble: None,
        });
        answered.unwrap_or_else(|trouble| {
            let default = Builtin::FailAndReassign;
            let (decision, reason) = default.recover(task, death, context);
            StrategyAnswer {
                strategy: name,
                decision,
                reason: Some(reason),
                trouble: Some(limits::REASON.shorten(trouble)),
            }
        })
    }

    /// Asks on a thread of its own, because it may block, panic or hang.
    async fn ask_aside(
        &self,
        strategy: Arc<dyn RecoveryStrategy>,
        task: Task,
        death: HolderDeath,
        context: RecoveryContext,
    ) -> Result<RecoveryAnswer, String> {
        let asking = Arc::clone(&self.asking);
        if asking.fetch_add(1, Ordering::Relaxed) >= HANGING_MAX {
            asking.fetch_sub(1, Ordering::Relaxed);
            return Err(format!("{HANGING_MAX} strategies hang already"));
        }
        let (tell, told) = oneshot::channel::<Result<RecoveryAnswer, StrategyError>>();
        let thread = std::thread::Builder::new().name("relight-strategy".to_owned());
        let spawned = thread.spawn(move || {
            let _counted = ThreadSlot(asking);
            // The caller may have given up.
            let _ = tell.send(strategy.recover(&task, &death, &context));
        });
        if let Err(error) = spawned {
            self.asking.fetch_sub(1, Ordering::Relaxed);
            return Err(format!("it cannot be asked: {error}"));
        }
        match tokio::time::timeout(self.time_max, told).await {
            Ok(Ok(Ok(answer))) => Ok(answer),
            Ok(Ok(Err(error))) => Err(error.to_string()),
            Ok(Err(_)) => Err("it panicked".to_owned()),
            Err(_) => Err(format!("it did not answer within {:?}", self.time_max)),
        }
    }
}

impl fmt::Debug for Strategies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Strategies")
            .field("names", &self.names())
            .field("default", &self.default)
            .finish_non_exhaustive()
    }
}

/// Released when its thread ends, also by a panic.
struct ThreadSlot(Arc<AtomicUsize>);

impl Drop for ThreadSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
