//! `relight session import` and `export`: `agent_checkpoints.json`, as other gateways keep it.

use std::io::Read as _;
use std::path::Path;

use relight_core::agent::plain::harmless_json;
use relight_core::error_code::ErrorCode;
use relight_core::session::{read_marks, write_marks};
use relight_runtime::sessions::{self, ImportedMarks};
use serde_json::{Value, json};

use crate::arguments::session::{FileArguments, SessionImportArguments};
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::{block_on, output, whole_file};

/// No list of turns in flight is longer.
const INPUT_BYTES_MAX: u64 = 16 << 20;

pub(super) fn import(environment: &Environment, arguments: &SessionImportArguments) -> Outcome {
    let file = &arguments.file.file;
    let engine = environment.engine()?;
    let process = |pid| environment.named_process(pid, engine.store().as_ref());
    let owner = arguments.owner_pid.map(process).transpose()?;
    let marks = read_marks(&read(file)?).map_err(|error| {
        Failure::new(
            Exit::Data,
            format!("{} is damaged: {error}", file.display()),
        )
        .hint("nothing was imported; relight session list shows what the store knows")
    })?;
    let damaged = marks.damaged.clone();
    let done = block_on(sessions::import(
        &engine,
        marks,
        owner.map(|owner| (owner, None)),
    ))?;
    let text = in_words(&done, &damaged);
    output::answer(environment, &answer(file, &done, &damaged), &text);
    let code = match (damaged.is_empty(), done.refused.is_empty()) {
        (false, _) => Exit::Data as u8,
        (true, false) => Exit::No as u8,
        (true, true) => 0,
    };
    Ok(code)
}

fn answer(file: &Path, done: &ImportedMarks, damaged: &[(String, String)]) -> Value {
    let pair = |key: &str, reason: String| json!({"key": key, "reason": reason});
    let refused = done
        .refused
        .iter()
        .map(|(key, why)| pair(key.as_str(), why.to_string()));
    let damaged = damaged.iter().map(|(key, why)| pair(key, why.clone()));
    json!({
        "file": file,
        "imported": done.imported,
        "same": done.same,
        "refused": refused.collect::<Vec<_>>(),
        "damaged": damaged.collect::<Vec<_>>(),
    })
}

fn in_words(done: &ImportedMarks, damaged: &[(String, String)]) -> String {
    let mut lines = vec![format!("{} turns in flight imported", done.imported.len())];
    lines.extend(
        done.refused
            .iter()
            .map(|(key, why)| format!("{key} is left as it is: {why}")),
    );
    lines.extend(
        damaged
            .iter()
            .map(|(key, why)| format!("{key:?} is damaged: {why}")),
    );
    lines.join("\n")
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        let input = std::io::stdin()
            .take(INPUT_BYTES_MAX)
            .read_to_end(&mut bytes);
        input.map_err(|error| whole_file::failure("read", Path::new("standard input"), &error))?;
        return Ok(bytes);
    }
    let read = whole_file::read(file).map_err(|e| whole_file::failure("read", file, &e))?;
    read.ok_or_else(|| {
        let text = format!("there is no file {}; nothing was imported", file.display());
        Failure::of(ErrorCode::NOT_FOUND, text).hint("relight session import FILE")
    })
}

pub(super) fn export(environment: &Environment, arguments: &FileArguments) -> Outcome {
    let engine = environment.engine()?;
    let in_flight = block_on(sessions::in_flight(&engine))?;
    let text = write_marks(&in_flight);
    let file = &arguments.file;
    if file == Path::new("-") {
        output::write_out(harmless_json(&text).as_bytes());
        return Ok(0);
    }
    whole_file::replace(file, text.as_bytes())
        .map_err(|error| whole_file::failure("write", file, &error))?;
    let count = in_flight.len();
    let words = format!("{count} turns in flight are in {}", file.display());
    output::answer(
        environment,
        &json!({"file": file, "sessions": count}),
        &words,
    );
    Ok(0)
}
