//! The machines of a fleet.

use axum::extract::State;
use relight_core::ids::NodeName;
use relight_runtime::fleet::agents_by_node;
use relight_runtime::os::clock;

use crate::answer::Answer;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{Given, Named};
use crate::wire::list::List;
use crate::wire::node::{DrainRequest, NodeView};

/// All machines of the fleet; none where this one is alone.
#[cfg_attr(test, utoipa::path(get, path = "/api/nodes", tag = "nodes",
    responses((status = 200, body = List<NodeView>))))]
pub(super) async fn list(State(app): State<App>) -> Result<Answer<List<NodeView>>, ApiError> {
    Ok(Answer(List {
        items: app.nodes().await?,
        next: None,
    }))
}

/// Has a node take nothing new and hand over what comes to rest, or go on.
#[cfg_attr(test, utoipa::path(post, path = "/api/nodes/{name}/drain", tag = "nodes",
    params(("name" = String, Path)), request_body = DrainRequest,
    responses((status = 200, body = NodeView), (status = 404),
        (status = 422))))]
pub(super) async fn drain(
    State(app): State<App>,
    Named(name): Named<String>,
    Given(given): Given<DrainRequest>,
) -> Result<Answer<NodeView>, ApiError> {
    let name = NodeName::new(name)?;
    let store = app.backend.engine.store();
    let unknown = || ApiError::not_found(format!("there is no node {name}")).hint("GET /api/nodes");
    if !store.drain_node(&name, !given.cancel, clock::now()).await? {
        return Err(unknown());
    }
    let mut nodes = app.nodes().await?.into_iter();
    nodes
        .find(|node| node.name == name.as_str())
        .map(Answer)
        .ok_or_else(unknown)
}

impl App {
    async fn nodes(&self) -> Result<Vec<NodeView>, ApiError> {
        let store = self.backend.engine.store();
        let nodes = store.nodes().await?;
        if nodes.is_empty() {
            return Ok(Vec::new());
        }
        let agents = agents_by_node(store.as_ref()).await?;
        let shown = nodes.into_iter().map(|node| {
            let held = agents.get(&node.new.name).copied().unwrap_or(0);
            let own = self.backend.node.as_ref();
            let is_this = own.is_some_and(|(name, _)| *name == node.new.name);
            NodeView::of(node, held, is_this)
        });
        Ok(shown.collect())
    }
}
