//! The store in memory: the oracle that other backends are compared with.

/// Everything in this process's memory, gone with it.
#[derive(Debug, Default)]
pub struct MemoryStore {}
