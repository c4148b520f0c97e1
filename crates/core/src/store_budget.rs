//! The budget of a store: what all its agents may use together within a period.
//!
//! The period is rolling: what was used counts until it is older than the period. Pure; the journal says
//! what was used when.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::{Event, EventKind};
use crate::time::{Span, Time};
use crate::usage::{SpendLimit, Usage};

/// Events that say what was used: of tasks, and of agents that work on none.
pub const SPENDING_KINDS: [EventKind; 2] = [EventKind::TaskBudget, EventKind::AgentBudget];
/// Most moments that are kept; of more, the two oldest are added up.
const MOMENTS_MAX: usize = 100_000;

/// What all agents of a store may use together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreBudget {
    /// How much.
    pub limit: SpendLimit,
    /// Within this time.
    pub period: Span,
}

/// What was used when.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spending(BTreeMap<Time, Usage>);

/// The budget of a store is spent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overspent {
    /// What was used, and the limit, as text.
    pub why: String,
    /// When the limit was reached.
    pub since: Time,
    /// When enough of it is older than the period, if nothing more is used.
    pub until: Time,
}

/// The detail of the event of an agent that used this while it worked on no task.
pub fn spending_detail(used: Usage) -> Value {
    serde_json::json!({"spent": used})
}

/// What an event of `SPENDING_KINDS` says was used.
pub fn spent_in(event: &Event) -> Option<Usage> {
    let spent = event.detail.get("spent")?;
    serde_json::from_value(spent.clone()).ok()
}

impl Spending {
    /// Adds what was used at a moment.
    pub fn add(&mut self, at: Time, used: Usage) {
        let known = self.0.entry(at).or_default();
        *known = known.plus(used);
        if self.0.len() > MOMENTS_MAX
            && let Some((_, oldest)) = self.0.pop_first()
            && let Some(mut next) = self.0.first_entry()
        {
            let both = next.get().plus(oldest);
            next.insert(both);
        }
    }

    /// Forgets what no longer counts.
    pub fn forget_before(&mut self, oldest: Time) {
        self.0 = self.0.split_off(&oldest);
    }

    fn since(&self, oldest: Time) -> impl Iterator<Item = (Time, Usage)> {
        self.0.range(oldest..).map(|(at, used)| (*at, *used))
    }
}

impl StoreBudget {
    /// Whether there is no limit.
    pub fn is_unlimited(&self) -> bool {
        let has = |max: Option<u64>| max.is_some_and(|max| max > 0);
        !has(self.limit.cost_micros) && !has(self.limit.tokens)
    }

    /// From when on spending counts.
    pub fn oldest(&self, now: Time) -> Time {
        now.minus(self.period)
    }

    /// Whether the limit is reached.
    pub fn overspent(&self, spending: &Spending, now: Time) -> Option<Overspent> {
        let counted = || spending.since(self.oldest(now));
        let total = counted().fold(Usage::default(), |sum, (_, used)| sum.plus(used));
        let (used, limit) = self.limit.exceeded(total)?;
        let why = format!(
            "the agents of this store have {used} within {} ([budget] {limit})",
            self.period
        );
        let mut sum = Usage::default();
        let (since, _) = counted().find(|(_, used)| {
            sum = sum.plus(*used);
            self.limit.exceeded(sum).is_some()
        })?;
        let mut left = total;
        let (last, _) = counted().find(|(_, used)| {
            left = left.since(*used);
            self.limit.exceeded(left).is_none()
        })?;
        // At this age it no longer counts.
        let until = last.plus(self.period).plus(Span::from_ms(1));
        Some(Overspent { why, since, until })
    }
}
