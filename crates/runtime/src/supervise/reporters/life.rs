//! One life of an agent that reports by itself: hears its reports, and judges its silence.

use std::sync::Arc;
use std::time::Duration;

use relight_core::agent::Agent;
use relight_core::agent::silence::{AttemptPhase, SignSource, Silence, SilenceCheck};
use relight_core::time::{Span, Time};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::Reporters;
use crate::os::clock;
use crate::supervise::actor::AgentView;
use crate::supervise::heartbeats::{Beat, BeatSlot};
use crate::supervise::notices::What;
use crate::supervise::notify::NotifySign;

/// After a store that could not be written.
const TROUBLE_PAUSE: Duration = Duration::from_secs(5);

pub(super) struct Life {
    reporters: Reporters,
    agent: Agent,
    slot: Arc<BeatSlot>,
    view: watch::Sender<AgentView>,
    silence: Silence,
}

impl Life {
    pub(super) fn new(
        reporters: Reporters,
        agent: Agent,
        slot: Arc<BeatSlot>,
        view: watch::Sender<AgentView>,
    ) -> Self {
        let sources = vec![SignSource::Beat, SignSource::Steps];
        let silence = Silence::new(agent.plan.silence_max, sources, clock::monotonic_ms());
        Self { reporters, agent, slot, view, silence }
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
        let (mut waiting_until, mut status) = (None, None);
        self.silence.sign(SignSource::Beat, now_ms);
        for sign in signs {
            match sign {
                NotifySign::WaitingUntil(until) | NotifySign::Verb(_, Some(until)) => {
                    let left_ms = if until > now { until.since(now).as_ms() } else { 0 };
                    self.silence.waiting(now_ms + left_ms, now_ms);
                    waiting_until = (left_ms > 0).then_some(until);
                }
                NotifySign::Status(text) => status = Some(text),
                NotifySign::Alive
                | NotifySign::Ready
                | NotifySign::Extend(_)
                | NotifySign::Verb(_, None)
                | NotifySign::Trigger
                | NotifySign::Stopping => {}
            }
        }
        let phase = match self.silence.phase(now_ms) {
            AttemptPhase::Starting => "starting",
            AttemptPhase::Working => "working",
            AttemptPhase::Waiting => "waiting",
        };
        self.view.send_modify(|view| {
            view.last_sign = Some(now);
            view.waiting_until = waiting_until;
            view.phase = Some(phase);
            if status.is_some() {
                view.status = status;
            }
        });
    }

    /// How long it was silent, when that is too long. What was not heard at once counts too: beats that
    /// woke nobody, and writes of its tasks that came by another way.
    async fn look(&mut self) -> Option<u64> {
        let beaten_ms = self.slot.last_ms();
        if beaten_ms > self.silence.last_sign_ms() {
            self.silence.sign(SignSource::Beat, beaten_ms);
        }
        let held = self.reporters.held_by(&self.agent.name).await;
        let moved_at = held.ok().and_then(|held| held.iter().map(|task| task.updated_at).max());
        if let Some(moved_ms) = moved_at.map(monotonic_of)
            && moved_ms > self.silence.last_sign_ms()
        {
            self.silence.sign(SignSource::Steps, moved_ms);
        }
        match self.silence.look(clock::monotonic_ms()) {
            SilenceCheck::Fine | SilenceCheck::Again { .. } => None,
            SilenceCheck::Hung { silent_ms } => Some(silent_ms),
        }
    }

    /// Recorded until the store takes it. A report that came meanwhile begins it anew.
    async fn end(self, silent: Span) {
        let name = self.agent.name.clone();
        let judged_ms = clock::monotonic_ms();
        while let Err(error) = self.reporters.silent(&self.agent, silent).await {
            self.reporters.notices.tell(&name, What::Trouble(error.to_string()));
            sleep(TROUBLE_PAUSE).await;
        }
        self.reporters.forget(&name);
        if self.slot.last_ms() > judged_ms
            && let Err(error) = self.reporters.report(&name, Beat::default()).await
        {
            self.reporters.notices.tell(&name, What::Trouble(error.to_string()));
        }
    }
}

/// A moment of the wall as the clock that does not jump would have shown it.
fn monotonic_of(at: Time) -> u64 {
    clock::monotonic_ms().saturating_sub(clock::now().since(at).as_ms())
}

async fn at(moment_ms: Option<u64>) {
    let Some(moment_ms) = moment_ms else { return std::future::pending().await };
    let left = moment_ms.saturating_sub(clock::monotonic_ms());
    sleep_until(Instant::now() + Duration::from_millis(left)).await;
}
