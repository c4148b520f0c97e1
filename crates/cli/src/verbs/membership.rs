//! The daemon as a node of a fleet: whether it is one, joining, and leaving.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use relight_core::ids::NodeName;
use relight_core::node::{Epoch, NewNode, Node};
use relight_runtime::engine::Engine;
use relight_runtime::fleet::{self, Fleet, JoinError, Standing};
use relight_runtime::os::{fleet as door, process};
use relight_runtime::supervise::supervisor::{Takeover, Takeovers};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::supervision::cannot_use;
use crate::arguments::agent::UpArguments;
use crate::config::Config;
use crate::environment::Environment;
use crate::exit::{Exit, Failure};
use crate::node_file::NodeFile;

/// How long the first look at a fleet may take.
const FIRST_LOOK_MAX: Duration = Duration::from_secs(5);

/// The node that the flag, the configuration or the store asks for; none when this machine is alone.
/// From then on this process belongs to it. Nothing is written yet: another daemon may have the home.
pub(super) fn identity(
    environment: &Environment,
    arguments: &UpArguments,
    config: &Config,
) -> Result<Option<NodeFile>, Failure> {
    let is_wanted =
        arguments.node.is_some() || config.node.is_wanted() || environment.is_shared()?;
    if !is_wanted {
        return Ok(None);
    }
    let name = match arguments.node.clone().or_else(|| config.node.name.clone()) {
        Some(name) => name,
        None => host_name()?,
    };
    for (what, text) in std::iter::once(("node name", name.as_str()))
        .chain(config.node.labels.iter().map(|label| ("label of the node", label.as_str())))
    {
        environment.check_name(what, text)?;
    }
    let (home, store) = (environment.home()?, environment.local_store()?);
    let file = NodeFile::planned(&home, &name, store).map_err(|error| cannot_use(&home, &error))?;
    assert!(door::belong_to(&name), "nothing has asked for this process's identity yet");
    Ok(Some(file))
}

/// Makes the home what the daemon is, once the socket in this folder is ours: every command there goes by
/// that. One that is alone may have its socket beside its store, and leaves the home to whoever has it.
pub(super) fn keep(
    environment: &Environment,
    identity: Option<&NodeFile>,
    socket_folder: &Path,
) -> Result<(), Failure> {
    let home = environment.home()?;
    let kept = match identity {
        Some(file) => file.keep(&home),
        None if socket_folder == home => NodeFile::remove(&home),
        None => Ok(()),
    };
    kept.map_err(|error| cannot_use(&home, &error))
}

fn host_name() -> Result<NodeName, Failure> {
    let system = rustix::system::uname();
    NodeName::new(system.nodename().to_string_lossy()).map_err(|error| {
        Failure::new(Exit::Config, format!("the host's name cannot name a node: {error}"))
            .hint("write name = \"NAME\" in [node] of relight.toml, or give --node NAME")
    })
}

/// The lease of this node while the daemon lives.
pub(super) struct Membership {
    fleet: Fleet,
    standing: watch::Receiver<Standing>,
    nodes: watch::Receiver<Arc<[Node]>>,
    keeper: JoinHandle<()>,
    /// Under which lease agents were taken up.
    epoch: Option<Epoch>,
    /// What this node is to take up and to give back.
    takeovers: Option<Takeovers>,
}

/// What a node hears of its fleet.
pub(super) enum Heard {
    /// Agents are to be taken up here, or given back.
    Takeover(Takeover),
    /// The lease was renewed, lost or taken anew.
    Standing,
    /// Another node came or went, or this one is to drain.
    Nodes,
}

impl Membership {
    /// Joins; waits while another installation uses the name.
    pub(super) async fn join(
        file: NodeFile,
        config: &Config,
        engine: &Engine,
    ) -> Result<Self, Failure> {
        let node = NewNode {
            name: file.name,
            instance: file.instance,
            labels: config.node.labels.clone(),
            address: config.node.address.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ttl: config.node.lease,
            process: Some(process::me().clone()),
        };
        let store = Arc::clone(engine.store());
        let (fleet, keep) = fleet::join(store, node, config.node.renew).await.map_err(refused)?;
        let (mut standing, mut nodes) = (fleet.standing(), fleet.nodes());
        let epoch = standing.borrow_and_update().epoch();
        nodes.mark_unchanged();
        let keeper = tokio::spawn(keep);
        Ok(Self { fleet, standing, nodes, keeper, epoch, takeovers: None })
    }

    pub(super) fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// Where it is told from now on what becomes of agents; what the first look came to.
    pub(super) async fn listen(&mut self, takeovers: Takeovers) -> Takeover {
        let takeovers = self.takeovers.insert(takeovers);
        let first = timeout(FIRST_LOOK_MAX, takeovers.recv()).await;
        first.ok().flatten().unwrap_or_default()
    }

    /// What happens next. Nothing is lost when it is dropped.
    pub(super) async fn heard(&mut self) -> Heard {
        tokio::select! {
            Ok(()) = self.standing.changed() => Heard::Standing,
            Ok(()) = self.nodes.changed() => Heard::Nodes,
            Some(takeover) = next(self.takeovers.as_mut()) => Heard::Takeover(takeover),
        }
    }

    /// Whether the lease under which agents were taken up is lost, even if there is another one by now.
    pub(super) fn has_lost(&mut self) -> bool {
        let epoch = self.standing.borrow().epoch();
        let is_lost = self.epoch.is_some() && self.epoch != epoch;
        self.epoch = epoch;
        is_lost
    }

    /// Whether another daemon is this node now.
    pub(super) fn is_overtaken(&self) -> bool {
        *self.standing.borrow() == Standing::Overtaken
    }

    /// Gives the lease back: nothing is held any more.
    pub(super) async fn leave(self, engine: &Engine) -> Result<(), Failure> {
        self.keeper.abort();
        Ok(self.fleet.leave(engine.store().as_ref()).await?)
    }
}

async fn next(takeovers: Option<&mut Takeovers>) -> Option<Takeover> {
    match takeovers {
        Some(takeovers) => takeovers.recv().await,
        None => std::future::pending().await,
    }
}

fn refused(error: JoinError) -> Failure {
    match error {
        JoinError::Taken(ref node) => {
            let since = node.joined_at;
            Failure::new(Exit::Busy, format!("{error} (since {since})"))
                .hint("give this machine another name: --node NAME, or [node] name in relight.toml")
        }
        JoinError::Store(error) => error.into(),
    }
}
