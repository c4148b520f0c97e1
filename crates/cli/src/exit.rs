//! The exit codes of the contract, and the errors that lead to them.

use relight::engine::ActError;
use relight::sessions::SessionError;
use relight_core::decide::{Refusal, who_holds};
use relight_core::error_code::ErrorCode;
use relight_core::limits::TooLarge;
use relight_core::session::SessionRefusal;
use relight_core::status::TaskStatus;
use relight_store::StoreError;

use crate::output::shell_word;

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
            Self::Usage => ("usage", 400),
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
    code: (&'static str, u16),
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, code: exit.code(), message: message.into(), hint: None }
    }

    /// An error that the API has too, with the exit code that says the same.
    pub(crate) fn of(code: ErrorCode, message: impl Into<String>) -> Self {
        let exit = Exit::ALL.into_iter().find(|exit| *exit as u8 == code.exit);
        let exit = exit.expect("every code has an exit code that is documented");
        Self { exit, code: (code.name, code.status), message: message.into(), hint: None }
    }

    /// Nothing is begun while a drain lasts.
    pub(crate) fn draining(message: impl Into<String>) -> Self {
        Self::of(ErrorCode::DRAINING, message)
            .hint("later; relight drain --cancel lets work begin again")
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

/// An error with all its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

/// What helps where this user may not write.
pub(crate) const A_HOME_OF_YOUR_OWN: &str =
    "set RELIGHT_HOME or give --home DIR, a folder of your own";

/// A file or folder of ours that the system does not give us.
pub(crate) fn cannot_use(path: &std::path::Path, error: &std::io::Error) -> Failure {
    let failure = Failure::new(Exit::Io, format!("cannot use {}: {error}", path.display()));
    if is_a_matter_of_rights(error) { failure.hint(A_HOME_OF_YOUR_OWN) } else { failure }
}

/// Whether the system said that this user may not.
fn is_a_matter_of_rights(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        if kind == Some(std::io::ErrorKind::PermissionDenied) {
            return true;
        }
        cause = error.source();
    }
    false
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let failure = |exit| Self::new(exit, chain(&error));
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
            StoreError::Replaced { .. } => failure(Exit::Io).hint(
                "nothing was saved; move the files back, or restart what uses them (relight down, \
                 then relight up)",
            ),
            StoreError::HalfCopied { .. } => failure(Exit::Busy)
                .hint("wait until relight store copy is done; the same command goes on with it"),
            StoreError::Unreachable { .. } => failure(Exit::Unreachable),
            StoreError::Unsuitable { .. } => failure(Exit::Config),
        }
    }
}

impl From<ActError> for Failure {
    fn from(error: ActError) -> Self {
        let told = Self::of(error.code(), error.to_string());
        match error {
            ActError::Refused(refusal) => refusal.into(),
            ActError::NoSuchTask(task) => told.hint(format!(
                "relight task list shows all tasks; relight task add {} adds it",
                shell_word(task.as_str())
            )),
            ActError::Exists { task, .. } => {
                told.hint(format!("relight task show {}", shell_word(task.as_str())))
            }
            ActError::SecretName(_) | ActError::BadName(_) => told,
            ActError::Draining { .. } => Self::draining(told.message),
            ActError::Contended(_) => told.hint("try again"),
            ActError::Store(error) => error.into(),
        }
    }
}

impl From<TooLarge> for Failure {
    fn from(error: TooLarge) -> Self {
        Self::of(ErrorCode::OVER_LIMIT, error.to_string())
            .hint("write it to a file and give the file's name; nothing was stored")
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let told = Self::of(refusal.code(), refusal.to_string());
        match refusal {
            Refusal::TooLarge(error) => error.into(),
            Refusal::Illegal { task, from, .. } => told.hint(match from {
                TaskStatus::Created => {
                    format!("nobody has begun it; relight task start {} does", shell_word(task.as_str()))
                }
                TaskStatus::Failed => {
                    let task = shell_word(task.as_str());
                    format!("relight task retry {task} gives it to somebody again")
                }
                TaskStatus::Completed | TaskStatus::Cancelled => {
                    "it has ended; new work needs a new id".to_owned()
                }
                _ => format!(
                    "relight task states prints the table; relight task show {}",
                    shell_word(task.as_str())
                ),
            }),
            Refusal::Held { task, agent, held } => {
                let message = held_text(&task, agent.as_ref(), &held);
                let task = shell_word(task.as_str());
                let hint = format!("relight task release {task} --force takes it away");
                Self { message, ..told }.hint(hint)
            }
            Refusal::OtherAgent { task, starter, .. } => {
                let (task, starter) = (shell_word(task.as_str()), shell_word(starter.as_str()));
                told.hint(format!("relight task retry {task} --agent {starter} hands it over"))
            }
            Refusal::Fenced { ours, newest, .. } if ours == newest => told
                .hint("relight task start takes a new lease, where the task is not finished"),
            Refusal::Fenced { ours, newest, .. } if ours > newest => told
                .hint("correct --fence or RELIGHT_FENCE; relight task start prints the fence it takes"),
            Refusal::Fenced { .. } => told
                .hint("the task was taken away from this lease; stop working on it"),
            Refusal::RetriesUsedUp { task, .. } | Refusal::GivenUp { task } => {
                told.hint(format!("relight task retry {} --force", shell_word(task.as_str())))
            }
            Refusal::WaitsForPerson { task, .. } | Refusal::UsedUp { task, .. } => {
                told.hint(format!(
                    "relight task show {0} tells why; relight task retry {0} gives it out again, \
                     --force starts it now",
                    shell_word(task.as_str())
                ))
            }
            Refusal::StepRunning { .. } => told.hint("wait for it to end, then try again"),
            Refusal::StepNotBegun { step, .. } => {
                told.hint(format!("relight step begin {} first", shell_word(step.name.as_str())))
            }
            Refusal::StepsLeftOpen { task, steps } => told.hint(format!(
                "finish them, or relight step skip {1} --task {0} --reason TEXT; \
                 relight task done {0} --force completes it all the same",
                shell_word(task.as_str()),
                shell_word(steps.first().map_or("", |step| step.as_str())),
            )),
            Refusal::StepInDoubt { task, step } => told.hint(format!(
                "relight step end {1} --task {0}, or relight step resolve {1} --task {0} --happened (or --did-not)",
                shell_word(task.as_str()),
                shell_word(step.name.as_str())
            )),
            Refusal::NoSuchStep { task, .. } => {
                told.hint(format!("relight step list --task {}", shell_word(task.as_str())))
            }
            Refusal::NotBefore { .. }
            | Refusal::StepNotInDoubt { .. }
            | Refusal::StepFinished { .. }
            | Refusal::OtherInput { .. } => told,
        }
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Refused(refusal) => refusal.into(),
            SessionError::SecretName(_) => Self::of(ErrorCode::INVALID, error.to_string()),
            SessionError::Contended(_) => {
                Self::of(ErrorCode::CONTENDED, error.to_string()).hint("try again")
            }
            SessionError::Store(error) => error.into(),
        }
    }
}

impl From<SessionRefusal> for Failure {
    fn from(refusal: SessionRefusal) -> Self {
        let told = Self::of(refusal.code(), refusal.to_string());
        match refusal {
            SessionRefusal::TooLarge(error) => error.into(),
            SessionRefusal::Unknown(_) => told.hint("relight session list shows all sessions"),
            SessionRefusal::Held { key, .. } => told.hint(format!(
                "wait for its end; relight session suspend {} takes the turn away",
                shell_word(key.as_str())
            )),
            SessionRefusal::Fenced { key, .. } => told.hint(format!(
                "nothing was changed; relight session show {}",
                shell_word(key.as_str())
            )),
            SessionRefusal::Suspended { key, .. } => told
                .hint(format!("relight session resume {} lets it go on", shell_word(key.as_str()))),
            SessionRefusal::BadOwner(_)
            | SessionRefusal::NothingToResume { .. }
            | SessionRefusal::Older { .. } => told,
        }
    }
}

/// Who has it, for how long, and when that ends.
pub(crate) fn held_text(
    task: &relight_core::ids::TaskId,
    agent: Option<&relight_core::ids::AgentName>,
    held: &relight_core::lease::Held,
) -> String {
    let age = relight::doors::clock::now().since(held.since);
    let left = match held.left {
        Some(left) => format!("; its lease ends in {left}"),
        None => String::new(),
    };
    format!("task {task} is held by {} for {age}{left}", who_holds(held, agent))
}
