//! `[recovery]`, whose keys may also stand in an `[[agent]]`.

use relight_core::agent::STEP_SILENCE_MAX;
use relight_core::budget::RestartPolicy;
use relight_core::task::{STRATEGIES, STRATEGY_DEFAULT};
use relight_core::time::Span;

use super::section::Section;

pub(super) const KEYS: &[&str] = &[
    "strategy",
    "max_attempts",
    "cooldown",
    "silence_max",
    "step_silence_max",
    "timeout",
    "grace",
    "defer",
    "stable_after",
    "restarts_max",
    "restarts_window",
    "exec",
    "exec_timeout",
];

/// What becomes of agents and tasks that died.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Recovery {
    /// Of tasks that name none.
    pub(crate) strategy: String,
    /// Budgets of restarts.
    pub(crate) policy: RestartPolicy,
    /// How long an agent may be silent; never judged when none.
    pub(crate) silence_max: Option<Span>,
    /// How long an open step or tool call explains silence; as long as it is open when none.
    pub(crate) step_silence_max: Option<Span>,
    /// How long one attempt may take.
    pub(crate) timeout: Option<Span>,
    pub(crate) grace: Span,
    pub(crate) defer: Span,
    /// The command of the strategy `exec`.
    pub(crate) exec: Vec<String>,
    pub(crate) exec_timeout: Span,
}

impl Default for Recovery {
    fn default() -> Self {
        Self {
            strategy: STRATEGY_DEFAULT.to_owned(),
            policy: RestartPolicy::default(),
            silence_max: Some(Span::from_secs(180)),
            step_silence_max: Some(STEP_SILENCE_MAX),
            timeout: None,
            grace: Span::from_secs(10),
            defer: Span::from_secs(60),
            exec: Vec::new(),
            exec_timeout: Span::from_secs(10),
        }
    }
}

/// What one place of the file says of it; the rest is as it was.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct RecoveryChoice {
    strategy: Option<String>,
    max_attempts: Option<u32>,
    cooldown: Option<Span>,
    silence_max: Option<Span>,
    step_silence_max: Option<Span>,
    timeout: Option<Span>,
    grace: Option<Span>,
    defer: Option<Span>,
    stable_after: Option<Span>,
    restarts_max: Option<u32>,
    restarts_window: Option<Span>,
    exec: Option<Vec<String>>,
    exec_timeout: Option<Span>,
}

impl RecoveryChoice {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let strategies = STRATEGIES.map(|name| (name, name));
        Self {
            strategy: section.one_of("strategy", &strategies).map(str::to_owned),
            max_attempts: section.count("max_attempts", 0..=u32::MAX),
            cooldown: section.span("cooldown"),
            silence_max: section.span("silence_max"),
            step_silence_max: section.span("step_silence_max"),
            timeout: section.span("timeout"),
            grace: section.span("grace"),
            defer: section.span("defer"),
            stable_after: section.span("stable_after"),
            restarts_max: section.count("restarts_max", 0..=u32::MAX),
            restarts_window: section.span("restarts_window"),
            exec: section.words("exec"),
            exec_timeout: section.span("exec_timeout"),
        }
    }

    /// With what is below where this says nothing.
    pub(crate) fn over(&self, below: &Recovery) -> Recovery {
        let policy = RestartPolicy {
            max_attempts: self.max_attempts.unwrap_or(below.policy.max_attempts),
            cooldown: self.cooldown.unwrap_or(below.policy.cooldown),
            // A first wait that is longer than the longest makes that one longer.
            cooldown_max: below.policy.cooldown_max.max(self.cooldown.unwrap_or(Span::ZERO)),
            stable_after: self.stable_after.unwrap_or(below.policy.stable_after),
            total_max: self.restarts_max.unwrap_or(below.policy.total_max),
            total_window: self.restarts_window.unwrap_or(below.policy.total_window),
            growth: below.policy.growth,
        };
        Recovery {
            strategy: self.strategy.clone().unwrap_or_else(|| below.strategy.clone()),
            policy,
            silence_max: self.silence_max.map_or(below.silence_max, Span::as_limit),
            step_silence_max: self.step_silence_max.map_or(below.step_silence_max, Span::as_limit),
            timeout: self.timeout.map_or(below.timeout, Span::as_limit),
            grace: self.grace.unwrap_or(below.grace),
            defer: self.defer.unwrap_or(below.defer),
            exec: self.exec.clone().unwrap_or_else(|| below.exec.clone()),
            exec_timeout: self.exec_timeout.unwrap_or(below.exec_timeout),
        }
    }
}

impl Recovery {
    /// What is wrong with all of it together.
    pub(super) fn check(&self, section: &Section<'_>) {
        if section.has("strategy") && self.strategy == "exec" && self.exec.is_empty() {
            let hint = "write exec = [\"PROGRAM\", …] in [recovery]";
            section.problem("strategy", "the strategy `exec` has no command", Some(hint));
        }
    }
}
