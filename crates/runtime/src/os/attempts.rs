//! The attempt of an agent that this process belongs to, and a cache of what the store said about
//! other attempts.
//!
//! A live shim does not prove that an attempt lives, because one shim serves all attempts of an
//! agent. An ended attempt never comes back, so cached ends stay true.

use std::collections::{HashMap, VecDeque};
use std::sync::{OnceLock, PoisonError, RwLock};

use relight_core::agent::AttemptTag;
use relight_core::lease::ProcessIdentity;

use super::environment;

/// The variable that marks all processes of an attempt.
pub const VARIABLE: &str = "RELIGHT_ATTEMPT";

/// Maximum number of cached attempts; the oldest are dropped and read again.
const REMEMBERED_MAX: usize = 65_536;

/// What the store said about an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnownAttempt {
    /// It has ended.
    Over,
    /// It has not ended; its main process, which may outlive the shim.
    Leader(ProcessIdentity),
}

#[derive(Debug, Default)]
struct AttemptCache {
    known: HashMap<String, KnownAttempt>,
    order: VecDeque<String>,
}

impl AttemptCache {
    fn learn(&mut self, tag: &AttemptTag, what: KnownAttempt) {
        if self.known.insert(tag.to_string(), what).is_none() {
            self.order.push_back(tag.to_string());
        }
        if self.order.len() > REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

static MEMORY: OnceLock<RwLock<AttemptCache>> = OnceLock::new();

fn memory() -> &'static RwLock<AttemptCache> {
    MEMORY.get_or_init(RwLock::default)
}

/// The attempt that this process belongs to.
pub fn own() -> Option<&'static AttemptTag> {
    static OWN: OnceLock<Option<AttemptTag>> = OnceLock::new();
    let look = || {
        let variables = environment::variables();
        let own = environment::texts(&variables).find(|(name, _)| *name == VARIABLE);
        own.map(|(_, tag)| AttemptTag::from_text(tag))
    };
    OWN.get_or_init(look).as_ref()
}

/// Caches what the store said about an attempt.
pub fn learn(tag: &AttemptTag, what: KnownAttempt) {
    memory().write().unwrap_or_else(PoisonError::into_inner).learn(tag, what);
}

/// What the store said about this attempt; none if not cached.
pub fn known(tag: &str) -> Option<KnownAttempt> {
    memory().read().unwrap_or_else(PoisonError::into_inner).known.get(tag).cloned()
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
        assert_eq!((memory.known.len(), memory.order.len()), (REMEMBERED_MAX, REMEMBERED_MAX));
        assert!(!memory.known.contains_key("a.0.0") && memory.known.contains_key("a.1.0"));
    }
}
