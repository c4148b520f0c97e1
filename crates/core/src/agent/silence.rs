//! Detects hanging agents: all declared sources of signs of life must be silent, never only one.
//!
//! Pure. All times are milliseconds of a monotonic clock that stops while the host sleeps, so
//! neither sleep nor a changed wall clock counts as silence. The caller delivers the signs, sets
//! the timer for [`Silence::next_look_ms`] and stops what hangs.
//!
//! Output and steps are read lazily: before each [`Silence::look`] the caller refreshes them and
//! delivers pending heartbeats, so that a delayed supervisor judges by the current state.

use serde::{Deserialize, Serialize};

use crate::time::Span;

/// Time between the limit and the confirming check.
pub const CONFIRM_MS: u64 = 50;

/// A check delayed by more than this means that this process or the host was frozen, so it says
/// nothing about the agent.
pub const LATE_MS: u64 = 1_000;

/// The longest wait or extension that an agent may declare.
pub const WAITING_MS_MAX: u64 = 7 * 24 * 3_600_000;

/// Where signs of life come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignSource {
    /// Its log grew.
    Output,
    /// A heartbeat: `relight beat` or an `sd_notify` datagram.
    Beat,
    /// A step was recorded.
    Steps,
    /// An event of its own hooks.
    Hook,
}

impl SignSource {
    /// The sources that users and presets can declare; all by default.
    pub const DECLARED: [Self; 3] = [Self::Output, Self::Beat, Self::Steps];

    /// Its name in JSON and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Output => "output",
            Self::Beat => "beat",
            Self::Steps => "steps",
            Self::Hook => "hook",
        }
    }
}

/// Phase of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptPhase {
    /// No sign of life yet.
    Starting,
    /// There were signs of life.
    Working,
    /// It declared a wait.
    Waiting,
}

/// Open work that excuses silence: a running step or an open tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenWork {
    /// Its own time limit, if it has one.
    pub deadline_ms: Option<u64>,
    /// When it began, or when its processes last used CPU or I/O.
    pub active_ms: u64,
}

impl OpenWork {
    /// Until when it excuses silence: its own deadline, otherwise `silence_max` after its last
    /// activity, otherwise as long as it is open.
    pub fn explains_until_ms(self, silence_max: Option<Span>) -> u64 {
        let by_limit =
            silence_max.map_or(u64::MAX, |max| self.active_ms.saturating_add(max.as_ms()));
        self.deadline_ms.unwrap_or(by_limit)
    }
}

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SilenceCheck {
    /// Nothing wrong; check again at [`Silence::next_look_ms`].
    Fine,
    /// Silent for too long: check once more at this time, with refreshed sources.
    Again {
        /// Time of the second check.
        at_ms: u64,
    },
    /// Both checks agree.
    Hung {
        /// Since its last sign.
        silent_ms: u64,
    },
}

/// The silence of one attempt.
///
/// | | signs | declared waiting | window |
/// |---|---|---|---|
/// | output, step, hook | heard | goes on | begins anew |
/// | beat, ready | heard | ends | begins anew |
/// | waiting | heard | begins, or ends when its time is past | begins at its end |
/// | a verb of Relight begins or ends in it | heard | goes on | begins anew |
/// | open work explains it | – | goes on | begins anew, at the latest when the work's time is over |
/// | a look more than `LATE_MS` late | – | goes on | begins anew |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silence {
    max_ms: Option<u64>,
    sources: Vec<SignSource>,
    phase: AttemptPhase,
    last_sign_ms: u64,
    /// Start of the silence: the last sign, the end of a wait or the end of a freeze.
    window_from_ms: u64,
    waiting_until_ms: Option<u64>,
    extended_until_ms: u64,
    second_look_ms: Option<u64>,
}

impl Silence {
    /// For an attempt started at `started_ms`. Without a limit (none or 0) or without sources,
    /// silence is never detected.
    pub fn new(max: Option<Span>, sources: Vec<SignSource>, started_ms: u64) -> Self {
        let is_judged = !sources.is_empty();
        Self {
            max_ms: max.map(Span::as_ms).filter(|ms| *ms > 0 && is_judged),
            sources,
            phase: AttemptPhase::Starting,
            last_sign_ms: started_ms,
            window_from_ms: started_ms,
            waiting_until_ms: None,
            extended_until_ms: 0,
            second_look_ms: None,
        }
    }

    /// A sign of life; ignored when its source is not declared. Only a heartbeat ends a declared
    /// wait, because a waiting agent may still print.
    pub fn sign(&mut self, source: SignSource, now_ms: u64) {
        if !self.sources.contains(&source) {
            return;
        }
        if source == SignSource::Beat {
            self.waiting_until_ms = None;
        }
        self.heard(now_ms);
    }

    /// It reports that it is ready. Counts even if heartbeats are not a declared source.
    pub fn ready(&mut self, now_ms: u64) {
        self.waiting_until_ms = None;
        self.heard(now_ms);
    }

    /// It declares a wait until this time, at most seven days ahead. A time in the past ends the
    /// wait.
    pub fn waiting(&mut self, until_ms: u64, now_ms: u64) {
        let until_ms = until_ms.min(now_ms.saturating_add(WAITING_MS_MAX));
        self.waiting_until_ms = (until_ms > now_ms).then_some(until_ms);
        self.heard(now_ms);
    }

    /// A blocking Relight command of the agent began or ended. Always counts.
    pub fn verb(&mut self, now_ms: u64) {
        self.heard(now_ms);
    }

    /// Open work excuses the silence until this time (see [`OpenWork`]). It is not a sign of life:
    /// the caller repeats it at each check while the work is open.
    pub fn explained(&mut self, until_ms: u64, now_ms: u64) {
        let until_ms = until_ms.min(now_ms);
        if until_ms > self.window_from_ms {
            self.begin_window(until_ms);
        }
    }

    /// Extends the limit (`EXTEND_TIMEOUT_USEC`). Later signs do not shorten it; a shorter
    /// extension than what is left has no effect.
    pub fn extend(&mut self, span: Span, now_ms: u64) {
        let until_ms = now_ms.saturating_add(span.as_ms().min(WAITING_MS_MAX));
        self.extended_until_ms = self.extended_until_ms.max(until_ms);
        self.second_look_ms = None;
    }

    /// The current phase.
    pub fn phase(&self, now_ms: u64) -> AttemptPhase {
        let is_waiting = self
            .waiting_until_ms
            .is_some_and(|until_ms| now_ms < until_ms);
        if is_waiting {
            AttemptPhase::Waiting
        } else {
            self.phase
        }
    }

    /// The last sign of life; the start before the first.
    pub fn last_sign_ms(&self) -> u64 {
        self.last_sign_ms
    }

    /// Time of the next check; none when silence is not checked.
    pub fn next_look_ms(&self) -> Option<u64> {
        let limit_ms = self.limit_ms()?;
        Some(self.second_look_ms.unwrap_or(limit_ms))
    }

    /// Checks; the caller must have refreshed the sources.
    pub fn look(&mut self, now_ms: u64) -> SilenceCheck {
        let Some(due_ms) = self.next_look_ms() else {
            return SilenceCheck::Fine;
        };
        // After a wait, a full window begins.
        if let Some(until_ms) = self
            .waiting_until_ms
            .take_if(|until_ms| *until_ms <= now_ms)
        {
            self.window_from_ms = self.window_from_ms.max(until_ms);
        }
        if now_ms < due_ms {
            return self
                .second_look_ms
                .map_or(SilenceCheck::Fine, |at_ms| SilenceCheck::Again { at_ms });
        }
        let stood_still = now_ms - due_ms > LATE_MS;
        if stood_still {
            self.begin_window(now_ms);
            return SilenceCheck::Fine;
        }
        if self.second_look_ms.is_some() {
            return SilenceCheck::Hung {
                silent_ms: now_ms - self.last_sign_ms,
            };
        }
        let at_ms = now_ms + CONFIRM_MS;
        self.second_look_ms = Some(at_ms);
        SilenceCheck::Again { at_ms }
    }

    fn heard(&mut self, now_ms: u64) {
        if self.phase == AttemptPhase::Starting {
            self.phase = AttemptPhase::Working;
        }
        self.last_sign_ms = self.last_sign_ms.max(now_ms);
        self.begin_window(now_ms);
    }

    fn begin_window(&mut self, now_ms: u64) {
        self.window_from_ms = self.window_from_ms.max(now_ms);
        self.second_look_ms = None;
    }

    /// When the silence limit is reached without another sign.
    fn limit_ms(&self) -> Option<u64> {
        let from_ms = self.window_from_ms.max(self.waiting_until_ms.unwrap_or(0));
        let silent_until_ms = from_ms.saturating_add(self.max_ms?);
        Some(silent_until_ms.max(self.extended_until_ms))
    }
}
