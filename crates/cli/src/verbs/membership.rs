//! The daemon as a node of a fleet: whether it is one, and how it joins.

use std::path::Path;

use relight_core::ids::NodeName;
use relight_core::node::NewNode;
use relight_runtime::daemon::Membership;
use relight_runtime::engine::Engine;
use relight_runtime::fleet::JoinError;
use relight_runtime::fleet::node_file::NodeFile;
use relight_runtime::os::{fleet as door, process};

use super::supervision::cannot_use;
use crate::arguments::agent::UpArguments;
use crate::config::Config;
use crate::environment::Environment;
use crate::exit::{Exit, Failure};
use crate::node_file;

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
    for (what, text) in std::iter::once(("node name", name.as_str())).chain(
        config
            .node
            .labels
            .iter()
            .map(|label| ("label of the node", label.as_str())),
    ) {
        environment.check_name(what, text)?;
    }
    let (home, store) = (environment.home()?, environment.local_store()?);
    let file =
        node_file::planned(&home, &name, store).map_err(|error| cannot_use(&home, &error))?;
    assert!(
        door::belong_to(&name),
        "nothing has asked for this process's identity yet"
    );
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
        Some(file) => node_file::keep(file, &home),
        None if socket_folder == home => node_file::remove(&home),
        None => Ok(()),
    };
    kept.map_err(|error| cannot_use(&home, &error))
}

fn host_name() -> Result<NodeName, Failure> {
    let system = rustix::system::uname();
    NodeName::new(system.nodename().to_string_lossy()).map_err(|error| {
        Failure::new(
            Exit::Config,
            format!("the host's name cannot name a node: {error}"),
        )
        .hint("write name = \"NAME\" in [node] of relight.toml, or give --node NAME")
    })
}

/// Joins; waits while another installation uses the name.
pub(super) async fn join(
    file: NodeFile,
    config: &Config,
    engine: &Engine,
) -> Result<Membership, Failure> {
    let node = NewNode {
        name: file.name,
        instance: file.instance,
        labels: config.node.labels.clone(),
        address: config.node.address.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ttl: config.node.lease,
        process: Some(process::me().clone()),
    };
    Membership::join(engine, node, config.node.renew)
        .await
        .map_err(refused)
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
