//! Lends the daemon's store to the agents of its node: they ask at its socket, and are never told where
//! the store is or how it is opened.
//!
//! On the daemon's side `route` is the door, `store_proxy` asks the store, and `answers` remembers what became
//! of each write. On the agent's side `RelayedStore` is a store like any other, `asker` and `line` its way to the
//! daemon, `deferred` what need not be waited for, and `read_back` finds out what became of a write whose
//! answer was lost together with the daemon. `call` is what goes over the wire; both sides are of one
//! version of Relight, or tell each other that they are not.

mod answers;
mod call;
mod deferred;
mod read_back;
mod relay_client;
mod route;
mod socket_client;
mod store;
mod store_proxy;
mod thread;

pub(crate) use call::{BYTES_MAX, PATH};
pub(crate) use route::routes;
pub use store::RelayedStore;
