//! Commits that need not be waited for: they go together with the next one, or by themselves within
//! milliseconds, in order.

use std::sync::{Mutex, PoisonError};

use relight_store::{Commit, DeferredCommit};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What was handed in and is not on its way yet.
#[derive(Debug, Default)]
pub(super) struct Soon {
    waiting: Mutex<Vec<DeferredCommit>>,
    /// Whoever carries what waited goes alone: nothing that was handed in later overtakes it.
    order: RwLock<()>,
}

/// The right to send a commit now, with all that goes before it.
#[derive(Debug)]
pub(super) struct SendPermit<'a> {
    pub(super) before: Vec<Commit>,
    _alone: Option<RwLockWriteGuard<'a, ()>>,
    _beside: Option<RwLockReadGuard<'a, ()>>,
}

impl Soon {
    /// Hands in; true when nothing waited before.
    pub(super) fn hand_in(&self, commit: DeferredCommit) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(commit);
        waiting.len() == 1
    }

    /// The turn of a commit: alone when something goes before it, else beside others.
    pub(super) async fn turn(&self) -> SendPermit<'_> {
        if self.is_empty() {
            let beside = Some(self.order.read().await);
            return SendPermit {
                before: Vec::new(),
                _alone: None,
                _beside: beside,
            };
        }
        let alone = Some(self.order.write().await);
        SendPermit {
            before: self.take(),
            _alone: alone,
            _beside: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }

    /// All that waits and was not cancelled.
    fn take(&self) -> Vec<Commit> {
        let waiting =
            std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        waiting.iter().filter_map(DeferredCommit::take).collect()
    }
}
