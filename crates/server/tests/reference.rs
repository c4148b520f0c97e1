//! `docs/reference/http-api.md` and `metrics.md`, made from `openapi.json` and from the code: these
//! tests fail when the pages are out of date. `UPDATE_DOCS=1 cargo test -p relight-server` writes them
//! anew.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::fmt::Write as _;

use serde_json::Value;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/");

#[test]
fn the_page_is_what_the_description_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    let document = std::fs::read_to_string(path).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_page("http-api.md", &page(&document));
}

#[test]
fn the_page_of_metrics_is_what_the_code_says() {
    assert_page("metrics.md", &relight_server::metrics_reference());
}

fn assert_page(name: &str, wanted: &str) {
    let path = format!("{FOLDER}{name}");
    if is_update() {
        std::fs::write(&path, wanted).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = wanted
        .lines()
        .zip(found.lines())
        .find(|(wanted, found)| wanted != found);
    let command = "UPDATE_DOCS=1 cargo test -p relight-server";
    assert!(found == wanted, "{command}; first: {differs:?}");
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test asks its caller, not the product's user"
)]
fn is_update() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1")
}

const HEAD: &str = include_str!("http-api-head.md");

fn page(document: &Value) -> String {
    let mut text = HEAD.to_owned();
    for tag in [
        "agents",
        "tasks",
        "steps",
        "sessions",
        "events",
        "daemon",
        "operations",
        "mcp",
    ] {
        let _ = writeln!(text, "\n## {}\n", capital(tag));
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                if operation["tags"][0] == tag {
                    text += &operation_text(document, method, path, operation);
                }
            }
        }
    }
    text += "\n## Shapes\n";
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        text += &shape_text(name, schema);
    }
    text
}

fn capital(word: &str) -> String {
    if word == "mcp" {
        return "MCP".to_owned();
    }
    word[..1].to_ascii_uppercase() + &word[1..]
}

fn operation_text(document: &Value, method: &str, path: &str, operation: &Value) -> String {
    let mut text = format!("### `{} {path}`\n\n", method.to_ascii_uppercase());
    let about = operation["summary"]
        .as_str()
        .or(operation["description"].as_str());
    let _ = writeln!(text, "{}\n", about.unwrap_or_default());
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        if parameter["in"] == "path" {
            continue;
        }
        let (name, place) = (
            parameter["name"].as_str().unwrap(),
            parameter["in"].as_str().unwrap(),
        );
        let about = parameter["description"].as_str().unwrap_or_default();
        let _ = writeln!(text, "- `{name}` ({place}): {about}");
    }
    if let Some(schema) = operation["requestBody"]["content"]["application/json"].get("schema") {
        let _ = writeln!(text, "- takes {}", kind(schema));
    }
    let mut answers = Vec::new();
    for (status, response) in operation["responses"].as_object().unwrap() {
        // What the guard answers on every route is told once, in the head.
        if response.get("$ref").is_some() {
            continue;
        }
        let schema = response["content"]
            .as_object()
            .and_then(|content| content.values().next());
        let shape = schema.map(|content| format!(" {}", kind(&content["schema"])));
        let is_problem = schema.is_some_and(|content| {
            content["schema"]["$ref"]
                .as_str()
                .is_some_and(|name| name.ends_with("ProblemBody"))
        });
        let shape = shape.filter(|_| !is_problem).unwrap_or_default();
        answers.push(format!("{status}{shape}"));
    }
    let _ = writeln!(text, "- answers {}\n", answers.join(", "));
    let _ = document;
    text
}

fn shape_text(name: &str, schema: &Value) -> String {
    let about = schema["description"].as_str().unwrap_or_default();
    let mut text = format!("\n### {name}\n\n{about}\n");
    let parts = schema["allOf"]
        .as_array()
        .cloned()
        .unwrap_or_else(|| vec![schema.clone()]);
    text.push('\n');
    for part in &parts {
        if part.get("$ref").is_some() {
            let _ = writeln!(text, "- all of {}", kind(part));
        }
        for (field, schema) in part["properties"].as_object().into_iter().flatten() {
            let needed = part["required"]
                .as_array()
                .is_some_and(|all| all.contains(&field.as_str().into()));
            let about = schema["description"]
                .as_str()
                .map(|about| format!(": {about}"));
            let mark = if needed { "" } else { ", optional" };
            let _ = writeln!(
                text,
                "- `{field}` ({}{mark}){}",
                kind(schema),
                about.unwrap_or_default()
            );
        }
    }
    text
}

/// A schema in a few words.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return format!("[{name}](#{})", name.to_ascii_lowercase());
    }
    let one_of = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
    if let Some(all) = one_of {
        let all: Vec<String> = all
            .iter()
            .filter(|one| one["type"] != "null")
            .map(kind)
            .collect();
        return all.join(" or ");
    }
    match &schema["type"] {
        Value::String(word) if word == "array" => format!("list of {}", kind(&schema["items"])),
        Value::String(word) => word.clone(),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            let word = words
                .iter()
                .find(|word| **word != "null")
                .copied()
                .unwrap_or("anything");
            match word {
                "array" => format!("list of {}", kind(&schema["items"])),
                word => word.to_owned(),
            }
        }
        _ => "anything".to_owned(),
    }
}
