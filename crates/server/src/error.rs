//! The one shape of every refusal: a status, a code for programs, a message and a hint for people.
//!
//! Nothing from inside is told: no path, no statement, no cause of a broken store.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use relight::engine::ActError;
use relight::supervise::control::{Refused, RefusedCode};
use relight::supervise::reporters::ReportError;
use relight_core::decide::Refusal;
use relight_core::ids::{IdError, in_path};
use relight_core::session::SessionRefusal;
use relight_core::status::TaskStatus;
use relight_core::time::TimeError;
use relight_store::{AgentCommitError, StoreError};

use crate::answer::json_bytes;
use crate::wire::problem::{Problem, ProblemBody};

/// Why a request was not done. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status.
    pub status: StatusCode,
    /// For programs.
    pub code: &'static str,
    /// What happened, to what.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
    /// What only the daemon's own log is told.
    pub inside: Option<String>,
}

impl ApiError {
    /// A refusal.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), hint: None, inside: None }
    }

    /// With what to do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", message)
    }

    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
            .hint("send Authorization: Bearer TOKEN; relight token show prints it")
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    pub(crate) fn draining() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "draining", "nothing is begun now: draining")
            .hint("relight drain --cancel lets work begin again")
    }

    pub(crate) fn internal(inside: impl Into<String>) -> Self {
        let message = "something went wrong inside; the daemon's log says what";
        let mut error = Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message);
        error.inside = Some(inside.into());
        error
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = ProblemBody {
            error: Problem {
                code: self.code.to_owned(),
                message: self.message.clone(),
                hint: self.hint.clone(),
            },
        };
        let mut response = json_bytes(self.status, &body);
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
        }
        // For whoever keeps the daemon's log.
        response.extensions_mut().insert(self);
        response
    }
}

impl From<IdError> for ApiError {
    fn from(error: IdError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<TimeError> for ApiError {
    fn from(error: TimeError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let inside = chain(&error);
        match error {
            StoreError::Io { .. }
            | StoreError::Busy { .. }
            | StoreError::HalfCopied { .. }
            | StoreError::Replaced { .. }
            | StoreError::Unreachable { .. }
            | StoreError::Unsuitable { .. } => {
                let message = "the store cannot be read or written now; nothing was acknowledged";
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let mut told = Self::new(status, "store_unavailable", message).hint("try again");
                told.inside = Some(inside);
                told
            }
            StoreError::Damaged { .. } | StoreError::Newer { .. } => Self::internal(inside),
        }
    }
}

/// An error with all its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

impl From<ActError> for ApiError {
    fn from(error: ActError) -> Self {
        let text = error.to_string();
        match error {
            ActError::Refused(refusal) => refusal.into(),
            ActError::NoSuchTask(_) => Self::not_found(text).hint("GET /api/tasks lists all"),
            ActError::Exists { task, .. } => Self::conflict(text)
                .hint(format!("GET /api/tasks/{} shows it", in_path(task.as_str()))),
            ActError::SecretName(_) | ActError::BadName(_) => Self::invalid(text),
            ActError::Contended(_) => Self::conflict(text).hint("try again"),
            ActError::Store(error) => error.into(),
        }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let text = refusal.to_string();
        let conflict = |code| Self::new(StatusCode::CONFLICT, code, text.clone());
        match refusal {
            Refusal::TooLarge(_) => Self::invalid(text),
            Refusal::Illegal { from, .. } => conflict("illegal").hint(match from {
                TaskStatus::Created => "nobody has begun it; POST …/start does",
                TaskStatus::Failed => "POST …/retry gives it to somebody again",
                TaskStatus::Completed | TaskStatus::Cancelled => {
                    "it has ended; new work needs a new id"
                }
                _ => "relight task states prints the table of transitions",
            }),
            Refusal::Held { .. } => {
                conflict("held").hint("POST …/release with \"force\": true takes it away")
            }
            Refusal::OtherAgent { .. } => {
                conflict("conflict").hint("POST …/retry with \"agent\" hands it over")
            }
            Refusal::Fenced { ours, newest, .. } if ours > newest => {
                conflict("fenced").hint("send the fence that starting the task answered")
            }
            Refusal::Fenced { ours, newest, .. } if ours == newest => conflict("fenced")
                .hint("POST …/start takes a new lease, where the task is not finished"),
            Refusal::Fenced { .. } => conflict("fenced")
                .hint("the task was taken away from this lease; stop working on it"),
            Refusal::RetriesUsedUp { .. } | Refusal::GivenUp { .. } => {
                conflict("conflict").hint("\"force\": true tries it once more")
            }
            Refusal::WaitsForPerson { .. } => conflict("waits_for_person")
                .hint("POST …/retry gives it out again; start with \"force\": true starts it now"),
            Refusal::UsedUp { .. } => conflict("used_up")
                .hint("POST …/retry gives it one more try; start with \"force\": true starts it now"),
            Refusal::StepNotBegun { .. } => conflict("conflict").hint("POST …/begin first"),
            Refusal::StepsLeftOpen { .. } => conflict("steps_left_open").hint(
                "finish them, POST …/steps/{name}/skip each, or \"force\": true completes it all the same",
            ),
            Refusal::StepInDoubt { .. } => {
                conflict("in_doubt").hint("POST …/end or …/resolve says what became of it first")
            }
            Refusal::NotBefore { .. }
            | Refusal::StepNotInDoubt { .. }
            | Refusal::StepFinished { .. }
            | Refusal::NoSuchStep { .. }
            | Refusal::OtherInput { .. } => conflict("conflict"),
        }
    }
}

impl From<SessionRefusal> for ApiError {
    fn from(refusal: SessionRefusal) -> Self {
        let text = refusal.to_string();
        match refusal {
            SessionRefusal::TooLarge(_) | SessionRefusal::BadOwner(_) => Self::invalid(text),
            SessionRefusal::Unknown(_) => Self::not_found(text),
            SessionRefusal::Fenced { .. } => Self::new(StatusCode::CONFLICT, "fenced", text),
            SessionRefusal::Held { .. } => Self::new(StatusCode::CONFLICT, "held", text),
            _ => Self::conflict(text),
        }
    }
}

impl From<AgentCommitError> for ApiError {
    fn from(error: AgentCommitError) -> Self {
        let text = error.to_string();
        match error {
            AgentCommitError::Fenced { .. } => Self::new(StatusCode::CONFLICT, "fenced", text),
            AgentCommitError::Moved(_) => Self::conflict(text).hint("try again"),
            AgentCommitError::Exists(_) => Self::conflict(text),
            AgentCommitError::Absent(_) => Self::not_found(text),
            AgentCommitError::Store(error) => error.into(),
        }
    }
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        let Refused { code, message, hint } = refused;
        let mut error = match code {
            RefusedCode::NotFound => Self::new(StatusCode::CONFLICT, "not_supervised", message),
            RefusedCode::Conflict | RefusedCode::Refused => Self::conflict(message),
            RefusedCode::Ending => Self::new(StatusCode::SERVICE_UNAVAILABLE, "ending", message),
            RefusedCode::Internal => return Self::internal(message),
        };
        error.hint = hint;
        error
    }
}

impl From<ReportError> for ApiError {
    fn from(error: ReportError) -> Self {
        let text = error.to_string();
        match error {
            ReportError::Unknown(_) => Self::not_found(text).hint("GET /api/agents"),
            ReportError::NotReporting(_) => Self::conflict(text),
            ReportError::Stopped(name) => Self::conflict(text)
                .hint(format!("POST /api/agents/{}/start lets it work", in_path(name.as_str()))),
            ReportError::Full | ReportError::Contended(_) => Self::conflict(text),
            ReportError::Store(error) => error.into(),
        }
    }
}
