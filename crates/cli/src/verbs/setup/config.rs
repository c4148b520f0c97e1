//! `relight setup config`: a `relight.toml` with every key in it, commented.

use serde_json::json;

use crate::arguments::other::ConfigArguments;
use crate::config::DEFAULT;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::{output, whole_file};

pub(super) fn run(environment: &Environment, given: &ConfigArguments) -> Outcome {
    if given.print {
        output::write_out(DEFAULT.as_bytes());
        return Ok(0);
    }
    let file = &given.file;
    let failure = |verb, error| whole_file::failure(verb, file, &error);
    // A link to nothing is there too: writing would make a file somewhere else.
    let is_link = file.is_symlink();
    let is_there = is_link
        || whole_file::read(file)
            .map_err(|error| failure("read", error))?
            .is_some();
    if is_there && !given.force {
        let text = format!("{} is there already", file.display());
        return Err(Failure::new(Exit::No, text)
            .hint("relight setup config --print shows the default one; --force replaces yours"));
    }
    whole_file::replace(file, DEFAULT.as_bytes()).map_err(|error| failure("write", error))?;
    let text = format!(
        "wrote {}; name your agents in it, then: relight up",
        file.display()
    );
    output::answer(environment, &json!({"file": file}), &text);
    Ok(0)
}
