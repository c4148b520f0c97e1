//! What lives of an agent, and how this supervisor is connected to it.

use std::io;
use std::time::Duration;

use relight_core::agent::AttemptTag;
use relight_core::agent::death::HowEnded;
use relight_core::lease::ProcessIdentity;
use relight_core::time::Span;
use rustix::process::Signal;
use tokio::time::{Instant, timeout};

use crate::os::{clock, pidfd};
use crate::supervise::shim;
use crate::supervise::shim::client::ShimConnection;
use crate::supervise::shim::wire::{Order, Rung, ShimReport, StartOrder};
use crate::supervise::sweep;
use crate::supervise::watch_process::ProcessWatch;

/// How long the kernel has to end what is killed.
pub(super) const KILL_WAIT: Span = Span::from_secs(5);
/// How often a shim that owes an answer is looked at: somebody may have stopped it.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How many looks a shim has to say what it has, or that something was started.
const ANSWER_LOOKS: u32 = 10;
/// How much longer than the tree itself a shim may take to say that its tree is gone.
const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// How long an idle shim has to go.
const QUIT_WAIT: Duration = Duration::from_secs(1);

/// What lives of an agent.
pub(super) enum Tree {
    /// Nothing, and nobody to start it.
    None,
    /// Its shim, with or without an attempt.
    Shim {
        connection: ShimConnection,
        shim: ProcessIdentity,
        owes: Option<Owed>,
        /// The newest one that it runs or was told to start.
        attempt: Option<AttemptTag>,
    },
    /// An attempt whose shim was killed: only the kernel tells of its end.
    Orphan(Orphan),
}

/// An answer that a shim owes. An agent can stop its shim (`kill -STOP $PPID`), so it is looked at until
/// the answer comes.
pub(super) struct Owed {
    answer: ExpectedReport,
    look_at: Instant,
    /// By then it must have come.
    until: Instant,
    /// It was found stopped, which was told.
    was_stopped: bool,
    /// The tree was killed over its head.
    has_lost_tree: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedReport {
    /// That something was started.
    Started,
    /// That its tree is gone.
    Ended,
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
    Says(ShimReport),
    /// The shim was stopped by somebody, and was continued.
    ShimContinued(ProcessIdentity),
    /// The shim is gone.
    ShimGone,
    /// The shim did not answer, so its tree and it itself were killed.
    ShimKilled(ProcessIdentity),
    /// The leader that nobody holds is gone.
    LeaderGone(HowEnded),
}

/// What a shim that was just met says it has.
pub(super) struct ConnectedShim {
    pub(super) tree: Tree,
    pub(super) running: Option<(AttemptTag, ProcessIdentity)>,
}

impl Tree {
    /// Hears what the shim at the other end has. None when a newer supervisor was there, or when it
    /// has just gone. One that was stopped is continued; one that is stopped again and again is killed,
    /// and its attempt lives on without it.
    pub(super) async fn meet(mut connection: ShimConnection) -> io::Result<Option<ConnectedShim>> {
        let mut stopped = None;
        for _ in 0..ANSWER_LOOKS {
            match timeout(LOOK_EVERY, connection.next()).await {
                Ok(first) => return Ok(Self::met(connection, first?)),
                Err(_) => stopped = connection.peer().filter(pidfd::continue_stopped).or(stopped),
            }
        }
        if let Some(handle) = stopped.and_then(|shim| pidfd::open_identified(&shim).ok().flatten())
        {
            pidfd::signal(&handle, Signal::KILL)?;
            // Until then it has the lock.
            let _ = timeout(KILL_WAIT.as_duration(), pidfd::ended(handle)).await;
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    fn met(connection: ShimConnection, first: Option<ShimReport>) -> Option<ConnectedShim> {
        match first {
            Some(ShimReport::Status { shim, running }) => {
                let attempt = running.as_ref().map(|(tag, _)| tag.clone());
                Some(ConnectedShim {
                    tree: Self::Shim { connection, shim, owes: None, attempt },
                    running,
                })
            }
            Some(
                ShimReport::Refused { .. } | ShimReport::Started { .. } | ShimReport::Ended(_),
            )
            | None => None,
        }
    }

    /// The next thing that happens; never, when nothing lives. Nothing is lost when it is dropped.
    pub(super) async fn next(&mut self) -> TreeEvent {
        match self {
            Self::None => std::future::pending().await,
            Self::Shim { connection, shim, owes, .. } => loop {
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
            Self::Shim { connection, attempt, .. } => {
                let (orders, tag) = (connection.orders(), attempt.clone());
                self.expect_end(sum(&ladder), Duration::ZERO);
                tokio::spawn(async move {
                    if let Some(orders) = orders.upgrade() {
                        // A shim that cannot be told is gone, which comes as an event.
                        let _ = orders.send(&Order::Stop { ladder, tag }).await;
                    }
                });
            }
            Self::Orphan(orphan) => {
                let (process, tag) = (orphan.watch.process().clone(), orphan.tag.clone());
                let grace = sum(&ladder);
                tokio::task::spawn_blocking(move || end(Some(&process), tag, grace));
            }
        }
    }

    /// Starts an attempt.
    pub(super) async fn start(&mut self, order: StartOrder) -> io::Result<()> {
        match self {
            Self::Shim { connection, owes, attempt, .. } => {
                *attempt = Some(order.tag.clone());
                *owes = Some(Owed::new(ExpectedReport::Started, LOOK_EVERY * ANSWER_LOOKS));
                connection.send(&Order::Start(Box::new(order))).await
            }
            Self::None | Self::Orphan(_) => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// What runs is given that long to end before it is killed; soon after that the shim has to say that
    /// it is gone. An earlier limit stays.
    pub(super) fn expect_end(&mut self, grace: Span, look_after: Duration) {
        let Self::Shim { owes, .. } = self else { return };
        let waits = [grace.as_duration(), KILL_WAIT.as_duration(), ANSWER_WAIT];
        let mut new = Owed::new(
            ExpectedReport::Ended,
            waits.into_iter().fold(Duration::ZERO, Duration::saturating_add),
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

    /// Lets an idle shim go, and waits until it is gone. One that does not go is killed: nothing of it
    /// runs, and it would keep the lock.
    pub(super) async fn dismiss(&mut self) {
        if let Self::Shim { connection, shim, .. } = self {
            let _ = pidfd::continue_stopped(shim);
            let watch = ProcessWatch::new(shim).ok().flatten();
            let _ = connection.send(&Order::Quit).await;
            let Some(watch) = watch else { return *self = Self::None };
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

    /// Goes, and leaves everything as it is.
    pub(super) fn leave(&mut self) {
        *self = Self::None;
    }
}

impl Owed {
    fn new(answer: ExpectedReport, limit: Duration) -> Self {
        let now = Instant::now();
        // A ladder may be as long as somebody likes.
        let until = now.checked_add(limit).unwrap_or_else(|| now + Duration::from_secs(1 << 30));
        Self { answer, look_at: now + LOOK_EVERY, until, was_stopped: false, has_lost_tree: false }
    }

    fn is_paid_by(&self, report: &ShimReport) -> bool {
        match report {
            ShimReport::Started { .. } => self.answer == ExpectedReport::Started,
            ShimReport::Status { .. } | ShimReport::Ended(_) | ShimReport::Refused { .. } => true,
        }
    }

    /// The answer did not come yet: a stopped shim is continued; when an end is overdue its tree is killed
    /// for it, and then it itself.
    fn look(&mut self, shim: &ProcessIdentity) -> Option<TreeEvent> {
        let now = Instant::now();
        self.look_at = now + LOOK_EVERY;
        let is_stopped = pidfd::continue_stopped(shim);
        if now >= self.until && self.answer == ExpectedReport::Ended {
            let shim = shim.clone();
            if std::mem::replace(&mut self.has_lost_tree, true) {
                self.look_at = now + ANSWER_WAIT;
                let killed = shim.clone();
                tokio::task::spawn_blocking(move || kill_shim(&killed));
                return Some(TreeEvent::ShimKilled(shim));
            }
            self.until = now + ANSWER_WAIT;
            tokio::task::spawn_blocking(move || {
                shim::kill_below(&shim);
                pidfd::continue_stopped(&shim)
            });
        } else if now >= self.until {
            // What is slow to start is ended by its own limits.
            self.look_at = now + Duration::from_secs(1 << 30);
        }
        let is_news = is_stopped && !std::mem::replace(&mut self.was_stopped, true);
        is_news.then(|| TreeEvent::ShimContinued(shim.clone()))
    }
}

/// Kills a shim that does not answer, after everything below it. Blocks.
pub(super) fn kill_shim(shim: &ProcessIdentity) {
    shim::kill_below(shim);
    if let Ok(Some(handle)) = pidfd::open_identified(shim) {
        let _ = pidfd::signal(&handle, Signal::KILL);
        pidfd::ends_within(&handle, KILL_WAIT);
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
