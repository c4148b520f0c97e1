//! `/metrics`, read as Prometheus reads it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::ground::Ground;

/// A page, read strictly: every number belongs to a family that was announced just before it, no series
/// comes twice, and histograms add up.
struct Read {
    /// The kind of each family.
    kinds: BTreeMap<String, String>,
    /// By name and labels, as they stand.
    series: BTreeMap<String, f64>,
}

fn read(page: &str) -> Read {
    let (mut kinds, mut series, mut helped) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
    let mut family = String::new();
    assert!(page.ends_with('\n'));
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(helped.insert(name.to_owned()) && !help.is_empty(), "{line}");
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["gauge", "counter", "histogram"].contains(&kind), "{line}");
            assert!(helped.contains(name), "{line}");
            assert!(
                kinds.insert(name.to_owned(), kind.to_owned()).is_none(),
                "{line}"
            );
            name.clone_into(&mut family);
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        let bare = name.split('{').next().unwrap();
        let of_family = match kinds[&family].as_str() {
            "histogram" => ["_bucket", "_sum", "_count"]
                .iter()
                .any(|end| bare == format!("{family}{end}")),
            _ => bare == family,
        };
        assert!(of_family, "{line} is not of {family}");
        assert_labels(name);
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        assert!(value >= 0.0, "{line}");
        assert!(
            series.insert(name.to_owned(), value).is_none(),
            "{line} comes twice"
        );
    }
    let read = Read { kinds, series };
    read.assert_histograms();
    read
}

/// `name`, or `name{label="value"}` with nothing in the value that would end it.
fn assert_labels(name: &str) {
    let Some((_, labels)) = name.split_once('{') else {
        return;
    };
    let inner = labels.strip_suffix('}').unwrap_or_else(|| panic!("{name}"));
    let (label, value) = inner.split_once('=').unwrap();
    assert!(
        label.chars().all(|c| c.is_ascii_lowercase() || c == '_'),
        "{name}"
    );
    let value = value
        .strip_prefix('"')
        .and_then(|value| value.strip_suffix('"'))
        .unwrap();
    assert!(!value.contains(['"', '\n']), "{name}");
}

impl Read {
    fn assert_histograms(&self) {
        for (name, _) in self.kinds.iter().filter(|(_, kind)| *kind == "histogram") {
            let bound = |series: &str| {
                let text = series.strip_prefix(&format!("{name}_bucket{{le=\""))?;
                let text = text.strip_suffix("\"}")?;
                Some(if text == "+Inf" {
                    f64::INFINITY
                } else {
                    text.parse().unwrap()
                })
            };
            let mut buckets: Vec<(f64, f64)> = self
                .series
                .iter()
                .filter_map(|(series, count)| Some((bound(series)?, *count)))
                .collect();
            buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
            assert!(
                buckets.is_sorted_by(|a, b| a.1 <= b.1),
                "{name}: {buckets:?}"
            );
            let last = buckets.last().unwrap();
            assert!(last.0.is_infinite() && last.1 == self.series[&format!("{name}_count")]);
        }
    }
}

#[test]
fn the_page_is_what_prometheus_reads() {
    let ground = Ground::new();
    ground.post("/api/agents", &json!({"name": "bot"})).ok();
    ground.post("/api/agents/bot/heartbeat", &json!({})).ok();
    ground
        .post("/api/tasks/t/start", &json!({"agent": "bot"}))
        .ok();
    let fence = ground.get("/api/tasks/t").ok()["fence"].clone();
    for verb in ["begin", "end"] {
        ground
            .post(
                &format!("/api/tasks/t/steps/s/{verb}"),
                &json!({"fence": fence}),
            )
            .ok();
    }
    assert_eq!(ground.get("/api/agents/nobody").status, 404);
    let page = ground.get("/metrics");
    assert_eq!(
        page.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let read = read(&page.text);
    for (series, value) in [
        ("relight_agents{state=\"running\"}", 1.0),
        ("relight_attempts_total", 1.0),
        ("relight_tasks{status=\"in_progress\"}", 1.0),
        ("relight_steps_total", 1.0),
        ("relight_step_commit_seconds_count", 2.0),
        ("relight_http_requests_total{class=\"4xx\"}", 1.0),
        ("relight_heartbeat_agents", 1.0),
        ("relight_sse_watchers", 0.0),
        ("relight_deaths_total{cause=\"oom\"}", 0.0),
    ] {
        assert_eq!(
            read.series.get(series),
            Some(&value),
            "{series}: {}",
            page.text
        );
    }
    assert!(read.series["relight_heartbeat_age_seconds{agent=\"bot\"}"] < 60.0);
    let reference = relight_server::metrics_reference();
    for name in read.kinds.keys() {
        assert!(
            reference.contains(&format!("| `{name}` |")),
            "{name} is not in the reference"
        );
    }
    assert_eq!(read.kinds.len(), reference.matches("\n| `relight_").count());
}

#[test]
fn counters_of_the_journal_go_on_across_restarts() {
    let mut ground = Ground::new();
    let restart = |ground: &Ground| {
        ground.post("/api/agents/bot/restart", &json!({})).ok();
    };
    let stopped = |ground: &Ground| {
        let read = read(&ground.get("/metrics").text);
        let of = |series: &str| read.series[series];
        (
            of("relight_attempts_total"),
            of("relight_deaths_total{cause=\"stopped\"}"),
        )
    };
    ground.post("/api/agents", &json!({"name": "bot"})).ok();
    restart(&ground);
    restart(&ground);
    assert_eq!(stopped(&ground), (2.0, 1.0));
    // What nobody asked for before the daemon ended is counted by the next one.
    restart(&ground);
    ground.reopen();
    assert_eq!(stopped(&ground), (3.0, 2.0));
    restart(&ground);
    assert_eq!(stopped(&ground), (4.0, 3.0));
}
