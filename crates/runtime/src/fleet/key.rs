//! The shared key of a fleet, by which nodes authorise requests to each other.
//!
//! Stored in the store, created by the first node: whoever can read the store has access to more
//! than logs anyway. It is not a user token; its tickets are short-lived and valid for one request
//! only.

use relight_core::ids::NodeName;
use relight_core::time::{Span, Time};
use relight_store::{Store, StoreError};
use serde_json::{Value, json};

use crate::boxed::boxed;
use crate::os::random;

/// Name of the record; private to nodes.
pub const RECORD: &str = "fleet-key";
/// Maximum clock difference between nodes, and lifetime of a ticket.
pub const TICKET_MAX: Span = Span::from_secs(60);
/// The `Authorization` scheme of tickets.
pub const SCHEME: &str = "Relight-Node";

/// The shared secret of a fleet.
#[derive(Clone)]
pub struct FleetKey([u8; 32]);

impl std::fmt::Debug for FleetKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FleetKey")
    }
}

impl FleetKey {
    /// Reads the fleet's key; creates it if it is missing or invalid.
    #[boxed]
    pub async fn of(store: &dyn Store) -> Result<Self, StoreError> {
        loop {
            let before = store.kept(RECORD).await?;
            if let Some(key) = before.as_ref().and_then(read) {
                return Ok(Self(key));
            }
            let key: [u8; 32] = random::bytes();
            let hex = blake3::Hash::from_bytes(key).to_hex();
            if store
                .keep(RECORD, before, json!({"key": hex.as_str()}))
                .await?
            {
                return Ok(Self(key));
            }
        }
    }

    /// A ticket for one request to one node, as `Authorization` value.
    pub fn ticket(&self, to: &NodeName, path: &str, now: Time) -> String {
        let at_ms = now.as_ms();
        format!("{SCHEME} {at_ms}.{}", self.seal(to, path, at_ms).to_hex())
    }

    /// Whether this ticket is valid now for this request to this node.
    pub fn admits(&self, to: &NodeName, path: &str, ticket: &str, now: Time) -> bool {
        let Some((at, seal)) = ticket.split_once('.') else {
            return false;
        };
        let (Ok(at_ms), Ok(seal)) = (at.parse::<i64>(), blake3::Hash::from_hex(seal)) else {
            return false;
        };
        let at = Time::from_ms(at_ms);
        let apart = now.since(at).max(at.since(now));
        // Compared in constant time.
        apart <= TICKET_MAX && self.seal(to, path, at_ms) == seal
    }

    /// Unambiguous, because names and paths contain no line breaks.
    fn seal(&self, to: &NodeName, path: &str, at_ms: i64) -> blake3::Hash {
        let text = format!("relight node ticket 1\n{to}\n{at_ms}\nGET {path}");
        blake3::keyed_hash(&self.0, text.as_bytes())
    }
}

fn read(record: &Value) -> Option<[u8; 32]> {
    let hash = blake3::Hash::from_hex(record["key"].as_str()?).ok()?;
    Some(*hash.as_bytes())
}

#[cfg(test)]
mod tests {
    use relight_store::MemoryStore;

    use super::*;

    fn name(text: &str) -> NodeName {
        NodeName::new(text).unwrap()
    }

    #[tokio::test]
    async fn all_nodes_have_the_same_key_and_another_fleet_has_not() {
        let (ours, theirs) = (MemoryStore::default(), MemoryStore::default());
        let first = FleetKey::of(&ours).await.unwrap();
        assert_eq!(first.0, FleetKey::of(&ours).await.unwrap().0);
        assert_ne!(first.0, FleetKey::of(&theirs).await.unwrap().0);
        assert_eq!(format!("{first:?}"), "FleetKey");
    }

    #[test]
    fn a_ticket_is_for_one_read_at_one_node_and_not_for_long() {
        let (key, a) = (FleetKey([7; 32]), name("a"));
        let path = "/api/agents/x/logs?lines=1";
        let (then, ms) = (Time::from_ms(1_000_000), TICKET_MAX.as_ms().cast_signed());
        let ticket = key.ticket(&a, path, then);
        let ticket = ticket.strip_prefix("Relight-Node ").unwrap();
        let at = |ms| Time::from_ms(1_000_000 + ms);
        assert!(
            [0, ms, -ms]
                .iter()
                .all(|ms| key.admits(&a, path, ticket, at(*ms)))
        );
        assert!(
            [ms + 1, -ms - 1]
                .iter()
                .all(|ms| !key.admits(&a, path, ticket, at(*ms)))
        );
        assert!(!key.admits(&name("b"), path, ticket, then));
        assert!(!key.admits(&a, "/api/agents/y/logs?lines=1", ticket, then));
        assert!(!FleetKey([8; 32]).admits(&a, path, ticket, then));
        let newer = ticket.replace("1000000.", "1000001.");
        for bad in [newer.as_str(), "", ".", "1000000.", "x.y", &ticket[1..]] {
            assert!(!key.admits(&a, path, bad, then), "{bad}");
        }
    }
}
