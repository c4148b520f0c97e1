//! What the store said about attempts of agents.
//!
//! A live shim does not prove that an attempt lives, because one shim serves all attempts of an
//! agent. An ended attempt never comes back, so cached ends stay true.

use std::collections::{HashMap, VecDeque};

use relight_core::agent::AttemptTag;
use relight_core::lease::ProcessIdentity;

/// Maximum number of cached attempts; the oldest are dropped and read again.
const REMEMBERED_MAX: usize = 65_536;

/// What the store said about an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KnownAttempt {
    /// It has ended.
    Over,
    /// It has not ended; its main process, which may outlive the shim.
    Leader(ProcessIdentity),
}

/// The newest that was learned.
#[derive(Debug, Default)]
pub(super) struct AttemptCache {
    known: HashMap<String, KnownAttempt>,
    order: VecDeque<String>,
}

impl AttemptCache {
    pub(super) fn learn(&mut self, tag: &AttemptTag, what: KnownAttempt) {
        if self.known.insert(tag.to_string(), what).is_none() {
            self.order.push_back(tag.to_string());
        }
        if self.order.len() > REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
    /// What the store said about this attempt; none if not cached.
    pub(super) fn get(&self, tag: &str) -> Option<KnownAttempt> {
        self.known.get(tag).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten() {
        let mut memory = AttemptCache::default();
        let tag = |number: usize| AttemptTag::from_text(format!("a.{number}.0"));
        (0..=REMEMBERED_MAX).for_each(|number| memory.learn(&tag(number), KnownAttempt::Over));
        memory.learn(&tag(1), KnownAttempt::Over);
        assert_eq!(
            (memory.known.len(), memory.order.len()),
            (REMEMBERED_MAX, REMEMBERED_MAX)
        );
        assert!(!memory.known.contains_key("a.0.0") && memory.known.contains_key("a.1.0"));
    }
}
