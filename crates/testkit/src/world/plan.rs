//! The task that every driver works through: twenty steps under all four rules.

use relight_core::step::RepeatRule;

/// How many steps the task has.
pub const STEPS: usize = 20;

/// The names, in order.
pub fn step_names() -> impl Iterator<Item = String> {
    (1..=STEPS).map(|number| format!("s{number:02}"))
}

/// The rule of a step, from its name.
pub fn rule_of(step: &str) -> RepeatRule {
    let number: usize = step.trim_start_matches('s').parse().unwrap_or(0);
    RepeatRule::ALL[number % RepeatRule::ALL.len()]
}
