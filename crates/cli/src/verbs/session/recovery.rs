//! `relight session recover`: what a gateway calls at its start.

use relight_core::agent::plain::harmless_json;
use relight_core::session::{Policy, Rules};
use relight_runtime::sessions::{self, Decided};

use crate::arguments::session::SessionRecoverArguments;
use crate::environment::Environment;
use crate::exit::{Failure, Outcome};
use crate::work::find_config;
use crate::{block_on, output};

/// So much of the answer is printed at a time.
const PRINTED_AT_ONCE_BYTES: usize = 64 << 10;

pub(super) fn recover(environment: &Environment, arguments: &SessionRecoverArguments) -> Outcome {
    let rules = rules(environment, arguments)?;
    let engine = environment.long_engine()?;
    let mut page = RecoveryPrinter::begin(environment, arguments.dry_run, rules.policy);
    block_on(async {
        let mut tell = |one| page.add(&one);
        match arguments.dry_run {
            true => sessions::find_each(&engine, &rules, &mut tell).await,
            false => sessions::recover_each(&engine, &rules, &mut tell).await,
        }
    })?;
    page.end();
    Ok(0)
}

/// The answer, printed as it comes: there may be a hundred thousand sessions, and each is told once it
/// is on disk.
struct RecoveryPrinter {
    json: bool,
    quiet: bool,
    verb: &'static str,
    /// Not printed yet.
    text: String,
    is_empty: bool,
}

impl RecoveryPrinter {
    fn begin(environment: &Environment, dry_run: bool, policy: Policy) -> Self {
        let head =
            format!("{{\n  \"dry_run\": {dry_run},\n  \"policy\": \"{policy}\",\n  \"items\": [");
        Self {
            json: environment.json,
            quiet: environment.quiet,
            verb: if dry_run { "would become" } else { "is" },
            text: if environment.json {
                head
            } else {
                String::new()
            },
            is_empty: true,
        }
    }

    fn add(&mut self, one: &Decided) {
        if self.json {
            self.text += if self.is_empty { "\n    " } else { ",\n    " };
            self.text += &harmless_json(&serde_json::to_string(one).expect("it has string keys"));
        } else {
            self.text += &in_words(one, self.verb);
            self.text.push('\n');
        }
        self.is_empty = false;
        if self.text.len() >= PRINTED_AT_ONCE_BYTES {
            self.print();
        }
    }

    fn end(mut self) {
        match (self.json, self.is_empty) {
            (true, true) => self.text += "],\n  \"next\": null\n}\n",
            (true, false) => self.text += "\n  ],\n  \"next\": null\n}\n",
            (false, true) => self.text += "no session was cut off\n",
            (false, false) => {}
        }
        self.print();
    }

    fn print(&mut self) {
        if self.json || !self.quiet {
            output::write_out(self.text.as_bytes());
        }
        self.text.clear();
    }
}

/// What the flags say, over what the configuration says.
fn rules(environment: &Environment, arguments: &SessionRecoverArguments) -> Result<Rules, Failure> {
    let configured = find_config(environment, arguments.config.as_deref())?;
    let configured = configured.map_or_else(Rules::default, |config| config.sessions);
    Ok(configured.with(arguments.policy, arguments.freshness, arguments.window))
}

pub(crate) fn in_words(one: &Decided, verb: &str) -> String {
    let reason = one.reason.as_deref().unwrap_or("no reason is known");
    output::one_line(&format!(
        "session {} {verb} {}: {reason}",
        one.key, one.state
    ))
}
