//! The exit codes of the contract, and the errors that lead to them.

use relight_core::decide::Refusal;
use relight_core::error_code::{ErrorCode, Refused};
use relight_core::explain;
use relight_core::limits::TooLarge;
use relight_runtime::engine::ActError;
use relight_runtime::sessions::SessionError;
use relight_store::StoreError;
pub(crate) use relight_store::refused::A_HOME_OF_YOUR_OWN;
use relight_store::refused::is_a_matter_of_rights;

/// The documented exit codes beside 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The answer is no.
    No = 1,
    /// Wrong usage.
    Usage = 2,
    /// Damaged or invalid data.
    Data = 65,
    /// The store cannot be reached.
    Unreachable = 69,
    /// A bug in Relight.
    Bug = 70,
    /// Saved in the store, but its file copy could not be written.
    FileCopy = 73,
    /// An I/O error; nothing was acknowledged.
    Io = 74,
    /// Held by someone else, or try later.
    Busy = 75,
    /// The caller's lease is no longer valid.
    Fenced = 77,
    /// Bad configuration.
    Config = 78,
    /// The program of a command may not be executed, as a shell says it.
    NotExecutable = 126,
    /// There is no such program, as a shell says it.
    NotFound = 127,
}

impl Exit {
    /// All of them, for the manual.
    pub(crate) const ALL: [Self; 12] = [
        Self::No,
        Self::Usage,
        Self::Data,
        Self::Unreachable,
        Self::Bug,
        Self::FileCopy,
        Self::Io,
        Self::Busy,
        Self::Fenced,
        Self::Config,
        Self::NotExecutable,
        Self::NotFound,
    ];

    /// What the manual says about it.
    pub(crate) fn meaning(self) -> &'static str {
        explain::exit_code(self as u8).expect("every exit code is explained")
    }

    /// What it is for programs where nothing says it better.
    fn code(self) -> ErrorCode {
        match self {
            Self::No => ErrorCode::CONFLICT,
            Self::Usage => ErrorCode::INVALID,
            Self::Data => ErrorCode::INVALID_DATA,
            Self::Unreachable => ErrorCode::UNREACHABLE,
            Self::Bug => ErrorCode::INTERNAL,
            Self::FileCopy => ErrorCode::FILE_COPY,
            Self::Io => ErrorCode::IO,
            Self::Busy => ErrorCode::FULL,
            Self::Fenced => ErrorCode::FENCED,
            Self::Config => ErrorCode::CONFIG,
            Self::NotExecutable => ErrorCode::NOT_EXECUTABLE,
            Self::NotFound => ErrorCode::NO_PROGRAM,
        }
    }
}

/// Why a command did not do what was asked, and what to type next.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// What happened, for programs, and the HTTP status that says the same.
    pub(crate) code: (&'static str, u16),
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            code: (exit.code().name, exit.code().status),
            message: message.into(),
            hint: None,
        }
    }

    /// An error that the API has too, with the exit code that says the same.
    pub(crate) fn of(code: ErrorCode, message: impl Into<String>) -> Self {
        let exit = Exit::ALL.into_iter().find(|exit| *exit as u8 == code.exit);
        let exit = exit.expect("every code has an exit code that is documented");
        Self {
            exit,
            code: (code.name, code.status),
            message: message.into(),
            hint: None,
        }
    }

    /// A part of the product that this binary was built without.
    pub(crate) fn not_built(part: &str, feature: &str) -> Self {
        Self::new(Exit::Config, format!("this build of relight has no {part}")).hint(format!(
            "build it with the feature `{feature}`, as is the default"
        ))
    }

    /// The one form of an error, as the API has it too.
    pub(crate) fn json(&self) -> serde_json::Value {
        let (code, status) = self.code;
        serde_json::json!({
            "code": code, "exit": self.exit as u8, "status": status,
            "message": self.message, "hint": self.hint,
        })
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// What every command returns: the exit code, or why not.
pub(crate) type Outcome = Result<u8, Failure>;

/// A file or folder of ours that the system does not give us.
pub(crate) fn cannot_use(path: &std::path::Path, error: &std::io::Error) -> Failure {
    let failure = Failure::new(Exit::Io, format!("cannot use {}: {error}", path.display()));
    if is_a_matter_of_rights(error) {
        failure.hint(A_HOME_OF_YOUR_OWN)
    } else {
        failure
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Refused::from(error).into()
    }
}

impl From<ActError> for Failure {
    fn from(error: ActError) -> Self {
        Refused::from(error).into()
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        ActError::from(refusal).into()
    }
}

impl From<Refused> for Failure {
    fn from(
        Refused {
            code,
            message,
            hint,
        }: Refused,
    ) -> Self {
        Self {
            hint,
            ..Self::of(code, message)
        }
    }
}

impl From<TooLarge> for Failure {
    fn from(error: TooLarge) -> Self {
        Refusal::TooLarge(error).into()
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        Refused::from(error).into()
    }
}
