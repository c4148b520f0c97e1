//! An open store, and the doors to its tasks, its queue and its sessions.

use std::error::Error;
use std::sync::Arc;

use relight_core::ids::{AgentName, IdError, SessionKey, TaskId};
use relight_core::session::Rules;
use relight_core::task::NewTask;
use relight_store::StoreError;

use super::boundary::End;
use super::engine_access::EngineAccess as _;
use super::open::{OpenError, RelightBuilder};
use super::process_claims::{OwnHolder, StoreIdentity};
use super::queue::TaskQueue;
use super::session::SessionBuilder;
use super::task::RunningTask;
use super::task_builder::TaskBuilder;
use super::worker::{Worked, Worker};
use crate::engine::ActError;
use crate::queue::Queue;
use crate::recovery::TaskSweep;
use crate::sessions::{self, Decided, Owner, SessionError};

/// An open store.
///
/// ```
/// # tokio_test(async {
/// use relight_runtime::Relight;
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
    pub(super) queue: Queue,
    pub(super) place: StoreIdentity,
    pub(super) own: OwnHolder,
}

impl Relight {
    /// Opens a store by its URL, `sqlite:PATH` or `memory:`, creating it when there is none.
    pub async fn open(url: &str) -> Result<Self, OpenError> {
        Self::builder(url).open().await
    }

    /// Opens a store with strategies and limits of the program's own.
    ///
    /// ```
    /// # tokio_test(async {
    /// use relight_runtime::{RecoveryAnswer, Decision, HolderDeath, RecoveryContext, RecoveryStrategy, Relight, StrategyError};
    /// use relight_runtime::core::task::Task;
    ///
    /// /// Tasks that were not begun go to somebody else; the others wait for a person.
    /// struct AskOps;
    ///
    /// impl RecoveryStrategy for AskOps {
    ///     fn recover(&self, _: &Task, _: &HolderDeath, context: &RecoveryContext) -> Result<RecoveryAnswer, StrategyError> {
    ///         if context.steps_done == 0 {
    ///             return Ok(Decision::Reassign { keep_progress: true }.into());
    ///         }
    ///         Ok(RecoveryAnswer::from(Decision::Suspend).because("it had effects already"))
    ///     }
    /// }
    ///
    /// let relight = Relight::builder("memory:")
    ///     .strategy("ask-ops", AskOps)
    ///     .default_strategy("ask-ops")
    ///     .open()
    ///     .await?;
    /// # let _ = relight;
    /// # anyhow::Ok(()) });
    /// # fn tokio_test(f: impl Future<Output = anyhow::Result<()>>) {
    /// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(f).unwrap();
    /// # }
    /// ```
    pub fn builder(url: &str) -> RelightBuilder {
        RelightBuilder::new(url)
    }

    /// Asks for a task by its id; nothing happens before `start` or `add`.
    pub fn task(&self, id: &str) -> Result<TaskBuilder, IdError> {
        let new = NewTask::bare(TaskId::new(id)?);
        Ok(TaskBuilder::new(
            self.recoverer().clone(),
            self.place.clone(),
            self.own.clone(),
            new,
        ))
    }

    /// The tasks that wait for somebody to take them.
    pub fn queue(&self) -> TaskQueue {
        TaskQueue::new(self.queue.clone(), self.place.clone(), self.own.clone())
    }

    /// Somebody who works through the queue under this name.
    pub fn worker(&self, agent: &str) -> Result<Worker, IdError> {
        Ok(Worker::new(self.queue(), AgentName::new(agent)?))
    }

    /// Works through the queue under this name for as long as the store can be used: `Ok(())` ends a
    /// task, an error or a panic is given to its strategy, and the next one is taken. See
    /// [`Worker::run`].
    ///
    /// ```no_run
    /// # async fn example(relight: relight_runtime::Relight) -> anyhow::Result<()> {
    /// relight
    ///     .work("mailer", |task| async move {
    ///         let sent: u32 = task.step("send", || async { Ok::<_, std::io::Error>(1) }).await?;
    ///         anyhow::ensure!(sent > 0, "nothing was sent");
    ///         Ok(())
    ///     })
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub async fn work<T, E, F, Fut>(&self, agent: &str, work: F) -> Result<Worked, ActError>
    where
        F: Fn(Arc<RunningTask>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Into<End> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
    {
        self.worker(agent)?.run(work).await
    }

    /// Finds what dead holders left and gives each task to its strategy. Claims do the same when the
    /// queue is empty; a program calls it at its start to know at once where it stands.
    pub async fn recover(&self) -> Result<TaskSweep, StoreError> {
        self.queue.recover().await
    }

    /// Asks for a session by its key; nothing happens before `begin`.
    pub fn session(&self, key: &str) -> Result<SessionBuilder, IdError> {
        Ok(SessionBuilder::new(
            self.engine().clone(),
            SessionKey::new(key)?,
            self.own.clone(),
        ))
    }

    /// What a gateway calls at its start: decides every session whose turn was cut off, and answers
    /// those that it decided. Live turns of other gateways are left alone.
    pub async fn recover_sessions(&self, rules: &Rules) -> Result<Vec<Decided>, SessionError> {
        sessions::recover(self.engine(), rules).await
    }

    /// What a gateway calls at its end: the marks of this process are discarded.
    pub async fn shutdown_sessions(&self) -> Result<Vec<SessionKey>, SessionError> {
        let mut discarded = Vec::new();
        for own in self.own.all() {
            discarded.extend(sessions::shutdown(self.engine(), &Owner::Holder(own)).await?);
        }
        Ok(discarded)
    }
}
