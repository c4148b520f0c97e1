//! How far a task is: what is done, in doubt and next.

use std::collections::HashSet;

use serde::Serialize;

use crate::ids::StepName;
use crate::step::{Step, StepKey, StepState};

/// What a successor needs to know first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Progress {
    /// Finished steps, in the order they were begun.
    pub done_steps: Vec<String>,
    /// Steps begun and not ended: they may or may not have happened.
    pub in_doubt: Vec<String>,
    /// The step in doubt when there is one, else the first not finished.
    pub next_step: Option<String>,
    /// Declared steps that are neither finished nor next.
    pub remaining_steps: Vec<String>,
}

/// Reads the declared steps against the recorded ones.
pub fn progress(declared: &[StepName], steps: &[Step]) -> Progress {
    let of_state = |state| {
        steps.iter().filter(move |step| step.state == state).map(|step| step.key.to_string())
    };
    let done_steps: Vec<String> = of_state(StepState::Done).collect();
    let in_doubt: Vec<String> = of_state(StepState::Begun).collect();
    let done: HashSet<&StepKey> =
        steps.iter().filter(|s| s.state == StepState::Done).map(|s| &s.key).collect();
    let is_open = |name: &&StepName| !done.contains(&StepKey::first((*name).clone()));
    let to_do: Vec<String> = declared.iter().filter(is_open).map(ToString::to_string).collect();
    let next_step =
        in_doubt.first().or(to_do.first()).cloned().or_else(|| of_state(StepState::Failed).next());
    let remaining_steps =
        to_do.into_iter().filter(|name| Some(name) != next_step.as_ref()).collect();
    Progress { done_steps, in_doubt, next_step, remaining_steps }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Fence;
    use crate::step::RepeatRule;
    use crate::time::Time;

    fn name(text: &str) -> StepName {
        StepName::new(text).unwrap()
    }

    fn step(text: &str, state: StepState) -> Step {
        Step {
            key: StepKey::first(name(text)),
            state,
            rule: RepeatRule::Keyed,
            tries: 1,
            fence: Fence(1),
            at: Time::from_ms(0),
            exit_code: None,
            fingerprint: None,
        }
    }

    #[test]
    fn the_step_in_doubt_comes_before_the_first_unfinished_one() {
        let declared = [name("a"), name("b"), name("c")];
        let next = |steps: &[Step]| progress(&declared, steps).next_step;
        assert_eq!(next(&[]).as_deref(), Some("a"));
        assert_eq!(next(&[step("a", StepState::Done)]).as_deref(), Some("b"));
        let doubt = [step("a", StepState::Done), step("c", StepState::Begun)];
        assert_eq!(next(&doubt).as_deref(), Some("c"));
        assert_eq!(progress(&declared, &doubt).remaining_steps, ["b"]);
        let all = ["a", "b", "c"].map(|name| step(name, StepState::Done));
        assert_eq!(next(&all), None);
    }

    #[test]
    fn a_failed_step_that_nobody_declared_is_next() {
        let found = progress(&[], &[step("x", StepState::Done), step("y", StepState::Failed)]);
        assert_eq!((found.next_step.as_deref(), found.done_steps.len()), (Some("y"), 1));
    }
}
