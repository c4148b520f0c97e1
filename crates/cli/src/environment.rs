//! What the environment and the global flags say, read once.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use relight_core::agent::AttemptTag;
use relight_core::decide::Right;
use relight_core::ids::{AgentName, SessionKey, TaskId};
use relight_core::lease::{Fence, Holder, LEASE_DEFAULT};
use relight_core::node::Node;
use relight_core::time::Span;
use relight_redact::{MarkKey, Redactor};
use relight_runtime::checkpoint_files::usual_folder;
use relight_runtime::dialect::take_in_file;
use relight_runtime::engine::{ActError, Engine};
use relight_runtime::fleet::node_file::NodeFile;
use relight_runtime::holders;
use relight_runtime::os::{file, fleet, process};
use relight_runtime::project::{Project, has_history};
use relight_runtime::redact_input;
use relight_runtime::state_location::{
    StateLocation, StoreAccess, checkpoint_folder, refuse_without_daemon,
};
use relight_runtime::store_url::{self, StoreUrl};
use relight_runtime::supervise::control::{self, daemon_socket, run_socket};
use relight_runtime::supervise::folder::AgentFolder;
use relight_server::RelayedStore;
use relight_store::sqlite::Use;
use relight_store::{Store, StoreError};

use crate::arguments::{Global, HolderArguments};
use crate::config::{Config, Origin, Source};
use crate::exit::{Exit, Failure, cannot_use};
use crate::output::{self, OutputSettings};
use crate::trust;

/// How long it may take to find out whether somebody listens at a socket.
const KNOCK_MAX: Span = Span::from_ms(500);
/// What stands for the name of a project in lists of a home that belongs to none.
pub(crate) const DEFAULT_PROJECT: &str = "(default)";

/// Where the password of a store is safer than on a command line.
const BETTER_PLACES: &str =
    "leave it out and set PGPASSWORD, or name the store in a relight.toml that only you can read";

/// What the environment and the global flags say together.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) verbose: u8,
    home: Option<PathBuf>,
    store: Option<String>,
    /// The project that was named.
    project_name: Option<String>,
    /// The project that was named or found; looked for once.
    project: Arc<OnceLock<Option<Project>>>,
    /// Not the nearest `relight.toml`, but this one; or only the user's, when none.
    stands_at: Option<Option<PathBuf>>,
    /// `[store] url` of the configuration; looked for once.
    configured: Arc<OnceLock<Option<String>>>,
    /// Which node this process is, where it decides that by itself; else its home says.
    decided: Option<Option<NodeFile>>,
    variables: Vec<(OsString, OsString)>,
    /// Variables of agents, by which their secrets are known.
    of_agents: Vec<(String, String)>,
}

impl Environment {
    pub(crate) fn read(global: &Global) -> Self {
        Self {
            json: global.json,
            quiet: global.quiet,
            verbose: global.verbose,
            home: global.home.clone(),
            store: global.store.clone(),
            project_name: global.project.clone(),
            project: Arc::default(),
            stands_at: None,
            configured: Arc::default(),
            decided: None,
            variables: relight_runtime::os::environment::variables(),
            of_agents: Vec::new(),
        }
    }

    /// The same with what a configuration says of the store, whichever would be found.
    pub(crate) fn with_store(&self, configured: Option<String>) -> Self {
        Self {
            configured: Arc::new(OnceLock::from(configured)),
            ..self.clone()
        }
    }

    /// The same as this node, or as none, whatever the home says: for a daemon, which decides both that
    /// and which store is meant.
    pub(crate) fn deciding(&self, node: Option<NodeFile>) -> Self {
        Self {
            decided: Some(node),
            ..self.clone()
        }
    }

    /// The same with the variables that a configuration gives to agents: what is secret by its name
    /// there is known by its value from now on.
    pub(crate) fn with_agents(&self, config: &Config) -> Self {
        let of_agents = config
            .agents
            .iter()
            .flat_map(|agent| agent.env.clone())
            .collect();
        Self {
            of_agents,
            ..self.clone()
        }
    }

    /// A variable that is set, not empty and text.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.get_raw(name)?.to_str()
    }

    /// A variable that is set and not empty, as the system has it.
    fn get_raw(&self, name: &str) -> Option<&OsStr> {
        self.location().raw(name)
    }

    /// Every variable.
    pub(crate) fn variables(&self) -> &[(OsString, OsString)] {
        &self.variables
    }

    /// What agents may get of them: not the password by which the store is opened.
    pub(crate) fn variables_for_agents(&self) -> Vec<(OsString, OsString)> {
        let is_with_password = matches!(self.store_url(), Ok(StoreUrl::Postgres(_)));
        let is_kept = |name: &OsStr| is_with_password && name == store_url::PASSWORD;
        self.variables
            .iter()
            .filter(|(name, _)| !is_kept(name))
            .cloned()
            .collect()
    }

    /// The folder of the user's configuration of Relight.
    pub(crate) fn config_folder(&self) -> Option<PathBuf> {
        self.config_home().ok().map(|config| config.join("relight"))
    }

    /// The configuration: the given one, that of the project that was named, `$RELIGHT_CONFIG`, the
    /// nearest `relight.toml` here or above, the user's.
    pub(crate) fn config_file(&self, given: Option<&Path>) -> Option<Source> {
        let of_project = match (&self.stands_at, &self.project_name) {
            (Some(stands_at), _) => stands_at.clone(),
            (None, Some(_)) => self.project().ok().flatten().map(Project::config),
            (None, None) => None,
        };
        if let (None, Some(file)) = (given, of_project) {
            let is_there = file.exists();
            return is_there.then_some(Source {
                file,
                is_found_here: true,
            });
        }
        let named = self.path("RELIGHT_CONFIG");
        let user = self.config_home().ok();
        let here = match self.stands_at {
            None => Path::new("."),
            Some(_) => Path::new("/"),
        };
        let found = Source::find(given.or(named.as_deref()), here, user.as_deref())?;
        let file = std::path::absolute(&found.file).unwrap_or(found.file);
        Some(Source { file, ..found })
    }

    /// The project whose home is used; none where a home was named, or no `relight.toml` is near.
    pub(crate) fn project(&self) -> Result<Option<&Project>, Failure> {
        if self.project.get().is_none() {
            let found = self.location().project()?;
            let _ = self.project.set(found);
        }
        Ok(self.project.get().and_then(Option::as_ref))
    }

    /// Names of projects, for completion.
    pub(crate) fn project_names(&self) -> Vec<String> {
        let base = self.usual_home().unwrap_or_default();
        let all = Project::all(&base).unwrap_or_default();
        all.into_iter().map(|project| project.name).collect()
    }

    /// The same in a project that is named.
    pub(crate) fn in_project(&self, name: &str) -> Self {
        Self {
            home: None,
            store: None,
            project_name: Some(name.to_owned()),
            project: Arc::default(),
            configured: Arc::default(),
            ..self.clone()
        }
    }

    /// The same for every home of this user, with a name: the default home, and those of projects.
    pub(crate) fn of_every_project(&self) -> Result<Vec<(String, Self)>, Failure> {
        let base = self.usual_home()?;
        let projects = Project::all(&base)?;
        let at = |home: PathBuf, config: Option<PathBuf>| {
            let is_elsewhere = |name: &OsStr| {
                name != "RELIGHT_HOME" && name != "RELIGHT_STORE" && name != "RELIGHT_CONFIG"
            };
            let variables = self.variables.iter().cloned();
            Self {
                home: Some(home),
                store: None,
                stands_at: Some(config),
                configured: Arc::default(),
                variables: variables.filter(|(name, _)| is_elsewhere(name)).collect(),
                ..self.clone()
            }
        };
        let (separate, shared): (Vec<_>, Vec<_>) =
            projects.into_iter().partition(Project::is_separate);
        let names: Vec<&str> = shared.iter().map(|it| it.name.as_str()).collect();
        let name = match names.is_empty() {
            true => DEFAULT_PROJECT.to_owned(),
            false => names.join(", "),
        };
        let config = shared.first().map(Project::config);
        let default = (name, at(base, config));
        let separate = separate.into_iter().map(|project| {
            let config = Some(project.config());
            (project.name.clone(), at(project.home, config))
        });
        let all = std::iter::once(default).chain(separate);
        // A look must not make a home.
        let is_used =
            |home: &Path| home.join("relight.db").exists() || NodeFile::of(home).is_some();
        Ok(all
            .filter(|(_, it)| it.home.as_deref().is_some_and(is_used))
            .collect())
    }

    /// The store's URL for agents to use, where it is a file of this machine.
    pub(crate) fn local_store(&self) -> Result<Option<String>, Failure> {
        match self.way()? {
            StoreAccess::Open(StoreUrl::Sqlite(path)) => {
                let path = std::path::absolute(&path).unwrap_or(path);
                Ok(Some(format!("sqlite:{}", path.display())))
            }
            // Its credentials are not for agents.
            StoreAccess::Open(StoreUrl::Postgres(_) | StoreUrl::Memory) => Ok(None),
            StoreAccess::OfAgent(_) | StoreAccess::OfHome(_) => Ok(None),
        }
    }

    /// Refuses a name that would have to be redacted, where no store is open yet.
    pub(crate) fn check_name(&self, what: &'static str, text: &str) -> Result<(), Failure> {
        // Nothing is written, so the key of the marks does not matter, nor whether its folder exists.
        let redactor = self.redactor(MarkKey::new([0; 32]));
        Ok(redact_input::check_name(&redactor, what, text).map_err(ActError::from)?)
    }

    /// For text that is only shown: its marks are like no others.
    pub(crate) fn redactor_for_output(&self) -> Redactor {
        self.redactor(MarkKey::new(relight_runtime::os::random::bytes()))
    }

    fn redactor(&self, key: MarkKey) -> Redactor {
        let own = relight_runtime::os::environment::texts(&self.variables);
        let of_agents = self
            .of_agents
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        Redactor::new(key).with_environment(own.chain(of_agents))
    }

    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.get_raw(name).map(PathBuf::from)
    }

    /// The folder of the state. One that was named is made where the folder above it is there.
    pub(crate) fn home(&self) -> Result<PathBuf, Failure> {
        self.project()?;
        Ok(self.location().home()?)
    }

    fn location(&self) -> StateLocation<'_> {
        StateLocation {
            home: self.home.as_deref(),
            project: self.project_name.as_deref(),
            known_project: self.project.get().map(Option::as_ref),
            store: self.store.as_deref(),
            variables: &self.variables,
        }
    }

    /// The user's default home, in which those of projects are too.
    pub(crate) fn usual_home(&self) -> Result<PathBuf, Failure> {
        Ok(self.location().usual_home()?)
    }

    /// Where approvals are kept: in the home that was named, else in the user's default home, for all of
    /// their projects.
    pub(crate) fn trust_home(&self) -> Result<PathBuf, Failure> {
        Ok(self.location().trust_home()?)
    }

    /// Keeps which home a project has, and says so once to whoever may look for their work elsewhere.
    pub(crate) fn record_project(&self) {
        let Ok(Some(project)) = self.project() else {
            return;
        };
        if !project.is_to_record() || project.record().is_err() {
            return;
        }
        let (name, home) = (&project.name, project.home.display());
        if let Some(found) = &project.earlier_work {
            let text = format!(
                "project {name} keeps its state in {home}, which holds {found}; relight project separate \
                 gives it a home of its own"
            );
            return output::note(self, &text);
        }
        let Ok(base) = self.usual_home() else { return };
        if has_history(&base) {
            let text = format!(
                "project {name} has its state in {home}; what was recorded outside of projects is in {0}: \
                 relight --home {0} ps",
                base.display()
            );
            output::note(self, &text);
        }
    }

    /// The user's folder for configuration.
    pub(crate) fn config_home(&self) -> Result<PathBuf, Failure> {
        // A relative one is to be ignored, says its specification.
        let given = self
            .path("XDG_CONFIG_HOME")
            .filter(|path| path.is_absolute());
        let usual = || self.path("HOME").map(|home| home.join(".config"));
        given.or_else(usual).ok_or_else(|| {
            Failure::new(
                Exit::Config,
                "there is no folder for configuration: HOME is not set",
            )
            .hint("set HOME or XDG_CONFIG_HOME")
        })
    }

    /// Where the store is.
    pub(crate) fn store_url(&self) -> Result<StoreUrl, Failure> {
        Ok(self.way()?.opened()?)
    }

    /// Whether this process opens the store itself, not through the daemon.
    pub(crate) fn opens_store(&self) -> Result<bool, Failure> {
        Ok(matches!(self.way()?, StoreAccess::Open(_)))
    }

    /// Where the store is, for people: without a password.
    pub(crate) fn store_place(&self) -> String {
        match self.way() {
            Ok(StoreAccess::Open(StoreUrl::Postgres(url))) => url.to_string(),
            Ok(StoreAccess::Open(StoreUrl::Sqlite(file))) => format!("sqlite:{}", file.display()),
            Ok(StoreAccess::Open(StoreUrl::Memory)) => "memory:".to_owned(),
            Ok(StoreAccess::OfAgent(socket) | StoreAccess::OfHome(socket)) => {
                format!("through the daemon at {}", socket.display())
            }
            Err(failure) => failure.message,
        }
    }

    /// How the store is reached.
    fn way(&self) -> Result<StoreAccess, Failure> {
        let configured = || Ok(self.configured_store()?.map(str::to_owned));
        self.location()
            .store_access(self.decided.is_some(), configured)
    }

    /// What the flag or the variable says.
    pub(crate) fn named_store(&self) -> Option<&str> {
        self.location().named_store()
    }

    fn configured_store(&self) -> Result<Option<&str>, Failure> {
        if self.configured.get().is_none() {
            let found = self.read_configured_store()?;
            let _ = self.configured.set(found);
        }
        Ok(self.configured.get().and_then(Option::as_deref))
    }

    /// `[store] url` of the configuration that `up` would find. A file that cannot be parsed is reported
    /// and counts as one without a store: commands that need no configuration continue. A file of the
    /// working folder that names a store and is not approved is an error: no other store may be used
    /// in its place.
    fn read_configured_store(&self) -> Result<Option<String>, Failure> {
        let Some(source) = self.config_file(None) else {
            return Ok(None);
        };
        let read = source
            .read()
            .map_err(|error| error.to_string())
            .and_then(|content| {
                let url = Config::store_url_of(&content)?;
                Ok(url.map(|url| (url, content)))
            });
        match read {
            Ok(None) => Ok(None),
            Ok(Some((url, content))) => {
                content.refuse_stranger()?;
                self.require_approval_of(&content.origin(), &[trust::STORE_URL])?;
                Ok(Some(url))
            }
            Err(why) => {
                let file = source.file.display();
                let text = format!("{file} cannot be read ({why}); no store is taken from it");
                output::note(self, &text);
                Ok(None)
            }
        }
    }

    /// Refuses a configuration that sets one of these keys, was found in the working folder and is not
    /// approved.
    pub(crate) fn require_approval(
        &self,
        config: &Config,
        wanted: &[&'static str],
    ) -> Result<(), Failure> {
        let keys = trust::keys(config).into_iter();
        let set: Vec<&str> = keys.filter(|key| wanted.contains(key)).collect();
        match &config.origin {
            Some(origin) if !set.is_empty() => self.require_approval_of(origin, &set),
            _ => Ok(()),
        }
    }

    pub(crate) fn require_approval_of(
        &self,
        origin: &Origin,
        keys: &[&str],
    ) -> Result<(), Failure> {
        match origin.source.is_found_here {
            true => trust::require(&self.trust_home()?, origin, keys),
            false => Ok(()),
        }
    }

    /// Approves the file whose agents are started. A failure to record that is reported and stops
    /// nothing.
    pub(crate) fn approve_by_use(&self, config: &Config) {
        let origin = config
            .origin
            .as_ref()
            .filter(|_| !trust::keys(config).is_empty());
        let Some(origin) = origin else { return };
        let approved = self
            .trust_home()
            .and_then(|home| trust::approve_once(&home, origin));
        if let Err(failure) = approved {
            let file = origin.source.file.display();
            output::note(
                self,
                &format!("{file} is not approved: {}", failure.message),
            );
        }
    }

    /// The store behind redaction, for one answer.
    pub(crate) fn engine(&self) -> Result<Engine, Failure> {
        let engine = self
            .open(Use::Short)?
            .with_caller(self.agent(None).unwrap_or_default());
        if fleet::node().is_some() || engine.store().is_shared() {
            // Holders on other nodes are judged by their leases.
            crate::block_on(engine.holders().read_nodes())?;
        }
        Ok(engine)
    }

    /// The same, for a process that lives long.
    pub(crate) fn long_engine(&self) -> Result<Engine, Failure> {
        self.open(Use::Long)
    }

    fn open(&self, usage: Use) -> Result<Engine, Failure> {
        self.belong_to_node()?;
        let store = self.open_store(usage)?;
        if self.verbose > 0
            && let Some(file) = store.file()
        {
            output::note(self, &format!("the store is {}", file.display()));
        }
        let folder = self.folder_of(store.file().as_deref())?;
        if store.file().is_none() {
            // A store in a file made it.
            let mut made = std::fs::DirBuilder::new();
            let made = made.recursive(true).mode(0o700).create(&folder);
            made.map_err(|error| cannot_use(&folder, &error))?;
        }
        let key = relight_runtime::mark_key_beside(&folder)
            .map_err(|error| cannot_use(&folder, &error))?;
        let engine = Engine::new(store, self.redactor(key)).with_file_intake(take_in_file);
        let home = self.store_folder(&engine)?;
        self.record_project();
        Ok(engine.with_home(&home))
    }

    /// The store as it can be reached from here: itself, or through the daemon of the node.
    pub(crate) fn open_store(&self, usage: Use) -> Result<Arc<dyn Store>, Failure> {
        let socket = match self.way()? {
            StoreAccess::Open(url) => {
                self.refuse_to_replace(&url)?;
                return Ok(url.open(usage)?);
            }
            StoreAccess::OfAgent(socket) => socket,
            StoreAccess::OfHome(socket) => {
                refuse_without_daemon(&socket)?;
                socket
            }
        };
        let patience = self.location().patience();
        Ok(Arc::new(RelayedStore::open_with_patience(
            &socket, patience,
        )?))
    }

    /// A store whose file is gone while a supervisor uses it is not made anew: that one would be empty, and
    /// nobody would miss what the supervisor still knows.
    fn refuse_to_replace(&self, url: &StoreUrl) -> Result<(), Failure> {
        let StoreUrl::Sqlite(path) = url else {
            return Ok(());
        };
        if std::fs::symlink_metadata(path).is_ok() {
            return Ok(());
        }
        let folder = self.state_folder()?;
        // The daemon of a node uses the store of its fleet, which is not this file.
        if NodeFile::of(&folder).is_some() {
            return Ok(());
        }
        let agents = AgentFolder::all(&folder).unwrap_or_default();
        let mut sockets = agents
            .iter()
            .map(run_socket)
            .chain([daemon_socket(&folder)]);
        let listens = |socket: &PathBuf| match control::call(socket, KNOCK_MAX) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
        };
        let lives = |socket: &PathBuf| control::holder(socket).is_some() || listens(socket);
        let Some(socket) = sockets.find(lives) else {
            return Ok(());
        };
        let (path, socket) = (path.display(), socket.display());
        let text =
            format!("the store {path} is gone, but its supervisor lives and uses it ({socket})");
        Err(Failure::new(Exit::Io, text).hint(
            "nothing was made; put the file back, or end the supervisor first (relight down, Ctrl-C)",
        ))
    }

    /// The socket of the daemon through which the store is asked; none where it is opened.
    pub(crate) fn relay(&self) -> Option<PathBuf> {
        self.way().ok()?.asked()
    }

    /// Whoever uses the home of a node belongs to that node.
    fn belong_to_node(&self) -> Result<(), Failure> {
        if let Some(node) = self.node()? {
            fleet::belong_to(&node.name);
        }
        Ok(())
    }

    /// Whether other machines use the store too.
    pub(crate) fn is_shared(&self) -> Result<bool, Failure> {
        Ok(match self.way()? {
            StoreAccess::Open(url) => !matches!(url, StoreUrl::Sqlite(_) | StoreUrl::Memory),
            StoreAccess::OfAgent(_) | StoreAccess::OfHome(_) => true,
        })
    }

    /// Which node of a fleet this home is; none where it was never one.
    pub(crate) fn node(&self) -> Result<Option<NodeFile>, Failure> {
        match &self.decided {
            Some(node) => Ok(node.clone()),
            None => Ok(NodeFile::of(&self.home()?)),
        }
    }

    /// The folder of the daemon and its agents, found without opening the store: the one that the store
    /// is in, but a node of a fleet has its own, wherever the store is.
    pub(crate) fn state_folder(&self) -> Result<PathBuf, Failure> {
        if self.node()?.is_some() {
            return self.home();
        }
        match self.store_url()? {
            StoreUrl::Sqlite(file) => self.folder_of(Some(&file)),
            StoreUrl::Postgres(_) | StoreUrl::Memory => self.home(),
        }
    }

    /// The flags by which another call finds the same state, for a file to keep. No password goes there.
    pub(crate) fn flags_for_state(&self) -> Result<Vec<(&'static str, String)>, Failure> {
        if self.has_password_in_flag() {
            let text = "the address in --store has a password, which does not belong into a file";
            return Err(Failure::new(Exit::Config, text).hint(BETTER_PLACES));
        }
        let home = self
            .home
            .as_ref()
            .map(|home| ("--home", home.to_string_lossy().into_owned()));
        let store = self.store.as_ref().map(|store| ("--store", store.clone()));
        let project = self.project_name.as_ref();
        let project = project.map(|project| ("--project", project.clone()));
        Ok(home.into_iter().chain(project).chain(store).collect())
    }

    /// Tells whoever gave a password on a command line that lasts: all users of the machine can read it.
    pub(crate) fn warn_of_password_in_flag(&self) {
        if self.has_password_in_flag() {
            output::alert(&format!(
                "the password in --store can be read by every user of this machine while this runs; \
                 {BETTER_PLACES}"
            ));
        }
    }

    fn has_password_in_flag(&self) -> bool {
        let url = self
            .store
            .as_deref()
            .map(|url| StoreUrl::parse(url, Path::new(".")));
        matches!(url, Some(Ok(StoreUrl::Postgres(url))) if !url.needs_password())
    }

    /// The same, for a store that is open.
    pub(crate) fn store_folder(&self, engine: &Engine) -> Result<PathBuf, Failure> {
        if self.node()?.is_some() {
            return self.home();
        }
        self.folder_of(engine.store().file().as_deref())
    }

    fn folder_of(&self, file: Option<&Path>) -> Result<PathBuf, Failure> {
        Ok(self.location().folder_of(file)?)
    }

    /// The named task, else `$RELIGHT_TASK`.
    pub(crate) fn task(&self, given: Option<TaskId>) -> Result<TaskId, Failure> {
        if let Some(task) = given {
            return Ok(task);
        }
        let text = self.get("RELIGHT_TASK").ok_or_else(|| {
            Failure::new(Exit::Usage, "no task is named")
                .hint("give its id, or set RELIGHT_TASK (relight task start --export does)")
        })?;
        TaskId::new(text)
            .map_err(|error| Failure::new(Exit::Usage, format!("RELIGHT_TASK: {error}")))
    }

    /// The given fence, else `$RELIGHT_FENCE` when it belongs to this task.
    pub(crate) fn right(&self, task: &TaskId, given: Option<u64>) -> Result<Right, Failure> {
        if let Some(fence) = given {
            return Ok(Right::Fence(Fence(fence)));
        }
        let of_another = self
            .get("RELIGHT_TASK")
            .is_some_and(|own| own != task.as_str());
        match self.get("RELIGHT_FENCE") {
            Some(text) if !of_another => match text.parse() {
                Ok(fence) => Ok(Right::Fence(Fence(fence))),
                Err(_) => Err(Failure::new(
                    Exit::Usage,
                    format!("RELIGHT_FENCE {text:?} is not a number"),
                )),
            },
            _ => Ok(Right::Unfenced),
        }
    }

    /// Whose life a lease follows, and how long each write renews it for: the process that was named,
    /// else for the time that was given, else the attempt that we are part of.
    pub(crate) fn holder(
        &self,
        given: &HolderArguments,
        agent: Option<&AgentName>,
        store: &dyn Store,
    ) -> Result<(Holder, Option<Span>), Failure> {
        if let Some(pid) = given.owner_pid {
            return Ok((self.named_process(pid, store)?, None));
        }
        // What an attempt holds ends with it; a time that is given may end it earlier.
        if let Some(holder) = crate::block_on(self.attempt(store))? {
            return Ok((holder, given.lease));
        }
        let lease = given.lease.unwrap_or(LEASE_DEFAULT);
        let by = format!("{} (a lease of {lease})", self.who(agent));
        Ok((Holder::Time { by }, Some(lease)))
    }

    /// A process that was named by its number, as a holder.
    pub(crate) fn named_process(&self, pid: u32, store: &dyn Store) -> Result<Holder, Failure> {
        let process = process::identity(pid).ok_or_else(|| {
            Failure::new(Exit::Usage, format!("there is no process {pid}"))
                .hint("--owner-pid takes the pid of a live process; in a shell that is $$")
        })?;
        // What an attempt holds ends with the attempt too, whichever process it names.
        match crate::block_on(self.attempt(store))? {
            Some(Holder::Attempt { attempt, shim, .. }) => Ok(Holder::Attempt {
                attempt,
                shim,
                process: Some(process),
            }),
            _ if self.is_watched(store)? => Ok(Holder::Process(process)),
            _ => Err(nobody_watches(pid)),
        }
    }

    /// Whose life leases follow that a process of ours takes: the attempt that it is part of, else its
    /// own, else the clock where nobody could see it end.
    pub(crate) fn process_holder(&self, store: &dyn Store) -> Result<Holder, Failure> {
        if let Some(attempt) = crate::block_on(self.attempt(store))? {
            return Ok(attempt);
        }
        let me = process::me();
        if self.is_watched(store)? {
            return Ok(Holder::Process(me.clone()));
        }
        Ok(Holder::Time {
            by: format!("{} (process {})", self.who(None), me.pid),
        })
    }

    /// Whether it will be known that a process of this machine has ended, and only then believed: where
    /// others use the store, that is by the lease of this home's node, while it lasts. Without one nobody
    /// could ever tell; under one that ran out everybody counts it as gone.
    fn is_watched(&self, store: &dyn Store) -> Result<bool, Failure> {
        let (own, is_shared) = (fleet::node(), self.is_shared()?);
        if own.is_none() && !is_shared {
            return Ok(true);
        }
        let (instance, boot) = (self.node()?.map(|node| node.instance), process::boot_id());
        let is_this_one = |node: &Node| {
            let is_same = instance
                .as_ref()
                .is_none_or(|own| *own == node.new.instance);
            Some(&node.new.name) == own && is_same && node.new.is_of_boot(&boot)
        };
        let nodes = crate::block_on(store.nodes())?;
        let is_alone = !is_shared && nodes.iter().all(is_this_one);
        Ok(is_alone || nodes.iter().any(|node| is_this_one(node) && node.is_live()))
    }

    /// The task that `$RELIGHT_TASK` names, with `$RELIGHT_FENCE`.
    pub(crate) fn own_task(&self) -> Result<Option<(TaskId, Option<Fence>)>, Failure> {
        if self.get("RELIGHT_TASK").is_none() {
            return Ok(None);
        }
        let task = self.task(None)?;
        let fence = self.right(&task, None)?.fence();
        Ok(Some((task, fence)))
    }

    /// The agent that is named, else the one that we are part of.
    pub(crate) fn agent(&self, given: Option<&AgentName>) -> Result<Option<AgentName>, Failure> {
        let own = || self.get("RELIGHT_AGENT").map(AgentName::new).transpose();
        match given {
            Some(name) => Ok(Some(name.clone())),
            None => {
                own().map_err(|error| Failure::new(Exit::Usage, format!("RELIGHT_AGENT: {error}")))
            }
        }
    }

    /// Whether a person calls: nobody that has an agent's name, and no process of an attempt.
    pub(crate) fn is_person(&self) -> bool {
        self.get("RELIGHT_AGENT").is_none() && self.get("RELIGHT_ATTEMPT").is_none()
    }

    /// The agent that starts a task by its name. Inside an attempt the store says whose that is.
    pub(crate) fn starter(&self, given: Option<AgentName>) -> Result<Option<AgentName>, Failure> {
        match self.get("RELIGHT_ATTEMPT") {
            Some(_) => Ok(given),
            None => self.agent(given.as_ref()),
        }
    }

    /// Who holds a lease that only the clock ends: the agent where one is known, else the user.
    fn who(&self, agent: Option<&AgentName>) -> String {
        let agent = self.agent(agent).ok().flatten();
        agent.map_or_else(|| self.user(), |agent| format!("agent {agent}"))
    }

    /// Who calls, for people to read.
    pub(crate) fn user(&self) -> String {
        let user = self
            .get("USER")
            .or_else(|| self.get("LOGNAME"))
            .map(str::to_owned);
        let uid = rustix::process::getuid().as_raw();
        user.or_else(|| file::login_name(uid))
            .unwrap_or_else(|| format!("uid {uid}"))
    }

    /// The named session, else `$RELIGHT_SESSION`.
    pub(crate) fn session(&self, given: Option<SessionKey>) -> Result<SessionKey, Failure> {
        if let Some(session) = given {
            return Ok(session);
        }
        let text = self.get("RELIGHT_SESSION").ok_or_else(|| {
            Failure::new(Exit::Usage, "no session is named")
                .hint("give its key, or set RELIGHT_SESSION (relight session begin --export does)")
        })?;
        SessionKey::new(text)
            .map_err(|error| Failure::new(Exit::Usage, format!("RELIGHT_SESSION: {error}")))
    }

    /// The given generation, else `$RELIGHT_GENERATION` when it belongs to this session.
    pub(crate) fn generation(
        &self,
        session: &SessionKey,
        given: Option<u64>,
    ) -> Result<u64, Failure> {
        let of_another = self
            .get("RELIGHT_SESSION")
            .is_some_and(|own| own != session.as_str());
        let text = self.get("RELIGHT_GENERATION").filter(|_| !of_another);
        match (given, text) {
            (Some(generation), _) => Ok(generation),
            (None, Some(text)) => text.parse().map_err(|_| {
                Failure::new(
                    Exit::Usage,
                    format!("RELIGHT_GENERATION {text:?} is not a number"),
                )
            }),
            (None, None) => Err(Failure::new(Exit::Usage, "no turn is named")
                .hint("give --generation N, as relight session begin answered")),
        }
    }

    /// The live attempt that `$RELIGHT_ATTEMPT` names; none when this store does not know it.
    async fn attempt(&self, store: &dyn Store) -> Result<Option<Holder>, StoreError> {
        let Some(tag) = self.get("RELIGHT_ATTEMPT").map(AttemptTag::from_text) else {
            return Ok(None);
        };
        holders::of_attempt(store, &tag).await
    }

    /// The folder of the user's own presets.
    pub(crate) fn presets_folder(&self) -> Option<PathBuf> {
        Some(self.config_folder()?.join("presets"))
    }

    /// The folder that `$RELIGHT_CHECKPOINT_DIR` names.
    pub(crate) fn given_folder(&self) -> Option<PathBuf> {
        self.path("RELIGHT_CHECKPOINT_DIR")
    }

    /// The folder of the checkpoint files, absolute.
    pub(crate) fn checkpoint_folder(&self, given: Option<&Path>) -> Result<PathBuf, Failure> {
        let Some(folder) = given.map(Path::to_path_buf).or_else(|| self.given_folder()) else {
            let here = std::path::absolute(".").map_err(|error| {
                Failure::new(Exit::Io, format!("cannot use the folder .: {error}"))
            })?;
            return usual_folder(&here).map_err(|error| {
                Failure::new(
                    Exit::Config,
                    format!("the checkpoint folder is not used: {error}"),
                )
                .hint("to use it all the same, name it: --dir DIR or RELIGHT_CHECKPOINT_DIR")
            });
        };
        Ok(checkpoint_folder(&folder)?)
    }
}

impl OutputSettings for Environment {
    fn is_json(&self) -> bool {
        self.json
    }

    fn is_quiet(&self) -> bool {
        self.quiet
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.get(name)
    }
}

fn nobody_watches(pid: u32) -> Failure {
    let text = format!(
        "other machines use this store, and no live node of it is here to tell them that process {pid} \
         lives"
    );
    Failure::new(Exit::Busy, text)
        .hint("relight up makes this machine a node; or hold it for a time: --lease DURATION")
}
