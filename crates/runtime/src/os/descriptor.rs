//! Descriptors of the kernel as something to wait for.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Waits until a descriptor can be read, and for nothing else. Called inside a runtime.
#[expect(
    deprecated,
    reason = "its successor is unsafe for descriptors that may change; this is owned"
)]
pub fn readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}
