//! The shim: parent and subreaper of one agent's tree, in its own session, with the agent's lock.

pub mod wire;
