//! Tasks that are added, started, claimed, shown and listed.

use std::collections::BTreeMap;

use relight_core::agent::AttemptTag;
use relight_core::decide::{Refusal, StartLimits};
use relight_core::error_code::ErrorCode;
use relight_core::ids::{AgentName, IdempotencyKey, StepName, TaskId};
use relight_core::lease::{Fence, Holder, LEASE_DEFAULT, of_length};
use relight_core::status::TaskStatus;
use relight_core::task::{self, NewTask, TaskSpec};
use relight_core::time::Span;
use relight_store::{Rows, TaskQuery};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Context, Written, fields, invalid, of_object, right, view};
use crate::boxed::boxed;
use crate::engine::{ActError, Added, Started, TaskSnapshot};
use crate::holders::{self, Holders};
use crate::os::clock;
use crate::queue::Queue;
use crate::recovery::Strategies;
use crate::running_step;
use crate::running_step::check_start;

/// The definition of a task.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskDefinition {
    /// What it is about.
    pub title: Option<String>,
    /// Its agent. Default: any.
    #[serde(default, deserialize_with = "fields::optional_text")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub agent: Option<AgentName>,
    /// The declared steps, in order.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Vec<String>>))]
    pub steps: Vec<StepName>,
    /// Any JSON, for the agent that works on it.
    #[cfg_attr(feature = "schema", schema(value_type = Value, required = false))]
    pub payload: Option<Value>,
    /// What happens when its holder dies. Default: as configured.
    pub strategy: Option<String>,
    /// How often it may be assigned again.
    #[cfg_attr(feature = "schema", schema(value_type = Option<i64>, minimum = 0, maximum = 4294967295_i64))]
    pub max_retries: Option<u32>,
    /// The idempotency key: two requests with the same key are one.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub key: Option<IdempotencyKey>,
    /// Larger goes first.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<i32>))]
    pub priority: i32,
    /// Skills that an agent needs.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Vec<String>>))]
    pub needs: Vec<String>,
    /// How long it is worth resuming. Default, and `0s`: always.
    #[serde(default, deserialize_with = "fields::optional_text")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub ttl: Option<Span>,
    /// Initial context.
    #[serde(default, deserialize_with = "fields::context")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<BTreeMap<String, String>>))]
    pub set: BTreeMap<String, String>,
}

impl TaskDefinition {
    fn of(self, id: TaskId) -> NewTask {
        let lifetime = self.ttl.and_then(Span::as_limit);
        NewTask {
            id,
            agent: self.agent,
            spec: TaskSpec {
                title: self.title,
                steps: self.steps,
                payload: self.payload,
                strategy: self.strategy,
                max_retries: self.max_retries,
                key: self.key,
                priority: self.priority,
                needs: self.needs,
                ttl_ms: lifetime.map(Span::as_ms),
                ..TaskSpec::default()
            },
            context: self.set,
            expires_at: lifetime.map(|span| clock::now().plus(span)),
            checkpoint: None,
        }
    }

    /// One that could not be asked is refused now, not when it is needed.
    fn check_strategy(&self, strategies: &Strategies) -> Result<(), ActError> {
        let Some(name) = &self.strategy else {
            return Ok(());
        };
        strategies.check(name).map_err(|error| {
            let exec = "exec needs exec = [\"PROGRAM\", …] in [recovery] of relight.toml";
            invalid(format!("{error}; {exec}"))
        })
    }
}

/// The definition of a request, and its other fields, which an error about an unknown field names too.
fn definition<T: DeserializeOwned>(
    mut given: Map<String, Value>,
    beside: &[&str],
) -> Result<(TaskDefinition, T), serde_json::Error> {
    let taken = beside.iter().filter_map(|field| given.remove_entry(*field));
    let others = of_object(taken.collect()).map_err(serde_json::Error::custom)?;
    let definition = of_object(given).map_err(|text: String| {
        let beside: String = beside.iter().map(|field| format!("`{field}`, ")).collect();
        let known = format!("expected one of {beside}");
        serde_json::Error::custom(text.replace("expected one of ", &known))
    })?;
    Ok((definition, others))
}

/// A task to add.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(try_from = "Map<String, Value>")]
pub struct TaskAdd {
    /// Its id.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub id: TaskId,
    /// What it is.
    #[serde(flatten)]
    pub definition: TaskDefinition,
}

impl TryFrom<Map<String, Value>> for TaskAdd {
    type Error = serde_json::Error;

    fn try_from(given: Map<String, Value>) -> Result<Self, Self::Error> {
        #[derive(Deserialize)]
        struct IdBeside {
            id: TaskId,
        }
        let (definition, IdBeside { id }) = definition(given, &["id"])?;
        Ok(Self { id, definition })
    }
}

/// A task that was added, or the existing one that matches the request.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskAdded {
    /// As it is now.
    #[serde(flatten)]
    pub task: view::TaskView,
    /// `created`, `unchanged` or `key_taken`.
    pub outcome: &'static str,
}

impl TaskAdd {
    /// Adds it. If the same task or one with the same key exists, nothing changes.
    #[boxed]
    pub async fn run(
        self,
        context: &Context,
        strategies: &Strategies,
    ) -> Result<TaskAdded, ActError> {
        self.definition.check_strategy(strategies)?;
        let added = context.engine.add(self.definition.of(self.id)).await?;
        let (task, outcome) = match added {
            Added::Created(task) => (task, "created"),
            Added::Same(task) => (task, "unchanged"),
            Added::KeyTaken(task) => (task, "key_taken"),
            Added::Ended(task) => {
                return Err(ActError::Ended {
                    task: task.id,
                    status: task.status,
                });
            }
        };
        Ok(TaskAdded {
            task: view::TaskView::new(task, context.engine.holders()),
            outcome,
        })
    }
}

/// A task to start; added if it does not exist.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(try_from = "Map<String, Value>")]
pub struct TaskStart {
    /// Which task. Over HTTP it is in the path.
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub task: TaskId,
    /// What it is, if it does not exist.
    #[serde(flatten)]
    pub definition: TaskDefinition,
    /// How long each write renews the lease for. Default: `10m`.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub lease: Option<Span>,
    /// The fence of the lease to continue.
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    pub fence: Option<Fence>,
    /// Start it even if it waits for a person, or has used up its budget.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<bool>))]
    pub force: bool,
}

impl TryFrom<Map<String, Value>> for TaskStart {
    type Error = serde_json::Error;

    fn try_from(given: Map<String, Value>) -> Result<Self, Self::Error> {
        #[derive(Deserialize)]
        struct StartFields {
            task: TaskId,
            #[serde(default, deserialize_with = "fields::optional_text")]
            lease: Option<Span>,
            #[serde(default, deserialize_with = "fields::fence")]
            fence: Option<Fence>,
            #[serde(default)]
            force: bool,
        }
        let beside = ["task", "lease", "fence", "force"];
        let (definition, others) = definition::<StartFields>(given, &beside)?;
        Ok(Self {
            task: others.task,
            definition,
            lease: others.lease,
            fence: others.fence,
            force: others.force,
        })
    }
}

/// Who takes a task.
#[derive(Debug, Clone)]
pub struct Taker {
    /// Whose life the lease follows.
    pub holder: Holder,
    /// The holder was named by the caller: a lease of another one is not continued for it.
    pub is_named: bool,
    /// A fence that is known without being said, where one is.
    pub fence: Option<Fence>,
    /// The lease has a time limit even if the holder is an attempt: over HTTP the fence alone shows who
    /// writes.
    pub is_over_http: bool,
}

impl From<Holder> for Taker {
    fn from(holder: Holder) -> Self {
        Self {
            holder,
            is_named: false,
            fence: None,
            is_over_http: false,
        }
    }
}

impl Taker {
    /// Who takes work over HTTP: the attempt that asks, else the live attempt of an agent that is
    /// supervised. Nobody else's life can be seen: their lease lasts for a time, and each write renews it.
    #[boxed]
    pub async fn over_http(
        context: &Context,
        agent: Option<&AgentName>,
        attempt: Option<&AttemptTag>,
        caller: &str,
    ) -> Result<Self, ActError> {
        let engine = &context.engine;
        let is_its_own =
            |tag: &&AttemptTag| agent.is_none_or(|agent| tag.agent() == Some(agent.as_str()));
        let mut found = match attempt.filter(is_its_own) {
            Some(tag) => holders::of_attempt(engine.store().as_ref(), tag).await?,
            None => None,
        };
        if let (None, Some(agent)) = (&found, agent) {
            found = engine.holders().live_attempt(agent).await?;
        }
        let holder = match (found, agent) {
            (Some(attempt), _) => attempt,
            (None, Some(agent)) => Holder::over_http(format_args!("agent {agent}")),
            (None, None) => Holder::over_http(caller),
        };
        Ok(Self {
            is_over_http: true,
            ..holder.into()
        })
    }

    fn lease(&self, given: Option<Span>) -> Result<Option<Span>, ActError> {
        length(
            &self.holder,
            given.or(self.is_over_http.then_some(LEASE_DEFAULT)),
        )
    }
}

impl TaskStart {
    /// Takes the lease, adding the task first where it is absent; the same agent continues by its fence.
    #[boxed]
    pub async fn run(
        self,
        context: &Context,
        strategies: &Strategies,
        limits: StartLimits,
        taker: Taker,
    ) -> Result<Written<Started>, ActError> {
        self.definition.check_strategy(strategies)?;
        let (engine, ttl) = (&context.engine, taker.lease(self.lease)?);
        let Taker {
            holder,
            is_named,
            fence,
            ..
        } = taker;
        check_start(engine, &self.task, self.fence).await?;
        let limits = if self.force {
            StartLimits::Forced
        } else {
            limits
        };
        let (new, right) = (self.definition.of(self.task), right(self.fence.or(fence)));
        let started = engine
            .start_unless_draining(new, right, holder.clone(), ttl, limits)
            .await?;
        let task = &started.view.task;
        let held = task.lease.held.as_ref();
        if let Some(held) = held.filter(|held| is_named && held.holder != holder) {
            let (id, agent, held) = (task.id.clone(), task.agent.clone(), Box::new(held.clone()));
            return Err(Refusal::Held {
                task: id,
                agent,
                held,
                now: clock::now(),
            }
            .into());
        }
        let written = context.refresh(&task.id).await?;
        Ok(written.map(|(), _| started))
    }
}

/// A request for work.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskClaim {
    /// The agent that claims.
    #[serde(default, deserialize_with = "fields::optional_text")]
    #[cfg_attr(feature = "schema", schema(value_type = String, required = true))]
    pub agent: Option<AgentName>,
    /// Its skills, in addition to those in the store.
    #[serde(default)]
    pub skills: Vec<String>,
    /// How long to wait for a task. Default: no wait.
    #[serde(default, deserialize_with = "fields::optional_text")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub wait: Option<Span>,
    /// How long each write renews the lease for. Default: `10m`.
    #[serde(default, deserialize_with = "fields::optional_text")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub lease: Option<Span>,
}

/// Refuses a claim of nobody.
pub fn no_claimant() -> ActError {
    ActError::Invalid {
        code: ErrorCode::INVALID,
        message: "nobody said which agent wants work".to_owned(),
        hint: Some(
            "name the agent (relight task claim --agent NAME); inside an agent of Relight it is known"
                .to_owned(),
        ),
    }
}

impl TaskClaim {
    /// For whom.
    pub fn agent(&self) -> Result<&AgentName, ActError> {
        self.agent.as_ref().ok_or_else(no_claimant)
    }

    /// Takes the next task of the queue; none also after the wait.
    #[boxed]
    pub async fn run(
        &self,
        context: &Context,
        queue: &Queue,
        taker: &Taker,
    ) -> Result<Option<Written<Started>>, ActError> {
        let (agent, skills, holder) = (self.agent()?, &self.skills, &taker.holder);
        let ttl = taker.lease(self.lease)?;
        let claimed = match self.wait {
            None => queue.claim(agent, skills, holder, ttl).await,
            Some(wait) => queue.claim_within(wait, agent, skills, holder, ttl).await,
        };
        let Some(started) = claimed?.started(agent)? else {
            return Ok(None);
        };
        let written = context.refresh(&started.view.task.id).await?;
        Ok(Some(written.map(|(), _| *started)))
    }
}

/// How long each write renews a lease for. A process holds it as long as it lives.
pub fn length(holder: &Holder, given: Option<Span>) -> Result<Option<Span>, ActError> {
    let length = match holder {
        Holder::Process(_) => None,
        Holder::Attempt { .. } => given,
        Holder::Time { .. } => Some(given.unwrap_or(LEASE_DEFAULT)),
    };
    length
        .map(of_length)
        .transpose()
        .map_err(|error| invalid(error.to_string()))
}

/// Which tasks to list.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "schema", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct TaskList {
    /// Only these statuses, separated by commas.
    #[serde(default, rename = "status", deserialize_with = "fields::words")]
    #[cfg_attr(feature = "schema", param(value_type = Option<String>))]
    pub statuses: Vec<TaskStatus>,
    /// Only of this agent.
    #[serde(default)]
    #[cfg_attr(feature = "schema", param(value_type = Option<String>))]
    pub agent: Option<AgentName>,
    /// Only those with a step in doubt.
    #[serde(default)]
    #[cfg_attr(feature = "schema", param(value_type = Option<bool>))]
    pub in_doubt: bool,
    /// Only those whose id, title, declared or recorded steps contain this text.
    pub find: Option<String>,
    /// Newest first.
    #[serde(default)]
    #[cfg_attr(feature = "schema", param(value_type = Option<bool>))]
    pub newest: bool,
    /// Maximum number of items, 1 to 1000.
    #[cfg_attr(feature = "schema", param(minimum = 1, maximum = 1000, default = 100))]
    pub limit: Option<usize>,
    /// The `next` of the previous page.
    #[cfg_attr(feature = "schema", param(value_type = Option<String>))]
    pub after: Option<TaskId>,
}

/// A page of tasks in the order they were added, each with how many of its declared steps are finished or
/// skipped.
#[derive(Debug)]
pub struct TaskPage {
    /// The tasks.
    pub tasks: Vec<(task::Task, Option<usize>)>,
    /// The cursor of what comes after them, where more follow.
    pub next: Option<String>,
    /// Rows that cannot be read and are left out, each with the reason.
    pub unreadable: Vec<String>,
}

impl TaskList {
    /// Reads at most `limit` tasks.
    #[boxed]
    pub async fn run(self, context: &Context, limit: usize) -> Result<TaskPage, ActError> {
        let engine = &context.engine;
        // No store holds it, and PostgreSQL does not take it.
        if self.find.as_ref().is_some_and(|text| text.contains('\0')) {
            return Err(super::invalid(
                "find has a NUL, which no text of a task has",
            ));
        }
        let query = TaskQuery {
            statuses: self.statuses,
            agent: self.agent,
            in_doubt: self.in_doubt,
            find: self.find.filter(|text| !text.is_empty()),
            newest: self.newest,
            after: self.after,
            limit: Some(limit.saturating_add(1)),
            ..TaskQuery::default()
        };
        let mut found = engine.store().tasks(query.clone()).await?;
        let unreadable = engine.store().unreadable(Rows::Tasks(query)).await?;
        let next = view::cut(&mut found, &unreadable, limit, |task| task.id.to_string());
        let leases = found.iter().filter_map(|task| task.lease.held.as_ref());
        engine.holders().look_for(leases).await?;
        let mut tasks = Vec::with_capacity(found.len());
        for task in found {
            let declared_done = engine.declared_done(&task).await?;
            tasks.push((task, declared_done));
        }
        let unreadable = view::told(&unreadable);
        Ok(TaskPage {
            tasks,
            next,
            unreadable,
        })
    }
}

impl TaskPage {
    /// As JSON shows them.
    pub fn list(self, holders: &Holders) -> view::List<view::TaskView> {
        let listed = |(task, done)| view::TaskView::listed(task, done, holders);
        view::List {
            items: self.tasks.into_iter().map(listed).collect(),
            next: self.next,
            unreadable: self.unreadable,
        }
    }
}

impl Context {
    /// One task and how far it is, with what is known of its holder. A step that somebody is at is not in
    /// doubt.
    #[boxed]
    pub async fn show(&self, id: &TaskId) -> Result<TaskSnapshot, ActError> {
        let (mut view, holders) = (self.engine.view(id).await?, self.engine.holders());
        holders.look_for(&view.task.lease.held).await?;
        running_step::without_running(holders, &self.home, &mut view);
        Ok(view)
    }
}
