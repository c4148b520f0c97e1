//! Projects: several of them on one machine, each with a home of its own.
//!
//! A project is a folder with a `relight.toml`. Its home is below the user's state folder and never in the
//! project itself, so that nothing which comes with a folder decides where state is written. A file of the
//! home, `project.json`, records the choice once; the content of `relight.toml` has no part in it.

use std::fmt;
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use relight_core::error_code::{ErrorCode, Refused};
use relight_core::ids::{AgentName, NodeName, TaskId};
use relight_core::status::TaskStatus;
use relight_core::task::Task;
use relight_store::sqlite::Use;
use relight_store::{AgentQuery, StoreError, TaskQuery};
use serde::{Deserialize, Serialize};

use crate::fleet::node_file::NodeFile;
use crate::os::file;
use crate::store_url::StoreUrl;

/// The file that makes a folder a project.
pub const CONFIG_FILE: &str = "relight.toml";
/// Where the homes of projects are, in the user's state folder.
const FOLDER: &str = "projects";
const RECORD: &str = "project.json";
/// More is not ours.
const RECORD_BYTES_MAX: u64 = 16 << 10;
/// So many projects are looked through.
const PROJECTS_MAX: usize = 10_000;
/// No folder is nested deeper.
const DEPTH_MAX: usize = 256;
const NAME_CHARS_MAX: usize = 40;
/// So many agents are named.
const NAMED_MAX: usize = 3;

/// A folder with a `relight.toml`, and where its state is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// By which people call it: the name of its folder.
    pub name: String,
    /// The folder of its `relight.toml`.
    pub folder: PathBuf,
    /// Where its state is: a folder of its own, or the user's default home.
    pub home: PathBuf,
    /// The choice is on disk.
    pub is_recorded: bool,
    /// Why it is in the default home, where that was not chosen yet.
    pub earlier_work: Option<EarlierWork>,
    /// Where that is, and the home of its own.
    own_home: PathBuf,
}

/// Work of a project in the default home, from before projects had homes of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EarlierWork {
    /// Agents that run in its folder.
    Agents(Vec<AgentName>),
    /// An unfinished task whose files are in its folder.
    Task(TaskId),
    /// The work of a node, which only its daemon can see.
    Node(NodeName),
    /// What is there cannot be read.
    Unreadable,
}

impl fmt::Display for EarlierWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agents(names) => {
                let shown: Vec<&str> = names
                    .iter()
                    .take(NAMED_MAX)
                    .map(AgentName::as_str)
                    .collect();
                let (shown, s) = (shown.join(", "), if names.len() == 1 { "" } else { "s" });
                write!(f, "its agent{s} {shown}")?;
                match names.len().saturating_sub(NAMED_MAX) {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            Self::Task(id) => write!(f, "its unfinished task {id}"),
            Self::Node(name) => write!(f, "the work of node {name}, perhaps this project's too"),
            Self::Unreadable => write!(f, "work that cannot be read"),
        }
    }
}

/// What is on disk.
#[derive(Debug, Serialize, Deserialize)]
struct ProjectRecord {
    name: String,
    folder: PathBuf,
    home: PathBuf,
    /// Of the folder: a project that was moved is recognised.
    identity: Option<FolderIdentity>,
}

/// Which folder, by whatever path. The time tells it from another that got its number later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FolderIdentity {
    device: u64,
    inode: u64,
    born_ms: u64,
}

impl FolderIdentity {
    fn of(folder: &Path) -> Option<Self> {
        let found = fs::metadata(folder).ok()?;
        let born = found.created().ok()?;
        let born = born.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(Self {
            device: found.dev(),
            inode: found.ino(),
            born_ms: u64::try_from(born.as_millis()).ok()?,
        })
    }
}

/// The nearest `relight.toml`, in this folder or above. One above it that another user could have written
/// is passed over: whoever can write to a parent folder must not decide anything here.
pub fn nearest_config(here: &Path) -> Option<PathBuf> {
    let here = std::path::absolute(here).ok()?;
    for (depth, folder) in here.ancestors().take(DEPTH_MAX).enumerate() {
        let file = folder.join(CONFIG_FILE);
        let Ok(found) = fs::metadata(&file) else {
            continue;
        };
        if depth == 0 || is_own(&file, &found) {
            return Some(file);
        }
    }
    None
}

/// Whether nobody but this user and root can have written it, nor the link to it.
fn is_own(file: &Path, found: &Metadata) -> bool {
    let link = fs::symlink_metadata(file).ok();
    let is_own_link = link
        .filter(Metadata::is_symlink)
        .is_none_or(|link| link.uid() == 0 || link.uid() == rustix::process::geteuid().as_raw());
    found.is_file() && is_own_link && file::stranger(found).is_none()
}

impl Project {
    /// The project of a configuration. One that another user could have written makes no new project; a project
    /// that was recorded before keeps its home, in which its work and its daemon are. `base` is the user's
    /// default home.
    pub fn of_config(base: &Path, config: &Path) -> Result<Option<Self>, Refused> {
        let folder = config.parent().and_then(|it| it.canonicalize().ok());
        let (Ok(found), Some(folder)) = (fs::metadata(config), folder) else {
            return Ok(None);
        };
        let project = Self::at(base, &folder)?;
        let is_taken = project.is_recorded || is_own(config, &found);
        Ok(is_taken.then_some(project))
    }

    fn at(base: &Path, folder: &Path) -> Result<Self, Refused> {
        let name = name_of(folder);
        let hash = blake3::hash(folder.as_os_str().as_bytes()).to_hex();
        let own_home = base
            .join(FOLDER)
            .join(format!("{name}-{}", &hash.as_str()[..8]));
        if let Some(known) = Self::read(&own_home).filter(|known| known.folder == folder) {
            return Ok(known);
        }
        let known = Self::all(base)?;
        // Under the name that it had before it was moved.
        if let Some(known) = known.iter().find(|known| known.folder == folder) {
            return Ok(known.clone());
        }
        if let Some(moved) = Self::moved_to(&known, folder) {
            return Ok(moved);
        }
        // A project that was moved away keeps the home that is named after this path.
        let taken = |home: &PathBuf| known.iter().any(|other| other.own_home == *home);
        let own_home = match taken(&own_home) {
            false => own_home,
            true => (2..)
                .map(|number| {
                    let id = own_home.file_name().unwrap_or_default().to_string_lossy();
                    own_home.with_file_name(format!("{id}-{number}"))
                })
                .find(|home| !taken(home))
                .unwrap_or(own_home.clone()),
        };
        let is_shared = known.iter().any(|other| other.home == base);
        let earlier_work = earlier_work(base, folder, is_shared);
        let home = match earlier_work {
            Some(_) => base.to_owned(),
            None => own_home.clone(),
        };
        Ok(Self {
            name,
            folder: folder.to_owned(),
            home,
            is_recorded: false,
            earlier_work,
            own_home,
        })
    }

    /// One that was here under another path.
    fn moved_to(known: &[Self], folder: &Path) -> Option<Self> {
        let identity = FolderIdentity::of(folder)?;
        let is_it = |project: &&Self| {
            let recorded = ProjectRecord::read(&project.own_home).and_then(|it| it.identity);
            recorded.as_ref() == Some(&identity)
                && FolderIdentity::of(&project.folder).as_ref() != Some(&identity)
        };
        let moved = known.iter().find(is_it)?.clone();
        Some(Self {
            name: name_of(folder),
            folder: folder.to_owned(),
            is_recorded: false,
            ..moved
        })
    }

    /// The project that people call so.
    pub fn named(base: &Path, name: &str) -> Result<Self, Refused> {
        let all = Self::all(base)?;
        let found: Vec<&Self> = all
            .iter()
            .filter(|it| it.name == name || it.id() == name)
            .collect();
        match found[..] {
            [one] => Ok(one.clone()),
            [] => {
                let known: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
                let hint = match known.is_empty() {
                    true => "relight init in its folder makes one".to_owned(),
                    false => format!("known are {}; relight init makes one", known.join(", ")),
                };
                let text = format!("there is no project {name}");
                Err(Refused::new(ErrorCode::CONFIG, text, hint))
            }
            _ => {
                let ids: Vec<String> = found
                    .iter()
                    .map(|it| format!("{} ({})", it.id(), it.folder.display()))
                    .collect();
                let text = format!("there are {} projects called {name}", found.len());
                let hint = format!("give one of: {}", ids.join(", "));
                Err(Refused::new(ErrorCode::CONFIG, text, hint))
            }
        }
    }

    /// All that were used here, by name.
    pub fn all(base: &Path) -> Result<Vec<Self>, Refused> {
        let folder = base.join(FOLDER);
        let read = || -> io::Result<Vec<Self>> {
            let mut all = Vec::new();
            for entry in fs::read_dir(&folder)?.take(PROJECTS_MAX) {
                all.extend(Self::read(&entry?.path()));
            }
            Ok(all)
        };
        let mut all = match read() {
            Ok(all) => all,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                let folder = folder.display();
                let text = format!("cannot read the projects in {folder}: {error}");
                let hint = format!("make {folder} a folder that you can read, or give --home DIR");
                return Err(Refused::new(ErrorCode::IO, text, hint));
            }
        };
        all.sort_by(|one, other| (&one.name, &one.folder).cmp(&(&other.name, &other.folder)));
        Ok(all)
    }

    /// Its name with what tells it from others of that name.
    pub fn id(&self) -> String {
        let id = self.own_home.file_name().unwrap_or_default();
        id.to_string_lossy().into_owned()
    }

    /// Its configuration.
    pub fn config(&self) -> PathBuf {
        self.folder.join(CONFIG_FILE)
    }

    /// Why no daemon can run it: its folder, or the configuration in it, is gone.
    pub fn missing(&self) -> Option<Refused> {
        let (name, folder) = (&self.name, self.folder.display());
        let text = match (self.folder.is_dir(), self.config().exists()) {
            (_, true) => return None,
            (true, false) => format!("{CONFIG_FILE} of project {name} is gone from {folder}"),
            (false, false) => format!("the folder of project {name} is gone: {folder}"),
        };
        let hint = format!(
            "if it was moved, run relight status in its new folder; else make {folder}/{CONFIG_FILE} \
             again, or forget the project: relight project remove {}",
            self.id()
        );
        Some(Refused::new(ErrorCode::CONFIG, text, hint))
    }

    /// Whether it has a home that no other project uses.
    pub fn is_separate(&self) -> bool {
        self.home == self.own_home
    }

    /// The same with a home of its own, or in the user's default home.
    #[must_use]
    pub fn in_home(self, shared: Option<&Path>) -> Self {
        let home = shared.map_or_else(|| self.own_home.clone(), Path::to_path_buf);
        Self {
            home,
            is_recorded: false,
            earlier_work: None,
            ..self
        }
    }

    /// Whether the choice is still to be kept. What could not be read may be readable at the next command,
    /// which then decides.
    pub fn is_to_record(&self) -> bool {
        !self.is_recorded && self.earlier_work != Some(EarlierWork::Unreadable)
    }

    /// Forgets the project, on disk when it returns. What is in its home stays there.
    pub fn forget(&self) -> io::Result<()> {
        fs::remove_file(self.own_home.join(RECORD))?;
        fs::File::open(&self.own_home)?.sync_all()
    }

    /// Keeps the choice, on disk when it returns.
    pub fn record(&self) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.own_home)?;
        let record = ProjectRecord {
            name: self.name.clone(),
            folder: self.folder.clone(),
            home: self.home.clone(),
            identity: FolderIdentity::of(&self.folder),
        };
        let path = self.own_home.join(RECORD);
        let draft = self
            .own_home
            .join(format!(".{RECORD}-{}", std::process::id()));
        fs::write(&draft, serde_json::to_string(&record)? + "\n")?;
        fs::set_permissions(&draft, Permissions::from_mode(0o600))?;
        fs::File::open(&draft)?.sync_all()?;
        fs::rename(&draft, &path)?;
        fs::File::open(&self.own_home)?.sync_all()
    }

    fn read(own_home: &Path) -> Option<Self> {
        let ProjectRecord {
            name, folder, home, ..
        } = ProjectRecord::read(own_home)?;
        Some(Self {
            name,
            folder,
            home,
            is_recorded: true,
            earlier_work: None,
            own_home: own_home.to_owned(),
        })
    }
}

impl ProjectRecord {
    fn read(own_home: &Path) -> Option<Self> {
        let text = file::read_regular(&own_home.join(RECORD), RECORD_BYTES_MAX)?;
        serde_json::from_slice(&text).ok()
    }
}

/// The folder's name, so far as it can stand in a path and on a command line.
fn name_of(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let plain = |c: char| match c {
        'A'..='Z' | 'a'..='z' | '0'..='9' | '.' | '_' | '-' => c,
        _ => '-',
    };
    let name: String = name.chars().map(plain).take(NAME_CHARS_MAX).collect();
    match name.trim_matches(['.', '-']) {
        "" => "project".to_owned(),
        name => name.to_owned(),
    }
}

/// The work of this folder that is in the default home already, as it was before projects had homes of their
/// own. Nobody must lose sight of it: what cannot be read counts too.
fn earlier_work(base: &Path, folder: &Path, is_shared: bool) -> Option<EarlierWork> {
    let store = match NodeFile::of(base) {
        Some(NodeFile { name, store, .. }) => match store.map(|url| StoreUrl::parse(&url, base)) {
            Some(Ok(url @ StoreUrl::Sqlite(_))) => url,
            _ => return (!is_shared).then_some(EarlierWork::Node(name)),
        },
        None => StoreUrl::Sqlite(base.join("relight.db")),
    };
    if matches!(&store, StoreUrl::Sqlite(file) if !file.exists()) {
        return None;
    }
    // The caller may be part of an executor, in which nothing may block on another.
    let asked = std::thread::scope(|scope| scope.spawn(|| work_in(&store, folder)).join());
    match asked {
        Ok(Ok(found)) => found,
        Ok(Err(_)) | Err(_) => Some(EarlierWork::Unreadable),
    }
}

/// Whether anything was ever recorded in the store of this home. One that cannot be read counts.
pub fn has_history(home: &Path) -> bool {
    let file = home.join("relight.db");
    if !file.exists() {
        return false;
    }
    let look = || -> Result<u64, StoreError> {
        let store = StoreUrl::Sqlite(file).open(Use::Short)?;
        executor().block_on(store.newest_event())
    };
    let asked = std::thread::scope(|scope| scope.spawn(look).join());
    !matches!(asked, Ok(Ok(0)))
}

fn executor() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime without drivers cannot fail")
}

fn work_in(store: &StoreUrl, folder: &Path) -> Result<Option<EarlierWork>, StoreError> {
    let store = store.open(Use::Short)?;
    let runtime = executor();
    // A folder below may be another project.
    let is_here = |path: &str| {
        let path = Path::new(path);
        let config = || nearest_config(path);
        path.starts_with(folder) && config().is_none_or(|it| it.parent() == Some(folder))
    };
    runtime.block_on(async {
        let agents = store.agents(AgentQuery::default()).await?.into_iter();
        let agents = agents.filter(|agent| is_here(&agent.plan.folder));
        let names: Vec<AgentName> = agents.map(|agent| agent.name).collect();
        if !names.is_empty() {
            return Ok(Some(EarlierWork::Agents(names)));
        }
        let unfinished = TaskStatus::ALL.into_iter();
        let unfinished = TaskQuery {
            statuses: unfinished.filter(|it| !it.is_terminal()).collect(),
            ..TaskQuery::default()
        };
        let is_its = |task: &Task| {
            let files = task.checkpoint.as_ref().map(|it| &it.folder);
            let workspace = task.context.get("workspace");
            files.into_iter().chain(workspace).any(|path| is_here(path))
        };
        let tasks = store.tasks(unfinished).await?;
        let found = tasks.into_iter().find(is_its);
        Ok(found.map(|task| EarlierWork::Task(task.id)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine {
        _folder: tempfile::TempDir,
        base: PathBuf,
        work: PathBuf,
    }

    impl Machine {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().canonicalize().unwrap();
            let (base, work) = (root.join("state/relight"), root.join("work"));
            fs::create_dir(&work).unwrap();
            Self {
                _folder: folder,
                base,
                work,
            }
        }

        fn project(&self, path: &str) -> PathBuf {
            let folder = self.work.join(path);
            fs::create_dir_all(&folder).unwrap();
            let config = folder.join(CONFIG_FILE);
            fs::write(&config, "").unwrap();
            fs::set_permissions(&config, Permissions::from_mode(0o644)).unwrap();
            config
        }

        fn of(&self, config: &Path) -> Project {
            Project::of_config(&self.base, config).unwrap().unwrap()
        }
    }

    #[test]
    fn each_folder_has_a_home_of_its_own_in_the_users_state() {
        let machine = Machine::new();
        let (one, other) = (
            machine.of(&machine.project("a/shop")),
            machine.of(&machine.project("b/shop")),
        );
        assert_eq!((one.name.as_str(), other.name.as_str()), ("shop", "shop"));
        assert_ne!(one.home, other.home);
        assert!(one.home.starts_with(machine.base.join("projects")));
        one.record().unwrap();
        other.record().unwrap();
        assert!(machine.of(&one.config()).is_recorded);
        let ambiguous = Project::named(&machine.base, "shop").unwrap_err();
        assert!(ambiguous.hint.unwrap().contains(&one.id()));
        assert_eq!(
            Project::named(&machine.base, &one.id()).unwrap().home,
            one.home
        );
        assert!(Project::named(&machine.base, "nosuch").is_err());
    }

    #[test]
    fn the_nearest_file_counts_and_none_that_others_can_write() {
        let machine = Machine::new();
        let outer = machine.project("");
        let inner = machine.project("a");
        let deep = machine.work.join("a/b/c");
        fs::create_dir_all(&deep).unwrap();
        assert_eq!(nearest_config(&deep), Some(inner.clone()));
        assert_eq!(nearest_config(&machine.work), Some(outer.clone()));
        fs::set_permissions(&inner, Permissions::from_mode(0o666)).unwrap();
        assert_eq!(nearest_config(&deep), Some(outer), "passed over");
        assert_eq!(
            nearest_config(&machine.work.join("a")),
            Some(inner.clone()),
            "where one stands, it is found, and refused by whoever reads it"
        );
        assert_eq!(Project::of_config(&machine.base, &inner), Ok(None));
    }

    #[test]
    fn a_recorded_project_keeps_its_home_when_others_can_write_its_file() {
        let machine = Machine::new();
        let config = machine.project("a");
        machine.of(&config).record().unwrap();
        let before = machine.of(&config);
        fs::set_permissions(&config, Permissions::from_mode(0o666)).unwrap();
        assert_eq!(machine.of(&config), before);
    }

    #[test]
    fn a_project_that_was_moved_keeps_its_home() {
        let machine = Machine::new();
        let before = machine.of(&machine.project("shop"));
        before.record().unwrap();
        fs::rename(&before.folder, machine.work.join("store")).unwrap();
        let after = machine.of(&machine.work.join("store").join(CONFIG_FILE));
        if FolderIdentity::of(&after.folder).is_none() {
            return; // A file system without times of birth cannot tell.
        }
        assert_eq!((&after.home, after.name.as_str()), (&before.home, "store"));
        after.record().unwrap();
        assert_eq!(Project::all(&machine.base).unwrap().len(), 1);
        assert_eq!(
            machine.of(&after.config()).home,
            before.home,
            "from then on"
        );
        // A copy is another project.
        let copy = machine.of(&machine.project("shop"));
        assert_ne!(copy.home, after.home);
    }

    #[test]
    fn work_that_is_in_the_default_home_is_not_lost_sight_of() {
        let machine = Machine::new();
        fs::create_dir_all(&machine.base).unwrap();
        fs::set_permissions(&machine.base, Permissions::from_mode(0o700)).unwrap();
        let url = StoreUrl::Sqlite(machine.base.join("relight.db"));
        drop(url.open(Use::Short).unwrap());
        let first = machine.project("first");
        assert!(
            machine.of(&first).is_separate(),
            "an empty store holds nobody"
        );
        let node = r#"{"name": "n1", "instance": "i"}"#;
        fs::write(machine.base.join("node.json"), node).unwrap();
        let of_node = machine.of(&first).earlier_work;
        let node = NodeName::new("n1").unwrap();
        assert_eq!(of_node, Some(EarlierWork::Node(node)), "nobody can look");
        fs::remove_file(machine.base.join("node.json")).unwrap();
        fs::write(machine.base.join("relight.db"), "not a store").unwrap();
        let kept = machine.of(&first);
        assert_eq!(
            kept.home, machine.base,
            "what cannot be read may be its work"
        );
        kept.record().unwrap();
        let separate = kept.in_home(None);
        assert!(separate.is_separate());
        separate.record().unwrap();
        assert_eq!(machine.of(&first).home, separate.home);
    }

    #[test]
    fn names_are_words_that_can_be_typed() {
        for (folder, name) in [
            ("/work/my shop", "my-shop"),
            ("/work/.hidden", "hidden"),
            ("/", "project"),
            ("/work/…", "project"),
        ] {
            assert_eq!(name_of(Path::new(folder)), name);
        }
    }
}
