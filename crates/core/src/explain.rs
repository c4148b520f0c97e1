//! Every word that Relight prints about what happened, in one table: exit codes, error codes, events,
//! causes of death, states, alerts. Each with what to do about it.

use serde::Serialize;

use crate::agent::death::signal_name;
use crate::error_code::ErrorCode;

/// What a word is a name of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Vocabulary {
    /// The exit code of a command.
    ExitCode,
    /// The `code` of an error in JSON.
    ErrorCode,
    /// The status of a task.
    TaskStatus,
    /// The state of a step.
    StepState,
    /// The repeat rule of a step.
    RepeatRule,
    /// The state of an agent.
    AgentState,
    /// Whether the record of an agent is true.
    Truth,
    /// The cause of an attempt's death.
    DeathCause,
    /// The state of a session.
    SessionState,
    /// The kind of an alert.
    Alert,
    /// The kind of an event.
    Event,
    /// A word that the messages of Relight use.
    Term,
}

impl Vocabulary {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Self; 12] = [
        Self::ExitCode,
        Self::ErrorCode,
        Self::TaskStatus,
        Self::StepState,
        Self::RepeatRule,
        Self::AgentState,
        Self::Truth,
        Self::DeathCause,
        Self::SessionState,
        Self::Alert,
        Self::Event,
        Self::Term,
    ];

    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ExitCode => "exit code",
            Self::ErrorCode => "error code",
            Self::TaskStatus => "task status",
            Self::StepState => "step state",
            Self::RepeatRule => "repeat rule",
            Self::AgentState => "agent state",
            Self::Truth => "truth of an agent",
            Self::DeathCause => "cause of death",
            Self::SessionState => "session state",
            Self::Alert => "alert",
            Self::Event => "event",
            Self::Term => "term",
        }
    }
}

/// One word, what it means, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// What the word is a name of.
    pub kind: Vocabulary,
    /// The word as it is printed.
    pub word: String,
    /// What it means.
    pub meaning: String,
    /// What to do; none where nothing has to be done.
    pub action: Option<String>,
    /// The exit code of an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<u8>,
    /// The HTTP status of an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// What a word means, in each vocabulary that has it. A number is an exit code; a kind of event is also
/// found by the words after its dot.
pub fn explain(word: &str) -> Vec<Explanation> {
    let word = word.trim();
    let found: Vec<_> = all().into_iter().filter(|it| it.word == word).collect();
    if !found.is_empty() {
        return found;
    }
    if let Some(signal) = word.parse::<u8>().ok().and_then(signal_of) {
        return vec![signal];
    }
    let is_loose = |it: &Explanation| {
        let plain = |text: &str| text.to_lowercase().replace(['-', ' ', '.'], "_");
        let after_dot = it.word.split_once('.').map(|(_, after)| after);
        plain(&it.word) == plain(word) || after_dot == Some(word)
    };
    all().into_iter().filter(is_loose).collect()
}

/// Every word, by vocabulary.
pub fn all() -> Vec<Explanation> {
    let of_table = TABLE
        .iter()
        .map(|(kind, word, meaning, action)| Explanation {
            kind: *kind,
            word: (*word).to_owned(),
            meaning: (*meaning).to_owned(),
            action: (!action.is_empty()).then(|| (*action).to_owned()),
            exit: None,
            status: None,
        });
    let mut all: Vec<Explanation> = of_table.chain(ErrorCode::ALL.iter().map(of_code)).collect();
    all.sort_by_key(|it| it.kind);
    all
}

/// The meaning of an exit code, for the manual and the reference.
pub fn exit_code(code: u8) -> Option<&'static str> {
    let code = code.to_string();
    let row = TABLE
        .iter()
        .find(|(kind, word, ..)| *kind == Vocabulary::ExitCode && *word == code);
    row.map(|(_, _, meaning, _)| *meaning)
}

fn of_code(code: &ErrorCode) -> Explanation {
    let exit = code.exit.to_string();
    let of_exit = TABLE
        .iter()
        .find(|(kind, word, ..)| *kind == Vocabulary::ExitCode && *word == exit);
    let action = code_action(code).or(of_exit.map(|(.., action)| *action));
    Explanation {
        kind: Vocabulary::ErrorCode,
        word: code.name.to_owned(),
        meaning: code.meaning().to_owned(),
        action: action.filter(|text| !text.is_empty()).map(str::to_owned),
        exit: Some(code.exit),
        status: Some(code.status),
    }
}

/// What to do about an error, where its exit code says too little.
fn code_action(code: &ErrorCode) -> Option<&'static str> {
    Some(match *code {
        ErrorCode::HELD => "wait, or take it away: relight task release ID --force",
        ErrorCode::FENCED | ErrorCode::NOT_HELD => {
            "stop working on it: another holder has it; relight task show ID says who"
        }
        ErrorCode::ILLEGAL => "relight task states prints what may follow what",
        ErrorCode::CONFLICT => "compare with what is there: relight task show ID",
        ErrorCode::CONTENDED => "try again",
        ErrorCode::FULL => "try again later, or finish a task that this agent holds first",
        ErrorCode::NOT_FOUND => {
            "relight task list, relight ps and relight session list show what there is"
        }
        ErrorCode::NOTHING => "nothing; there is no work of this kind now",
        ErrorCode::OVER_LIMIT | ErrorCode::TOO_LARGE => {
            "write the text to a file and store the file's name"
        }
        ErrorCode::ENDED => "new work needs a new id",
        ErrorCode::WAITS_FOR_PERSON => {
            "relight task show ID says why; relight task retry ID continues it"
        }
        ErrorCode::USED_UP => "relight task retry ID --force allows one more",
        ErrorCode::STEPS_LEFT_OPEN => "finish the steps, or relight step skip NAME --reason TEXT",
        ErrorCode::IN_DOUBT | ErrorCode::NOT_REPEATED => {
            "find out whether it happened, then: relight step resolve NAME --happened (or --did-not)"
        }
        ErrorCode::NOT_SUPERVISED => "relight up, or the agent's relight run, supervises it again",
        ErrorCode::DRAINING => "relight drain --cancel ends the drain",
        ErrorCode::ENDING => "wait, then relight up",
        ErrorCode::UNAUTHORIZED => {
            "send Authorization: Bearer with the token of relight token show"
        }
        ErrorCode::FORBIDDEN => "use a token with more rights: relight token new --operate",
        ErrorCode::OTHER_VERSION => {
            "use the same version on both sides: relight down, then relight up"
        }
        ErrorCode::RATE_LIMITED => "wait a minute, and check the token",
        _ => return None,
    })
}

/// 128 and the number of a signal, as a shell and `relight run` say it.
fn signal_of(code: u8) -> Option<Explanation> {
    let number = code
        .checked_sub(128)
        .filter(|number| (1..=64).contains(number))?;
    let name = signal_name(i32::from(number));
    Some(Explanation {
        kind: Vocabulary::ExitCode,
        word: code.to_string(),
        meaning: format!(
            "the command of relight run or relight step run ended by signal {number}{}, or Relight itself did",
            if name == "other" {
                String::new()
            } else {
                format!(" (SIG{name})")
            }
        ),
        action: Some("relight deaths NAME shows how an agent ended".to_owned()),
        exit: None,
        status: None,
    })
}

use Vocabulary::{
    AgentState, Alert, DeathCause, Event, ExitCode, RepeatRule, SessionState, StepState,
    TaskStatus, Term, Truth,
};

/// Kind, word, meaning, what to do.
type Row = (Vocabulary, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const TABLE: &[Row] = &[
    (ExitCode, "0", "done", ""),
    (ExitCode, "1", "the answer is negative: nothing to resume, stale work found, not allowed now", "the message says what to type next"),
    (ExitCode, "2", "wrong usage", "relight help COMMAND shows the flags and an example"),
    (ExitCode, "65", "damaged or invalid data", "relight doctor says what is damaged; relight doctor --salvage FILE copies what can be read"),
    (ExitCode, "69", "the store, the daemon or the scheduler cannot be reached", "relight status says what runs; relight up -d starts the daemon"),
    (ExitCode, "70", "a bug in Relight", "report it with the command and the text on standard error; nothing on disk was lost"),
    (ExitCode, "73", "saved in the store, but its file copy could not be written", "make the folder writable; the next update writes the file again"),
    (ExitCode, "74", "an I/O error; nothing was acknowledged", "free space or repair the folder, then run the same command again"),
    (ExitCode, "75", "held by someone else, in doubt, or try later", "the message names the holder; relight inflight lists what is held and in doubt"),
    (ExitCode, "77", "fenced: the caller's lease is no longer valid", "stop working on it: another holder has it"),
    (ExitCode, "78", "bad configuration", "correct what the message names; relight doctor checks the rest"),
    (ExitCode, "124", "relight run or relight step run ended the command: its --timeout was over", "raise --timeout, or find out what it waited for: relight logs NAME"),
    (ExitCode, "126", "the program of a command may not be executed", "chmod +x FILE, or name its interpreter"),
    (ExitCode, "127", "there is no program of that name", "check the spelling and PATH"),

    (TaskStatus, "created", "waits in the queue for any agent", "an agent takes it with relight task claim"),
    (TaskStatus, "assigned", "waits for its agent", "relight ps shows whether that agent runs"),
    (TaskStatus, "in_progress", "being worked on", ""),
    (TaskStatus, "in_review", "done, waits for a review", "relight task done ID accepts it"),
    (TaskStatus, "blocked", "cannot continue before a person acts", "relight task show ID says why; relight task retry ID continues it"),
    (TaskStatus, "deferred", "continues at a set time", ""),
    (TaskStatus, "interrupted", "its holder died or was stopped", "relight recover resumes it; under relight up that happens by itself"),
    (TaskStatus, "suspended", "a person or a limit paused it", "relight task retry ID continues it"),
    (TaskStatus, "failed", "failed; may be assigned again while retries are left", "relight task show ID says why; relight task retry ID"),
    (TaskStatus, "completed", "finished (terminal)", ""),
    (TaskStatus, "cancelled", "cancelled by a person (terminal)", ""),

    (StepState, "begun", "began and has not ended; in doubt if nobody runs it", "relight inflight says what happens next"),
    (StepState, "done", "finished; never run again", ""),
    (StepState, "failed", "its last try failed, or a person recorded that it did not happen", "the next relight step run tries it again"),
    (StepState, "skipped", "closed on purpose without being done", ""),

    (RepeatRule, "keyed", "a step in doubt is run again with the same idempotency key", "pass RELIGHT_IDEMPOTENCY_KEY on to the receiver"),
    (RepeatRule, "repeatable", "a step in doubt is run again", ""),
    (RepeatRule, "verify", "a step in doubt is checked by its --verify command first", ""),
    (RepeatRule, "once", "a step in doubt is never run again by itself", "find out, then: relight step resolve NAME --happened (or --did-not)"),

    (AgentState, "created", "never started", "relight start NAME"),
    (AgentState, "running", "an attempt runs or is about to start", ""),
    (AgentState, "crashed", "its attempt died", "it is restarted by itself unless relight ps says otherwise; relight deaths NAME says why"),
    (AgentState, "suspended", "paused by a person or a limit", "relight ps NAME says until when; relight start NAME continues it now"),
    (AgentState, "stopped", "it ended or was stopped, and is not restarted by itself", "relight start NAME"),
    (AgentState, "terminated", "its restart budget is used up; only a person restarts it", "relight deaths NAME says why it died; then relight start NAME"),

    (Truth, "as_recorded", "the agent is what its record says", ""),
    (Truth, "orphaned", "it is alive and its supervisor is not: nobody would restart it", "relight up, or its relight run, adopts it; relight stop NAME ends it"),
    (Truth, "died_unnoticed", "it died, and no supervisor recorded it", "relight up restarts it; relight recover records the death"),
    (Truth, "not_recorded", "it has ended, and its supervisor has not recorded that yet", "relight doctor says whether the store can be written"),
    (Truth, "forgotten", "it waits for a time, and no supervisor would restart it then", "relight up, or its relight run, supervises it again"),
    (Truth, "unheard", "it reports itself, and no daemon listens", "relight up -d starts the daemon"),

    (DeathCause, "completed", "it succeeded", ""),
    (DeathCause, "failed", "it exited with a non-zero code, could not be started, or left its task unfinished", "relight logs NAME"),
    (DeathCause, "signal", "a signal that Relight did not send ended it", "relight deaths NAME names the signal"),
    (DeathCause, "oom", "the kernel killed it for lack of memory", "give it more memory, or run fewer agents at once"),
    (DeathCause, "hung", "it gave no sign of life for silence_max and was stopped", "let it call relight beat, or raise silence_max"),
    (DeathCause, "timeout", "it exceeded its time limit and was stopped", "raise its timeout"),
    (DeathCause, "stopped", "it was stopped on request", "relight start NAME starts it again"),
    (DeathCause, "lost", "it is gone and how it ended is unknown, as after a power cut", ""),
    (DeathCause, "deferred", "it asked to be resumed later (exit code 75, or a limit that its preset recognised)", ""),

    (SessionState, "idle", "no turn is open or pending", ""),
    (SessionState, "active", "a turn is in flight", ""),
    (SessionState, "resume_pending", "a turn was cut off and should be resumed", "the gateway resumes it: relight session resume KEY"),
    (SessionState, "suspended", "it waits for a person", "relight session resume KEY allows new turns"),
    (SessionState, "expired", "it was not resumed in time", "begin a new turn: relight session begin KEY"),

    (Alert, "terminated", "an agent used up its restart budget", "relight deaths NAME, then relight start NAME"),
    (Alert, "given_up", "a task failed and no retries are left", "relight task retry ID --force, or relight task cancel ID"),
    (Alert, "parked", "a task that killed its holders is parked; others continue", "relight task show ID, then relight recover ID --resume"),
    (Alert, "suspended", "something waits for a person because its strategy or policy says so", "the alert names it and what to type"),
    (Alert, "blocked", "a task waits until a person acts or resolves a step in doubt", "relight inflight shows the step"),
    (Alert, "silent", "an agent that reports its own heartbeats was silent for too long", "look at the agent; relight ps NAME"),
    (Alert, "stale", "unfinished work had no activity for too long", "relight check lists it"),
    (Alert, "boot_loop", "the machine went down repeatedly soon after work was resumed; nothing is resumed now", "find the cause, then: relight up --resume-anyway"),
    (Alert, "undelivered", "alerts could not be delivered", "relight alerts test shows why"),
    (Alert, "test", "a test of the delivery", ""),

    (Event, "step.begun", "a step began", ""),
    (Event, "step.done", "a step finished", ""),
    (Event, "step.failed", "a try of a step failed", "relight step show NAME --task ID"),
    (Event, "step.resolved", "a person recorded whether a step in doubt happened", ""),
    (Event, "step.skipped", "a step was closed on purpose without being done", ""),
    (Event, "step.cleared", "all steps were set aside to start over", ""),
    (Event, "step.parked", "a step died with its supervisor repeatedly; its task is blocked", "relight task show ID, then relight recover ID --resume"),
    (Event, "task.created", "a task was added", ""),
    (Event, "task.status", "a task's status changed", ""),
    (Event, "task.assigned", "a task was assigned to an agent, pinned or unpinned", ""),
    (Event, "task.context", "context was set by relight task set", ""),
    (Event, "task.changed", "a task's request was changed", ""),
    (Event, "task.recovery", "a strategy decided about a task whose holder died, or that failed", ""),
    (Event, "task.budget", "the usage of a task's budgets changed", ""),
    (Event, "task.forgotten", "relight prune removed a task", ""),
    (Event, "lease.taken", "a lease was taken", ""),
    (Event, "lease.ended", "a lease ended", ""),
    (Event, "fence.raised", "a person ended a lease", ""),
    (Event, "checkpoint.damaged", "a damaged file copy was set aside and written again from the store", "relight checkpoint verify checks the others"),
    (Event, "checkpoint.imported", "a file of another store was imported", ""),
    (Event, "agent.created", "an agent was seen for the first time", ""),
    (Event, "agent.changed", "an agent's configuration changed, or relight prune removed it", ""),
    (Event, "agent.state", "an agent's state changed", ""),
    (Event, "agent.budget", "an agent that works on no task used something", ""),
    (Event, "agent.session", "an agent's own session got an id, lost it, or its transcript was repaired", ""),
    (Event, "agent.iteration", "a round of a loop ended", ""),
    (Event, "agent.taken", "a supervisor acquired an agent", ""),
    (Event, "agent.left", "a supervisor released an agent", ""),
    (Event, "agent.wish", "another node sent a command to an agent's supervisor, or got the answer", ""),
    (Event, "attempt.begun", "an attempt began", ""),
    (Event, "attempt.started", "an attempt's process was started", ""),
    (Event, "attempt.died", "an attempt ended", "relight deaths NAME"),
    (Event, "alert", "an alert is sent", "relight alerts list"),
    (Event, "recovered", "orphaned work was recovered, or the store was restored from a backup", ""),
    (Event, "boot.loop", "the machine went down repeatedly soon after work was resumed; nothing is resumed in this boot", "find the cause, then: relight up --resume-anyway"),
    (Event, "session.begun", "a turn of a session began", ""),
    (Event, "session.ended", "a turn of a session ended", ""),
    (Event, "session.state", "a session's state changed in another way", ""),
    (Event, "drain", "a drain began or ended", ""),
    (Event, "audit", "the daemon refused access", "relight token list shows who may come in"),
    (Event, "node", "a node joined a fleet, left it or was drained", ""),
    (Event, "unknown", "an event that this version cannot read: a newer one wrote it, or it is damaged", ""),

    (Term, "attempt", "one run of an agent's program, from its start to its end; each restart is a new one", "relight deaths NAME lists those that ended"),
    (Term, "brief", "what the next attempt is told about the one before: how it ended, what is done and what is in doubt", ""),
    (Term, "cost", "what an agent spent, as its output or --cost tells it; without either it is 0", "spend_max and tokens_max limit it, [budget] for all agents together"),
    (Term, "drain", "nothing new is begun, and what runs may finish", "relight drain --cancel ends it"),
    (Term, "fence", "the number of a lease; a write with an older one is refused", ""),
    (Term, "holder", "the process, attempt or time lease that has a task; its death lets others take the task", "relight inflight lists who holds what"),
    (Term, "home", "the folder in which Relight keeps its state", "relight status shows it"),
    (Term, "lease", "the right to work on a task; it ends with its holder or after its time", "relight inflight lists who holds what"),
    (Term, "owner", "the process, attempt or time lease that has a session's turn", "relight session show KEY"),
    (Term, "pool", "the agents NAME-1 to NAME-N of one entry in relight.toml (concurrency = N)", ""),
    (Term, "preset", "what Relight knows about one agent program: how to start, resume, read and stop it", "relight presets list; relight run --preset NAME"),
    (Term, "project", "a folder with a relight.toml, and a home of its own", "relight project list"),
    (Term, "queue", "the tasks that wait for an agent", "relight task list --status created"),
    (Term, "recovery", "what becomes of a task whose holder died: its strategy decides", "relight recover --dry-run shows what it would decide"),
    (Term, "resume", "to continue an interrupted task after its last finished step; also the strategy that does so", "relight recover, or relight up, resumes what is left"),
    (Term, "shim", "the small process beside each agent; it survives the supervisor and records how the agent ends", ""),
    (Term, "skill", "a word that a task requires (--skill) and an agent offers (skills in relight.toml)", ""),
    (Term, "strategy", "the rule that decides about a task whose holder died", "[recovery] strategy in relight.toml, or relight task add --strategy"),
    (Term, "supervisor", "the process that restarts an agent: the daemon of relight up, or a relight run", "relight ps -v shows it"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::agent::AgentStateKind;
    use crate::agent::death::Cause;
    use crate::alert::AlertKind;
    use crate::event::EventKind;
    use crate::session::SessionStateKind;
    use crate::status;
    use crate::step;

    #[test]
    fn every_word_of_every_vocabulary_is_explained_once() {
        let words = |kind| -> Vec<String> {
            let of_kind = all().into_iter().filter(|it| it.kind == kind);
            of_kind.map(|it| it.word).collect()
        };
        let same = |kind, known: Vec<&str>| {
            let found = words(kind);
            let unique: BTreeSet<&str> = found.iter().map(String::as_str).collect();
            assert_eq!(unique, known.into_iter().collect(), "{kind:?}");
            assert_eq!(unique.len(), found.len(), "{kind:?}");
        };
        let statuses = status::TaskStatus::ALL.map(status::TaskStatus::as_str);
        same(TaskStatus, statuses.to_vec());
        same(
            AgentState,
            AgentStateKind::ALL.map(AgentStateKind::as_str).to_vec(),
        );
        same(DeathCause, Cause::ALL.map(Cause::as_str).to_vec());
        same(
            SessionState,
            SessionStateKind::ALL.map(SessionStateKind::as_str).to_vec(),
        );
        same(Alert, AlertKind::ALL.map(AlertKind::as_str).to_vec());
        same(
            RepeatRule,
            step::RepeatRule::ALL.map(step::RepeatRule::as_str).to_vec(),
        );
        let states = [
            step::StepState::Begun,
            step::StepState::Done,
            step::StepState::Failed,
            step::StepState::Skipped,
        ];
        same(StepState, states.map(step::StepState::as_str).to_vec());
        let mut events: Vec<&str> = EventKind::ALL.map(EventKind::as_str).to_vec();
        events.push(EventKind::Unknown.as_str());
        same(Event, events);
    }

    #[test]
    fn every_error_leads_to_an_exit_code_that_is_explained() {
        for code in ErrorCode::ALL {
            assert!(exit_code(code.exit).is_some(), "{code:?}");
            assert!(!code.meaning().is_empty(), "{code:?}");
        }
    }

    #[test]
    fn a_word_is_found_as_people_type_it() {
        let kinds = |word: &str| -> Vec<Vocabulary> {
            explain(word).into_iter().map(|it| it.kind).collect()
        };
        assert_eq!(kinds("75"), [ExitCode]);
        assert_eq!(kinds("137"), [ExitCode]);
        assert!(explain("137")[0].meaning.contains("SIGKILL"));
        assert_eq!(kinds("failed"), [TaskStatus, StepState, DeathCause]);
        assert_eq!(kinds("In-Progress"), [TaskStatus]);
        assert_eq!(kinds("died"), [Event]);
        assert_eq!(kinds("died unnoticed"), [Truth]);
        assert_eq!(kinds("attempt.died"), [Event]);
        assert_eq!(kinds("resume"), [Term]);
        assert_eq!(kinds("cost"), [Term]);
        assert_eq!(kinds("fenced"), [Vocabulary::ErrorCode]);
        assert_eq!(kinds("in_doubt").len(), 2);
        assert_eq!(kinds("200"), []);
        assert_eq!(kinds("nonsense"), []);
    }
}
