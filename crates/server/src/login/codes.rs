//! One-time codes: for one minute, for one use.

use std::sync::{Mutex, PoisonError};

use relight_core::time::Span;
use relight_runtime::os::clock;
use subtle::ConstantTimeEq as _;

use crate::tokens::Scope;
use crate::tokens::random_text;

/// How long a code is good.
pub(crate) const GOOD_FOR: Span = Span::from_secs(60);
/// So many may wait; the oldest goes first.
const CODES_MAX: usize = 16;

/// Codes that nobody has used yet.
#[derive(Debug, Default)]
pub(crate) struct Codes(Mutex<Vec<Code>>);

#[derive(Debug)]
struct Code {
    hash: [u8; 32],
    scope: Scope,
    good_until_ms: u64,
}

impl Codes {
    /// A new code.
    pub(crate) fn give(&self, scope: Scope) -> String {
        self.give_at(scope, clock::boot_ms())
    }

    /// What a code is good for. From now on it is good for nothing.
    pub(crate) fn take(&self, code: &str) -> Option<Scope> {
        self.take_at(code, clock::boot_ms())
    }

    fn give_at(&self, scope: Scope, now_ms: u64) -> String {
        let text = random_text();
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|code| code.good_until_ms > now_ms);
        if codes.len() >= CODES_MAX {
            codes.remove(0);
        }
        let good_until_ms = now_ms + GOOD_FOR.as_ms();
        codes.push(Code {
            hash: hash(&text),
            scope,
            good_until_ms,
        });
        text
    }

    fn take_at(&self, code: &str, now_ms: u64) -> Option<Scope> {
        let given = hash(code);
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|code| code.good_until_ms > now_ms);
        let found = codes
            .iter()
            .position(|code| bool::from(code.hash.ct_eq(&given)))?;
        Some(codes.remove(found).scope)
    }
}

fn hash(text: &str) -> [u8; 32] {
    *blake3::hash(text.as_bytes()).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_good_once_and_for_a_minute() {
        let codes = Codes::default();
        let code = codes.give_at(Scope::Admin, 0);
        assert_eq!(codes.take_at("another", 1), None);
        assert_eq!(codes.take_at(&code, 59_999), Some(Scope::Admin));
        assert_eq!(codes.take_at(&code, 59_999), None);
        let late = codes.give_at(Scope::Admin, 0);
        assert_eq!(codes.take_at(&late, 60_000), None);
    }

    #[test]
    fn codes_do_not_pile_up() {
        let codes = Codes::default();
        let first = codes.give_at(Scope::Read, 0);
        (0..CODES_MAX).for_each(|_| drop(codes.give_at(Scope::Read, 0)));
        assert_eq!(codes.take_at(&first, 1), None);
    }
}
