//! A thousand watchers of a thousand events a second: memory, lag, and that nobody misses one.

use std::io::{self, Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use memchr::memmem;
use relight_testkit::world::clock::monotonic_ns;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::time::Timespec;
use tokio::task::JoinSet;

use super::daemon::Daemon;
use super::door::{Door, Stream};
use crate::product::{Library, Task};
use crate::row::{Row, Target};
use crate::samples::Samples;
use crate::stage::Stage;
use crate::usage::{Memory, Work};

const WATCHERS: usize = 1_000;
/// Tasks that write one step each in every round.
const WRITERS: usize = 10;
const ROUND: Duration = Duration::from_millis(10);
/// The lag is read off every event of so many watchers, one in fifty.
const SAMPLED_EVERY: usize = 50;
/// What a step's name begins with; the moment before its write follows.
const SENT: &str = "sent-";
/// No watcher is so far behind at the end.
const BEHIND_MAX: Duration = Duration::from_secs(20);
const TICK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

pub(crate) fn rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let home = stage.subfolder("watched")?;
    let daemon = Daemon::start(stage, &home)?;
    let library = Arc::new(stage.runtime.block_on(Library::open(&home))?);
    let time = stage.pick(Duration::from_secs(10), Duration::from_secs(2));
    write_for(stage, &library, "alone", time / 4)?;
    let without = Memory::of(daemon.pid())?;
    let found = watch(stage, &daemon, &library, time)?;
    let lag = Samples::new(found.lags_ms);
    let one = |value: f64| Samples::new(vec![value]);
    let more = (found.memory_max_kib - without.rss_kib) / 1024.0;
    let p99 = one(lag.p99());
    let what = format!("{WATCHERS} watchers");
    let note = format!(
        "{:.0} events/s; of one core the daemon used {:.0} % and the watchers {:.0} %",
        found.written as f64 / time.as_secs_f64(),
        found.daemon_share * 100.0,
        found.watchers_share * 100.0,
    );
    Ok(vec![
        Row::new(format!("{what}, RSS more than without"), "MiB")
            .figure(Some(&one(more)))
            .target(Target::ValueMax(100.0))
            .note(Some(note)),
        Row::new(
            format!("{what}, from before the write until it is read"),
            "ms",
        )
        .figure(Some(&lag)),
        Row::new(format!("{what}, the same, p99"), "ms").figure(Some(&p99)),
        Row::new(format!("{what}, events that somebody missed"), "")
            .figure(Some(&one(found.missed as f64)))
            .target(Target::ValueMax(0.0)),
    ])
}

struct Found {
    memory_max_kib: f64,
    lags_ms: Vec<f64>,
    written: usize,
    /// Of all watchers together.
    missed: u64,
    daemon_share: f64,
    watchers_share: f64,
}

fn watch(
    stage: &Stage,
    daemon: &Daemon,
    library: &Arc<Library>,
    time: Duration,
) -> anyhow::Result<Found> {
    let mut crowd = Crowd::gather(&daemon.tcp)?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let read = crowd.watch(&is_over);
            read.map(|spent| (crowd, spent))
        });
        let before = Work::of(&[daemon.pid()])?;
        let writing = scope.spawn(|| write_for(stage, library, "watched", time));
        let mut memory_max_kib = 0.0_f64;
        while !writing.is_finished() {
            thread::sleep(Duration::from_millis(100));
            memory_max_kib = memory_max_kib.max(Memory::of(daemon.pid())?.rss_kib);
        }
        let written = writing.join().expect("a writer does not panic");
        let spent = Work::of(&[daemon.pid()])?.since(before);
        is_over.store(true, Ordering::Relaxed);
        let (crowd, watchers_share) = watching.join().expect("a watcher does not panic")?;
        let (written, lags_ms) = (written?, crowd.lags_ms());
        let seen = crowd
            .watchers
            .iter()
            .map(|watcher| watcher.events.min(written))
            .sum::<usize>();
        Ok(Found {
            memory_max_kib,
            lags_ms,
            written,
            missed: (written * WATCHERS - seen) as u64,
            daemon_share: spent.cpu_ms / 1e3 / time.as_secs_f64(),
            watchers_share,
        })
    })
}

/// Writes steps for so long, evenly; how many.
fn write_for(
    stage: &Stage,
    library: &Arc<Library>,
    name: &str,
    time: Duration,
) -> anyhow::Result<usize> {
    stage.runtime.block_on(async {
        let mut writing = JoinSet::new();
        for number in 0..WRITERS {
            let task = library.start_task(&format!("{name}-{number}")).await?;
            writing.spawn(write_evenly(task, time));
        }
        let mut written = 0;
        while let Some(some) = writing.join_next().await {
            written += some??;
        }
        Ok(written)
    })
}

async fn write_evenly(mut task: Task, time: Duration) -> anyhow::Result<usize> {
    let mut rounds = tokio::time::interval(ROUND);
    let (began, mut written) = (Instant::now(), 0);
    while began.elapsed() < time {
        rounds.tick().await;
        task.step(&format!("{SENT}{}", monotonic_ns()), "done")
            .await?;
        written += 1;
    }
    Ok(written)
}

/// All watchers, on one thread.
struct Crowd {
    watchers: Vec<Watcher>,
}

struct Watcher {
    stream: Stream,
    /// What was read of an event that is not whole yet.
    rest: Vec<u8>,
    events: usize,
    lags_ns: Vec<u64>,
    is_sampled: bool,
}

impl Crowd {
    /// Connects all of them; each is told that it is heard.
    fn gather(door: &Door) -> anyhow::Result<Crowd> {
        let wants = "accept: text/event-stream\r\n";
        let request = door.plain_request("GET", "/api/events", wants);
        let mut watchers = Vec::with_capacity(WATCHERS);
        for number in 0..WATCHERS {
            let mut stream = door.connect()?;
            stream.write_all(&request)?;
            let (mut chunk, mut head) = ([0; 4 << 10], Vec::new());
            while memmem::find(&head, b"retry: ").is_none() {
                let count = stream.read(&mut chunk).context("a stream begins")?;
                ensure!(count > 0, "no stream: {}", String::from_utf8_lossy(&head));
                head.extend_from_slice(&chunk[..count]);
            }
            stream.set_nonblocking()?;
            let is_sampled = number % SAMPLED_EVERY == 0;
            let (rest, lags_ns) = (Vec::new(), Vec::new());
            watchers.push(Watcher {
                stream,
                rest,
                events: 0,
                lags_ns,
                is_sampled,
            });
        }
        Ok(Crowd { watchers })
    }

    /// Reads until it is over and nothing more comes; the share of a core that it took.
    fn watch(&mut self, is_over: &AtomicBool) -> anyhow::Result<f64> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (number, watcher) in self.watchers.iter().enumerate() {
            let place = epoll::EventData::new_u64(number as u64);
            epoll::add(&epoll, &watcher.stream, place, epoll::EventFlags::IN)?;
        }
        let (began, before) = (Instant::now(), super::flood::thread_seconds());
        let (mut over_at, mut ready) = (None::<Instant>, Vec::with_capacity(WATCHERS));
        let mut chunk = vec![0; 64 << 10];
        loop {
            ready.clear();
            epoll::wait(&epoll, spare_capacity(&mut ready), Some(&TICK))?;
            for event in &ready {
                let place = { event.data }.u64() as usize;
                self.watchers[place].listen(&mut chunk)?;
            }
            if is_over.load(Ordering::Relaxed) {
                let end = *over_at.get_or_insert_with(Instant::now);
                if (ready.is_empty() && end.elapsed() > Duration::from_millis(500))
                    || end.elapsed() > BEHIND_MAX
                {
                    break;
                }
            }
        }
        Ok((super::flood::thread_seconds() - before) / began.elapsed().as_secs_f64())
    }

    fn lags_ms(&self) -> Vec<f64> {
        let all = self.watchers.iter().flat_map(|watcher| &watcher.lags_ns);
        all.map(|ns| *ns as f64 / 1e6).collect()
    }
}

impl Watcher {
    fn listen(&mut self, chunk: &mut [u8]) -> anyhow::Result<()> {
        let count = match self.stream.read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            read => read?,
        };
        ensure!(count > 0, "a stream was ended");
        let read = &chunk[..count];
        // Whole events only; where one was cut by the end of a read, it is put together.
        let whole = memmem::rfind(read, b"\n\n").map_or(0, |at| at + 2);
        self.rest.extend_from_slice(&read[..whole]);
        if whole > 0 {
            let text = std::mem::take(&mut self.rest);
            self.take(&text);
        }
        self.rest.extend_from_slice(&read[whole..]);
        Ok(())
    }

    fn take(&mut self, text: &[u8]) {
        let now = monotonic_ns();
        let sent = memmem::find_iter(text, SENT.as_bytes());
        if !self.is_sampled {
            self.events += sent.count();
            return;
        }
        for at in sent {
            self.events += 1;
            let digits = text[at + SENT.len()..]
                .iter()
                .take_while(|byte| byte.is_ascii_digit());
            let ns = digits.fold(0_u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
            self.lags_ns.push(now.saturating_sub(ns));
        }
    }
}
