//! Every parser of outside input by its name, each with what must hold whatever it is given.
//!
//! The functions are in `targets/`; here is the one table that both
//! `./prove fuzz` (by coverage, as long as one likes) and `./test` (a fixed number of inputs) run.

mod mutate;
mod targets;

use std::path::PathBuf;

pub use mutate::Mutator;

/// One parser.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Also the folder of its corpus.
    pub name: &'static str,
    /// Panics when the promise does not hold.
    pub run: fn(&[u8]),
    /// How many inputs a short run tries: fewer where each takes longer.
    pub short_inputs: usize,
}

const fn target(name: &'static str, short_inputs: usize, run: fn(&[u8])) -> Target {
    Target {
        name,
        run,
        short_inputs,
    }
}

/// All of them.
pub const TARGETS: &[Target] = &[
    target("active_state", 4_000, targets::core::active_state),
    target("arguments", 150, targets::cli::arguments),
    target("bodies", 2_000, targets::server::bodies),
    target("checkpoint", 4_000, targets::core::checkpoint),
    target("client_answer", 8_000, targets::server::client_answer),
    target("config", 1_000, targets::cli::config),
    target("connection", 1_500, targets::server::connection),
    target("exec_answer", 8_000, targets::runtime::exec_answer),
    target("exit_record", 4_000, targets::runtime::exit_record),
    target("headers", 4_000, targets::server::headers),
    target("notify", 8_000, targets::runtime::notify),
    target("plain", 8_000, targets::core::plain),
    target("preset_file", 1_500, targets::runtime::preset_file),
    target("preset_stream", 1_500, targets::runtime::preset_stream),
    target("queries", 2_000, targets::server::queries),
    target("redaction", 2_000, targets::core::redaction),
    target("session_marks", 4_000, targets::core::session_marks),
    target("strict_json", 8_000, targets::core::strict_json),
    target("terminal", 4_000, targets::cli::terminal),
    target("transcript", 1_000, targets::runtime::transcript),
    target("values", 8_000, targets::cli::values),
    target("wire", 2_000, targets::runtime::wire),
    target("words", 8_000, targets::core::words),
];

impl Target {
    /// The target of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        TARGETS.iter().find(|target| target.name == name).copied()
    }

    /// The folder of its first inputs.
    pub fn corpus_folder(self) -> PathBuf {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus")).join(self.name)
    }

    /// Its first inputs, in the order of their names.
    pub fn corpus(self) -> Vec<Vec<u8>> {
        let entries = std::fs::read_dir(self.corpus_folder())
            .into_iter()
            .flatten()
            .flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.sort();
        files
            .iter()
            .filter_map(|file| std::fs::read(file).ok())
            .collect()
    }
}
