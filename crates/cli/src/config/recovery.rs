//! `[recovery]`, whose keys may also stand in an `[[agent]]`.

use relight_core::agent::AgentPlan;
use relight_core::restart_budget::RestartPolicy;
use relight_core::task::STRATEGIES;
use relight_core::time::Span;
use relight_core::usage::SpendLimit;

use super::section::Section;

/// What becomes of agents and tasks that died.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Recovery {
    /// Of tasks that name none.
    pub(crate) strategy: String,
    /// Budgets of restarts.
    pub(crate) policy: RestartPolicy,
    /// What an agent may use without progress.
    pub(crate) spend: SpendLimit,
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

impl Recovery {
    /// The limits of an agent of which nothing else is said.
    pub(crate) fn limits(&self) -> AgentPlan {
        AgentPlan {
            policy: self.policy.clone(),
            spend: self.spend,
            silence_max: self.silence_max,
            step_silence_max: self.step_silence_max,
            timeout: self.timeout,
            grace: self.grace,
            defer: self.defer,
            ..AgentPlan::default()
        }
    }

    /// Of `[recovery]`, or of an `[[agent]]`, whose defaults `[recovery]` sets.
    pub(super) fn read(section: &Section<'_>) -> Self {
        let strategies = STRATEGIES.map(|name| (name, name));
        let usual = RestartPolicy::default();
        let cooldown = section.span("cooldown");
        let recovery = Self {
            strategy: section.one_of("strategy", &strategies).to_owned(),
            policy: RestartPolicy {
                max_attempts: section.count("max_attempts", 0..=u32::MAX),
                cooldown,
                // A first delay that is longer than the longest one raises that.
                cooldown_max: usual.cooldown_max.max(cooldown),
                stable_after: section.span("stable_after"),
                total_max: section.count("restarts_max", 0..=u32::MAX),
                total_window: section.span("restarts_window"),
                growth: usual.growth,
            },
            spend: section.spend_limit(),
            silence_max: section.span("silence_max").as_limit(),
            step_silence_max: section.span("step_silence_max").as_limit(),
            timeout: section.span("timeout").as_limit(),
            grace: section.span("grace"),
            defer: section.span("defer"),
            exec: section.words("exec").unwrap_or_default(),
            exec_timeout: section.span("exec_timeout"),
        };
        if section.has("strategy") && recovery.strategy == "exec" && recovery.exec.is_empty() {
            let hint = "write exec = [\"PROGRAM\", …] in [recovery]";
            section.problem("strategy", "the strategy `exec` has no command", Some(hint));
        }
        recovery
    }
}
