//! `relight session import` and `export`: `agent_checkpoints.json`, as other gateways keep it.

use std::io::Read as _;
use std::path::Path;

use relight_core::agent::plain::harmless_json;
use relight_core::error_code::ErrorCode;
use relight_runtime::operations::session::{
    ImportedSessions, SessionImport, export as export_marks,
};
use serde_json::json;

use crate::arguments::session::{FileArguments, SessionImportArguments};
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::{block_on, output, whole_file};

/// No list of turns in flight is longer.
const INPUT_BYTES_MAX: u64 = 16 << 20;

pub(super) fn import(environment: &Environment, arguments: &SessionImportArguments) -> Outcome {
    let (file, owner_pid) = (&arguments.file.file, arguments.owner_pid);
    super::check_owner(environment, owner_pid)?;
    let marks = read(file)?;
    let done = super::operate(environment, owner_pid, SessionImport { marks, owner_pid })?;
    let mut answer = json!(done);
    answer["file"] = json!(file);
    output::answer(environment, &answer, &in_words(&done));
    let code = match (done.damaged.is_empty(), done.refused.is_empty()) {
        (false, _) => Exit::Data as u8,
        (true, false) => Exit::No as u8,
        (true, true) => 0,
    };
    Ok(code)
}

fn in_words(done: &ImportedSessions) -> String {
    let mut lines = vec![format!("{} turns in flight imported", done.imported.len())];
    let refused = done.refused.iter();
    lines.extend(refused.map(|one| format!("{} is left as it is: {}", one.key, one.reason)));
    let damaged = done.damaged.iter();
    lines.extend(damaged.map(|one| format!("{:?} is damaged: {}", one.key, one.reason)));
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
    let (count, text) = block_on(export_marks(&engine))?;
    let file = &arguments.file;
    if file == Path::new("-") {
        output::write_out(harmless_json(&text).as_bytes());
        return Ok(0);
    }
    whole_file::replace(file, text.as_bytes())
        .map_err(|error| whole_file::failure("write", file, &error))?;
    let words = format!("{count} turns in flight are in {}", file.display());
    output::answer(
        environment,
        &json!({"file": file, "sessions": count}),
        &words,
    );
    Ok(0)
}
