//! The delivery position of one sink, stored in the store and updated by compare-and-set.

use relight_core::lease::ProcessIdentity;
use relight_core::time::{Span, Time};
use relight_store::{Store, StoreError, StoreEvent};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::os::{process, random};

/// Limit of waits and claims; a longer one was written with another clock.
const LONGEST: Span = Span::from_secs(7 * 24 * 3_600);

/// Name of the record with the store's id.
const STORE_ID: &str = "store-id";

/// Delivery position of one sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cursor {
    /// Events up to this one are older than the sink.
    pub(super) since: u64,
    /// Events up to this one are delivered or skipped.
    pub(super) after: u64,
    /// The batch being delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) batch: Option<AlertBatch>,
    /// The address that answered that it must not be called again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) gone: Option<String>,
}

/// Alerts delivered together. Fixed before the first delivery, so that all tries send the same
/// messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AlertBatch {
    /// Its last event.
    pub(super) upto: u64,
    /// Ids of its messages that are delivered or given up.
    #[serde(default)]
    pub(super) done: Vec<String>,
    /// Tries of the next message.
    #[serde(default)]
    pub(super) tries: u32,
    /// When it was tried first.
    #[serde(default)]
    pub(super) first_at: Option<Time>,
    /// When it is tried again.
    #[serde(default)]
    pub(super) next_at: Option<Time>,
    /// Why the last try failed.
    #[serde(default)]
    pub(super) why: Option<String>,
    /// Who delivers it now.
    #[serde(default)]
    pub(super) claim: Option<DeliveryClaim>,
}

/// A time-limited claim to deliver a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DeliveryClaim {
    /// Identifies the delivery task within the process.
    pub(super) token: u64,
    /// The process.
    pub(super) by: ProcessIdentity,
    /// When the claim expires.
    pub(super) until: Time,
}

impl Cursor {
    pub(super) fn starting_at(newest: u64) -> Self {
        Self {
            since: newest,
            after: newest,
            batch: None,
            gone: None,
        }
    }
}

impl AlertBatch {
    pub(super) fn upto(event: u64) -> Self {
        Self {
            upto: event,
            done: Vec::new(),
            tries: 0,
            first_at: None,
            next_at: None,
            why: None,
            claim: None,
        }
    }

    /// Marks one message as delivered or given up; resets the tries for the next one.
    pub(super) fn done(&mut self, message: &str) {
        self.done.push(message.to_owned());
        (self.tries, self.first_at, self.next_at, self.why) = (0, None, None, None);
    }

    /// Time of the next try; none when it is due.
    pub(super) fn waits_until(&self, now: Time) -> Option<Time> {
        self.next_at.filter(|at| lies_ahead(*at, now))
    }

    /// When another claim expires; none without one.
    pub(super) fn claimed_until(&self, token: u64, now: Time) -> Option<Time> {
        let claim = self.claim.as_ref().filter(|claim| claim.token != token)?;
        let is_dead = process::is_local(&claim.by) && !process::is_alive(&claim.by);
        (!is_dead && lies_ahead(claim.until, now)).then_some(claim.until)
    }
}

fn lies_ahead(at: Time, now: Time) -> bool {
    at > now && at.since(now) <= LONGEST
}

/// A cursor with the raw value for compare-and-set.
#[derive(Debug)]
pub(super) struct CursorRead {
    pub(super) cursor: Option<Cursor>,
    raw: Option<Value>,
}

/// The name of a sink's cursor.
fn name_of(sink: &str) -> String {
    format!("alerts/{sink}")
}

pub(super) async fn read(store: &dyn Store, sink: &str) -> Result<CursorRead, StoreError> {
    let raw = store.kept(&name_of(sink)).await?;
    // An unreadable cursor is replaced, as for a new sink.
    let cursor = raw.clone().and_then(|raw| serde_json::from_value(raw).ok());
    Ok(CursorRead { cursor, raw })
}

/// Writes it if it is unchanged since it was read. Later writes compare with the new value.
pub(super) async fn write(
    store: &dyn Store,
    sink: &str,
    read: CursorRead,
    cursor: Cursor,
    told: Vec<StoreEvent>,
) -> Result<Option<CursorRead>, StoreError> {
    let now = serde_json::to_value(&cursor).expect("a cursor has string keys");
    let is_kept = store
        .keep_and_tell(&name_of(sink), read.raw, now.clone(), told)
        .await?;
    Ok(is_kept.then_some(CursorRead {
        cursor: Some(cursor),
        raw: Some(now),
    }))
}

/// The store's id, created on first use.
pub(super) async fn store_id(store: &dyn Store) -> Result<String, StoreError> {
    for _ in 0..2 {
        if let Some(Value::String(id)) = store.kept(STORE_ID).await? {
            return Ok(id);
        }
        let made: [u8; 8] = random::bytes();
        let id = format!("{:016x}", u64::from_le_bytes(made));
        if store
            .keep(STORE_ID, None, Value::String(id.clone()))
            .await?
        {
            return Ok(id);
        }
    }
    // A record of another form is left unchanged.
    Ok("store".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_ends_with_its_process_its_time_or_a_clock_that_jumped() {
        let me = process::identity(std::process::id()).unwrap();
        let dead = ProcessIdentity {
            start: me.start + 1,
            ..me.clone()
        };
        let elsewhere = ProcessIdentity {
            boot: "another".to_owned(),
            ..dead.clone()
        };
        let now = Time::from_ms(1_000_000_000);
        let soon = now.plus(Span::from_secs(30));
        let far = now.plus(Span::from_secs(365 * 24 * 3_600));
        for (by, until, token, is_held) in [
            (&me, soon, 1, true),
            (&me, soon, 2, false),
            (&me, now, 1, false),
            (&me, far, 1, false),
            (&dead, soon, 1, false),
            (&elsewhere, soon, 1, true),
        ] {
            let claim = Some(DeliveryClaim {
                token,
                by: by.clone(),
                until,
            });
            let batch = AlertBatch {
                claim,
                ..AlertBatch::upto(1)
            };
            assert_eq!(batch.claimed_until(2, now).is_some(), is_held, "{batch:?}");
        }
    }

    #[tokio::test]
    async fn a_store_has_one_name() {
        let store = relight_store::MemoryStore::default();
        let id = store_id(&store).await.unwrap();
        assert_eq!((id.len(), store_id(&store).await.unwrap()), (16, id));
    }
}
