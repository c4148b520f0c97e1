//! One envelope for every list, whoever shows it.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::cases::Place;

const COMMANDS: &str = include_str!("../../../../docs/reference/commands.md");
const OPENAPI: &str = include_str!("../../../server/openapi.json");

/// Lists by another name.
const OTHERS: [&str; 4] = ["ps", "deaths", "task states", "trust --list"];

/// What `list` verbs need besides their name.
fn arguments(verb: &str) -> &'static str {
    match verb {
        "step list" => " --task t",
        _ => "",
    }
}

#[test]
fn every_list_of_the_command_line_has_items_and_next() {
    let place = Place::new();
    place.ok("task add t");
    let verbs = COMMANDS
        .lines()
        .filter_map(|line| line.strip_prefix("## relight "))
        .filter(|verb| verb.ends_with(" list"));
    let verbs: BTreeSet<&str> = verbs.chain(OTHERS).collect();
    assert!(verbs.contains("task list") && verbs.len() > 10, "{verbs:?}");
    for verb in verbs {
        let found = place.json(&format!("{verb}{}", arguments(verb)));
        assert!(found["items"].is_array(), "{verb}: {found}");
        assert!(found.get("next").is_some(), "{verb}: {found}");
    }
}

#[test]
fn every_list_over_http_is_items_and_next() {
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    let schema_of = |operation: &Value| {
        let mut schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
        while let Some(place) = schema["$ref"].as_str() {
            schema = document.pointer(place.trim_start_matches('#')).unwrap();
        }
        schema.clone()
    };
    let mut lists = 0;
    let paths = document["paths"].as_object().unwrap();
    for (path, item) in paths {
        let schema = schema_of(&item["get"]);
        assert_ne!(
            schema["type"], "array",
            "GET {path} is a list without an envelope"
        );
        let has_items_below = paths.contains_key(&format!("{path}/{{id}}"))
            || paths.contains_key(&format!("{path}/{{name}}"))
            || paths.contains_key(&format!("{path}/{{key}}"));
        let fields: BTreeSet<&str> = schema["properties"]
            .as_object()
            .into_iter()
            .flat_map(|fields| fields.keys().map(String::as_str))
            .collect();
        if fields.contains("items") || has_items_below && item.get("get").is_some() {
            // What cannot be read is named only where there is such a row.
            let envelope = BTreeSet::from(["items", "next", "unreadable"]);
            assert_eq!(fields, envelope, "GET {path}");
            lists += 1;
        }
    }
    assert!(lists >= 7, "only {lists} lists were found");
}
