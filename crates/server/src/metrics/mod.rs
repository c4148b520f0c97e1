//! Every number of `/metrics`: its name, its kind, its labels and what it means. The page of reference
//! and the served page are both made from this one list.

pub(crate) mod page;
pub(crate) mod traffic;

use std::fmt::Write as _;

/// How a number behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricKind {
    /// Goes up and down.
    Gauge,
    /// Only goes up.
    Counter,
    /// Counts how long something took, by bounds.
    Histogram,
}

impl MetricKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Histogram => "histogram",
        }
    }
}

/// Who remembers a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// It is read from the store, as it is now.
    Store,
    /// It is counted from the journal, and goes on across restarts and crashes of the daemon.
    Journal,
    /// This process counts it, and begins at zero with each start.
    Process,
}

impl From {
    fn as_str(self) -> &'static str {
        match self {
            Self::Store => "the store",
            Self::Journal => "the journal",
            Self::Process => "the daemon",
        }
    }
}

/// One number, or a family of them.
#[derive(Debug)]
pub(crate) struct Metric {
    /// Without the prefix `relight_`.
    pub(crate) name: &'static str,
    pub(crate) kind: MetricKind,
    pub(crate) labels: &'static [&'static str],
    pub(crate) from: From,
    pub(crate) help: &'static str,
}

macro_rules! metrics {
    ($($constant:ident: $kind:ident $from:ident $name:literal $labels:expr, $help:literal;)*) => {
        $(pub(crate) const $constant: Metric = Metric {
            name: $name, kind: MetricKind::$kind, labels: &$labels, from: From::$from, help: $help,
        };)*
        /// All of them, in the order in which they are served.
        pub(crate) const ALL: &[&Metric] = &[$(&$constant),*];
    };
}

metrics! {
    BUILD: Gauge Process "build_info" ["version"], "Always 1; the label is the running version.";
    STARTED: Gauge Process "start_time_seconds" [], "When the daemon started, in seconds since 1970.";
    AGENTS: Gauge Store "agents" ["state"], "Agents by state.";
    ATTEMPTS: Counter Journal "attempts_total" [], "Attempts that began.";
    DEATHS: Counter Journal "deaths_total" ["cause"], "Attempts that ended, by cause.";
    RECOVERIES: Counter Journal "recoveries_total" ["outcome"], "Unintended deaths of agents: restarted, or terminated because recoveries were used up.";
    RECOVERY_DURATION: Histogram Journal "recovery_duration_seconds" [], "From the last sign of life before such a death, or the death, to the next start.";
    HEARTBEAT_AGE: Gauge Process "heartbeat_age_seconds" ["agent"], "Time since the last sign of life, of at most a hundred agents that have been silent longest.";
    HEARTBEAT_AGENTS: Gauge Process "heartbeat_agents" [], "Agents whose signs of life this daemon hears.";
    TASKS: Gauge Store "tasks" ["status"], "Tasks by status.";
    IN_DOUBT: Gauge Store "tasks_in_doubt" [], "Tasks with a step that began and did not end.";
    TASK_RECOVERIES: Counter Journal "task_recoveries_total" ["outcome"], "Tasks that lost their holder or failed, by the outcome of their strategy and limits.";
    STEPS: Counter Journal "steps_total" [], "Finished steps.";
    STEP_COMMIT: Histogram Process "step_commit_seconds" [], "Duration of durable step writes through this daemon.";
    SESSIONS: Gauge Store "sessions" ["state"], "Sessions by state.";
    ALERTS: Counter Process "alerts_total" ["outcome"], "Alerts: raised and undelivered (given up), counted from the journal; messages sent and tries refused, counted by this daemon.";
    NODES: Gauge Store "nodes" ["state"], "Nodes of the fleet by state; all zero without a fleet.";
    DRAINING: Gauge Store "draining" [], "1 while a drain is active.";
    HELD_BACK: Gauge Process "held_back" [], "1 if nothing was resumed at the start.";
    HTTP_REQUESTS: Counter Process "http_requests_total" ["class"], "Answered requests, by class of status.";
    SSE_WATCHERS: Gauge Process "sse_watchers" [], "Clients that follow events.";
    STORE_BYTES: Gauge Store "store_bytes" [], "Bytes of the store on disk.";
    STORE_EVENTS: Gauge Store "store_events" [], "Events and step records in the store.";
}

/// The head of the page of reference, before the table.
const HEAD: &str = include_str!("head.md");
/// What follows it.
const RULES: &str = include_str!("rules.md");

/// The page of reference.
pub fn reference() -> String {
    let mut text = HEAD.to_owned();
    text += "\n| name | kind | labels | counted by | meaning |\n|---|---|---|---|---|\n";
    for metric in ALL {
        let Metric {
            name,
            kind,
            labels,
            from,
            help,
        } = metric;
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let _ = writeln!(
            text,
            "| `relight_{name}` | {} | {} | {} | {help} |",
            kind.as_str(),
            labels.join(", "),
            from.as_str(),
        );
    }
    text.push('\n');
    text += RULES;
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_kinds_are_as_prometheus_wants_them() {
        for metric in ALL {
            let is_total = metric.name.ends_with("_total");
            assert_eq!(
                is_total,
                metric.kind == MetricKind::Counter,
                "{}",
                metric.name
            );
            let is_plain = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(metric.name.chars().all(is_plain), "{}", metric.name);
            assert!(!metric.help.contains(['\n', '\\']), "{}", metric.name);
            let is_time = metric.kind == MetricKind::Histogram;
            assert!(
                !is_time || metric.name.ends_with("_seconds"),
                "{}",
                metric.name
            );
        }
    }
}
