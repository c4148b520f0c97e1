//! Whether owners live, asked once each: one gateway owns thousands of turns.

use std::collections::HashMap;

use relight_core::lease::{HeldLease, Holder, HolderLife};
use relight_core::session::Session;

use crate::holders::Holders;

/// What was found out so far.
#[derive(Debug)]
pub(super) struct Lives<'a> {
    holders: &'a Holders,
    known: HashMap<Holder, HolderLife>,
}

impl<'a> Lives<'a> {
    pub(super) fn new(holders: &'a Holders) -> Self {
        Self {
            holders,
            known: HashMap::new(),
        }
    }

    /// Whether the owner of its turn lives; gone where there is none.
    pub(super) fn of(&mut self, session: &Session) -> HolderLife {
        session
            .owner()
            .map_or(HolderLife::Gone, |held| self.of_holder(held))
    }

    fn of_holder(&mut self, held: &HeldLease) -> HolderLife {
        if held.ttl.is_some() {
            return self.holders.life(held);
        }
        if let Some(life) = self.known.get(&held.holder) {
            return *life;
        }
        let life = self.holders.life(held);
        self.known.insert(held.holder.clone(), life);
        life
    }
}
