//! `relight logs` by lines: of several agents in the order of time, with names, times and a filter.

use std::collections::VecDeque;
use std::io;

use relight_core::agent::Agent;
use relight_core::ids::AgentName;
use relight_core::time::Time;
use relight_redact::{RedactedStream, Redactor};
use relight_runtime::engine::Engine;
use relight_runtime::os::clock;
use relight_runtime::supervise::log::{AgentLog, LINE_BYTES_MAX, LogLines, LogPosition, LogTimes};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tokio::time::Instant;

use super::{LINE_WAIT, OutputForm, Watch, at, failure, far, far_node, first_line, part_of};
use crate::arguments::agent::LogsArguments;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::verbs::events::end_when_nobody_reads;
use crate::verbs::ps::to_second;
use crate::{block_on, block_on_with, output};

/// Chunks of several agents that wait to be printed.
const CHUNKS_MAX: usize = 64;
/// Of names, in turn.
const COLOURS: [&str; 6] = ["36", "33", "32", "35", "34", "31"];

pub(super) fn run(
    environment: &Environment,
    arguments: &LogsArguments,
    engine: &Engine,
    agents: &[Agent],
) -> Outcome {
    if arguments.attempt.is_some() && agents.len() != 1 {
        let text = "--attempt is a number of one agent's attempts";
        return Err(Failure::new(Exit::Usage, text).hint("name the agent"));
    }
    let printer = LinePrinter::new(environment, arguments, agents);
    let watch = arguments.follow.then(Watch::begin).transpose();
    let watch = watch.map_err(|error| failure(&error))?;
    let mut sources = Vec::new();
    for agent in agents {
        if let Some(node) = block_on(far_node(engine, agent, arguments.attempt))? {
            let far = far::read(environment, arguments, agent, &node)?;
            for line in &far.lines {
                printer.print(&agent.name, None, Some(far.node.as_str()), line);
            }
            output::note(environment, &format!("{}: {}", agent.name, far.note));
            continue;
        }
        sources.push(LogSource::open(environment, arguments, engine, agent)?);
    }
    merge(&mut sources, &printer).map_err(|error| failure(&error))?;
    match watch {
        Some(watch) => follow(watch, sources, &printer).map_err(|error| failure(&error))?,
        None if !printer.has_printed.get() => output::note(environment, "nothing was written"),
        None => {}
    }
    Ok(0)
}

/// Prints what is there, the oldest first.
fn merge(sources: &mut [LogSource<'_>], printer: &LinePrinter<'_>) -> io::Result<()> {
    loop {
        let mut next: Option<(usize, Option<Time>)> = None;
        for (index, source) in sources.iter_mut().enumerate() {
            let Some(time) = source.peek()? else { continue };
            if next.is_none_or(|(_, oldest)| time < oldest) {
                next = Some((index, time));
            }
        }
        let Some((index, _)) = next else {
            return Ok(());
        };
        let source = &mut sources[index];
        if let Some((at, line)) = source.ready.pop_front() {
            printer.print(&source.name, at, None, &line);
        }
    }
}

/// Prints what comes, until somebody ends it.
fn follow(
    mut watch: Watch,
    mut sources: Vec<LogSource<'_>>,
    printer: &LinePrinter<'_>,
) -> io::Result<()> {
    end_when_nobody_reads();
    let (tell, mut told) = mpsc::channel(CHUNKS_MAX);
    let readers = LocalSet::new();
    for (index, source) in sources.iter().enumerate() {
        let (log, from, tell) = (source.log.clone(), source.lines.position(), tell.clone());
        readers.spawn_local(async move {
            let read = async {
                let mut following = log.follow(from)?;
                loop {
                    let chunk = following.next().await?.to_vec();
                    if tell.send((index, Ok(chunk))).await.is_err() {
                        return Ok(());
                    }
                }
            };
            if let Err::<(), io::Error>(error) = read.await {
                let _ = tell.send((index, Err(error))).await;
            }
        });
    }
    block_on_with(
        &watch.runtime,
        readers.run_until(async {
            let mut words_at = None;
            loop {
                tokio::select! {
                    Some((index, chunk)) = told.recv() => {
                        let source = &mut sources[index];
                        source.take(&chunk?, Some(clock::now()));
                        source.print_ready(printer);
                        words_at = words_at.or(Some(Instant::now() + LINE_WAIT));
                    }
                    () = at(words_at) => {
                        words_at = None;
                        for source in &mut sources {
                            source.take_words();
                            source.print_ready(printer);
                        }
                    }
                    _ = watch.interrupted.recv() => return Ok(()),
                    _ = watch.terminated.recv() => return Ok(()),
                }
            }
        }),
    )
}

/// The output of one agent, by lines.
struct LogSource<'a> {
    name: AgentName,
    log: AgentLog,
    lines: LogLines,
    /// Where it ends; none for the end of the log.
    to: Option<LogPosition>,
    times: LogTimes,
    since: Option<Time>,
    form: OutputForm,
    stream: RedactedStream<'a>,
    /// A line that has not come to its end.
    begun: Vec<u8>,
    ready: VecDeque<(Option<Time>, String)>,
    is_followed: bool,
    has_ended: bool,
}

impl<'a> LogSource<'a> {
    fn open(
        environment: &Environment,
        arguments: &LogsArguments,
        engine: &'a Engine,
        agent: &Agent,
    ) -> Result<Self, Failure> {
        let log = super::log_of(environment, engine, &agent.name)?;
        let part = part_of(engine, agent, arguments.attempt)?;
        let from = first_line(&log, &part, arguments).map_err(|error| failure(&error))?;
        let before = super::before(&log, from).map_err(|error| failure(&error))?;
        let redactor: &'a Redactor = engine.redactor();
        let mut source = Self {
            name: agent.name.clone(),
            lines: log.lines(from),
            log,
            to: part.to,
            times: LogTimes::default(),
            since: arguments.since,
            form: OutputForm::new(environment, arguments),
            stream: redactor.stream(),
            begun: Vec::new(),
            ready: VecDeque::new(),
            is_followed: arguments.follow,
            has_ended: false,
        };
        match &mut source.form {
            OutputForm::Raw => source.stream.pass_over(&before),
            OutputForm::Clean(filter) => source.stream.pass_over(filter.pass(&before).as_bytes()),
        }
        Ok(source)
    }

    /// The time of the next line; none when there is no line any more.
    fn peek(&mut self) -> io::Result<Option<Option<Time>>> {
        while self.ready.is_empty() && !self.has_ended {
            self.read_line()?;
        }
        Ok(self.ready.front().map(|(at, _)| *at))
    }

    fn read_line(&mut self) -> io::Result<()> {
        let start = self.lines.position();
        let mut is_over = self.to.is_some_and(|to| start >= to);
        let mut line = match is_over {
            true => None,
            false => self.lines.next_line()?,
        };
        if let Some(to) = self.to.filter(|to| self.lines.position() > *to) {
            // What one attempt left without a line end stands before the next one's first line.
            let own = match start.number == to.number {
                true => to.offset.saturating_sub(start.offset),
                false => 0,
            };
            line = line.filter(|_| own > 0);
            if let Some(line) = &mut line {
                line.bytes
                    .truncate(usize::try_from(own).unwrap_or(usize::MAX));
            }
            is_over = true;
        }
        if let Some(line) = line {
            let at = self.times.at(&self.log, self.lines.position());
            if at.is_none() || at >= self.since {
                self.take(&[&line.bytes[..], b"\n"].concat(), at);
            }
            return Ok(());
        }
        self.has_ended = true;
        // What is followed comes to its end later.
        if self.is_followed {
            return Ok(());
        }
        let rest = match is_over {
            true => None,
            false => self.lines.take_rest(),
        };
        let at = self.times.at(&self.log, self.lines.position());
        if let Some(rest) = rest {
            self.take(&rest.bytes, at);
        }
        let last = self.stream.finish().to_vec();
        self.begun.extend(last);
        if let OutputForm::Clean(filter) = &mut self.form {
            self.begun.extend(filter.finish().as_bytes());
        }
        self.cut_lines(at);
        if !self.begun.is_empty() {
            self.end_line(self.begun.len(), at);
        }
        Ok(())
    }

    /// Cleaned before it is redacted: what a terminal obeys may stand in the middle of a secret.
    fn take(&mut self, bytes: &[u8], at: Option<Time>) {
        let shown = match &mut self.form {
            OutputForm::Raw => self.stream.pass(bytes),
            OutputForm::Clean(filter) => self.stream.pass(filter.pass(bytes).as_bytes()),
        };
        self.begun.extend_from_slice(shown);
        self.cut_lines(at);
    }

    /// What was held back of a line that does not come to its end.
    fn take_words(&mut self) {
        if self.stream.holds_back() {
            let words = self.stream.words().to_vec();
            self.begun.extend(words);
            self.cut_lines(Some(clock::now()));
        }
    }

    fn cut_lines(&mut self, at: Option<Time>) {
        while let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
            self.end_line(end + 1, at);
        }
        // A line that has no end is shown in pieces.
        if self.begun.len() > LINE_BYTES_MAX {
            self.end_line(self.begun.len(), at);
        }
    }

    fn end_line(&mut self, length: usize, at: Option<Time>) {
        let line: Vec<u8> = self.begun.drain(..length).collect();
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']).to_owned();
        self.ready.push_back((at, text));
    }

    fn print_ready(&mut self, printer: &LinePrinter<'_>) {
        for (at, line) in self.ready.drain(..) {
            printer.print(&self.name, at, None, &line);
        }
    }
}

/// How a line is shown.
struct LinePrinter<'a> {
    environment: &'a Environment,
    arguments: &'a LogsArguments,
    /// None where there is only one agent.
    names: Option<Vec<AgentName>>,
    width: usize,
    has_colours: bool,
    has_printed: std::cell::Cell<bool>,
}

impl<'a> LinePrinter<'a> {
    fn new(environment: &'a Environment, arguments: &'a LogsArguments, agents: &[Agent]) -> Self {
        let names: Vec<AgentName> = agents.iter().map(|agent| agent.name.clone()).collect();
        let width = names.iter().map(|name| name.as_str().chars().count()).max();
        Self {
            environment,
            arguments,
            names: (names.len() > 1).then_some(names),
            width: width.unwrap_or_default().min(output::PAD_CHARS_MAX),
            has_colours: output::has_colours(environment),
            has_printed: std::cell::Cell::new(false),
        }
    }

    fn print(&self, name: &AgentName, at: Option<Time>, node: Option<&str>, line: &str) {
        let is_wanted = self.arguments.grep.as_ref();
        if !is_wanted.is_none_or(|pattern| pattern.is_match(line)) {
            return;
        }
        self.has_printed.set(true);
        if self.environment.json {
            let mut value = json!({"agent": name, "line": line, "at": at});
            if let Some(node) = node {
                value["node"] = json!(node);
            }
            return output::json_line(&value);
        }
        let mut text = String::new();
        if self.arguments.timestamps {
            let at = at.map_or_else(|| "–".to_owned(), to_second);
            text += &format!("{at:<20} ");
        }
        if let Some(names) = &self.names {
            let index = names.iter().position(|known| known == name).unwrap_or(0);
            let prefix = format!("{:<1$} | ", name.as_str(), self.width);
            text += &match self.has_colours {
                true => format!("\x1b[{}m{prefix}\x1b[0m", COLOURS[index % COLOURS.len()]),
                false => prefix,
            };
        }
        output::write_out(format!("{text}{line}\n").as_bytes());
    }
}
