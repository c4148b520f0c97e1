//! `relight dashboard`: a link that logs a browser in, opened or printed.

use std::path::Path;
use std::process::Stdio;

use relight_core::error_code::with_causes;
use relight_core::time::Span;
use relight_runtime::os::process;
use relight_runtime::supervise::control::{AskError, daemon_socket, holder};
use relight_server::client;

use super::overview;
use crate::arguments::agent::DashboardArguments;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

const PATIENCE: Span = Span::from_secs(10);
/// Programs that open a link, the likeliest first.
const OPENERS: [&str; 3] = ["xdg-open", "open", "wslview"];

pub(crate) fn run(environment: &Environment, arguments: &DashboardArguments) -> Outcome {
    if cfg!(not(feature = "dashboard")) {
        return Err(Failure::not_built("dashboard", "dashboard"));
    }
    let home = environment.state_folder()?;
    let asked = client::login_code(&daemon_socket(&home), PATIENCE);
    let asked = asked.map_err(|error| no_answer(environment, &home, &error))?;
    let code = asked.map_err(|refused| {
        let failure = Failure::new(Exit::No, refused.message);
        match refused.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })?;
    let is_opened = !arguments.print && !environment.json && open(&code.url);
    if is_opened {
        output::note(environment, "the dashboard is opened in a browser");
        return Ok(0);
    }
    output::answer(environment, &code, &code.url);
    if !arguments.print {
        output::note(
            environment,
            "open it in a browser within a minute; it works once",
        );
    }
    Ok(0)
}

/// Whether a program took the link.
fn open(url: &str) -> bool {
    OPENERS.iter().any(|opener| {
        let mut command = process::command(opener, &[url]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}

fn no_answer(environment: &Environment, home: &Path, error: &AskError) -> Failure {
    if let Some(process) = holder(&daemon_socket(home)) {
        let (text, hint) = overview::silent(home, &process);
        return Failure::new(Exit::Unreachable, text).hint(hint);
    }
    match error {
        AskError::Nobody(_) => {
            let how = overview::how_to_start(environment);
            Failure::new(Exit::Unreachable, "no daemon runs here").hint(how)
        }
        AskError::Broken(_) | AskError::TooSlow(_) => Failure::new(
            Exit::Unreachable,
            format!("the daemon: {}", with_causes(error)),
        ),
    }
}
