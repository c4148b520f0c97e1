//! Boot loop detection: work that crashes its machine is not resumed for ever.
//!
//! Counts boots in a row, not within a time window. Three consecutive boots that resumed work and
//! crashed before they were stable are a loop, however long the machine was off in between. Crashes
//! of the daemon within one boot do not count; restart budgets cover those.

use serde::{Deserialize, Serialize};

use crate::time::Span;

/// A boot that lasted this long after work was resumed is not part of a loop.
pub const STABLE_AFTER: Span = Span::from_secs(600);
/// Number of consecutive boots that make a loop.
pub const LOOP_BOOTS: u32 = 3;
/// Name of the history's record in the store.
pub const KEPT_NAME: &str = "boots";
const RECORDS_MAX: usize = 16;

/// The machine's last boots in which a daemon was started, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BootHistory {
    /// At most 16.
    pub boots: Vec<BootRecord>,
}

/// One boot of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootRecord {
    /// The kernel's boot id.
    pub boot_id: String,
    /// Work was resumed in it.
    #[serde(default)]
    pub resumed: bool,
    /// Work was held back in it, because of a boot loop.
    #[serde(default)]
    pub held_back: bool,
    /// The daemon ran for `STABLE_AFTER`.
    #[serde(default)]
    pub stable: bool,
    /// The daemon shut down cleanly; false while it runs.
    #[serde(default)]
    pub clean: bool,
}

/// Whether a daemon that starts may resume work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootVerdict {
    /// It may.
    Resume,
    /// It runs but resumes nothing until a person allows it.
    HoldBack {
        /// Number of consecutive boots.
        boots: u32,
    },
}

/// Records the start of a daemon in this boot; `resumes` if there is work to resume. Save the
/// history before anything is resumed.
pub fn at_start(
    mut history: BootHistory,
    boot_id: &str,
    resumes: bool,
) -> (BootHistory, BootVerdict) {
    let verdict = judge(&history, boot_id);
    let is_first = history
        .boots
        .last()
        .is_none_or(|newest| newest.boot_id != boot_id);
    if is_first {
        // Held-back boots must not push out the boots that caused the hold.
        history.boots.pop_if(|before| before.held_back);
        history.boots.push(BootRecord::new(boot_id));
    }
    let excess = history.boots.len().saturating_sub(RECORDS_MAX);
    history.boots.drain(..excess);
    let may_resume = verdict == BootVerdict::Resume;
    let history = with_newest(history, boot_id, |newest| {
        newest.resumed |= resumes && may_resume;
        newest.held_back |= !may_resume;
        newest.clean = false;
    });
    (history, verdict)
}

/// Records that the daemon ran for `STABLE_AFTER` in this boot.
pub fn stable(history: BootHistory, boot_id: &str) -> BootHistory {
    with_newest(history, boot_id, |newest| newest.stable = true)
}

/// Records a clean shutdown in this boot.
pub fn clean_end(history: BootHistory, boot_id: &str) -> BootHistory {
    with_newest(history, boot_id, |newest| newest.clean = true)
}

/// Whether work is held back in this boot already.
pub fn is_held_back(history: &BootHistory, boot_id: &str) -> bool {
    history
        .boots
        .iter()
        .any(|record| record.boot_id == boot_id && record.held_back)
}

/// A person allows work to be resumed: earlier boots no longer count. This boot does, and must
/// become stable again.
pub fn forgive(history: BootHistory, boot_id: &str) -> BootHistory {
    let is_this = |record: &BootRecord| record.boot_id == boot_id;
    let mut boots: Vec<BootRecord> = history.boots.into_iter().filter(is_this).collect();
    for record in &mut boots {
        record.resumed = true;
        record.held_back = false;
        record.stable = false;
    }
    BootHistory { boots }
}

/// Counts back from the boot before this one, so the answer is stable within one boot. Held-back
/// boots are skipped: they say nothing about the work, and only a person ends the hold.
fn judge(history: &BootHistory, boot_id: &str) -> BootVerdict {
    let before = history
        .boots
        .iter()
        .rev()
        .filter(|record| record.boot_id != boot_id);
    let row = before
        .filter(|record| !record.held_back)
        .take_while(|record| record.resumed && !record.stable && !record.clean);
    let boots = u32::try_from(row.count()).unwrap_or(u32::MAX);
    if boots >= LOOP_BOOTS {
        BootVerdict::HoldBack { boots }
    } else {
        BootVerdict::Resume
    }
}

fn with_newest(
    mut history: BootHistory,
    boot_id: &str,
    change: impl FnOnce(&mut BootRecord),
) -> BootHistory {
    if let Some(newest) = history
        .boots
        .last_mut()
        .filter(|newest| newest.boot_id == boot_id)
    {
        change(newest);
    }
    history
}

impl BootRecord {
    fn new(boot_id: &str) -> Self {
        let boot_id = boot_id.to_owned();
        Self {
            boot_id,
            resumed: false,
            held_back: false,
            stable: false,
            clean: false,
        }
    }
}
