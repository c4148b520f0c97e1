//! Counts answered requests by the class of their status.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;

/// The classes, in the order of their first digit.
pub(crate) const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Answered requests since the daemon started.
#[derive(Debug, Default)]
pub(crate) struct Traffic([AtomicU64; CLASSES.len()]);

impl Traffic {
    pub(crate) fn answered(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        if let Some(count) = self.0.get(class) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Each class with its count.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        CLASSES
            .into_iter()
            .zip(self.0.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}
