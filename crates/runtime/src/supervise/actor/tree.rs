//! What lives of an agent, and how this supervisor is connected to it.

use std::io;
use std::time::Duration;

use relight_core::agent::AttemptTag;
use relight_core::agent::death::HowEnded;
use relight_core::lease::ProcessIdentity;
use relight_core::time::Span;
use rustix::process::Signal;

use crate::doors::{clock, pidfd};
use crate::supervise::shim::client::Connection;
use crate::supervise::shim::wire::{Order, Report, Rung};
use crate::supervise::sweep;
use crate::supervise::watch_process::ProcessWatch;

/// How long the kernel has to end what is killed.
pub(super) const KILL_WAIT: Span = Span::from_secs(5);
/// How long a shim has to say what it has.
const STATUS_WAIT: Duration = Duration::from_secs(10);
/// How long an idle shim has to go.
const QUIT_WAIT: Duration = Duration::from_secs(1);

/// What lives of an agent.
pub(super) enum Tree {
    /// Nothing, and nobody to start it.
    None,
    /// Its shim, with or without an attempt.
    Shim { connection: Connection, shim: ProcessIdentity },
    /// An attempt whose shim was killed: only the kernel tells of its end.
    Orphan(Orphan),
}

/// An attempt without a shim.
pub(super) struct Orphan {
    pub(super) watch: ProcessWatch,
    pub(super) tag: AttemptTag,
}

/// What happened to it.
#[derive(Debug)]
pub(super) enum TreeEvent {
    /// The shim says something.
    Says(Report),
    /// The shim is gone.
    ShimGone,
    /// The leader that nobody holds is gone.
    LeaderGone(HowEnded),
}

/// What a shim that was just met says it has.
pub(super) struct Met {
    pub(super) tree: Tree,
    pub(super) running: Option<(AttemptTag, ProcessIdentity)>,
}

impl Tree {
    /// Hears what the shim at the other end has. None when a newer supervisor was there, or when it
    /// has just gone.
    pub(super) async fn meet(mut connection: Connection) -> io::Result<Option<Met>> {
        let first = tokio::time::timeout(STATUS_WAIT, connection.next()).await;
        match first.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?? {
            Some(Report::Status { shim, running }) => {
                Ok(Some(Met { tree: Self::Shim { connection, shim }, running }))
            }
            Some(Report::Refused { .. } | Report::Started { .. } | Report::Ended(_)) | None => {
                Ok(None)
            }
        }
    }

    /// The next thing that happens; never, when nothing lives. Nothing is lost when it is dropped.
    pub(super) async fn next(&mut self) -> TreeEvent {
        match self {
            Self::None => std::future::pending().await,
            Self::Shim { connection, .. } => match connection.next().await {
                Ok(Some(report)) => TreeEvent::Says(report),
                Ok(None) | Err(_) => TreeEvent::ShimGone,
            },
            Self::Orphan(orphan) => {
                // A descriptor that cannot be waited for is looked at right away.
                let _ = orphan.watch.gone().await;
                TreeEvent::LeaderGone(orphan.watch.exit().unwrap_or(HowEnded::Unknown))
            }
        }
    }

    /// Whether an attempt can be started without any preparation.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self, Self::Shim { .. })
    }

    pub(super) fn shim(&self) -> Option<&ProcessIdentity> {
        match self {
            Self::Shim { shim, .. } => Some(shim),
            Self::None | Self::Orphan(_) => None,
        }
    }

    /// Tells everything that lives of it to end, by the ladder's rungs; its end comes as an event.
    pub(super) async fn stop(&mut self, ladder: Vec<Rung>) {
        match self {
            Self::None => {}
            Self::Shim { connection, .. } => {
                // A shim that cannot be told is gone, which comes as an event.
                let _ = connection.send(&Order::Stop { ladder }).await;
            }
            Self::Orphan(orphan) => {
                let (process, tag) = (orphan.watch.process().clone(), orphan.tag.clone());
                let grace = sum(&ladder);
                tokio::task::spawn_blocking(move || end(Some(&process), tag, grace));
            }
        }
    }

    /// Starts an attempt.
    pub(super) async fn order(&mut self, order: &Order) -> io::Result<()> {
        match self {
            Self::Shim { connection, .. } => connection.send(order).await,
            Self::None | Self::Orphan(_) => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Lets an idle shim go, and waits until it is gone.
    pub(super) async fn dismiss(&mut self) {
        if let Self::Shim { connection, shim } = self {
            let watch = ProcessWatch::new(shim).ok().flatten();
            let _ = connection.send(&Order::Quit).await;
            *self = Self::None;
            if let Some(watch) = watch {
                // One that does not go keeps the lock, which is looked at before anything is started.
                let _ = tokio::time::timeout(QUIT_WAIT, watch.gone()).await;
            }
        }
    }

    /// Goes, and leaves everything as it is.
    pub(super) fn leave(&mut self) {
        *self = Self::None;
    }
}

/// How long a ladder takes until SIGKILL.
pub(super) fn sum(ladder: &[Rung]) -> Span {
    let waits = ladder.iter().map(|rung| rung.wait.as_ms());
    Span::from_ms(waits.fold(0, u64::saturating_add))
}

/// The ladder where only so much time is left.
pub(super) fn cut(ladder: Vec<Rung>, left: Span) -> Vec<Rung> {
    let mut left_ms = left.as_ms();
    let cut = |rung: Rung| {
        let wait_ms = rung.wait.as_ms().min(left_ms);
        left_ms -= wait_ms;
        (wait_ms > 0).then_some(Rung { wait: Span::from_ms(wait_ms), ..rung })
    };
    ladder.into_iter().map_while(cut).collect()
}

/// Ends an attempt without a shim: all that carries its tag, and its leader, where that is known, even
/// when it wrote over its own environment. Blocks.
pub(super) fn end(
    leader: Option<&ProcessIdentity>,
    tag: AttemptTag,
    grace: Span,
) -> io::Result<()> {
    let deadline_ms = clock::boot_ms().saturating_add(grace.as_ms());
    let handle = leader.map(pidfd::open_identified).transpose()?.flatten();
    let scan = sweep::find(&[tag])?;
    let is_found = scan.found.iter().any(|found| Some(&found.process) == leader);
    let Some(handle) = handle.filter(|_| !is_found) else {
        return sweep::stop(scan, grace, KILL_WAIT).map(drop);
    };
    pidfd::signal(&handle, Signal::TERM)?;
    sweep::stop(scan, grace, KILL_WAIT)?;
    let left = Span::from_ms(deadline_ms.saturating_sub(clock::boot_ms()));
    if !pidfd::ends_within(&handle, left) {
        pidfd::signal(&handle, Signal::KILL)?;
    }
    Ok(())
}
