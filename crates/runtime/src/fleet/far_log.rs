//! Logs of agents on other nodes: read through that node's API if reachable, otherwise from the
//! store, with the reason.

use relight_core::agent::{Agent, Attempt};
use relight_core::ids::{AgentName, NodeName, in_path};
use relight_core::node::Node;
use relight_core::time::{Span, Time};
use relight_store::{AttemptQuery, Store, StoreError};
use serde::Deserialize;

use super::key::FleetKey;
use crate::boxed::boxed;
use crate::os::{clock, fleet};

/// Time limit of a request to another node.
const PATIENCE: Span = Span::from_secs(5);
/// Maximum response size; the lines are at most half of it.
const BYTES_MAX: u64 = 8 << 20;
/// Maximum number of attempts searched for one on the node.
const ATTEMPTS_MAX: usize = 100;

/// The last lines of an agent on another node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FarLog {
    /// The node.
    pub node: NodeName,
    /// The lines.
    pub lines: Vec<String>,
    /// When each was written; shorter where that is not known.
    #[serde(default)]
    pub times: Vec<Option<Time>>,
    /// Earlier lines exist.
    pub truncated: bool,
    /// Why only the store's copy is available; none when the node answered.
    pub note: Option<String>,
}

/// Response of a node.
#[derive(Debug, Deserialize)]
struct RemoteLogLines {
    lines: Vec<String>,
    /// A node of an earlier version tells none.
    #[serde(default)]
    times: Vec<Option<Time>>,
    truncated: bool,
}

/// The other node with the agent's newest log; none when it is this one.
#[boxed]
pub async fn node_of(store: &dyn Store, agent: &Agent) -> Result<Option<NodeName>, StoreError> {
    let newest = attempts(store, agent, 1).await?.pop();
    let holder = agent
        .lease
        .held
        .as_ref()
        .and_then(|held| held.holder.node());
    let node = newest.as_ref().and_then(Attempt::node).or(holder);
    Ok(node.filter(|node| fleet::node() != Some(*node)).cloned())
}

/// The other node that an attempt ran on; none when it ran here or is unknown.
#[boxed]
pub async fn node_of_attempt(
    store: &dyn Store,
    agent: &Agent,
    number: u32,
) -> Result<Option<NodeName>, StoreError> {
    // Attempts are numbered, so the distance from the newest is known.
    let limit = agent.attempt_number.saturating_sub(number) as usize + 1;
    let found = attempts(store, agent, limit).await?;
    let attempt = found.iter().find(|attempt| attempt.number == number);
    let node = attempt.and_then(Attempt::node);
    Ok(node.filter(|node| fleet::node() != Some(*node)).cloned())
}

/// The API path of an agent's last lines.
pub fn path(agent: &AgentName, lines: usize) -> String {
    format!("/api/agents/{}/logs?lines={lines}", in_path(agent.as_str()))
}

/// The last lines on that node; if it cannot be reached, what the store has of its attempts.
#[boxed]
pub async fn read(
    store: &dyn Store,
    agent: &Agent,
    node: &NodeName,
    lines: usize,
) -> Result<FarLog, StoreError> {
    let nodes = store.nodes().await?;
    let known = nodes.iter().find(|known| known.new.name == *node);
    let asked = match address(known) {
        Ok(address) => {
            let key = FleetKey::of(store).await?;
            let path = path(&agent.name, lines);
            let (address, node) = (address.to_owned(), node.clone());
            let fetch = move || fetch(&address, &path, &key.ticket(&node, &path, clock::now()));
            let fetched = tokio::task::spawn_blocking(fetch).await;
            fetched.unwrap_or_else(|error| Err(error.to_string()))
        }
        Err(why) => Err(why),
    };
    match asked {
        Ok(RemoteLogLines {
            lines,
            times,
            truncated,
        }) => Ok(FarLog {
            node: node.clone(),
            lines,
            times,
            truncated,
            note: None,
        }),
        Err(why) => kept(store, agent, node, &why).await,
    }
}

/// The node's address, or why there is none.
fn address(node: Option<&Node>) -> Result<&str, String> {
    let node = node.ok_or("which is not known any more")?;
    if !node.is_live() {
        return Err("which is gone".to_owned());
    }
    let address = node.new.address.as_deref();
    address.ok_or_else(|| "which has no address in its [node] section".to_owned())
}

/// One signed request. Does not follow redirects and limits the response size.
#[cfg(feature = "postgres")]
fn fetch(address: &str, path: &str, ticket: &str) -> Result<RemoteLogLines, String> {
    // Without a proxy: these are machines that know each other.
    let agent = crate::http_client::agent(PATIENCE.as_duration(), false);
    let url = format!("{}{path}", address.trim_end_matches('/'));
    let cannot = |error: ureq::Error| format!("which cannot be reached at {address}: {error}");
    let mut answer = agent
        .get(&url)
        .header("authorization", ticket)
        .call()
        .map_err(cannot)?;
    if answer.status() != 200 {
        return Err(refused(answer.status().as_u16(), address));
    }
    let body = answer
        .body_mut()
        .with_config()
        .limit(BYTES_MAX)
        .read_to_vec()
        .map_err(cannot)?;
    serde_json::from_slice(&body)
        .map_err(|error| format!("which gave no log at {address}: {error}"))
}

#[cfg(not(feature = "postgres"))]
fn fetch(address: &str, _: &str, _: &str) -> Result<RemoteLogLines, String> {
    Err(format!(
        "which cannot be asked at {address}: this build of Relight has no HTTP client"
    ))
}

/// Error text for a refused request, with the usual cause.
fn refused(status: u16, address: &str) -> String {
    let likely = match status {
        401 => {
            ": the clocks of both nodes differ by more than a minute (relight doctor compares them), or \
             another fleet answers there"
        }
        403 => {
            ": it does not know itself by that name; let its `address` have the host and the port at \
             which it listens, or add them to [daemon] hosts there"
        }
        404 => ": another daemon answers there, or it is of an older version",
        _ => "",
    };
    format!("which answered {status} at {address}{likely}")
}

/// The last output in the newest post-mortem of that node.
async fn kept(
    store: &dyn Store,
    agent: &Agent,
    node: &NodeName,
    why: &str,
) -> Result<FarLog, StoreError> {
    let found = attempts(store, agent, ATTEMPTS_MAX).await?;
    let of_node = found.iter().filter(|attempt| attempt.node() == Some(node));
    let ended = of_node.filter_map(|attempt| Some((attempt.number, attempt.post_mortem.as_ref()?)));
    let last = ended
        .into_iter()
        .find(|(_, post_mortem)| !post_mortem.last_output.is_empty());
    let begin = format!("the log of agent {} is on node {node}, {why}", agent.name);
    let (lines, note) = match last {
        Some((number, post_mortem)) => {
            let lines = post_mortem.last_output.lines().map(str::to_owned).collect();
            (
                lines,
                format!("{begin}; these are the last lines of attempt {number} from the store"),
            )
        }
        None => (Vec::new(), format!("{begin}; the store has nothing of it")),
    };
    Ok(FarLog {
        node: node.clone(),
        lines,
        times: Vec::new(),
        truncated: true,
        note: Some(note),
    })
}

/// Newest first.
async fn attempts(
    store: &dyn Store,
    agent: &Agent,
    limit: usize,
) -> Result<Vec<Attempt>, StoreError> {
    let agent = Some(agent.name.clone());
    store
        .attempts(AttemptQuery {
            agent,
            ended: false,
            limit,
            before: None,
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_what_to_look_at() {
        assert!(refused(401, "https://b:1").contains("clocks"));
        assert!(refused(403, "https://b:1").contains("`address`"));
        assert_eq!(
            refused(500, "https://b:1"),
            "which answered 500 at https://b:1"
        );
    }

    #[test]
    fn a_name_is_one_part_of_the_path() {
        let name = AgentName::new("team/a").unwrap();
        assert_eq!(path(&name, 5), "/api/agents/team%2Fa/logs?lines=5");
    }
}
