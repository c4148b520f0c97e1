//! `openapi.json`, made from the handlers and wire types themselves.

use axum::response::IntoResponse;
use utoipa::OpenApi as _;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{OpenApi, SecurityRequirement};

use crate::answer::Answer;
use crate::routes::Described;

/// The description of the whole API.
pub fn document() -> OpenApi {
    let mut document = Described::openapi();
    document.info.version = crate::VERSION.to_owned();
    let components = document.components.get_or_insert_default();
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    components.add_security_scheme("token", SecurityScheme::Http(bearer));
    let needed = SecurityRequirement::new::<_, [String; 0], String>("token", []);
    document.security = Some(vec![needed]);
    document
}

/// `GET /openapi.json`.
pub(crate) async fn serve() -> impl IntoResponse {
    Answer(document())
}
