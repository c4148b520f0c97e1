//! One step of a running task: replay it, run it, record it.

use relight_core::change::{Change, StepMark};
use relight_core::checkpoint::hash::canonical_json;
use relight_core::decide::{Refusal, StepAdvice, TaskEvent, advise};
use relight_core::ids::{IdError, StepName};
use relight_core::step::{Output, RepeatRule, Step, StepKey, StepOutcome, StepState};
use relight_store::DeferredCommit;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::task::{RunningTask, TaskShared};
use crate::engine::ActError;
use crate::os::clock;
use crate::redact_input;

/// Why a step gave no value.
#[derive(Debug, thiserror::Error)]
pub enum StepError<E> {
    /// What the step itself returned. Recorded as a failed try; the step may be run again.
    #[error("{0}")]
    Failed(E),
    /// Somebody else has the lease; nothing was recorded.
    #[error(transparent)]
    Fenced(Refusal),
    /// Begun earlier and not ended, and its rule forbids to run it again by itself. Under `once` the
    /// task is blocked, an alert is sent, and this handle's lease has ended.
    #[error("step {0} is in doubt and must not be repeated; relight step resolve decides")]
    InDoubt(StepKey),
    /// The value cannot be recorded, or the recorded one is not of the type that is asked for now.
    #[error("the value of step {step} cannot be written or read: {source}")]
    Value {
        /// Which step.
        step: StepKey,
        /// What the decoder said.
        source: serde_json::Error,
    },
    /// The name cannot be one.
    #[error(transparent)]
    Name(#[from] IdError),
    /// The rules or the store.
    #[error(transparent)]
    Act(ActError),
}

impl<E> From<ActError> for StepError<E> {
    fn from(error: ActError) -> Self {
        match error {
            ActError::Refused(refusal @ Refusal::Fenced { .. }) => Self::Fenced(refusal),
            other => Self::Act(other),
        }
    }
}

/// What a step may want to know while it runs.
#[derive(Debug, Clone)]
pub struct StepRun {
    /// Stays the same however often the step is tried; hand it to the other side.
    pub idempotency_key: String,
    /// Which try this is, from 1.
    pub tries: u32,
    /// Whether an earlier try may have happened.
    pub in_doubt: bool,
}

/// A step about to be run.
#[derive(Debug)]
pub struct StepBuilder<'t> {
    task: &'t RunningTask,
    name: StepName,
    rule: RepeatRule,
    occurrence: Option<u32>,
    fingerprint: Option<u64>,
    input_error: Option<serde_json::Error>,
}

impl<'t> StepBuilder<'t> {
    pub(super) fn new(task: &'t RunningTask, name: StepName) -> Self {
        Self {
            task,
            name,
            rule: RepeatRule::Keyed,
            occurrence: None,
            fingerprint: None,
            input_error: None,
        }
    }

    /// What happens when it is found begun and not ended. `Once` and `Verify` put the begin on disk
    /// before the step acts.
    pub fn rule(mut self, rule: RepeatRule) -> Self {
        self.rule = rule;
        self
    }

    /// Which time this name comes up; counted by itself otherwise.
    pub fn occurrence(mut self, occurrence: u32) -> Self {
        self.occurrence = Some(occurrence);
        self
    }

    /// What the step depends on: a finished step asked for with another input is refused instead
    /// of giving an answer to another question.
    pub fn input(mut self, input: &impl Serialize) -> Self {
        match serde_json::to_value(input) {
            Ok(value) => {
                // The same whatever the order of its keys.
                let hash = blake3::hash(&canonical_json(&value));
                let first = hash
                    .as_bytes()
                    .first_chunk::<8>()
                    .expect("a hash has 32 bytes");
                self.fingerprint = Some(u64::from_le_bytes(*first));
            }
            Err(error) => self.input_error = Some(error),
        }
        self
    }

    /// Runs it, or gives its recorded value when it is finished.
    pub async fn run<T, E, F, Fut>(self, run: F) -> Result<T, StepError<E>>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce(StepRun) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: std::fmt::Display,
    {
        self.run_with(
            None::<fn(StepRun) -> std::future::Ready<Result<Option<T>, E>>>,
            run,
        )
        .await
    }

    /// Runs it by the rule `verify`: found begun and not ended, `verify` is asked first. It answers
    /// the value when the step happened, and nothing when it did not.
    pub async fn run_or_verify<T, E, V, Verdict, F, Fut>(
        mut self,
        verify: V,
        run: F,
    ) -> Result<T, StepError<E>>
    where
        T: Serialize + DeserializeOwned,
        V: FnOnce(StepRun) -> Verdict,
        Verdict: Future<Output = Result<Option<T>, E>>,
        F: FnOnce(StepRun) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: std::fmt::Display,
    {
        self.rule = RepeatRule::Verify;
        self.run_with(Some(verify), run).await
    }

    async fn run_with<T, E, V, Verdict, F, Fut>(
        mut self,
        verify: Option<V>,
        run: F,
    ) -> Result<T, StepError<E>>
    where
        T: Serialize + DeserializeOwned,
        V: FnOnce(StepRun) -> Verdict,
        Verdict: Future<Output = Result<Option<T>, E>>,
        F: FnOnce(StepRun) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: std::fmt::Display,
    {
        let shared = &*self.task.shared;
        if let Some(newest) = shared.lost_to() {
            return Err(StepError::Fenced(shared.fenced(newest)));
        }
        let mut key = StepKey {
            name: self.name.clone(),
            occurrence: 1,
        };
        redact_input::clean_step(shared.engine.redactor(), &mut key);
        if let Some(source) = self.input_error.take() {
            return Err(StepError::Value { step: key, source });
        }
        let pass = Pass::enter(shared, key.name.clone());
        key.occurrence = self.occurrence.unwrap_or(pass.occurrence);
        let (known, output) = look_up(shared, &key).await?;
        self.check_input(shared, &key, known.as_ref())?;
        let advice = advise(known.as_ref());
        match advice {
            StepAdvice::Finished => {
                let value = recorded(&key, output)?;
                pass.finish();
                return Ok(value);
            }
            StepAdvice::Wait => {
                // Blocks the task and ends its lease, as every begin of such a step does.
                let (rule, fingerprint) = (self.rule, self.fingerprint);
                let begin = TaskEvent::StepBegin {
                    key: key.clone(),
                    rule,
                    fingerprint,
                };
                self.task.end(begin).await?;
                return Err(StepError::InDoubt(key));
            }
            StepAdvice::Ask | StepAdvice::Go | StepAdvice::Again => {}
        }
        let mut mark = self.mark(key, known.as_ref());
        if advice == StepAdvice::Ask {
            let Some(verify) = verify else {
                return Err(StepError::InDoubt(mark.key));
            };
            let verdict = verify(step_run(shared, &mark, true)).await;
            if let Some(value) = verdict.map_err(StepError::Failed)? {
                let output = value_output(shared, &mark.key, &value)?;
                end(shared, mark, StepOutcome::Done, output).await?;
                pass.finish();
                return Ok(value);
            }
            let output = Output {
                exit_code: 1,
                ..Output::default()
            };
            end(shared, mark.clone(), StepOutcome::Failed, output).await?;
            (mark.was_open, mark.rule) = (false, self.rule);
        }
        let value = execute(shared, mark, advice == StepAdvice::Again, run).await?;
        pass.finish();
        Ok(value)
    }

    fn check_input<E>(
        &self,
        shared: &TaskShared,
        key: &StepKey,
        known: Option<&Step>,
    ) -> Result<(), StepError<E>> {
        let counts = known.filter(|step| step.state != StepState::Failed);
        match (counts.and_then(|step| step.fingerprint), self.fingerprint) {
            (Some(recorded), Some(given)) if recorded != given => {
                let (task, step) = (shared.id.clone(), key.clone());
                Err(StepError::Act(Refusal::OtherInput { task, step }.into()))
            }
            _ => Ok(()),
        }
    }

    /// The rule recorded at the begin holds.
    fn mark(&self, key: StepKey, known: Option<&Step>) -> StepMark {
        let open = known.filter(|step| step.is_open());
        StepMark {
            key,
            rule: open.map_or(self.rule, |step| step.rule),
            tries: known.map_or(0, |step| step.tries) + 1,
            fingerprint: self.fingerprint,
            was_open: open.is_some(),
            call: None,
        }
    }
}

/// The count of one name, put right however the step ends.
struct Pass<'s> {
    shared: &'s TaskShared,
    name: StepName,
    occurrence: u32,
    finished: bool,
}

impl<'s> Pass<'s> {
    fn enter(shared: &'s TaskShared, name: StepName) -> Self {
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

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.shared.leave(&self.name, self.finished);
    }
}

/// What is known of a step, with what it gave when it is finished. A finished one without that was
/// declared done, or the store has lost it (a standby that was behind took over, a backup was
/// restored): then what the store says now holds.
async fn look_up(
    shared: &TaskShared,
    key: &StepKey,
) -> Result<(Option<Step>, Option<Output>), ActError> {
    let known = shared.known(key).await?;
    if advise(known.as_ref()) != StepAdvice::Finished {
        return Ok((known, None));
    }
    match shared.engine.store().output(&shared.id, key).await? {
        Some(output) => Ok((known, Some(output))),
        None => Ok((shared.read_step(key).await?, None)),
    }
}

fn recorded<T: DeserializeOwned, E>(
    key: &StepKey,
    output: Option<Output>,
) -> Result<T, StepError<E>> {
    // A step that a person or a command declared done has no value: it reads as null.
    let body = output.map_or_else(|| b"null".to_vec(), |output| output.body);
    serde_json::from_slice(&body).map_err(|source| StepError::Value {
        step: key.clone(),
        source,
    })
}

async fn execute<T, E, F, Fut>(
    shared: &TaskShared,
    mut mark: StepMark,
    in_doubt: bool,
    run: F,
) -> Result<T, StepError<E>>
where
    T: Serialize + DeserializeOwned,
    F: FnOnce(StepRun) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    E: std::fmt::Display,
{
    let given_up = GivenUp {
        shared,
        key: Some(mark.key.clone()),
    };
    let begun = begin(shared, &mark).await?;
    let result = run(step_run(shared, &mark, in_doubt)).await;
    // Still in memory: begin and end become one record. Else the store has it.
    let cancelled = begun.is_some_and(|begun| begun.cancel());
    mark.was_open = mark.was_open || !cancelled;
    let value = match result {
        Ok(value) => value,
        Err(error) => {
            end(shared, mark, StepOutcome::Failed, failure(shared, &error)).await?;
            given_up.disarm();
            return Err(StepError::Failed(error));
        }
    };
    match value_output(shared, &mark.key, &value) {
        Ok(output) => end(shared, mark, StepOutcome::Done, output).await?,
        Err(error) => {
            end::<E>(shared, mark, StepOutcome::Failed, failure(shared, &error)).await?;
            given_up.disarm();
            return Err(error);
        }
    }
    given_up.disarm();
    Ok(value)
}

fn failure(shared: &TaskShared, error: &dyn std::fmt::Display) -> Output {
    let mut output = Output {
        exit_code: 1,
        stderr: error.to_string(),
        ..Output::default()
    };
    redact_input::clean_output(shared.engine.redactor(), &mut output);
    output
}

/// A step whose future is dropped half way: the store may have its begin, or even its end.
struct GivenUp<'s> {
    shared: &'s TaskShared,
    key: Option<StepKey>,
}

impl GivenUp<'_> {
    fn disarm(mut self) {
        self.key = None;
    }
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.shared
                .given_up
                .lock()
                .expect("nothing panics while locked")
                .insert(key);
        }
    }
}

/// Records the begin: before the step acts where its rule needs that, else on the way.
async fn begin<E>(
    shared: &TaskShared,
    mark: &StepMark,
) -> Result<Option<DeferredCommit>, StepError<E>> {
    let change = Change::StepBegun(mark.clone());
    if mark.rule.needs_intent_first() {
        shared.commit(vec![change]).await?;
        return Ok(None);
    }
    Ok(Some(
        shared
            .engine
            .store()
            .commit_deferred(shared.under_fence(vec![change])),
    ))
}

/// Records the end. A begin that nobody waited for may have been lost, or an earlier one may have
/// come through after all: then the store is asked, once, and the end follows what is there.
async fn end<E>(
    shared: &TaskShared,
    mut mark: StepMark,
    outcome: StepOutcome,
    output: Output,
) -> Result<(), StepError<E>> {
    let change = |mark: StepMark| Change::StepEnded {
        mark,
        outcome,
        output: Some(output.clone()),
    };
    match shared.commit(vec![change(mark.clone())]).await {
        Err(ActError::Contended(_)) => {
            let step = shared.read_step(&mark.key).await?;
            if step.as_ref().is_some_and(|step| step.state.is_closed()) {
                let (task, step) = (shared.id.clone(), mark.key);
                return Err(StepError::Act(Refusal::StepFinished { task, step }.into()));
            }
            mark.was_open = step.is_some_and(|step| step.is_open());
            shared.commit(vec![change(mark.clone())]).await?;
        }
        other => other?,
    }
    let record = change(mark).step_record(clock::now(), Some(shared.fence));
    let record = record.expect("the end of a step is a record of it");
    let mut steps = shared.steps.lock().expect("nothing panics while locked");
    steps.insert(record.key.clone(), record);
    Ok(())
}

/// The whole value, however long: half of it could not be given back.
fn value_output<T: Serialize + DeserializeOwned, E>(
    shared: &TaskShared,
    step: &StepKey,
    value: &T,
) -> Result<Output, StepError<E>> {
    let body = serde_json::to_vec(value).map_err(|source| StepError::Value {
        step: step.clone(),
        source,
    })?;
    // What JSON cannot write becomes null, which may not read back: better told now than later.
    if memchr::memmem::find(&body, b"null").is_some() {
        serde_json::from_slice::<T>(&body).map_err(|source| StepError::Value {
            step: step.clone(),
            source,
        })?;
    }
    let mut output = Output {
        body,
        ..Output::default()
    };
    redact_input::clean_output(shared.engine.redactor(), &mut output);
    Ok(output)
}

fn step_run(shared: &TaskShared, mark: &StepMark, in_doubt: bool) -> StepRun {
    let idempotency_key = mark.key.idempotency_key(&shared.id);
    StepRun {
        idempotency_key,
        tries: mark.tries,
        in_doubt,
    }
}
