//! The machines of a fleet.

use axum::extract::State;
use relight_core::ids::NodeName;
use relight_runtime::operations::node::{self, NodeView};

use crate::answer::Answer;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{Given, Named};
use crate::wire::list::List;
use crate::wire::node::DrainRequest;

/// All machines of the fleet; none where this one is alone.
#[cfg_attr(test, utoipa::path(get, path = "/api/nodes", tag = "nodes",
    responses((status = 200, body = List<NodeView>))))]
pub(super) async fn list(State(app): State<App>) -> Result<Answer<List<NodeView>>, ApiError> {
    let store = app.backend.engine.store().as_ref();
    let nodes = node::list(store, app.own_node()).await?;
    Ok(Answer(List::new(nodes, None)))
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
    let store = app.backend.engine.store().as_ref();
    let drained = node::drain(store, &name, !given.cancel, app.own_node()).await?;
    drained.map(Answer).ok_or_else(|| {
        ApiError::not_found(format!("there is no node {name}")).hint("GET /api/nodes")
    })
}

impl App {
    fn own_node(&self) -> Option<&NodeName> {
        self.backend.node.as_ref().map(|(name, _)| name)
    }
}
