//! Prints how fast the funnel is: MB/s on prose and logs, and the cost of starting up.

#![expect(
    clippy::disallowed_methods,
    reason = "a measurement reads the monotonic clock itself"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use relight_redact::{MarkKey, Redactor};

const TEXT_BYTES: usize = 8 << 20;
const TIME_MIN: Duration = Duration::from_millis(600);

fn main() {
    let plain = Redactor::new(MarkKey::new([1; 32]));
    let vars = environment();
    let start = || {
        let vars = vars
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        Redactor::new(MarkKey::new([1; 32])).with_environment(vars)
    };
    let knowing = start();
    for (name, line) in [("prose", PROSE), ("log", LOG)] {
        let text = line.repeat(TEXT_BYTES / line.len());
        report(&format!("{name}, no known values"), &text, &plain);
        report(&format!("{name}, 12 known values"), &text, &knowing);
    }
    let secrets = format!("{}{}token={}\n", LOG.repeat(20), PROSE, secret(7));
    report(
        "log, a secret in 3 kB",
        &secrets.repeat(TEXT_BYTES / secrets.len()),
        &knowing,
    );
    println!(
        "start-up, 60 variables: {:.1} µs",
        microseconds(|| drop(black_box(start())))
    );
    let first = || drop(black_box(start().text("a short note")));
    println!(
        "start-up and a first short text: {:.1} µs",
        microseconds(first)
    );
    let short = || drop(black_box(knowing.text(black_box(PROSE))));
    println!("one line of prose: {:.2} µs", microseconds(short));
}

const PROSE: &str = "The agent read the whole file again, passed the second section to the author, \
and noted that the key point of the past session was the order in which its steps were taken. \
Nobody asked why; the parser keeps its tokens, the basic rules stay as they are.\n";

const LOG: &str = "2026-11-15T10:22:31.120Z INFO relight_runtime::run attempt=3 pid=41237 \
task=9f86d081-884c-4d65-9a2f-eaa0c55ad015 step=build tokens_used=18233 exit=0 \
url=https://api.example.com/v1/items?page=3 ms=182\n";

fn report(name: &str, text: &str, redactor: &Redactor) {
    let per_pass = microseconds(|| drop(black_box(redactor.text(black_box(text)))));
    println!("{name}: {:.0} MB/s", text.len() as f64 / per_pass);
}

fn microseconds(mut run: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut passes = 0u32;
    while start.elapsed() < TIME_MIN {
        run();
        passes += 1;
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(passes)
}

/// A typical environment: 60 variables, of which 12 are secret.
fn environment() -> Vec<(String, String)> {
    let ordinary = (0..48).map(|n| (format!("SETTING_{n}"), format!("/usr/lib/thing/{n}:/opt/x")));
    let secret = (0..12).map(|n| (format!("SERVICE_{n}_API_KEY"), secret(n)));
    ordinary.chain(secret).collect()
}

fn secret(n: u32) -> String {
    let hash = blake3::hash(&n.to_le_bytes());
    format!("sk{}", hash.to_hex().as_str().split_at(40).0)
}
