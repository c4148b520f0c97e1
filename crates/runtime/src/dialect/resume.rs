//! `checkpoint resume`: the oldest unfinished workflow that nobody holds, or the named one.

use relight_core::claimant::Claimant;
use relight_core::decide::{Refusal, Right, StartLimits, Starter, TaskEvent, who_holds};
use relight_core::ids::{AgentName, TaskId};
use relight_core::lease::{Held, Holder};
use relight_core::status::TaskStatus;
use relight_core::task::Task;
use relight_core::time::{Span, Time};
use relight_store::TaskQuery;

use super::{Dialect, DialectError, Saved, SetAside};
use crate::checkpoint_files::ReadError;
use crate::doors::clock;
use crate::engine::{ActError, Started, TaskView};

/// What to resume, and for whom.
#[derive(Debug, Clone)]
pub struct ResumeRequest {
    /// The workflow; the oldest unfinished one when none.
    pub workflow: Option<TaskId>,
    /// Only of this agent.
    pub agent: Option<AgentName>,
    /// Take it from a live holder.
    pub steal: bool,
    /// Whose life the lease follows.
    pub holder: Holder,
    /// How long each write renews it for.
    pub ttl: Option<Span>,
    /// What keeps a workflow from being resumed.
    pub limits: StartLimits,
}

/// A workflow under a lease.
#[derive(Debug)]
pub struct Resumed {
    /// The lease, and how far the workflow is.
    pub started: Started,
    /// Its file.
    pub saved: Saved,
    /// Files that were damaged.
    pub reports: Vec<SetAside>,
}

/// Why nothing was resumed.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// There is nothing unfinished.
    #[error("nothing to resume in {folder}")]
    Nothing {
        /// Where.
        folder: String,
        /// Unfinished ones that wait for a person, with their status.
        waiting: Vec<(TaskId, TaskStatus)>,
        /// Files that were damaged.
        reports: Vec<SetAside>,
    },
    /// Somebody else has it.
    #[error("workflow {task} is held by {}", who_holds(.held, .agent.as_ref()))]
    Held {
        /// Which.
        task: TaskId,
        /// Whose it is.
        agent: Option<AgentName>,
        /// By whom.
        held: Box<Held>,
    },
    /// It ended, or its time is over.
    #[error("workflow {task} is {why}")]
    Over {
        /// Which.
        task: TaskId,
        /// `done`, `cancelled` or `expired`.
        why: &'static str,
    },
    /// Anything else.
    #[error(transparent)]
    Dialect(#[from] DialectError),
}

impl From<ActError> for ResumeError {
    fn from(error: ActError) -> Self {
        match error {
            ActError::Refused(Refusal::Held { task, agent, held }) => {
                Self::Held { task, agent, held }
            }
            other => Self::Dialect(other.into()),
        }
    }
}

/// Statuses that somebody may simply go on with; the others wait for a person.
const RESUMABLE: [TaskStatus; 5] = [
    TaskStatus::Created,
    TaskStatus::Assigned,
    TaskStatus::InProgress,
    TaskStatus::Interrupted,
    TaskStatus::Deferred,
];

impl Dialect {
    /// Takes the lease of a workflow and says how far it is.
    pub async fn resume(&self, request: &ResumeRequest) -> Result<Resumed, ResumeError> {
        let reports = match self.mend_all().await {
            // What the store knows can be resumed without its folder.
            Err(DialectError::Io { place, source }) => {
                let reason = format!("cannot be read: {source}");
                vec![SetAside { file: place, reason, is_damaged: true, now_at: None }]
            }
            other => other?,
        };
        let started = match &request.workflow {
            Some(id) => self.resume_named(id, request).await?,
            None => match self.resume_oldest(request).await? {
                Some(started) => started,
                None => return Err(self.nothing(request, reports).await?),
            },
        };
        let saved = self.save(&started.view.task.id).await?;
        let started = Started { view: saved.view.clone(), ..started };
        Ok(Resumed { started, saved, reports })
    }

    async fn resume_named(
        &self,
        id: &TaskId,
        request: &ResumeRequest,
    ) -> Result<Started, ResumeError> {
        let task = self.engine.store().task(id).await.map_err(ActError::from)?;
        let Some(task) = task else { return Err(self.unknown(id).into()) };
        if let Some(why) = over(&task, clock::now()) {
            return Err(ResumeError::Over { task: task.id, why });
        }
        // Its file may be in another folder than the one that was looked through.
        self.take_up(id).await?;
        self.take(id, request).await
    }

    /// Whoever is faster gets it; the next one then.
    async fn resume_oldest(&self, request: &ResumeRequest) -> Result<Option<Started>, ResumeError> {
        let now = clock::now();
        let mut candidates = self.candidates(request, &RESUMABLE).await?;
        // The pause between two recoveries is for the queue: its own agent asks for it by itself.
        let is_put_off = |task: &Task| {
            task.status == TaskStatus::Deferred && task.not_before.is_some_and(|at| at > now)
        };
        let may_start = |task: &Task| request.limits.refusal(task, now).is_none();
        candidates.retain(|task| over(task, now).is_none() && !is_put_off(task) && may_start(task));
        let mut held = None;
        for task in candidates {
            match self.take(&task.id, request).await {
                Ok(started) => return Ok(Some(started)),
                Err(error @ ResumeError::Held { .. }) => {
                    held.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        held.map_or(Ok(None), Err)
    }

    async fn candidates(
        &self,
        request: &ResumeRequest,
        statuses: &[TaskStatus],
    ) -> Result<Vec<Task>, ResumeError> {
        let query = TaskQuery {
            statuses: statuses.to_vec(),
            agent: request.agent.clone(),
            checkpoint_folder: Some(self.folder_text()),
            ..TaskQuery::default()
        };
        let mut tasks = self.engine.store().tasks(query).await.map_err(ActError::from)?;
        tasks.sort_by_key(|task| task.created_at);
        Ok(tasks)
    }

    async fn take(&self, id: &TaskId, request: &ResumeRequest) -> Result<Started, ResumeError> {
        let plan = |view: &TaskView| {
            let mut events = Vec::new();
            if view.task.status == TaskStatus::Failed {
                // As one that was given out by hand it would be started without a look at its budget.
                if let Some(refusal) = request.limits.refusal(&view.task, clock::now()) {
                    return Err(ActError::from(refusal).into());
                }
                events.push(TaskEvent::Move { to: TaskStatus::Assigned, reason: None });
            }
            // Without a name the workflow is resumed for its own agent.
            let agent = request.agent.as_ref().or(view.task.agent.as_ref());
            events.push(TaskEvent::Start {
                holder: request.holder.clone(),
                ttl: request.ttl,
                steal: request.steal,
                starter: agent.cloned().map(Claimant::new).map(Starter::Itself),
                limits: request.limits.clone(),
            });
            events.extend(self.first_door(&view.task));
            Ok::<_, ResumeError>(events)
        };
        let acted = self.engine.act_in_turn(id, Right::Dialect, plan).await?;
        let view = self.view(id).await?;
        Ok(Started { fence: acted.fence, resumed: true, handed_over: None, view })
    }

    /// Neither the store nor a good file knows it; a damaged one may be its last trace.
    fn unknown(&self, id: &TaskId) -> DialectError {
        match self.folder.read(id.as_str()) {
            Err(ReadError::Damaged { path, reason }) => {
                DialectError::Damaged { file: path, reason }
            }
            Err(ReadError::Io { path, source }) => DialectError::Io { place: path, source },
            Ok(_) => DialectError::NoSuchWorkflow(id.clone()),
        }
    }

    async fn nothing(
        &self,
        request: &ResumeRequest,
        reports: Vec<SetAside>,
    ) -> Result<ResumeError, ResumeError> {
        let statuses =
            [TaskStatus::Blocked, TaskStatus::Suspended, TaskStatus::InReview, TaskStatus::Failed];
        let waiting = self.candidates(request, &statuses).await?;
        Ok(ResumeError::Nothing {
            folder: self.folder_text(),
            waiting: waiting.into_iter().map(|task| (task.id, task.status)).collect(),
            reports,
        })
    }
}

fn over(task: &Task, now: Time) -> Option<&'static str> {
    match task.status {
        TaskStatus::Completed => Some("done"),
        TaskStatus::Cancelled => Some("cancelled"),
        _ => task.is_expired(now).then_some("expired"),
    }
}
