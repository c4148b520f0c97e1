//! Relight as a native module of Node.
//!
//! Thin: `relight-sdk` does the work, and the TypeScript of the package makes promises and errors of it. A
//! call gets a number from TypeScript and is settled by that number through one callback for each client,
//! which does not keep Node's event loop alive. Steps that wait for nothing are begun at once.

#![expect(
    clippy::needless_pass_by_value,
    clippy::type_complexity,
    reason = "the macros of napi want owned arguments and types that are written out"
)]

mod bridge;
mod client;
mod step;
mod task;
mod turn;

use napi::Result;
use napi_derive::napi;

/// A sign of life to the supervisor of this process; false where there is none.
#[napi]
pub fn beat(status: Option<String>, waiting_until: Option<String>) -> Result<bool> {
    relight_sdk::beat(waiting_until.as_deref(), status.as_deref())
        .map_err(|refused| client::thrown(&refused))
}
