//! The fleet, where there is one: its nodes, their leases, their versions, and the clocks.

use relight_core::node::Node;
use relight_core::time::{Span, Time};
use relight_runtime::os::clock;
use relight_store::{Store, StoreError};

use super::finding::DoctorFinding;

/// This program.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Clocks that are set by the network differ by less.
const OFFSET_MAX_MS: i64 = 1_000;
/// How long it takes at most until what a dead node had is taken up, once its lease ran out.
const TAKEOVER: Span = Span::from_secs(1);

pub(super) async fn look(store: &dyn Store) -> Result<Vec<DoctorFinding>, StoreError> {
    let nodes = store.nodes().await?;
    let mut findings: Vec<DoctorFinding> = [states(&nodes), leases(&nodes), versions(&nodes)]
        .into_iter()
        .flatten()
        .collect();
    let before = clock::now();
    if let Some(theirs) = store.clock().await? {
        findings.push(clocks(before, theirs, clock::now()));
    }
    Ok(findings)
}

fn states(nodes: &[Node]) -> Option<DoctorFinding> {
    let gone: Vec<&str> = nodes
        .iter()
        .filter(|node| !node.is_live())
        .map(|node| node.new.name.as_str())
        .collect();
    let live = nodes.len() - gone.len();
    match gone.first() {
        _ if nodes.is_empty() => None,
        None => Some(DoctorFinding::ok("nodes", format!("{live} live"))),
        Some(first) => {
            let text = format!("{live} live, {} gone ({})", gone.len(), gone.join(", "));
            let hint = format!("relight up there, or relight node remove {first}");
            Some(DoctorFinding::warning("nodes", text).hint(hint))
        }
    }
}

/// What the longest lease means for whoever waits.
fn leases(nodes: &[Node]) -> Option<DoctorFinding> {
    let longest = nodes
        .iter()
        .filter(|node| node.is_live())
        .map(|node| node.new.ttl)
        .max()?;
    let until = Span::from_ms(longest.as_ms().saturating_add(TAKEOVER.as_ms()));
    Some(DoctorFinding::ok(
        "lease",
        format!(
            "{longest}: what a dead node had goes on elsewhere within {until}; a node that cannot \
             renew for that long ends its agents"
        ),
    ))
}

/// Old and new nodes work together while they know the same schema.
fn versions(nodes: &[Node]) -> Option<DoctorFinding> {
    let others: Vec<String> = nodes
        .iter()
        .filter(|node| node.is_live() && node.new.version != VERSION)
        .map(|node| format!("{} {}", node.new.name, node.new.version))
        .collect();
    if others.is_empty() {
        return None;
    }
    let text = format!(
        "this is {VERSION}; other versions run on: {}",
        others.join(", ")
    );
    Some(
        DoctorFinding::warning("versions", text)
            .hint("upgrade one node after the other until all are"),
    )
}

/// Leases follow the store's clock alone; times that people read are of each machine's own.
fn clocks(before: Time, theirs: Time, after: Time) -> DoctorFinding {
    let (before_ms, after_ms) = (before.as_ms(), after.as_ms());
    let trip_ms = after_ms.saturating_sub(before_ms).max(0);
    let ahead_ms = theirs
        .as_ms()
        .saturating_sub(before_ms.saturating_add(trip_ms / 2));
    let apart = Span::from_ms(ahead_ms.unsigned_abs());
    let place = match ahead_ms {
        0 => "level with".to_owned(),
        ..0 => format!("{apart} behind"),
        1.. => format!("{apart} ahead of"),
    };
    let text = format!("the database's is {place} this machine's (within {trip_ms} ms)");
    if ahead_ms.abs() <= OFFSET_MAX_MS.saturating_add(trip_ms) {
        return DoctorFinding::ok("clocks", text);
    }
    DoctorFinding::warning("clocks", text)
        .hint("set the clocks by NTP; leases follow the database's")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_may_differ_by_a_second_and_the_trip() {
        let at = Time::from_ms;
        let told = |theirs| format!("{:?}", clocks(at(10_000), at(theirs), at(10_020)));
        assert!(
            told(11_000).contains("990ms ahead of this machine's"),
            "{}",
            told(11_000)
        );
        assert!(told(9_000).contains("behind"), "{}", told(9_000));
        assert!(
            told(10_010).contains("level with this machine's"),
            "{}",
            told(10_010)
        );
        assert!(told(11_000).contains("Ok") && told(11_030).contains("Ok"));
        assert!(told(11_031).contains("Warning") && told(8_980).contains("Warning"));
    }
}
