//! How a command accesses the store: it opens the store, or asks a daemon that has it open.
//!
//! Every command on a machine must use the store that its daemon uses; otherwise it acknowledges writes
//! that are never read. Paths are in `environment`, the content of `relight.toml` is in `config`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use relight_core::time::Span;
use relight_runtime::store_url::StoreUrl;
use relight_runtime::supervise::control;
use relight_store::StoreError;

use crate::exit::{Exit, Failure};
use crate::values;

/// How long a daemon that is there may take for a connection.
const CONNECT_MAX: Span = Span::from_secs(2);
/// How long an agent waits at least for a daemon that is away: it is being restarted.
const AWAY_MIN: Duration = Duration::from_secs(10);
/// Nobody waits longer, whatever a lease may be.
const AWAY_MAX: Duration = Duration::from_secs(600);
/// By which agents know how long they live on without their daemon: the lease of their node.
pub(crate) const NODE_LEASE: &str = "RELIGHT_NODE_LEASE";
/// What helps whoever is not told of a store.
const NAME_IT: &str = "name the store by --store, RELIGHT_STORE or [store] in relight.toml";

/// How the store is reached from here.
#[derive(Debug)]
pub(crate) enum StoreAccess {
    /// It is opened.
    Open(StoreUrl),
    /// It is asked for at the socket of the daemon that an agent belongs to.
    OfAgent(PathBuf),
    /// The same in the home of a node, for whoever was told no store.
    OfHome(PathBuf),
}

impl StoreAccess {
    /// The store itself, for what cannot be asked of a daemon.
    pub(crate) fn opened(self) -> Result<StoreUrl, Failure> {
        match self {
            Self::Open(url) => Ok(url),
            Self::OfAgent(_) => Err(only_its_daemon().hint("it is done outside of agents")),
            Self::OfHome(_) => Err(only_its_daemon().hint(NAME_IT)),
        }
    }

    /// The socket at which it is asked for; none where it is opened.
    pub(crate) fn asked(self) -> Option<PathBuf> {
        match self {
            Self::Open(_) => None,
            Self::OfAgent(socket) | Self::OfHome(socket) => Some(socket),
        }
    }
}

/// The store that a text names. Its folder must be there: a store in a new folder, made for a mistyped
/// path, would be empty and found by nobody else.
pub(crate) fn named(url: &str, bad: Exit) -> Result<StoreUrl, Failure> {
    let url = StoreUrl::parse(url, Path::new("."));
    let url = url.map_err(|error| Failure::new(bad, error.to_string()))?;
    if let StoreUrl::Sqlite(file) = &url
        && let Some(folder) = values::missing_folder(file)
    {
        return Err(no_folder(Exit::Config, "the store", folder));
    }
    Ok(url)
}

/// What is to be made needs a folder that is there.
pub(crate) fn no_folder(exit: Exit, what: &str, folder: &Path) -> Failure {
    let folder = folder.display();
    Failure::new(exit, format!("there is no folder {folder} for {what}")).hint(format!(
        "correct the path, or make the folder: mkdir -p {folder}"
    ))
}

/// Nobody is told here where the store of this fleet is.
pub(crate) fn only_its_daemon() -> Failure {
    let text = "the store of this fleet is reached through its node's daemon alone";
    Failure::new(Exit::Unreachable, text)
}

/// Refuses where no daemon listens: a person need not wait for one, as an agent does.
pub(crate) fn refuse_without_daemon(socket: &Path) -> Result<(), Failure> {
    let Err(error) = control::call(socket, CONNECT_MAX) else {
        return Ok(());
    };
    let place = format!("behind {}", socket.display());
    let why = format!("no daemon listens there ({error}), and no store is named");
    let unreachable = StoreError::Unreachable { place, why };
    Err(Failure::from(unreachable).hint(format!("relight up starts it; or {NAME_IT}")))
}

/// How long an agent waits for a daemon that is away: until the lease of its node would have ended it.
pub(crate) fn patience(node_lease: Option<&str>) -> Duration {
    let lease = node_lease
        .and_then(|text| text.parse::<Span>().ok())
        .unwrap_or_default();
    lease.as_duration().clamp(AWAY_MIN, AWAY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_waits_as_long_as_it_lives_without_its_daemon() {
        let seconds = |lease| patience(lease).as_secs();
        assert_eq!(seconds(Some("60000ms")), 60);
        assert_eq!(
            (seconds(Some("8s")), seconds(None), seconds(Some("x"))),
            (10, 10, 10)
        );
        assert_eq!(seconds(Some("7d")), 600);
    }
}
