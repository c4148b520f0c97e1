//! Refuses what the API does not describe: unknown fields of a body, unknown names of a query and numbers
//! out of its ranges, for every route of `openapi.json` before its handler is called.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::LazyLock;

use axum::extract::{MatchedPath, Query, Request};
use relight_runtime::operations::{out_of_range, unknown_field};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::error::ApiError;
use crate::openapi::OPENAPI;

/// What a route takes.
struct RouteFields {
    /// With the range of each number.
    query: BTreeMap<String, Option<(i64, i64)>>,
    /// None where it may be any JSON.
    body: Option<BTreeSet<String>>,
}

/// By method and path.
static ROUTES: LazyLock<HashMap<(String, String), RouteFields>> = LazyLock::new(|| {
    let document: Value = serde_json::from_str(OPENAPI).expect("the checked file is JSON");
    let paths = document["paths"].as_object().expect("it has paths");
    let operations = paths.iter().flat_map(|(path, item)| {
        let operations = item.as_object().into_iter().flatten();
        operations.map(move |(method, operation)| (method.to_uppercase(), path, operation))
    });
    let known = |operation: &Value| RouteFields {
        query: parameters(operation),
        body: match operation.get("requestBody") {
            None => Some(BTreeSet::new()),
            Some(body) => fields(&document, &body["content"]["application/json"]["schema"]),
        },
    };
    operations
        .map(|(method, path, op)| ((method, path.clone()), known(op)))
        .collect()
});

fn parameters(operation: &Value) -> BTreeMap<String, Option<(i64, i64)>> {
    let all = operation["parameters"].as_array().into_iter().flatten();
    let of_query = all.filter(|parameter| parameter["in"] == "query");
    of_query
        .filter_map(|parameter| {
            let name = parameter["name"].as_str()?.to_owned();
            Some((name, range(&parameter["schema"])))
        })
        .collect()
}

/// Of a whole number.
fn range(schema: &Value) -> Option<(i64, i64)> {
    let most = match schema["format"].as_str() {
        Some("int32") => u32::MAX.into(),
        _ => i64::MAX,
    };
    let or = |name: &str, otherwise| schema[name].as_i64().unwrap_or(otherwise);
    (schema["type"] == "integer").then(|| (or("minimum", 0), or("maximum", most)))
}

/// The names in a schema; none where it names none.
fn fields(document: &Value, schema: &Value) -> Option<BTreeSet<String>> {
    if let Some(reference) = schema["$ref"].as_str() {
        let place = reference
            .strip_prefix('#')
            .expect("references stay inside the file");
        return fields(document, document.pointer(place)?);
    }
    if let Some(parts) = schema["allOf"].as_array() {
        let parts = parts.iter().map(|part| fields(document, part));
        return Some(
            parts
                .collect::<Option<Vec<_>>>()?
                .into_iter()
                .flatten()
                .collect(),
        );
    }
    match schema["properties"].as_object() {
        Some(properties) => Some(properties.keys().cloned().collect()),
        None => (schema["additionalProperties"] == false).then(BTreeSet::new),
    }
}

/// Checks the query, and the body where there is one, of a request that a route was found for.
pub(crate) fn check(request: &Request, body: &[u8]) -> Result<(), ApiError> {
    let Some(path) = request.extensions().get::<MatchedPath>() else {
        return Ok(());
    };
    let key = (request.method().to_string(), path.as_str().to_owned());
    let Some(known) = ROUTES.get(&key) else {
        return Ok(());
    };
    if let Ok(Query(given)) = Query::<Vec<(String, String)>>::try_from_uri(request.uri()) {
        for (name, value) in given {
            let Some(range) = known.query.get(&name) else {
                return Err(unknown_field(&name, known.query.keys().map(String::as_str)).into());
            };
            let number = value.parse::<i64>().ok();
            if let Some(range) = range.filter(|(least, most)| {
                number.is_none_or(|number| !(*least..=*most).contains(&number))
            }) {
                return Err(ApiError::invalid(out_of_range(&name, &value, range)));
            }
        }
    }
    let (Some(known), false) = (&known.body, body.trim_ascii().is_empty()) else {
        return Ok(());
    };
    // What is not an object is refused with the reason by whoever reads it, and here where nobody does.
    match serde_json::from_slice::<HashMap<String, IgnoredAny>>(body) {
        Ok(given) => given.keys().try_for_each(|name| check_name(name, known)),
        Err(_) if known.is_empty() => Err(ApiError::invalid("this takes no body, or {}")),
        Err(_) => Ok(()),
    }
}

fn check_name(name: &str, known: &BTreeSet<String>) -> Result<(), ApiError> {
    match known.contains(name) {
        true => Ok(()),
        false => Err(unknown_field(name, known.iter().map(String::as_str)).into()),
    }
}
