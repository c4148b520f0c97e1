//! A program that finds the tasks of its dead predecessor: gives them to their strategy and takes the
//! first one up. Tells how long that took since it began, and its memory at most.
#![expect(clippy::disallowed_methods, reason = "a bench measures time")]

use std::time::{Duration, Instant};

use anyhow::Context as _;
use relight_runtime::Relight;

/// Longer than any machine takes.
const WAIT_MAX: Duration = Duration::from_secs(120);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let began = Instant::now();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [store, count] = words.as_slice() else {
        anyhow::bail!("STORE COUNT")
    };
    let count: usize = count.parse()?;
    let relight = Relight::open(store).await?;
    let queue = relight.queue();
    let first = async move {
        let task = queue
            .claim_wait("bench", &[], WAIT_MAX)
            .await?
            .context("nothing to resume")?;
        anyhow::ensure!(task.resumed(), "a task that nobody worked on");
        anyhow::Ok((began.elapsed(), task))
    };
    let all = async { anyhow::Ok((relight.recover().await?, began.elapsed())) };
    let (all, first) = tokio::join!(all, first);
    let ((swept, all), (first, _task)) = (all?, first?);
    anyhow::ensure!(
        swept.recovered.len() == count,
        "{} were recovered",
        swept.recovered.len()
    );
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .context("VmHWM")?;
    let peak_kib: f64 = peak
        .split_whitespace()
        .next()
        .context("a number")?
        .parse()?;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{{\"first_ms\": {}, \"all_ms\": {}, \"peak_mib\": {}}}",
        ms(first),
        ms(all),
        peak_kib / 1024.0
    );
    Ok(())
}
