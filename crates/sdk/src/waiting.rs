//! Waiting for a future from a thread that the caller's language may want to interrupt.

use std::pin::pin;
use std::time::Duration;

use tokio::runtime::Handle;

/// How often a wait asks whether it is interrupted.
pub const INTERRUPT_CHECK: Duration = Duration::from_millis(50);

/// Waits; every [`INTERRUPT_CHECK`] asks whether to give up, which drops the future.
pub(crate) fn wait<T, E>(
    runtime: &Handle,
    future: impl Future<Output = T>,
    mut interrupted: impl FnMut() -> Result<(), E>,
) -> Result<T, E> {
    let mut future = pin!(future);
    runtime.block_on(async {
        loop {
            tokio::select! {
                biased;
                done = &mut future => return Ok(done),
                () = tokio::time::sleep(INTERRUPT_CHECK) => interrupted()?,
            }
        }
    })
}
