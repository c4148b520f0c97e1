//! Tells the program that a store is being brought up to date: for a large one that takes a while, and
//! whoever waits wants to know for what.

use std::sync::OnceLock;

/// A store that is being brought up to date, by this process or by another that it waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upgrade {
    /// Which store.
    pub place: String,
    /// The number of its schema.
    pub found: u32,
    /// The number that it gets.
    pub known: u32,
}

type Teller = Box<dyn Fn(&Upgrade) + Send + Sync>;

static TELLER: OnceLock<Teller> = OnceLock::new();

/// Hears of each upgrade when it begins. Once for the process; who comes second is not heard.
pub fn on_upgrade(tell: impl Fn(&Upgrade) + Send + Sync + 'static) {
    // Somebody hears already.
    let _ = TELLER.set(Box::new(tell));
}

/// A store that was made just now is not told of.
pub(crate) fn tell(place: &str, found: u32, known: u32) {
    if let Some(tell) = TELLER.get().filter(|_| found > 0) {
        tell(&Upgrade { place: place.to_owned(), found, known });
    }
}

/// What whoever only reads is told of an older store.
pub(crate) fn refusal(found: u32, known: u32) -> String {
    format!(
        "it has schema {found}, and what only reads does not bring it up to {known}: any other \
         command does, such as relight --store URL doctor"
    )
}
