//! `doctor --salvage`: a new store from what can be read of a damaged one.

use relight_core::error_code::ErrorCode;
use std::fs;
use std::path::{Path, PathBuf};

use relight_runtime::os::clock;
use relight_runtime::store_url::StoreUrl;
use relight_store::sqlite::salvage::{Salvaged, salvage};
use serde_json::{Value, json};

use super::machine::quoted;
use super::store::with_suffix;
use crate::environment::Environment;
use crate::exit::{Exit, Failure};
use crate::output;

/// What became of it.
pub(super) struct Salvage {
    from: PathBuf,
    to: PathBuf,
    tables: Vec<Salvaged>,
}

pub(super) fn run(environment: &Environment, to: Option<&Path>) -> Result<Salvage, Failure> {
    let StoreUrl::Sqlite(from) = environment.store_url()? else {
        return Err(Failure::new(
            Exit::Usage,
            "only a store in a file can be salvaged",
        ));
    };
    if !from.is_file() {
        let text = format!("there is no file {} to salvage", from.display());
        return Err(
            Failure::of(ErrorCode::NOT_FOUND, text).hint("--store sqlite:PATH names another")
        );
    }
    let to = to.map_or_else(|| beside(&from), Path::to_owned);
    if to.symlink_metadata().is_ok() {
        let text = format!("{} exists", to.display());
        return Err(Failure::new(Exit::Usage, text).hint("name a new file for --salvage"));
    }
    let tables = salvage(&from, &to).inspect_err(|_| remove_new(&to))?;
    let salvaged = Salvage { from, to, tables };
    if salvaged.copied() == 0 && salvaged.has_losses() {
        remove_new(&salvaged.to);
        let text = format!("nothing could be read of {}", salvaged.from.display());
        return Err(Failure::new(Exit::Data, text)
            .hint("bring a backup back, or move the file away and begin anew"));
    }
    Ok(salvaged)
}

impl Salvage {
    fn copied(&self) -> u64 {
        self.tables.iter().map(|table| table.copied).sum()
    }

    fn has_losses(&self) -> bool {
        self.tables.iter().any(|table| !table.errors.is_empty())
    }

    pub(super) fn exit(&self) -> u8 {
        if self.has_losses() {
            Exit::Data as u8
        } else {
            0
        }
    }

    pub(super) fn json(&self) -> Value {
        let tables = self.tables.iter().map(
            |table| json!({"table": table.table, "copied": table.copied, "errors": table.errors}),
        );
        json!({
            "from": self.from,
            "to": self.to,
            "complete": !self.has_losses(),
            "tables": tables.collect::<Vec<_>>(),
            "type_next": self.type_next(),
        })
    }

    pub(super) fn text(&self) -> String {
        let mut rows = vec![["table", "copied", "lost"].map(str::to_owned).to_vec()];
        for table in &self.tables {
            let lost = match table.errors.first() {
                None => "nothing".to_owned(),
                Some(error) => format!("the rest: {error}"),
            };
            rows.push(vec![table.table.to_owned(), table.copied.to_string(), lost]);
        }
        format!(
            "\nsalvaged into {}\n{}\n\nthe damaged file is unchanged; to continue with the new one, \
             stop everything of Relight and type:\n  {}",
            self.to.display(),
            output::table(&rows),
            self.type_next().join("\n  ")
        )
    }

    /// The old log must not stay beside the new file: SQLite would play it into it.
    fn type_next(&self) -> Vec<String> {
        let aside = with_suffix(&self.from, ".damaged");
        let (from, to, aside) = (quoted(&self.from), quoted(&self.to), quoted(&aside));
        vec![
            format!("mkdir -m 700 {aside} && mv {from} {from}-* {aside}/"),
            format!("mv {to} {from}"),
            "relight doctor --whole".to_owned(),
        ]
    }
}

fn beside(from: &Path) -> PathBuf {
    let now = clock::now().to_string();
    let seconds = now.split('.').next().unwrap_or(&now);
    let time: String = seconds
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    with_suffix(from, &format!(".salvaged-{}Z", time.trim_end_matches('Z')))
}

/// Only ever a file that was not there before.
fn remove_new(to: &Path) {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let _ = fs::remove_file(with_suffix(to, suffix));
    }
}
