//! What is served where: the one table of routes.

mod agents;
mod claim;
pub(crate) mod daemon;
mod deaths;
mod events;
pub(crate) mod heartbeat;
mod login;
mod logs;
mod metrics;
mod nodes;
mod operations;
mod sessions;
mod stats;
mod steps;
pub(crate) mod tasks;
mod verbs;

use axum::Router;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use axum::routing::{get, post};
use relight_core::error_code::ErrorCode;
use relight_core::time::{Moment, Time};

use crate::app::App;
use crate::error::ApiError;
use crate::extract::Named;
use crate::{openapi, pages};

/// Every route, added to these.
pub(crate) fn all(routes: Router<App>) -> Router<App> {
    let routes = pages::VIEWS.iter().fold(routes, |routes, view| {
        routes
            .route(&format!("/{view}"), get(pages::dashboard))
            .route(&format!("/{view}/{{*rest}}"), get(pages::dashboard))
    });
    routes
        .route("/", get(pages::dashboard))
        .route("/login/{code}", get(pages::login))
        .route("/assets/{*name}", get(pages::asset))
        .route("/openapi.json", get(openapi::serve))
        .route("/metrics", get(metrics::metrics))
        .nest("/api", api())
        .fallback(nowhere)
        .method_not_allowed_fallback(not_this_way)
}

fn api() -> Router<App> {
    Router::new()
        .route("/health", get(login::health))
        .route("/me", get(login::me))
        .route("/login-codes", post(login::give_code))
        .route("/login", post(login::log_in))
        .route("/logout", post(login::log_out))
        .route("/agents", get(agents::list).post(agents::register))
        .route("/agents/{name}", get(agents::show).delete(agents::forget))
        .route("/agents/{name}/start", post(agents::start))
        .route("/agents/{name}/stop", post(agents::stop))
        .route("/agents/{name}/restart", post(agents::restart))
        .route("/agents/{name}/heartbeat", post(heartbeat::beat))
        .route("/agents/{name}/deaths", get(deaths::deaths))
        .route("/agents/{name}/logs", get(logs::logs))
        .route("/agents/{name}/config", get(agents::config))
        .route("/attempts", get(deaths::attempts))
        .route("/tasks", get(tasks::list).post(tasks::add))
        .route("/tasks/claim", post(claim::claim))
        .route("/tasks/{id}", get(tasks::show))
        .route("/tasks/{id}/start", post(tasks::start))
        .route("/tasks/{id}/done", post(verbs::done))
        .route("/tasks/{id}/review", post(verbs::review))
        .route("/tasks/{id}/fail", post(verbs::fail))
        .route("/tasks/{id}/block", post(verbs::block))
        .route("/tasks/{id}/defer", post(verbs::defer))
        .route("/tasks/{id}/cancel", post(verbs::cancel))
        .route("/tasks/{id}/retry", post(verbs::retry))
        .route("/tasks/{id}/release", post(verbs::release))
        .route("/tasks/{id}/set", post(verbs::set))
        .route("/tasks/{id}/spend", post(verbs::spend))
        .route("/tasks/{id}/brief", get(tasks::brief))
        .route("/tasks/{id}/steps/{name}", get(steps::show))
        .route("/tasks/{id}/steps/{name}/begin", post(steps::begin))
        .route("/tasks/{id}/steps/{name}/end", post(steps::end))
        .route("/tasks/{id}/steps/{name}/resolve", post(steps::resolve))
        .route("/tasks/{id}/steps/{name}/skip", post(steps::skip))
        .route("/sessions", get(sessions::list))
        .route("/sessions/{key}", get(sessions::show))
        .route("/sessions/{key}/begin", post(sessions::begin))
        .route("/sessions/{key}/end", post(sessions::end))
        .route("/sessions/{key}/touch", post(sessions::touch))
        .route("/sessions/{key}/resume", post(sessions::resume))
        .route("/sessions/{key}/suspend", post(sessions::suspend))
        .route("/sessions/{key}/clear", post(sessions::clear))
        // A session may have one of these words as its key.
        .route(
            "/sessions/recover",
            post(sessions::recover).get(|app| sessions::show(app, named("recover"))),
        )
        .route(
            "/sessions/shutdown",
            post(sessions::shutdown).get(|app| sessions::show(app, named("shutdown"))),
        )
        .route("/operations/{name}", post(operations::call))
        .route("/nodes", get(nodes::list))
        .route("/nodes/{name}/drain", post(nodes::drain))
        .route("/events", get(events::events))
        .route("/stats", get(stats::stats))
        .route("/status", get(daemon::status))
        .route("/down", post(daemon::down))
        .route("/reload", post(daemon::reload))
        .route("/recover", post(daemon::recover))
}

fn named(key: &str) -> Named<String> {
    Named(key.to_owned())
}

/// The names of operations, for the description.
#[cfg(test)]
struct OperationName;

#[cfg(test)]
impl utoipa::PartialSchema for OperationName {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        let names = relight_runtime::operations::table::names();
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .enum_values(Some(names))
            .into()
    }
}

#[cfg(test)]
impl utoipa::ToSchema for OperationName {}

/// The same routes, described.
#[cfg(test)]
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Relight",
        description = "Brings AI agents back after any crash: the daemon's API.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    paths(
        login::health,
        login::me,
        login::give_code,
        login::log_in,
        login::log_out,
        agents::list,
        agents::register,
        agents::show,
        agents::forget,
        agents::start,
        agents::stop,
        agents::restart,
        heartbeat::beat,
        deaths::deaths,
        logs::logs,
        agents::config,
        deaths::attempts,
        tasks::list,
        tasks::add,
        claim::claim,
        tasks::show,
        tasks::start,
        verbs::done,
        verbs::review,
        verbs::fail,
        verbs::block,
        verbs::defer,
        verbs::cancel,
        verbs::retry,
        verbs::release,
        verbs::set,
        verbs::spend,
        tasks::brief,
        steps::show,
        steps::begin,
        steps::end,
        steps::resolve,
        steps::skip,
        sessions::list,
        sessions::show,
        sessions::begin,
        sessions::end,
        sessions::touch,
        sessions::resume,
        sessions::suspend,
        sessions::clear,
        sessions::recover,
        sessions::shutdown,
        operations::call,
        nodes::list,
        nodes::drain,
        events::events,
        stats::stats,
        daemon::status,
        daemon::down,
        daemon::reload,
        daemon::recover,
        metrics::metrics,
        crate::mcp::http::serve,
    ),
    components(schemas(crate::error::ProblemBody))
)]
pub(crate) struct Described;

/// A person is shown a page, a program the error.
async fn nowhere(method: Method, uri: Uri, headers: HeaderMap) -> Result<Response, ApiError> {
    let is_for_people = pages::is_for_people(&method, uri.path(), &headers);
    let page = is_for_people.then(|| pages::nowhere(&headers)).flatten();
    page.ok_or_else(|| ApiError::not_found("there is nothing here").hint("GET /openapi.json"))
}

async fn not_this_way() -> ApiError {
    ApiError::new(ErrorCode::METHOD_NOT_ALLOWED, "this is not done this way")
        .hint("GET /openapi.json tells how")
}

/// What a request gives as `waiting_until`: a time to come, or a duration from now.
pub(crate) fn waiting_until(text: &str, now: Time) -> Result<Time, ApiError> {
    let moment = text.parse::<Moment>().and_then(|moment| moment.after(now));
    moment.map_err(|error| ApiError::invalid(format!("waiting_until: {error}")))
}
