//! Reports that the schema of a store is being upgraded, because that can take a while for a large
//! store.

use std::sync::OnceLock;

/// A running schema upgrade, by this process or by another one that it waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upgrade {
    /// The store.
    pub place: String,
    /// Its current schema number.
    pub found: u32,
    /// The new schema number.
    pub known: u32,
}

type UpgradeListener = Box<dyn Fn(&Upgrade) + Send + Sync>;

/// Set once at the start by the front: a store upgrades while it is opened, before it has an owner.
static LISTENER: OnceLock<UpgradeListener> = OnceLock::new();

/// Sets the function called when an upgrade begins. Only the first call in a process has an effect.
pub fn on_upgrade(tell: impl Fn(&Upgrade) + Send + Sync + 'static) {
    // Already set.
    let _ = LISTENER.set(Box::new(tell));
}

/// A newly created store is not reported.
pub(crate) fn tell(place: &str, found: u32, known: u32) {
    if let Some(tell) = LISTENER.get().filter(|_| found > 0) {
        tell(&Upgrade {
            place: place.to_owned(),
            found,
            known,
        });
    }
}

/// Error text for read-only access to an older store.
pub(crate) fn refusal(found: u32, known: u32) -> String {
    format!(
        "it has schema {found}, and what only reads does not bring it up to {known}: any other \
         command does, such as relight --store URL doctor"
    )
}
