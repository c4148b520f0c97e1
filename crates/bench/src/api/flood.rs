//! The load: many connections on one thread, each asking anew as soon as it is answered.
//!
//! Nothing but `epoll`, `read` and `write`, so that it takes as little as possible of the processor
//! that it shares with whom it measures. What it takes all the same is told.

use std::io::{self, Read as _, Write as _};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::door::{Door, Head, Stream};

/// What somebody at one connection asks, and makes of the answer.
pub(crate) trait Client: Send {
    /// The next request, whole.
    fn next(&mut self) -> &[u8];

    /// Whether the answer is what it should be.
    fn is_answered(&mut self, status: u16, body: &[u8]) -> bool;
}

/// What came of a flood.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flooded {
    pub(crate) per_second: f64,
    /// Of one processor, by the load alone.
    pub(crate) load_share: f64,
}

struct Caller<C> {
    client: C,
    stream: Stream,
    read: Vec<u8>,
}

/// Nobody is silent for longer.
const SILENCE_MAX: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};

/// Asks from as many connections as there are clients, until the time is over.
pub(crate) fn flood<C: Client>(
    door: &Door,
    clients: Vec<C>,
    time: Duration,
) -> anyhow::Result<Flooded> {
    flood_until(door, clients, |began| began.elapsed() >= time)
}

/// The same, until somebody says so.
pub(crate) fn flood_until<C: Client>(
    door: &Door,
    clients: Vec<C>,
    is_over: impl Fn(Instant) -> bool,
) -> anyhow::Result<Flooded> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut callers = Vec::with_capacity(clients.len());
    for (number, client) in clients.into_iter().enumerate() {
        let stream = door.connect()?;
        stream.set_nonblocking()?;
        let place = epoll::EventData::new_u64(number as u64);
        epoll::add(&epoll, &stream, place, epoll::EventFlags::IN)?;
        callers.push(Caller {
            client,
            stream,
            read: Vec::with_capacity(4 << 10),
        });
    }
    let (began, began_cpu) = (Instant::now(), thread_seconds());
    for caller in &mut callers {
        caller.ask()?;
    }
    let (mut answers, mut ready) = (0_u64, Vec::with_capacity(callers.len()));
    while !is_over(began) {
        ready.clear();
        epoll::wait(&epoll, spare_capacity(&mut ready), Some(&SILENCE_MAX))?;
        ensure!(
            !ready.is_empty(),
            "nobody was answered for {} s",
            SILENCE_MAX.tv_sec
        );
        for event in &ready {
            let place = { event.data }.u64() as usize;
            if callers[place].listen()? {
                answers += 1;
                callers[place].ask()?;
            }
        }
    }
    let elapsed = began.elapsed().as_secs_f64();
    Ok(Flooded {
        per_second: answers as f64 / elapsed,
        load_share: (thread_seconds() - began_cpu) / elapsed,
    })
}

impl<C: Client> Caller<C> {
    fn ask(&mut self) -> io::Result<()> {
        // The daemon has read the request before: there is room.
        self.stream.write_all(self.client.next())
    }

    /// Whether the answer is whole.
    fn listen(&mut self) -> anyhow::Result<bool> {
        let mut chunk = [0; 8 << 10];
        let count = match self.stream.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            read => read?,
        };
        ensure!(count > 0, "a connection was closed");
        self.read.extend_from_slice(&chunk[..count]);
        let Some(head) = Head::parse(&self.read)? else {
            return Ok(false);
        };
        let whole = head.bytes + head.body_bytes.unwrap_or(0);
        if self.read.len() < whole {
            return Ok(false);
        }
        if !self
            .client
            .is_answered(head.status, &self.read[head.bytes..whole])
        {
            bail!("answered with {}", String::from_utf8_lossy(&self.read));
        }
        self.read.clear();
        Ok(true)
    }
}

/// Processor time of this thread.
pub(crate) fn thread_seconds() -> f64 {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}
