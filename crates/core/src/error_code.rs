//! What an error is for programs. One list for the command line, HTTP and MCP.

use crate::decide::Refusal;
use crate::session::SessionRefusal;

/// The name of an error, and the exit code and the HTTP status that say the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorCode {
    /// What happened.
    pub name: &'static str,
    /// The exit code of the command line.
    pub exit: u8,
    /// The HTTP status.
    pub status: u16,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $constant:ident = $name:literal, $exit:literal, $status:literal;)*) => {
        impl ErrorCode {
            $($(#[$doc])* pub const $constant: Self =
                Self { name: $name, exit: $exit, status: $status };)*
        }
    };
}

codes! {
    /// Somebody else has it, or is at it.
    HELD = "held", 75, 409;
    /// The caller's lease is no longer valid.
    FENCED = "fenced", 77, 409;
    /// The status does not allow it.
    ILLEGAL = "illegal", 1, 409;
    /// It differs from what is there.
    CONFLICT = "conflict", 1, 409;
    /// Others were faster every time.
    CONTENDED = "conflict", 75, 409;
    /// There is no such thing.
    NOT_FOUND = "not_found", 1, 404;
    /// There is nothing to resume or to claim.
    NOTHING = "nothing", 1, 409;
    /// A value that cannot be one.
    INVALID = "invalid", 2, 422;
    /// A text over its limit.
    OVER_LIMIT = "invalid", 65, 422;
    /// The task has ended.
    ENDED = "ended", 1, 409;
    /// It is blocked or suspended.
    WAITS_FOR_PERSON = "waits_for_person", 1, 409;
    /// It has reached a limit of its own.
    USED_UP = "used_up", 1, 409;
    /// Declared steps are not finished.
    STEPS_LEFT_OPEN = "steps_left_open", 1, 409;
    /// A step was begun and not ended.
    IN_DOUBT = "in_doubt", 1, 409;
    /// A step in doubt that must not be repeated.
    NOT_REPEATED = "in_doubt", 75, 409;
    /// The caller did not start the task.
    NOT_HELD = "not_held", 77, 409;
    /// Nobody supervises the agent.
    NOT_SUPERVISED = "not_supervised", 1, 409;
    /// A file or a row cannot be trusted.
    DAMAGED = "damaged", 65, 422;
    /// The system did not read or write.
    IO = "io", 74, 503;
    /// The store cannot be used now.
    STORE_UNAVAILABLE = "store_unavailable", 69, 503;
    /// Nothing is begun now.
    DRAINING = "draining", 75, 503;
    /// The daemon ends.
    ENDING = "ending", 75, 503;
    /// A bug.
    INTERNAL = "internal", 70, 500;
    /// Not a request that is understood.
    BAD_REQUEST = "bad_request", 2, 400;
    /// No token, or one that is not known.
    UNAUTHORIZED = "unauthorized", 1, 401;
    /// The token is not for this.
    FORBIDDEN = "forbidden", 1, 403;
    /// Another method is needed.
    METHOD_NOT_ALLOWED = "method_not_allowed", 2, 405;
    /// The answer would be of another type.
    NOT_ACCEPTABLE = "not_acceptable", 2, 406;
    /// The request did not come in time.
    TOO_SLOW = "too_slow", 75, 408;
    /// The other side is of another version.
    OTHER_VERSION = "other_version", 69, 409;
    /// The request is too long.
    TOO_LARGE = "too_large", 65, 413;
    /// The body is of another type.
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type", 2, 415;
    /// Too many failed logins.
    RATE_LIMITED = "rate_limited", 75, 429;
}

impl Refusal {
    /// What it is for programs.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::TooLarge(_) => ErrorCode::OVER_LIMIT,
            Self::Illegal { .. } => ErrorCode::ILLEGAL,
            Self::Held { .. } | Self::StepRunning { .. } => ErrorCode::HELD,
            Self::Fenced { .. } => ErrorCode::FENCED,
            Self::WaitsForPerson { .. } => ErrorCode::WAITS_FOR_PERSON,
            Self::UsedUp { .. } => ErrorCode::USED_UP,
            Self::StepsLeftOpen { .. } => ErrorCode::STEPS_LEFT_OPEN,
            Self::StepInDoubt { .. } => ErrorCode::IN_DOUBT,
            Self::OtherAgent { .. }
            | Self::RetriesUsedUp { .. }
            | Self::GivenUp { .. }
            | Self::NotBefore { .. }
            | Self::StepNotBegun { .. }
            | Self::StepNotInDoubt { .. }
            | Self::StepFinished { .. }
            | Self::NoSuchStep { .. }
            | Self::OtherInput { .. } => ErrorCode::CONFLICT,
        }
    }
}

impl SessionRefusal {
    /// What it is for programs.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::TooLarge(_) | Self::BadOwner(_) => ErrorCode::OVER_LIMIT,
            Self::Unknown(_) => ErrorCode::NOT_FOUND,
            Self::Held { .. } => ErrorCode::HELD,
            Self::Fenced { .. } => ErrorCode::FENCED,
            Self::NothingToResume { .. } => ErrorCode::NOTHING,
            Self::Suspended { .. } | Self::Older { .. } => ErrorCode::CONFLICT,
        }
    }
}
