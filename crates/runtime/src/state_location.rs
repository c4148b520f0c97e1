//! Where the state is: the home folder, and the store or the daemon that has it open. One rule for the
//! command line and for the packages of other languages.
//!
//! Every program on a machine must use the store that its daemon uses; otherwise it acknowledges writes
//! that are never read. What `relight.toml` says of the store is read by the command line.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use relight_core::error_code::{ErrorCode, Refused};
use relight_core::time::Span;
use relight_store::StoreError;
use relight_store::refused::A_HOME_OF_YOUR_OWN;

use crate::fleet::node_file::NodeFile;
use crate::os::file::{self, Stranger};
use crate::os::fleet;
use crate::project::{self, Project};
use crate::store_url::StoreUrl;
use crate::supervise::control::{self, daemon_socket};

/// By which agents know how long they live on without their daemon: the lease of their node.
pub const NODE_LEASE: &str = "RELIGHT_NODE_LEASE";
/// How long a daemon that is there may take for a connection.
const CONNECT_MAX: Span = Span::from_secs(2);
/// How long an agent waits at least for a daemon that is away: it is being restarted.
const AWAY_MIN: Duration = Duration::from_secs(10);
/// Nobody waits longer, whatever a lease may be.
const AWAY_MAX: Duration = Duration::from_secs(600);
/// What helps whoever is not told of a store.
const NAME_IT: &str = "name the store by --store, RELIGHT_STORE or [store] in relight.toml";

/// What was said about the place of the state.
#[derive(Debug, Clone, Copy)]
pub struct StateLocation<'a> {
    /// The home that was named by a flag or an argument.
    pub home: Option<&'a Path>,
    /// The project that was named so.
    pub project: Option<&'a str>,
    /// The project, where it was looked for already.
    pub known_project: Option<Option<&'a Project>>,
    /// The store that was named so.
    pub store: Option<&'a str>,
    /// The environment.
    pub variables: &'a [(OsString, OsString)],
}

impl<'a> StateLocation<'a> {
    /// A variable that is set and not empty, as the system has it.
    pub fn raw(&self, name: &str) -> Option<&'a OsStr> {
        let found = self.variables.iter().find(|(key, _)| key == name);
        found
            .map(|(_, value)| value.as_os_str())
            .filter(|value| !value.is_empty())
    }

    /// A variable that is set, not empty and text.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.raw(name)?.to_str()
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.raw(name).map(PathBuf::from)
    }

    /// The folder of the state, absolute: the one that was named, else that of the project, else the user's
    /// default. One that was named is made where the folder above it is there.
    pub fn home(&self) -> Result<PathBuf, Refused> {
        let given = match (self.named_home(), self.project()?) {
            (_, Some(project)) => project.home,
            (Some(named), None) => {
                if let Some(folder) = missing_folder(&named) {
                    return Err(no_folder(ErrorCode::CONFIG, "the home", folder));
                }
                named
            }
            (None, None) => self.usual_home()?,
        };
        // Agents run in folders of their own, and find it from there.
        let home = absolute(&given)?;
        refuse_stranger("the home", &home, "700")?;
        Ok(home)
    }

    fn named_home(&self) -> Option<PathBuf> {
        let named = self.home.map(Path::to_path_buf);
        named.or_else(|| self.path("RELIGHT_HOME"))
    }

    /// The user's default home, in which the homes of projects are too.
    pub fn usual_home(&self) -> Result<PathBuf, Refused> {
        let home = || self.path("HOME").map(|home| home.join(".local/state"));
        let state = self.path("XDG_STATE_HOME").or_else(home);
        let usual = state.map(|state| state.join("relight")).ok_or_else(|| {
            let text = "there is no folder for the state: HOME is not set";
            let hint = "set RELIGHT_HOME or give --home DIR";
            Refused::new(ErrorCode::CONFIG, text, hint)
        })?;
        let usual = absolute(&usual)?;
        refuse_stranger("the home", &usual, "700")?;
        Ok(usual)
    }

    /// Where approvals are kept: in the home that was named, else in the user's default home, for all
    /// projects.
    pub fn trust_home(&self) -> Result<PathBuf, Refused> {
        match self.named_home() {
            Some(_) if self.project.is_none() => self.home(),
            _ => self.usual_home(),
        }
    }

    /// The project whose home is used: the one that was named, else that of the nearest `relight.toml`.
    /// None where a home was named, or no such file is near. The user's own configuration makes no project.
    pub fn project(&self) -> Result<Option<Project>, Refused> {
        if let Some(known) = self.known_project {
            return Ok(known.cloned());
        }
        if let Some(name) = self.project {
            return Project::named(&self.usual_home()?, name).map(Some);
        }
        if self.named_home().is_some() {
            return Ok(None);
        }
        let Some(config) = project::nearest_config(Path::new(".")) else {
            return Ok(None);
        };
        let is_the_users = self.users_config().is_some_and(|users| {
            let same = config.canonicalize().ok();
            same.is_some() && same == users.canonicalize().ok()
        });
        match is_the_users {
            true => Ok(None),
            false => Project::of_config(&self.usual_home()?, &config),
        }
    }

    fn users_config(&self) -> Option<PathBuf> {
        Some(self.config_folder()?.join(project::CONFIG_FILE))
    }

    /// The folder of the user's configuration.
    pub fn config_folder(&self) -> Option<PathBuf> {
        let given = self.path("XDG_CONFIG_HOME");
        let given = given.filter(|path| path.is_absolute());
        let usual = || self.path("HOME").map(|home| home.join(".config"));
        Some(given.or_else(usual)?.join("relight"))
    }

    /// What the argument or the variable says of the store.
    pub fn named_store(&self) -> Option<&'a str> {
        // A project that was named is meant whole, also inside an agent of another one.
        let variable = || match self.project {
            Some(_) => None,
            None => self.get("RELIGHT_STORE"),
        };
        self.store.or_else(variable)
    }

    /// How the store is reached: as it was named; for an agent through its node; as the configuration
    /// says; in the home of a node as its daemon has it; else it is a file there. A daemon decides by
    /// itself which node it is.
    pub fn store_access<E: From<Refused>>(
        &self,
        is_daemon: bool,
        configured: impl FnOnce() -> Result<Option<String>, E>,
    ) -> Result<StoreAccess, E> {
        if let Some(url) = self.named_store() {
            return Ok(StoreAccess::named(url)?);
        }
        // The address of a shared store is a secret of the node; its agents ask the daemon.
        let is_agent_of_node =
            self.get("RELIGHT_ATTEMPT").is_some() && self.get(fleet::VARIABLE).is_some();
        if !is_daemon && is_agent_of_node {
            let socket = self.path("RELIGHT_SOCKET").map(StoreAccess::OfAgent);
            return socket.ok_or_else(|| {
                let hint = "pass RELIGHT_SOCKET on, as the agent got it: it names the daemon";
                only_its_daemon(hint).into()
            });
        }
        if let Some(url) = configured()? {
            return Ok(StoreAccess::named(&url)?);
        }
        let home = self.home()?;
        Ok(match NodeFile::of(&home).filter(|_| !is_daemon) {
            None => StoreAccess::Open(StoreUrl::Sqlite(home.join("relight.db"))),
            Some(NodeFile {
                store: Some(file), ..
            }) => StoreAccess::named(&file)?,
            Some(NodeFile { store: None, .. }) => StoreAccess::OfHome(daemon_socket(&home)),
        })
    }

    /// The folder beside a store in this file, which the daemon and its agents use too; else the home.
    pub fn folder_of(&self, file: Option<&Path>) -> Result<PathBuf, Refused> {
        match file.and_then(Path::parent) {
            Some(folder) if !folder.as_os_str().is_empty() => {
                let folder = absolute(folder)?;
                // The daemon's socket, token and agents are there too.
                refuse_stranger("the folder of the store", &folder, "go-w")?;
                Ok(folder)
            }
            _ => self.home(),
        }
    }

    /// How long an agent waits for a daemon that is away.
    pub fn patience(&self) -> Duration {
        patience(self.get(NODE_LEASE))
    }
}

/// How the store is reached from here.
#[derive(Debug)]
pub enum StoreAccess {
    /// It is opened.
    Open(StoreUrl),
    /// It is asked for at the socket of the daemon that an agent belongs to.
    OfAgent(PathBuf),
    /// The same in the home of a node, for whoever was told no store.
    OfHome(PathBuf),
}

impl StoreAccess {
    /// The store that a text names. Its folder must be there: a store in a new folder, made for a mistyped
    /// path, would be empty and found by nobody else.
    pub fn named(url: &str) -> Result<Self, Refused> {
        let url = StoreUrl::parse(url, Path::new("."))
            .map_err(|error| Refused::without_hint(ErrorCode::CONFIG, error.to_string()))?;
        if let StoreUrl::Sqlite(file) = &url
            && let Some(folder) = missing_folder(file)
        {
            return Err(no_folder(ErrorCode::CONFIG, "the store", folder));
        }
        Ok(Self::Open(url))
    }

    /// The store itself, for what cannot be asked of a daemon.
    pub fn opened(self) -> Result<StoreUrl, Refused> {
        match self {
            Self::Open(url) => Ok(url),
            Self::OfAgent(_) => Err(only_its_daemon("it is done outside of agents")),
            Self::OfHome(_) => Err(only_its_daemon(NAME_IT)),
        }
    }

    /// The socket at which it is asked for; none where it is opened.
    pub fn asked(self) -> Option<PathBuf> {
        match self {
            Self::Open(_) => None,
            Self::OfAgent(socket) | Self::OfHome(socket) => Some(socket),
        }
    }
}

/// Refuses where no daemon listens: a person need not wait for one, as an agent does.
pub fn refuse_without_daemon(socket: &Path) -> Result<(), Refused> {
    let Err(error) = control::call(socket, CONNECT_MAX) else {
        return Ok(());
    };
    let place = format!("behind {}", socket.display());
    let why = format!("no daemon listens there ({error}), and no store is named");
    let unreachable = Refused::from(StoreError::Unreachable { place, why });
    Err(Refused {
        hint: Some(format!("relight up starts it; or {NAME_IT}")),
        ..unreachable
    })
}

/// The folder that a path names and that is not there.
pub fn missing_folder(path: &Path) -> Option<&Path> {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir())
}

/// What is to be made needs a folder that is there.
pub fn no_folder(code: ErrorCode, what: &str, folder: &Path) -> Refused {
    let folder = folder.display();
    let text = format!("there is no folder {folder} for {what}");
    let hint = format!("correct the path, or make the folder: mkdir -p {folder}");
    Refused::new(code, text, hint)
}

/// The folder that somebody named for checkpoint files, absolute. It is made if its parent is there: a new
/// folder for a mistyped path would be found by nobody. A link counts only when it was asked for, and then
/// the place it leads to is what is remembered.
pub fn checkpoint_folder(named: &Path) -> Result<PathBuf, Refused> {
    let is_usual = named.ends_with("memory/checkpoints");
    let parent = if is_usual {
        named.parent().unwrap_or(named)
    } else {
        named
    };
    if let Some(missing) = missing_folder(parent) {
        return Err(no_folder(ErrorCode::INVALID, "checkpoint files", missing));
    }
    let is_link = |path: &Path| {
        path.symlink_metadata()
            .is_ok_and(|found| found.is_symlink())
    };
    let resolved = if is_link(named) || named.parent().is_some_and(is_link) {
        named.canonicalize()
    } else {
        std::path::absolute(named)
    };
    resolved.map_err(|error| {
        let text = format!("cannot use the folder {}: {error}", named.display());
        Refused::without_hint(ErrorCode::IO, text)
    })
}

/// Whoever can write the folder of the state decides what agents run: it is refused.
fn refuse_stranger(what: &str, folder: &Path, mode: &str) -> Result<(), Refused> {
    let Ok(found) = std::fs::metadata(folder) else {
        return Ok(());
    };
    let place = folder.display();
    if !found.is_dir() {
        let text = format!("{what} {place} is not a folder");
        return Err(Refused::new(ErrorCode::IO, text, A_HOME_OF_YOUR_OWN));
    }
    let Some(stranger) = file::stranger(&found) else {
        return Ok(());
    };
    let remedy = match stranger {
        Stranger::Owner(_) => format!("chown -R {} {place}", rustix::process::geteuid().as_raw()),
        Stranger::Everybody | Stranger::Group(_) => format!("chmod {mode} {place}"),
    };
    let text = format!("{what} {place} cannot be trusted: {stranger}");
    let hint = format!("{remedy}; or {A_HOME_OF_YOUR_OWN}");
    Err(Refused::new(ErrorCode::CONFIG, text, hint))
}

fn absolute(folder: &Path) -> Result<PathBuf, Refused> {
    std::path::absolute(folder).map_err(|error| {
        let text = format!("cannot use the folder {}: {error}", folder.display());
        Refused::without_hint(ErrorCode::IO, text)
    })
}

/// Nobody is told here where the store of this fleet is.
fn only_its_daemon(hint: &str) -> Refused {
    let text = "the store of this fleet is reached through its node's daemon alone";
    Refused::new(ErrorCode::UNREACHABLE, text, hint)
}

/// Until the lease of the node would have ended the agent.
fn patience(node_lease: Option<&str>) -> Duration {
    let lease = node_lease
        .and_then(|text| text.parse::<Span>().ok())
        .unwrap_or_default();
    lease.as_duration().clamp(AWAY_MIN, AWAY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_waits_as_long_as_it_lives_without_its_daemon() {
        let seconds = |lease| patience(lease).as_secs();
        assert_eq!(seconds(Some("60000ms")), 60);
        assert_eq!(
            (seconds(Some("8s")), seconds(None), seconds(Some("x"))),
            (10, 10, 10)
        );
        assert_eq!(seconds(Some("7d")), 600);
    }
}
