//! Statistics of recent events, counted from the journal when they are requested.
//!
//! The first request reads the last hours; later ones read only newer events. Totals survive restarts:
//! a record in the store holds them up to some event, and newer events are counted from the journal, so
//! the record need not be written often.

use std::collections::{BTreeMap, HashMap, VecDeque};

use relight_core::event::{Event, EventKind};
use relight_core::ids::AgentName;
use relight_core::time::Time;
use relight_runtime::os::clock;
use relight_store::{EventQuery, Store, StoreError};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::event_stream::every_event;

const HOUR_MS: i64 = 3_600_000;
const MINUTE_MS: i64 = 60_000;
/// How far back is counted.
pub(crate) const HOURS_MAX: u32 = 168;
const MINUTES: i64 = 60;
/// How many of the newest events the first question looks through at most.
const FIRST_MAX: u64 = 100_000;
const PAGE: usize = 1_000;
/// Recoveries whose time is kept.
const TIMES_MAX: usize = 10_000;
/// Upper bounds of the histogram of recoveries, in milliseconds.
pub(crate) const BOUNDS_MS: [u64; 9] = [1, 5, 25, 100, 500, 2_500, 10_000, 60_000, 300_000];

/// What becomes of tasks that lost their holder.
pub(crate) const TASK_OUTCOMES: [&str; 7] = [
    "resume",
    "reassign",
    "suspend",
    "defer",
    "give_up",
    "retries_used_up",
    "parked",
];

const KINDS: [EventKind; 9] = [
    EventKind::AttemptDied,
    EventKind::AttemptStarted,
    EventKind::AttemptBegun,
    EventKind::AgentState,
    EventKind::StepDone,
    EventKind::TaskRecovery,
    EventKind::TaskBudget,
    EventKind::AgentBudget,
    EventKind::Alert,
];

/// The store's record of the totals.
const RECORD: &str = "metrics";
/// A longer journal is counted from its end on.
const WHOLE_MAX: u64 = 200_000;
/// The record is not written more often.
const SAVE_EVERY_MS: u64 = 60_000;

/// What happened lately.
#[derive(Debug, Default)]
pub(crate) struct EventStatistics(Mutex<Counts>);

/// Counted so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    /// The last event that was counted.
    after: u64,
    has_begun: bool,
    /// The record as it is in the store, and when it was written.
    record: Option<serde_json::Value>,
    saved_ms: u64,
    /// By hours since 1970, then by cause.
    pub(crate) deaths: BTreeMap<i64, BTreeMap<String, u64>>,
    /// By hours since 1970.
    pub(crate) recoveries: BTreeMap<i64, u64>,
    /// By hours since 1970, in millionths.
    pub(crate) cost_micros: BTreeMap<i64, u64>,
    /// By minutes since 1970.
    pub(crate) steps: BTreeMap<i64, u64>,
    /// When each recovery was, and how long it took in milliseconds; oldest first.
    pub(crate) times: VecDeque<(Time, u64)>,
    /// Agents whose attempt died and that have not come back.
    gone: HashMap<AgentName, Time>,
    /// Since the store was first asked; these never go down.
    pub(crate) totals: Totals,
}

/// What the store keeps.
#[derive(Debug, Serialize, Deserialize)]
struct SavedTotals {
    /// All events up to this one are in the totals.
    after: u64,
    totals: Totals,
}

/// Counts that only grow.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Totals {
    pub(crate) attempts: u64,
    pub(crate) deaths: BTreeMap<String, u64>,
    pub(crate) recoveries: u64,
    /// Agents whose recovery was used up.
    pub(crate) terminations: u64,
    pub(crate) task_recoveries: BTreeMap<String, u64>,
    /// Those no longer than each of the bounds, then all.
    pub(crate) within: [u64; BOUNDS_MS.len() + 1],
    pub(crate) recovery_ms: u64,
    pub(crate) steps: u64,
    pub(crate) alerts: u64,
    /// Alerts that a sink could not be told.
    pub(crate) undelivered: u64,
}

impl EventStatistics {
    /// What is known up to now.
    pub(crate) async fn now(&self, store: &dyn Store) -> Result<Counts, StoreError> {
        let mut counts = self.0.lock().await;
        counts.read_on(store).await?;
        Ok(counts.clone())
    }
}

impl Counts {
    async fn read_on(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        if !self.has_begun {
            self.begin(store).await?;
        }
        self.read(store, u64::MAX, Time::from_ms(i64::MIN)).await?;
        self.forget_old();
        // What cannot be written now is counted again from the journal.
        let _ = self.save(store).await;
        Ok(())
    }

    /// Reads the past of the hours, and takes the totals up where the record left them. A store without
    /// one is counted from its first event.
    async fn begin(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        self.record = store.kept(RECORD).await?;
        let record = self
            .record
            .clone()
            .and_then(|record| serde_json::from_value(record).ok());
        let record: SavedTotals = match record {
            Some(record) => record,
            None => {
                let newest = store.newest_event().await?;
                // All events, unless reading them takes too long.
                let after = if newest > WHOLE_MAX { newest } else { 0 };
                SavedTotals {
                    after,
                    totals: Totals::default(),
                }
            }
        };
        let since_ms = clock::now().as_ms() - i64::from(HOURS_MAX) * HOUR_MS;
        self.after = record.after.saturating_sub(FIRST_MAX);
        self.read(store, record.after, Time::from_ms(since_ms))
            .await?;
        self.after = record.after;
        self.totals = record.totals;
        self.has_begun = true;
        Ok(())
    }

    /// Writes the record now and then. Another node that does so at the same time has the same numbers.
    async fn save(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        let now_ms = clock::monotonic_ms();
        let is_new = self.record.is_none();
        if !is_new && now_ms < self.saved_ms + SAVE_EVERY_MS {
            return Ok(());
        }
        self.saved_ms = now_ms;
        let record = SavedTotals {
            after: self.after,
            totals: self.totals.clone(),
        };
        let record = serde_json::to_value(record).expect("counts have string keys");
        if self.record.as_ref() == Some(&record) {
            return Ok(());
        }
        if store
            .keep(RECORD, self.record.take(), record.clone())
            .await?
        {
            self.record = Some(record);
        } else {
            self.record = store.kept(RECORD).await?;
        }
        Ok(())
    }

    /// Counts what came after, up to this event, and is not older, a page at a time.
    async fn read(&mut self, store: &dyn Store, upto: u64, since: Time) -> Result<(), StoreError> {
        loop {
            let kinds = KINDS.to_vec();
            let query = EventQuery {
                after: self.after,
                kinds,
                limit: PAGE,
                ..every_event()
            };
            let events = store.events(query).await?;
            self.after = events.last().map_or(self.after, |event| event.id);
            let counted = events
                .iter()
                .filter(|event| event.id <= upto && event.at >= since);
            counted.for_each(|event| self.count(event));
            if events.len() < PAGE || self.after >= upto {
                return Ok(());
            }
            // Nobody else on this thread waits for all of it.
            tokio::task::yield_now().await;
        }
    }

    fn count(&mut self, event: &Event) {
        self.after = self.after.max(event.id);
        let (hour, minute) = (event.at.as_ms() / HOUR_MS, event.at.as_ms() / MINUTE_MS);
        match event.kind {
            EventKind::AttemptBegun => self.totals.attempts += 1,
            EventKind::AttemptDied => {
                let cause = event.detail["cause"].as_str().unwrap_or("lost").to_owned();
                *self.totals.deaths.entry(cause.clone()).or_default() += 1;
                let is_wanted = matches!(cause.as_str(), "completed" | "stopped" | "deferred");
                if let Some(agent) = event.agent.clone().filter(|_| !is_wanted) {
                    // Somebody may have noticed it long after.
                    self.gone.insert(agent, event.moment("down_since"));
                }
                *self
                    .deaths
                    .entry(hour)
                    .or_default()
                    .entry(cause)
                    .or_default() += 1;
            }
            EventKind::AttemptStarted => {
                let died_at = event
                    .agent
                    .as_ref()
                    .and_then(|agent| self.gone.remove(agent));
                if let Some(died_at) = died_at {
                    self.recovered(event.at, died_at);
                }
            }
            EventKind::StepDone => {
                self.totals.steps += 1;
                *self.steps.entry(minute).or_default() += 1;
            }
            EventKind::AgentState if event.detail["to"] == "terminated" => {
                self.totals.terminations += 1;
            }
            EventKind::TaskRecovery => {
                if let Some(outcome) = event.detail["outcome"].as_str() {
                    *self
                        .totals
                        .task_recoveries
                        .entry(outcome.to_owned())
                        .or_default() += 1;
                }
            }
            EventKind::TaskBudget | EventKind::AgentBudget => {
                if let Some(cost) = event.detail["spent"]["cost_micros"].as_u64() {
                    let sum = self.cost_micros.entry(hour).or_default();
                    *sum = sum.saturating_add(cost);
                }
            }
            EventKind::Alert if event.detail["alert"] == "undelivered" => {
                self.totals.undelivered += 1;
            }
            EventKind::Alert => self.totals.alerts += 1,
            _ => {}
        }
    }

    fn recovered(&mut self, at: Time, died_at: Time) {
        let took_ms = at.since(died_at).as_ms();
        *self.recoveries.entry(at.as_ms() / HOUR_MS).or_default() += 1;
        self.times.push_back((at, took_ms));
        if self.times.len() > TIMES_MAX {
            self.times.pop_front();
        }
        self.totals.recoveries += 1;
        self.totals.recovery_ms += took_ms;
        for (count, bound) in self.totals.within.iter_mut().zip(BOUNDS_MS) {
            *count += u64::from(took_ms <= bound);
        }
        self.totals.within[BOUNDS_MS.len()] += 1;
    }

    fn forget_old(&mut self) {
        let now_ms = clock::now().as_ms();
        let oldest = now_ms / HOUR_MS - i64::from(HOURS_MAX);
        self.deaths.retain(|hour, _| *hour >= oldest);
        self.recoveries.retain(|hour, _| *hour >= oldest);
        self.cost_micros.retain(|hour, _| *hour >= oldest);
        self.steps
            .retain(|minute, _| *minute >= now_ms / MINUTE_MS - MINUTES);
    }
}

/// Where an hour since 1970 begins.
pub(crate) fn hour(hour: i64) -> Time {
    Time::from_ms(hour * HOUR_MS)
}

/// Where a minute since 1970 begins.
pub(crate) fn minute(minute: i64) -> Time {
    Time::from_ms(minute * MINUTE_MS)
}

/// The hour of a moment, counted from 1970.
pub(crate) fn hour_of(at: Time) -> i64 {
    at.as_ms() / HOUR_MS
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(id: u64, kind: EventKind, at_ms: i64, detail: serde_json::Value) -> Event {
        let agent = Some(AgentName::new("writer").unwrap());
        let at = Time::from_ms(at_ms);
        Event {
            id,
            at,
            kind,
            agent,
            task: None,
            step: None,
            fence: None,
            detail,
        }
    }

    #[test]
    fn time_to_recover_counts_from_the_last_sign_of_life() {
        let mut counts = Counts::default();
        let down_since = Time::from_ms(1_000);
        let detail = json!({"cause": "lost", "down_since": down_since});
        counts.count(&event(1, EventKind::AttemptDied, 61_000, detail));
        counts.count(&event(2, EventKind::AttemptStarted, 61_010, json!({})));
        assert_eq!(counts.times, [(Time::from_ms(61_010), 60_010)]);
    }

    #[test]
    fn the_cost_of_an_hour_stays_at_the_largest_number() {
        let mut counts = Counts::default();
        for id in 1..=2 {
            let detail = json!({"spent": {"cost_micros": u64::MAX - 1}});
            counts.count(&event(id, EventKind::TaskBudget, 0, detail));
        }
        assert_eq!(counts.cost_micros[&0], u64::MAX);
    }

    #[test]
    fn a_recovery_is_the_start_after_a_death_that_nobody_wanted() {
        let mut counts = Counts::default();
        let died = |id, at_ms, cause: &str| {
            event(id, EventKind::AttemptDied, at_ms, json!({"cause": cause}))
        };
        let started = |id, at_ms| event(id, EventKind::AttemptStarted, at_ms, json!({}));
        for event in [
            started(1, 0),
            died(2, 1_000, "signal"),
            started(3, 1_040),
            died(4, 2_000, "stopped"),
            started(5, 9_000),
            died(6, 10_000, "failed"),
        ] {
            counts.count(&event);
        }
        assert_eq!(counts.times, [(Time::from_ms(1_040), 40)]);
        assert_eq!(counts.totals.recoveries, 1);
        assert_eq!(counts.totals.within, [0, 0, 0, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(counts.deaths[&0].values().sum::<u64>(), 3);
        assert_eq!(counts.after, 6);
    }
}
