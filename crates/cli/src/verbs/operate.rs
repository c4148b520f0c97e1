//! Runs an operation for the command line: prints its answer, then tells of the files beside the store.

use relight_core::ids::TaskId;
use relight_runtime::dialect::FileCopyError;
use relight_runtime::dialect::SetAside;
use relight_runtime::operations::{Context, Operation, Written};
use serde::Serialize;

use crate::environment::Environment;
use crate::exit::{Exit, Failure};
use crate::{block_on, output, terminal_filter};

/// What operations work with: the open store and the folder of its state.
pub(super) fn context(environment: &Environment) -> Result<Context, Failure> {
    let engine = environment.engine()?;
    let home = environment.store_folder(&engine)?;
    Ok(Context { engine, home })
}

/// Runs an operation and prints its answer.
pub(super) fn operate<O: Operation>(
    environment: &Environment,
    request: O,
    text: impl FnOnce(&O::Answer) -> String,
) -> Result<Written<O::Answer>, Failure> {
    let written = block_on(request.run(&context(environment)?))?;
    tell(environment, &written, &text(&written.answer))?;
    Ok(written)
}

/// Prints an answer; exit code 73 when a file beside the store could not be written.
pub(super) fn tell<T: Serialize>(
    environment: &Environment,
    written: &Written<T>,
    text: &str,
) -> Result<(), Failure> {
    output::answer(environment, written, text);
    file_check(written)
}

/// After a verb that is not an operation: brings the files beside the store up to date.
pub(super) async fn refresh(context: &Context, id: &TaskId) -> Result<(), Failure> {
    file_check(&context.refresh(id).await?)
}

pub(super) fn file_check<T>(written: &Written<T>) -> Result<(), Failure> {
    for report in &written.set_aside {
        output::alert(&terminal_filter::clean(&set_aside_text(report)));
    }
    written
        .file_error
        .as_ref()
        .map_or(Ok(()), |error| Err(not_copied(error)))
}

/// The store has it, its file has not.
pub(super) fn not_copied(error: &FileCopyError) -> Failure {
    let text = format!(
        "saved in the store, but not in {}: {}",
        error.path, error.reason
    );
    Failure::new(Exit::FileCopy, text).hint("the next update writes it again")
}

pub(super) fn set_aside_text(report: &SetAside) -> String {
    let place = match &report.now_at {
        Some(place) => format!("set aside as {}", place.display()),
        None => "left in place".to_owned(),
    };
    let what = if report.is_damaged {
        "is damaged"
    } else {
        "is not used"
    };
    format!(
        "{} {what}: {} ({place})",
        report.file.display(),
        report.reason
    )
}
