//! Reads, decides, commits; and again when somebody else was faster.
//!
//! The only place that turns an event into a commit. Rules are `core`'s, memory is `store`'s.

mod claim;
mod draining;
mod error;
mod workflow_error;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use relight_core::change::Change;
use relight_core::decide::{
    Guard, Refusal, Right, TaskDecision, TaskDecisionInput, TaskEvent, decide, decide_in_turn,
};
use relight_core::ids::{AgentName, IdError, TaskId, check_skill};
use relight_core::lease::{Fence, Holder, HolderLife};
use relight_core::limits;
use relight_core::progress::{Progress, left_open, progress};
use relight_core::step::{Output, Step, StepKey, StepOutcome};
use relight_core::task::{NewTask, Task, Usage};
use relight_core::time::Time;
use relight_redact::Redactor;
use relight_store::{Commit, CommitError, Store, StoreError};

use crate::boxed::{BoxFuture, boxed};
use crate::handover::HandedOver;
use crate::holders::Holders;
use crate::meter::Meter;
use crate::os::{attempts, clock, process};
use crate::redact_input;

pub(crate) use self::error::act_error;
pub use self::error::{ActError, DRAIN_HINT};
pub use self::workflow_error::WorkflowError;

/// How often a decision is made again because the task moved on meanwhile.
const ROUNDS_MAX: usize = 1_000;

/// A store behind redaction.
#[derive(Debug, Clone)]
pub struct Engine {
    store: Arc<dyn Store>,
    holders: Arc<Holders>,
    redactor: Arc<Redactor>,
    meter: Arc<Meter>,
    /// Where running steps have their locks, unless that is beside the store's file.
    home: Option<Arc<Path>>,
    file_intake: Option<FileIntake>,
    /// The agent that this process acts for.
    caller: Option<AgentName>,
}

/// Takes in what another tool wrote into the files beside the store, before anything is decided about a
/// task; returns whether that changed the store.
pub type FileIntake = for<'a> fn(Engine, &'a Task) -> BoxFuture<'a, bool>;

/// A task and how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSnapshot {
    /// The task.
    pub task: Task,
    /// Its steps.
    pub steps: Vec<Step>,
    /// What is done, in doubt and next.
    pub progress: Progress,
}

/// What became of an event.
#[derive(Debug, Clone, PartialEq)]
pub struct Acted {
    /// The task it was decided upon.
    pub before: Task,
    /// What was committed.
    pub decision: TaskDecision,
    /// The newest fence by this very commit.
    pub fence: Fence,
    /// When it was decided.
    pub at: Time,
}

impl Acted {
    fn takes_lease(&self) -> bool {
        self.decision
            .changes
            .iter()
            .any(|change| matches!(change, Change::LeaseTaken { .. }))
    }

    /// The task as the commit left it.
    pub(crate) fn after(self) -> Task {
        let mut task = self.before;
        for change in &self.decision.changes {
            change.apply(&mut task, self.at);
        }
        task.lease.fence = self.fence;
        task.seq += u64::from(!self.decision.changes.is_empty());
        task
    }
}

/// A lease that was just taken or continued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The task, and how far it is.
    pub view: TaskSnapshot,
    /// The right to write.
    pub fence: Fence,
    /// Whether somebody worked on it before.
    pub resumed: bool,
    /// From whom, when that was another agent.
    pub handed_over: Option<HandedOver>,
}

/// What starting a new task came to.
pub(crate) enum NewStart {
    /// It was added, and its lease was taken.
    Started(Box<Started>),
    /// This task stands for the request already.
    There(Box<Task>),
}

/// What adding a task came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Added {
    /// It is new.
    Created(Task),
    /// It was there, and nothing differs.
    Same(Task),
    /// It was there and has ended: new work needs a new id.
    Ended(Task),
    /// Another task has the idempotency key.
    KeyTaken(Task),
}

impl Added {
    /// The task that stands for the request.
    pub fn task(&self) -> &Task {
        match self {
            Self::Created(task) | Self::Same(task) | Self::Ended(task) | Self::KeyTaken(task) => {
                task
            }
        }
    }
}

impl Engine {
    /// Puts redaction in front of a store.
    pub fn new(store: Arc<dyn Store>, redactor: Redactor) -> Self {
        let (redactor, meter) = (Arc::new(redactor), Arc::default());
        let holders = Arc::new(Holders::new(Arc::clone(&store)));
        Self {
            store,
            holders,
            redactor,
            meter,
            home: None,
            file_intake: None,
            caller: None,
        }
    }

    /// The same with the folder of this machine's state, for a store that is elsewhere.
    #[must_use]
    pub fn with_home(self, home: &Path) -> Self {
        Self {
            home: Some(home.into()),
            ..self
        }
    }

    /// The same for a process that acts for an agent: tasks of other agents are refused to it.
    #[must_use]
    pub fn with_caller(self, caller: Option<AgentName>) -> Self {
        Self { caller, ..self }
    }

    /// The folder in which running steps have their locks; none for a store without a place.
    pub fn home(&self) -> Option<PathBuf> {
        let beside_store = || self.store.file()?.parent().map(Path::to_path_buf);
        self.home
            .as_deref()
            .map(Path::to_path_buf)
            .or_else(beside_store)
    }

    /// The same with files beside the store that other tools may write.
    #[must_use]
    pub fn with_file_intake(self, intake: FileIntake) -> Self {
        Self {
            file_intake: Some(intake),
            ..self
        }
    }

    /// The same for the checkpoint dialect, which reads the files itself.
    pub(crate) fn without_files(self) -> Self {
        Self {
            file_intake: None,
            ..self
        }
    }

    /// What was counted through this engine and its clones.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// The store, for views.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// What this engine and its clones know about the holders of leases.
    pub fn holders(&self) -> &Arc<Holders> {
        &self.holders
    }

    /// The redactor of everything that is written.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// One task and how far it is.
    #[boxed]
    pub async fn view(&self, id: &TaskId) -> Result<TaskSnapshot, ActError> {
        let task = self.task(id).await?;
        let steps = self.store.steps(id).await?;
        let progress = progress(&task.spec.steps, &steps);
        Ok(TaskSnapshot {
            task,
            steps,
            progress,
        })
    }

    /// How many declared steps are finished or skipped; none where nothing is declared.
    pub async fn declared_done(&self, task: &Task) -> Result<Option<usize>, StoreError> {
        let declared = &task.spec.steps;
        if declared.is_empty() {
            return Ok(None);
        }
        if task.steps_done == 0 {
            return Ok(Some(0));
        }
        let steps = self.store.steps(&task.id).await?;
        Ok(Some(declared.len() - left_open(declared, &steps).len()))
    }

    /// One task.
    #[boxed]
    pub async fn task(&self, id: &TaskId) -> Result<Task, ActError> {
        self.store
            .task(id)
            .await?
            .ok_or_else(|| ActError::NoSuchTask(id.clone()))
    }

    /// Adds a task, or finds the one that already stands for the request.
    #[boxed]
    pub async fn add(&self, new: NewTask) -> Result<Added, ActError> {
        Ok(self.add_and(new, false, Vec::new()).await?.0)
    }

    /// Adds a task that its agent is about to start. Whether one that is there may be started by that
    /// agent is decided then.
    pub(crate) async fn add_to_start(&self, new: NewTask) -> Result<Added, ActError> {
        Ok(self.add_and(new, true, Vec::new()).await?.0)
    }

    /// Records what hooks observed of a conversation in its task, adding that first when it is absent:
    /// then all of it is news, and nothing is answered.
    pub(crate) async fn observe(
        &self,
        new: NewTask,
        events: Vec<TaskEvent>,
    ) -> Result<Option<Acted>, ActError> {
        let id = new.id.clone();
        if self.store.task(&id).await?.is_none() {
            match self.add_and(new, true, events.clone()).await {
                Ok((Added::Created(_), _)) => return Ok(None),
                // Another hook of the same conversation was faster.
                Ok(_) | Err(ActError::Exists { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.act_together(&id, Right::Unfenced, events)
            .await
            .map(Some)
    }

    /// Adds a task and lets first events follow in the same commit, so that nobody comes between.
    async fn add_and(
        &self,
        mut new: NewTask,
        is_started: bool,
        mut first: Vec<TaskEvent>,
    ) -> Result<(Added, Fence), ActError> {
        self.check_new(&new)?;
        redact_input::clean_new(&self.redactor, &mut new);
        first
            .iter_mut()
            .for_each(|event| redact_input::clean_event(&self.redactor, event));
        for _ in 0..ROUNDS_MAX {
            if let Some(key) = &new.spec.key
                && let Some(task) = self.store.task_with_key(key).await?
                && task.id != new.id
            {
                return Ok((Added::KeyTaken(task), Fence::default()));
            }
            if let Some(task) = self.store.task(&new.id).await? {
                return Ok((same_or_differs(&new, task, is_started)?, Fence::default()));
            }
            check_strict(&new)?;
            let at = clock::now();
            let mut changes = vec![Change::Created(Box::new(new.clone()))];
            if !first.is_empty() {
                let task = Change::first(&new, at);
                let scene = self.scene(&task, None, Right::Unfenced).await?;
                changes.extend(decide_in_turn(&scene, &[], first.clone())?.changes);
            }
            let commit = Commit {
                task: new.id.clone(),
                guard: Guard::default(),
                at,
                changes,
            };
            match self.store.commit(commit).await {
                Ok(done) => return Ok((Added::Created(self.task(&new.id).await?), done.fence)),
                Err(CommitError::Exists(_) | CommitError::KeyTaken { .. }) => {}
                Err(error) => return Err(act_error(error)),
            }
        }
        Err(ActError::Contended(new.id))
    }

    /// Applies one event to a task.
    #[boxed]
    pub async fn act(
        &self,
        id: &TaskId,
        right: Right,
        event: TaskEvent,
    ) -> Result<Acted, ActError> {
        self.act_upon(None, id, right, event).await
    }

    /// As `act`, upon the task as the caller knows it; it is read only when it has moved on since.
    pub async fn act_upon(
        &self,
        mut known: Option<Task>,
        id: &TaskId,
        right: Right,
        mut event: TaskEvent,
    ) -> Result<Acted, ActError> {
        self.check_event(&event)?;
        self.settle_step(&mut event)?;
        redact_input::clean_event(&self.redactor, &mut event);
        for round in 0..ROUNDS_MAX {
            let (task, step) = self.look(known.take(), id, event.step()).await?;
            if round == 0 && self.takes_in_file(&task).await {
                continue;
            }
            let needed = event.needs_all_steps(&task);
            let steps = self.steps_for(&task, needed).await?;
            let scene = TaskDecisionInput {
                steps: &steps,
                ..self.scene(&task, step.as_ref(), right).await?
            };
            let decision = decide(&scene, event.clone())?;
            let begins = decision
                .changes
                .iter()
                .any(|c| matches!(c, Change::StepBegun(_)));
            let is_seen = matches!(event, TaskEvent::Observe(_));
            if begins && task.lease.held.is_none() && !is_seen {
                // The holder of a task may finish it; this would be new work.
                self.refuse_while_draining(&task).await?;
            }
            if let Some(fence) = self.commit(id, &decision, &scene).await? {
                let at = scene.now;
                return Ok(Acted {
                    before: task,
                    decision,
                    fence,
                    at,
                });
            }
        }
        Err(ActError::Contended(id.clone()))
    }

    /// Takes in files of this task; true when that changed the store. A file that cannot be taken in is
    /// set aside when it is written next.
    async fn takes_in_file(&self, task: &Task) -> bool {
        match self.file_intake {
            Some(intake) => intake(self.clone(), task).await,
            None => false,
        }
    }

    /// The task, unless it is known, and the step that an event speaks of.
    async fn look(
        &self,
        known: Option<Task>,
        id: &TaskId,
        key: Option<&StepKey>,
    ) -> Result<(Task, Option<Step>), ActError> {
        let no_task = || ActError::NoSuchTask(id.clone());
        match (known, key) {
            (Some(task), None) => Ok((task, None)),
            (Some(task), Some(key)) => Ok((task, self.store.step(id, key).await?)),
            (None, None) => Ok((self.task(id).await?, None)),
            (None, Some(key)) => {
                let (task, step) = self.store.task_with_step(id, key).await?;
                Ok((task.ok_or_else(no_task)?, step))
            }
        }
    }

    async fn steps_for(&self, task: &Task, needed: bool) -> Result<Vec<Step>, ActError> {
        Ok(if needed {
            self.store.steps(&task.id).await?
        } else {
            Vec::new()
        })
    }

    /// Applies several events to a task as one, all or nothing.
    pub async fn act_together(
        &self,
        id: &TaskId,
        right: Right,
        mut events: Vec<TaskEvent>,
    ) -> Result<Acted, ActError> {
        for event in &mut events {
            self.check_event(event)?;
            self.settle_step(event)?;
            redact_input::clean_event(&self.redactor, event);
        }
        for round in 0..ROUNDS_MAX {
            let task = self.task(id).await?;
            if round == 0 && self.takes_in_file(&task).await {
                continue;
            }
            let needs_all = events.iter().any(|event| event.needs_all_steps(&task));
            let mut steps = self.steps_for(&task, needs_all).await?;
            for key in events.iter().filter_map(TaskEvent::step) {
                if !steps.iter().any(|step| step.key == *key) {
                    steps.extend(self.store.step(id, key).await?);
                }
            }
            let scene = self.scene(&task, None, right).await?;
            let decision = decide_in_turn(&scene, &steps, events.clone())?;
            if let Some(fence) = self.commit(id, &decision, &scene).await? {
                let at = scene.now;
                return Ok(Acted {
                    before: task,
                    decision,
                    fence,
                    at,
                });
            }
        }
        Err(ActError::Contended(id.clone()))
    }

    /// Records the end of a step, and in the same commit what the work has used.
    #[boxed]
    pub async fn end_step(
        &self,
        id: &TaskId,
        right: Right,
        key: StepKey,
        (outcome, output): (StepOutcome, Output),
        usage: Usage,
    ) -> Result<Acted, ActError> {
        let end = TaskEvent::StepEnd {
            key,
            outcome,
            output: Some(output),
        };
        if usage == Usage::default() {
            return self.act(id, right, end).await;
        }
        self.act_together(id, right, vec![end, TaskEvent::Spend(usage)])
            .await
    }

    /// Reads a task, lets `plan` say which events that calls for, and applies them as one. Steps in them
    /// are those of the task, or were checked by the caller.
    pub async fn act_in_turn<E: From<ActError>>(
        &self,
        id: &TaskId,
        right: Right,
        plan: impl Fn(&TaskSnapshot) -> Result<Vec<TaskEvent>, E>,
    ) -> Result<Acted, E> {
        for round in 0..ROUNDS_MAX {
            let view = self.view(id).await?;
            if round == 0 && self.takes_in_file(&view.task).await {
                continue;
            }
            let scene = self
                .scene(&view.task, None, right)
                .await
                .map_err(ActError::from)?;
            let mut events = plan(&view)?;
            for event in &events {
                self.check_event(event).map_err(ActError::from)?;
            }
            events
                .iter_mut()
                .for_each(|event| redact_input::clean_event(&self.redactor, event));
            let decision = decide_in_turn(&scene, &view.steps, events).map_err(ActError::from)?;
            if let Some(fence) = self.commit(id, &decision, &scene).await? {
                let at = scene.now;
                return Ok(Acted {
                    before: view.task,
                    decision,
                    fence,
                    at,
                });
            }
        }
        Err(ActError::Contended(id.clone()).into())
    }

    /// The newest fence after the commit; none when the task moved on meanwhile. A later look could
    /// already see the fence of whoever took the lease next.
    async fn commit(
        &self,
        id: &TaskId,
        decision: &TaskDecision,
        scene: &TaskDecisionInput<'_>,
    ) -> Result<Option<Fence>, ActError> {
        if decision.changes.is_empty() {
            return Ok(Some(scene.task.lease.fence));
        }
        let commit = Commit {
            task: id.clone(),
            guard: decision.guard,
            at: scene.now,
            changes: decision.changes.clone(),
        };
        let is_of_step = commit.changes.iter().any(|change| {
            matches!(
                change,
                Change::StepBegun(_) | Change::StepEnded { .. } | Change::StepSkipped { .. }
            )
        });
        let began_us = clock::monotonic_us();
        let committed = self.store.commit(commit).await;
        if is_of_step && committed.is_ok() {
            let took_us = clock::monotonic_us().saturating_sub(began_us);
            self.meter.step_committed(Duration::from_micros(took_us));
        }
        match committed {
            Ok(committed) => Ok(Some(committed.fence)),
            Err(CommitError::Moved(_)) => Ok(None),
            Err(error) => Err(act_error(error)),
        }
    }

    /// What there is to decide upon. Whoever shows the newest fence is the holder, and nobody has to
    /// ask whether it lives.
    async fn scene<'a>(
        &'a self,
        task: &'a Task,
        step: Option<&'a Step>,
        right: Right,
    ) -> Result<TaskDecisionInput<'a>, StoreError> {
        let life = self.holder_life(task, right).await?;
        let is_holder = || {
            task.lease
                .held
                .as_ref()
                .is_some_and(|held| is_part_of(&held.holder))
        };
        let right = match right {
            Right::Unfenced | Right::Person if life == HolderLife::Alive && is_holder() => {
                Right::Holder
            }
            right => right,
        };
        let caller = self.caller.as_ref();
        Ok(TaskDecisionInput {
            task,
            step,
            steps: &[],
            life,
            right,
            caller,
            now: clock::now(),
        })
    }

    /// Whether the holder of a task lives, where whoever asks is not the holder.
    pub(crate) async fn holder_life(
        &self,
        task: &Task,
        right: Right,
    ) -> Result<HolderLife, StoreError> {
        let held = task.lease.held.as_ref();
        if right.fence() != Some(task.lease.fence) {
            self.holders.look_for(held).await?;
        }
        Ok(held.map_or(HolderLife::Gone, |held| self.holders.life(held)))
    }

    /// Names that come with an event are ids too.
    fn check_event(&self, event: &TaskEvent) -> Result<(), redact_input::SecretName> {
        match event {
            TaskEvent::Claim { claimant, .. } | TaskEvent::Assign { claimant, .. } => {
                redact_input::check_name(&self.redactor, "agent name", claimant.agent.as_str())
            }
            TaskEvent::Start {
                starter: Some(starter),
                ..
            } => redact_input::check_name(&self.redactor, "agent name", starter.agent().as_str()),
            TaskEvent::Retry {
                agent: Some(agent), ..
            }
            | TaskEvent::Restart { agent: Some(agent) } => {
                redact_input::check_name(&self.redactor, "agent name", agent.as_str())
            }
            _ => Ok(()),
        }
    }

    /// Refuses a step whose name holds a secret, and gives it the name that it has everywhere.
    fn settle_step(&self, event: &mut TaskEvent) -> Result<(), redact_input::SecretName> {
        match event {
            TaskEvent::StepBegin { key, .. }
            | TaskEvent::StepEnd { key, .. }
            | TaskEvent::StepSkip { key, .. }
            | TaskEvent::StepResolve { key, .. } => {
                redact_input::settle_step_name(&self.redactor, &mut key.name)
            }
            _ => Ok(()),
        }
    }

    /// Refuses texts over their limits, and ids, keys and steps that would have to be redacted.
    pub fn check_new(&self, new: &NewTask) -> Result<(), ActError> {
        limits::check_new(new).map_err(Refusal::from)?;
        redact_input::check_name(&self.redactor, "task id", new.id.as_str())?;
        if let Some(agent) = &new.agent {
            redact_input::check_name(&self.redactor, "agent name", agent.as_str())?;
        }
        if let Some(strategy) = &new.spec.strategy {
            redact_input::check_name(&self.redactor, "name of the strategy", strategy)?;
        }
        if let Some(key) = &new.spec.key {
            redact_input::check_key(&self.redactor, key)?;
        }
        for step in &new.spec.steps {
            redact_input::check_step_name(&self.redactor, step)?;
        }
        self.check_skills(&new.spec.needs)
    }

    /// Refuses an agent whose name, task or skills would have to be redacted.
    pub fn check_agent(
        &self,
        name: &AgentName,
        task: Option<&TaskId>,
        skills: &[String],
    ) -> Result<(), ActError> {
        redact_input::check_name(&self.redactor, "agent name", name.as_str())?;
        if let Some(task) = task {
            redact_input::check_name(&self.redactor, "task id", task.as_str())?;
        }
        self.check_skills(skills)
    }

    /// Refuses skills that are too long, cannot be shown, or would have to be redacted: a marked one
    /// would match no agent.
    pub(crate) fn check_skills(&self, skills: &[String]) -> Result<(), ActError> {
        limits::check_skills(skills).map_err(Refusal::from)?;
        for skill in skills {
            check_skill(skill)?;
            redact_input::check_name(&self.redactor, "skill", skill)?;
        }
        Ok(())
    }
}

/// Whether this process is part of a holder: it, a child of it, or of its attempt. Nobody is part of a
/// lease by time: its holder is whoever shows the fence.
fn is_part_of(holder: &Holder) -> bool {
    match holder {
        Holder::Process(process) => process::is_below(process),
        Holder::Attempt {
            process: Some(process),
            ..
        } if process::is_below(process) => true,
        Holder::Attempt {
            process: Some(process),
            shim,
            ..
        } if process::has_below(shim, process.pid) => false,
        // All of an attempt are part of a holder outside of it that it named.
        Holder::Attempt { attempt, shim, .. } => match attempts::own() {
            Some(own) => own.as_str() == attempt,
            // It may have cleared its environment; one shim has one attempt at a time.
            None => process::is_below(shim),
        },
        Holder::Time { .. } => false,
    }
}

/// Only workflows of the checkpoint dialect, which other programs name, have any text as their names.
fn check_strict(new: &NewTask) -> Result<(), IdError> {
    if new.checkpoint.is_none() {
        TaskId::strict(new.id.as_str())?;
        new.agent
            .as_ref()
            .map(|agent| AgentName::new(agent.as_str()))
            .transpose()?;
    }
    Ok(())
}

fn same_or_differs(new: &NewTask, task: Task, is_started: bool) -> Result<Added, ActError> {
    let mut differs = new.differences(&task);
    if is_started {
        differs.retain(|what| *what != "agent");
    }
    if task.status.is_terminal() {
        Ok(Added::Ended(task))
    } else if differs.is_empty() {
        Ok(Added::Same(task))
    } else {
        Err(ActError::Exists {
            task: task.id,
            differs,
        })
    }
}
