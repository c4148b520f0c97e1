//! `relight node`: the machines of a fleet. Needs no daemon: the store knows them all.

use relight_core::error_code::ErrorCode;
use relight_core::ids::NodeName;
use relight_core::node::Node;
use relight_runtime::fleet::agents_by_node;
use relight_runtime::os::clock;
use relight_store::{Store, StoreError};
use serde_json::{Value, json};

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
    let (nodes, held) = block_on(async {
        let nodes = store.nodes().await?;
        Ok::<_, StoreError>((nodes, agents_by_node(store).await?))
    })?;
    let agents = |node: &Node| held.get(&node.new.name).copied().unwrap_or(0);
    if environment.json {
        let items: Vec<Value> = nodes
            .iter()
            .map(|node| to_json(node, agents(node)))
            .collect();
        output::json(&json!({"items": items, "next": null}));
    } else if nodes.is_empty() {
        output::line("no nodes: this store has no fleet; relight up --node NAME makes the first");
    } else {
        let header = [
            "node", "state", "lease", "agents", "labels", "version", "since", "address",
        ];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        rows.extend(nodes.iter().map(|node| row(node, agents(node))));
        output::line(&output::table(&rows));
    }
    Ok(0)
}

fn row(node: &Node, agents: u64) -> Vec<String> {
    let none = || "–".to_owned();
    let new = &node.new;
    vec![
        new.name.to_string(),
        node.state().as_str().to_owned(),
        if node.is_live() {
            format!("{} of {}", node.left, new.ttl)
        } else {
            none()
        },
        agents.to_string(),
        if new.labels.is_empty() {
            none()
        } else {
            new.labels.join(" ")
        },
        new.version.clone(),
        node.joined_at.to_string(),
        new.address.clone().unwrap_or_else(none),
    ]
}

fn to_json(node: &Node, agents: u64) -> Value {
    json!({
        "name": node.new.name,
        "state": node.state().as_str(),
        "lease_left_ms": node.left.as_ms(),
        "lease_ms": node.new.ttl.as_ms(),
        "agents": agents,
        "labels": node.new.labels,
        "address": node.new.address,
        "version": node.new.version,
        "epoch": node.epoch,
        "draining": node.draining,
        "joined_at": node.joined_at,
    })
}

fn change(
    environment: &Environment,
    store: &dyn Store,
    name: &NodeName,
    draining: bool,
) -> Outcome {
    if !block_on(store.drain_node(name, draining, clock::now()))? {
        return Err(no_such_node(name));
    }
    let text = match draining {
        true => {
            format!("node {name} takes nothing new; relight node drain {name} --cancel ends that")
        }
        false => format!("node {name} takes things up again"),
    };
    output::answer(
        environment,
        &json!({"name": name, "draining": draining}),
        &text,
    );
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
