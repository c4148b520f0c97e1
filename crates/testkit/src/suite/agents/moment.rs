//! The named moments at which a program is killed, stopped or refused.

use super::worker::{Hold, Refusals, Which};
use crate::model::Point;

/// One of them; [`Moment::name`] says what each is.
#[expect(missing_docs, reason = "told once, for people")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    Boot,
    Request,
    Stream,
    Call,
    ToolBefore,
    ToolAfter,
    Result,
    Second,
    FinalStream,
    End,
    Again,
    Frozen,
    Supervisor,
    Everything,
    Limit,
    Refused,
    Torn,
}

/// What is done at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blow {
    /// SIGKILL to the program and all that it started.
    Kill,
    /// The same, and once more when the successor asks the model.
    KillTwice,
    /// SIGSTOP to all of it.
    Freeze,
    /// SIGKILL to the supervisor only, which is then started again.
    KillSupervisor,
    /// SIGKILL to the program, its shim and the supervisor, which is then started again.
    KillEverything,
    /// The same, and half a line is appended to the transcript.
    Tear,
    /// Nothing: the model refuses.
    None,
}

impl Moment {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Boot,
        Self::Request,
        Self::Stream,
        Self::Call,
        Self::ToolBefore,
        Self::ToolAfter,
        Self::Result,
        Self::Second,
        Self::FinalStream,
        Self::End,
        Self::Again,
        Self::Frozen,
        Self::Supervisor,
        Self::Everything,
        Self::Limit,
        Self::Refused,
        Self::Torn,
    ];
    /// Those of a short run.
    pub const FEW: [Self; 3] = [Self::ToolBefore, Self::ToolAfter, Self::Everything];

    /// Its name, and what it is.
    pub fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Boot => ("boot", "as soon as its process is there"),
            Self::Request => ("request", "the first request is sent, nothing is answered"),
            Self::Stream => ("stream", "half of the first answer has arrived"),
            Self::Call => ("call", "the answer that asks for a tool is complete"),
            Self::ToolBefore => ("tool", "the tool runs, before its effect"),
            Self::ToolAfter => ("effect", "the tool runs, after its effect"),
            Self::Result => ("result", "the tool has ended, its result is not sent"),
            Self::Second => ("second", "the second tool runs, after its effect"),
            Self::FinalStream => ("final", "half of the last answer has arrived"),
            Self::End => ("end", "the last answer is complete"),
            Self::Again => (
                "again",
                "as `effect`, and the successor at its first request",
            ),
            Self::Frozen => ("frozen", "SIGSTOP at the second request"),
            Self::Supervisor => (
                "supervisor",
                "as `effect`, but only `relight run` is killed",
            ),
            Self::Everything => ("everything", "as `effect`, with the shim and `relight run`"),
            Self::Limit => ("429", "the provider's limit, with Retry-After"),
            Self::Refused => ("401", "the key is refused"),
            Self::Torn => (
                "torn",
                "as `everything`, and the transcript ends in half a line",
            ),
        }
    }

    pub(super) fn blow(self) -> Blow {
        match self {
            Self::Again => Blow::KillTwice,
            Self::Frozen => Blow::Freeze,
            Self::Supervisor => Blow::KillSupervisor,
            Self::Everything => Blow::KillEverything,
            Self::Torn => Blow::Tear,
            Self::Limit | Self::Refused => Blow::None,
            Self::Boot
            | Self::Request
            | Self::Stream
            | Self::Call
            | Self::ToolBefore
            | Self::ToolAfter
            | Self::Result
            | Self::Second
            | Self::FinalStream
            | Self::End => Blow::Kill,
        }
    }

    /// Where the model's answer is held.
    pub(super) fn hold(self) -> Option<Hold> {
        let (answer, point) = match self {
            Self::Request => (Which::Number(0), Point::Asked),
            Self::Stream => (Which::Number(0), Point::Half),
            Self::Call => (Which::Number(0), Point::Whole),
            Self::Frozen => (Which::Number(1), Point::Asked),
            Self::FinalStream => (Which::Final, Point::Half),
            Self::End => (Which::Final, Point::Whole),
            _ => return None,
        };
        Some(Hold { answer, point })
    }

    /// Where an act holds: the name of the place and the act.
    pub(super) fn act(self) -> Option<(&'static str, usize)> {
        match self {
            Self::ToolBefore => Some(("before", 1)),
            Self::ToolAfter | Self::Again | Self::Supervisor | Self::Everything | Self::Torn => {
                Some(("after", 1))
            }
            Self::Result => Some(("ended", 1)),
            Self::Second => Some(("after", 2)),
            _ => None,
        }
    }

    /// The act that is in doubt afterwards, for sure.
    pub(super) fn act_in_doubt(self) -> Option<usize> {
        match self {
            Self::Supervisor => None,
            _ => self
                .act()
                .filter(|(place, _)| *place != "ended")
                .map(|(_, act)| act),
        }
    }

    pub(super) fn refusals(self) -> Option<Refusals> {
        match self {
            Self::Limit => Some(Refusals {
                from: 1,
                count: 2,
                status: 429,
            }),
            Self::Refused => Some(Refusals {
                from: 0,
                count: usize::MAX >> 1,
                status: 401,
            }),
            _ => None,
        }
    }
}
