//! Starts an attempt: shim, task, environment, brief, log and start order.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use relight_core::agent::change::AgentChange;
use relight_core::agent::death::{HowEnded, ReportedEnd};
use relight_core::agent::decide::AgentEvent;
use relight_core::agent::{AttemptTag, Cause, Death, PostMortem};
use relight_core::decide::{Refusal, Right, StartLimits};
use relight_core::ids::TaskId;
use relight_core::lease::{Fence, Holder};
use relight_core::status::TaskStatus;
use relight_core::task::{NewTask, Task, TaskSpec};
use relight_core::time::Span;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::time::Instant;

use super::brief::{Brief, OpenBrief};
use super::live_attempt::LiveAttempt;
use super::tree::{ConnectedShim, KILL_WAIT, Tree, kill_shim};
use super::{Actor, SupervisionLost};
use crate::engine::ActError;
use crate::fleet::Deadline;
use crate::git_state;
use crate::os::limits::{self, Room};
use crate::os::word::Word;
use crate::os::{clock, pidfd, process, random, threads};
use crate::presets::Launch;
use crate::supervise::cgroup::Cleared;
use crate::supervise::log::{AgentLog, LogStart};
use crate::supervise::notices::What;
use crate::supervise::notify::NotifySocket;
use crate::supervise::oom::Oom;
use crate::supervise::program::{self, NotStarted};
use crate::supervise::shim::client;
use crate::supervise::shim::wire::{Input, StartOrder};
use crate::supervise::sweep::{self, SweepOutcome};

/// Grace period of processes that outlived an attempt.
pub(super) const LEFTOVER_GRACE: Span = Span::from_secs(2);
/// Time limit of a loop's condition.
const UNTIL_MAX: Duration = Duration::from_secs(600);
/// The shell's exit code for a command that cannot be started.
const CANNOT_START: i32 = 126;
/// What a conversation is told that stopped at a limit.
const CONTINUE: &str = "The limit is over. Continue where you were interrupted.";
/// First pause before a start that failed for lack of resources is retried.
const ROOM_PAUSE_MIN: Duration = Duration::from_millis(250);
const ROOM_PAUSE_MAX: Duration = Duration::from_secs(30);
/// The same while another holds its task: nothing tells of the end of every lease.
const HELD_PAUSE_MAX: Duration = Duration::from_secs(5);

/// An attempt that waits for resources of the host, or for its task.
pub(super) struct Postponed {
    pub(super) at: Instant,
    number: u32,
    tag: AttemptTag,
}

/// Why an attempt was not started.
#[derive(Debug, thiserror::Error)]
enum LaunchError {
    #[error("cannot use {0}: {1}")]
    File(PathBuf, #[source] io::Error),
    #[error("its shim cannot be started: {0}")]
    Shim(#[source] io::Error),
    #[error("processes of an earlier attempt cannot be stopped")]
    Survivors,
    #[error("this process has too many files open")]
    NoRoom,
    #[error("its task cannot be taken: {0}")]
    Task(#[source] ActError),
    #[error("task {0} is not its to do any more")]
    NotItsTask(TaskId),
    #[error(transparent)]
    Lost(#[from] SupervisionLost),
}

impl LaunchError {
    /// The shim was killed before it started anything.
    fn is_of_a_dead_shim(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        matches!(self, Self::Shim(error)
            if matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof))
    }

    /// The task is not its to do any more, or another works on it by now.
    fn is_of_anothers_task(&self) -> bool {
        matches!(
            self,
            Self::NotItsTask(_) | Self::Task(ActError::Refused(Refusal::Held { .. }))
        )
    }

    /// The host lacks descriptors, processes or memory, which is not the agent's fault.
    fn is_of_the_host(&self) -> bool {
        match self {
            Self::NoRoom => true,
            Self::File(_, error) | Self::Shim(error) => limits::is_exhausted(error),
            Self::Survivors | Self::Task(_) | Self::NotItsTask(_) | Self::Lost(_) => false,
        }
    }
}

impl Actor {
    /// Starts an attempt. An error counts as the attempt's death, so it is charged to the budget.
    pub(super) async fn launch(
        &mut self,
        number: u32,
        tag: AttemptTag,
    ) -> Result<(), SupervisionLost> {
        self.due = None;
        self.open_brief = None;
        let had_shim = self.tree.is_ready();
        let mut launched = self.try_launch(number, &tag).await;
        let is_again = match &launched {
            Err(error @ LaunchError::Shim(_)) => had_shim || error.is_of_a_dead_shim(),
            _ => false,
        };
        if is_again {
            // It was killed while nothing ran, which is not a death of the agent.
            self.tree = Tree::None;
            launched = self.try_launch(number, &tag).await;
        }
        match launched {
            Ok(()) => Ok(()),
            Err(LaunchError::Lost(lost)) => Err(lost),
            Err(error) if error.is_of_the_host() => {
                self.postpone(number, tag, &error.to_string());
                Ok(())
            }
            Err(LaunchError::Task(ActError::Refused(refused @ Refusal::Held { .. })))
                if !self.is_started_with_tasks() =>
            {
                self.wait_for_task(number, tag, &refused);
                Ok(())
            }
            Err(error) => {
                self.life = None;
                let mut death = Death::lost(clock::now(), error.to_string());
                self.not_started = Some(error.to_string());
                let is_its_task = !error.is_of_anothers_task();
                if self.is_started_with_tasks() && is_its_task {
                    let lost = self.lose_task(error.to_string()).await;
                    death.unfinished_task = lost.map(|task| task.to_string());
                }
                let task = match is_its_task {
                    true => self.task_status().await,
                    false => None,
                };
                let is_done = task == Some(TaskStatus::Completed) || !is_its_task;
                death.how = match is_done {
                    true => HowEnded::Code(0),
                    false if error.is_of_a_dead_shim() => HowEnded::Unknown,
                    false => HowEnded::Code(CANNOT_START),
                };
                let post_mortem = Box::new(PostMortem::default());
                let death = Box::new(death);
                self.events.push_back(AgentEvent::Died {
                    death,
                    post_mortem,
                    task,
                });
                Ok(())
            }
        }
    }

    /// Retries an attempt later. Nothing ran, so no budget is charged.
    pub(super) fn postpone(&mut self, number: u32, tag: AttemptTag, why: &str) {
        self.life = None;
        self.room_pause = (self.room_pause * 2).clamp(ROOM_PAUSE_MIN, ROOM_PAUSE_MAX);
        let pause = self.room_pause.as_secs_f32();
        let text = format!(
            "attempt {number} cannot be started now, which is not charged to it: {why}; \
             trying again in {pause} s"
        );
        self.tell(What::Trouble(text));
        self.postponed = Some(Postponed {
            at: Instant::now() + self.room_pause,
            number,
            tag,
        });
    }

    /// Retries an attempt whose task another holds, until that one is done. Nothing ran, so no budget is
    /// charged.
    fn wait_for_task(&mut self, number: u32, tag: AttemptTag, refused: &Refusal) {
        let why = refused.to_string();
        self.life = None;
        self.not_started = Some(why.clone());
        self.room_pause = (self.room_pause * 2).clamp(ROOM_PAUSE_MIN, HELD_PAUSE_MAX);
        let lease = match refused {
            Refusal::Held { held, .. } => Some(held.since),
            _ => None,
        };
        if self.task_held != lease {
            self.task_held = lease;
            self.tell(What::TaskHeld(why));
        }
        self.postponed = Some(Postponed {
            at: Instant::now() + self.room_pause,
            number,
            tag,
        });
    }

    /// Starts an attempt that the last supervisor could not start for lack of resources.
    pub(super) fn start_again(&mut self, number: u32, tag: AttemptTag) {
        self.postponed = Some(Postponed {
            at: Instant::now(),
            number,
            tag,
        });
    }

    /// Retries a postponed attempt.
    pub(super) async fn launch_postponed(&mut self) -> Result<(), SupervisionLost> {
        match self.postponed.take() {
            Some(Postponed { number, tag, .. }) => self.launch(number, tag).await,
            None => Ok(()),
        }
    }

    /// Cancels a postponed attempt. Returns whether there was one.
    pub(super) async fn give_up_postponed(&mut self) -> bool {
        if self.postponed.take().is_none() {
            return false;
        }
        let note = "it was ended before it could be started".to_owned();
        let death = Box::new(Death::lost(clock::now(), note));
        let (post_mortem, task) = (Box::default(), self.task_status().await);
        self.events.push_back(AgentEvent::Died {
            death,
            post_mortem,
            task,
        });
        true
    }

    async fn try_launch(&mut self, number: u32, tag: &AttemptTag) -> Result<(), LaunchError> {
        let room = Room::take()
            .map_err(LaunchError::Shim)?
            .ok_or(LaunchError::NoRoom)?;
        if !self.tree.is_ready() {
            let made = self.folder.create();
            made.map_err(|error| LaunchError::File(self.folder.path().to_owned(), error))?;
        }
        self.ready_shim(tag).await?;
        let mut is_new_session = self.assign_session().await?;
        if !is_new_session && self.repair_transcript().await? {
            self.assign_session().await?;
            is_new_session = true;
        }
        let log = AgentLog::of(&self.folder)
            .for_attempt(&self.spec.log_limits)
            .map_err(|error| LaunchError::File(self.folder.logs(), error))?;
        let begins_a_file = log.offset == 0;
        let task = self.take_task(tag).await?;
        self.listen();
        let brief = self
            .brief_for(number, tag, task.as_ref(), is_new_session)
            .await;
        let input = self.pass_input();
        let text = brief.as_ref().map_or("", |brief| &brief.text);
        let brief_file = self.brief_file();
        let launch = self.launch_of(text, &brief_file, is_new_session);
        // A conversation that waits for its limit was told already, and gets no brief with each try.
        let preset = &self.spec.preset;
        let launch = match self.was_limited() && preset.resumes(&self.spec.command, launch) {
            true => Launch {
                brief: CONTINUE,
                ..launch
            },
            false => launch,
        };
        let guard = self.deadline()?;
        let mut order = self.start_order(number, tag, &log, task.as_ref(), launch, guard);
        order.input = input;
        let mut life = LiveAttempt::new(
            &self.spec,
            tag.clone(),
            number,
            log,
            &self.folder,
            Duration::ZERO,
        );
        life.room = Some(room);
        self.life = Some(life);
        self.tree.start(order).await.map_err(LaunchError::Shim)?;
        self.stand_guard();
        self.open_calls.clear();
        self.open_brief = OpenBrief::of(brief);
        // Only needed at its end, so read while it starts.
        let head = git_state::git_head(&self.workspace());
        if let Some(life) = &mut self.life {
            life.head = head;
            life.oom = Oom::before();
        }
        if begins_a_file {
            // On an error the log is trimmed the next time.
            let _ = AgentLog::of(&self.folder).trim(&self.spec.log_limits);
        }
        self.watch_output();
        Ok(())
    }

    /// Returns an idle shim that holds the agent's lock. Processes of an earlier attempt that still
    /// hold the lock are stopped first.
    async fn ready_shim(&mut self, tag: &AttemptTag) -> Result<(), LaunchError> {
        if self.tree.is_ready() {
            return Ok(());
        }
        let lock = match self.lock()? {
            Some(lock) => lock,
            None => {
                let mut tags = self.tags().await;
                tags.push(tag.clone());
                self.clear_tags(tags).await?;
                self.clear_cgroups().await;
                self.clear_lock().await?;
                self.end_stray_shim().await;
                self.lock()?.ok_or(LaunchError::Survivors)?
            }
        };
        if !self.clear_cgroups().await {
            return Err(LaunchError::Survivors);
        }
        let streams = self.streams().map_err(LaunchError::Shim)?;
        let connection = client::spawn(
            &self.context.program,
            &self.folder,
            lock,
            streams,
            &self.spec.name,
            self.fence,
        )
        .map_err(LaunchError::Shim)?;
        let met = Tree::meet(connection).await.map_err(LaunchError::Shim)?;
        let gone = || LaunchError::Shim(io::ErrorKind::BrokenPipe.into());
        self.tree = met.ok_or_else(gone)?.tree;
        Ok(())
    }

    fn lock(&self) -> Result<Option<std::os::fd::OwnedFd>, LaunchError> {
        client::take_lock(&self.folder)
            .map_err(|error| LaunchError::File(self.folder.lock(), error))
    }

    /// Stops all processes that carry a tag of this agent or hold its lock.
    pub(super) async fn clear_leftovers(&mut self) -> Result<(), SupervisionLost> {
        let tags = self.tags().await;
        self.clear_tags(tags).await?;
        self.clear_lock().await
    }

    /// Stops processes that hold the agent's lock without a shim; they have dropped their tag.
    async fn clear_lock(&mut self) -> Result<(), SupervisionLost> {
        let is_held = matches!(client::take_lock(&self.folder), Ok(None));
        if self.tree.is_ready() || !is_held {
            return Ok(());
        }
        self.prove_right().await?;
        let own = rustix::process::geteuid().as_raw();
        let users = self
            .spec
            .user
            .map(|(uid, _)| uid)
            .into_iter()
            .chain([own])
            .collect();
        let path = self.folder.lock();
        self.sweep(move || {
            sweep::clear_lock(&sweep::Lock::at(&path, users)?, LEFTOVER_GRACE, KILL_WAIT)
        })
        .await;
        Ok(())
    }

    /// Stops a shim that holds the lock but has lost its supervisor. The shim of a newer supervisor
    /// refuses.
    async fn end_stray_shim(&self) {
        let Ok(Some(connection)) = client::connect(&self.folder, self.fence).await else {
            return;
        };
        let Ok(Some(ConnectedShim { tree, .. })) = Tree::meet(connection).await else {
            return;
        };
        if let Some(shim) = tree.shim().cloned() {
            let text = format!("its shim (pid {}) was left behind, and is killed", shim.pid);
            self.tell(What::Trouble(text));
            threads::run(move || kill_shim(&shim)).await;
        }
    }

    /// Stops all processes with one of these tags, if the agent is still ours. A supervisor that
    /// was frozen may have lost it meanwhile.
    pub(super) async fn clear_tags(
        &mut self,
        tags: Vec<AttemptTag>,
    ) -> Result<(), SupervisionLost> {
        self.prove_right().await?;
        self.sweep(move || sweep::clear(&tags, LEFTOVER_GRACE, KILL_WAIT))
            .await;
        Ok(())
    }

    /// Sweeps on a blocking thread and sends a notice with the result.
    async fn sweep(&self, clear: impl FnOnce() -> io::Result<SweepOutcome> + Send + 'static) {
        match threads::run(clear).await {
            Some(Ok(SweepOutcome { stopped, survivors })) => {
                let survivors = u32::try_from(survivors.len()).unwrap_or(u32::MAX);
                if stopped > 0 || survivors > 0 {
                    self.tell(What::Swept { stopped, survivors });
                }
            }
            Some(Err(error)) => {
                self.tell(What::Trouble(format!("cannot look for leftovers: {error}")));
            }
            None => {}
        }
    }

    /// Checks with the store that the agent is still ours.
    pub(super) async fn prove_right(&mut self) -> Result<(), SupervisionLost> {
        self.ledger.hand_in(Vec::new(), clock::now());
        self.settle().await
    }

    /// Stops processes left in the cgroups of earlier attempts and removes the cgroups. Call it
    /// only while nothing of the agent may run. False when something still does.
    pub(super) async fn clear_cgroups(&self) -> bool {
        let Some(cgroups) = self.context.cgroups.clone() else {
            return true;
        };
        let name = self.spec.name.clone();
        let clear = move || cgroups.clear(&name, KILL_WAIT);
        match threads::run(clear).await {
            Some(Ok(Cleared { found, is_empty })) => {
                if found > 0 {
                    // Processes that cannot be stopped are counted too.
                    let survivors = if is_empty { 0 } else { found };
                    self.tell(What::Swept {
                        stopped: found - survivors,
                        survivors,
                    });
                }
                is_empty
            }
            Some(Err(error)) => {
                self.tell(What::Trouble(format!(
                    "its old cgroups cannot be removed: {error}"
                )));
                true
            }
            None => true,
        }
    }

    /// Our standard streams that the shim passes to attempts.
    fn streams(&self) -> io::Result<Vec<std::os::fd::OwnedFd>> {
        let copy = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned();
        use std::os::fd::AsFd as _;
        match self.spec.input {
            Input::Passed if !self.has_passed_input => Ok(vec![copy(io::stdin().as_fd())?]),
            Input::Null | Input::Passed => Ok(Vec::new()),
            Input::Terminal => Ok(vec![
                copy(io::stdin().as_fd())?,
                copy(io::stdout().as_fd())?,
                copy(io::stderr().as_fd())?,
            ]),
        }
    }

    /// Our standard input goes to the first attempt, because it cannot be read twice.
    fn pass_input(&mut self) -> Input {
        if self.spec.input != Input::Passed || !self.has_passed_input {
            self.has_passed_input = true;
            return self.spec.input;
        }
        let text = "standard input is only for the first attempt and is not replayed: this one reads nothing";
        self.tell(What::Trouble(text.to_owned()));
        Input::Null
    }

    /// Chooses a session id and writes it to the store before the agent gets it. Returns whether
    /// one was chosen.
    async fn assign_session(&mut self) -> Result<bool, SupervisionLost> {
        if self.agent.session.is_some() {
            return Ok(false);
        }
        let id = uuid::Builder::from_random_bytes(random::bytes())
            .into_uuid()
            .to_string();
        match self.spec.preset.new_session(id) {
            Some(id) => self
                .commit(vec![AgentChange::Session(Some(id))])
                .await
                .map(|()| true),
            None => Ok(false),
        }
    }

    /// Records a session id that the agent chose, or that its session is gone.
    pub(super) fn captured(&mut self, session: Option<Option<String>>) {
        if let Some(session) = session.filter(|session| *session != self.agent.session) {
            self.captured_session = Some(session);
        }
    }

    /// Writes captured session news to the store before the next attempt uses it.
    pub(super) async fn keep_captured(&mut self) -> Result<(), SupervisionLost> {
        match self.captured_session.take() {
            Some(session) => self.commit(vec![AgentChange::Session(session)]).await,
            None => Ok(()),
        }
    }

    /// Takes the lease of the task for this attempt.
    async fn take_task(
        &mut self,
        tag: &AttemptTag,
    ) -> Result<Option<(TaskId, Fence)>, LaunchError> {
        let Some(id) = self.spec.plan.task.clone() else {
            return Ok(None);
        };
        let shim = self.tree.shim().cloned().ok_or(LaunchError::Survivors)?;
        let holder = Holder::Attempt {
            attempt: tag.to_string(),
            shim,
            process: None,
        };
        let engine = &self.context.engine;
        let is_there = engine.store().task(&id).await.map_err(ActError::from);
        let is_there = is_there.map_err(LaunchError::Task)?;
        let is_its_own = |task: &Task| task.agent.as_ref() == Some(&self.spec.name);
        if self.is_started_with_tasks() && !is_there.as_ref().is_some_and(is_its_own) {
            return Err(LaunchError::NotItsTask(id));
        }
        let started = match is_there {
            Some(task) => {
                // No earlier attempt runs, even if its lease is recorded.
                let is_its_own = task
                    .lease
                    .held
                    .is_some_and(|held| self.is_own(&held.holder));
                let planned = (!self.is_started_with_tasks()).then(|| self.spec.name.clone());
                engine.take_given(&id, holder, is_its_own, planned).await
            }
            None => {
                let (right, limits) = (Right::Unfenced, StartLimits::OwnBudget);
                let new = self.new_task(&id);
                match engine.start(new, right, holder.clone(), None, limits).await {
                    // Another agent was faster, and it is there by now.
                    Err(ActError::Refused(_)) => {
                        let planned = Some(self.spec.name.clone());
                        engine.take_given(&id, holder, false, planned).await
                    }
                    started => started,
                }
            }
        };
        let started = started.map_err(LaunchError::Task)?;
        self.handed_over = started.handed_over.map(|handed_over| handed_over.text());
        Ok(Some((id, started.fence)))
    }

    fn is_own(&self, holder: &Holder) -> bool {
        AttemptTag::of_holder(holder).is_some_and(|tag| tag.is_of(&self.spec.name))
    }

    fn new_task(&self, id: &TaskId) -> NewTask {
        let spec = TaskSpec {
            strategy: Some("resume".to_owned()),
            ..TaskSpec::default()
        };
        NewTask {
            id: id.clone(),
            agent: Some(self.spec.name.clone()),
            spec,
            context: std::collections::BTreeMap::new(),
            expires_at: None,
            checkpoint: None,
        }
    }

    /// Listens for `sd_notify` datagrams of this attempt only.
    pub(super) fn listen(&mut self) {
        if self.notify.is_none() {
            let user = self.spec.user.map(|(uid, _)| uid);
            match NotifySocket::bind(&self.folder, user) {
                Ok(socket) => self.notify = Some(socket),
                Err(error) => self.tell(What::Trouble(format!("no NOTIFY_SOCKET: {error}"))),
            }
        }
        if let Some(socket) = &self.notify {
            // A datagram that cannot be discarded counts for this attempt, which does no harm.
            let _ = socket.discard();
        }
    }

    /// Builds the attempt's brief; written to disk on return.
    async fn brief_for(
        &self,
        number: u32,
        tag: &AttemptTag,
        task: Option<&(TaskId, Fence)>,
        is_new_session: bool,
    ) -> Option<Brief> {
        let task = task.map(|(task, _)| task);
        let brief = match self.brief(number, task).await {
            Some(brief) if brief.lacks_changes() && self.passes(&brief, is_new_session) => {
                Some(self.await_changes(tag, brief).await)
            }
            brief => brief,
        };
        self.write_for_successor(tag, brief.as_ref().map(|brief| &*brief.text), task)
            .await;
        brief
    }

    /// Whether the brief's text is passed to the attempt, not only its file.
    fn passes(&self, brief: &Brief, is_new_session: bool) -> bool {
        let file = self.brief_file();
        let launch = self.launch_of(&brief.text, &file, is_new_session);
        self.spec.preset.passes_brief(&self.spec.command, launch)
    }

    fn brief_file(&self) -> String {
        self.readable_folder()
            .brief()
            .to_string_lossy()
            .into_owned()
    }

    pub(super) fn launch_of<'a>(
        &'a self,
        brief: &'a str,
        brief_file: &'a str,
        is_new_session: bool,
    ) -> Launch<'a> {
        Launch {
            first: !self.is_resumed(),
            // A new session has nothing to resume.
            anew: is_new_session || !self.should_resume_session(),
            session: self.agent.session.as_deref(),
            brief,
            brief_file,
            resume_args: self.spec.resume_args.as_deref(),
            has_terminal: self.spec.input == Input::Terminal,
        }
    }

    fn start_order(
        &self,
        number: u32,
        tag: &AttemptTag,
        log: &LogStart,
        task: Option<&(TaskId, Fence)>,
        launch: Launch<'_>,
        guard: Option<Deadline>,
    ) -> StartOrder {
        let command = self.spec.preset.command(&self.spec.command, launch);
        let cgroups = self.context.cgroups.as_ref().and_then(|cgroups| {
            let next = self.agent.next_attempt.clone().filter(|next| next != tag);
            let next = next.unwrap_or_else(|| AttemptTag::new(&self.spec.name, number + 1, 0));
            let own = cgroups.for_attempt(&self.spec.name, tag).ok()?;
            Some((own, cgroups.for_attempt(&self.spec.name, &next).ok()?))
        });
        StartOrder {
            tag: tag.clone(),
            number,
            command,
            environment: self.environment(number, tag, task, launch),
            folder: PathBuf::from(&self.spec.plan.folder),
            log: log.path.clone(),
            input: self.spec.input,
            user: self.spec.user,
            cgroups,
            leftover_grace: LEFTOVER_GRACE,
            guard,
            nofile: self.context.nofile,
        }
    }

    /// Whether an attempt after the last one resumes the agent's own session, if one is known.
    pub(super) fn should_resume_session(&self) -> bool {
        let ended = self.last.as_ref().and_then(|last| last.ended.as_ref());
        let is_gone = ended.is_some_and(|it| it.death.said == Some(ReportedEnd::SessionGone));
        self.is_resumed() && !is_gone
    }

    /// Whether the last attempt ended with a limit that its output told of.
    fn was_limited(&self) -> bool {
        let ended = self.last.as_ref().and_then(|last| last.ended.as_ref());
        let said = ended.and_then(|it| it.death.said.as_ref());
        said.is_some_and(ReportedEnd::is_later)
    }

    /// Whether this attempt resumes the work of an earlier one.
    pub(super) fn is_resumed(&self) -> bool {
        let ended = self.last.as_ref().and_then(|last| last.ended.as_ref());
        ended.is_some_and(|ended| ended.cause != Cause::Completed)
    }

    fn environment(
        &self,
        number: u32,
        tag: &AttemptTag,
        task: Option<&(TaskId, Fence)>,
        launch: Launch<'_>,
    ) -> Vec<(Word, Word)> {
        let mut variables: Vec<(Word, Word)> = self.spec.environment.clone();
        let mut set = |name: &str, value: String| {
            variables.retain(|(known, _)| known.as_os_str() != name);
            variables.push((name.into(), value.into()));
        };
        for (name, value) in self.spec.preset.environment(launch) {
            set(&name, value);
        }
        for (name, value) in &self.context.places {
            set(&name.to_text(), value.to_text());
        }
        set("RELIGHT_AGENT", self.spec.name.to_string());
        set("RELIGHT_ATTEMPT", tag.to_string());
        set("RELIGHT_ATTEMPT_NUMBER", number.to_string());
        let is_resumed = self.is_resumed();
        set(
            "RELIGHT_RESUMED",
            u8::from(is_resumed || self.takes_over).to_string(),
        );
        set(
            "RELIGHT_STATE_FILE",
            self.readable_folder()
                .state()
                .to_string_lossy()
                .into_owned(),
        );
        if let Some(ended) = self.last.as_ref().and_then(|last| last.ended.as_ref())
            && is_resumed
        {
            set("RELIGHT_DEATH_CAUSE", ended.cause.to_string());
            set("RELIGHT_BRIEF_FILE", launch.brief_file.to_owned());
        }
        if self.takes_over {
            set("RELIGHT_BRIEF_FILE", launch.brief_file.to_owned());
        }
        // Hooks need not tell again what the command says.
        if self.spec.preset.passes_brief(&self.spec.command, launch) {
            set("RELIGHT_BRIEF_PASSED", "1".to_owned());
        }
        // Nor count what its output tells.
        if self.spec.preset.meters(&self.spec.command, launch) {
            set("RELIGHT_METERED", "1".to_owned());
        }
        if let Some((task, fence)) = task {
            set("RELIGHT_TASK", task.to_string());
            set("RELIGHT_FENCE", fence.to_string());
        }
        if self.spec.plan.is_loop() {
            set("RELIGHT_ITERATION", (self.agent.iteration + 1).to_string());
        }
        if let Some(socket) = &self.notify {
            set("NOTIFY_SOCKET", socket.address().to_owned());
        }
        variables
    }

    pub(super) fn environment_of_until(&self) -> Vec<(Word, Word)> {
        let mut variables = self.spec.environment.clone();
        variables.extend(self.context.places.iter().cloned());
        variables.push(("RELIGHT_AGENT".into(), self.spec.name.to_string().into()));
        variables.push((
            "RELIGHT_ITERATION".into(),
            self.agent.iteration.to_string().into(),
        ));
        if let Some(task) = &self.spec.plan.task {
            variables.push(("RELIGHT_TASK".into(), task.to_string().into()));
        }
        variables
    }
}

/// Checks a loop's condition: its command must exit with 0 in time.
pub(super) async fn holds(
    until: Vec<Word>,
    environment: Vec<(Word, Word)>,
    folder: String,
) -> Result<bool, NotStarted> {
    program::check(&until, &environment, Path::new(&folder))?;
    let words: Vec<_> = until.iter().map(Word::as_os_str).collect();
    let (program, arguments) = words
        .split_first()
        .expect("a command that was found has a program");
    let mut command = process::command(program, arguments);
    command
        .env_clear()
        .current_dir(folder)
        .stdin(Stdio::null())
        .process_group(0);
    command.envs(
        environment
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str())),
    );
    let mut pause = ROOM_PAUSE_MIN;
    let child = loop {
        match command.spawn() {
            Ok(child) => break child,
            Err(error) if limits::is_exhausted(&error) => tokio::time::sleep(pause).await,
            Err(error) => {
                let note = format!("{} cannot be run: {error}", program.display());
                return Err(NotStarted::of(&error, note));
            }
        }
        pause = (pause * 2).min(ROOM_PAUSE_MAX);
    };
    let mut question = ConditionCheck(child);
    let Ok(handle) = pidfd::open(question.0.id()) else {
        return Ok(false);
    };
    let has_ended = tokio::time::timeout(UNTIL_MAX, pidfd::ended(handle)).await;
    let in_time = matches!(has_ended, Ok(Ok(())));
    Ok(in_time && question.0.wait().is_ok_and(|status| status.success()))
}

/// A running check of a loop's condition.
struct ConditionCheck(Child);

impl Drop for ConditionCheck {
    /// The check was cancelled. The child was not reaped, so its process group is still its own.
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
            let _ = self.0.wait();
        }
    }
}
