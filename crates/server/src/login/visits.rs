//! Browsers that are logged in. In memory alone: a restart of the daemon asks everybody to log in again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use relight::doors::clock;
use relight_core::time::Span;

use crate::guard::scope::Scope;
use crate::tokens::random_text;

/// A visit that nobody uses ends after this.
const IDLE_MAX: Span = Span::from_secs(12 * 3600);
/// Every visit ends after this.
pub(crate) const AGE_MAX: Span = Span::from_secs(7 * 24 * 3600);
/// So many at a time; the one that was idle longest goes first.
const VISITS_MAX: usize = 100;

/// Browsers that are logged in, by the hash of their cookie.
#[derive(Debug, Default)]
pub(crate) struct Visits(Mutex<HashMap<[u8; 32], Visit>>);

/// One browser that is logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Visit {
    pub(crate) id: String,
    pub(crate) scope: Scope,
    pub(crate) csrf: String,
    /// The first token's number when it began; another token ends it.
    epoch: u64,
    begun_ms: u64,
    seen_ms: u64,
}

impl Visits {
    /// Begins one; answers the cookie's value and the visit.
    pub(crate) fn begin(&self, scope: Scope, epoch: u64) -> (String, Visit) {
        self.begin_at(scope, epoch, clock::boot_ms())
    }

    /// The visit of this cookie, while it lasts.
    pub(crate) fn find(&self, secret: &str, epoch: u64) -> Option<Visit> {
        self.find_at(secret, epoch, clock::boot_ms())
    }

    /// Ends the visit of this cookie.
    pub(crate) fn end(&self, secret: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&hash(secret));
    }

    fn begin_at(&self, scope: Scope, epoch: u64, now_ms: u64) -> (String, Visit) {
        let secret = random_text();
        let id = random_text()[..8].to_owned();
        let visit =
            Visit { id, scope, csrf: random_text(), epoch, begun_ms: now_ms, seen_ms: now_ms };
        let mut visits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        visits.retain(|_, visit| visit.lasts(epoch, now_ms));
        if visits.len() >= VISITS_MAX {
            let oldest = visits.iter().min_by_key(|(_, visit)| visit.seen_ms).map(|(key, _)| *key);
            oldest.map(|oldest| visits.remove(&oldest));
        }
        visits.insert(hash(&secret), visit.clone());
        (secret, visit)
    }

    fn find_at(&self, secret: &str, epoch: u64, now_ms: u64) -> Option<Visit> {
        let mut visits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Found by the hash of what nobody can guess: the time tells nothing of it.
        let visit = visits.get_mut(&hash(secret)).filter(|visit| visit.lasts(epoch, now_ms))?;
        visit.seen_ms = now_ms;
        Some(visit.clone())
    }
}

impl Visit {
    fn lasts(&self, epoch: u64, now_ms: u64) -> bool {
        self.epoch == epoch
            && now_ms < self.begun_ms + AGE_MAX.as_ms()
            && now_ms < self.seen_ms + IDLE_MAX.as_ms()
    }
}

fn hash(text: &str) -> [u8; 32] {
    *blake3::hash(text.as_bytes()).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_ends_when_idle_when_old_and_with_another_token() {
        let visits = Visits::default();
        let (idle, age) = (IDLE_MAX.as_ms(), AGE_MAX.as_ms());
        let (cookie, visit) = visits.begin_at(Scope::Admin, 1, 0);
        assert_eq!(visits.find_at(&cookie, 1, 5).map(|visit| visit.csrf), Some(visit.csrf));
        assert_eq!(visits.find_at("another", 1, 5), None);
        assert_eq!(visits.find_at(&cookie, 2, 5), None);
        assert_eq!(visits.find_at(&cookie, 1, 5 + idle), None);
        let (cookie, _) = visits.begin_at(Scope::Admin, 1, 0);
        for now_ms in (0..age).step_by(usize::try_from(idle / 2).unwrap()) {
            assert!(visits.find_at(&cookie, 1, now_ms).is_some());
        }
        assert_eq!(visits.find_at(&cookie, 1, age), None);
        let (cookie, _) = visits.begin_at(Scope::Admin, 1, 0);
        visits.end(&cookie);
        assert_eq!(visits.find_at(&cookie, 1, 0), None);
    }

    #[test]
    fn visits_do_not_pile_up() {
        let visits = Visits::default();
        let (first, _) = visits.begin_at(Scope::Read, 1, 0);
        (1..=VISITS_MAX as u64).for_each(|at| drop(visits.begin_at(Scope::Read, 1, at)));
        assert_eq!(visits.find_at(&first, 1, 200), None);
    }
}
