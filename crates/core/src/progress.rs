//! Progress of a task: steps done, in doubt and next.

use std::collections::HashSet;

use serde::Serialize;

use crate::ids::StepName;
use crate::step::{Step, StepState};

/// Progress of a task, for a successor.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Progress {
    /// Finished steps, in the order they were begun.
    pub done_steps: Vec<String>,
    /// Skipped steps.
    pub skipped_steps: Vec<String>,
    /// Steps begun and not ended: they may or may not have happened.
    pub in_doubt: Vec<String>,
    /// The step in doubt when there is one, else the first not finished.
    pub next_step: Option<String>,
    /// Declared steps that are neither finished nor next.
    pub remaining_steps: Vec<String>,
}

/// Compares the declared steps with the recorded ones.
pub fn progress(declared: &[StepName], steps: &[Step]) -> Progress {
    // Observed calls can be in doubt; they are never work to do.
    let own = || steps.iter().filter(|step| step.call.is_none());
    let of_state = |state| {
        own()
            .filter(move |step| step.state == state)
            .map(|step| step.key.to_string())
    };
    let done_steps: Vec<String> = of_state(StepState::Done).collect();
    let in_doubt: Vec<String> = steps
        .iter()
        .filter(|step| step.is_open())
        .map(|step| step.key.to_string())
        .collect();
    let to_do: Vec<String> = left_open(declared, steps)
        .into_iter()
        .map(|name| name.to_string())
        .collect();
    let next_step = of_state(StepState::Begun)
        .next()
        .or_else(|| to_do.first().cloned())
        .or_else(|| of_state(StepState::Failed).next());
    let remaining_steps = to_do
        .into_iter()
        .filter(|name| Some(name) != next_step.as_ref())
        .collect();
    let skipped_steps = of_state(StepState::Skipped).collect();
    Progress {
        done_steps,
        skipped_steps,
        in_doubt,
        next_step,
        remaining_steps,
    }
}

/// The declared steps that are neither finished nor skipped, in their order.
pub fn left_open<'d>(declared: &'d [StepName], steps: &[Step]) -> Vec<&'d StepName> {
    let is_first = |step: &&Step| step.key.occurrence == 1 && step.state.is_closed();
    let closed: HashSet<&StepName> = steps.iter().filter(is_first).map(|s| &s.key.name).collect();
    declared
        .iter()
        .filter(|name| !closed.contains(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Fence;
    use crate::step::{RepeatRule, StepKey};
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
            call: None,
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
    fn a_skipped_step_is_closed_and_not_done() {
        let declared = [name("a"), name("b")];
        let found = progress(
            &declared,
            &[step("a", StepState::Skipped), step("b", StepState::Done)],
        );
        assert_eq!(
            (found.done_steps, found.skipped_steps),
            (vec!["b".into()], vec!["a".into()])
        );
        assert_eq!((found.next_step, found.remaining_steps), (None, vec![]));
    }

    #[test]
    fn only_the_first_occurrence_of_a_declared_step_closes_it() {
        let declared = [name("a"), name("b")];
        let mut second = step("a", StepState::Done);
        second.key.occurrence = 2;
        let other = step("x", StepState::Done);
        let left = left_open(&declared, &[second, other, step("b", StepState::Failed)]);
        assert_eq!(left, [&name("a"), &name("b")]);
    }

    #[test]
    fn a_failed_step_that_nobody_declared_is_next() {
        let found = progress(
            &[],
            &[step("x", StepState::Done), step("y", StepState::Failed)],
        );
        assert_eq!(
            (found.next_step.as_deref(), found.done_steps.len()),
            (Some("y"), 1)
        );
    }
}
