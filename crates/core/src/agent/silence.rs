//! Judges whether an agent hangs: by the silence of all its declared sources, never by one alone.
//!
//! Pure. All moments are milliseconds of one monotonic clock that stands still while the host sleeps,
//! so neither sleep nor a changed wall clock is taken for silence. Leaves to others: hearing the signs,
//! setting the timer for [`Silence::next_look_ms`], and ending what hangs.
//!
//! Output and steps are looked up lazily: before each [`Silence::look`] the caller refreshes them, and
//! takes in the beats that are already there, so that a late supervisor judges by what is true now.

use serde::{Deserialize, Serialize};

use crate::time::Span;

/// How long after the limit the second look is.
pub const CONFIRM_MS: u64 = 50;

/// A look later than this after it was due says that we or the host stood still, and nothing about the
/// agent.
pub const LATE_MS: u64 = 1_000;

/// How far ahead an agent may declare that it waits, or ask for more time.
pub const WAITING_MS_MAX: u64 = 7 * 24 * 3_600_000;

/// Where signs of life come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignSource {
    /// Its log grew.
    Output,
    /// It said so: `relight beat`, or an `sd_notify` datagram.
    Beat,
    /// A step was recorded.
    Steps,
    /// An event of its own hooks.
    Hook,
}

impl SignSource {
    /// Those that people and presets declare; the default is all of them.
    pub const DECLARED: [Self; 3] = [Self::Output, Self::Beat, Self::Steps];

    /// The word used everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Output => "output",
            Self::Beat => "beat",
            Self::Steps => "steps",
            Self::Hook => "hook",
        }
    }
}

/// What an attempt is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptPhase {
    /// No sign of it came yet.
    Starting,
    /// It gave signs.
    Working,
    /// It said until when nothing will come.
    Waiting,
}

/// Work that was begun and not ended, and may be silent: a running step, an open tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenWork {
    /// When it is over by its own limit, where it has one.
    pub deadline_ms: Option<u64>,
    /// When it began, or was last seen at work: its processes used CPU or I/O.
    pub active_ms: u64,
}

impl OpenWork {
    /// Until when it explains silence: its own deadline, else `silence_max` after it was last seen at
    /// work; without that limit for as long as it is open.
    pub fn explains_until_ms(self, silence_max: Option<Span>) -> u64 {
        let by_limit =
            silence_max.map_or(u64::MAX, |max| self.active_ms.saturating_add(max.as_ms()));
        self.deadline_ms.unwrap_or(by_limit)
    }
}

/// What a look found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SilenceCheck {
    /// Nothing to say; look again at [`Silence::next_look_ms`].
    Fine,
    /// Silent for too long: look once more then, with sources refreshed.
    Again {
        /// The second look.
        at_ms: u64,
    },
    /// Both looks agree.
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
    /// Silence counts from here: the last sign, the end of waiting, or the end of a freeze.
    window_from_ms: u64,
    waiting_until_ms: Option<u64>,
    extended_until_ms: u64,
    second_look_ms: Option<u64>,
}

impl Silence {
    /// Of an attempt that was started at `started_ms`. Without a limit (none, or 0) or without sources
    /// nothing is ever judged: there would be nothing to judge by.
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

    /// A sign of life; ignored when its source is not declared. Only a beat ends declared waiting:
    /// what waits may still print.
    pub fn sign(&mut self, source: SignSource, now_ms: u64) {
        if !self.sources.contains(&source) {
            return;
        }
        if source == SignSource::Beat {
            self.waiting_until_ms = None;
        }
        self.heard(now_ms);
    }

    /// It says that it is up and at work. What it says of itself counts whatever is declared.
    pub fn ready(&mut self, now_ms: u64) {
        self.waiting_until_ms = None;
        self.heard(now_ms);
    }

    /// It says that nothing will come until then: at most seven days ahead. A moment that is past ends
    /// the waiting.
    pub fn waiting(&mut self, until_ms: u64, now_ms: u64) {
        let until_ms = until_ms.min(now_ms.saturating_add(WAITING_MS_MAX));
        self.waiting_until_ms = (until_ms > now_ms).then_some(until_ms);
        self.heard(now_ms);
    }

    /// A verb of Relight that waits began or ended inside it. Counts whatever is declared.
    pub fn verb(&mut self, now_ms: u64) {
        self.heard(now_ms);
    }

    /// Open work explains the silence until then (see [`OpenWork`]). It is not a sign: the caller says it
    /// again at each look for as long as the work is open.
    pub fn explained(&mut self, until_ms: u64, now_ms: u64) {
        let until_ms = until_ms.min(now_ms);
        if until_ms > self.window_from_ms {
            self.begin_window(until_ms);
        }
    }

    /// It asks not to be judged for that long from now (`EXTEND_TIMEOUT_USEC`). Later signs do not
    /// shorten it; a shorter one than what is left changes nothing.
    pub fn extend(&mut self, span: Span, now_ms: u64) {
        let until_ms = now_ms.saturating_add(span.as_ms().min(WAITING_MS_MAX));
        self.extended_until_ms = self.extended_until_ms.max(until_ms);
        self.second_look_ms = None;
    }

    /// What it is at, as far as was heard.
    pub fn phase(&self, now_ms: u64) -> AttemptPhase {
        let is_waiting = self.waiting_until_ms.is_some_and(|until_ms| now_ms < until_ms);
        if is_waiting { AttemptPhase::Waiting } else { self.phase }
    }

    /// Its last sign; its start before the first.
    pub fn last_sign_ms(&self) -> u64 {
        self.last_sign_ms
    }

    /// When to look next; never when nothing is judged.
    pub fn next_look_ms(&self) -> Option<u64> {
        let limit_ms = self.limit_ms()?;
        Some(self.second_look_ms.unwrap_or(limit_ms))
    }

    /// Looks; the caller has refreshed the sources.
    pub fn look(&mut self, now_ms: u64) -> SilenceCheck {
        let Some(due_ms) = self.next_look_ms() else { return SilenceCheck::Fine };
        self.end_waiting(now_ms);
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
            return SilenceCheck::Hung { silent_ms: now_ms - self.last_sign_ms };
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

    /// Who waited has a whole window to go on after it.
    fn end_waiting(&mut self, now_ms: u64) {
        if let Some(until_ms) = self.waiting_until_ms.take_if(|until_ms| *until_ms <= now_ms) {
            self.window_from_ms = self.window_from_ms.max(until_ms);
        }
    }

    /// The end of the window, when nothing comes any more.
    fn limit_ms(&self) -> Option<u64> {
        let from_ms = self.window_from_ms.max(self.waiting_until_ms.unwrap_or(0));
        let silent_until_ms = from_ms.saturating_add(self.max_ms?);
        Some(silent_until_ms.max(self.extended_until_ms))
    }
}
