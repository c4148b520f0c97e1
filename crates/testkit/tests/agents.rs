//! Real agent programs, killed while a tool runs: `./prove agents --quick` for two of them.
//!
//! They are installed from npm when they are missing. Without npm, its registry or a network namespace,
//! SKIPPED is printed and nothing is tried.

use std::path::Path;

use relight_runtime::os::process;

#[test]
fn a_killed_codex_continues_its_conversation_and_repeats_no_effect() {
    prove("codex");
}

#[test]
fn a_killed_claude_code_continues_its_conversation_and_repeats_no_effect() {
    prove("claude");
}

/// What it prints is not captured: `./test` looks for what was skipped.
fn prove(cli: &str) {
    let prover = Path::new(env!("CARGO_BIN_EXE_relight-prove"));
    let mut command = process::command(prover, &["--quick", "agents", "--cli", cli]);
    let status = command.status().expect("it is built");
    assert!(status.success(), "{status}");
}
