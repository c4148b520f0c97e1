//! Every operation by its name: JSON in, the JSON of the command line out. For fronts that are not written
//! in Rust, and for `POST /api/operations/{name}`.

use std::path::{Path, PathBuf};

use relight_core::agent::{AgentStateKind, AttemptTag};
use relight_core::checkpoint::WorkflowStatus;
use relight_core::decide::StartLimits;
use relight_core::error_code::{ErrorCode, Refused};
use relight_core::event::EventKind;
use relight_core::ids::{AgentName, SessionKey, TaskId};
use relight_core::lease::{Fence, Holder};
use relight_core::session::{Rules, SessionStateKind};
use relight_core::status::TRANSITIONS;
use relight_store::{AgentQuery, EventQuery};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::checkpoint::{
    CheckpointImport, CheckpointList, CheckpointResume, CheckpointSave, CheckpointStart,
    CheckpointUpdate, CheckpointVerified,
};
use super::hook::HookObserve;
use super::live_signs::LiveSigns;
use super::record::{RecordGet, RecordList, RecordPut, RecordRemove};
use super::recover::{RecoverySettings, StoreRecovery};
use super::session::{self, SessionCaller, SessionOperation, SessionRecover, SessionShutdown};
use super::session::{
    SessionBegin, SessionClear, SessionEnd, SessionImport, SessionResume, SessionSuspend,
    SessionTouch,
};
use super::step::{StepBegin, StepEnd, StepResolve, StepSkip};
use super::task::{
    TaskBlock, TaskCancel, TaskDefer, TaskDone, TaskFail, TaskRelease, TaskRetry, TaskReview,
    TaskSet, TaskSpend,
};
use super::work::{Taker, TaskAdd, TaskClaim, TaskList, TaskStart};
use super::{Context, Operation, fields, page_limit, read, read_beside, read_exactly, view};
use crate::boxed::{BoxFuture, boxed};
use crate::checkpoint_files::usual_folder;
use crate::dialect::{Dialect, document};
use crate::engine::ActError;
use crate::hooks::RunsIn;
use crate::inflight;
use crate::os::process;
use crate::queue::Queue;
use crate::recovery::Recoverer;
use crate::recovery::operator::Filter;
use crate::state_location::checkpoint_folder;
use crate::supervise::supervisor::SupervisorSettings;

/// The field that names the process for which something is taken.
const OWNER_PID: &str = "owner_pid";

type Given = Map<String, Value>;
type OperationFuture<'a> = BoxFuture<'a, Result<Value, Refused>>;
type Run = for<'a> fn(&'a OperationCaller, Given) -> OperationFuture<'a>;

struct OperationEntry {
    name: &'static str,
    /// It changes nothing.
    only_reads: bool,
    run: Run,
}

/// Who calls operations by name, and what is known without being said.
#[derive(Debug, Clone)]
pub struct OperationCaller {
    /// The store and its folder.
    pub context: Context,
    /// The strategies and limits of tasks.
    pub recoverer: Recoverer,
    /// Holds what is taken without naming a holder.
    pub holder: Holder,
    /// Holds what is taken for a time, for people to read.
    pub user: String,
    /// The agent that calls.
    pub agent: Option<AgentName>,
    /// The task that it works on, with the fence.
    pub task: Option<(TaskId, Option<Fence>)>,
    /// The folder of checkpoint files, unless the field `dir` names one; `memory/checkpoints` below the
    /// working folder when none.
    pub checkpoints: Option<PathBuf>,
    /// What becomes of sessions that were cut off, where the request leaves it open.
    pub sessions: Rules,
    /// The folder of the user's own presets.
    pub presets: Option<PathBuf>,
    /// The caller asks over HTTP; none when it is in this process.
    pub over_http: Option<HttpCaller>,
}

/// A caller over HTTP: nobody's life can be seen but that of an attempt.
#[derive(Debug, Clone)]
pub struct HttpCaller {
    /// The attempt of an agent that it is part of.
    pub attempt: Option<AttemptTag>,
    /// It is a process of this machine and user: it may name processes and folders.
    pub is_local: bool,
}

macro_rules! operations {
    (@ reads) => { true };
    (@ writes) => { false };
    ($($effect:ident $name:literal => |$caller:ident, $given:ident| $call:expr,)*) => {
        const TABLE: &[OperationEntry] = &[$(OperationEntry {
            name: $name,
            only_reads: operations!(@ $effect),
            run: |$caller, $given| Box::pin($call),
        }),*];
    };
}

operations! {
    writes "task.add" => |caller, given| caller.task_add(given),
    writes "task.start" => |caller, given| caller.task_start(given),
    writes "task.claim" => |caller, given| caller.task_claim(given),
    reads "task.show" => |caller, given| caller.task_show(given),
    reads "task.list" => |caller, given| caller.task_list(given),
    reads "task.states" => |_caller, given| async move {
        read::<Nothing>(given)?;
        let rows = TRANSITIONS.iter().map(|(from, to)| json!({"from": from, "to": to}));
        Ok(json!({"items": rows.collect::<Vec<_>>(), "next": null}))
    },
    writes "task.set" => |caller, given| caller.operate::<TaskSet>(given),
    writes "task.done" => |caller, given| caller.operate::<TaskDone>(given),
    writes "task.review" => |caller, given| caller.operate::<TaskReview>(given),
    writes "task.fail" => |caller, given| caller.task_fail(given),
    writes "task.block" => |caller, given| caller.operate::<TaskBlock>(given),
    writes "task.defer" => |caller, given| caller.operate::<TaskDefer>(given),
    writes "task.release" => |caller, given| caller.operate::<TaskRelease>(given),
    writes "task.cancel" => |caller, given| caller.operate_unfenced::<TaskCancel>(given),
    writes "task.retry" => |caller, given| caller.operate_unfenced::<TaskRetry>(given),
    writes "task.spend" => |caller, given| caller.operate::<TaskSpend>(given),
    writes "step.begin" => |caller, given| caller.operate::<StepBegin>(given),
    writes "step.end" => |caller, given| caller.operate::<StepEnd>(given),
    writes "step.skip" => |caller, given| caller.operate::<StepSkip>(given),
    writes "step.resolve" => |caller, given| caller.operate_unfenced::<StepResolve>(given),
    reads "step.list" => |caller, given| caller.step_list(given),
    writes "session.begin" => |caller, given| caller.of_session::<SessionBegin>(given),
    writes "session.end" => |caller, given| caller.of_session::<SessionEnd>(given),
    writes "session.touch" => |caller, given| caller.of_session::<SessionTouch>(given),
    writes "session.resume" => |caller, given| caller.of_session::<SessionResume>(given),
    writes "session.suspend" => |caller, given| caller.of_session::<SessionSuspend>(given),
    writes "session.clear" => |caller, given| caller.of_session::<SessionClear>(given),
    writes "session.shutdown" => |caller, given| caller.of_session::<SessionShutdown>(given),
    writes "session.recover" => |caller, given| async move {
        let request = read::<SessionRecover>(given)?;
        answer(&request.run(&caller.context.engine, caller.sessions).await?)
    },
    reads "session.show" => |caller, given| async move {
        let OneSession { key } = read(given)?;
        answer(&session::show(&caller.context.engine, &key).await?)
    },
    reads "session.list" => |caller, given| caller.session_list(given),
    reads "session.export" => |caller, given| async move {
        read::<Nothing>(given)?;
        let (_, text) = session::export(&caller.context.engine).await?;
        Ok(serde_json::from_str(&text).expect("it was just written as JSON"))
    },
    writes "session.import" => |caller, given| async move {
        // The content of a file may be null.
        caller.run_session(read_exactly::<SessionImport>(given, &[])?).await
    },
    writes "checkpoint.start" => |caller, given| async move {
        let (workflows, request) = caller.with_files::<CheckpointStart>(given)?;
        caller.of_workflow(request.run(&workflows).await)
    },
    writes "checkpoint.update" => |caller, given| async move {
        let (workflows, request) = caller.with_files::<CheckpointUpdate>(given)?;
        caller.of_workflow(request.run(&workflows).await)
    },
    writes "checkpoint.complete" => |caller, given| async move {
        let (workflows, mut request) = caller.with_files::<CheckpointUpdate>(given)?;
        request.change.status = Some(WorkflowStatus::Done);
        caller.of_workflow(request.run(&workflows).await)
    },
    writes "checkpoint.save" => |caller, given| async move {
        let (workflows, request) = caller.with_files::<CheckpointSave>(given)?;
        caller.of_workflow(request.run(&workflows, caller.agent.clone()).await)
    },
    writes "checkpoint.resume" => |caller, given| caller.checkpoint_resume(given),
    reads "checkpoint.list" => |caller, given| async move {
        let (workflows, ListAll { all }) = caller.with_files(given)?;
        caller.of_workflow(CheckpointList::read(&workflows, all).await)
    },
    reads "checkpoint.show" => |caller, given| async move {
        let (workflows, OneWorkflow { workflow }) = caller.with_files(given)?;
        caller.of_workflow(workflows.view(&workflow).await.map(|view| document(&view)))
    },
    reads "checkpoint.verify" => |caller, given| async move {
        let (workflows, Files { files }) = caller.with_files(given)?;
        caller.of_workflow(CheckpointVerified::read(&workflows, files))
    },
    writes "checkpoint.import" => |caller, given| async move {
        let (workflows, request) = caller.with_files::<CheckpointImport>(given)?;
        caller.of_workflow(request.run(&workflows).await)
    },
    reads "agent.show" => |caller, given| async move {
        let OneAgent { agent } = read(given)?;
        let context = &caller.context;
        answer(&context.show_agent(&agent, &mut LiveSigns::default(), None).await?)
    },
    reads "agent.list" => |caller, given| caller.agent_list(given),
    writes "hook.observe" => |caller, given| async move {
        let request = read::<HookObserve>(given)?;
        let runs_in = match &caller.over_http {
            None => RunsIn::ThisProcess,
            Some(_) => RunsIn::Other(caller.holder_of(None).await?),
        };
        caller.check_local("hook.observe")?;
        answer(&request.run(&caller.context, caller.task.clone(), runs_in).await?)
    },
    writes "record.put" => |caller, given| async move {
        answer(&read::<RecordPut>(given)?.run(&caller.context).await?)
    },
    reads "record.get" => |caller, given| async move {
        answer(&read::<RecordGet>(given)?.run(&caller.context).await?)
    },
    reads "record.list" => |caller, given| async move {
        answer(&read::<RecordList>(given)?.run(&caller.context).await?)
    },
    writes "record.remove" => |caller, given| async move {
        answer(&read::<RecordRemove>(given)?.run(&caller.context).await?)
    },
    reads "inflight" => |caller, given| async move {
        read::<Nothing>(given)?;
        answer(&inflight::look(&caller.context.engine, &caller.context.home).await?)
    },
    reads "events" => |caller, given| caller.events(given),
    writes "recover" => |caller, given| caller.recover(given),
}

/// The name of every operation.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|entry| entry.name)
}

/// Whether the operation of this name changes nothing.
pub fn only_reads(name: &str) -> bool {
    TABLE
        .iter()
        .any(|entry| entry.name == name && entry.only_reads)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneTask {
    task: TaskId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneSession {
    key: SessionKey,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneWorkflow {
    workflow: TaskId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneAgent {
    agent: AgentName,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListAll {
    #[serde(default)]
    all: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Files {
    #[serde(default)]
    files: Vec<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionList {
    #[serde(default, deserialize_with = "fields::words")]
    state: Vec<SessionStateKind>,
    after: Option<SessionKey>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentList {
    #[serde(default, deserialize_with = "fields::words")]
    state: Vec<AgentStateKind>,
    after: Option<AgentName>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Events {
    task: Option<TaskId>,
    agent: Option<AgentName>,
    #[serde(default, deserialize_with = "fields::words")]
    kind: Vec<EventKind>,
    #[serde(default, deserialize_with = "fields::number")]
    after: u64,
    /// The newest before this one; `next` is then the `before` of the previous page.
    #[serde(default, deserialize_with = "fields::optional_number")]
    before: Option<u64>,
    limit: Option<usize>,
    /// The newest, instead of the first after `after`.
    #[serde(default)]
    newest: bool,
}

impl OperationCaller {
    /// Runs an operation by its name.
    #[boxed]
    pub async fn call(&self, name: &str, given: Given) -> Result<Value, Refused> {
        match TABLE.iter().find(|entry| entry.name == name) {
            Some(entry) => (entry.run)(self, given).await,
            None => Err(unknown(name)),
        }
    }

    /// An operation on the task that is named, else on the caller's own.
    async fn operate<O: Operation>(&self, given: Given) -> Result<Value, Refused> {
        let request: O = read(self.with_fence(self.with_task(given)))?;
        answer(&request.run(&self.context).await?)
    }

    /// The same for a person's verb, which needs no fence.
    async fn operate_unfenced<O: Operation>(&self, given: Given) -> Result<Value, Refused> {
        let request: O = read(self.with_task(given))?;
        answer(&request.run(&self.context).await?)
    }

    async fn of_session<O: SessionOperation>(&self, given: Given) -> Result<Value, Refused> {
        self.run_session(read::<O>(given)?).await
    }

    async fn run_session(&self, request: impl SessionOperation) -> Result<Value, Refused> {
        let caller = SessionCaller {
            owner: self.holder_of(None).await?,
            is_local: self.is_local(),
        };
        answer(&request.run(&self.context.engine, &caller).await?)
    }

    fn with_task(&self, mut given: Given) -> Given {
        if let (Some((task, _)), false) = (&self.task, is_given(&given, "task")) {
            given.insert("task".to_owned(), json!(task));
        }
        given
    }

    fn with_fence(&self, mut given: Given) -> Given {
        if let (Some((task, Some(fence))), false) = (&self.task, is_given(&given, "fence"))
            && given.get("task").and_then(Value::as_str) == Some(task.as_str())
        {
            given.insert("fence".to_owned(), json!(fence.0));
        }
        given
    }

    /// Who takes something: the process that `owner_pid` names; for the time that `lease` gives; else the
    /// caller's own holder.
    fn taker(&self, given: &mut Given) -> Result<Taker, Refused> {
        assert!(
            self.over_http.is_none(),
            "the daemon takes work for callers over HTTP"
        );
        let fence = self.task.as_ref().and_then(|(_, fence)| *fence);
        let of = |holder: Holder| Taker {
            fence,
            ..holder.into()
        };
        if let Some(pid) = given.remove(OWNER_PID).filter(|pid| !pid.is_null()) {
            let found = pid.as_u64().and_then(|pid| u32::try_from(pid).ok());
            let process = found.and_then(process::identity).ok_or_else(|| {
                let hint = "owner_pid takes the pid of a live process";
                Refused::new(
                    ErrorCode::INVALID,
                    format!("there is no process {pid}"),
                    hint,
                )
            })?;
            let holder = match self.holder.clone() {
                Holder::Attempt { attempt, shim, .. } => Holder::Attempt {
                    attempt,
                    shim,
                    process: Some(process),
                },
                Holder::Process(_) | Holder::Time { .. } => Holder::Process(process),
            };
            return Ok(Taker {
                is_named: true,
                ..of(holder)
            });
        }
        Ok(match &self.holder {
            Holder::Process(_) if is_given(given, "lease") => of(Holder::Time {
                by: self.user.clone(),
            }),
            holder => of(holder.clone()),
        })
    }

    fn is_local(&self) -> bool {
        self.over_http.as_ref().is_none_or(|caller| caller.is_local)
    }

    /// Callers over the network name no path: a token is no right to the files of this machine.
    fn check_local(&self, what: &str) -> Result<(), Refused> {
        if self.is_local() {
            return Ok(());
        }
        let text = format!("{what} is only for callers of the Unix socket");
        let hint =
            "files are read and written only for processes of the daemon's own user and machine";
        Err(Refused::new(ErrorCode::INVALID, text, hint))
    }

    /// Holds what is taken without naming a holder. Over HTTP this is the attempt of the agent, else a lease
    /// by time.
    async fn holder_of(&self, agent: Option<&AgentName>) -> Result<Holder, Refused> {
        let Some(caller) = &self.over_http else {
            return Ok(self.holder.clone());
        };
        let attempt = caller.attempt.as_ref();
        Ok(Taker::over_http(&self.context, agent, attempt, &self.user)
            .await?
            .holder)
    }

    /// The workflows of the folder that `dir` names, and the other fields.
    fn workflows(&self, mut given: Given) -> Result<(Dialect, Given), Refused> {
        let paths = ["dir", "file", "files"];
        if let Some(field) = paths.iter().find(|field| is_given(&given, field)) {
            self.check_local(field)?;
        }
        let dir = match given.remove("dir") {
            Some(Value::String(dir)) => Some(PathBuf::from(dir)),
            None | Some(Value::Null) => None,
            Some(other) => {
                let text = format!("dir is {other} where a path was expected");
                return Err(Refused::without_hint(ErrorCode::INVALID, text));
            }
        };
        // The daemon's own working folder means nothing to its callers.
        if let (Some(_), Some(dir)) = (
            &self.over_http,
            dir.as_ref().filter(|dir| dir.is_relative()),
        ) {
            let text = format!(
                "dir is {} where an absolute path was expected",
                dir.display()
            );
            return Err(Refused::without_hint(ErrorCode::INVALID, text));
        }
        let folder = match dir.or_else(|| self.checkpoints.clone()) {
            Some(folder) => checkpoint_folder(&folder)?,
            None => {
                let here = std::path::absolute(".");
                here.and_then(|here| usual_folder(&here)).map_err(|error| {
                    let text = format!("the checkpoint folder is not used: {error}");
                    Refused::new(
                        ErrorCode::CONFIG,
                        text,
                        "set RELIGHT_CHECKPOINT_DIR to use it",
                    )
                })?
            }
        };
        Ok((Dialect::new(self.context.engine.clone(), folder), given))
    }

    /// The same, and the request in the other fields.
    fn with_files<T: DeserializeOwned>(&self, given: Given) -> Result<(Dialect, T), Refused> {
        let (workflows, given) = self.workflows(given)?;
        Ok((workflows, read_beside(given, &["dir"])?))
    }

    /// What became of a workflow. Callers over the network are told no folder.
    fn of_workflow(&self, done: Result<impl Serialize, ActError>) -> Result<Value, Refused> {
        if self.is_local() {
            return answer(&done?);
        }
        let mut told = answer(&done.map_err(|error| match error {
            ActError::Workflow(error) => error.without_folders().into(),
            error => error,
        })?)?;
        leave_out_folders(&mut told);
        Ok(told)
    }

    async fn task_add(&self, given: Given) -> Result<Value, Refused> {
        let request = read::<TaskAdd>(given)?;
        let strategies = self.recoverer.strategies();
        answer(&request.run(&self.context, &strategies).await?)
    }

    async fn task_start(&self, given: Given) -> Result<Value, Refused> {
        let mut given = self.with_task(given);
        let mut taker = self.taker(&mut given)?;
        let request: TaskStart = read_beside(given, &[OWNER_PID])?;
        // The fence that is known is of the caller's own task.
        let own = self.task.as_ref().map(|(task, _)| task);
        taker.fence = taker.fence.filter(|_| own == Some(&request.task));
        let strategies = self.recoverer.strategies();
        let limits = StartLimits::Policy(self.recoverer.policy());
        let written = request
            .run(&self.context, &strategies, limits, taker)
            .await?;
        answer(&super::Written::<view::StartedView>::from(written))
    }

    async fn task_claim(&self, mut given: Given) -> Result<Value, Refused> {
        if let (Some(agent), false) = (&self.agent, is_given(&given, "agent")) {
            given.insert("agent".to_owned(), json!(agent));
        }
        let taker = self.taker(&mut given)?;
        let request: TaskClaim = read_beside(given, &[OWNER_PID])?;
        let queue = Queue::new(self.recoverer.clone());
        let claimed = request.run(&self.context, &queue, &taker).await?;
        let written = claimed.ok_or_else(|| {
            let agent = request.agent.as_ref().map_or("", AgentName::as_str);
            let text = format!("there is no task for {agent}");
            Refused::without_hint(ErrorCode::NOTHING, text)
        })?;
        answer(&super::Written::<view::StartedView>::from(written))
    }

    async fn task_fail(&self, given: Given) -> Result<Value, Refused> {
        let request = read::<TaskFail>(self.with_fence(self.with_task(given)))?;
        answer(&request.run(&self.context, &self.recoverer).await?)
    }

    async fn task_show(&self, given: Given) -> Result<Value, Refused> {
        let OneTask { task } = read(self.with_task(given))?;
        let view = self.context.show(&task).await?;
        let strategies = self.recoverer.strategies();
        let strategy = strategies.name_for(&view.task).to_owned();
        let holders = self.context.engine.holders();
        answer(&view::WholeTask::new(view, Some(&strategy), holders))
    }

    async fn task_list(&self, given: Given) -> Result<Value, Refused> {
        let request = read::<TaskList>(given)?;
        let limit = page_limit(request.limit)?;
        let page = request.run(&self.context, limit).await?;
        answer(&page.list(self.context.engine.holders()))
    }

    async fn step_list(&self, given: Given) -> Result<Value, Refused> {
        let OneTask { task } = read(self.with_task(given))?;
        let view = self.context.show(&task).await?;
        answer(&view::StepList::new(&view))
    }

    async fn session_list(&self, given: Given) -> Result<Value, Refused> {
        let SessionList {
            state,
            after,
            limit,
        } = read(given)?;
        let limit = page_limit(limit)?;
        answer(&session::list(&self.context.engine, state, after, limit).await?)
    }

    async fn checkpoint_resume(&self, given: Given) -> Result<Value, Refused> {
        let (workflows, mut given) = self.workflows(given)?;
        let taker = match &self.over_http {
            None => Some(self.taker(&mut given)?),
            Some(_) => None,
        };
        let request = CheckpointResume {
            caller: self.agent.clone(),
            ..read_beside(given, &["dir", OWNER_PID])?
        };
        let agent = request.agent.as_ref().or(self.agent.as_ref());
        let holder = match taker {
            Some(taker) => taker.holder,
            None => self.holder_of(agent).await?,
        };
        let limits = StartLimits::Policy(self.recoverer.policy());
        let mut set_aside = Vec::new();
        let resumed = request
            .run(&workflows, holder, limits, &mut set_aside)
            .await;
        self.of_workflow(resumed)
    }

    async fn agent_list(&self, given: Given) -> Result<Value, Refused> {
        let AgentList {
            state,
            after,
            limit,
        } = read(given)?;
        let query = AgentQuery {
            states: state,
            after,
            limit: Some(page_limit(limit)?),
        };
        let listed = self
            .context
            .list_agents(query, &mut LiveSigns::default(), None)
            .await?;
        answer(&listed)
    }

    async fn events(&self, given: Given) -> Result<Value, Refused> {
        let Events {
            task,
            agent,
            kind,
            after,
            before,
            limit,
            newest,
        } = read(given)?;
        let query = EventQuery {
            after,
            before,
            task,
            agent,
            kinds: kind,
            limit: page_limit(limit)?,
            newest: newest || before.is_some(),
        };
        answer(&view::EventView::page(&self.context.engine, query).await?)
    }

    async fn recover(&self, given: Given) -> Result<Value, Refused> {
        let request = read::<StoreRecovery>(given)?;
        let plan = RecoverySettings {
            supervisor: SupervisorSettings {
                strategies: (*self.recoverer.strategies()).clone(),
                policy: self.recoverer.policy(),
                home: self.context.home.clone(),
                ..SupervisorSettings::default()
            },
            sessions: self.sessions,
            presets: self.presets.clone(),
            filter: Filter::default(),
        };
        answer(&request.run(&self.context.engine, plan).await?)
    }
}

fn is_given(given: &Given, field: &str) -> bool {
    given.get(field).is_some_and(|value| !value.is_null())
}

fn answer(value: &impl Serialize) -> Result<Value, Refused> {
    Ok(serde_json::to_value(value).expect("answers have string keys"))
}

/// Leaves of each path the name of the file.
fn leave_out_folders(told: &mut Value) {
    let fields = match told {
        Value::Array(items) => return items.iter_mut().for_each(leave_out_folders),
        Value::Object(fields) => fields,
        _ => return,
    };
    for (name, field) in fields {
        let text = field.as_str().map(str::to_owned);
        match (name.as_str(), text) {
            ("file" | "folder", Some(path)) => {
                let last = Path::new(&path).file_name().unwrap_or_default();
                *field = json!(last.to_string_lossy());
            }
            ("file_error", Some(_)) => {
                *field = json!("the checkpoint file could not be written");
            }
            _ => leave_out_folders(field),
        }
    }
}

fn unknown(name: &str) -> Refused {
    let near = names().max_by(|a, b| {
        let (a, b) = (strsim::jaro_winkler(a, name), strsim::jaro_winkler(b, name));
        a.total_cmp(&b)
    });
    let hint = near.map(|near| format!("did you mean {near}?"));
    Refused::new(
        ErrorCode::NOT_FOUND,
        format!("there is no operation {name:?}"),
        hint.unwrap_or_default(),
    )
}
