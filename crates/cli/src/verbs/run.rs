//! `relight run`: one agent in the foreground, with its output, until it has come to rest.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use relight_core::agent::death::HowEnded;
use relight_core::agent::{
    Agent, AgentPlan, AgentState, AttemptTag, Cause, FOREGROUND, Pause, RecordedDeath, Stopper,
    Typed,
};
use relight_core::decide::{illegal, who_holds};
use relight_core::error_code::ErrorCode;
use relight_core::ids::{AgentName, TaskId};
use relight_core::lease::ProcessIdentity;
use relight_core::node::Placement;
use relight_core::restart_budget::RestartPolicy;
use relight_core::status::TaskStatus;
use relight_core::task::Task;
use relight_core::time::Span;
use relight_core::usage::SpendLimit;
use relight_redact::Redactor;
use relight_runtime::engine::{ActError, DRAIN_HINT, Engine};
use relight_runtime::holders::Holders;
use relight_runtime::operations::agent::SupervisorView;
use relight_runtime::os::signals::{SignalRequest, Signals};
use relight_runtime::os::word::Word;
use relight_runtime::supervise::boots;
use relight_runtime::supervise::control::run_socket;
use relight_runtime::supervise::control_server::Reception;
use relight_runtime::supervise::folder::AgentFolder;
use relight_runtime::supervise::log::{AgentLog, Follow, LogLimits};
use relight_runtime::supervise::notices::{self, Notice, What};
use relight_runtime::supervise::shim::wire::Input;
use relight_runtime::supervise::spec::AgentSpec;
use relight_runtime::supervise::supervisor::{AcquireMode, AgentSnapshot, Supervisor};
use relight_runtime::supervise::unnoticed_deaths;
use relight_store::AttemptQuery;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::alerting::Alerting;
use super::default_name;
use super::supervision::{self, cannot_use, cannot_wait};
use crate::arguments::agent::RunArguments;
use crate::block_on_with;
use crate::config::Config;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::log::{self, LogFormat};
use crate::terminal_filter::TerminalFilter;
use crate::work::{Work, find_config};
use crate::{output, trust};

#[expect(
    clippy::needless_pass_by_value,
    reason = "every verb takes its arguments over"
)]
pub(crate) fn run(environment: &Environment, arguments: RunArguments) -> Outcome {
    log::settle(
        environment.get(log::VARIABLE),
        arguments.log_format,
        LogFormat::default(),
    )?;
    block_on_with(&supervision::runtime()?, supervise(environment, &arguments))
}

async fn supervise(environment: &Environment, arguments: &RunArguments) -> Outcome {
    if arguments.tty && !std::io::stdin().is_terminal() {
        return Err(Failure::new(
            Exit::Usage,
            "--tty needs a terminal, and standard input is none",
        )
        .hint("without --tty the agent runs with its input closed"));
    }
    refuse_a_shared_store(environment)?;
    let mut spec = spec(environment, arguments)?;
    check_condition(&spec)?;
    let engine = environment.long_engine()?;
    refuse_beside_a_node(environment, &engine).await?;
    log::redact_with(&engine);
    engine.check_agent(&spec.name, spec.plan.task.as_ref(), &spec.plan.skills)?;
    spec.plan.command = supervision::readable(engine.redactor(), &spec.command);
    spec.plan.typed = Some(typed(engine.redactor(), &spec.plan));
    let home = environment.store_folder(&engine)?;
    let name = spec.name.clone();
    let keeps_terminal = spec.input == Input::Terminal;
    let folder = AgentFolder::of(&home, &name);
    folder
        .create()
        .map_err(|error| cannot_use(folder.path(), &error))?;
    let is_shown = !environment.json && !keeps_terminal;
    let mut shown = if is_shown {
        from_here_on(environment, arguments, &folder)
    } else {
        None
    };
    let known = engine.store().agent(&name).await?;
    let begin = begin(&engine, known.as_ref(), &spec).await?;
    if begin == AcquireMode::Wake {
        keep_task(&mut spec.plan, known.as_ref());
    }
    if let Some(task) = &arguments.task {
        check_task(&engine, &name, task, begin).await?;
    }
    let settings = supervision::settings(environment, &home)?;
    let config = config(environment)?;
    let work = config.as_ref().map_or_else(Work::by_default, Work::of)?;
    let settings = supervision::with_work(settings, work);
    let alerting = alerting(environment, &engine, config, &home).await;
    let (mut supervisor, mut notices) =
        Supervisor::new(engine, settings).map_err(|error| cannot_use(&home, &error))?;
    supervisor.watch_drain().await?;
    supervisor.resume_after_drain();
    if supervisor.is_draining() && is_new_work(begin, known.as_ref()) {
        let text = format!("no new work is started while draining; agent {name} was not started");
        return Err(Failure::of(ErrorCode::DRAINING, text).hint(DRAIN_HINT));
    }
    // Before anything is started: whoever is told to end then has something to stop.
    let mut signals = Signals::new().map_err(|error| cannot_wait(&error))?;
    let taking = async {
        if let (AcquireMode::Anew, Some(known)) = (begin, known) {
            put_right(&mut supervisor, environment, known).await?;
        }
        // After an earlier command was put right: its end is none of this one's.
        let ended_before = newest_end(supervisor.engine(), &name).await?;
        supervisor.acquire(spec, begin, arguments.take_over).await?;
        Ok::<_, Failure>(ended_before)
    };
    let tell = |notice: Notice| tell_what_was_missed(environment, &notice);
    let taking = notices::pass_on(&mut notices, tell, taking);
    let (ended_before, signal) = match signals.interrupt(taking).await {
        (Some(taken), signal) => (taken?, signal),
        (None, signal) => {
            output::note(
                environment,
                &format!("{name} was not taken up: told to end"),
            );
            return Ok(signal.map_or(Exit::Busy as u8, supervision::code_of_signal));
        }
    };
    while let Ok(notice) = notices.try_recv() {
        tell_what_was_missed(environment, &notice);
    }
    let mut view = supervisor.follow(&name).expect("it was just taken up");
    let mut reception = reception(&folder, arguments.take_over)?;
    let mut told = None;
    if let Some(signal) = signal {
        end(
            &supervisor,
            SignalRequest::End(signal),
            keeps_terminal,
            &mut told,
        );
    }
    let mut heard = HeardNotices::default();
    let mut waited_for_drain = false;
    loop {
        let is_paused = is_paused_by_drain(&view.borrow_and_update());
        if view.borrow().at_rest && (!is_paused || told.is_some()) {
            break;
        }
        if is_paused && !waited_for_drain {
            let text = format!("{name} is not started again while draining; it continues after:");
            output::note(environment, &format!("{text} relight drain --cancel"));
        }
        waited_for_drain = is_paused;
        let may_be_stuck = tokio::select! {
            biased;
            Some(notice) = notices.recv() => {
                if notice.what == What::Lost {
                    return Err(lost(&name));
                }
                if let What::StoppedUnrecorded(error) = &notice.what {
                    supervisor.abandon();
                    return Err(supervision::stopped_unrecorded(error));
                }
                heard.hear(environment, &supervisor, &notice);
                matches!(notice.what, What::Trouble(_))
            }
            signal = signals.next() => {
                end(&supervisor, signal, keeps_terminal, &mut told);
                true
            }
            call = next_call(reception.as_mut()) => {
                supervision::end_or_answer(&supervisor, call, &mut told);
                false
            }
            _ = view.changed() => false,
            () = supervisor.pass_on_growth() => false,
            () = show_next(shown.as_mut()) => false,
        };
        if may_be_stuck
            && told.is_some()
            && let Some(error) = boots::replaced_store(supervisor.engine().store().as_ref()).await
        {
            supervisor.abandon();
            return Err(supervision::agents_live_on(&error));
        }
    }
    while let Ok(notice) = notices.try_recv() {
        heard.hear(environment, &supervisor, &notice);
    }
    let view = view.borrow().clone();
    let task = match &view.agent.plan.task {
        Some(task) if nothing_ended(&view, ended_before) => {
            supervisor.engine().store().task(task).await?
        }
        _ => None,
    };
    supervisor.leave().await;
    alerting.finish().await;
    if let Some(shown) = shown {
        tokio::select! {
            () = shown.rest() => {}
            _ = signals.next() => {}
        }
    }
    finish(
        environment,
        &name,
        &view,
        &RunResult {
            told,
            heard,
            ended_before,
            task,
        },
    )
}

/// Nobody renews a lease for this agent: were this machine cut off, others could neither wait for its end
/// nor know of it, and the agent itself could not reach its task.
fn refuse_a_shared_store(environment: &Environment) -> Result<(), Failure> {
    if !environment.is_shared()? {
        return Ok(());
    }
    let text = "relight run cannot guard an agent in a store that other machines use";
    Err(Failure::new(Exit::Config, text).hint(
        "write it into relight.toml as an [[agent]], and relight up; \
         or keep it on this machine: --store sqlite:PATH",
    ))
}

/// The same where nodes share a file: who holds something in the home of a node counts as that node's, and
/// is taken over with it.
async fn refuse_beside_a_node(environment: &Environment, engine: &Engine) -> Result<(), Failure> {
    let Some(own) = environment.node()? else {
        return Ok(());
    };
    let nodes = engine.store().nodes().await?;
    if nodes.iter().all(|node| node.new.name != own.name) {
        return Ok(());
    }
    let text = format!(
        "relight run cannot guard an agent in the home of node {}",
        own.name
    );
    Err(Failure::new(Exit::Config, text).hint(format!(
        "write it into relight.toml as an [[agent]], and relight up; or take another home: \
         --home DIR; relight node remove {} forgets a node that is gone",
        own.name
    )))
}

/// The configuration that is found here says what becomes of tasks that the agent takes by itself, and
/// who is told of alerts. One that is wrong is no reason not to run; one whose commands nobody approved is.
fn config(environment: &Environment) -> Result<Option<Config>, Failure> {
    let config = find_config(environment, None).unwrap_or_else(|failure| {
        let text = format!(
            "the default strategies are used and no alerts are sent: {}",
            failure.message
        );
        output::note(environment, &text);
        None
    });
    if let Some(config) = &config {
        let keys = [trust::EXEC, trust::ALERT_COMMAND, trust::ALERT_WEBHOOK];
        environment.require_approval(config, &keys)?;
    }
    Ok(config)
}

/// Tells whoever `[alert]` names. One that is wrong is no reason not to run: the exit code and the
/// `ALERT` line tell.
async fn alerting(
    environment: &Environment,
    engine: &Engine,
    config: Option<Config>,
    home: &Path,
) -> Alerting {
    let Some(config) = config else {
        return Alerting::default();
    };
    let config = Config {
        alert: config.alert.without_stale(),
        ..config
    };
    Alerting::start(environment, engine, &config, home)
        .await
        .unwrap_or_else(|failure| {
            output::note(
                environment,
                &format!("no alerts are sent: {}", failure.message),
            );
            Alerting::default()
        })
}

/// A loop whose condition cannot be asked would have no end.
fn check_condition(spec: &AgentSpec) -> Result<(), Failure> {
    let Some(until) = &spec.until else {
        return Ok(());
    };
    let checked = supervision::check_program(until, &spec.environment, &spec.plan.folder);
    checked.map_err(|failure| {
        Failure::new(
            Exit::Usage,
            format!("--until cannot be asked: {}", failure.message),
        )
        .hint("--until takes a program and its arguments, not a line of shell: bash -c '…'")
    })
}

/// What notices said that the exit code depends on.
#[derive(Default)]
struct HeardNotices {
    /// What the loop's condition last said.
    condition_holds: Option<bool>,
    /// Who holds its task, where another does.
    task_held: Option<String>,
}

impl HeardNotices {
    fn hear(&mut self, environment: &Environment, supervisor: &Supervisor, notice: &Notice) {
        match &notice.what {
            // Only an agent of a daemon waits for its turn.
            What::TaskHeld(why) => {
                self.task_held = Some(why.clone());
                drop(supervisor.shut_down());
                return;
            }
            What::Died { .. } if self.task_held.is_some() => return,
            What::Asked { holds } => self.condition_holds = Some(*holds),
            _ => {}
        }
        supervision::say(environment, notice);
    }
}

/// The number of the newest attempt that ended.
async fn newest_end(engine: &Engine, name: &AgentName) -> Result<Option<u32>, Failure> {
    let newest = AttemptQuery {
        agent: Some(name.clone()),
        ended: true,
        limit: 1,
        before: None,
    };
    Ok(engine
        .store()
        .attempts(newest)
        .await?
        .pop()
        .map(|attempt| attempt.number))
}

fn lost(name: &AgentName) -> Failure {
    Failure::new(
        Exit::Fenced,
        format!("agent {name} has another supervisor now"),
    )
    .hint(format!("relight ps {name} shows it"))
}

/// The first signal stops the agent, a further one hurries. Ctrl-C in a terminal that the agent has is
/// the agent's.
fn end(
    supervisor: &Supervisor,
    signal: SignalRequest,
    keeps_terminal: bool,
    told: &mut Option<i32>,
) {
    let number = match signal {
        SignalRequest::End(2) if keeps_terminal => return,
        SignalRequest::End(number) => number,
        SignalRequest::HangUp => 1,
    };
    if told.replace(number).is_none() {
        drop(supervisor.shut_down());
    } else {
        supervisor.kill_now();
    }
}

fn from_here_on(
    environment: &Environment,
    arguments: &RunArguments,
    folder: &AgentFolder,
) -> Option<Show> {
    let log = AgentLog::of(folder);
    let is_filtered = output::is_terminal() && !arguments.raw;
    let filter = is_filtered.then(|| TerminalFilter::new(output::has_colours(environment)));
    let follow = log.end().and_then(|end| log.follow(end));
    follow.and_then(|follow| Show::new(follow, filter)).ok()
}

fn reception(folder: &AgentFolder, take_over: bool) -> Result<Option<Reception>, Failure> {
    let socket = run_socket(folder);
    let control = supervision::bind(&socket, take_over)?;
    Ok(control.map(Reception::open))
}

async fn next_call(
    reception: Option<&mut Reception>,
) -> relight_runtime::supervise::control_server::ControlCall {
    match reception {
        Some(reception) => reception.next().await,
        None => std::future::pending().await,
    }
}

/// A person who types the command wants an agent to run that has come to rest; one that was cut off
/// goes on as its state says, with its counts.
async fn begin(
    engine: &Engine,
    known: Option<&Agent>,
    spec: &AgentSpec,
) -> Result<AcquireMode, Failure> {
    let leader = match known {
        Some(known) => unnoticed_deaths::live_leader(engine, known).await?,
        None => None,
    };
    if leader.is_none() {
        supervision::check_program(&spec.command, &spec.environment, &spec.plan.folder)?;
    }
    let Some(known) = known else {
        return Ok(AcquireMode::Wake);
    };
    let (before, wanted) = (&known.plan, &spec.plan);
    let is_another = before.command != wanted.command || before.folder != wanted.folder;
    if is_another && !before.command.is_empty() {
        engine.holders().look_for(&known.lease.held).await?;
        refuse_if_it_lives(known, leader.as_ref(), engine.holders())?;
        return Ok(AcquireMode::Anew);
    }
    Ok(match known.state {
        AgentState::Stopped { .. }
        | AgentState::Terminated { .. }
        | AgentState::Suspended {
            why: Pause::Incurable,
            ..
        }
        | AgentState::Crashed { again_at: None } => AcquireMode::Start,
        AgentState::Created
        | AgentState::Running { .. }
        | AgentState::Crashed { again_at: Some(_) }
        | AgentState::Suspended { .. } => AcquireMode::Wake,
    })
}

/// An agent that was cut off keeps its task until it has come to rest, and so does the command that is
/// printed for it.
fn keep_task(plan: &mut AgentPlan, known: Option<&Agent>) {
    let Some(task) = known.and_then(|known| known.plan.task.clone()) else {
        return;
    };
    if plan.task.is_some() {
        return;
    }
    if let Some(typed) = &mut plan.typed {
        typed.flags.extend(["--task".to_owned(), task.to_string()]);
    }
    plan.task = Some(task);
}

/// Whether starting it is new work. What was under way is taken up: it may live, or its end is recorded.
fn is_new_work(begin: AcquireMode, known: Option<&Agent>) -> bool {
    let was_begun = known.is_some_and(|known| known.state != AgentState::Created);
    begin != AcquireMode::Wake || !was_begun
}

fn is_paused_by_drain(view: &AgentSnapshot) -> bool {
    let why = &view.agent.state;
    view.at_rest
        && matches!(
            why,
            AgentState::Suspended {
                why: Pause::Draining,
                ..
            }
        )
}

/// What runs under the name is not what was asked for, and is neither adopted nor ended.
fn refuse_if_it_lives(
    known: &Agent,
    leader: Option<&ProcessIdentity>,
    holders: &Holders,
) -> Result<(), Failure> {
    let supervisor = SupervisorView::of(known, holders).filter(|supervisor| supervisor.alive);
    let who = match (leader, supervisor) {
        (Some(leader), _) => format!("pid {}", leader.pid),
        (None, Some(supervisor)) => format!("supervised by pid {}", supervisor.pid),
        (None, None) => return Ok(()),
    };
    let (name, plan) = (&known.name, &known.plan);
    let command = plan.command.join(" ");
    let text = format!(
        "another command runs under the name {name}: {command}, in {} ({who})",
        plan.folder
    );
    Err(Failure::new(Exit::Busy, text).hint(format!(
        "--name NAME gives this one a name of its own; relight stop {name} ends the other"
    )))
}

/// Records how the earlier command ended, by its own plan.
async fn put_right(
    supervisor: &mut Supervisor,
    environment: &Environment,
    known: Agent,
) -> Result<(), Failure> {
    // One that is not there any more tells nothing.
    let preset = supervision::preset(environment, Some(&known.plan.preset))
        .or_else(|_| supervision::preset(environment, None))?;
    let spec = unnoticed_deaths::spec_of(known, preset);
    supervisor
        .acquire(spec, AcquireMode::HoldBack, false)
        .await?;
    supervisor.leave().await;
    Ok(())
}

/// What ended before this supervisor came is told, whatever it ended with.
fn tell_what_was_missed(environment: &Environment, notice: &Notice) {
    let What::Died { number, ended } = &notice.what else {
        return supervision::say(environment, notice);
    };
    let how = match ended.cause {
        Cause::Completed => "had completed".to_owned(),
        _ => format!("had died ({})", ended.cause_in_words()),
    };
    let text = format!(
        "{}: attempt {number} {how} while nobody watched",
        notice.agent
    );
    output::note(environment, &text);
}

/// Refuses a task that another holder works on, and a failed one, unless this agent failed it and is
/// started again. What an attempt of this agent holds is the agent's own: it may have outlived its
/// supervisor.
async fn check_task(
    engine: &Engine,
    name: &AgentName,
    id: &TaskId,
    begin: AcquireMode,
) -> Result<(), Failure> {
    let Some(task) = engine.store().task(id).await? else {
        return Ok(());
    };
    let is_retried = begin != AcquireMode::Wake && task.agent.as_ref() == Some(name);
    if task.status == TaskStatus::Failed && !is_retried {
        return Err(ActError::from(illegal(&task, TaskStatus::InProgress)).into());
    }
    let held = task.lease.held;
    engine.holders().look_for(&held).await?;
    let Some(held) = held.filter(|held| engine.holders().is_alive(held)) else {
        return Ok(());
    };
    if AttemptTag::of_holder(&held.holder).is_some_and(|tag| tag.is_of(name)) {
        return Ok(());
    }
    let who = who_holds(&held, task.agent.as_ref());
    let text = format!("task {id} has been held by {who} since {}", held.since);
    Err(self::held(text, id))
}

fn held(why: String, id: &TaskId) -> Failure {
    let id = output::shell_word(id.as_str());
    Failure::new(Exit::Busy, why).hint(format!(
        "relight task show {id}; relight task release {id} --force takes it away"
    ))
}

async fn show_next(shown: Option<&mut Show>) {
    match shown {
        Some(shown) => shown.next().await,
        None => std::future::pending().await,
    }
}

/// Shows what the agent writes, by a thread of its own: a pager or a terminal that does not take it
/// just now holds up nobody else.
struct Show {
    follow: Follow,
    chunks: mpsc::Sender<Vec<u8>>,
    written: oneshot::Receiver<()>,
}

impl Show {
    /// With a filter on a terminal.
    fn new(follow: Follow, mut filter: Option<TerminalFilter>) -> std::io::Result<Self> {
        let (chunks, mut waiting) = mpsc::channel::<Vec<u8>>(1);
        let (done, written) = oneshot::channel();
        let named = std::thread::Builder::new().name("relight-show".to_owned());
        named.spawn(move || {
            while let Some(chunk) = waiting.blocking_recv() {
                write(&chunk, filter.as_mut());
            }
            if let Some(filter) = &mut filter {
                write(filter.finish().as_bytes(), None);
            }
            let _ = done.send(());
        })?;
        Ok(Self {
            follow,
            chunks,
            written,
        })
    }

    /// Shows the next piece, once the one before it is taken. May be given up at any time.
    async fn next(&mut self) {
        let Ok(place) = self.chunks.reserve().await else {
            return std::future::pending().await;
        };
        match self.follow.next().await {
            Ok(chunk) => place.send(chunk.to_vec()),
            Err(_) => std::future::pending().await,
        }
    }

    /// Shows what is left.
    async fn rest(mut self) {
        while let Ok(chunk) = self.follow.next_now() {
            if chunk.is_empty() || self.chunks.send(chunk.to_vec()).await.is_err() {
                break;
            }
        }
        drop(self.chunks);
        let _ = self.written.await;
    }
}

/// That nobody reads any more is no reason to stop an agent: its log has everything.
fn write(chunk: &[u8], filter: Option<&mut TerminalFilter>) {
    let mut out = std::io::stdout().lock();
    let _ = match filter {
        Some(filter) => out.write_all(filter.pass(chunk).as_bytes()),
        None => out.write_all(chunk),
    };
    let _ = out.flush();
}

/// What the exit code depends on beside the agent.
struct RunResult {
    /// The signal by which `run` was told to end.
    told: Option<i32>,
    /// What notices said.
    heard: HeardNotices,
    /// The newest attempt that had ended before.
    ended_before: Option<u32>,
    /// Its task, where no attempt was made now.
    task: Option<Task>,
}

/// The exit code, and whose it is.
fn finish(
    environment: &Environment,
    name: &AgentName,
    view: &AgentSnapshot,
    ending: &RunResult,
) -> Outcome {
    let RunResult {
        told,
        ref heard,
        ended_before,
        ref task,
    } = *ending;
    let condition_holds = heard.condition_holds;
    if let (Some(why), Some(task), None) = (&heard.task_held, &view.agent.plan.task, told) {
        return Err(held(why.clone(), task));
    }
    let last = view.last_attempt.as_ref();
    let nothing_ended = nothing_ended(view, ended_before);
    let ended = last
        .filter(|_| !nothing_ended)
        .and_then(|attempt| attempt.ended.as_ref());
    let waits = matches!(
        view.agent.state,
        AgentState::Suspended {
            why: Pause::Task,
            ..
        }
    );
    let is_finished = matches!(
        view.agent.state,
        AgentState::Stopped {
            by: Stopper::Itself
        }
    );
    let is_incurable = matches!(
        view.agent.state,
        AgentState::Suspended {
            why: Pause::Incurable,
            ..
        }
    );
    let is_loop = view.agent.plan.is_loop();
    let (code, whose) = match ended {
        _ if waits && nothing_ended && told.is_none() => (Exit::Busy as u8, "relight"),
        // The rounds were used up, and what they were for did not come true.
        Some(_) if is_finished && told.is_none() && condition_holds == Some(false) => {
            let rounds = view.agent.iteration;
            let text = format!("{name}: --until did not hold after the last round, {rounds}");
            output::note(environment, &text);
            (Exit::No as u8, "relight")
        }
        // A round that ended well does not make up for a loop that did not.
        Some(RecordedDeath {
            cause: Cause::Completed,
            ..
        }) if is_loop && !is_finished && told.is_none() => (Exit::No as u8, "relight"),
        // Relight ended it, for an error that no retry can cure or for what it spent.
        Some(RecordedDeath {
            cause: Cause::Failed,
            death,
        }) if is_incurable && told.is_none() && is_by_signal(death.how) => {
            (Exit::No as u8, "relight")
        }
        // Nothing was started, for its task was over already.
        None if is_finished && told.is_none() => (over(environment, task.as_ref()), "relight"),
        ended => code(ended, told),
    };
    if environment.json {
        output::json(&json!({
            "agent": name,
            "state": view.agent.state.kind(),
            "attempts": view.agent.attempt_number,
            "iterations": view.agent.iteration,
            "cause": ended.map(|ended| ended.cause),
            "how": ended.map(RecordedDeath::in_words),
            "task": view.agent.plan.task,
            "code": code,
            "whose": whose,
        }));
    }
    Ok(code)
}

/// Whether a signal ended it, or its own handler of one.
fn is_by_signal(how: HowEnded) -> bool {
    match how {
        HowEnded::Signal(_) => true,
        HowEnded::Code(code) => code > 128,
        HowEnded::Unknown => false,
    }
}

/// Whether no attempt has ended since this run began.
fn nothing_ended(view: &AgentSnapshot, ended_before: Option<u32>) -> bool {
    view.last_attempt
        .as_ref()
        .is_none_or(|attempt| Some(attempt.number) == ended_before)
}

/// The code of a run that started nothing; says why.
fn over(environment: &Environment, task: Option<&Task>) -> u8 {
    let Some(Task { id, status, .. }) = task else {
        return 0;
    };
    let (rest, code) = match status {
        TaskStatus::Completed => ("there is nothing left to do", 0),
        _ => ("nothing was run", Exit::Busy as u8),
    };
    output::note(environment, &format!("task {id} is {status}: {rest}"));
    code
}

/// The agent's own code where it has one: 128+n for a signal, 124 for a time-out. Never 0 for an agent
/// that had to be ended for hanging.
fn code(ended: Option<&RecordedDeath>, told: Option<i32>) -> (u8, &'static str) {
    let of_signal = supervision::code_of_signal;
    if let Some(signal) = told {
        return (of_signal(signal), "relight");
    }
    let Some(ended) = ended else {
        return (Exit::No as u8, "relight");
    };
    match (ended.cause, ended.death.how) {
        // Killed after its work was done: the caller wants to know of the work.
        (Cause::Signal, _) if ended.death.has_said_success() => (0, "agent"),
        (Cause::Timeout, _) => (124, "relight"),
        (Cause::Failed | Cause::Hung, HowEnded::Code(0)) => (Exit::No as u8, "relight"),
        (_, HowEnded::Code(code)) => (u8::try_from(code).unwrap_or(Exit::No as u8), "agent"),
        (_, HowEnded::Signal(signal)) => (of_signal(signal), "agent"),
        (_, HowEnded::Unknown) => (Exit::No as u8, "relight"),
    }
}

/// What to supervise, as the flags say it.
fn spec(environment: &Environment, arguments: &RunArguments) -> Result<AgentSpec, Failure> {
    let command: Vec<Word> = arguments
        .command
        .iter()
        .map(|word| word.as_os_str().into())
        .collect();
    let preset = supervision::preset(environment, arguments.preset.as_deref())?;
    let folder = folder(arguments)?;
    let policy = RestartPolicy {
        max_attempts: arguments.max_attempts,
        cooldown: arguments.cooldown,
        stable_after: arguments.stable_after,
        total_max: arguments.restarts_max,
        ..RestartPolicy::default()
    };
    let silence_max = arguments.silence_max.as_limit().filter(|_| !arguments.tty);
    let plan = AgentPlan {
        folder: folder.to_string_lossy().into_owned(),
        preset: preset.name().to_owned(),
        task: arguments.task.clone(),
        restart: arguments.restart.into(),
        policy,
        spend: SpendLimit {
            cost_micros: Some(arguments.spend_max.0).filter(|max| *max > 0),
            tokens: Some(arguments.tokens_max).filter(|max| *max > 0),
        },
        silence_max,
        step_silence_max: arguments.step_silence_max.as_limit(),
        timeout: arguments.timeout.and_then(Span::as_limit),
        grace: arguments.grace,
        defer: arguments.defer,
        exit_completes: arguments.exit_completes,
        labels: [(FOREGROUND.to_owned(), "true".to_owned())].into(),
        iterations_max: arguments
            .is_loop
            .then(|| arguments.max_iterations.unwrap_or(0)),
        ..AgentPlan::default()
    };
    let resume_args: Vec<Word> = arguments
        .resume_args
        .iter()
        .flat_map(|words| words.0.iter().cloned())
        .map(Word::from)
        .collect();
    Ok(AgentSpec {
        name: name(arguments)?,
        plan,
        command,
        environment: supervision::passed_on(environment, arguments.env_clean),
        signs: preset.sign_sources(),
        preset: Arc::new(preset),
        resume_args: (!resume_args.is_empty()).then_some(resume_args),
        input: if arguments.tty {
            Input::Terminal
        } else {
            own_input()
        },
        user: arguments
            .user
            .as_deref()
            .map(supervision::user)
            .transpose()?,
        until: arguments
            .until
            .clone()
            .map(|words| words.0.into_iter().map(Word::from).collect()),
        ladder: None,
        strategy: None,
        placement: Placement::Any,
        log_limits: LogLimits::default(),
    })
}

/// How this very command was typed. Whoever types it again takes the agent from nobody.
fn typed(redactor: &Redactor, plan: &AgentPlan) -> Typed {
    let words = std::env::args_os().skip(1).take_while(|word| word != "--");
    let words = words.filter(|word| word != "--take-over").map(Word::from);
    let flags = supervision::readable(redactor, &words.collect::<Vec<Word>>());
    Typed {
        folder: output::here().unwrap_or_else(|| plan.folder.clone()),
        flags,
    }
}

/// What is piped or redirected into `relight run` is for the agent; a terminal stays ours.
fn own_input() -> Input {
    use rustix::fs::FileType;
    let kind =
        rustix::fs::fstat(std::io::stdin()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    match kind {
        Ok(FileType::Fifo | FileType::Socket | FileType::RegularFile) => Input::Passed,
        Ok(_) | Err(_) => Input::Null,
    }
}

/// The given name, else that of what is run.
fn name(arguments: &RunArguments) -> Result<AgentName, Failure> {
    if let Some(name) = &arguments.name {
        return Ok(name.clone());
    }
    let file = default_name::of(&arguments.command);
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let text: String = file
        .chars()
        .map(|c| if allowed(c) { c } else { '_' })
        .collect();
    AgentName::new(text.trim_start_matches('-')).map_err(|error| {
        Failure::new(Exit::Usage, error.to_string()).hint("give the agent a name: --name NAME")
    })
}

fn folder(arguments: &RunArguments) -> Result<PathBuf, Failure> {
    let given = arguments
        .folder
        .clone()
        .unwrap_or_else(|| PathBuf::from("."));
    let folder = std::fs::canonicalize(&given).map_err(|error| {
        Failure::new(
            Exit::Usage,
            format!("cannot use the folder {}: {error}", given.display()),
        )
    })?;
    if folder.is_dir() {
        return Ok(folder);
    }
    Err(Failure::new(
        Exit::Usage,
        format!("{} is not a folder", given.display()),
    ))
}
