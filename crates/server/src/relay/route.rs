//! The door: on the socket alone, behind the guard, and no part of the API that others build upon.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use axum::routing::post;
use relight_core::error_code::ErrorCode;
use relight_store::Store;
use tokio::time::timeout;

use super::answers::{Answers, WriteStatus};
use super::call::{AskedBy, BYTES_MAX, PATH, RelayCall, RelayRequest, VERSION, Write};
use super::store_proxy::{self, StoreProxy};
use crate::app::App;
use crate::caller::{Caller, Via};
use crate::error::ApiError;
use crate::extract::collect;

/// Nobody waits longer for a change in one question.
const CHANGE_WAIT_MAX: Duration = Duration::from_secs(20);

/// The relay's route. It reads its own bodies and remembers its own answers.
pub(crate) fn routes() -> Router<App> {
    Router::new().route(
        PATH,
        post(serve).layer(Extension(Arc::<Answers>::default())),
    )
}

/// Answers one question of an agent.
async fn serve(
    State(app): State<App>,
    Extension(answers): Extension<Arc<Answers>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, ApiError> {
    if caller.via != Via::Socket {
        return Err(ApiError::not_found("there is nothing here").hint("GET /openapi.json"));
    }
    let bytes = collect(request.into_body(), BYTES_MAX, app.body_wait_max).await?;
    match understood(&bytes)? {
        RelayCall::Read(read) => Ok(answer(
            false,
            &proxy(&app, app.backend.engine.store().as_ref())
                .read(read)
                .await,
        )),
        RelayCall::Write { id, write } => done(&app, &answers, &id, write).await,
        RelayCall::Changed(after) => Ok(answer(false, &changed(&app, after).await)),
    }
}

/// What is asked, if it is asked in our form.
pub(super) fn understood(bytes: &[u8]) -> Result<RelayCall, ApiError> {
    let not_understood = |error: serde_json::Error| {
        let ours = crate::VERSION;
        ApiError::invalid(format!(
            "the daemon (relight {ours}) does not understand this: {error}"
        ))
    };
    let AskedBy { version } = serde_json::from_slice(bytes).map_err(not_understood)?;
    if version != VERSION {
        let ours = crate::VERSION;
        let message = format!(
            "its daemon is relight {ours} and speaks form {VERSION} of the relay, not {version}"
        );
        return Err(ApiError::new(ErrorCode::OTHER_VERSION, message).hint(
            "restart the daemon with the relight that agents use; agents live on meanwhile",
        ));
    }
    let asked: RelayRequest<RelayCall> = serde_json::from_slice(bytes).map_err(not_understood)?;
    Ok(asked.call)
}

/// Does a write, or waits for what it comes to when it was asked for before. Once begun it is done,
/// whether or not whoever asked is still there.
async fn done(app: &App, answers: &Answers, id: &str, write: Write) -> Result<Response, ApiError> {
    if !store_proxy::is_for_agents(&write) {
        return Err(ApiError::forbidden("this record is the daemon's own"));
    }
    if let Some(why) = store_proxy::misshape(&write) {
        return Err(ApiError::invalid(why));
    }
    let (mut became, again) = match answers.look(id) {
        WriteStatus::Before(became) => (became, true),
        WriteStatus::New(tell, became) => {
            let (app, store) = (app.clone(), Arc::clone(app.backend.engine.store()));
            tokio::spawn(async move {
                let said = proxy(&app, store.as_ref()).write(write).await;
                tell.send_replace(Some(Bytes::from(said)));
            });
            (became, false)
        }
    };
    let said = became.wait_for(Option::is_some).await;
    let said = said.map_err(|_| ApiError::internal("a relayed write was not finished"))?;
    Ok(answer(again, said.as_deref().unwrap_or_default()))
}

/// Returns when there may be something new, after a while, or when the daemon ends. Whoever hangs up
/// ends it too.
async fn changed(app: &App, after: u64) -> Vec<u8> {
    let store = app.backend.engine.store();
    tokio::select! {
        told = timeout(CHANGE_WAIT_MAX, store.changed(after)) => {
            proxy(app, store.as_ref()).said(told.unwrap_or(Ok(())))
        }
        () = app.journal.ended() => store_proxy::written(&Ok::<(), ()>(())),
    }
}

fn proxy<'a>(app: &App, store: &'a dyn Store) -> StoreProxy<'a> {
    StoreProxy::of(store, app.backend.node_name().as_deref())
}

fn answer(again: bool, said: &[u8]) -> Response {
    let head = format!("{{\"again\":{again},\"answer\":");
    let mut response = Response::new(Body::from([head.as_bytes(), said, b"}"].concat()));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
