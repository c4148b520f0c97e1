//! A short run of every target: its corpus, then a fixed number of inputs made from it.
//!
//! `FUZZ_SEED=7 FUZZ_TIMES=100 cargo test -p relight-fuzz` tries others, and more of them.

use std::panic::catch_unwind;

use relight_fuzz::{Mutator, TARGETS, Target};

/// Runs one target; the input that breaks its promise is shown.
fn try_all(target: Target) {
    let corpus = target.corpus();
    assert!(!corpus.is_empty(), "{} has no corpus", target.name);
    let mut mutator = Mutator::new(number("FUZZ_SEED", 1));
    let count = target.short_inputs * usize::try_from(number("FUZZ_TIMES", 1)).unwrap_or(1);
    let made = (0..count)
        .map(|_| mutator.next(&corpus))
        .collect::<Vec<_>>();
    for input in corpus.iter().chain(&made) {
        let held = catch_unwind(|| (target.run)(input));
        assert!(
            held.is_ok(),
            "{}: {:?}",
            target.name,
            String::from_utf8_lossy(input)
        );
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test asks its caller, not the product's user"
)]
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(usual)
}

macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            try_all(Target::by_name(stringify!($name)).expect("it is in the table"));
        })*

        #[test]
        fn every_target_is_run() {
            let run = [$(stringify!($name)),*];
            assert_eq!(run.as_slice(), TARGETS.iter().map(|target| target.name).collect::<Vec<_>>());
        }
    };
}

targets!(
    active_state,
    arguments,
    bodies,
    checkpoint,
    client_answer,
    config,
    connection,
    exec_answer,
    exit_record,
    headers,
    notify,
    plain,
    preset_file,
    preset_stream,
    queries,
    redaction,
    session_marks,
    strict_json,
    terminal,
    transcript,
    values,
    wire,
    words,
);
