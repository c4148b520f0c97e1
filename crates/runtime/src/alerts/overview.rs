//! Overview of delivered and pending alerts.

use relight_core::alert::Alert;
use relight_core::event::EventKind;
use relight_core::time::Time;
use relight_store::{EventQuery, Store, StoreError};

use super::cursor::{self, Cursor};

use crate::boxed::boxed;

/// All sink names.
const SINKS: [&str; 2] = ["command", "webhook"];

/// Delivered and pending alerts.
#[derive(Debug, Clone, PartialEq)]
pub struct Overview {
    /// The newest alerts, oldest first.
    pub alerts: Vec<AlertRecord>,
    /// All sinks ever used with this store.
    pub sinks: Vec<SinkOverview>,
}

/// One alert of the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct AlertRecord {
    /// The event's id.
    pub event: u64,
    /// When it happened.
    pub at: Time,
    /// What it says.
    pub alert: Alert,
    /// Sinks that delivered or skipped it.
    pub told: Vec<&'static str>,
    /// Sinks that have not delivered it yet.
    pub pending: Vec<&'static str>,
}

/// State of one sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkOverview {
    /// Its name.
    pub name: &'static str,
    /// It answered that it must not be called again.
    pub is_gone: bool,
    /// Tries of the next message.
    pub tries: u32,
    /// When it is tried again.
    pub next_at: Option<Time>,
    /// Why the last try failed.
    pub why: Option<String>,
}

/// The newest alerts, up to `limit`, and the state of each sink.
#[boxed]
pub async fn overview(store: &dyn Store, limit: usize) -> Result<Overview, StoreError> {
    let mut cursors: Vec<(&'static str, Cursor)> = Vec::new();
    for name in SINKS {
        let read = cursor::read(store, name).await?;
        cursors.extend(read.cursor.map(|cursor| (name, cursor)));
    }
    let query = EventQuery {
        after: 0,
        before: None,
        task: None,
        agent: None,
        kinds: vec![EventKind::Alert],
        limit,
        newest: true,
    };
    let mut alerts = Vec::new();
    for event in store.events(query).await? {
        let Some(alert) = Alert::from_detail(&event.detail) else {
            continue;
        };
        let which = |wanted: &dyn Fn(&Cursor) -> bool| {
            cursors
                .iter()
                .filter(|(_, cursor)| wanted(cursor))
                .map(|(name, _)| *name)
                .collect()
        };
        let told = which(&|cursor| event.id > cursor.since && event.id <= cursor.after);
        let pending = which(&|cursor| event.id > cursor.after && cursor.gone.is_none());
        alerts.push(AlertRecord {
            event: event.id,
            at: event.at,
            alert,
            told,
            pending,
        });
    }
    let sinks = cursors
        .into_iter()
        .map(|(name, cursor)| sink(name, cursor))
        .collect();
    Ok(Overview { alerts, sinks })
}

fn sink(name: &'static str, cursor: Cursor) -> SinkOverview {
    let is_gone = cursor.gone.is_some();
    let (tries, next_at, why) = match cursor.batch {
        Some(batch) => (batch.tries, batch.next_at, batch.why),
        None => (0, None, None),
    };
    SinkOverview {
        name,
        is_gone,
        tries,
        next_at,
        why,
    }
}
