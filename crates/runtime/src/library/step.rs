//! One step of a running task: replay it, or run it. What is recorded of it is in `step_in_progress`.

use std::convert::Infallible;
use std::sync::Arc;

use relight_core::change::StepMark;
use relight_core::checkpoint::hash::canonical_json;
use relight_core::decide::{Refusal, StepAdvice, TaskEvent, advise};
use relight_core::ids::{IdError, StepName};
use relight_core::step::{Output, RepeatRule, Step, StepKey, StepState};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::step_in_progress::{FinishedStep, Pass, StepInProgress, StepStart};
use super::task::{RunningTask, TaskShared};
use crate::engine::ActError;
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

impl StepError<Infallible> {
    /// The same where the step itself can fail too.
    pub(super) fn widen<E>(self) -> StepError<E> {
        match self {
            Self::Failed(never) => match never {},
            Self::Fenced(refusal) => StepError::Fenced(refusal),
            Self::InDoubt(step) => StepError::InDoubt(step),
            Self::Value { step, source } => StepError::Value { step, source },
            Self::Name(error) => StepError::Name(error),
            Self::Act(error) => StepError::Act(error),
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

    /// Which use of this name, from 1. Default: counted automatically.
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
        self,
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
        match self.begin().await.map_err(StepError::widen)? {
            StepStart::Finished(finished) => {
                let value = decode(finished.key(), finished.value())?;
                finished.accept();
                Ok(value)
            }
            StepStart::Run(step) => execute(step, run).await,
            StepStart::Verify(step) => {
                let Some(verify) = verify else {
                    return Err(StepError::InDoubt(step.key().clone()));
                };
                let verdict = verify(step.run()).await;
                match verdict.map_err(StepError::Failed)? {
                    Some(value) => finish(step, value).await,
                    None => {
                        let step = step.did_not_happen().await.map_err(StepError::widen)?;
                        execute(step, run).await
                    }
                }
            }
        }
    }

    /// Begins it, for a caller that runs it by itself and ends it later: see [`StepInProgress`].
    ///
    /// [`StepInProgress`]: super::StepInProgress
    pub async fn begin(mut self) -> Result<StepStart, StepError<Infallible>> {
        let shared = Arc::clone(&self.task.shared);
        if let Some(newest) = shared.lost_to() {
            return Err(StepError::Fenced(shared.fenced(newest)));
        }
        let mut key = StepKey {
            name: self.name.clone(),
            occurrence: 1,
        };
        redact_input::settle_step_name(shared.engine.redactor(), &mut key.name)
            .map_err(ActError::from)?;
        if let Some(source) = self.input_error.take() {
            return Err(StepError::Value { step: key, source });
        }
        let pass = Pass::enter(Arc::clone(&shared), key.name.clone());
        key.occurrence = self.occurrence.unwrap_or(pass.occurrence);
        let (known, output) = look_up(&shared, &key).await?;
        self.check_input(&shared, &key, known.as_ref())?;
        let advice = advise(known.as_ref());
        match advice {
            StepAdvice::Finished => {
                return Ok(StepStart::Finished(FinishedStep::new(key, output, pass)));
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
        let mark = self.mark(key, known.as_ref());
        if advice == StepAdvice::Ask {
            return Ok(StepStart::Verify(StepInProgress::in_doubt(
                pass, mark, self.rule,
            )));
        }
        let is_again = advice == StepAdvice::Again;
        Ok(StepStart::Run(
            StepInProgress::begin(pass, mark, is_again).await?,
        ))
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

async fn execute<T, E, F, Fut>(step: StepInProgress, run: F) -> Result<T, StepError<E>>
where
    T: Serialize + DeserializeOwned,
    F: FnOnce(StepRun) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    E: std::fmt::Display,
{
    match run(step.run()).await {
        Ok(value) => finish(step, value).await,
        Err(error) => {
            step.fail(error.to_string())
                .await
                .map_err(StepError::widen)?;
            Err(StepError::Failed(error))
        }
    }
}

async fn finish<T: Serialize + DeserializeOwned, E>(
    step: StepInProgress,
    value: T,
) -> Result<T, StepError<E>> {
    match encode(step.key(), &value) {
        Ok(body) => {
            step.finish(body).await.map_err(StepError::widen)?;
            Ok(value)
        }
        Err(error) => {
            step.fail(error.to_string())
                .await
                .map_err(StepError::widen)?;
            Err(error.widen())
        }
    }
}

fn decode<T: DeserializeOwned, E>(step: &StepKey, value: &[u8]) -> Result<T, StepError<E>> {
    serde_json::from_slice(value).map_err(|source| StepError::Value {
        step: step.clone(),
        source,
    })
}

fn encode<T: Serialize + DeserializeOwned>(
    step: &StepKey,
    value: &T,
) -> Result<Vec<u8>, StepError<Infallible>> {
    let body = serde_json::to_vec(value).map_err(|source| StepError::Value {
        step: step.clone(),
        source,
    })?;
    // What JSON cannot write becomes null, which may not read back: better told now than later.
    if memchr::memmem::find(&body, b"null").is_some() {
        decode::<T, Infallible>(step, &body)?;
    }
    Ok(body)
}
