//! Names for completion scripts: which noun the cursor stands at is read from the flags themselves, and
//! names of tasks, steps, agents and sessions from the store.
//!
//! A completion reports no error and creates nothing: what cannot be read has no names.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::{Arg, ArgAction, Command, CommandFactory};
use relight_core::agent::AgentStateKind;
use relight_core::event::EventKind;
use relight_core::explain;
use relight_core::ids::{AgentName, SessionKey, StepName, TaskId};
use relight_core::status::TaskStatus;
use relight_runtime::presets::Preset;
use relight_runtime::store_url::StoreUrl;
use relight_store::sqlite::Use;
use relight_store::{AgentQuery, SessionQuery, Store, StoreError, TaskQuery};

use crate::arguments::agent::ListedState;
use crate::arguments::{Cli, Global};
use crate::block_on;
use crate::environment::Environment;

/// What is known of a command line up to the cursor.
struct TypedLine<'w> {
    /// What the word at the cursor is a value of.
    noun: Option<Noun>,
    /// The word's beginning before that value, such as `--task=`.
    flag: &'w str,
    /// What is typed of the value.
    typed: &'w str,
    home: Option<&'w str>,
    store: Option<&'w str>,
    project: Option<&'w str>,
    task: Option<&'w str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Noun {
    Agent,
    AgentState,
    TaskStatus,
    EventKind,
    Task,
    Step,
    Session,
    /// A word that `relight explain` knows.
    Word,
    Preset,
    Project,
}

/// The words that may stand for the last one of these.
pub(super) fn candidates(words: &[OsString]) -> Vec<String> {
    let words: Vec<&str> = words
        .iter()
        .map(|word| word.to_str().unwrap_or_default())
        .collect();
    let mut command = Cli::command();
    command.build();
    let line = TypedLine::read(&command, &words);
    let Some(noun) = line.noun else {
        return Vec::new();
    };
    let environment = Environment::read(&Global {
        home: line.home.map(Into::into),
        store: line.store.map(Into::into),
        project: line.project.map(Into::into),
        json: false,
        quiet: true,
        verbose: 0,
    });
    let names = match noun {
        Noun::Preset => Preset::names(environment.presets_folder().as_deref()),
        Noun::Project => environment.project_names(),
        Noun::AgentState => {
            let states = AgentStateKind::ALL.map(|state| state.to_string());
            states.into_iter().chain(["idle".to_owned()]).collect()
        }
        Noun::TaskStatus => TaskStatus::ALL.map(|status| status.to_string()).to_vec(),
        Noun::EventKind => EventKind::ALL.map(|kind| kind.as_str().to_owned()).to_vec(),
        Noun::Word => {
            let words: BTreeSet<String> = explain::all().into_iter().map(|it| it.word).collect();
            words.into_iter().collect()
        }
        Noun::Agent | Noun::Task | Noun::Step | Noun::Session => {
            of_store(&environment, noun, &line).unwrap_or_default()
        }
    };
    // A name with a space would be completed as two words.
    let fitting = names
        .iter()
        .filter(|name| name.starts_with(line.typed) && !name.contains(char::is_whitespace));
    fitting.map(|name| format!("{}{name}", line.flag)).collect()
}

/// The options that take such a name, in any command.
pub(super) fn options(command: &Command) -> BTreeSet<String> {
    let own = command
        .get_arguments()
        .filter(|arg| noun(command, arg).is_some());
    let own = own.filter_map(|arg| arg.get_long().map(str::to_owned));
    own.chain(command.get_subcommands().flat_map(options))
        .collect()
}

impl<'w> TypedLine<'w> {
    fn read(root: &Command, words: &[&'w str]) -> Self {
        let mut line = TypedLine {
            noun: None,
            flag: "",
            typed: "",
            home: None,
            store: None,
            project: None,
            task: None,
        };
        let Some((typed, before)) = words.split_last() else {
            return line;
        };
        let (mut command, mut pending, mut position) = (root, None::<&Arg>, 1);
        for word in before.iter().skip(1) {
            if let Some(arg) = pending.take() {
                line.keep(arg, word);
            } else if *word == "--" {
                // What follows is the command line of another program.
                return line;
            } else if let Some((arg, value)) = flag(command, word) {
                match value {
                    Some(value) => line.keep(arg, value),
                    None => pending = Some(arg).filter(|arg| takes_value(arg)),
                }
            } else if let Some(below) = command.find_subcommand(word) {
                (command, position) = (below, 1);
            } else if !word.starts_with('-') {
                position += 1;
            }
        }
        line.typed = typed;
        let arg = match (pending, flag(command, typed)) {
            (Some(arg), _) => Some(arg),
            (None, Some((arg, Some(value)))) => {
                (line.flag, line.typed) = typed.split_at(typed.len() - value.len());
                Some(arg)
            }
            (None, _) if typed.starts_with('-') => None,
            (None, _) => positional(command, position),
        };
        line.noun = arg.and_then(|arg| noun(command, arg));
        line
    }

    fn keep(&mut self, arg: &Arg, value: &'w str) {
        match arg.get_id().as_str() {
            "home" => self.home = Some(value),
            "store" => self.store = Some(value),
            "project" => self.project = Some(value),
            "task" => self.task = Some(value),
            _ => {}
        }
    }
}

/// The option that a word names, and its value if that is part of the word.
fn flag<'c, 'w>(command: &'c Command, word: &'w str) -> Option<(&'c Arg, Option<&'w str>)> {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    };
    let is_named = |arg: &&Arg| match name.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => name
            .strip_prefix('-')
            .is_some_and(|it| it.chars().last() == arg.get_short()),
    };
    command
        .get_arguments()
        .find(is_named)
        .map(|arg| (arg, value))
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

/// The argument at this position, from 1; the last one if that takes several.
fn positional(command: &Command, position: usize) -> Option<&Arg> {
    let mut arguments = command.get_positionals().filter(|arg| !arg.is_last_set());
    let at = |arg: &&Arg| {
        let is_several = arg
            .get_num_args()
            .is_some_and(|count| count.max_values() > 1);
        arg.get_index() == Some(position) || is_several && arg.get_index() < Some(position)
    };
    arguments.find(at)
}

fn noun(command: &Command, arg: &Arg) -> Option<Noun> {
    let parsed_as = arg.get_value_parser().type_id();
    let is_of = |verb: &str| {
        command
            .get_bin_name()
            .is_some_and(|name| name.contains(verb))
    };
    let is_named_project = arg.get_id() == "project" && arg.get_action().takes_values();
    if parsed_as == TypeId::of::<TaskId>() {
        Some(Noun::Task)
    } else if parsed_as == TypeId::of::<AgentName>() {
        Some(Noun::Agent)
    } else if parsed_as == TypeId::of::<ListedState>() {
        Some(Noun::AgentState)
    } else if parsed_as == TypeId::of::<TaskStatus>() {
        Some(Noun::TaskStatus)
    } else if parsed_as == TypeId::of::<EventKind>() {
        Some(Noun::EventKind)
    } else if parsed_as == TypeId::of::<StepName>() {
        Some(Noun::Step)
    } else if parsed_as == TypeId::of::<SessionKey>() {
        Some(Noun::Session)
    } else if arg.is_positional() && is_of(" explain") {
        Some(Noun::Word)
    } else if is_named_project || arg.is_positional() && is_of(" project ") {
        Some(Noun::Project)
    } else {
        (is_of(" presets ") || arg.get_id() == "preset").then_some(Noun::Preset)
    }
}

fn of_store(environment: &Environment, noun: Noun, line: &TypedLine<'_>) -> Option<Vec<String>> {
    if let Ok(StoreUrl::Sqlite(file)) = environment.store_url()
        && !file.exists()
    {
        return None;
    }
    let store = environment.open_store(Use::Short).ok()?;
    let names: Result<_, StoreError> = block_on(async {
        match noun {
            Noun::Agent => {
                let agents = store.agents(AgentQuery::default()).await?;
                return Ok(agents.iter().map(|agent| agent.name.to_string()).collect());
            }
            Noun::Session => {
                let sessions = store.sessions(SessionQuery::default()).await?;
                return Ok(sessions.iter().map(|it| it.key.to_string()).collect());
            }
            Noun::Step => {
                let of_attempt = environment.get("RELIGHT_TASK");
                return steps(store.as_ref(), line.task.or(of_attempt)).await;
            }
            _ => {}
        }
        let (ended, open): (Vec<_>, Vec<_>) = TaskStatus::ALL
            .into_iter()
            .partition(|status| status.is_terminal());
        let names = tasks(store.as_ref(), open).await?;
        let is_any = names.iter().any(|name| name.starts_with(line.typed));
        if is_any {
            Ok(names)
        } else {
            tasks(store.as_ref(), ended).await
        }
    });
    names.ok()
}

/// Declared and recorded steps, each name once.
async fn steps(store: &dyn Store, task: Option<&str>) -> Result<Vec<String>, StoreError> {
    let Some(id) = task.and_then(|task| TaskId::new(task).ok()) else {
        return Ok(Vec::new());
    };
    let declared = store.task(&id).await?.map(|task| task.spec.steps);
    let recorded = store
        .steps(&id)
        .await?
        .into_iter()
        .filter(|step| step.call.is_none());
    let recorded = recorded.map(|step| step.key.name);
    let names: BTreeSet<String> = declared
        .into_iter()
        .flatten()
        .chain(recorded)
        .map(|name| name.to_string())
        .collect();
    Ok(names.into_iter().collect())
}

async fn tasks(store: &dyn Store, statuses: Vec<TaskStatus>) -> Result<Vec<String>, StoreError> {
    let tasks = store
        .tasks(TaskQuery {
            statuses,
            ..TaskQuery::default()
        })
        .await?;
    Ok(tasks.iter().map(|task| task.id.to_string()).collect())
}
