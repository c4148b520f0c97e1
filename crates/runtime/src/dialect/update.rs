//! `checkpoint update` and `checkpoint complete`.

use std::collections::{HashMap, HashSet};

use relight_core::decide::{Right, TaskEvent};
use relight_core::ids::{StepName, TaskId};
use relight_core::status::TaskStatus;
use relight_core::step::{Output, RepeatRule, StepKey, StepOutcome, StepState};

use super::{Dialect, Saved};
use crate::boxed::boxed;
use crate::engine::{ActError, TaskSnapshot, WorkflowError};
use crate::redact_input;

/// What changed in a workflow.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UpdateRequest {
    /// Steps that are finished.
    pub complete: Vec<StepName>,
    /// The step that is about to be done.
    pub step: Option<StepName>,
    /// Steps after it that were not declared yet.
    pub remaining: Vec<StepName>,
    /// Where the workflow stands.
    pub status: Option<relight_core::checkpoint::WorkflowStatus>,
    /// Free text for the successor.
    pub notes: Option<String>,
}

impl Dialect {
    /// Records what changed, in one commit, and writes the file.
    #[boxed]
    pub async fn update(
        &self,
        workflow: &TaskId,
        right: Right,
        request: &UpdateRequest,
    ) -> Result<Saved, ActError> {
        let mut request = request.clone();
        let names = request.complete.iter_mut().chain(&mut request.step);
        for name in names.chain(&mut request.remaining) {
            redact_input::settle_step_name(self.engine.redactor(), name)?;
        }
        let seen = self.reconcile(workflow).await.map_err(no_such_workflow)?;
        self.apply(workflow, right, &request).await?;
        self.save_over(workflow, seen.as_ref()).await
    }

    /// Records what changed, in one commit.
    pub(super) async fn apply(
        &self,
        workflow: &TaskId,
        right: Right,
        request: &UpdateRequest,
    ) -> Result<(), ActError> {
        let plan = |view: &TaskSnapshot| Ok::<_, ActError>(self.plan(view, request));
        let right = right.fence().map_or(Right::Dialect, Right::Fence);
        let acted = self.engine.act_in_turn(workflow, right, plan).await;
        acted.map(|_| ()).map_err(no_such_workflow)
    }

    fn plan(&self, view: &TaskSnapshot, request: &UpdateRequest) -> Vec<TaskEvent> {
        let mut events = Vec::new();
        let to = request.status.map(task_status);
        let works_on_steps = !request.complete.is_empty() || request.step.is_some();
        let status = view.task.status;
        let must_wake = status != TaskStatus::InProgress && works_on_steps;
        let ends = to == Some(TaskStatus::Completed) && !view.progress.in_doubt.is_empty();
        // Refused: nothing of it is to be ended on the way.
        if let Some(to) = to.filter(|_| ends && status.is_paused() && !must_wake) {
            return vec![TaskEvent::Move { to, reason: None }];
        }
        if must_wake || ends {
            events.push(TaskEvent::Move {
                to: TaskStatus::InProgress,
                reason: None,
            });
        }
        events.extend(declare(view, request));
        let states = view.steps.iter().map(|step| (&step.key, step.state));
        let states: StepStates = states.collect();
        for name in &request.complete {
            events.extend(finish(&states, StepKey::first(name.clone())));
        }
        if let Some(name) = &request.step {
            events.extend(begin(&states, request, name));
        }
        if ends {
            let finished: HashSet<&StepName> = request.complete.iter().collect();
            let finished = |key: &StepKey| finished.contains(&key.name);
            let open = view.steps.iter().filter(|step| step.is_open());
            let open = open.map(|step| &step.key).filter(|key| !finished(key));
            events.extend(open.map(|key| end(key.clone())));
        }
        let notes = view
            .task
            .checkpoint
            .as_ref()
            .and_then(|settings| settings.notes.as_ref());
        // What is written again is no change, but of a workflow that has ended it is refused.
        let is_news = request.notes.as_ref() != notes || status.is_terminal();
        if request.notes.is_some() && is_news {
            let mut settings = self.settings_of(&view.task);
            settings.notes.clone_from(&request.notes);
            events.push(TaskEvent::SetCheckpoint(settings));
        } else {
            events.extend(self.first_door(&view.task));
        }
        if let Some(to) = to {
            events.push(TaskEvent::Move {
                to,
                reason: request.notes.clone(),
            });
        }
        events
    }
}

fn no_such_workflow(error: ActError) -> ActError {
    match error {
        ActError::NoSuchTask(id) => WorkflowError::NotFound(id).into(),
        other => other,
    }
}

/// Steps that nobody declared ahead are added to the list.
fn declare(view: &TaskSnapshot, request: &UpdateRequest) -> Option<TaskEvent> {
    let known = &view.task.spec.steps;
    let named = request.complete.iter().chain(&request.step);
    let named = named.chain(&request.remaining);
    let mut seen: HashSet<&StepName> = known.iter().collect();
    let new: Vec<&StepName> = named.filter(|name| seen.insert(name)).collect();
    let all = known.iter().chain(new.iter().copied()).cloned();
    (!new.is_empty()).then(|| TaskEvent::Declare(all.collect()))
}

type StepStates<'v> = HashMap<&'v StepKey, StepState>;

/// A step that is finished already stays so; one that was never begun is begun and ended.
fn finish(states: &StepStates<'_>, key: StepKey) -> Vec<TaskEvent> {
    match states.get(&key) {
        Some(StepState::Done | StepState::Skipped) => Vec::new(),
        Some(StepState::Begun) => vec![end(key)],
        Some(StepState::Failed) | None => vec![intent(key.clone()), end(key)],
    }
}

/// A step that is begun already is only named again.
fn begin(states: &StepStates<'_>, request: &UpdateRequest, name: &StepName) -> Option<TaskEvent> {
    let key = StepKey::first(name.clone());
    let begun = states.get(&key) == Some(&StepState::Begun);
    let finished_now = request.complete.contains(name);
    (!begun || finished_now).then(|| intent(key))
}

fn intent(key: StepKey) -> TaskEvent {
    TaskEvent::StepBegin {
        key,
        rule: RepeatRule::Keyed,
        fingerprint: None,
    }
}

fn end(key: StepKey) -> TaskEvent {
    let output = Some(Output::default());
    TaskEvent::StepEnd {
        key,
        outcome: StepOutcome::Done,
        output,
    }
}

pub(super) fn task_status(status: relight_core::checkpoint::WorkflowStatus) -> TaskStatus {
    use relight_core::checkpoint::WorkflowStatus;
    match status {
        WorkflowStatus::InProgress => TaskStatus::InProgress,
        WorkflowStatus::Blocked => TaskStatus::Blocked,
        WorkflowStatus::Done => TaskStatus::Completed,
        WorkflowStatus::Failed => TaskStatus::Failed,
    }
}
