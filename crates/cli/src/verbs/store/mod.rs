//! `relight store`: whole stores, copied, verified, brought back. Needs no daemon, and stops none.

mod copy;

use std::path::Path;

use relight_runtime::os::clock;
use relight_runtime::state_location::StoreAccess;
use relight_runtime::store_url::StoreUrl;
use relight_store::transfer::{self, Findings, TableSum};
use serde_json::json;

use super::progress::Bar;
use crate::arguments::store::{StoreCommand, UrlArguments};
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::{block_on, output, terminal_filter};

/// Hexadecimal digits of a hash that people compare; JSON has all.
const DIGITS: usize = 32;

pub(crate) fn run(environment: &Environment, command: &StoreCommand) -> Outcome {
    match command {
        StoreCommand::Copy(arguments) => copy::run(environment, arguments),
        StoreCommand::Verify(arguments) => verify(environment, arguments),
        StoreCommand::Restored(arguments) => restored(environment, arguments),
    }
}

fn verify(environment: &Environment, arguments: &UrlArguments) -> Outcome {
    let url = url(environment, arguments)?;
    let mut store = url.exporter()?;
    let mut bar = Bar::new(environment);
    let verified = block_on(transfer::verify(store.as_mut(), &mut |progress| {
        bar.tell(progress);
    }))?;
    bar.end();
    let place = store.place();
    let damage = &verified.damage;
    if environment.json {
        output::json(&json!({
            "store": place,
            "tables": verified.tables,
            "rows": rows(&verified.tables),
            "hash": verified.hash,
            "damage": damage,
        }));
    } else if !environment.quiet {
        output::line(&format!("{}\n", terminal_filter::clean(&place)));
        output::line(&sums(&verified.tables, &verified.hash));
        if damage.count == 0 {
            output::line("\nevery row is good");
        }
    }
    tell_damage(environment, damage);
    Ok(if damage.count == 0 {
        0
    } else {
        Exit::Data as u8
    })
}

fn restored(environment: &Environment, arguments: &UrlArguments) -> Outcome {
    let url = url(environment, arguments)?;
    let now = clock::now();
    let least = now.as_ms().cast_unsigned();
    url.raise_numbers(least, &json!({"store": "restored", "least": least}))?;
    let text = format!(
        "fences, turns and epochs go on from {least}; whoever worked with a later state of the store \
         is refused"
    );
    output::answer(environment, &json!({"least": least, "at": now}), &text);
    Ok(0)
}

/// The one that is named, else the one that every command uses.
fn url(environment: &Environment, arguments: &UrlArguments) -> Result<StoreUrl, Failure> {
    let url = match &arguments.url {
        Some(text) => parse(text)?,
        None => environment.store_url()?,
    };
    refuse_memory(url)
}

fn parse(text: &str) -> Result<StoreUrl, Failure> {
    // Mistyped on the command line, it is wrong usage.
    StoreUrl::parse(text, Path::new("."))
        .map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    refuse_memory(StoreAccess::named(text)?.opened()?)
}

fn refuse_memory(url: StoreUrl) -> Result<StoreUrl, Failure> {
    match url {
        StoreUrl::Memory => Err(Failure::new(
            Exit::Usage,
            "memory: keeps nothing past the end of a command",
        )),
        url => Ok(url),
    }
}

fn rows(tables: &[TableSum]) -> u64 {
    tables.iter().map(|sum| sum.rows).sum()
}

/// Counts and hashes, for people.
fn sums(tables: &[TableSum], hash: &str) -> String {
    let row = |name: &str, rows: u64, hash: &str| {
        vec![
            name.to_owned(),
            rows.to_string(),
            hash.chars().take(DIGITS).collect(),
        ]
    };
    let mut all = vec![["table", "rows", "hash"].map(str::to_owned).to_vec()];
    all.extend(
        tables
            .iter()
            .map(|sum| row(sum.table.name(), sum.rows, &sum.hash)),
    );
    all.push(row("all", rows(tables), hash));
    output::table(&all)
}

fn tell_damage(environment: &Environment, damage: &Findings) {
    if environment.json || damage.count == 0 {
        return;
    }
    for told in &damage.told {
        output::alert(&format!("damaged: {told}"));
    }
    let more = damage.count - damage.told.len() as u64;
    if more > 0 {
        output::alert(&format!("damaged: {more} more"));
    }
}
