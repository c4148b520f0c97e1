//! The product as the benches see it: everything they call of Relight is in this file.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use anyhow::Context as _;
use relight_redact::{MarkKey, Redactor};
use relight_runtime::EngineAccess as _;
use relight_runtime::core::agent::change::AgentChange;
use relight_runtime::core::agent::death::HowEnded;
use relight_runtime::core::agent::{
    AgentPlan, AgentState, AttemptTag, Cause, Death, RecordedDeath,
};
use relight_runtime::core::change::Change;
use relight_runtime::core::checkpoint::{Checkpoint, Extra, SchemaVersion, WorkflowStatus};
use relight_runtime::core::decide::Guard;
use relight_runtime::core::ids::{AgentName, NodeName, SessionId, SessionKey, TaskId};
use relight_runtime::core::lease::{Holder, HolderLife, ProcessIdentity};
use relight_runtime::core::node::{Epoch, NewNode};
use relight_runtime::core::session::{SessionChange, SessionDecisionInput, SessionEvent, decide};
use relight_runtime::core::status::TaskStatus;
use relight_runtime::core::task::NewTask;
use relight_runtime::core::time::Span;
use relight_runtime::os::{clock, process};
use relight_runtime::store::{AgentCommit, Commit, Joined};
use relight_runtime::{Relight, RunningTask};
use tokio::task::JoinSet;

/// How many commits are handed in at a time while a store is filled.
const FILLERS: usize = 256;
/// A process that nobody is any more: of another boot.
const NOBODY: u32 = 1;
/// Attempts of an agent with a past.
const LIVES: u32 = 5;

/// A store opened through the library, in a home of its own.
pub(crate) struct Library(Relight);

/// What a store is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backlog {
    /// Waits to be claimed.
    Waiting,
    /// Completed long ago.
    Finished,
    /// Not due for a year.
    Deferred,
    /// Held by a process that died.
    InFlight,
    /// Held by a process of another node, whose name the ids begin with.
    OnNode,
}

impl Library {
    /// Opens (and makes) the SQLite store of `home`, with the library's defaults.
    pub(crate) async fn open(home: &Path) -> anyhow::Result<Library> {
        let url = format!("sqlite:{}", home.join("relight.db").display());
        Self::open_url(&url).await
    }

    /// Opens (and makes) the store at this URL.
    pub(crate) async fn open_url(url: &str) -> anyhow::Result<Library> {
        Ok(Library(Relight::open(url).await?))
    }

    /// Adds a task and takes its lease: it is `in_progress` and this process holds it.
    pub(crate) async fn start_task(&self, id: &str) -> anyhow::Result<Task> {
        Ok(Task(self.0.task(id)?.start().await?))
    }

    /// Marks a turn of this session and clears it; each durable.
    pub(crate) async fn turn(&self, key: &str) -> anyhow::Result<()> {
        let turn = self.0.session(key)?.begin("conversation").await?;
        Ok(turn.end().await?)
    }

    /// Leaves so many turns in flight whose owner is gone.
    pub(crate) async fn cut_off_sessions(&self, count: usize) -> anyhow::Result<()> {
        let me = process::identity(std::process::id()).context("this process lives")?;
        let gone = Holder::Process(ProcessIdentity {
            start: me.start + 1,
            ..me
        });
        let now = clock::now();
        for batch in (0..count).collect::<Vec<_>>().chunks(10_000) {
            let begun = |number: &usize| -> anyhow::Result<SessionChange> {
                let key = SessionKey::new(format!("telegram:dm:{number:06}"))?;
                let session_id = SessionId::new(format!("0197f3a2-conversation-{number:06}"))?;
                let owner = gone.clone();
                let context = [("model".to_owned(), "opus".to_owned())].into();
                let event = SessionEvent::Begin {
                    session_id,
                    owner,
                    ttl: None,
                    context,
                };
                let scene = SessionDecisionInput {
                    key: &key,
                    session: None,
                    life: HolderLife::Gone,
                    now,
                };
                decide(scene, event)?.context("a begin changes something")
            };
            let changes = batch
                .iter()
                .map(begun)
                .collect::<anyhow::Result<Vec<_>>>()?;
            self.0
                .engine()
                .store()
                .commit_sessions(changes, now)
                .await?;
        }
        Ok(())
    }

    /// Adds a task that `relight check` must name once it is older than `--stale`.
    pub(crate) async fn add_unfinished_task(&self, id: &str) -> anyhow::Result<()> {
        self.0.engine().add(NewTask::bare(TaskId::new(id)?)).await?;
        Ok(())
    }

    /// Adds `count` tasks of one kind whose ids begin with `name`.
    pub(crate) async fn fill(
        &self,
        name: &str,
        count: usize,
        backlog: Backlog,
    ) -> anyhow::Result<()> {
        let mut filling = JoinSet::new();
        for number in 0..count {
            if filling.len() >= FILLERS {
                filling.join_next().await.context("a filler")???;
            }
            let mut new = NewTask::bare(TaskId::new(format!("{name}-{number}"))?);
            new.spec.title = Some("a task with a title of usual length".to_owned());
            let is_held = matches!(backlog, Backlog::InFlight | Backlog::OnNode);
            new.spec.strategy = is_held.then(|| "resume".to_owned());
            let (task, at) = (new.id.clone(), clock::now());
            let mut changes = vec![Change::Created(Box::new(new))];
            changes.extend(backlog.changes(name)?);
            let commit = Commit {
                task,
                guard: Guard::default(),
                at,
                changes,
            };
            let store = Arc::clone(self.0.engine().store());
            filling.spawn(async move { store.commit(commit).await.map(drop) });
        }
        while let Some(filled) = filling.join_next().await {
            filled??;
        }
        Ok(())
    }

    /// Adds so many agents, each of which died and came back a few times.
    pub(crate) async fn add_agents_with_a_past(&self, count: usize) -> anyhow::Result<()> {
        for number in 0..count {
            let agent = AgentName::new(format!("agent-{number:04}"))?;
            let plan = AgentPlan {
                command: vec!["./agent.sh".to_owned()],
                ..AgentPlan::default()
            };
            let mut changes = vec![AgentChange::Created(Box::new(plan))];
            changes.extend((1..=LIVES).flat_map(|life| life_and_death(&agent, life)));
            changes.push(AgentChange::State(AgentState::Crashed { again_at: None }));
            let (guard, at) = (Guard::default(), clock::now());
            self.0
                .engine()
                .store()
                .commit_agent(AgentCommit {
                    agent,
                    guard,
                    at,
                    changes,
                })
                .await?;
        }
        Ok(())
    }

    /// Leaves so many tasks in flight on a node that is not heard of again.
    pub(crate) async fn lose_node(
        &self,
        name: &str,
        lease_ms: u64,
        tasks: usize,
    ) -> anyhow::Result<()> {
        self.join_node(name, lease_ms).await?;
        self.fill(name, tasks, Backlog::OnNode).await
    }

    async fn join_node(&self, name: &str, lease_ms: u64) -> anyhow::Result<Epoch> {
        let node = NewNode {
            name: NodeName::new(name)?,
            instance: "bench".to_owned(),
            labels: Vec::new(),
            address: None,
            version: "0".to_owned(),
            ttl: Span::from_ms(lease_ms),
            process: None,
        };
        match self
            .0
            .engine()
            .store()
            .join_node(node, None, clock::now())
            .await?
        {
            Joined::As(epoch) => Ok(epoch),
            Joined::Taken(other) | Joined::Overtaken(other) => {
                anyhow::bail!("{} is there", other.new.name)
            }
        }
    }

    /// Joins, and renews the lease so often.
    pub(crate) async fn renew_node(&self, name: &str, times: usize) -> anyhow::Result<()> {
        let epoch = self.join_node(name, 60_000).await?;
        let name = NodeName::new(name)?;
        for _ in 0..times {
            let renewed = self.0.engine().store().renew_node(&name, epoch).await?;
            anyhow::ensure!(renewed, "a live node renews its lease");
        }
        Ok(())
    }

    /// Removes all events that are no step's; answers how many.
    pub(crate) async fn forget_events(&self) -> anyhow::Result<u64> {
        Ok(self.0.engine().store().forget_events(clock::now()).await?)
    }

    /// How many events there are.
    pub(crate) async fn newest_event(&self) -> anyhow::Result<u64> {
        Ok(self.0.engine().store().newest_event().await?)
    }

    /// Takes the best task there is, and ends it.
    pub(crate) async fn claim_and_end(&self) -> anyhow::Result<()> {
        let task = self
            .0
            .queue()
            .claim("bench", &[])
            .await?
            .context("the queue ran dry")?;
        Ok(task.done().await?)
    }
}

/// One attempt from its begin to its end.
fn life_and_death(agent: &AgentName, number: u32) -> [AgentChange; 3] {
    let process = ProcessIdentity {
        pid: NOBODY,
        start: 1,
        boot: "a boot long ago".to_owned(),
        node: None,
    };
    let tag = AttemptTag::new(agent, number, u64::from(number));
    let death = Death {
        how: HowEnded::Signal(9),
        ..Death::lost(clock::now(), "killed")
    };
    let ended = Box::new(RecordedDeath {
        cause: Cause::Signal,
        death,
    });
    [
        AgentChange::Begun { number, tag },
        AgentChange::Spawned {
            number,
            process,
            shim: None,
            log: None,
        },
        AgentChange::Ended {
            number,
            ended,
            post_mortem: Box::default(),
        },
    ]
}

impl Backlog {
    fn changes(self, name: &str) -> anyhow::Result<Vec<Change>> {
        let to = |to| Change::Status { to, reason: None };
        let held_on = |node| {
            let boot = "a boot long ago".to_owned();
            let holder = Holder::Process(ProcessIdentity {
                pid: NOBODY,
                start: 1,
                boot,
                node,
            });
            vec![
                Change::LeaseTaken { holder, ttl: None },
                to(TaskStatus::InProgress),
            ]
        };
        Ok(match self {
            Self::Waiting => Vec::new(),
            Self::Finished => vec![to(TaskStatus::InProgress), to(TaskStatus::Completed)],
            Self::Deferred => {
                let year = Span::from_secs(365 * 24 * 3_600);
                vec![
                    to(TaskStatus::Deferred),
                    Change::NotBefore(Some(clock::now().plus(year))),
                ]
            }
            Self::InFlight => held_on(None),
            Self::OnNode => held_on(Some(NodeName::new(name)?)),
        })
    }
}

/// A task this process holds.
pub(crate) struct Task(RunningTask);

impl Task {
    /// Runs one step whose work is nothing and whose result is `result`; durable on return.
    pub(crate) async fn step(&mut self, name: &str, result: &str) -> anyhow::Result<()> {
        let value = || async { anyhow::Ok(result.to_owned()) };
        self.0
            .step(name, value)
            .await
            .map(|_: String| ())
            .context("a step")
    }
}

/// The text of a checkpoint file of an unfinished workflow, saved just now and verified by its hash.
pub(crate) fn checkpoint_text(workflow: &str) -> String {
    let checkpoint = Checkpoint {
        schema_version: SchemaVersion::default(),
        workflow_id: workflow.to_owned(),
        agent_id: "bench".to_owned(),
        status: WorkflowStatus::InProgress,
        current_step: Some("migrate".to_owned()),
        completed_steps: vec!["backup".to_owned(), "drain".to_owned()],
        remaining_steps: vec!["restart".to_owned()],
        handoff_to: None,
        notes: Some("a note of a usual length for whoever comes next".to_owned()),
        idempotency_key: format!("{workflow}-1"),
        updated_at: clock::now().as_timestamp(),
        expires_at: None,
        fence: 1,
        seq: 3,
        context: std::collections::BTreeMap::new(),
        extra: Extra::default(),
        foreign: false,
    };
    String::from_utf8(checkpoint.seal()).expect("JSON is UTF-8")
}

/// `text` as it may be written to the disk: every recognised secret replaced.
pub(crate) fn redact(text: &str) -> String {
    static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| Redactor::new(MarkKey::new([7; 32])));
    REDACTOR.text(text).into_owned()
}
