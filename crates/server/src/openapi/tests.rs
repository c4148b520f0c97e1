//! Generates `openapi.json` from the handlers and wire types, and from what the guard
//! answers before a handler is called. `UPDATE_DOCS=1 cargo test -p relight-server` writes it anew.

use std::collections::BTreeMap;

use axum::http::Method;
use utoipa::OpenApi as _;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::schema::{AdditionalProperties, Object, Schema, SchemaType, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    Content, OpenApi, Ref, RefOr, Required, Response, ResponseBuilder, SecurityRequirement,
};

use crate::guard::is_open;
use crate::routes::Described;

/// A status, the name of its answer, and what it means.
type AtDoor = (&'static str, &'static str, &'static str);

/// What every route may answer beside what its handler says.
const EVERYWHERE: [AtDoor; 6] = [
    (
        "400",
        "broken",
        "the request, or the JSON in it, is broken or nested too deeply",
    ),
    (
        "403",
        "forbidden",
        "a foreign host or page, or a scope that does not reach so far",
    ),
    (
        "422",
        "invalid",
        "the body, the query, the path or a header is not what is asked for here",
    ),
    ("429", "rate_limited", "too many wrong tokens lately"),
    (
        "500",
        "internal",
        "something went wrong inside; the daemon's log says what",
    ),
    (
        "503",
        "unavailable",
        "the store cannot be used now, or the daemon ends",
    ),
];
/// What every route may answer that needs a token.
const GUARDED: [AtDoor; 1] = [(
    "401",
    "unauthorized",
    "a token is needed, or this one is not known",
)];
/// What every route may answer that takes something.
const WRITES: [AtDoor; 4] = [
    ("408", "too_slow", "the body did not come in time"),
    (
        "409",
        "under_way",
        "a request with this Idempotency-Key is under way",
    ),
    ("413", "too_large", "the body is larger than 1 MiB"),
    (
        "415",
        "unsupported_media_type",
        "only application/json is taken",
    ),
];

/// The description of the whole API.
fn document() -> OpenApi {
    let mut document = Described::openapi();
    document.info.version = crate::VERSION.to_owned();
    let components = document.components.get_or_insert_default();
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    components.add_security_scheme("token", SecurityScheme::Http(bearer));
    let needed = SecurityRequirement::new::<_, [String; 0], String>("token", []);
    document.security = Some(vec![needed]);
    for (_, name, about) in EVERYWHERE.iter().chain(&GUARDED).chain(&WRITES) {
        components
            .responses
            .insert((*name).to_owned(), RefOr::T(problem(about)));
    }
    merge_parts(&mut components.schemas);
    take_null(&mut components.schemas, &mut document.paths.paths);
    let schemas = components.schemas.clone();
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            describe_door(&method, path, operation);
            describe_body(&schemas, operation);
            name_and_explain(operation);
        }
    }
    document
}

/// Makes one object of those that are put together from others which take no further members: read as
/// it stands, each part would forbid the members of the others.
fn merge_parts(schemas: &mut BTreeMap<String, RefOr<Schema>>) {
    let known = schemas.clone();
    for schema in schemas.values_mut() {
        let RefOr::T(Schema::AllOf(all)) = schema else {
            continue;
        };
        let parts: Option<Vec<Object>> =
            all.items.iter().map(|part| object(&known, part)).collect();
        let Some(parts) = parts.filter(|parts| parts.iter().any(is_closed)) else {
            continue;
        };
        let mut whole = Object::with_type(Type::Object);
        whole.description = all.description.clone();
        whole.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
        for part in parts {
            whole.properties.extend(part.properties);
            whole.required.extend(part.required);
        }
        *schema = RefOr::T(Schema::Object(whole));
    }
}

fn object(schemas: &BTreeMap<String, RefOr<Schema>>, part: &RefOr<Schema>) -> Option<Object> {
    match part {
        RefOr::T(Schema::Object(object)) => Some(object.clone()),
        RefOr::Ref(name) => object(schemas, schemas.get(name.ref_location.rsplit('/').next()?)?),
        RefOr::T(_) => None,
    }
}

fn is_closed(object: &Object) -> bool {
    matches!(
        object.additional_properties.as_deref(),
        Some(AdditionalProperties::FreeForm(false))
    )
}

/// In a request, null is a field that was not given: whatever need not be there may be null.
fn take_null(
    schemas: &mut BTreeMap<String, RefOr<Schema>>,
    paths: &mut BTreeMap<String, PathItem>,
) {
    let operations = paths.values_mut().flat_map(operations);
    let bodies = operations.filter_map(|(_, operation)| operation.request_body.clone());
    for content in bodies.flat_map(|body| match body {
        RefOr::T(body) => body.content.into_values(),
        RefOr::Ref(_) => BTreeMap::new().into_values(),
    }) {
        let RefOr::T(content) = content else { continue };
        let Some(RefOr::Ref(name)) = content.schema else {
            continue;
        };
        let name = name.ref_location.rsplit('/').next().unwrap_or_default();
        let Some(RefOr::T(Schema::Object(object))) = schemas.get_mut(name) else {
            continue;
        };
        let Object {
            required,
            properties,
            ..
        } = object;
        let optional = properties
            .iter_mut()
            .filter(|(field, _)| !required.contains(field));
        for (_, property) in optional {
            let kind = match property {
                RefOr::T(Schema::Object(object)) => &mut object.schema_type,
                RefOr::T(Schema::Array(array)) => &mut array.schema_type,
                _ => continue,
            };
            if let SchemaType::Type(one) = kind {
                *kind = SchemaType::from_iter([one.clone(), Type::Null]);
            }
        }
    }
}

/// No body is taken as an empty object: where nothing in it is needed, it need not be there.
fn describe_body(schemas: &BTreeMap<String, RefOr<Schema>>, operation: &mut Operation) {
    let Some(RefOr::T(body)) = &mut operation.request_body else {
        return;
    };
    let Some(RefOr::T(content)) = body.content.values().next() else {
        return;
    };
    let Some(schema) = &content.schema else {
        return;
    };
    let Some(object) = object(schemas, schema) else {
        return;
    };
    let is_needed = !object.required.is_empty();
    body.required = Some(if is_needed {
        Required::True
    } else {
        Required::False
    });
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    let PathItem {
        get,
        post,
        put,
        patch,
        delete,
        ..
    } = item;
    let all = [
        (Method::GET, get),
        (Method::POST, post),
        (Method::PUT, put),
        (Method::PATCH, patch),
        (Method::DELETE, delete),
    ];
    all.into_iter()
        .filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// Adds what the guard answers; what a handler says itself stays.
fn describe_door(method: &Method, path: &str, operation: &mut Operation) {
    let is_open = is_open(method, path);
    let is_write = crate::extract::is_write(method);
    let guarded = GUARDED.iter().filter(|_| !is_open);
    let writes = WRITES.iter().filter(|_| is_write);
    for &(status, name, _) in EVERYWHERE.iter().chain(guarded).chain(writes) {
        let responses = &mut operation.responses.responses;
        let shared = || RefOr::Ref(Ref::from_response_name(name));
        responses.entry(status.to_owned()).or_insert_with(shared);
    }
    if is_open {
        operation.security = Some(Vec::new());
    }
}

/// A refusal in the one shape that all have.
fn problem(about: &str) -> Response {
    let schema = Ref::from_schema_name("ProblemBody");
    let content = Content::new(Some(schema));
    ResponseBuilder::new()
        .description(about)
        .content("application/json", content)
        .build()
}

/// Generators of clients need ids that are used once, and a description of each response.
fn name_and_explain(operation: &mut Operation) {
    let tag = operation
        .tags
        .as_ref()
        .and_then(|tags| tags.first())
        .expect("routes have tags");
    operation.operation_id = operation
        .operation_id
        .as_ref()
        .map(|id| format!("{tag}_{id}"));
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else {
            continue;
        };
        if status.starts_with(['4', '5']) && response.content.is_empty() {
            let schema = Some(Ref::from_schema_name("ProblemBody"));
            response
                .content
                .insert("application/json".to_owned(), Content::new(schema).into());
        }
        if response.description.is_empty() {
            response.description = match status.as_str() {
                "200" => "the answer",
                "201" => "it was created",
                "204" => "done; there is no content",
                "404" => "it does not exist",
                "406" => "the client takes no form that is served here",
                "409" => "it is not allowed in the present state",
                "422" => "the input is not valid",
                "503" => "not now; try again later",
                "202" => "it was taken, and is done later",
                "400" => "the request is broken",
                "401" => "a token is needed, or this one is not known",
                "403" => "not allowed by this token",
                other => panic!("say what {other} means"),
            }
            .to_owned();
        }
    }
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a test asks its caller, not the product's user"
)]
fn the_file_is_what_the_handlers_say() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    let mut wanted = serde_json::to_string_pretty(&document()).unwrap();
    wanted.push('\n');
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        std::fs::write(path, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    let differs = wanted
        .lines()
        .zip(found.lines())
        .find(|(wanted, found)| wanted != found);
    assert!(
        found == wanted,
        "UPDATE_DOCS=1 cargo test -p relight-server; first: {differs:?}"
    );
}
