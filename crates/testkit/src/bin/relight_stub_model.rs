//! `relight-stub-model [--port N] [--record FILE] ANSWER…`: a model for real agent programs in tests.
//!
//! Answers are `say:TEXT`, `call:TOOL:{…}`, `status:CODE:RETRY_AFTER:TEXT` and `wait:SECONDS`. Prints its
//! port when it listens.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use relight_testkit::model::{Script, StubModel};

#[derive(Parser)]
struct Arguments {
    /// The port; any when 0.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Where requests are kept, one JSON document a line.
    #[arg(long)]
    record: Option<PathBuf>,
    /// What is answered, in this order; the last for ever.
    answers: Vec<String>,
}

fn main() -> anyhow::Result<()> {
    let Arguments {
        port,
        record,
        answers,
    } = Arguments::parse();
    let model = StubModel::bind(port, Arc::new(Script::parse(&answers)?), record.as_deref())?;
    println!("{}", model.port()?);
    model.serve()?;
    Ok(())
}
