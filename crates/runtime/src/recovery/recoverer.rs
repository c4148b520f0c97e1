//! Asks the strategy of a task and commits its decision.

use std::sync::{Arc, PoisonError, RwLock};

use relight_core::agent::{AgentPlan, Takes};
use relight_core::alert::Alert;
use relight_core::change::Change;
use relight_core::decide::step_deaths;
use relight_core::decide::{Right, TaskDecisionInput, TaskEvent, check_reason, decide};
use relight_core::event::EventKind;
use relight_core::ids::{AgentName, TaskId};
use relight_core::lease::{Fence, HolderLife};
use relight_core::recovery::strategies::Builtin;
use relight_core::recovery::{HolderDeath, RecoveryContext, RecoveryPlan, TaskPolicy};
use relight_core::status::TaskStatus;
use relight_core::step::Step;
use relight_core::task::{STRATEGY_DEFAULT, Task};
use relight_core::time::Time;
use relight_store::{EventQuery, StoreError};
use serde::Serialize;
use serde_json::Value;

use super::strategies::Strategies;
use crate::boxed::boxed;
use crate::engine::{ActError, Acted, Engine, TaskSnapshot};
use crate::os::{clock, random};

/// Maximum number of events examined per task.
const EVENTS_MAX: usize = 1_000;

/// Recovers tasks of one store. Clones share their rules.
#[derive(Debug, Clone)]
pub struct Recoverer {
    engine: Engine,
    rules: Arc<RwLock<RecoveryRules>>,
    has_no_max_attempts: bool,
}

/// Configured strategies and limits.
#[derive(Debug, Clone)]
struct RecoveryRules {
    strategies: Arc<Strategies>,
    policy: TaskPolicy,
}

/// Result of a recovery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Recovered {
    /// The task's id.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub task: TaskId,
    /// Its agent, if it has one.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub agent: Option<AgentName>,
    /// The strategy that was asked, if any.
    pub strategy: Option<String>,
    /// What it decided.
    pub decision: Option<String>,
    /// The outcome after applying the limits.
    pub outcome: Option<String>,
    /// The task's status now.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub status: TaskStatus,
    /// Not before.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub not_before: Option<Time>,
    /// The first error.
    pub reason: Option<String>,
    /// The error of the strategy, if any.
    pub trouble: Option<String>,
    /// The alert that was recorded with it, in one line.
    #[serde(skip)]
    pub alert: Option<String>,
}

impl Recoverer {
    /// A recoverer with these strategies and limits.
    pub fn new(engine: Engine, strategies: Strategies, policy: TaskPolicy) -> Self {
        let rules = RecoveryRules {
            strategies: Arc::new(strategies),
            policy,
        };
        Self {
            engine,
            rules: Arc::new(RwLock::new(rules)),
            has_no_max_attempts: false,
        }
    }

    /// The same for the caller that this engine knows.
    #[must_use]
    pub fn on_behalf_of(&self, engine: &Engine) -> Self {
        Self {
            engine: engine.clone(),
            ..self.clone()
        }
    }

    /// Replaces strategies and limits for all clones. Running requests are not affected.
    pub fn replace_rules(&self, strategies: Strategies, policy: TaskPolicy) {
        let rules = RecoveryRules {
            strategies: Arc::new(strategies),
            policy,
        };
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
    }

    fn rules(&self) -> RecoveryRules {
        self.rules
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The engine in front of the store.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The limits of tasks.
    pub fn policy(&self) -> TaskPolicy {
        let policy = self.rules().policy;
        let max_attempts = if self.has_no_max_attempts {
            u32::MAX
        } else {
            policy.max_attempts
        };
        TaskPolicy {
            max_attempts,
            ..policy
        }
    }

    /// The strategies.
    pub fn strategies(&self) -> Arc<Strategies> {
        self.rules().strategies
    }

    /// How a task of a supervised agent is recovered, and by which strategy. A task that was named
    /// for the agent, or that the agent took by name, is resumed by it, and its restarts are charged
    /// to the agent's budget only. A task of the queue uses its own strategy, then the agent's, then
    /// the default.
    pub fn for_agent(
        &self,
        plan: &AgentPlan,
        strategy: Option<&str>,
        task: &Task,
    ) -> (Self, Option<String>) {
        let asked = task.spec.strategy.as_deref().or(strategy);
        let is_by_default = asked.is_none() && self.strategies().name_for(task) == STRATEGY_DEFAULT;
        let is_planned = plan.task.as_ref() == Some(&task.id);
        let is_named = is_planned || (task.pinned && is_by_default);
        if plan.takes != Takes::Start && is_named {
            let recoverer = Self {
                has_no_max_attempts: true,
                ..self.clone()
            };
            return (recoverer, Some(Builtin::Resume.as_str().to_owned()));
        }
        (self.clone(), asked.map(str::to_owned))
    }

    /// The holder reports a failure: asks the strategy, and commits both together.
    #[boxed]
    pub async fn fail(
        &self,
        id: &TaskId,
        right: Right,
        reason: &str,
    ) -> Result<Recovered, ActError> {
        check_reason(reason)?;
        let task = self.engine.task(id).await?;
        let death = HolderDeath::failed(&task, reason.to_owned(), clock::now());
        self.recover(&task, right, death, None).await
    }

    /// The holder of a task is dead. Safe if someone else recovered it meanwhile: the dead holder's
    /// fence is compared.
    #[boxed]
    pub async fn recover(
        &self,
        task: &Task,
        right: Right,
        death: HolderDeath,
        strategy: Option<&str>,
    ) -> Result<Recovered, ActError> {
        let recovery = self.ask(task, death, strategy).await;
        let event = TaskEvent::Recover(Box::new(recovery));
        let acted = self.engine.act(&task.id, right, event).await?;
        Ok(told(acted))
    }

    /// Predicts the recovery of a task without changing anything. None if a custom strategy would
    /// have to be asked.
    #[boxed]
    pub async fn foresee(&self, task: &Task, death: HolderDeath) -> Option<Recovered> {
        let strategies = self.strategies();
        if !strategies.is_own(strategies.name_for(task)) {
            return None;
        }
        let recovery = TaskEvent::Recover(Box::new(self.ask(task, death, None).await));
        let (life, right) = (HolderLife::Gone, Right::Unfenced);
        let scene = TaskDecisionInput {
            task,
            step: None,
            steps: &[],
            life,
            right,
            caller: None,
            now: clock::now(),
        };
        let decision = decide(&scene, recovery).ok()?;
        Some(told(Acted {
            before: task.clone(),
            decision,
            fence: task.lease.fence,
            at: scene.now,
        }))
    }

    /// The holder of a task died together with its supervisor. A step that ran then may have killed
    /// both; after the second time in a row it waits for a person.
    pub async fn recover_unwatched(
        &self,
        task: &Task,
        death: HolderDeath,
        strategy: Option<&str>,
    ) -> Result<Recovered, ActError> {
        let recovery = TaskEvent::Recover(Box::new(self.ask(task, death, strategy).await));
        let acted = self.in_turn_with_step_deaths(task, recovery).await?;
        Ok(told(acted))
    }

    /// Like `recover_unwatched`, as an interruption without asking a strategy.
    pub async fn interrupt_unwatched(&self, task: &Task, event: TaskEvent) -> Result<(), ActError> {
        self.in_turn_with_step_deaths(task, event).await.map(drop)
    }

    async fn in_turn_with_step_deaths(
        &self,
        task: &Task,
        event: TaskEvent,
    ) -> Result<Acted, ActError> {
        let query = EventQuery {
            after: 0,
            before: None,
            task: Some(task.id.clone()),
            agent: None,
            kinds: step_deaths::EVENT_KINDS.to_vec(),
            limit: EVENTS_MAX,
            newest: true,
        };
        let events = if task.steps_open > 0 {
            self.engine.store().events(query).await?
        } else {
            Vec::new()
        };
        let is_held = task.lease.held.is_some();
        let right = if is_held {
            Right::Fence(task.lease.fence)
        } else {
            Right::Unfenced
        };
        let plan = |view: &TaskSnapshot| -> Result<Vec<TaskEvent>, ActError> {
            // Without a lease nothing but the number of its commits tells that somebody works on it.
            if !is_held && view.task.seq != task.seq {
                return Err(ActError::Contended(task.id.clone()));
            }
            let mut plan = Vec::new();
            for step in view
                .steps
                .iter()
                .filter(|step| may_be_what_killed(step, task))
            {
                plan.extend(step_deaths::decide(&task.id, &events, &step.key));
            }
            let is_parked = plan
                .iter()
                .any(|event| matches!(event, TaskEvent::Block { .. }));
            if !is_parked {
                plan.push(event.clone());
            }
            Ok(plan)
        };
        self.engine.act_in_turn(&task.id, right, plan).await
    }

    async fn ask(&self, task: &Task, death: HolderDeath, strategy: Option<&str>) -> RecoveryPlan {
        let steps = self.engine.store().steps(&task.id).await;
        let damaged = matches!(steps, Err(StoreError::Damaged { .. }));
        let (strategies, policy) = (self.strategies(), self.policy());
        let mut context = RecoveryContext::of(task, &death, &policy, damaged);
        context.is_store_shared = self.engine.store().is_shared();
        let asked = strategies.ask(strategy, task, &death, &context).await;
        RecoveryPlan {
            death,
            strategy: asked.strategy,
            decision: asked.decision,
            reason: asked.reason,
            trouble: asked.trouble,
            context,
            policy,
            jitter: random::fraction(),
        }
    }
}

/// Whether the dead holder ran this step. A step in doubt from an earlier holder was not run by it.
/// A step of the checkpoint dialect only marks the position of its workflow: every holder finds it
/// open, and the workflow's budget limits it.
fn may_be_what_killed(step: &Step, task: &Task) -> bool {
    let was_begun_by_it = step.fence == task.lease.fence || step.fence == Fence::default();
    step.is_open() && was_begun_by_it && task.checkpoint.is_none()
}

/// Derives the result from what was committed.
fn told(acted: Acted) -> Recovered {
    let mut task = acted.before;
    let now = clock::now();
    for change in &acted.decision.changes {
        change.apply(&mut task, now);
    }
    let noted = acted
        .decision
        .changes
        .iter()
        .find_map(|change| match change {
            Change::Noted(EventKind::TaskRecovery, detail) => Some(detail),
            _ => None,
        });
    let alert = acted
        .decision
        .changes
        .iter()
        .find_map(|change| match change {
            Change::Noted(EventKind::Alert, detail) => Some(Alert::from_detail(detail)?.line()),
            _ => None,
        });
    Recovered {
        alert,
        ..Recovered::read(&task, noted)
    }
}

impl Recovered {
    /// Derives the result from a task and the detail of its `task.recovery` event.
    pub fn read(task: &Task, detail: Option<&Value>) -> Self {
        let word = |name: &str| {
            detail
                .and_then(|detail| detail[name].as_str())
                .map(str::to_owned)
        };
        Self {
            strategy: word("strategy"),
            decision: word("decision"),
            outcome: word("outcome"),
            trouble: word("trouble"),
            task: task.id.clone(),
            agent: task.agent.clone(),
            status: task.status,
            not_before: task.not_before,
            reason: task.reason.clone(),
            alert: None,
        }
    }
}
