//! A step between its begin and its end: what is recorded of it, and when.

use std::convert::Infallible;
use std::sync::Arc;

use relight_core::change::{Change, StepMark};
use relight_core::decide::Refusal;
use relight_core::ids::StepName;
use relight_core::step::{Output, RepeatRule, StepKey, StepOutcome};
use relight_store::DeferredCommit;

use super::step::{StepError, StepRun};
use super::task::TaskShared;
use crate::engine::ActError;
use crate::os::clock;
use crate::redact_input;

/// What to do with a step that was asked for.
#[derive(Debug)]
pub enum StepStart {
    /// It is finished: take its recorded value.
    Finished(FinishedStep),
    /// Run it, then end it.
    Run(StepInProgress),
    /// It was begun earlier and not ended, under the rule `verify`: find out whether it happened. Then
    /// `finish` it, or run it after `did_not_happen`.
    Verify(StepInProgress),
}

/// A step that is finished, with what it gave.
#[derive(Debug)]
pub struct FinishedStep {
    key: StepKey,
    value: Vec<u8>,
    pass: Pass,
}

impl FinishedStep {
    pub(super) fn new(key: StepKey, output: Option<Output>, pass: Pass) -> Self {
        // A step that a person or a command declared done has no value: it reads as null.
        let value = output.map_or_else(|| b"null".to_vec(), |output| output.body);
        Self { key, value, pass }
    }

    /// Which step.
    pub fn key(&self) -> &StepKey {
        &self.key
    }

    /// What it gave, as JSON.
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// The value was understood: the same name again is the next occurrence.
    pub fn accept(self) -> Vec<u8> {
        self.pass.finish();
        self.value
    }
}

/// A step that was begun and not ended. Dropped, it stays so: it is in doubt, and its rule decides.
#[derive(Debug)]
pub struct StepInProgress {
    mark: StepMark,
    /// The rule of this run; the recorded one holds while the step is in doubt.
    rule: RepeatRule,
    /// An earlier try may have happened.
    is_in_doubt: bool,
    begun: Option<DeferredCommit>,
    is_ended: bool,
    pass: Option<Pass>,
    shared: Arc<TaskShared>,
}

impl StepInProgress {
    /// Records the begin: before the step acts where its rule needs that, else on the way.
    pub(super) async fn begin(
        pass: Pass,
        mark: StepMark,
        is_in_doubt: bool,
    ) -> Result<Self, StepError<Infallible>> {
        let rule = mark.rule;
        let mut step = Self::in_doubt(pass, mark, rule);
        step.is_in_doubt = is_in_doubt;
        step.record_begin().await?;
        Ok(step)
    }

    /// One that is in doubt; nothing is recorded before somebody found out.
    pub(super) fn in_doubt(pass: Pass, mark: StepMark, rule: RepeatRule) -> Self {
        Self {
            mark,
            rule,
            is_in_doubt: true,
            begun: None,
            is_ended: false,
            shared: Arc::clone(&pass.shared),
            pass: Some(pass),
        }
    }

    /// Which step.
    pub fn key(&self) -> &StepKey {
        &self.mark.key
    }

    /// What the step may want to know while it runs.
    pub fn run(&self) -> StepRun {
        StepRun {
            idempotency_key: self.mark.key.idempotency_key(&self.shared.id),
            tries: self.mark.tries,
            in_doubt: self.is_in_doubt,
        }
    }

    /// It has acted and gave this JSON, which is kept whole: half of it could not be given back. On disk
    /// when it returns.
    pub async fn finish(mut self, value: Vec<u8>) -> Result<(), StepError<Infallible>> {
        let mut output = Output {
            body: value,
            ..Output::default()
        };
        redact_input::clean_output(self.shared.engine.redactor(), &mut output);
        self.end(StepOutcome::Done, output).await?;
        if let Some(pass) = self.pass.take() {
            pass.finish();
        }
        Ok(())
    }

    /// It went wrong: recorded as a failed try, and the next one may run it again.
    pub async fn fail(mut self, error: String) -> Result<(), StepError<Infallible>> {
        let mut output = Output {
            exit_code: 1,
            stderr: error,
            ..Output::default()
        };
        redact_input::clean_output(self.shared.engine.redactor(), &mut output);
        self.end(StepOutcome::Failed, output).await
    }

    /// Somebody found out that it did not happen: recorded, and begun again.
    pub async fn did_not_happen(mut self) -> Result<Self, StepError<Infallible>> {
        let output = Output {
            exit_code: 1,
            ..Output::default()
        };
        self.end(StepOutcome::Failed, output).await?;
        (self.is_ended, self.is_in_doubt) = (false, false);
        (self.mark.was_open, self.mark.rule) = (false, self.rule);
        self.record_begin().await?;
        Ok(self)
    }

    async fn record_begin(&mut self) -> Result<(), ActError> {
        let (shared, change) = (&self.shared, Change::StepBegun(self.mark.clone()));
        if self.mark.rule.needs_intent_first() {
            shared.commit(vec![change]).await?;
            self.mark.was_open = true;
            return Ok(());
        }
        let begin = shared.under_fence(vec![change]);
        self.begun = Some(shared.engine.store().commit_deferred(begin));
        Ok(())
    }

    /// Records the end. A begin that nobody waited for may have been lost, or an earlier one may have
    /// come through after all: then the store is asked, once, and the end follows what is there.
    async fn end(
        &mut self,
        outcome: StepOutcome,
        output: Output,
    ) -> Result<(), StepError<Infallible>> {
        let (shared, mark) = (&self.shared, &mut self.mark);
        if let Some(begun) = self.begun.take() {
            // Still in memory: begin and end become one record. Else the store has it.
            mark.was_open = mark.was_open || !begun.cancel();
        }
        let change = |mark: &StepMark| Change::StepEnded {
            mark: mark.clone(),
            outcome,
            output: Some(output.clone()),
        };
        match shared.commit(vec![change(mark)]).await {
            Err(ActError::Contended(_)) => {
                let step = shared.read_step(&mark.key).await?;
                if step.as_ref().is_some_and(|step| step.state.is_closed()) {
                    let (task, step) = (shared.id.clone(), mark.key.clone());
                    return Err(StepError::Act(Refusal::StepFinished { task, step }.into()));
                }
                mark.was_open = step.is_some_and(|step| step.is_open());
                shared.commit(vec![change(mark)]).await?;
            }
            other => other?,
        }
        let record = change(mark).step_record(clock::now(), Some(shared.fence));
        let record = record.expect("the end of a step is a record of it");
        let mut steps = shared.steps.lock().expect("nothing panics while locked");
        steps.insert(record.key.clone(), record);
        self.is_ended = true;
        Ok(())
    }
}

impl Drop for StepInProgress {
    /// One that was given up half way: the store may have its begin, or even its end.
    fn drop(&mut self) {
        if !self.is_ended {
            let mut given_up = self
                .shared
                .given_up
                .lock()
                .expect("nothing panics while locked");
            given_up.insert(self.mark.key.clone());
        }
    }
}

/// The count of one name, put right however the step ends.
#[derive(Debug)]
pub(super) struct Pass {
    shared: Arc<TaskShared>,
    name: StepName,
    pub(super) occurrence: u32,
    finished: bool,
}

impl Pass {
    pub(super) fn enter(shared: Arc<TaskShared>, name: StepName) -> Self {
        let occurrence = shared.enter(&name);
        Self {
            shared,
            name,
            occurrence,
            finished: false,
        }
    }

    fn finish(mut self) {
        self.finished = true;
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.shared.leave(&self.name, self.finished);
    }
}
