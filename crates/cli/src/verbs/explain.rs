//! `relight explain`: what a code, an event or a state means, and what to do about it.

use relight_core::error_code::ErrorCode;
use relight_core::explain::{self, Explanation, Vocabulary};
use serde_json::json;

use crate::arguments::other::ExplainArguments;
use crate::environment::Environment;
use crate::exit::{Failure, Outcome};
use crate::output;

pub(crate) fn run(environment: &Environment, arguments: &ExplainArguments) -> Outcome {
    if arguments.words.is_empty() {
        let all = explain::all();
        output::answer(environment, &list(&all), &table(&all));
        return Ok(0);
    }
    let word = arguments.words.join(" ");
    let found = explain::explain(&word);
    if found.is_empty() {
        return Err(unknown(&word));
    }
    let texts: Vec<String> = found.iter().map(in_words).collect();
    output::answer(environment, &list(&found), &texts.join("\n\n"));
    Ok(0)
}

fn list(found: &[Explanation]) -> serde_json::Value {
    json!({"items": found, "next": null})
}

fn in_words(it: &Explanation) -> String {
    let codes = match (it.exit, it.status) {
        (Some(exit), Some(status)) => format!(" (exit code {exit}, HTTP {status})"),
        _ => String::new(),
    };
    let what = format!("{} {}{codes}", it.kind.as_str(), it.word);
    let meaning = it.meaning.trim_end_matches('.');
    match &it.action {
        Some(action) => format!("{what}\n  means: {meaning}\n  do:    {action}"),
        None => format!("{what}\n  means: {meaning}"),
    }
}

fn table(all: &[Explanation]) -> String {
    let part = |kind: Vocabulary| {
        let of_kind = all.iter().filter(|it| it.kind == kind);
        let rows: Vec<Vec<String>> = of_kind
            .map(|it| vec![format!("  {}", it.word), it.meaning.clone()])
            .collect();
        format!("{}\n{}", kind.as_str(), output::table(&rows))
    };
    Vocabulary::ALL.map(part).join("\n\n")
}

/// Names what begins like it.
fn unknown(word: &str) -> Failure {
    let begins = word.get(..3).unwrap_or(word).to_lowercase();
    let all = explain::all();
    let mut near: Vec<&str> = all
        .iter()
        .map(|it| it.word.as_str())
        .filter(|known| !begins.is_empty() && known.contains(&begins))
        .collect();
    near.dedup();
    near.truncate(6);
    let text = format!("{word:?} is not a code, event, cause, status, state or term of Relight");
    Failure::of(ErrorCode::NOT_FOUND, text).hint(match near.is_empty() {
        true => "relight explain lists all words".to_owned(),
        false => format!("relight explain with one of: {}", near.join(", ")),
    })
}
