//! Opens the store that the command line would use.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use relight_core::agent::AttemptTag;
use relight_core::error_code::{ErrorCode, Refused};
use relight_core::ids::{AgentName, TaskId};
use relight_core::lease::{Fence, Holder};
use relight_core::recovery::TaskPolicy;
use relight_core::session::Rules;
use relight_redact::Redactor;
use relight_runtime::EngineAccess as _;
use relight_runtime::dialect::take_in_file;
use relight_runtime::engine::Engine;
use relight_runtime::fleet::node_file::NodeFile;
use relight_runtime::operations::Context;
use relight_runtime::operations::table::OperationCaller;
use relight_runtime::os::{environment, file, fleet, process};
use relight_runtime::recovery::{Recoverer, Strategies};
use relight_runtime::state_location::{StateLocation, StoreAccess, refuse_without_daemon};
use relight_runtime::{Relight, holders, mark_key_beside};
use relight_server::RelayedStore;
use relight_store::Store;
use relight_store::sqlite::Use;

use crate::fork_guard::OpenedHere;
use crate::strategy::StrategyCallback;

/// What was said about the store to open. What is left out is as for the command line.
#[derive(Debug, Default)]
pub struct OpenOptions {
    /// The folder of the state; `$RELIGHT_HOME` and the usual place otherwise.
    pub home: Option<PathBuf>,
    /// The store's URL; `$RELIGHT_STORE` and `relight.db` in the home otherwise.
    pub store: Option<String>,
    /// The agent that calls; `$RELIGHT_AGENT` otherwise.
    pub agent: Option<String>,
    /// Strategies of the program's own, by name.
    pub strategies: Vec<(String, Arc<dyn StrategyCallback>)>,
    /// The strategy of tasks that choose none.
    pub default_strategy: Option<String>,
}

/// An open store, and who uses it.
#[derive(Debug)]
pub(crate) struct OpenedStore {
    pub(crate) relight: Relight,
    pub(crate) caller: OperationCaller,
    /// Dropped last: the store is closed then.
    pub(crate) here: OpenedHere,
}

impl OpenOptions {
    pub(crate) async fn open(self) -> Result<OpenedStore, Refused> {
        let variables = environment::variables();
        let location = StateLocation {
            home: self.home.as_deref(),
            project: None,
            known_project: None,
            store: self.store.as_deref(),
            variables: &variables,
        };
        if let Ok(Some(project)) = location.project()
            && project.is_to_record()
        {
            // Without the record the next program decides again, and alike while nothing changes.
            let _ = project.record();
        }
        let home = location.home();
        if let Ok(home) = &home
            && let Some(node) = NodeFile::of(home)
        {
            fleet::belong_to(&node.name);
        }
        let store = open_store(&location)?;
        let here = OpenedHere::note(store.file().as_deref());
        let folder = match home {
            Ok(home) if NodeFile::of(&home).is_some() => home,
            _ => location.folder_of(store.file().as_deref())?,
        };
        let key = make_folder(&folder).and_then(|()| mark_key_beside(&folder));
        let key = key.map_err(|error| {
            let text = format!("cannot use {}: {error}", folder.display());
            Refused::without_hint(ErrorCode::IO, text)
        })?;
        let redactor = Redactor::new(key).with_environment(environment::texts(&variables));
        let agent = match self
            .agent
            .as_deref()
            .or_else(|| location.get("RELIGHT_AGENT"))
        {
            Some(name) => Some(AgentName::new(name).map_err(invalid)?),
            None => None,
        };
        let engine = Engine::new(store, redactor)
            .with_file_intake(take_in_file)
            .with_home(&folder)
            .with_caller(agent.clone());
        if fleet::node().is_some() || engine.store().is_shared() {
            engine.holders().read_nodes().await?;
        }
        let attempt = attempt(&location, engine.store().as_ref()).await?;
        let strategies = strategies(self.strategies, self.default_strategy.as_deref())?;
        let recoverer = Recoverer::new(engine.clone(), strategies, TaskPolicy::default());
        let user = user(&location, agent.as_ref());
        let holder = match &attempt {
            Some(attempt) => attempt.clone(),
            None if engine.store().is_shared() => Holder::Time { by: user.clone() },
            None => Holder::Process(process::me().clone()),
        };
        let relight = Relight::with_recoverer(recoverer.clone());
        Ok(OpenedStore {
            relight: match attempt {
                Some(attempt) => relight.in_attempt(attempt),
                None => relight,
            },
            caller: OperationCaller {
                context: Context {
                    engine,
                    home: folder,
                },
                recoverer,
                holder,
                user,
                agent,
                task: own_task(&location)?,
                checkpoints: location.get("RELIGHT_CHECKPOINT_DIR").map(PathBuf::from),
                sessions: Rules::default(),
                presets: location
                    .config_folder()
                    .map(|folder| folder.join("presets")),
                over_http: None,
            },
            here,
        })
    }
}

fn open_store(location: &StateLocation<'_>) -> Result<Arc<dyn Store>, Refused> {
    let access = location.store_access(false, || Ok::<_, Refused>(None))?;
    let socket = match access {
        StoreAccess::Open(url) => {
            if let relight_runtime::store_url::StoreUrl::Sqlite(file) = &url {
                OpenedHere::check(file)?;
            }
            return Ok(url.open(Use::Long)?);
        }
        StoreAccess::OfAgent(socket) => socket,
        StoreAccess::OfHome(socket) => {
            refuse_without_daemon(&socket)?;
            socket
        }
    };
    let store = RelayedStore::open_with_patience(&socket, location.patience())?;
    Ok(Arc::new(store))
}

fn make_folder(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut made = std::fs::DirBuilder::new();
    made.recursive(true).mode(0o700).create(folder)
}

/// The live attempt that `$RELIGHT_ATTEMPT` names; none when this store does not know it.
async fn attempt(
    location: &StateLocation<'_>,
    store: &dyn Store,
) -> Result<Option<Holder>, Refused> {
    match location.get("RELIGHT_ATTEMPT").map(AttemptTag::from_text) {
        Some(tag) => Ok(holders::of_attempt(store, &tag).await?),
        None => Ok(None),
    }
}

fn own_task(location: &StateLocation<'_>) -> Result<Option<(TaskId, Option<Fence>)>, Refused> {
    let Some(task) = location.get("RELIGHT_TASK") else {
        return Ok(None);
    };
    let task = TaskId::new(task).map_err(invalid)?;
    let fence = match location.get("RELIGHT_FENCE") {
        Some(text) => Some(Fence(text.parse().map_err(|_| {
            let text = format!("RELIGHT_FENCE {text:?} is not a number");
            Refused::without_hint(ErrorCode::INVALID, text)
        })?)),
        None => None,
    };
    Ok(Some((task, fence)))
}

fn strategies(
    registered: Vec<(String, Arc<dyn StrategyCallback>)>,
    default: Option<&str>,
) -> Result<Strategies, Refused> {
    let mut strategies = Strategies::default();
    for (name, callback) in registered {
        strategies = strategies.register(name, crate::strategy::Callback(callback));
    }
    match default {
        Some(name) => strategies.with_default(name).map_err(invalid),
        None => Ok(strategies),
    }
}

/// Who takes leases by time, for people to read.
fn user(location: &StateLocation<'_>, agent: Option<&AgentName>) -> String {
    if let Some(agent) = agent {
        return format!("agent {agent}");
    }
    let uid = rustix::process::getuid().as_raw();
    let named = location.get("USER").or_else(|| location.get("LOGNAME"));
    let named = named.map(str::to_owned).or_else(|| file::login_name(uid));
    named.unwrap_or_else(|| format!("uid {uid}"))
}

pub(crate) fn invalid(error: impl std::fmt::Display) -> Refused {
    Refused::without_hint(ErrorCode::INVALID, error.to_string())
}
