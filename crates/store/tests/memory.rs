//! The store in memory passes the suite.

use relight_store::MemoryStore;

relight_testkit::conformance_suite!(in_memory);

fn in_memory() -> MemoryStore {
    MemoryStore::new()
}
