//! `relight node`: the machines of a fleet. Needs no daemon: the store knows them all.

use relight_core::error_code::ErrorCode;
use relight_core::ids::NodeName;
use relight_core::time::Span;
use relight_runtime::operations::node::{self, NodeView};
use relight_runtime::os::{clock, fleet};
use relight_store::Store;
use serde_json::json;

use crate::arguments::node::NodeCommand;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::{block_on, output};

pub(crate) fn run(environment: &Environment, command: &NodeCommand) -> Outcome {
    let engine = environment.engine()?;
    let store = engine.store().as_ref();
    match command {
        NodeCommand::List => list(environment, store),
        NodeCommand::Drain(drain) => change(environment, store, &drain.name, !drain.cancel),
        NodeCommand::Remove(remove_it) => remove(environment, store, &remove_it.name),
    }
}

fn list(environment: &Environment, store: &dyn Store) -> Outcome {
    let nodes = block_on(node::list(store, fleet::node()))?;
    let header = [
        "node", "state", "lease", "agents", "labels", "version", "since", "address",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(nodes.iter().map(row));
    let text = match nodes.is_empty() {
        true => "no nodes: this store has no fleet; relight up --node NAME makes the first".into(),
        false => output::table(&rows),
    };
    output::list(environment, nodes, &text);
    Ok(0)
}

fn row(node: &NodeView) -> Vec<String> {
    let text = |text: String| if text.is_empty() { "–".into() } else { text };
    let span = |ms: u64| Span::from_ms(ms).to_string();
    let lease = match node.lease_left_ms {
        0 => String::new(),
        left => format!("{} of {}", span(left), span(node.lease_ms)),
    };
    vec![
        node.name.clone(),
        node.state.clone(),
        text(lease),
        node.agents.to_string(),
        text(node.labels.join(" ")),
        node.version.clone(),
        node.joined_at.to_string(),
        text(node.address.clone().unwrap_or_default()),
    ]
}

fn change(
    environment: &Environment,
    store: &dyn Store,
    name: &NodeName,
    draining: bool,
) -> Outcome {
    let drained = block_on(node::drain(store, name, draining, fleet::node()))?;
    let node = drained.ok_or_else(|| no_such_node(name))?;
    let text = match draining {
        true => {
            format!("node {name} takes nothing new; relight node drain {name} --cancel ends that")
        }
        false => format!("node {name} takes things up again"),
    };
    output::answer(environment, &node, &text);
    Ok(0)
}

fn remove(environment: &Environment, store: &dyn Store, name: &NodeName) -> Outcome {
    if !block_on(store.forget_node(name, clock::now()))? {
        let is_there = block_on(store.nodes())?
            .iter()
            .any(|node| node.new.name == *name);
        return Err(match is_there {
            true => Failure::new(Exit::Busy, format!("the lease of node {name} lasts"))
                .hint("relight down on that machine ends it"),
            false => no_such_node(name),
        });
    }
    let text = format!("node {name} is forgotten");
    output::answer(environment, &json!({"name": name, "removed": true}), &text);
    Ok(0)
}

fn no_such_node(name: &NodeName) -> Failure {
    Failure::of(ErrorCode::NOT_FOUND, format!("there is no node {name}"))
        .hint("relight node list shows all")
}
