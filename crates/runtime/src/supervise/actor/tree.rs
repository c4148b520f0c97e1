//! The processes of an agent and the connection to its shim.

use std::io;
use std::time::Duration;

use relight_core::agent::AttemptTag;
use relight_core::agent::death::HowEnded;
use relight_core::lease::ProcessIdentity;
use relight_core::time::Span;
use rustix::process::Signal;
use tokio::time::{Instant, timeout};

use crate::os::{clock, pidfd, process_tree, threads};
use crate::presets::Rung;
use crate::supervise::shim::client::ShimConnection;
use crate::supervise::shim::wire::{Order, ShimReport, StartOrder};
use crate::supervise::sweep;
use crate::supervise::watch_process::ProcessWatch;

/// How long killed processes may take to end.
pub(super) const KILL_WAIT: Span = Span::from_secs(5);
/// How often a shim that has not answered is checked: it may have been stopped.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Number of checks until a shim must have reported its state or a start.
const ANSWER_LOOKS: u32 = 10;
/// Extra time for a shim to report that its processes are gone.
const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// How long an idle shim may take to exit.
const QUIT_WAIT: Duration = Duration::from_secs(1);

/// The running processes of an agent.
pub(super) enum Tree {
    /// Nothing runs.
    None,
    /// Its shim, with or without an attempt.
    Shim {
        connection: ShimConnection,
        shim: ProcessIdentity,
        owes: Option<Owed>,
        /// The newest attempt that it runs or was told to start.
        attempt: Option<AttemptTag>,
    },
    /// An attempt whose shim was killed; only the kernel reports its end.
    Orphan(Orphan),
}

/// A report expected from a shim. An agent can stop its shim (`kill -STOP $PPID`), so the shim is
/// checked until the report arrives.
pub(super) struct Owed {
    answer: ExpectedReport,
    look_at: Instant,
    /// Deadline of the report.
    until: Instant,
    /// It was found stopped, and a notice was sent.
    was_stopped: bool,
    /// Its processes were killed without it.
    has_lost_tree: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedReport {
    /// A start.
    Started,
    /// The end of all processes.
    Ended,
}

/// An attempt without a shim.
pub(super) struct Orphan {
    pub(super) watch: ProcessWatch,
    pub(super) tag: AttemptTag,
}

/// An event of the processes.
#[derive(Debug)]
pub(super) enum TreeEvent {
    /// A report of the shim.
    Says(ShimReport),
    /// The shim had been stopped and was continued.
    ShimContinued(ProcessIdentity),
    /// The shim is gone.
    ShimGone,
    /// The shim did not answer, so it was killed with its processes.
    ShimKilled(ProcessIdentity),
    /// The main process without a shim has ended.
    LeaderGone(HowEnded),
}

/// A newly connected shim and its report.
pub(super) struct ConnectedShim {
    pub(super) tree: Tree,
    pub(super) running: Option<(AttemptTag, ProcessIdentity)>,
}

impl Tree {
    /// Reads the shim's first report. None when a newer supervisor was there, or when it just
    /// exited. A stopped shim is continued; one that is stopped repeatedly is killed, and its
    /// attempt continues without it.
    pub(super) async fn meet(mut connection: ShimConnection) -> io::Result<Option<ConnectedShim>> {
        let mut stopped = None;
        for _ in 0..ANSWER_LOOKS {
            match timeout(LOOK_EVERY, connection.next()).await {
                Ok(first) => return Ok(Self::met(connection, first?)),
                Err(_) => {
                    stopped = connection
                        .peer()
                        .filter(pidfd::continue_stopped)
                        .or(stopped);
                }
            }
        }
        if let Some(handle) = stopped.and_then(|shim| pidfd::open_identified(&shim).ok().flatten())
        {
            pidfd::signal(&handle, Signal::KILL)?;
            // It holds the lock until then.
            let _ = timeout(KILL_WAIT.as_duration(), pidfd::ended(handle)).await;
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    fn met(connection: ShimConnection, first: Option<ShimReport>) -> Option<ConnectedShim> {
        match first {
            Some(ShimReport::Status { shim, running }) => {
                let attempt = running.as_ref().map(|(tag, _)| tag.clone());
                Some(ConnectedShim {
                    tree: Self::Shim {
                        connection,
                        shim,
                        owes: None,
                        attempt,
                    },
                    running,
                })
            }
            Some(
                ShimReport::Refused { .. } | ShimReport::Started { .. } | ShimReport::Ended(_),
            )
            | None => None,
        }
    }

    /// The next event; never resolves when nothing runs. Cancel-safe.
    pub(super) async fn next(&mut self) -> TreeEvent {
        match self {
            Self::None => std::future::pending().await,
            Self::Shim {
                connection,
                shim,
                owes,
                ..
            } => loop {
                let look_at = owes.as_ref().map(|owed| owed.look_at);
                let said = tokio::select! {
                    said = connection.next() => said,
                    () = super::wait_for(look_at) => {
                        match owes.as_mut().and_then(|owed| owed.look(shim)) {
                            Some(event) => return event,
                            None => continue,
                        }
                    }
                };
                return match said {
                    Ok(Some(report)) => {
                        owes.take_if(|owed| owed.is_paid_by(&report));
                        TreeEvent::Says(report)
                    }
                    Ok(None) | Err(_) => TreeEvent::ShimGone,
                };
            },
            Self::Orphan(orphan) => {
                // On an error the process is checked right away.
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

    /// Stops all its processes with the signals of the ladder; the end is reported as an event.
    pub(super) async fn stop(&mut self, ladder: Vec<Rung>) {
        match self {
            Self::None => {}
            Self::Shim {
                connection,
                attempt,
                ..
            } => {
                let (orders, tag) = (connection.orders(), attempt.clone());
                self.expect_end(sum(&ladder), Duration::ZERO);
                tokio::spawn(async move {
                    if let Some(orders) = orders.upgrade() {
                        // If the shim cannot be reached it is gone, which is reported as an event.
                        let _ = orders.send(&Order::Stop { ladder, tag }).await;
                    }
                });
            }
            Self::Orphan(orphan) => {
                let (process, tag) = (orphan.watch.process().clone(), orphan.tag.clone());
                let grace = sum(&ladder);
                threads::start(move || end(Some(&process), tag, grace));
            }
        }
    }

    /// Starts an attempt.
    pub(super) async fn start(&mut self, order: StartOrder) -> io::Result<()> {
        match self {
            Self::Shim {
                connection,
                owes,
                attempt,
                ..
            } => {
                *attempt = Some(order.tag.clone());
                *owes = Some(Owed::new(
                    ExpectedReport::Started,
                    LOOK_EVERY * ANSWER_LOOKS,
                ));
                connection.send(&Order::Start(Box::new(order))).await
            }
            Self::None | Self::Orphan(_) => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Sets the deadline of the shim's end report: the grace period, the kill and some extra time.
    /// An earlier deadline is kept.
    pub(super) fn expect_end(&mut self, grace: Span, look_after: Duration) {
        let Self::Shim { owes, .. } = self else {
            return;
        };
        let waits = [grace.as_duration(), KILL_WAIT.as_duration(), ANSWER_WAIT];
        let mut new = Owed::new(
            ExpectedReport::Ended,
            waits
                .into_iter()
                .fold(Duration::ZERO, Duration::saturating_add),
        );
        new.look_at = Instant::now() + look_after;
        match owes {
            Some(owed) if owed.answer == ExpectedReport::Ended => {
                owed.until = owed.until.min(new.until);
                owed.look_at = owed.look_at.min(new.look_at);
            }
            _ => *owes = Some(new),
        }
    }

    /// Dismisses an idle shim and waits until it has exited. If it does not exit it is killed,
    /// because it would keep the lock.
    pub(super) async fn dismiss(&mut self) {
        if let Self::Shim {
            connection, shim, ..
        } = self
        {
            let _ = pidfd::continue_stopped(shim);
            let watch = ProcessWatch::new(shim).ok().flatten();
            let _ = connection.send(&Order::Quit).await;
            let Some(watch) = watch else {
                return *self = Self::None;
            };
            for _ in 0..ANSWER_LOOKS {
                if timeout(QUIT_WAIT, watch.gone()).await.is_ok() {
                    return *self = Self::None;
                }
                let _ = pidfd::continue_stopped(shim);
            }
            let _ = pidfd::signal(watch.pidfd(), Signal::KILL);
            let _ = timeout(QUIT_WAIT, watch.gone()).await;
            *self = Self::None;
        }
    }

    /// Disconnects and leaves everything running.
    pub(super) fn leave(&mut self) {
        *self = Self::None;
    }
}

impl Owed {
    fn new(answer: ExpectedReport, limit: Duration) -> Self {
        let now = Instant::now();
        // A configured ladder may be arbitrarily long.
        let until = now
            .checked_add(limit)
            .unwrap_or_else(|| now + Duration::from_secs(1 << 30));
        Self {
            answer,
            look_at: now + LOOK_EVERY,
            until,
            was_stopped: false,
            has_lost_tree: false,
        }
    }

    fn is_paid_by(&self, report: &ShimReport) -> bool {
        match report {
            ShimReport::Started { .. } => self.answer == ExpectedReport::Started,
            ShimReport::Status { .. } | ShimReport::Ended(_) | ShimReport::Refused { .. } => true,
        }
    }

    /// Checks a shim whose report is missing. A stopped shim is continued. When an end is overdue,
    /// first its processes and then the shim are killed.
    fn look(&mut self, shim: &ProcessIdentity) -> Option<TreeEvent> {
        let now = Instant::now();
        self.look_at = now + LOOK_EVERY;
        let is_stopped = pidfd::continue_stopped(shim);
        if now >= self.until && self.answer == ExpectedReport::Ended {
            let shim = shim.clone();
            if std::mem::replace(&mut self.has_lost_tree, true) {
                self.look_at = now + ANSWER_WAIT;
                let killed = shim.clone();
                threads::start(move || kill_shim(&killed));
                return Some(TreeEvent::ShimKilled(shim));
            }
            self.until = now + ANSWER_WAIT;
            threads::start(move || {
                process_tree::kill_below(&shim);
                pidfd::continue_stopped(&shim)
            });
        } else if now >= self.until {
            // A slow start is bounded by the attempt's own limits.
            self.look_at = now + Duration::from_secs(1 << 30);
        }
        let is_news = is_stopped && !std::mem::replace(&mut self.was_stopped, true);
        is_news.then(|| TreeEvent::ShimContinued(shim.clone()))
    }
}

/// Kills a shim that does not answer, after all its processes. Blocks.
pub(super) fn kill_shim(shim: &ProcessIdentity) {
    process_tree::kill_below(shim);
    if let Ok(Some(handle)) = pidfd::open_identified(shim) {
        let _ = pidfd::signal(&handle, Signal::KILL);
        pidfd::ends_within(&handle, KILL_WAIT);
    }
}

/// Duration of a ladder until SIGKILL.
pub(super) fn sum(ladder: &[Rung]) -> Span {
    let waits = ladder.iter().map(|rung| rung.wait.as_ms());
    Span::from_ms(waits.fold(0, u64::saturating_add))
}

/// Shortens a ladder to the time left.
pub(super) fn cut(ladder: Vec<Rung>, left: Span) -> Vec<Rung> {
    let mut left_ms = left.as_ms();
    let cut = |rung: Rung| {
        let wait_ms = rung.wait.as_ms().min(left_ms);
        left_ms -= wait_ms;
        (wait_ms > 0).then_some(Rung {
            wait: Span::from_ms(wait_ms),
            ..rung
        })
    };
    ladder.into_iter().map_while(cut).collect()
}

/// Stops an attempt without a shim: all processes with its tag, and its main process, if known,
/// even if it overwrote its environment. Blocks.
pub(super) fn end(
    leader: Option<&ProcessIdentity>,
    tag: AttemptTag,
    grace: Span,
) -> io::Result<()> {
    let deadline_ms = clock::boot_ms().saturating_add(grace.as_ms());
    let handle = leader.map(pidfd::open_identified).transpose()?.flatten();
    let scan = sweep::find(&[tag])?;
    let is_found = scan
        .found
        .iter()
        .any(|found| Some(&found.process) == leader);
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
