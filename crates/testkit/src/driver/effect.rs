//! What a step does to the world: one line in the ledger. And the question whether it did.

use std::io::Write as _;

use relight_runtime::os::random;

use crate::world::ledger::{Entry, Ledger};

/// Acts, and gives what no other effect gives.
pub fn act(ledger: &Ledger, task: &str, step: &str, key: &str) -> std::io::Result<String> {
    let chance = random::number();
    let token = format!("{step}-{chance:016x}");
    let (step, key) = (step.to_owned(), key.to_owned());
    ledger.append(
        task,
        &Entry::Effect {
            step,
            key,
            token: token.clone(),
        },
    )?;
    Ok(token)
}

/// The command of a step: acts, and prints what it gives.
pub fn command(ledger: &Ledger, task: &str, step: &str, key: &str) -> u8 {
    match act(ledger, task, step, key) {
        Ok(token) => {
            // Whoever started us may be dead by now; the effect stands.
            let _ = writeln!(std::io::stdout(), "{token}");
            0
        }
        Err(error) => {
            eprintln!("the effect could not write its line: {error}");
            super::UNEXPECTED
        }
    }
}

/// The command of `--verify`: 0 it happened, 1 it did not.
pub fn happened(ledger: &Ledger, task: &str, step: &str) -> u8 {
    match ledger.happened(task, step) {
        Ok(happened) => u8::from(!happened),
        Err(_) => 2,
    }
}
