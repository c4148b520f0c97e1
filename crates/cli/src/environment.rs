//! The environment, read once, here and nowhere else.

use std::path::{Path, PathBuf};

use relight::engine::Engine;
use relight::store_url::StoreUrl;
use relight_core::decide::Right;
use relight_core::ids::TaskId;
use relight_core::lease::{Fence, Holder};
use relight_core::redact::Redactor;
use relight_core::time::Span;
use relight_store::sqlite::Use;

use crate::arguments::{Global, HolderArguments};
use crate::exit::{Exit, Failure};

/// What the environment and the global flags say together.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) verbose: u8,
    home: Option<PathBuf>,
    store: Option<String>,
    variables: Vec<(String, String)>,
}

impl Environment {
    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    pub(crate) fn read(global: &Global) -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)));
        Self {
            json: global.json,
            quiet: global.quiet,
            verbose: global.verbose,
            home: global.home.clone(),
            store: global.store.clone(),
            variables: variables.collect(),
        }
    }

    /// A variable that is set and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.variables.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// The folder of the state.
    pub(crate) fn home(&self) -> Result<PathBuf, Failure> {
        let home = || self.get("HOME").map(|home| Path::new(home).join(".local/state"));
        self.home
            .clone()
            .or_else(|| self.get("RELIGHT_HOME").map(PathBuf::from))
            .or_else(|| {
                let state = self.get("XDG_STATE_HOME").map(PathBuf::from).or_else(home);
                state.map(|state| state.join("relight"))
            })
            .ok_or_else(|| {
                Failure::new(Exit::Config, "there is no folder for the state: HOME is not set")
                    .hint("set RELIGHT_HOME or give --home DIR")
            })
    }

    /// Where the store is.
    pub(crate) fn store_url(&self) -> Result<StoreUrl, Failure> {
        let given = self.store.as_deref().or_else(|| self.get("RELIGHT_STORE"));
        match given {
            Some(url) => StoreUrl::parse(url, Path::new("."))
                .map_err(|error| Failure::new(Exit::Config, error.to_string())),
            None => Ok(StoreUrl::Sqlite(self.home()?.join("relight.db"))),
        }
    }

    /// The store with the funnel in front of it.
    pub(crate) fn engine(&self) -> Result<Engine, Failure> {
        let url = self.store_url()?;
        let store = url.open(Use::Short)?;
        if self.verbose > 0
            && let Some(file) = store.file()
        {
            crate::output::note(self, &format!("the store is {}", file.display()));
        }
        let folder = match store.file().as_deref().and_then(Path::parent) {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
            _ => self.home()?,
        };
        let key = relight::mark_key_beside(&folder).map_err(|error| {
            Failure::new(Exit::Io, format!("cannot use {}: {error}", folder.display()))
        })?;
        let pairs = self.variables.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        Ok(Engine::new(store, Redactor::new(key).with_environment(pairs)))
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
        let of_another = self.get("RELIGHT_TASK").is_some_and(|own| own != task.as_str());
        match self.get("RELIGHT_FENCE") {
            Some(text) if !of_another => match text.parse() {
                Ok(fence) => Ok(Right::Fence(Fence(fence))),
                Err(_) => {
                    Err(Failure::new(Exit::Usage, format!("RELIGHT_FENCE {text:?} is no number")))
                }
            },
            _ => Ok(Right::Unfenced),
        }
    }

    /// Whose life a lease follows, and how long each write renews it for.
    pub(crate) fn holder(
        &self,
        given: &HolderArguments,
    ) -> Result<(Holder, Option<Span>), Failure> {
        if let Some(pid) = given.owner_pid {
            let process = relight::doors::process::identity(pid).ok_or_else(|| {
                Failure::new(Exit::Usage, format!("there is no process {pid}"))
                    .hint("--owner-pid takes the pid of a live process; in a shell that is $$")
            })?;
            return Ok((Holder::Process(process), None));
        }
        let user = self.get("USER").or_else(|| self.get("LOGNAME")).unwrap_or("somebody");
        let by = format!("{user} (a lease of {})", given.lease);
        Ok((Holder::Time { by }, Some(given.lease)))
    }

    /// The folder of the checkpoint files, absolute.
    pub(crate) fn checkpoint_folder(&self, given: Option<&Path>) -> Result<PathBuf, Failure> {
        let folder = match given {
            Some(folder) => folder.to_path_buf(),
            None => match self.get("RELIGHT_CHECKPOINT_DIR") {
                Some(folder) => PathBuf::from(folder),
                None => PathBuf::from("memory/checkpoints"),
            },
        };
        std::path::absolute(&folder).map_err(|error| {
            Failure::new(Exit::Io, format!("cannot use the folder {}: {error}", folder.display()))
        })
    }
}
