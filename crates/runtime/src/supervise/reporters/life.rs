//! One life of an agent that reports by itself: hears its reports, and judges its silence.

use std::sync::Arc;
use std::time::Duration;

use relight_core::agent::Agent;
use relight_core::agent::silence::{AttemptPhase, SignSource, Silence, SilenceCheck};
use relight_core::time::{Span, Time};
use relight_store::StoreError;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::Reporters;
use crate::os::clock;
use crate::supervise::actor::AgentSnapshot;
use crate::supervise::attempt_waits::Waits;
use crate::supervise::heartbeats::{Beat, BeatSlot};
use crate::supervise::notices::What;
use crate::supervise::notify::NotifySign;
use crate::supervise::open_steps::{OpenSteps, monotonic_of};

/// After a store that could not be written.
const TROUBLE_PAUSE: Duration = Duration::from_secs(5);

pub(super) struct Life {
    reporters: Reporters,
    agent: Agent,
    slot: Arc<BeatSlot>,
    view: watch::Sender<AgentSnapshot>,
    silence: Silence,
    waits: Waits,
    open_steps: OpenSteps,
}

impl Life {
    pub(super) fn new(
        reporters: Reporters,
        agent: Agent,
        slot: Arc<BeatSlot>,
        view: watch::Sender<AgentSnapshot>,
    ) -> Self {
        let sources = vec![SignSource::Beat, SignSource::Steps];
        let silence = Silence::new(agent.plan.silence_max, sources, clock::monotonic_ms());
        let (waits, open_steps) = (Waits::default(), OpenSteps::default());
        Self {
            reporters,
            agent,
            slot,
            view,
            silence,
            waits,
            open_steps,
        }
    }

    /// Until it is silent for too long. May be given up at any time.
    pub(super) async fn judge(mut self) {
        loop {
            tokio::select! {
                signs = self.slot.heard() => self.hear(signs),
                () = at(self.silence.next_look_ms()) => {
                    if let Some(silent_ms) = self.look().await {
                        return self.end(Span::from_ms(silent_ms)).await;
                    }
                }
            }
        }
    }

    fn hear(&mut self, signs: Vec<NotifySign>) {
        // The bell rang for what was heard with the ring before: that is no beat, and ends no wait.
        if signs.is_empty() {
            return;
        }
        let (now_ms, now) = (clock::monotonic_ms(), clock::now());
        let mut status = None;
        for sign in signs {
            match sign {
                NotifySign::WaitingUntil(until) => {
                    self.silence.waiting(monotonic_of(until), now_ms);
                    self.waits.until = Some(until);
                }
                NotifySign::Verb(id, until) => {
                    self.waits.verb(id, until);
                    self.silence.verb(now_ms);
                }
                NotifySign::Status(text) => status = Some(text),
                NotifySign::Alive
                | NotifySign::Session(..)
                | NotifySign::Ready
                | NotifySign::Extend(_)
                | NotifySign::Trigger
                | NotifySign::Stopping => {
                    self.silence.sign(SignSource::Beat, now_ms);
                    self.waits.until = None;
                }
            }
        }
        let waits_for_work = self.waits.verbs_until().is_some_and(|until| until > now);
        let phase = match self.silence.phase(now_ms) {
            _ if waits_for_work => "waiting",
            AttemptPhase::Starting => "starting",
            AttemptPhase::Working => "working",
            AttemptPhase::Waiting => "waiting",
        };
        self.view.send_modify(|view| {
            view.last_sign = Some(now);
            view.waiting_until = self.waits.last().filter(|until| *until > now);
            view.waits_for_work = waits_for_work;
            view.phase = Some(phase);
            if status.is_some() {
                view.status = status;
            }
        });
    }

    /// How long it was silent, when that is too long. What was not heard at once counts too: beats that
    /// woke nobody, and writes of its tasks that came by another way. A step that is being run and a
    /// request that waits explain its silence, and so does a store that cannot be asked.
    async fn look(&mut self) -> Option<u64> {
        let looked = self.look_at_work().await;
        let (moved_at, explained_until_ms) = looked.unwrap_or((None, Some(u64::MAX)));
        let beaten_ms = self.slot.last_ms();
        if beaten_ms > self.silence.last_sign_ms() {
            self.silence.sign(SignSource::Beat, beaten_ms);
        }
        if let Some(moved_ms) = moved_at.map(monotonic_of)
            && moved_ms > self.silence.last_sign_ms()
        {
            self.silence.sign(SignSource::Steps, moved_ms);
        }
        let now_ms = clock::monotonic_ms();
        if let Some(until_ms) = explained_until_ms {
            self.silence.explained(until_ms, now_ms);
        }
        match self.silence.look(now_ms) {
            SilenceCheck::Fine | SilenceCheck::Again { .. } => None,
            SilenceCheck::Hung { silent_ms } => Some(silent_ms),
        }
    }

    /// When a task of it last changed, and until when open work excuses silence, by the monotonic clock.
    async fn look_at_work(&mut self) -> Result<(Option<Time>, Option<u64>), StoreError> {
        let held = super::works_on(self.reporters.engine(), &self.agent.name).await?;
        let moved_at = held.iter().map(|task| task.updated_at).max();
        let engine = self.reporters.engine();
        let work = match engine.home() {
            Some(home) => {
                self.open_steps
                    .look(engine.store().as_ref(), &home, None, &held)
                    .await?
            }
            None => Vec::new(),
        };
        let limit = self.agent.plan.step_silence_max;
        let of_work = work
            .into_iter()
            .map(|work| work.explains_until_ms(limit))
            .max();
        Ok((
            moved_at,
            of_work.max(self.waits.verbs_until().map(monotonic_of)),
        ))
    }

    /// Recorded until the store takes it. A report that came meanwhile begins it anew.
    async fn end(self, silent: Span) {
        let name = self.agent.name.clone();
        let judged_ms = clock::monotonic_ms();
        while let Err(error) = self.reporters.silent(&self.agent, silent).await {
            self.reporters
                .notices
                .tell(&name, What::Trouble(error.to_string()));
            sleep(TROUBLE_PAUSE).await;
        }
        self.reporters.forget(&name);
        if self.slot.last_ms() > judged_ms
            && let Err(error) = self.reporters.report(&name, Beat::default()).await
        {
            self.reporters
                .notices
                .tell(&name, What::Trouble(error.to_string()));
        }
    }
}

async fn at(moment_ms: Option<u64>) {
    let Some(moment_ms) = moment_ms else {
        return std::future::pending().await;
    };
    let left = moment_ms.saturating_sub(clock::monotonic_ms());
    sleep_until(Instant::now() + Duration::from_millis(left)).await;
}
