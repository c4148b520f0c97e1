//! One life of a fake agent, from its first instruction to its end.

use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use relight_runtime::os::environment;

use super::lines::{Line, line_text};
use super::options::{Options, Role};
use super::places::{Birth, Places, live_marks};
use super::tree;
use crate::world::clock;

/// Lives as the flags say; the exit code. `at_ns` is the first instruction of this process.
pub fn run(options: &Options, at_ns: u64) -> anyhow::Result<u8> {
    let places = Places::at(&options.folder);
    let told = Told::by_environment();
    match options.role {
        Role::Leader => lead(options, &places, &told, at_ns),
        Role::Launcher => tree::launch(options).map(|()| 0),
        Role::Child => tree::live(options, &places, told.number()),
    }
}

/// What Relight told it.
struct Told(Vec<(String, String)>);

impl Told {
    fn by_environment() -> Self {
        let all = environment::variables();
        let is_told =
            |(name, _): &(&str, &str)| name.starts_with("RELIGHT_") || *name == "NOTIFY_SOCKET";
        let told = environment::texts(&all).filter(is_told);
        Self(
            told.map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        )
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(found, _)| found == name)
            .map(|(_, value)| value.as_str())
    }

    fn tag(&self) -> &str {
        self.get("RELIGHT_ATTEMPT").unwrap_or("untagged")
    }

    /// 0 when nobody numbers attempts.
    fn number(&self) -> u32 {
        self.tag()
            .rsplit('.')
            .nth(1)
            .and_then(|number| number.parse().ok())
            .unwrap_or(0)
    }

    fn text(&self) -> String {
        self.0
            .iter()
            .map(|(name, value)| format!("{name}={value}\n"))
            .collect()
    }
}

fn lead(options: &Options, places: &Places, told: &Told, at_ns: u64) -> anyhow::Result<u8> {
    let (name, number, pid) = (&options.name, told.number(), std::process::id());
    // Held until the end of the process, as is the mark.
    let leader = places.hold(&format!("leaders/{name}"))?;
    if leader.is_none() {
        places.complain(&format!(
            "doubled: {name} attempt {number} pid {pid}: another one lives"
        ));
    }
    let _mark = places.mark(name, number)?;
    complain_of_leftovers(places, name, number)?;
    places.record_environment(name, number, &told.text());
    places.record_birth(
        name,
        &Birth {
            number,
            pid,
            at_ns,
            tag: told.tag().to_owned(),
        },
    )?;
    tree::start(options)?;
    work(options, places, told)
}

/// Nothing of an earlier attempt may live when the next one starts.
fn complain_of_leftovers(places: &Places, name: &str, number: u32) -> anyhow::Result<()> {
    for mark in live_marks(places)? {
        if mark.name == *name && mark.number != number {
            let (old, pid) = (mark.number, mark.pid);
            places.complain(&format!(
                "left behind: pid {pid} of {name} attempt {old} lives beside attempt {number}"
            ));
        }
    }
    Ok(())
}

/// Writes, beats, falls silent, ends: whatever is due next.
fn work(options: &Options, places: &Places, told: &Told) -> anyhow::Result<u8> {
    let began = clock::now();
    let mut writer = Writer::new(options, places, told.number())?;
    let beats = options
        .beat
        .map(|every| Beats::new(every, told))
        .transpose()?;
    let hang_at = options.hang_after.map(|after| began + after);
    let exit_at = options.exit_after.map(|after| began + after);
    let mut write_at = (options.lines > 0).then_some(began);
    let mut beat_at = beats.as_ref().map(|_| began);
    loop {
        let now = clock::now();
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(exit_at) {
            return Ok(options.exit_code);
        }
        if is_due(hang_at) {
            (write_at, beat_at) = (None, None);
        }
        if is_due(write_at) {
            writer.write(options, places);
            write_at = Some(now + options.every);
        }
        if let Some(beats) = beats.as_ref().filter(|_| is_due(beat_at)) {
            beats.beat();
            beat_at = Some(now + beats.every);
        }
        let hang_at = hang_at.filter(|_| write_at.is_some() || beat_at.is_some());
        match [exit_at, hang_at, write_at, beat_at]
            .into_iter()
            .flatten()
            .min()
        {
            Some(next) => clock::pause(next.saturating_duration_since(clock::now())),
            None => rustix::event::pause(),
        }
    }
}

/// Writes lines, and says of each that it is written only when it is.
struct Writer {
    written: std::fs::File,
    line: Line,
}

impl Writer {
    fn new(options: &Options, places: &Places, attempt: u32) -> anyhow::Result<Self> {
        let written = places.written_file(&options.name, attempt)?;
        Ok(Self {
            written,
            line: Line { attempt, number: 0 },
        })
    }

    fn write(&mut self, options: &Options, places: &Places) {
        for _ in 0..options.lines {
            self.line.number += 1;
            let text = line_text(self.line, options.width);
            let name = &options.name;
            match rustix::io::write(std::io::stdout(), text.as_bytes()) {
                Ok(count) if count == text.len() => {}
                Ok(count) => places.complain(&format!("{name}: {count} bytes of a line written")),
                Err(error) => places.complain(&format!("{name} cannot write: {error}")),
            }
            if let Err(error) = self
                .written
                .write_all_at(&self.line.number.to_le_bytes(), 0)
            {
                places.complain(&format!("{name} cannot say what it wrote: {error}"));
            }
        }
    }
}

/// Datagrams of `sd_notify`.
struct Beats {
    every: Duration,
    socket: UnixDatagram,
    to: String,
}

impl Beats {
    fn new(every: Duration, told: &Told) -> anyhow::Result<Self> {
        let to = told
            .get("NOTIFY_SOCKET")
            .context("no NOTIFY_SOCKET to beat on")?
            .to_owned();
        Ok(Self {
            every,
            socket: UnixDatagram::unbound()?,
            to,
        })
    }

    fn beat(&self) {
        // While no supervisor lives nobody listens, and that is as it should be.
        let _ = self.socket.send_to(b"WATCHDOG=1\n", &self.to);
    }
}
