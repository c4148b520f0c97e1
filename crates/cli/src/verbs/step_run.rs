//! `relight step run`: records the intent, runs the command, records how it ended.

use std::ffi::OsStr;
use std::io::{IsTerminal, Write as _};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use relight_core::alert::Alert;
use relight_core::decide::{Refusal, Right, StepAdvice, TaskEvent, advise};
use relight_core::error_code::ErrorCode;
use relight_core::event::EventKind;
use relight_core::lease::Fence;
use relight_core::step::{KeptBytes, Output, RepeatRule, Step, StepOutcome, from_a_line};
use relight_core::task::Usage;
use relight_core::time::Span;
use relight_runtime::engine::{ActError, Acted};
use relight_runtime::operations::task::usage;
use relight_runtime::os::{clock, limits, process, process_tree};
use relight_runtime::running_step::RunningStep;
use rustix::process::{Pid, Signal};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use super::operate;
use super::step::{StepContext, resolve_hint};
use super::supervision::cannot_wait;
use crate::arguments::UsageArguments;
use crate::arguments::step::StepRunArguments;
use crate::block_on_with;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::terminal_filter::TerminalFilter;

/// How much of standard error is kept, for people.
const STDERR_BYTES_KEPT: usize = 8 << 10;
/// As much as a pipe can hold by default: more than that came from somebody left behind.
const PIPE_BYTES_MAX: usize = 1 << 20;
/// How long what a command wrote before its end may take to arrive.
const LAST_WORDS: Duration = Duration::from_millis(250);
/// How long a command has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);
/// The exit code of a command that ran out of time.
const TIMED_OUT: u8 = 124;
/// The exit codes by which a shell passes on that a signal ended what it ran.
const SIGNALLED: std::ops::RangeInclusive<u8> = 129..=159;

pub(super) fn run(environment: &Environment, arguments: &StepRunArguments) -> Outcome {
    let rule = rule(arguments)?;
    let place = StepContext::find(environment, arguments.of.clone(), arguments.name.clone())?;
    let runtime = crate::runtime().map_err(|error| cannot_wait(&error))?;
    block_on_with(&runtime, step(environment, &place, arguments, rule))
}

/// `--verify` alone means the rule; beside another rule it would be passed over without a word.
fn rule(arguments: &StepRunArguments) -> Result<RepeatRule, Failure> {
    match (arguments.repeat, &arguments.verify) {
        (Some(RepeatRule::Verify), None) => Err(Failure::new(
            Exit::Usage,
            "--repeat verify needs --verify COMMAND",
        )),
        (None | Some(RepeatRule::Verify), Some(_)) => Ok(RepeatRule::Verify),
        (Some(rule), Some(_)) => Err(Failure::new(
            Exit::Usage,
            format!("--verify does not go with --repeat {rule}"),
        )),
        (rule, None) => Ok(rule.unwrap_or_default()),
    }
}

/// A step that another process is running now is not in doubt; it is left alone. Unless it was begun
/// under an older lease and its command does not act: then the task was taken over from a runner that is
/// frozen, and the step's rule decides.
fn running(place: &StepContext, before: Option<&Step>) -> Result<Option<RunningStep>, Failure> {
    let home = &place.context.home;
    let taken = RunningStep::take(home, &place.task, &place.key).map_err(|error| {
        Failure::new(Exit::Io, format!("cannot use {}: {error}", home.display()))
    })?;
    let begun_before = |ours: Fence| before.is_some_and(|step| step.is_open() && step.fence < ours);
    let taken_over = matches!(place.right, Right::Fence(ours) if begun_before(ours));
    let is_acting = || RunningStep::is_acting(home, &place.task, &place.key).unwrap_or(true);
    if taken.is_none() && (!taken_over || is_acting()) {
        let (task, step) = (place.task.clone(), place.key.clone());
        return Err(Refusal::StepRunning { task, step }.into());
    }
    Ok(taken)
}

async fn step(
    environment: &Environment,
    place: &StepContext,
    arguments: &StepRunArguments,
    rule: RepeatRule,
) -> Outcome {
    let before = place.step().await?;
    if advise(before.as_ref()) == StepAdvice::Finished {
        return replay(environment, place).await;
    }
    let running = running(place, before.as_ref())?;
    warn_of_other_rule(environment, before.as_ref(), rule);
    let is_asked = advise(before.as_ref()) == StepAdvice::Ask;
    let rule = before.filter(Step::is_open).map_or(rule, |step| step.rule);
    // Whoever may not work on the step asks nothing either.
    let mut begun = place.begin(rule).await?;
    if is_asked && matches!(begun, StepAdvice::Ask | StepAdvice::Wait) {
        if let Some(outcome) = ask(environment, place, arguments).await? {
            return Ok(outcome);
        }
        begun = place.begin(rule).await?;
    }
    let outcome = match begun {
        StepAdvice::Finished => replay(environment, place).await,
        StepAdvice::Ask | StepAdvice::Wait => Err(place.in_doubt()),
        StepAdvice::Go | StepAdvice::Again => {
            return execute(environment, place, arguments, rule, running).await;
        }
    };
    drop(running);
    outcome
}

fn warn_of_other_rule(environment: &Environment, before: Option<&Step>, asked: RepeatRule) {
    if let Some(step) = before.filter(|step| step.is_open() && step.rule != asked) {
        let text = format!(
            "step {} was begun with the rule {}, which holds",
            step.key, step.rule
        );
        output::note(environment, &text);
    }
}

/// What was recorded, without running anything.
async fn replay(environment: &Environment, place: &StepContext) -> Outcome {
    let recorded = place
        .context
        .engine
        .store()
        .output(&place.task, &place.key)
        .await?;
    let recorded = recorded.unwrap_or_default();
    if let Some(cut) = &recorded.cut {
        let text = format!(
            "the output had {} bytes; head and tail were kept",
            cut.bytes
        );
        output::note(environment, &text);
    }
    if recorded.redacted {
        output::note(environment, "secrets were taken out of the recorded output");
    }
    if environment.json {
        output::json(&report(place, &recorded, How::Replayed, "step", false));
    } else if output::is_terminal() {
        let mut filter = TerminalFilter::new(output::has_colours(environment));
        let shown = filter.pass(&recorded.body) + filter.finish();
        output::write_out(shown.as_bytes());
    } else {
        output::write_out(&recorded.body);
    }
    Ok(exit_byte(recorded.exit_code))
}

/// Asks whether a step in doubt happened. Nothing: it did not, run it.
async fn ask(
    environment: &Environment,
    place: &StepContext,
    arguments: &StepRunArguments,
) -> Result<Option<u8>, Failure> {
    let Some(question) = &arguments.verify else {
        return Err(place.in_doubt());
    };
    let mut command = Command::from(process::command("sh", &["-c", question.as_str()]));
    command.stdout(Stdio::null()).stdin(Stdio::null());
    hand_over(&mut command, place);
    let status = command
        .status()
        .await
        .map_err(|error| cannot_start("sh", &error))?;
    match status.code() {
        Some(0) => {
            resolve(place, true).await?;
            output::note(
                environment,
                &format!("step {} had happened; it is finished", place.key),
            );
            Ok(Some(0))
        }
        Some(1) => {
            resolve(place, false).await?;
            Ok(None)
        }
        _ => {
            match block(place, &format!("--verify could not tell ({status})")).await {
                // A task that is blocked already stays so.
                Ok(_)
                | Err(ActError::Refused(
                    Refusal::Illegal { .. } | Refusal::WaitsForPerson { .. },
                )) => Err(place.in_doubt()),
                Err(error) => Err(error.into()),
            }
        }
    }
}

/// Nobody can tell but a person, who is told.
async fn block(place: &StepContext, why: &str) -> Result<Acted, ActError> {
    let key = &place.key;
    let alert = Alert::task_blocked(&place.task, key, &format!("it is in doubt and {why}"));
    let reason = format!("step {key} is in doubt and {why}");
    let alert = TaskEvent::Note(EventKind::Alert, alert.detail());
    let events = vec![
        alert,
        TaskEvent::Block {
            reason,
            is_told: true,
        },
    ];
    place
        .context
        .engine
        .act_in_turn(&place.task, place.right, |_| Ok(events.clone()))
        .await
}

/// The command's answer is recorded as the end of the try in doubt, under the same lease.
async fn resolve(place: &StepContext, happened: bool) -> Result<(), Failure> {
    let outcome = if happened {
        StepOutcome::Done
    } else {
        StepOutcome::Failed
    };
    let output = Some(Output {
        exit_code: i32::from(!happened),
        ..Output::default()
    });
    place
        .act(TaskEvent::StepEnd {
            key: place.key.clone(),
            outcome,
            output,
        })
        .await?;
    Ok(())
}

async fn execute(
    environment: &Environment,
    place: &StepContext,
    arguments: &StepRunArguments,
    rule: RepeatRule,
    running: Option<RunningStep>,
) -> Outcome {
    let (program, rest) = arguments
        .command
        .split_first()
        .expect("clap asks for a command");
    let mut command = Command::from(process::command(program, rest));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    hand_over(&mut command, place);
    let group = Group::for_command(&mut command);
    if arguments.timeout.and_then(Span::as_limit).is_some() {
        // What loses its parent stays ours, and ends with the command when its time is up. Without it, only
        // that escapes.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    }
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let failure = cannot_start(program, &error);
            let code = failure.exit as u8;
            let output = Output {
                exit_code: i32::from(code),
                ..Output::default()
            };
            end(place, StepOutcome::Failed, output.clone(), Usage::default()).await?;
            if environment.json {
                output::json(&report(place, &output, How::Ended, "relight", false));
            }
            output::failure(environment.json, &failure);
            return Ok(code);
        }
    };
    if let (Some(running), Some(pid)) = (&running, child.id()) {
        let limit = arguments.timeout.and_then(Span::as_limit);
        let deadline = limit.map(|limit| clock::monotonic_ms() + limit.as_ms());
        // Only read by whoever judges whether the agent hangs: the step goes on without it.
        let _ = running.note(pid, deadline);
    }
    let watched = watch(child, group, arguments, environment.json);
    let ran = tokio::select! {
        ran = watched => ran?,
        never = keep_lease(place) => match never {},
    };
    let verdict = ran.ending.verdict(&arguments.accept, rule);
    let mut output = ran.stdout.into_output(i32::from(verdict.code()));
    output.stderr = ran.stderr.text();
    if let Some(limit) = arguments.timeout.filter(|_| ran.ending.timed_out) {
        let text = format!(
            "step {} took longer than --timeout {limit} and was stopped",
            place.key
        );
        output.stderr += &format!("relight: {text}\n");
        if matches!(verdict, Verdict::Ended(..)) {
            output::alert(&text);
        }
    }
    let how = match verdict {
        Verdict::Ended(outcome, _) => {
            let UsageArguments { cost, turns } = arguments.usage;
            end(place, outcome, output.clone(), usage(cost, turns)).await?;
            How::Ended
        }
        Verdict::CutOff(_) => {
            let _ = operate::refresh(&place.context, &place.task).await;
            How::CutOff
        }
    };
    if environment.json {
        output::json(&report(
            place,
            &output,
            how,
            ran.ending.whose(verdict),
            ran.ending.timed_out,
        ));
    }
    if how == How::CutOff {
        // Its file stays, so that the step counts as in doubt even while the task's holder lives. Without a
        // lease it would say that the holder is gone.
        let task = place.context.engine.task(&place.task).await?;
        std::mem::forget(running.filter(|_| task.lease.held.is_some()));
        output::failure(false, &cut_off(place, rule, &ran.ending));
        return Ok(verdict.code());
    }
    if let Some(error) = ran.lost {
        let text = format!("the step is recorded, but its output could not be passed on: {error}");
        return Err(
            Failure::new(Exit::Io, text).hint("run it again: a finished step is only replayed")
        );
    }
    Ok(verdict.code())
}

/// Renews a timed lease while the command runs: a step may take longer than the lease. One that
/// somebody else took meanwhile is noticed when the step's end is recorded.
async fn keep_lease(place: &StepContext) -> std::convert::Infallible {
    let task = place.context.engine.task(&place.task).await.ok();
    let ttl = task
        .and_then(|task| task.lease.held)
        .and_then(|held| held.ttl);
    loop {
        match (ttl, place.right) {
            (Some(ttl), Right::Fence(fence)) => {
                tokio::time::sleep(ttl.as_duration() / 3).await;
                let _ = place.context.engine.store().renew(&place.task, fence).await;
            }
            _ => std::future::pending().await,
        }
    }
}

/// What the command may want to know.
fn hand_over(command: &mut Command, place: &StepContext) {
    command
        .env(
            "RELIGHT_IDEMPOTENCY_KEY",
            place.key.idempotency_key(&place.task),
        )
        .env("RELIGHT_TASK", place.task.as_str())
        .env("RELIGHT_STEP", place.key.name.as_str());
    match place.right.fence() {
        Some(fence) => command.env("RELIGHT_FENCE", fence.to_string()),
        // One that is in our environment belongs to another task.
        None => command.env_remove("RELIGHT_FENCE"),
    };
}

async fn end(
    place: &StepContext,
    outcome: StepOutcome,
    output: Output,
    usage: Usage,
) -> Result<(), Failure> {
    let (task, key, ended) = (&place.task, place.key.clone(), (outcome, output));
    place
        .context
        .engine
        .end_step(task, place.right, key, ended, usage)
        .await?;
    // The command's own exit code counts; a file copy that is behind is mended by the next verb.
    let _ = operate::refresh(&place.context, &place.task).await;
    Ok(())
}

/// A command that was cut off may have acted or not: no end is recorded, so that its rule decides.
fn cut_off(place: &StepContext, rule: RepeatRule, ending: &CommandEnd) -> Failure {
    let why = match (ending.timed_out, ending.told, ending.status.signal()) {
        (true, _, _) => "it took longer than --timeout".to_owned(),
        (false, Some(signal), _) => format!("told to end by signal {}", signal.as_raw()),
        (false, None, Some(signal)) => format!("killed by signal {signal}"),
        (false, None, None) => format!("{}, as of a signal", ending.status),
    };
    let text = format!(
        "step {} of task {} was cut off ({why}) and is in doubt",
        place.key, place.task
    );
    let failure = Failure::of(ErrorCode::NOT_REPEATED, text);
    match rule {
        RepeatRule::Keyed => failure.hint("run it again; it gets the same idempotency key"),
        RepeatRule::Repeatable => failure.hint("run it again"),
        RepeatRule::Verify => failure.hint("run it again; --verify is asked first"),
        RepeatRule::Once => failure.hint(resolve_hint(&place.task, &place.key)),
    }
}

/// How a command ended, and what was done to it before.
struct CommandEnd {
    status: ExitStatus,
    timed_out: bool,
    /// The first signal by which we were told to end.
    told: Option<Signal>,
}

/// What an ending says about the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The command came to its end, with this code.
    Ended(StepOutcome, u8),
    /// It was ended from outside: nobody knows how far it came. The caller gets this code.
    CutOff(u8),
}

impl Verdict {
    fn code(self) -> u8 {
        match self {
            Self::Ended(_, code) | Self::CutOff(code) => code,
        }
    }
}

impl CommandEnd {
    /// A command that succeeds although it was told to end did what it had to. One that Relight
    /// itself ended in time is a failed try where it may be run again anyway.
    fn verdict(&self, accept: &[u8], rule: RepeatRule) -> Verdict {
        let code = status_byte(self.status);
        let is_accepted = code == 0 || accept.contains(&code);
        let may_run_again = matches!(rule, RepeatRule::Keyed | RepeatRule::Repeatable);
        match (self.timed_out, self.status.signal(), self.told) {
            (true, _, None) if may_run_again => Verdict::Ended(StepOutcome::Failed, TIMED_OUT),
            (true, _, _) => Verdict::CutOff(TIMED_OUT),
            (false, Some(_), _) => Verdict::CutOff(code),
            (false, None, _) if is_accepted => Verdict::Ended(StepOutcome::Done, code),
            (false, None, Some(signal)) => Verdict::CutOff(exit_byte(128 + signal.as_raw())),
            (false, None, None) if SIGNALLED.contains(&code) => Verdict::CutOff(code),
            (false, None, None) => Verdict::Ended(StepOutcome::Failed, code),
        }
    }

    /// Whose exit code it is.
    fn whose(&self, verdict: Verdict) -> &'static str {
        if verdict.code() == status_byte(self.status) {
            "step"
        } else {
            "relight"
        }
    }
}

struct Ran {
    ending: CommandEnd,
    stdout: KeptBytes,
    stderr: Tail,
    /// Why the caller did not get all of the output.
    lost: Option<std::io::Error>,
}

/// Passes the output on as it comes and keeps it; hands signals on; stops it when its time is up.
async fn watch(
    mut child: Child,
    group: Group,
    arguments: &StepRunArguments,
    json: bool,
) -> Result<Ran, Failure> {
    let out = child.stdout.take().expect("standard output is a pipe");
    let err = child.stderr.take().expect("standard error is a pipe");
    let (ended, over) = tokio::sync::watch::channel(false);
    let (mut stdout, mut stderr) = (KeptBytes::default(), Tail::default());
    let outward = (!json).then(tokio::io::stdout);
    let write_out = |part: &[u8]| {
        let mut out = std::io::stdout();
        out.write_all(part).and_then(|()| out.flush())
    };
    let write_err = |part: &[u8]| std::io::stderr().write_all(part);
    let copy_out = copy(out, outward, write_out, over.clone(), |part| {
        stdout.push(part);
    });
    let outward = Some(tokio::io::stderr());
    let copy_err = copy(err, outward, write_err, over, |part| stderr.push(part));
    let wait = async {
        let result = wait(
            &mut child,
            group,
            arguments.timeout.and_then(Span::as_limit),
        )
        .await;
        let _ = ended.send(true);
        result
    };
    let (result, lost, _) = tokio::join!(wait, copy_out, copy_err);
    let ending =
        result.map_err(|error| Failure::new(Exit::Io, format!("lost the command: {error}")))?;
    Ok(Ran {
        ending,
        stdout,
        stderr,
        lost,
    })
}

/// Until the command ends: SIGTERM to all that it started at the limit, SIGKILL after the grace.
async fn wait(child: &mut Child, group: Group, limit: Option<Span>) -> std::io::Result<CommandEnd> {
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    let mut term = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let deadline = sleep_until(limit.map(Span::as_duration));
    tokio::pin!(deadline);
    let mut timed_out = false;
    let mut told = None;
    loop {
        let signal = tokio::select! {
            // Who ends a whole tree tells parents first: a command's end is not to hide that.
            biased;
            _ = term.recv() => Signal::TERM,
            _ = hang_up.recv() => Signal::HUP,
            _ = interrupt.recv() => Signal::INT,
            status = child.wait() => {
                let status = status?;
                if timed_out {
                    process_tree::kill(group == Group::Own);
                }
                return Ok(CommandEnd { status, timed_out, told });
            }
            () = &mut deadline => {
                match timed_out {
                    true => process_tree::kill(group == Group::Own),
                    false => process_tree::signal(Signal::TERM),
                }
                timed_out = true;
                deadline.set(sleep_until(Some(GRACE)));
                continue;
            }
        };
        told.get_or_insert(signal);
        // A terminal's interrupt reaches a command of our own group by itself.
        if signal != Signal::INT || group == Group::Own {
            group.tell(pid, signal);
        }
    }
}

async fn sleep_until(span: Option<Duration>) {
    match span {
        Some(span) => tokio::time::sleep(span).await,
        None => std::future::pending().await,
    }
}

/// Which process group the command is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    /// One of its own, so that its children can be told too.
    Own,
    /// Ours: it may want the terminal.
    Ours,
}

impl Group {
    fn for_command(command: &mut Command) -> Self {
        if std::io::stdin().is_terminal() {
            return Self::Ours;
        }
        command.process_group(0);
        Self::Own
    }

    /// Our own child that we have not waited for: neither number can be somebody else's.
    fn tell(self, pid: Option<Pid>, signal: Signal) {
        let Some(pid) = pid else { return };
        // One that is gone already needs no signal.
        let _ = match self {
            Self::Own => rustix::process::kill_process_group(pid, signal),
            Self::Ours => rustix::process::kill_process(pid, signal),
        };
    }
}

/// Passes on all that is read, and lets `keep` have it. A host that has no thread for a write in the
/// background gets it written at once.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: Option<impl tokio::io::AsyncWrite + Unpin>,
    write_at_once: impl Fn(&[u8]) -> std::io::Result<()>,
    mut over: tokio::sync::watch::Receiver<bool>,
    mut keep: impl FnMut(&[u8]),
) -> Option<std::io::Error> {
    let mut part = vec![0; 64 << 10];
    let mut after_end = 0;
    let mut lost = None;
    while after_end <= PIPE_BYTES_MAX {
        let Some(count) = next_part(&mut from, &mut part, &mut over).await else {
            break;
        };
        if *over.borrow() {
            after_end += count;
        }
        keep(&part[..count]);
        if let Some(out) = &mut to {
            let passed = async {
                out.write_all(&part[..count]).await?;
                out.flush().await
            };
            let has_no_thread = |error: &std::io::Error| error.raw_os_error().is_none();
            let passed = match passed.await {
                Err(error) if has_no_thread(&error) => write_at_once(&part[..count]),
                passed => passed,
            };
            if let Err(error) = passed {
                // The step goes on and is recorded. That nobody reads any more is no loss.
                to = None;
                lost = Some(error).filter(|e| e.kind() != std::io::ErrorKind::BrokenPipe);
            }
        }
    }
    lost
}

/// Nothing at the end of the stream. Once the command is over, whoever it left behind with the pipe
/// in hand is not waited for: what the command itself wrote is there, or comes at once.
async fn next_part(
    from: &mut (impl AsyncRead + Unpin),
    part: &mut [u8],
    over: &mut tokio::sync::watch::Receiver<bool>,
) -> Option<usize> {
    let last_words = async {
        // The sender lives until the command is over.
        let _ = over.wait_for(|over| *over).await;
        tokio::time::sleep(LAST_WORDS).await;
    };
    tokio::select! {
        biased;
        read = from.read(part) => read.ok().filter(|count| *count > 0),
        () = last_words => None,
    }
}

/// The end of a text, for people, and whether anything was before it.
#[derive(Debug, Default)]
struct Tail(Vec<u8>, bool);

impl Tail {
    fn push(&mut self, part: &[u8]) {
        let last = &part[part.len().saturating_sub(STDERR_BYTES_KEPT)..];
        self.1 |= last.len() < part.len();
        self.0.extend_from_slice(last);
        let extra = self.0.len().saturating_sub(STDERR_BYTES_KEPT);
        self.1 |= extra > 0;
        self.0.drain(..extra);
    }

    /// Whole lines, when something was cut off.
    fn text(&self) -> String {
        let bytes = if self.1 {
            from_a_line(&self.0)
        } else {
            &self.0
        };
        String::from_utf8_lossy(bytes).into_owned()
    }
}

/// What an answer tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Ended,
    CutOff,
    Replayed,
}

fn report(
    place: &StepContext,
    output: &Output,
    how: How,
    whose: &str,
    timed_out: bool,
) -> serde_json::Value {
    serde_json::json!({
        "task": place.task,
        "step": place.key.name,
        "occurrence": place.key.occurrence,
        "exit_code": output.exit_code,
        "exit_code_of": whose,
        "in_doubt": how == How::CutOff,
        "replayed": how == How::Replayed,
        "redacted": output.redacted,
        "timed_out": timed_out,
        "stdout": String::from_utf8_lossy(&output.body),
        "cut": output.cut,
    })
}

fn status_byte(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => exit_byte(code),
        (None, Some(signal)) => exit_byte(128 + signal),
        (None, None) => 255,
    }
}

fn exit_byte(code: i32) -> u8 {
    u8::try_from(code).unwrap_or(255)
}

fn cannot_start(program: impl AsRef<OsStr>, error: &std::io::Error) -> Failure {
    let text = format!("cannot start {}: {error}", program.as_ref().display());
    if limits::is_exhausted(error) {
        return Failure::new(Exit::Busy, text)
            .hint("the host has no room for it now: run the step again later; nothing was run");
    }
    // A script whose interpreter is missing is there, and cannot be run, as in a shell.
    let is_script = program.as_ref().as_encoded_bytes().contains(&b'/')
        && std::path::Path::new(program.as_ref()).is_file();
    let is_missing = error.kind() == std::io::ErrorKind::NotFound && !is_script;
    let exit = if is_missing {
        Exit::NotFound
    } else {
        Exit::NotExecutable
    };
    Failure::new(exit, text)
        .hint("correct the command and run the step again; it is recorded as failed")
}
