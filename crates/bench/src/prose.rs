//! Plain English without secrets, as agents write it.

const SENTENCES: [&str; 8] = [
    "The build failed because the linker could not find the symbol, so I read the header again. ",
    "After the second attempt all 214 tests passed and the branch was pushed for review. ",
    "I opened src/store/lease.rs and saw that renewal compares the task but not the fence. ",
    "Next step: write the migration, run it on a copy, and compare the row counts. ",
    "The user asked for a shorter summary; I removed the table and kept the three findings. ",
    "See https://example.org/docs/recovery?page=2 for the description of the retry rule. ",
    "Nothing in the log explains the gap between 10:41 and 10:58, which may be a suspend. ",
    "It took 3.4 seconds on my machine, about half of what the old version needed. ",
];

/// Exactly `bytes` of it.
pub(crate) fn prose(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 100);
    let mut next = 0;
    while text.len() < bytes {
        text.push_str(SENTENCES[next % SENTENCES.len()]);
        // Not simply in turn: a repeating page is kinder to branch prediction than life.
        next = next * 5 + 3 + text.len() % 7;
        next %= 4096;
    }
    text.truncate(bytes);
    text
}
