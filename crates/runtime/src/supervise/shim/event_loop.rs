//! The main loop of a shim: waits for a child's death, an order, or the next signal of a stop.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use relight_core::lease::ProcessIdentity;
use relight_core::time::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::attempt::{RunningAttempt, StartingAttempt};
use super::cgroup::ShimCgroup;
use super::ladder::{Act, Ladder};
use super::launch::launch;
use super::lease_deadline::DeadlineGuard;
use super::peers::Peers;
use super::record;
use super::system::{Reaped, reap};
use super::wire::{ExitRecord, Input, Order, ShimReport, StartOrder};
use crate::os::clock::since_boot;
use crate::os::process_tree;
use crate::supervise::folder::AgentFolder;
use crate::supervise::program::{CANNOT_BE_RUN, NotStarted};

/// Error of a start after the deadline.
const TOO_LATE: &str = "the lease of its node had run out";

/// A running shim.
pub(super) struct Shim {
    /// Held while open, here and in every agent. The first field, so that it is dropped before the
    /// supervisor sees its connection end.
    #[expect(dead_code, reason = "what counts is that it stays open")]
    pub(super) lock: OwnedFd,
    pub(super) identity: ProcessIdentity,
    pub(super) folder: AgentFolder,
    /// Readable when a child ended.
    pub(super) deaths: UnixStream,
    pub(super) peers: Peers,
    pub(super) terminal: Option<[OwnedFd; 3]>,
    /// Standard input for the first attempt that asks for it.
    pub(super) input: Option<OwnedFd>,
    pub(super) place: ShimCgroup,
    pub(super) attempt: Option<RunningAttempt>,
    pub(super) is_told_to_quit: bool,
    pub(super) guard: DeadlineGuard,
}

/// Result of `poll`.
struct Ready {
    death: bool,
    visitor: bool,
    /// Connections with input.
    peers: Vec<u64>,
}

impl Shim {
    /// Runs until it is told to exit, or has neither an attempt nor a supervisor.
    pub(super) fn live(mut self) -> io::Result<()> {
        self.hear(0);
        while !self.is_done() {
            let ready = self.wait()?;
            if ready.death {
                self.record_death();
            }
            for number in ready.peers {
                self.peers.read(number);
                self.hear(number);
            }
            if ready.visitor {
                self.peers.accept();
            }
            self.mind_deadline();
            self.climb();
        }
        // While the lock is held; afterwards the socket may belong to another shim.
        std::fs::remove_file(self.folder.shim_socket())
    }

    fn is_done(&self) -> bool {
        let is_needed = self.attempt.is_some() || self.peers.has_supervisor();
        self.is_told_to_quit || !is_needed
    }

    fn wait(&self) -> io::Result<Ready> {
        let mut waiting = vec![PollFd::new(&self.deaths, PollFlags::IN)];
        let interest = if self.peers.is_listening {
            PollFlags::IN
        } else {
            PollFlags::empty()
        };
        waiting.push(PollFd::new(self.peers.listener(), interest));
        waiting.extend(
            self.peers
                .all
                .iter()
                .map(|peer| PollFd::new(&peer.stream, PollFlags::IN)),
        );
        // Without an attempt nothing handles it, and it would wake us for ever.
        let timer = self.attempt.as_ref().and(self.guard.timer());
        waiting.extend(timer.map(|timer| PollFd::new(timer, PollFlags::IN)));
        let timeout = self.until_due();
        match poll(&mut waiting, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |index: usize| !waiting[index].revents().is_empty();
        let peers = self.peers.all.iter().enumerate();
        Ok(Ready {
            death: is_ready(0),
            visitor: is_ready(1),
            peers: peers
                .filter(|(i, _)| is_ready(i + 2))
                .map(|(_, peer)| peer.number)
                .collect(),
        })
    }

    /// The `poll` timeout: only a stop and a deadline need one.
    fn until_due(&self) -> Option<Timespec> {
        let attempt = self.attempt.as_ref()?;
        let rung_ms = attempt.stop.as_ref().map(|stop| stop.due().as_ms());
        let due_ms = rung_ms.into_iter().chain(self.guard.due_ms()).min()?;
        let wait = Span::from_ms(due_ms.saturating_sub(since_boot().as_ms()));
        Timespec::try_from(wait.as_duration()).ok()
    }

    /// Stops the attempt when its deadline has passed, even without a supervisor.
    fn mind_deadline(&mut self) {
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        let now = since_boot();
        let Some(deadline) = self.guard.take_due(now) else {
            return;
        };
        attempt.lease_has_ended();
        self.stop(Ladder::until(deadline.ladder, now, deadline.kill_at_ms));
    }

    /// Executes the orders of a connection.
    fn hear(&mut self, number: u64) {
        while let Some(order) = self.peers.next_order(number) {
            match order {
                Order::Hello { fence } => {
                    if self.peers.admit(number, fence) {
                        self.tell_status();
                    }
                }
                _ if !self.peers.is_supervisor(number) => self.peers.close(number),
                Order::Start(order) => self.start(&order),
                Order::Guard(deadline) => self.guard.set(deadline),
                Order::Stop { tag, ladder } => {
                    let running = self.attempt.as_ref().map(|attempt| attempt.running().0);
                    // Not for another attempt than the one that is meant.
                    if tag.is_none() || running.is_none() || tag == running {
                        self.stop(Ladder::new(ladder, since_boot()));
                    }
                }
                Order::Quit if self.attempt.is_none() => self.is_told_to_quit = true,
                Order::Quit => self.tell_status(),
            }
        }
    }

    fn tell_status(&mut self) {
        let running = self.attempt.as_ref().map(RunningAttempt::running);
        self.peers.tell(&ShimReport::Status {
            shim: self.identity.clone(),
            running,
        });
    }

    fn start(&mut self, order: &StartOrder) {
        if self.attempt.is_some() {
            return self.tell_status();
        }
        // On an error only what an unobserved start leaves to the next supervisor is lost.
        let _ = record::write_begun(&self.folder, order.number, &order.tag);
        let begun = StartingAttempt::before(order, &mut self.place);
        if let Some(deadline) = order.guard.clone() {
            self.guard.set(deadline);
        }
        if self.guard.is_due(since_boot()) {
            let why = NotStarted::new(CANNOT_BE_RUN, TOO_LATE.to_owned());
            let ended = begun.not_started(why, &mut self.place);
            return self.end(ExitRecord {
                lease_ended: true,
                ..ended
            });
        }
        // Moved, not copied, so that the writer notices when its reader is gone.
        let input = self.input.take_if(|_| order.input == Input::Passed);
        let attempt = match launch(order, self.terminal.as_ref(), input) {
            Ok(pid) => begun.started(pid, &self.identity),
            Err(why) => {
                let ended = begun.not_started(why, &mut self.place);
                return self.end(ended);
            }
        };
        let (tag, process) = attempt.running();
        let started = (tag.clone(), process.clone());
        let _ = record::write_started(&self.folder, order.number, started);
        self.peers.tell(&ShimReport::Started { tag, process });
        self.attempt.insert(attempt).leave_cgroup(&mut self.place);
    }

    fn stop(&mut self, ladder: Ladder) {
        let Some(attempt) = &mut self.attempt else {
            return self.tell_status();
        };
        attempt.stop = Some(match attempt.stop.take() {
            Some(stop) => stop.hurried(ladder, since_boot()),
            None => ladder,
        });
    }

    /// Reaps children. When the main process ended, the remaining processes are stopped too.
    fn record_death(&mut self) {
        let mut bytes = [0; 64];
        while matches!(self.deaths.read(&mut bytes), Ok(len) if len == bytes.len()) {}
        loop {
            match reap() {
                Reaped::Child(dead) => {
                    if let Some(attempt) = &mut self.attempt {
                        attempt.note_death(dead);
                    }
                }
                Reaped::NoneDead => break,
                Reaped::NoChild => {
                    if let Some(attempt) = self.attempt.take_if(|it| it.leader_is_dead()) {
                        self.end(attempt.finish(0));
                    }
                    return;
                }
            }
        }
        if let Some(attempt) = &mut self.attempt {
            attempt.begin_leftovers();
        }
    }

    /// Executes the due action of the running stop.
    fn climb(&mut self) {
        let has_terminal = self.terminal.is_some();
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        let Some(act) = attempt
            .stop
            .as_mut()
            .and_then(|stop| stop.next(since_boot()))
        else {
            return;
        };
        match act {
            Act::Signal(number) => {
                let signal = Signal::from_named_raw(number).unwrap_or(Signal::TERM);
                process_tree::signal(signal);
            }
            Act::Kill => {
                attempt.kill_cgroup();
                // Groups of a terminal's session may contain other processes.
                process_tree::kill(!has_terminal);
            }
            Act::GiveUp => {
                let ended = self
                    .attempt
                    .take()
                    .map(|attempt| attempt.finish(process_tree::count()));
                ended.into_iter().for_each(|ended| self.end(ended));
            }
        }
    }

    /// Writes the exit record before it reports, so that no death is lost.
    fn end(&mut self, ended: ExitRecord) {
        // On a full disk only the report is left.
        let _ = record::write(&self.folder, &ended);
        self.peers.tell(&ShimReport::Ended(ended));
    }
}
