//! `relight-fake-agent --folder DIR --name NAME …`: an agent that behaves as badly as its flags say.

use std::process::ExitCode;

use relight_testkit::agent::{self, Options, Places};
use relight_testkit::world::clock;

fn main() -> ExitCode {
    let at_ns = clock::monotonic_ns();
    let words: Vec<String> = std::env::args().skip(1).collect();
    match Options::parse(&words) {
        Ok(options) => ExitCode::from(live(&options, at_ns)),
        Err(error) => {
            eprintln!("relight-fake-agent: {error:#}");
            ExitCode::from(agent::UNUSABLE)
        }
    }
}

/// What goes wrong is told where the prover looks: nobody reads what an agent prints.
fn live(options: &Options, at_ns: u64) -> u8 {
    agent::run(options, at_ns).unwrap_or_else(|error| {
        Places::at(&options.folder).complain(&format!("unusable: {}: {error:#}", options.name));
        agent::UNUSABLE
    })
}
