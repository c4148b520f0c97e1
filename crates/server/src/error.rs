//! The one shape of every refusal: a status, a code for programs, a message and a hint for people.
//!
//! Nothing from inside is told: no path, no statement, no cause of a broken store.

mod problem;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use relight_core::decide::Refusal;
use relight_core::error_code::{ErrorCode, Refused, with_causes};
use relight_core::ids::IdError;
use relight_core::time::TimeError;
use relight_runtime::engine::ActError;
use relight_runtime::sessions::SessionError;
use relight_runtime::supervise::reporters::ReportError;
use relight_store::{AgentCommitError, StoreError};

use crate::answer::json_bytes;

pub(crate) use self::problem::{Problem, ProblemBody};

/// Why a request was not done. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// For programs: its name, the HTTP status, the exit code of the command line.
    pub code: ErrorCode,
    /// What happened, to what.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
    /// What a model does next.
    pub model_hint: Option<String>,
    /// What only the daemon's own log is told.
    pub inside: Option<String>,
}

impl ApiError {
    /// A refusal.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
            model_hint: None,
            inside: None,
        }
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// With what to do next, for people and models.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self.model_hint.clone_from(&self.hint);
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::BAD_REQUEST, message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID, message)
    }

    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::UNAUTHORIZED, message)
            .hint("relight token show prints the token; send it as a bearer token")
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::FORBIDDEN, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::NOT_FOUND, message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::CONFLICT, message)
    }

    pub(crate) fn internal(inside: impl Into<String>) -> Self {
        let message = "something went wrong inside; the daemon's log says what";
        let mut error = Self::new(ErrorCode::INTERNAL, message);
        error.inside = Some(inside.into());
        error
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = ProblemBody {
            error: Problem::new(self.code, self.message.clone(), self.hint.clone()),
        };
        let mut response = json_bytes(self.status(), &body);
        if self.code == ErrorCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, scheme);
        }
        if self.code == ErrorCode::RATE_LIMITED {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
        }
        // For whoever keeps the daemon's log.
        response.extensions_mut().insert(self);
        response
    }
}

/// Said without the path, which is nobody's business over the network.
pub(crate) const STORE_REPLACED: &str = "the store's files were removed or replaced while the daemon used them; nothing was acknowledged";

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let inside = with_causes(&error);
        match error {
            StoreError::Replaced { .. } => {
                let mut told = Self::new(ErrorCode::STORE_UNAVAILABLE, STORE_REPLACED)
                    .hint(StoreError::REPLACED_HINT);
                told.inside = Some(inside);
                told
            }
            StoreError::Io { .. }
            | StoreError::Busy { .. }
            | StoreError::HalfCopied { .. }
            | StoreError::Unreachable { .. }
            | StoreError::Unsuitable { .. } => {
                let message = "the store cannot be read or written now; nothing was acknowledged";
                let mut told = Self::new(ErrorCode::STORE_UNAVAILABLE, message).hint("try again");
                told.inside = Some(inside);
                told
            }
            StoreError::Damaged { .. } | StoreError::Newer { .. } => Self::internal(inside),
        }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        ActError::from(refusal).into()
    }
}

impl From<AgentCommitError> for ApiError {
    fn from(error: AgentCommitError) -> Self {
        let text = error.to_string();
        match error {
            AgentCommitError::Fenced { .. } => Self::new(ErrorCode::FENCED, text),
            AgentCommitError::Moved(_) => Self::conflict(text).hint("try again"),
            AgentCommitError::Exists(_) => Self::conflict(text),
            AgentCommitError::Absent(_) => Self::not_found(text),
            AgentCommitError::Store(error) => error.into(),
        }
    }
}

impl From<Refused> for ApiError {
    fn from(
        Refused {
            code,
            message,
            hint,
        }: Refused,
    ) -> Self {
        match code {
            ErrorCode::INTERNAL => Self::internal(message),
            code => Self {
                hint,
                ..Self::new(code, message)
            },
        }
    }
}

impl From<ReportError> for ApiError {
    fn from(error: ReportError) -> Self {
        let text = error.to_string();
        match error {
            ReportError::Unknown(_) => Self::not_found(text).hint("GET /api/agents"),
            ReportError::Exists(_) => {
                Self::conflict(text).hint("take another name, or DELETE it first")
            }
            ReportError::NotReporting(_) => Self::conflict(text),
            ReportError::Full | ReportError::Contended(_) => Self::conflict(text),
            ReportError::Store(error) => error.into(),
        }
    }
}

macro_rules! invalid {
    ($($error:ident),*) => {$(
        impl From<$error> for ApiError {
            fn from(error: $error) -> Self {
                Self::invalid(error.to_string())
            }
        }
    )*};
}

invalid!(IdError, TimeError);

/// What is inside of an error of the runtime is told as what it is.
impl From<ActError> for ApiError {
    fn from(error: ActError) -> Self {
        let hint = error.hint();
        let model_hint = match &error {
            ActError::Invalid { hint, .. } => hint.clone(),
            error => error.model_hint().map(str::to_owned),
        };
        match error {
            ActError::Store(error) => error.into(),
            error => Self {
                hint,
                model_hint,
                ..Self::new(error.code(), error.to_string())
            },
        }
    }
}

impl From<SessionError> for ApiError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Store(error) => error.into(),
            error => Self {
                hint: error.hint(),
                ..Self::new(error.code(), error.to_string())
            },
        }
    }
}
