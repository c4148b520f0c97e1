//! A verb that waits says so to the supervisor of the agent it was called in, so that its silence is not
//! taken for a hang: `task claim --wait`, `drain --wait`, and the same in the library.
//!
//! The supervisor forgets the wait when it is told that it is over, and when the process is gone.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use relight_core::agent::silence::WAITING_MS_MAX;
use relight_core::time::Span;
use tokio::task::AbortHandle;

use crate::os::{clock, environment};
use crate::supervise::notify::{self, NotifySign, WaitId};

/// Said again so often, for a supervisor that was replaced before it took note of it.
const AGAIN: Duration = Duration::from_secs(30);
/// While nobody listens: a supervisor is being replaced.
const SOON: Duration = Duration::from_millis(500);

static WAITS: AtomicU64 = AtomicU64::new(1);

/// Waiting is declared for as long as this lives. Outside of an agent it does nothing.
#[derive(Debug)]
#[must_use = "the wait is over when this is dropped"]
pub struct DeclaredWait(Option<AnnouncedWait>);

#[derive(Debug)]
struct AnnouncedWait {
    address: String,
    id: WaitId,
    saying: AbortHandle,
}

impl DeclaredWait {
    /// Begins to wait, for at most so long. Must be called inside a Tokio runtime.
    pub fn begin(most: Option<Span>) -> Self {
        let Some(address) = environment::supervisors_socket() else { return Self(None) };
        let id = WaitId { pid: 0, number: WAITS.fetch_add(1, Ordering::Relaxed) };
        let longest = Span::from_ms(WAITING_MS_MAX);
        let most = most.map_or(longest, |most| most.min(longest));
        let sign = [NotifySign::Verb(id, Some(clock::now().plus(most)))];
        let to = address.clone();
        let saying = tokio::spawn(async move {
            loop {
                let said = notify::try_send(&to, &sign);
                tokio::time::sleep(if said.is_ok() { AGAIN } else { SOON }).await;
            }
        });
        Self(Some(AnnouncedWait { address, id, saying: saying.abort_handle() }))
    }
}

impl Drop for DeclaredWait {
    fn drop(&mut self) {
        let Some(said) = self.0.take() else { return };
        said.saying.abort();
        // When nobody hears it, it is over with this process, or at its time.
        let _ = notify::try_send(&said.address, &[NotifySign::Verb(said.id, None)]);
    }
}
