//! `relight logs`: what an agent wrote, and what it goes on to write, over all its attempts, without the
//! secrets that can be recognised: the file is the agent's own, what is shown of it is ours.

mod far;
mod merged;

use std::collections::VecDeque;
use std::io::{self, Read};
use std::time::Duration;

use relight_core::agent::{Agent, Attempt};
use relight_core::error_code::ErrorCode;
use relight_core::ids::{AgentName, NodeName};
use relight_redact::{RedactedStream, Redactor, SIGHT_BYTES};
use relight_runtime::engine::{ActError, Engine};
use relight_runtime::fleet::far_log;
use relight_runtime::supervise::folder::AgentFolder;
use relight_runtime::supervise::log::{AgentLog, LogPosition};
use relight_store::{AgentQuery, AttemptQuery, StoreError};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use super::events::end_when_nobody_reads;
use crate::arguments::agent::LogsArguments;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal_filter::TerminalFilter;
use crate::{block_on, block_on_with, output};

const CHUNK_BYTES: usize = 256 * 1024;
/// How long a line that is being followed may take to end before its words are shown.
const LINE_WAIT: Duration = Duration::from_millis(200);

pub(crate) fn run(environment: &Environment, arguments: &LogsArguments) -> Outcome {
    if arguments.lines == Some(0) && !arguments.follow {
        return Err(super::events::nothing_asked_for());
    }
    let engine = environment.engine()?;
    let agents = agents(&engine, &arguments.names)?;
    let is_by_line = environment.json
        || arguments.timestamps
        || arguments.since.is_some()
        || arguments.grep.is_some();
    match &agents[..] {
        [agent] if !arguments.names.is_empty() && !is_by_line => {
            one(environment, arguments, &engine, agent)
        }
        [] => {
            output::note(environment, "no agents; relight run -- CMD makes the first");
            Ok(0)
        }
        agents => merged::run(environment, arguments, &engine, agents),
    }
}

/// Those that are named, else all. A name that only a pool has stands for its members.
fn agents(engine: &Engine, names: &[AgentName]) -> Result<Vec<Agent>, Failure> {
    if names.is_empty() {
        return Ok(block_on(engine.store().agents(AgentQuery::default()))?);
    }
    let mut agents = Vec::new();
    for name in super::control::members(engine, names)? {
        let found = block_on(engine.store().agent(&name))?;
        agents.push(found.ok_or(ActError::NoSuchAgent(name))?);
    }
    Ok(agents)
}

/// The output of one agent, byte for byte.
fn one(
    environment: &Environment,
    arguments: &LogsArguments,
    engine: &Engine,
    agent: &Agent,
) -> Outcome {
    let name = &agent.name;
    if let Some(node) = block_on(far_node(engine, agent, arguments.attempt))? {
        let far = far::read(environment, arguments, agent, &node)?;
        for line in &far.lines {
            output::write_out(format!("{line}\n").as_bytes());
        }
        output::note(environment, &far.note);
        return Ok(0);
    }
    let log = log_of(environment, engine, name)?;
    let mut printer = Printer::new(environment, arguments, engine.redactor());
    let watch = arguments.follow.then(Watch::begin).transpose();
    let watch = watch.map_err(|error| failure(&error))?;
    let part = part_of(engine, agent, arguments.attempt)?;
    let end = print_part(&log, arguments, &part, &mut printer).map_err(|error| failure(&error))?;
    if let Some(watch) = watch {
        watch
            .follow(&log, end, &mut printer)
            .map_err(|error| failure(&error))?;
        return Ok(0);
    }
    printer.finish();
    if !printer.has_printed {
        output::note(environment, &format!("agent {name} has written nothing"));
    }
    Ok(0)
}

fn log_of(
    environment: &Environment,
    engine: &Engine,
    name: &AgentName,
) -> Result<AgentLog, Failure> {
    let folder = AgentFolder::of(&environment.store_folder(engine)?, name);
    folder.create().map_err(|error| failure(&error))?;
    Ok(AgentLog::of(&folder))
}

/// The other node of a fleet that has what is asked for.
async fn far_node(
    engine: &Engine,
    agent: &Agent,
    attempt: Option<u32>,
) -> Result<Option<NodeName>, StoreError> {
    let store = engine.store().as_ref();
    match attempt {
        Some(number) => far_log::node_of_attempt(store, agent, number).await,
        None => far_log::node_of(store, agent).await,
    }
}

fn failure(error: &io::Error) -> Failure {
    Failure::new(Exit::Io, format!("cannot read the log: {error}"))
}

/// From where, to where; to the end when none.
struct LogRange {
    from: LogPosition,
    to: Option<LogPosition>,
}

/// The whole log, or the output of one attempt, which ends where that of the next one begins.
fn part_of(engine: &Engine, agent: &Agent, attempt: Option<u32>) -> Result<LogRange, Failure> {
    let Some(number) = attempt else {
        return Ok(LogRange {
            from: LogPosition::START,
            to: None,
        });
    };
    let name = &agent.name;
    // They are numbered in order: the wanted one is so far from the newest.
    let limit = agent.attempt_number.saturating_sub(number) as usize + 1;
    let query = AttemptQuery {
        agent: Some(name.clone()),
        ended: false,
        limit,
        before: None,
    };
    let attempts = block_on(engine.store().attempts(query))?;
    let log = |attempt: &Attempt| attempt.log.map(LogPosition::from);
    let from = attempts
        .iter()
        .find(|attempt| attempt.number == number)
        .and_then(log);
    let Some(from) = from else {
        let text = format!("there is no output of attempt {number} of agent {name}");
        return Err(Failure::of(ErrorCode::NOT_FOUND, text).hint(format!("relight deaths {name}")));
    };
    let after = attempts.iter().filter(|attempt| attempt.number > number);
    let to = after.min_by_key(|attempt| attempt.number).and_then(log);
    Ok(LogRange { from, to })
}

fn print_part(
    log: &AgentLog,
    arguments: &LogsArguments,
    part: &LogRange,
    printer: &mut Printer<'_>,
) -> io::Result<LogPosition> {
    let from = first_line(log, part, arguments)?;
    let before = before(log, from)?;
    printer.pass_over(&before);
    each_chunk(log, &LogRange { from, to: part.to }, |_, chunk| {
        printer.print(chunk);
    })
}

/// What stands before the first line that is wanted tells of it: a key may have begun there.
fn before(log: &AgentLog, from: LogPosition) -> io::Result<Vec<u8>> {
    let offset = from.offset.saturating_sub(SIGHT_BYTES as u64);
    let mut bytes = Vec::new();
    if offset < from.offset {
        let before = LogRange {
            from: LogPosition { offset, ..from },
            to: Some(from),
        };
        each_chunk(log, &before, |_, chunk| bytes.extend_from_slice(chunk))?;
    }
    Ok(bytes)
}

/// Where the first line that is wanted begins.
fn first_line(
    log: &AgentLog,
    part: &LogRange,
    arguments: &LogsArguments,
) -> io::Result<LogPosition> {
    let since = arguments.since.map(|since| log.position_at(since));
    let from = since.transpose()?.unwrap_or(part.from).max(part.from);
    match (arguments.last(), part.to) {
        (None, _) => Ok(from),
        (Some(count), None) => log.last_lines_from(count, from),
        (Some(count), Some(_)) => last_lines_of(log, part, count),
    }
}

/// Where the last lines of a part begin.
fn last_lines_of(log: &AgentLog, part: &LogRange, count: usize) -> io::Result<LogPosition> {
    let mut starts = VecDeque::from([part.from]);
    let mut last_end = part.from;
    let end = each_chunk(log, part, |at, chunk| {
        last_end = LogPosition {
            offset: at.offset + chunk.len() as u64,
            ..at
        };
        for (index, _) in chunk.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
            starts.push_back(LogPosition {
                offset: at.offset + index as u64 + 1,
                ..at
            });
            // One more than wanted: the last may have nothing after it.
            if starts.len() > count.saturating_add(1) {
                starts.pop_front();
            }
        }
    })?;
    if starts.back() == Some(&last_end) {
        starts.pop_back();
    }
    let skipped = starts.len().saturating_sub(count);
    Ok(starts.get(skipped).copied().unwrap_or(end))
}

/// Gives what is there, piece by piece, each with its place; answers where it ended.
fn each_chunk(
    log: &AgentLog,
    part: &LogRange,
    mut take: impl FnMut(LogPosition, &[u8]),
) -> io::Result<LogPosition> {
    let mut reader = log.reader(part.from);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = reader.read(&mut chunk)?;
        let end = reader.position();
        if count == 0 {
            return Ok(end);
        }
        let at = LogPosition {
            offset: end.offset - count as u64,
            ..end
        };
        match part.to {
            Some(to) if at >= to => return Ok(to),
            Some(to) if end > to => {
                // Of the same file, for no piece is of two.
                take(at, &chunk[..(to.offset - at.offset) as usize]);
                return Ok(to);
            }
            _ => take(at, &chunk[..count]),
        }
    }
}

/// Listens for signals from before the first line is printed, so that they end it in order.
struct Watch {
    runtime: Runtime,
    interrupted: Signal,
    terminated: Signal,
}

impl Watch {
    fn begin() -> io::Result<Self> {
        let runtime = crate::runtime()?;
        let entered = runtime.enter();
        let interrupted = signal(SignalKind::interrupt())?;
        let terminated = signal(SignalKind::terminate())?;
        drop(entered);
        Ok(Self {
            runtime,
            interrupted,
            terminated,
        })
    }

    /// Prints what comes, until somebody ends it.
    fn follow(
        mut self,
        log: &AgentLog,
        from: LogPosition,
        printer: &mut Printer<'_>,
    ) -> io::Result<()> {
        end_when_nobody_reads();
        block_on_with(&self.runtime, async {
            let mut following = log.follow(from)?;
            let soon = || Some(Instant::now() + LINE_WAIT);
            let mut words_at = soon().filter(|_| printer.stream.holds_back());
            loop {
                tokio::select! {
                    chunk = following.next() => {
                        printer.print(chunk?);
                        words_at = words_at.or_else(soon).filter(|_| printer.stream.holds_back());
                    }
                    () = at(words_at) => {
                        words_at = None;
                        printer.print_words();
                    }
                    _ = self.interrupted.recv() => break,
                    _ = self.terminated.recv() => break,
                }
            }
            printer.finish();
            Ok(())
        })
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// How the bytes reach the reader.
enum OutputForm {
    /// With all that a terminal would obey.
    Raw,
    /// Without that, but with colours.
    Clean(TerminalFilter),
}

struct Printer<'a> {
    form: OutputForm,
    stream: RedactedStream<'a>,
    has_printed: bool,
}

impl OutputForm {
    fn new(environment: &Environment, arguments: &LogsArguments) -> Self {
        match arguments.raw || environment.json || !output::is_terminal() {
            true => Self::Raw,
            false => Self::Clean(TerminalFilter::new(output::has_colours(environment))),
        }
    }
}

impl<'a> Printer<'a> {
    fn new(environment: &Environment, arguments: &LogsArguments, redactor: &'a Redactor) -> Self {
        Self {
            form: OutputForm::new(environment, arguments),
            stream: redactor.stream(),
            has_printed: false,
        }
    }

    fn pass_over(&mut self, chunk: &[u8]) {
        match &mut self.form {
            OutputForm::Clean(filter) => self.stream.pass_over(filter.pass(chunk).as_bytes()),
            OutputForm::Raw => self.stream.pass_over(chunk),
        }
    }

    /// Cleaned before it is redacted: what a terminal obeys may stand in the middle of a secret.
    fn print(&mut self, chunk: &[u8]) {
        self.has_printed |= !chunk.is_empty();
        match &mut self.form {
            OutputForm::Raw => output::write_out(self.stream.pass(chunk)),
            OutputForm::Clean(filter) => {
                output::write_out(self.stream.pass(filter.pass(chunk).as_bytes()));
            }
        }
    }

    /// Prints what is there of a line that does not come to its end.
    fn print_words(&mut self) {
        output::write_out(self.stream.words());
    }

    /// Prints what has no line end yet, and takes colours back.
    fn finish(&mut self) {
        let rest = self.stream.finish();
        match &mut self.form {
            OutputForm::Raw => output::write_out(rest),
            OutputForm::Clean(filter) => {
                output::write_out(rest);
                output::write_out(filter.finish().as_bytes());
            }
        }
    }
}
