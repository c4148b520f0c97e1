//! The live attempt: its start, signs of life and limits.

use std::time::Duration;

use relight_core::agent::silence::{AttemptPhase, SignSource, Silence, SilenceCheck};
use relight_core::agent::{Attempt, AttemptTag};
use relight_core::ids::AgentName;
use relight_core::lease::ProcessIdentity;
use relight_core::time::Time;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::Actor;
use super::lease_guard::Leader;
use super::usage::Charged;
use crate::os::clock;
use crate::os::limits::Room;
use crate::supervise::attempt_waits::{self, Waits};
use crate::supervise::folder::AgentFolder;
use crate::supervise::follow_output::AttemptStream;
use crate::supervise::log::{AgentLog, LogStart, TimeMarks};
use crate::supervise::notices::What;
use crate::supervise::notify::NotifySign;
use crate::supervise::oom::Oom;
use crate::supervise::open_steps::OpenSteps;
use crate::supervise::spec::AgentSpec;
use crate::supervise::watch_process::ProcessWatch;
use relight_core::agent::decide::AgentEvent;
use relight_core::agent::{AgentState, StopReason};

/// Pause between two reads of growing output.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// The same, until the agent's own session id was read.
const SESSION_PAUSE: Duration = Duration::from_millis(10);

/// The live attempt.
pub(super) struct LiveAttempt {
    pub(super) tag: AttemptTag,
    pub(super) number: u32,
    pub(super) begun_at: Time,
    pub(super) process: Option<ProcessIdentity>,
    /// Reports the end of the main process if the shim cannot.
    pub(super) watch: Option<ProcessWatch>,
    /// The watch has reported it.
    pub(super) has_leader_ended: bool,
    pub(super) log: LogStart,
    pub(super) stream: Option<AttemptStream>,
    /// What it has used, as far as that is charged.
    pub(super) charged: Charged,
    pub(super) status: Option<String>,
    pub(super) waits: Waits,
    pub(super) open_steps: OpenSteps,
    /// It reported itself that it hangs.
    pub(super) asked_for_restart: bool,
    /// Git's HEAD when it began.
    pub(super) head: Option<String>,
    pub(super) oom: Oom,
    /// Its main process once known, for the guard.
    pub(super) leader: Leader,
    /// Reserved resources until it has started.
    pub(super) room: Option<Room>,
    /// Its guard task in a fleet.
    pub(super) guard: Option<AbortHandle>,
    begun: Instant,
    silence: Silence,
    last_sign: Time,
    deadline: Option<Instant>,
    stable_at: Option<Instant>,
    look_again_at: Option<Instant>,
    log_size: u64,
    /// When its output was written.
    times: TimeMarks,
    trimmed_at: u64,
    tasks_moved_at: Option<Time>,
}

impl LiveAttempt {
    /// For an attempt that began `lived` ago.
    pub(super) fn new(
        spec: &AgentSpec,
        tag: AttemptTag,
        number: u32,
        log: LogStart,
        folder: &AgentFolder,
        lived: Duration,
    ) -> Self {
        let now = Instant::now();
        let begun = now.checked_sub(lived).unwrap_or(now);
        let plan = &spec.plan;
        let silence = Silence::new(plan.silence_max, spec.signs.clone(), clock::monotonic_ms());
        Self {
            tag,
            number,
            begun_at: clock::now(),
            process: None,
            watch: None,
            has_leader_ended: false,
            stream: spec
                .preset
                .reads_stream()
                .then(|| AttemptStream::new(&spec.preset, log.position(), folder)),
            log_size: log.offset,
            times: TimeMarks::of(&log),
            trimmed_at: 0,
            log,
            charged: Charged::default(),
            status: None,
            waits: Waits::default(),
            open_steps: OpenSteps::default(),
            asked_for_restart: false,
            head: None,
            oom: Oom::default(),
            leader: Leader::default(),
            room: None,
            guard: None,
            begun,
            silence,
            last_sign: clock::now(),
            deadline: plan.timeout.map(|timeout| begun + timeout.as_duration()),
            stable_at: Some(begun + plan.policy.stable_after.as_duration()),
            look_again_at: None,
            tasks_moved_at: None,
        }
    }

    pub(super) fn started(&mut self, process: ProcessIdentity) {
        self.watch = ProcessWatch::new(&process).ok().flatten();
        self.room = None;
        // Set once; a second value is the same.
        let _ = self.leader.set(process.clone());
        self.process = Some(process);
    }

    pub(super) fn has_started(&self) -> bool {
        self.process.is_some()
    }

    /// Its record before its end.
    pub(super) fn as_attempt(&self, agent: &AgentName) -> Attempt {
        Attempt {
            agent: agent.clone(),
            number: self.number,
            tag: self.tag.clone(),
            begun_at: self.begun_at,
            process: self.process.clone(),
            shim: None,
            log: Some((self.log.number, self.log.offset)),
            ended: None,
            post_mortem: None,
        }
    }

    pub(super) fn last_sign(&self) -> Time {
        self.last_sign
    }

    pub(super) fn lived(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(super) fn phase(&self) -> &'static str {
        match self.silence.phase(clock::monotonic_ms()) {
            _ if self.waits_for_work() => "waiting",
            AttemptPhase::Starting => "starting",
            AttemptPhase::Working => "working",
            AttemptPhase::Waiting => "waiting",
        }
    }

    /// Whether a Relight command waits in it; those all wait for work.
    pub(super) fn waits_for_work(&self) -> bool {
        self.waits
            .verbs_until()
            .is_some_and(|until| until > clock::now())
    }

    /// Time of the next check.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let now_ms = clock::monotonic_ms();
        let silence = self
            .silence
            .next_look_ms()
            .map(|at_ms| Instant::now() + Duration::from_millis(at_ms.saturating_sub(now_ms)));
        [silence, self.deadline, self.stable_at, self.look_again_at]
            .into_iter()
            .flatten()
            .min()
    }

    fn sign(&mut self, source: SignSource) {
        self.silence.sign(source, clock::monotonic_ms());
        self.last_sign = clock::now();
    }

    /// A sign of life that is reported late; ignored if it is older than the last one.
    fn sign_at(&mut self, source: SignSource, at: Time) {
        let now_ms = clock::monotonic_ms();
        let at_ms = now_ms.saturating_sub(clock::now().since(at).as_ms());
        if at_ms > self.silence.last_sign_ms() {
            self.silence.sign(source, at_ms);
            self.last_sign = at.max(self.last_sign);
        }
    }

    /// A heartbeat that did not wake the actor.
    fn beaten_at_ms(&mut self, at_ms: u64) {
        if at_ms > self.silence.last_sign_ms() {
            self.silence.sign(SignSource::Beat, at_ms);
            self.last_sign = clock::now();
        }
    }

    /// It declares a wait until this time.
    pub(super) fn waits_until(&mut self, at: Time) {
        let now_ms = clock::monotonic_ms();
        let wait_ms = at.since(clock::now()).as_ms();
        self.silence.waiting(now_ms.saturating_add(wait_ms), now_ms);
        self.waits.until = Some(at);
    }

    /// Restores waits recorded by an earlier supervisor.
    pub(super) fn waits_still(&mut self, waits: Waits) {
        if let Some(until) = waits.until {
            self.waits_until(until);
        }
        self.waits = waits;
    }

    /// Open work excuses silence until this time.
    pub(super) fn explained(&mut self, until_ms: u64) {
        self.silence.explained(until_ms, clock::monotonic_ms());
    }

    /// Whether the log has grown since the last check.
    fn log_grew(&mut self) -> bool {
        let size = std::fs::metadata(&self.log.path).map_or(self.log_size, |file| file.len());
        let grew = size > self.log_size;
        if grew {
            self.times.grew(size, clock::now());
        }
        self.log_size = size;
        grew
    }

    /// Whether it wrote no output at all.
    pub(super) fn wrote_nothing(&mut self) -> bool {
        self.log_grew();
        self.log_size <= self.log.offset
    }

    /// Session news that its preset finds in the output.
    pub(super) fn read_stream(&mut self) -> Option<Option<String>> {
        self.stream.as_mut()?.read(clock::now()).session
    }
}

impl Actor {
    pub(super) fn hear(&mut self, signs: Vec<NotifySign>) {
        let Some(life) = &mut self.life else { return };
        let now_ms = clock::monotonic_ms();
        let waited = life.waits.clone();
        let mut session = None;
        for sign in signs {
            match sign {
                // Another program's hooks, in a tool of this agent, speak of their own conversation.
                NotifySign::Session(program, id) => {
                    let is_its_own = self.spec.preset.name().starts_with(&program);
                    session = Some(id).filter(|id| is_its_own && !id.is_empty());
                    continue;
                }
                NotifySign::Ready => life.silence.ready(now_ms),
                NotifySign::Status(text) => {
                    life.status = Some(self.context.engine.redactor().text(&text).into_owned());
                    // A waiting agent may still send this.
                    life.sign(SignSource::Hook);
                    continue;
                }
                NotifySign::Extend(span) => life.silence.extend(span, now_ms),
                NotifySign::WaitingUntil(at) => {
                    life.waits_until(at);
                    life.last_sign = clock::now();
                    continue;
                }
                NotifySign::Verb(id, until) => {
                    life.waits.verb(id, until);
                    life.silence.verb(now_ms);
                    life.last_sign = clock::now();
                    continue;
                }
                NotifySign::Trigger => {
                    life.asked_for_restart = true;
                    self.events.push_back(AgentEvent::End(StopReason::Hung));
                }
                NotifySign::Alive | NotifySign::Stopping => {}
            }
            life.waits.until = None;
            life.sign(SignSource::Beat);
        }
        if life.waits != waited {
            let kept = attempt_waits::keep(&self.folder, &life.tag, &life.waits);
            if let Err(error) = kept {
                let text = format!("that it waits cannot be kept: {error}");
                self.context
                    .notices
                    .tell(&self.spec.name, What::Trouble(text));
            }
        }
        if self.agent.session.is_none() {
            self.captured(session.map(Some));
        }
    }

    pub(super) fn output_grew(&mut self) {
        let Some(life) = &mut self.life else { return };
        if life.log_grew() {
            life.sign(SignSource::Output);
        }
        let session = life.read_stream();
        let waits_for_session = life.stream.is_some() && self.agent.session.is_none();
        let pause = if waits_for_session {
            SESSION_PAUSE
        } else {
            LOOK_PAUSE
        };
        life.look_again_at = Some(Instant::now() + pause);
        self.captured(session);
    }

    pub(super) fn silent_ms(&self) -> u64 {
        let now_ms = clock::monotonic_ms();
        self.life
            .as_ref()
            .map_or(0, |life| now_ms.saturating_sub(life.silence.last_sign_ms()))
    }

    /// Handles timers that may be due.
    pub(super) async fn look_at_the_clock(&mut self) {
        let now = Instant::now();
        if self.due.is_some_and(|(at_ms, _)| at_ms <= clock::boot_ms()) {
            self.events.push_back(AgentEvent::Due);
        }
        let is_ending = matches!(
            self.agent.state,
            AgentState::Running {
                ending: Some(_),
                ..
            }
        );
        let Some(life) = &mut self.life else { return };
        if life.stable_at.is_some_and(|at| at <= now) {
            life.stable_at = None;
            self.events.push_back(AgentEvent::Progress);
        }
        if life.deadline.is_some_and(|at| at <= now) {
            life.deadline = None;
            self.events.push_back(AgentEvent::End(StopReason::Timeout));
        }
        if life.look_again_at.is_some_and(|at| at <= now) {
            self.watch_output();
        }
        if !is_ending {
            self.judge_silence().await;
        }
    }

    /// Watches its log again; growth meanwhile counts.
    pub(super) fn watch_output(&mut self) {
        let Some(life) = &mut self.life else { return };
        life.look_again_at = None;
        if let Err(error) = self.context.growth.watch(&self.spec.name, &life.log.path) {
            let text = format!("its output cannot be watched: {error}");
            self.context
                .notices
                .tell(&self.spec.name, What::Trouble(text));
        }
        let mut session = None;
        if life.log_grew() {
            life.sign(SignSource::Output);
            session = life.read_stream();
        }
        let log = AgentLog::of(&self.folder);
        if life.log_size.saturating_sub(life.trimmed_at) >= self.spec.log_limits.file_bytes_max {
            life.trimmed_at = life.log_size;
            // On an error the log is trimmed the next time.
            let _ = log.trim(&self.spec.log_limits);
        }
        self.captured(session);
    }

    async fn judge_silence(&mut self) {
        let Some(life) = &self.life else { return };
        let now_ms = clock::monotonic_ms();
        if life
            .silence
            .next_look_ms()
            .is_none_or(|at_ms| at_ms > now_ms)
        {
            return;
        }
        // Without the store this cannot be judged, and its end could not be recorded.
        let (moved_at, explained_until_ms) =
            self.look_at_work().await.unwrap_or((None, Some(u64::MAX)));
        let Some(life) = &mut self.life else { return };
        if life.log_grew() {
            life.sign(SignSource::Output);
        }
        life.beaten_at_ms(self.beats.last_ms());
        if let Some(moved_at) = moved_at.filter(|moved_at| Some(*moved_at) > life.tasks_moved_at) {
            life.tasks_moved_at = Some(moved_at);
            life.sign_at(SignSource::Steps, moved_at);
        }
        if let Some(until_ms) = explained_until_ms {
            life.explained(until_ms);
        }
        match life.silence.look(clock::monotonic_ms()) {
            SilenceCheck::Fine | SilenceCheck::Again { .. } => {}
            SilenceCheck::Hung { .. } => self.events.push_back(AgentEvent::End(StopReason::Hung)),
        }
    }
}
