//! Whether owners live, asked once each: one gateway owns thousands of turns.

use std::collections::HashMap;

use relight_core::lease::{HeldLease, Holder, HolderLife};
use relight_core::session::Session;

use crate::os::process;

/// What was found out so far.
#[derive(Debug, Default)]
pub(super) struct Lives {
    known: HashMap<Holder, HolderLife>,
}

impl Lives {
    /// Whether the owner of its turn lives; gone where there is none.
    pub(super) fn of(&mut self, session: &Session) -> HolderLife {
        session.owner().map_or(HolderLife::Gone, |held| self.of_holder(held))
    }

    fn of_holder(&mut self, held: &HeldLease) -> HolderLife {
        if held.ttl.is_some() {
            return process::holder_life(held);
        }
        if let Some(life) = self.known.get(&held.holder) {
            return *life;
        }
        let life = process::holder_life(held);
        self.known.insert(held.holder.clone(), life);
        life
    }
}
