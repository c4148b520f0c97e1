//! Who used the processor while a figure was taken.

use std::time::Duration;

use super::flood::Flooded;
use crate::usage::Work;

/// Shares of one processor.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shares {
    load: f64,
    daemon: f64,
}

impl Shares {
    /// What load and daemon spent within a time.
    pub(crate) fn of(flooded: Flooded, daemon: Work, time: Duration) -> Shares {
        Shares {
            load: flooded.load_share,
            daemon: daemon.cpu_ms / 1e3 / time.as_secs_f64(),
        }
    }

    pub(crate) fn text(self) -> String {
        let percent = |share: f64| share * 100.0;
        format!(
            "of one core the daemon used {:.0} % and the load {:.0} %",
            percent(self.daemon),
            percent(self.load)
        )
    }
}
