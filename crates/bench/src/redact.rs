//! `redact`: how fast prose is searched for secrets, on one core.

use std::hint::black_box;
use std::time::Instant;

use crate::contest::Contest;
use crate::product;
use crate::prose::prose;
use crate::row::{Row, Target};
use crate::stage::Stage;

const FLOOR: &str = "checked as UTF-8 and copied";

pub(crate) fn rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let target = Target::ValueMin(100.0);
    let sizes = [
        ("whole outputs of 1 MiB", 1 << 20),
        ("results of 1 KiB", 1 << 10),
    ];
    let mut rows = Vec::new();
    for (what, bytes) in sizes {
        let text = prose(bytes);
        let times = stage.pick(128, 16) * (1 << 20) / bytes;
        let mut contest = Contest::default();
        contest.enter("redact", |_| {
            Ok(megabytes_per_second(&text, times, product::redact))
        });
        contest.enter(FLOOR, |_| Ok(megabytes_per_second(&text, times, copy)));
        let results = contest.run(stage.pick(7, 3))?;
        let row = Row::new(what, "MB/s")
            .figure(results.get("redact"))
            .beside(FLOOR, results.get(FLOOR))
            .target(target);
        rows.push(row);
    }
    Ok(rows)
}

fn copy(text: &str) -> String {
    std::str::from_utf8(text.as_bytes())
        .map(String::from)
        .unwrap_or_default()
}

fn megabytes_per_second(text: &str, times: usize, work: fn(&str) -> String) -> f64 {
    let began = Instant::now();
    for _ in 0..times {
        black_box(work(black_box(text)));
    }
    (text.len() * times) as f64 / 1e6 / began.elapsed().as_secs_f64()
}
