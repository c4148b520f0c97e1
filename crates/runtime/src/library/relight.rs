//! Opening a store, and asking for a task.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use relight_core::decide::{Refusal, Right};
use relight_core::ids::{AgentName, IdError, IdempotencyKey, SessionKey, StepName, TaskId};
use relight_core::lease::{Held, Holder, LEASE_MAX, ProcessIdentity};
use relight_core::redact::{MarkKey, Redactor};
use relight_core::session::Rules;
use relight_core::task::{NewTask, TaskSpec};
use relight_core::time::Span;
use relight_store::StoreError;
use relight_store::sqlite::Use;

use super::home::mark_key_beside;
use super::session::SessionBuilder;
use super::task::RunningTask;
use crate::doors::{clock, environment, process, random};
use crate::engine::{ActError, Engine};
use crate::sessions::{self, Decided, Owner, SessionError};
use crate::store_url::{StoreUrl, StoreUrlError};

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL names no store.
    #[error(transparent)]
    Url(#[from] StoreUrlError),
    /// The store itself.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The folder of the store.
    #[error("cannot use the folder of the store")]
    Folder(#[source] std::io::Error),
}

/// An open store.
///
/// ```
/// # tokio_test(async {
/// use relight::Relight;
///
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}/relight.db", folder.path().display());
/// let relight = Relight::open(&url).await?;
/// let task = relight.task("greet-42")?.title("Greet the world").start().await?;
/// let name: String = task.step("choose", || async { Ok::<_, std::io::Error>("world".into()) }).await?;
/// task.step("greet", || async { println!("hello {name}"); Ok::<_, std::io::Error>(()) }).await?;
/// task.done().await?;
/// # anyhow::Ok(()) });
/// # fn tokio_test(f: impl Future<Output = anyhow::Result<()>>) {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(f).unwrap();
/// # }
/// ```
///
/// Killed at any moment and started again, this program goes on after the last finished step; a
/// finished step gives its recorded value and is not run again.
#[derive(Debug, Clone)]
pub struct Relight {
    engine: Engine,
}

impl Relight {
    /// Opens a store by its URL, `sqlite:PATH` or `memory:`, creating it when there is none.
    pub async fn open(url: &str) -> Result<Self, OpenError> {
        let url = StoreUrl::parse(url, Path::new("."))?;
        let store = url.open(Use::Long)?;
        let key = match store.file().as_deref().and_then(Path::parent) {
            Some(folder) => mark_key_beside(folder).map_err(OpenError::Folder)?,
            None => MarkKey::new(random::bytes()),
        };
        let variables = environment::variables();
        let redactor = Redactor::new(key).with_environment(environment::texts(&variables));
        Ok(Self { engine: Engine::new(store, redactor) })
    }

    /// Uses an engine that is there.
    pub fn with_engine(engine: Engine) -> Self {
        Self { engine }
    }

    /// What the rest of the product works with.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Asks for a task by its id; nothing happens before `start`.
    pub fn task(&self, id: &str) -> Result<TaskBuilder, IdError> {
        let new = NewTask::bare(TaskId::new(id)?);
        Ok(TaskBuilder { engine: self.engine.clone(), new, ttl: None, lifetime: None })
    }

    /// Asks for a session by its key; nothing happens before `begin`.
    pub fn session(&self, key: &str) -> Result<SessionBuilder, IdError> {
        Ok(SessionBuilder::new(self.engine.clone(), SessionKey::new(key)?))
    }

    /// What a gateway calls at its start: decides every session whose turn was cut off, and answers
    /// those that it decided. Live turns of other gateways are left alone.
    pub async fn recover_sessions(&self, rules: &Rules) -> Result<Vec<Decided>, SessionError> {
        sessions::recover(&self.engine, rules).await
    }

    /// What a gateway calls at its end: the marks of this process are discarded.
    pub async fn shutdown_sessions(&self) -> Result<Vec<SessionKey>, SessionError> {
        let mut discarded = Vec::new();
        for own in [own_process(), own_lease()] {
            discarded.extend(sessions::shutdown(&self.engine, &Owner::Holder(own)).await?);
        }
        Ok(discarded)
    }
}

/// A task to be started or continued.
#[derive(Debug)]
pub struct TaskBuilder {
    engine: Engine,
    new: NewTask,
    ttl: Option<Span>,
    lifetime: Option<Span>,
}

impl TaskBuilder {
    /// One line for people.
    pub fn title(mut self, title: &str) -> Self {
        self.spec().title = Some(title.to_owned());
        self
    }

    /// Declares a step ahead, so that others can see what is still to do.
    pub fn declare(mut self, step: &str) -> Result<Self, IdError> {
        self.spec().steps.push(StepName::new(step)?);
        Ok(self)
    }

    /// What makes two requests the same request.
    pub fn key(mut self, key: &str) -> Result<Self, IdError> {
        self.spec().key = Some(IdempotencyKey::new(key)?);
        Ok(self)
    }

    /// Whose task it is.
    pub fn agent(mut self, agent: &str) -> Result<Self, IdError> {
        self.new.agent = Some(AgentName::new(agent)?);
        Ok(self)
    }

    /// What the task is about.
    pub fn payload(mut self, payload: serde_json::Value) -> Self {
        self.spec().payload = Some(payload);
        self
    }

    /// First context for a successor.
    pub fn context(mut self, pairs: BTreeMap<String, String>) -> Self {
        self.new.context = pairs;
        self
    }

    /// After this long it is not worth resuming.
    pub fn expires_in(mut self, span: Span) -> Self {
        self.lifetime = Some(span);
        self.spec().ttl_ms = Some(span.as_ms());
        self
    }

    /// Holds the task by a lease of this length that is renewed in the background, instead of for
    /// as long as this process lives. For stores that other machines share.
    pub fn lease(mut self, ttl: Span) -> Self {
        self.ttl = Some(ttl.min(LEASE_MAX));
        self
    }

    /// Starts the task, or continues it where it was. Must be called inside a Tokio runtime.
    pub async fn start(mut self) -> Result<RunningTask, ActError> {
        self.new.expires_at = self.lifetime.map(|span| clock::now().plus(span));
        let holder = match self.ttl {
            Some(_) => own_lease(),
            None => own_process(),
        };
        // The key may belong to another task: that one is started, and its seat is taken.
        let task = self.engine.add(self.new).await?.task().clone();
        let seat = Seat::take(&self.engine, &task.id)?;
        // Nobody sits there, so what this process still holds belongs to a handle that is gone. A
        // lease of its own keeps what that one left behind from ending it.
        let left_over = task.lease.held.is_some_and(|held| held.holder == holder);
        let started =
            self.engine.take(&task.id, Right::Unfenced, holder, self.ttl, left_over).await?;
        Ok(RunningTask::new(self.engine, started, self.ttl, seat))
    }

    fn spec(&mut self) -> &mut TaskSpec {
        &mut self.new.spec
    }
}

pub(super) fn own_process() -> Holder {
    static ME: OnceLock<ProcessIdentity> = OnceLock::new();
    let me = ME.get_or_init(|| {
        let me = process::identity(std::process::id());
        me.expect("this process is there while it asks")
    });
    Holder::Process(me.clone())
}

/// The holder of a lease that this process renews.
pub(super) fn own_lease() -> Holder {
    Holder::Time { by: format!("process {}", std::process::id()) }
}

/// The right of one handle in this process to hold a task: to the store all of a process's
/// handles are the same holder.
#[derive(Debug)]
pub(super) struct Seat {
    key: (String, TaskId),
}

impl Seat {
    fn take(engine: &Engine, task: &TaskId) -> Result<Arc<Self>, ActError> {
        let place = match engine.store().file() {
            Some(path) => path.canonicalize().unwrap_or(path).display().to_string(),
            None => format!("{:p}", Arc::as_ptr(engine.store())),
        };
        let key = (place, task.clone());
        if seats().insert(key.clone()) {
            return Ok(Arc::new(Self { key }));
        }
        let held = Held { holder: own_process(), ttl: None, since: clock::now(), left: None };
        Err(Refusal::Held { task: task.clone(), held: Box::new(held) }.into())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        seats().remove(&self.key);
    }
}

fn seats() -> std::sync::MutexGuard<'static, HashSet<(String, TaskId)>> {
    static SEATS: OnceLock<Mutex<HashSet<(String, TaskId)>>> = OnceLock::new();
    SEATS.get_or_init(Mutex::default).lock().expect("nothing panics while it is locked")
}
