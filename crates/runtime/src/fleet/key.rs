//! The key that nodes of a fleet have in common: by it one of them shows another that it may read what
//! that one alone has.
//!
//! It lies in the store, made once by whichever node came first: whoever reads the store is trusted with
//! more than logs. It is no user's token, opens nothing but what its ticket names, and not for long.

use relight_core::ids::NodeName;
use relight_core::time::{Span, Time};
use relight_store::{Store, StoreError};
use serde_json::{Value, json};

use crate::os::random;

/// The record of the store; nobody else's to read.
pub const RECORD: &str = "fleet-key";
/// How far the clocks of two nodes may be apart, and how long a ticket lasts.
pub const TICKET_MAX: Span = Span::from_secs(60);
/// What a ticket begins with, as a scheme of `Authorization`.
pub const SCHEME: &str = "Relight-Node";

/// What all nodes of a fleet know, and nobody else.
#[derive(Clone)]
pub struct FleetKey([u8; 32]);

impl std::fmt::Debug for FleetKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FleetKey")
    }
}

impl FleetKey {
    /// The fleet's; made when there is none, or what is there is none.
    pub async fn of(store: &dyn Store) -> Result<Self, StoreError> {
        loop {
            let before = store.kept(RECORD).await?;
            if let Some(key) = before.as_ref().and_then(read) {
                return Ok(Self(key));
            }
            let key: [u8; 32] = random::bytes();
            let hex = blake3::Hash::from_bytes(key).to_hex();
            if store.keep(RECORD, before, json!({"key": hex.as_str()})).await? {
                return Ok(Self(key));
            }
        }
    }

    /// A ticket for one read at one node, as the value of `Authorization`.
    pub fn ticket(&self, to: &NodeName, path: &str, now: Time) -> String {
        let at_ms = now.as_ms();
        format!("{SCHEME} {at_ms}.{}", self.seal(to, path, at_ms).to_hex())
    }

    /// Whether this is a ticket for this read, at this node, of this moment.
    pub fn admits(&self, to: &NodeName, path: &str, ticket: &str, now: Time) -> bool {
        let Some((at, seal)) = ticket.split_once('.') else { return false };
        let (Ok(at_ms), Ok(seal)) = (at.parse::<i64>(), blake3::Hash::from_hex(seal)) else {
            return false;
        };
        let at = Time::from_ms(at_ms);
        let apart = now.since(at).max(at.since(now));
        // Compared in constant time.
        apart <= TICKET_MAX && self.seal(to, path, at_ms) == seal
    }

    /// Neither a name nor a path has a line end in it.
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
        assert!([0, ms, -ms].iter().all(|ms| key.admits(&a, path, ticket, at(*ms))));
        assert!([ms + 1, -ms - 1].iter().all(|ms| !key.admits(&a, path, ticket, at(*ms))));
        assert!(!key.admits(&name("b"), path, ticket, then));
        assert!(!key.admits(&a, "/api/agents/y/logs?lines=1", ticket, then));
        assert!(!FleetKey([8; 32]).admits(&a, path, ticket, then));
        let newer = ticket.replace("1000000.", "1000001.");
        for bad in [newer.as_str(), "", ".", "1000000.", "x.y", &ticket[1..]] {
            assert!(!key.admits(&a, path, bad, then), "{bad}");
        }
    }
}
