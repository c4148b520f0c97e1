//! The exit codes of the contract, and the errors that lead to them.

use relight_core::decide::{Refusal, who_holds};
use relight_core::error_code::{ErrorCode, Refused, with_causes};
use relight_core::limits::TooLarge;
use relight_runtime::engine::{ActError, WorkflowError};
use relight_runtime::sessions::SessionError;
use relight_store::StoreError;

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
        match self {
            Self::No => "the answer is no: nothing to resume, stale work found, not allowed now",
            Self::Usage => "wrong usage",
            Self::Data => "damaged or invalid data",
            Self::Unreachable => "the store, the daemon or the scheduler cannot be reached",
            Self::Bug => "a bug in Relight",
            Self::FileCopy => "saved in the store, but its file copy could not be written",
            Self::Io => "an I/O error; nothing was acknowledged",
            Self::Busy => "held by someone else, in doubt, or try later",
            Self::Fenced => "fenced: the caller's lease is no longer valid",
            Self::Config => "bad configuration",
            Self::NotExecutable => "the program of a command may not be executed",
            Self::NotFound => "there is no program of that name",
        }
    }

    /// What it is for programs where nothing says it better: its name, and the HTTP status.
    fn code(self) -> (&'static str, u16) {
        match self {
            Self::No => ("conflict", 409),
            Self::Usage => (ErrorCode::INVALID.name, ErrorCode::INVALID.status),
            Self::Data => ("invalid_data", 422),
            Self::Unreachable => ("unreachable", 503),
            Self::Bug => ("internal", 500),
            Self::FileCopy => ("file_copy", 500),
            Self::Io => ("io", 503),
            Self::Busy => ("busy", 409),
            Self::Fenced => ("fenced", 409),
            Self::Config => ("config", 500),
            Self::NotExecutable => ("not_executable", 422),
            Self::NotFound => ("no_program", 422),
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
            code: exit.code(),
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

/// What helps where this user may not write.
pub(crate) const A_HOME_OF_YOUR_OWN: &str =
    "set RELIGHT_HOME or give --home DIR, a folder of your own";

/// A file or folder of ours that the system does not give us.
pub(crate) fn cannot_use(path: &std::path::Path, error: &std::io::Error) -> Failure {
    let failure = Failure::new(Exit::Io, format!("cannot use {}: {error}", path.display()));
    if is_a_matter_of_rights(error) {
        failure.hint(A_HOME_OF_YOUR_OWN)
    } else {
        failure
    }
}

/// Whether the system said that this user may not.
fn is_a_matter_of_rights(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let kind = error
            .downcast_ref::<std::io::Error>()
            .map(std::io::Error::kind);
        if kind == Some(std::io::ErrorKind::PermissionDenied) {
            return true;
        }
        cause = error.source();
    }
    false
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let failure = |exit| Self::new(exit, with_causes(&error));
        match &error {
            StoreError::Io { source, .. } if is_a_matter_of_rights(source.as_ref()) => {
                failure(Exit::Io).hint(A_HOME_OF_YOUR_OWN)
            }
            StoreError::Io { .. } => failure(Exit::Io)
                .hint("nothing was saved; make room or mend the folder, then try again"),
            StoreError::Damaged { .. } => failure(Exit::Data)
                .hint("relight doctor --salvage copies what can be read into a new store"),
            StoreError::Newer { .. } => {
                failure(Exit::Data).hint("use the version of relight that wrote it, or a later one")
            }
            StoreError::Busy { .. } => failure(Exit::Busy).hint("try again"),
            StoreError::Replaced { .. } => failure(Exit::Io).hint(StoreError::REPLACED_HINT),
            StoreError::HalfCopied { .. } => failure(Exit::Busy)
                .hint("wait until relight store copy is done; the same command goes on with it"),
            StoreError::Unreachable { .. } => failure(Exit::Unreachable),
            StoreError::Unsuitable { .. } => failure(Exit::Config),
        }
    }
}

impl From<ActError> for Failure {
    fn from(error: ActError) -> Self {
        let message = match error {
            ActError::Store(error) => return error.into(),
            ActError::Refused(Refusal::Held {
                ref task,
                ref agent,
                ref held,
            })
            | ActError::Workflow(WorkflowError::Held {
                ref task,
                ref agent,
                ref held,
            }) => held_text(task, agent.as_ref(), held),
            ref error => error.to_string(),
        };
        Self {
            hint: error.hint(),
            ..Self::of(error.code(), message)
        }
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
        match error {
            SessionError::Store(error) => error.into(),
            error => Self {
                hint: error.hint(),
                ..Self::of(error.code(), error.to_string())
            },
        }
    }
}

/// Who has it, for how long, and when that ends.
pub(crate) fn held_text(
    task: &relight_core::ids::TaskId,
    agent: Option<&relight_core::ids::AgentName>,
    held: &relight_core::lease::HeldLease,
) -> String {
    let age = relight_runtime::os::clock::now().since(held.since);
    let left = match held.left {
        Some(left) => format!("; its lease ends in {left}"),
        None => String::new(),
    };
    format!(
        "task {task} is held by {} for {age}{left}",
        who_holds(held, agent)
    )
}
