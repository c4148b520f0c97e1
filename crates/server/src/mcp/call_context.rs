//! Who calls, and what goes without saying for that one.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use relight_core::decide::Refusal;
use relight_core::decide::StartLimits;
use relight_core::error_code::ErrorCode;
use relight_core::ids::{AgentName, TaskId};
use relight_core::lease::{Fence, Holder};
use relight_core::task::Task;
use relight_runtime::engine::{Engine, Started};
use relight_runtime::operations::work::Taker;
use relight_runtime::operations::{Context, Operation, Written, read};
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OwnedMutexGuard;

use super::stdio::Stdio;
use crate::app::App;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::tokens::Scope;

/// Tasks whose fences one process remembers; no agent works on so many.
const TASKS_MAX: usize = 1_000;

/// Who calls.
#[derive(Debug, Clone)]
pub(super) struct CallContext {
    pub(super) engine: Engine,
    /// The folder of the store.
    pub(super) home: PathBuf,
    /// Where files of workflows go that have none yet.
    pub(super) checkpoints: PathBuf,
    /// The agent, where that is known.
    pub(super) agent: Option<AgentName>,
    /// What keeps an agent from starting a task: only a person starts what waits for one.
    pub(super) limits: StartLimits,
    /// Where causes go that an agent is not told.
    pub(super) complain: Complain,
    pub(super) side: Side,
}

#[derive(Deserialize)]
struct NamedTask {
    task: Option<TaskId>,
}

/// Whoever keeps the log.
#[derive(Clone)]
pub(super) struct Complain(pub(super) Arc<dyn Fn(&str) + Send + Sync>);

impl std::fmt::Debug for Complain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Complain")
    }
}

/// The way that a call came in.
#[derive(Debug, Clone)]
pub(super) enum Side {
    /// One process for one client: it holds what the agent works on, and remembers the fences.
    Process(Arc<Process>),
    /// Nothing is remembered between two requests.
    Http { app: App, caller: Caller },
}

/// What `relight mcp` knows.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) holder: Holder,
    /// Where the agent is heard.
    pub(super) addresses: Vec<String>,
    /// Where git is asked for the brief.
    pub(super) workspace: Option<PathBuf>,
    /// Calls are done in the order in which they came, whether or not the client waits for answers.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
    memory: Mutex<HeldFences>,
}

#[derive(Debug, Default)]
struct HeldFences {
    fences: HashMap<TaskId, Fence>,
    current: Option<TaskId>,
    /// The one before, which has ended.
    ended: Option<TaskId>,
}

impl CallContext {
    pub(super) fn at_stdio(stdio: Stdio) -> Self {
        let mut memory = HeldFences::default();
        if let Some((task, fence)) = stdio.task {
            memory
                .fences
                .extend(fence.map(|fence| (task.clone(), fence)));
            memory.current = Some(task);
        }
        let process = Process {
            holder: stdio.holder,
            addresses: stdio.addresses,
            workspace: stdio.workspace,
            turn: Arc::default(),
            memory: Mutex::new(memory),
        };
        Self {
            engine: stdio.engine.with_caller(stdio.agent.clone()),
            home: stdio.home,
            checkpoints: stdio.checkpoints,
            agent: stdio.agent,
            limits: stdio.limits,
            complain: Complain(stdio.complain),
            side: Side::Process(Arc::new(process)),
        }
    }

    pub(super) async fn over_http(app: App, caller: Caller) -> Result<Self, ApiError> {
        let Context { engine, home } = app.context_of(&caller).await?;
        let agent = caller.acting_agent();
        // No path comes in by the network.
        let checkpoints = home.join("checkpoints");
        let complain = Complain(Arc::clone(&app.backend.complain));
        let limits = StartLimits::Policy(app.backend.recoverer.policy());
        let side = Side::Http { app, caller };
        Ok(Self {
            engine,
            home,
            checkpoints,
            agent,
            limits,
            complain,
            side,
        })
    }

    pub(super) fn is_over_http(&self) -> bool {
        matches!(self.side, Side::Http { .. })
    }

    pub(super) fn may_write(&self) -> bool {
        match &self.side {
            Side::Process(_) => true,
            Side::Http { caller, .. } => caller.scope >= Scope::Operate,
        }
    }

    /// The refusal of whoever may only read, noted where such things are.
    pub(super) fn refuse(&self) -> ApiError {
        let error =
            ApiError::forbidden("this tool needs the scope operate; this token may only read")
                .hint("ask a person for a token that may");
        if let Side::Http { app, .. } = &self.side {
            app.audit.refused(&app.backend, &error);
        }
        error
    }

    /// Waits until those before it are done.
    pub(super) async fn turn(&self) -> Option<OwnedMutexGuard<()>> {
        match &self.side {
            Side::Process(process) => Some(Arc::clone(&process.turn).lock_owned().await),
            Side::Http { .. } => None,
        }
    }

    /// An agent takes work: over HTTP that is a report of one that reports by itself.
    pub(super) async fn reported(&self, agent: Option<&AgentName>) -> Result<(), ApiError> {
        if let (Side::Http { app, .. }, Some(agent)) = (&self.side, agent) {
            app.reported(agent).await?;
        }
        Ok(())
    }

    /// The agent that was named, else the one that is known.
    pub(super) fn agent(&self, given: Option<String>) -> Result<Option<AgentName>, ApiError> {
        Ok(given
            .map(AgentName::new)
            .transpose()?
            .or_else(|| self.agent.clone()))
    }

    /// Whose life a lease follows.
    pub(super) async fn holder(&self, agent: Option<&AgentName>) -> Result<Holder, ApiError> {
        Ok(self.taker(agent).await?.holder)
    }

    /// Who takes a task.
    pub(super) async fn taker(&self, agent: Option<&AgentName>) -> Result<Taker, ApiError> {
        match &self.side {
            Side::Process(process) => Ok(process.holder.clone().into()),
            Side::Http { caller, .. } => {
                let attempt = caller.attempt.as_ref();
                Ok(Taker::over_http(&self.operations(), agent, attempt, &caller.id).await?)
            }
        }
    }

    /// The task that was named, else the one that was started last.
    pub(super) fn task(&self, given: &JsonObject) -> Result<TaskId, ApiError> {
        let named = given
            .get_key_value("task")
            .map(|(name, id)| (name.clone(), id.clone()));
        let NamedTask { task } = read(named.into_iter().collect())?;
        task.or_else(|| self.current()).ok_or_else(|| {
            ApiError::invalid("no task is named").hint("give task, an id that you choose")
        })
    }

    /// The task that was started last.
    pub(super) fn current(&self) -> Option<TaskId> {
        self.memory(|memory| memory.current.clone()).flatten()
    }

    /// The fence that was given, else the one that is remembered.
    pub(super) fn fence(&self, task: &TaskId, given: Option<u64>) -> Option<Fence> {
        let remembered = || {
            self.memory(|memory| memory.fences.get(task).copied())
                .flatten()
        };
        given.map(Fence).or_else(remembered)
    }

    /// The right to write. An agent that did not take the task first has none, nor one whose task waits
    /// for a person by now. None is needed to be told that a task has ended.
    async fn right(&self, id: &TaskId) -> Result<Option<Fence>, ApiError> {
        if let Some(fence) = self.fence(id, None) {
            return Ok(Some(fence));
        }
        let task = self.engine.task(id).await?;
        if task.status.is_terminal() {
            return Ok(None);
        }
        task.check_caller(self.agent.as_ref())?;
        if task.status.waits_for_person() {
            return Err(Refusal::waits_for_person(&task).into());
        }
        Err(
            ApiError::new(ErrorCode::NOT_HELD, format!("you do not hold task {id}"))
                .hint("call task_start first; over HTTP give the fence that it answered"),
        )
    }

    /// Runs an operation on the task that is named, else on the one that was started last, by the fence
    /// that is given, else by the one that is remembered.
    pub(super) async fn operate<O: Operation>(
        &self,
        mut given: JsonObject,
    ) -> Result<Written<O::Answer>, ApiError> {
        let id = match self.task(&given) {
            Err(unnamed) => self
                .memory(|memory| memory.ended.clone())
                .flatten()
                .ok_or(unnamed)?,
            named => named?,
        };
        given.insert("task".to_owned(), json!(id));
        if given.get("fence").is_none_or(Value::is_null) {
            // A request that cannot be is told before the right to make it, as by every front.
            read::<O>(given.clone())?;
            given.insert("fence".to_owned(), json!(self.right(&id).await?));
        }
        let written = read::<O>(given)?.run(&self.operations()).await?;
        self.written(&written.task);
        Ok(written)
    }

    /// Forgets a task that has ended, and the fence of one that waits for a person: that is still the
    /// agent's task, but not the agent's to write.
    pub(super) fn written(&self, task: &Task) {
        self.memory(|memory| {
            if task.lease.held.is_none() {
                memory.fences.remove(&task.id);
            }
            if task.status.is_terminal() && memory.current.as_ref() == Some(&task.id) {
                memory.ended = memory.current.take();
            }
        });
    }

    /// What operations work with.
    pub(super) fn operations(&self) -> Context {
        Context {
            engine: self.engine.clone(),
            home: self.home.clone(),
        }
    }

    pub(super) fn remember(&self, started: &Started) {
        let id = &started.view.task.id;
        self.memory(|memory| {
            if memory.fences.len() >= TASKS_MAX {
                memory.fences.clear();
            }
            memory.fences.insert(id.clone(), started.fence);
            memory.current = Some(id.clone());
        });
    }

    fn memory<T>(&self, look: impl FnOnce(&mut HeldFences) -> T) -> Option<T> {
        match &self.side {
            Side::Process(process) => Some(look(
                &mut process
                    .memory
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner),
            )),
            Side::Http { .. } => None,
        }
    }
}
