//! Heartbeats that arrive on other threads, from the HTTP API.
//!
//! A heartbeat is one atomic store. Plain heartbeats wake the agent's actor at most once a second;
//! it reads the latest value when it checks for silence. So a hundred thousand heartbeats a second
//! cost almost nothing and nothing is queued. A heartbeat with more content (a wait, a status)
//! wakes the actor every time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use relight_core::ids::AgentName;
use relight_core::time::{Span, Time};
use tokio::sync::{Notify, watch};

use super::actor::AgentSnapshot;
use super::notify::{NotifySign, WaitId, clean};
use crate::os::{clock, random};

/// Minimum time between two wake-ups by plain heartbeats.
const RING_EVERY_MS: u64 = 1_000;

/// Content of a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Beat {
    /// The agent waits and is silent until then.
    pub waiting_until: Option<Time>,
    /// What it is doing.
    pub status: Option<String>,
}

/// The supervised agents, accessible from other threads.
#[derive(Debug, Clone, Default)]
pub struct Beats(Arc<RwLock<HashMap<AgentName, AgentBeats>>>);

#[derive(Debug, Clone)]
struct AgentBeats {
    slot: Arc<BeatSlot>,
    view: watch::Receiver<AgentSnapshot>,
}

impl Beats {
    /// Records a heartbeat; false when the agent is not supervised here.
    pub fn beat(&self, agent: &AgentName, beat: Beat) -> bool {
        let entries = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = entries.get(agent) else {
            return false;
        };
        entry.slot.beat(beat);
        true
    }

    /// Records that a request of the agent blocks here, until the time given or until the result is
    /// dropped. None when the agent is not supervised here.
    pub fn wait(&self, agent: &AgentName, until: Time) -> Option<RequestWait> {
        let entries = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let slot = Arc::clone(&entries.get(agent)?.slot);
        // No pid: the wait ends with this process.
        let id = WaitId {
            pid: 0,
            number: random::number(),
        };
        slot.waits(id, Some(until));
        Some(RequestWait { slot, id })
    }

    /// The live view of an agent; none when it is not supervised here.
    pub fn view(&self, agent: &AgentName) -> Option<AgentSnapshot> {
        let entry = self
            .0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(agent)?
            .clone();
        let mut view = entry.view.borrow().clone();
        let beaten = entry.slot.last_beat();
        view.last_sign = view
            .last_sign
            .map(|sign| beaten.map_or(sign, |beat| beat.max(sign)));
        Some(view)
    }

    /// The views of all agents, by name.
    pub fn views(&self) -> Vec<AgentSnapshot> {
        let entries = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<AgentName> = entries.keys().cloned().collect();
        drop(entries);
        names.sort();
        names.iter().filter_map(|name| self.view(name)).collect()
    }

    pub(super) fn add(
        &self,
        agent: AgentName,
        slot: Arc<BeatSlot>,
        view: watch::Receiver<AgentSnapshot>,
    ) {
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        entries.insert(agent, AgentBeats { slot, view });
    }

    pub(super) fn remove(&self, agent: &AgentName) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(agent);
    }
}

/// The latest heartbeats of one agent.
#[derive(Debug, Default)]
pub(super) struct BeatSlot {
    last_ms: AtomicU64,
    rung_ms: AtomicU64,
    /// The next heartbeat ends a declared wait and must wake the actor.
    waits: AtomicBool,
    said: Mutex<PendingSigns>,
    bell: Notify,
}

/// Content not yet delivered to the actor.
#[derive(Debug, Default)]
struct PendingSigns {
    beat: Option<Beat>,
    /// Waits that began or ended.
    waits: Vec<(WaitId, Option<Time>)>,
}

/// A blocked request of the agent; the wait ends when this is dropped.
#[derive(Debug)]
#[must_use = "the wait is over when this is dropped"]
pub struct RequestWait {
    slot: Arc<BeatSlot>,
    id: WaitId,
}

impl Drop for RequestWait {
    fn drop(&mut self) {
        self.slot.waits(self.id, None);
    }
}

impl BeatSlot {
    pub(super) fn beat(&self, beat: Beat) {
        let now_ms = clock::monotonic_ms();
        self.last_ms.store(now_ms, Ordering::Relaxed);
        let is_plain = beat == Beat::default();
        let waited = self
            .waits
            .swap(beat.waiting_until.is_some(), Ordering::Relaxed);
        if is_plain && !waited && now_ms < self.rung_ms.load(Ordering::Relaxed) + RING_EVERY_MS {
            return;
        }
        self.rung_ms.store(now_ms, Ordering::Relaxed);
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let last = said.beat.get_or_insert_default();
        // A later heartbeat without a wait ends the wait; the status is kept.
        last.waiting_until = beat.waiting_until;
        if beat.status.is_some() {
            last.status = beat.status;
        }
        drop(said);
        self.bell.notify_one();
    }

    /// Begins or ends the wait of a request.
    fn waits(&self, id: WaitId, until: Option<Time>) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.waits.retain(|(known, _)| *known != id);
        said.waits.push((id, until));
        drop(said);
        self.bell.notify_one();
    }

    /// Waits for content that must be delivered. Cancel-safe.
    pub(super) async fn heard(&self) -> Vec<NotifySign> {
        self.bell.notified().await;
        let said = std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner));
        let mut signs: Vec<NotifySign> = Vec::new();
        signs.extend(
            said.waits
                .into_iter()
                .map(|(id, until)| NotifySign::Verb(id, until)),
        );
        if let Some(beat) = said.beat {
            signs.push(NotifySign::Alive);
            signs.extend(beat.waiting_until.map(NotifySign::WaitingUntil));
            signs.extend(beat.status.map(|text| NotifySign::Status(clean(&text))));
        }
        signs
    }

    /// Time of the last heartbeat by the monotonic clock; 0 before the first.
    pub(super) fn last_ms(&self) -> u64 {
        self.last_ms.load(Ordering::Relaxed)
    }

    fn last_beat(&self) -> Option<Time> {
        let last_ms = self.last_ms();
        let ago = Span::from_ms(clock::monotonic_ms().saturating_sub(last_ms));
        let at_ms = clock::now().as_ms().saturating_sub_unsigned(ago.as_ms());
        (last_ms > 0).then(|| Time::from_ms(at_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting() -> Beat {
        Beat {
            waiting_until: Some(Time::from_ms(5)),
            status: None,
        }
    }

    fn status(text: &str) -> Beat {
        Beat {
            waiting_until: None,
            status: Some(text.to_owned()),
        }
    }

    #[tokio::test]
    async fn a_flood_of_beats_wakes_once_and_is_not_queued() {
        let slot = BeatSlot::default();
        (0..10_000).for_each(|_| slot.beat(Beat::default()));
        assert_eq!(slot.heard().await, [NotifySign::Alive]);
        let again = tokio::time::timeout(std::time::Duration::from_millis(20), slot.heard()).await;
        assert!(again.is_err());
        assert!(slot.last_ms() > 0);
    }

    #[tokio::test]
    async fn a_request_that_waits_is_told_until_it_is_dropped() {
        let slot = Arc::new(BeatSlot::default());
        let id = WaitId { pid: 0, number: 1 };
        let until = Some(Time::from_ms(5));
        slot.waits(id, until);
        assert_eq!(slot.heard().await, [NotifySign::Verb(id, until)]);
        drop(RequestWait {
            slot: Arc::clone(&slot),
            id,
        });
        assert_eq!(slot.heard().await, [NotifySign::Verb(id, None)]);
    }

    #[tokio::test]
    async fn what_says_more_is_heard_at_once_and_a_beat_ends_a_wait() {
        let slot = BeatSlot::default();
        slot.beat(Beat::default());
        slot.heard().await;
        slot.beat(waiting());
        assert_eq!(
            slot.heard().await,
            [
                NotifySign::Alive,
                NotifySign::WaitingUntil(Time::from_ms(5))
            ]
        );
        slot.beat(Beat::default());
        assert_eq!(slot.heard().await, [NotifySign::Alive]);
        slot.beat(status("reading\u{1b}[31m"));
        slot.beat(waiting());
        let heard = slot.heard().await;
        assert_eq!(heard.len(), 3);
        assert_eq!(heard[2], NotifySign::Status("reading [31m".to_owned()));
    }
}
