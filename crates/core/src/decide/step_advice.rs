//! What to do with a step that somebody comes to: its repeat rule decides after a crash.

use crate::step::{RepeatRule, Step, StepState};

/// What to do when somebody comes to a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepAdvice {
    /// Go and do it: never begun, or known not to have worked.
    Go,
    /// In doubt, and its rule says to do it again.
    Again,
    /// In doubt, and its rule says to ask whether it happened.
    Ask,
    /// In doubt, and only a person may decide.
    Wait,
    /// Finished, or skipped: use what was recorded.
    Finished,
}

/// Reads a step's record by its rule. The rule recorded at its begin holds.
pub fn advise(step: Option<&Step>) -> StepAdvice {
    let Some(step) = step else {
        return StepAdvice::Go;
    };
    match (step.state, step.rule) {
        (StepState::Done | StepState::Skipped, _) => StepAdvice::Finished,
        (StepState::Failed, _) => StepAdvice::Go,
        (StepState::Begun, RepeatRule::Keyed | RepeatRule::Repeatable) => StepAdvice::Again,
        (StepState::Begun, RepeatRule::Verify) => StepAdvice::Ask,
        (StepState::Begun, RepeatRule::Once) => StepAdvice::Wait,
    }
}
