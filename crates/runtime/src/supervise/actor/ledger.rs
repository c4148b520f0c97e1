//! Writes the commits of one agent in order, in a task of its own. Callers need not wait for the
//! disk; those that must can wait for everything submitted so far.

use std::sync::Arc;
use std::time::Duration;

use relight_core::agent::change::AgentChange;
use relight_core::decide::Guard;
use relight_core::error_code::with_causes;
use relight_core::event::Event;
use relight_core::ids::AgentName;
use relight_core::lease::Fence;
use relight_core::time::Time;
use relight_store::{AgentCommit, AgentCommitError, EventQuery, Store, StoreError};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::SupervisionLost;
use crate::supervise::context::{NodeRight, SupervisorContext};
use crate::supervise::notices::What;

/// Maximum pause between retries while the store cannot be written; documented as the time in
/// which an agent continues once it can be.
const STORE_PAUSE_MAX: Duration = Duration::from_secs(5);
/// Conflicts in a row after which the agent is considered lost.
const MOVED_MAX: u32 = 1_000;
/// Number of newest events searched for one that may already be written.
const EVENTS_LOOKED_AT: usize = 1_000;

/// Changes with the time of their decision.
#[derive(Debug)]
struct PendingChanges {
    changes: Vec<AgentChange>,
    at: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteProgress {
    /// Number of durable entries.
    UpTo(u64),
    /// Another supervisor has the agent; nothing more is written.
    Lost,
}

/// The commits of one agent.
#[derive(Debug)]
pub(super) struct Ledger {
    agent: AgentName,
    entries: mpsc::UnboundedSender<PendingChanges>,
    handed_in: u64,
    written: watch::Receiver<WriteProgress>,
    /// Why the last try failed; none after a success.
    error: watch::Receiver<Option<String>>,
}

impl Ledger {
    /// Starts the writer with this fence.
    pub(super) fn open(
        context: Arc<SupervisorContext>,
        agent: AgentName,
        fence: Fence,
        right: NodeRight,
    ) -> Self {
        let (entries, received) = mpsc::unbounded_channel();
        let (written, seen) = watch::channel(WriteProgress::UpTo(0));
        let (errors, error) = watch::channel(None);
        let writer = Writer {
            context,
            right,
            errors,
        };
        tokio::spawn(writer.write(agent.clone(), fence, received, written));
        Self {
            agent,
            entries,
            handed_in: 0,
            written: seen,
            error,
        }
    }

    /// Submits changes; they become durable in this order.
    pub(super) fn hand_in(&mut self, changes: Vec<AgentChange>, at: Time) {
        self.handed_in += 1;
        // The receiver is gone once the agent is lost, which `settle` and `lost` report.
        let _ = self.entries.send(PendingChanges { changes, at });
    }

    /// Waits until everything submitted is durable.
    pub(super) async fn settle(&mut self) -> Result<(), SupervisionLost> {
        let all = WriteProgress::UpTo(self.handed_in);
        let settled = self
            .written
            .wait_for(|now| *now == all || *now == WriteProgress::Lost)
            .await;
        match settled.map(|now| *now) {
            Ok(WriteProgress::UpTo(_)) => Ok(()),
            Ok(WriteProgress::Lost) | Err(_) => Err(SupervisionLost::Fenced(self.agent.clone())),
        }
    }

    /// Resolves with the reason while commits fail and are retried. Not for files that were moved
    /// away: nothing about the agent is known there, so it is left alone.
    pub(super) fn failing(&self) -> impl Future<Output = String> + use<> {
        let mut error = self.error.clone();
        async move {
            match error
                .wait_for(Option::is_some)
                .await
                .map(|error| error.clone())
            {
                Ok(Some(error)) => error,
                Ok(None) | Err(_) => std::future::pending().await,
            }
        }
    }

    /// Resolves when another supervisor has the agent; never otherwise.
    pub(super) async fn lost(&self) -> SupervisionLost {
        let mut written = self.written.clone();
        let _ = written.wait_for(|now| *now == WriteProgress::Lost).await;
        SupervisionLost::Fenced(self.agent.clone())
    }
}

/// Writes commits in order.
struct Writer {
    context: Arc<SupervisorContext>,
    right: NodeRight,
    errors: watch::Sender<Option<String>>,
}

impl Writer {
    async fn write(
        self,
        agent: AgentName,
        fence: Fence,
        mut entries: mpsc::UnboundedReceiver<PendingChanges>,
        written: watch::Sender<WriteProgress>,
    ) {
        let mut count = 0;
        let mut told = ToldAt::default();
        while let Some(entry) = entries.recv().await {
            let guard = Guard {
                fence: Some(fence),
                seq: None,
            };
            let commit = AgentCommit {
                agent: agent.clone(),
                guard,
                at: entry.at,
                changes: entry.changes,
            };
            if !self.make_durable(&commit, told.before(&commit)).await {
                let _ = written.send(WriteProgress::Lost);
                return;
            }
            told.add(&commit);
            count += 1;
            let _ = written.send(WriteProgress::UpTo(count));
        }
    }

    /// Makes a commit durable; false when another supervisor has the agent. Retries while the store
    /// cannot be written; the agent keeps running meanwhile.
    async fn make_durable(&self, commit: &AgentCommit, told_before: usize) -> bool {
        let context = &self.context;
        let mut pause = Duration::from_millis(100);
        let (mut is_open, mut moved) = (false, 0);
        loop {
            // Another node may hold the agent by now and will reconcile it.
            if !context.still_has(self.right) {
                return false;
            }
            let store = context.engine.store().as_ref();
            let made = match is_open {
                false => store.commit_agent(commit.clone()).await.map(drop),
                true => make_once(store, commit, told_before).await,
            };
            match made {
                Ok(()) => {
                    self.errors.send_replace(None);
                    return true;
                }
                Err(AgentCommitError::Store(error)) => {
                    let text = with_causes(&error);
                    context
                        .notices
                        .tell(&commit.agent, What::Trouble(text.clone()));
                    if !matches!(error, StoreError::Replaced { .. }) {
                        self.errors.send_replace(Some(text));
                    }
                    // It may have been written, or may still be.
                    is_open = true;
                    sleep(pause).await;
                    pause = (pause * 2).min(STORE_PAUSE_MAX);
                }
                // Someone else wrote, or the unanswered try has arrived.
                Err(AgentCommitError::Moved(_)) if is_open && moved < MOVED_MAX => moved += 1,
                Err(
                    AgentCommitError::Fenced { .. }
                    | AgentCommitError::Moved(_)
                    | AgentCommitError::Exists(_)
                    | AgentCommitError::Absent(_),
                ) => return false,
            }
        }
    }
}

/// Number of events written with the same decision time, to tell them apart.
#[derive(Debug, Default)]
struct ToldAt(Option<(Time, usize)>);

impl ToldAt {
    /// Events with the same time as this commit.
    fn before(&self, commit: &AgentCommit) -> usize {
        self.0
            .filter(|(at, _)| *at == commit.at)
            .map_or(0, |(_, count)| count)
    }

    fn add(&mut self, commit: &AgentCommit) {
        self.0 = Some((commit.at, self.before(commit) + told_by(commit)));
    }
}

fn told_by(commit: &AgentCommit) -> usize {
    commit
        .changes
        .iter()
        .filter(|change| change.is_told())
        .count()
}

/// Repeats a commit whose result is unknown, unless it was written, so that its events are not
/// duplicated. The agent is read before its events and must be unchanged: if the earlier try
/// arrives in between, this one is refused as `Moved`.
async fn make_once(
    store: &dyn Store,
    commit: &AgentCommit,
    told_before: usize,
) -> Result<(), AgentCommitError> {
    let absent = || AgentCommitError::Absent(commit.agent.clone());
    let agent = store.agent(&commit.agent).await?.ok_or_else(absent)?;
    let query = EventQuery {
        after: 0,
        before: None,
        task: None,
        agent: Some(commit.agent.clone()),
        kinds: Vec::new(),
        limit: EVENTS_LOOKED_AT,
        newest: true,
    };
    let is_ours = |event: &&Event| event.at == commit.at && event.fence == commit.guard.fence;
    let told = store.events(query).await?.iter().filter(is_ours).count();
    let tells = told_by(commit);
    if tells > 0 && told >= told_before + tells {
        return Ok(());
    }
    let guard = Guard {
        seq: Some(agent.seq),
        ..commit.guard
    };
    store
        .commit_agent(AgentCommit {
            guard,
            ..commit.clone()
        })
        .await
        .map(drop)
}

#[cfg(test)]
mod tests {
    use relight_core::event::EventKind;
    use relight_core::lease::Holder;
    use relight_store::MemoryStore;

    use super::*;

    const FENCE: Guard = Guard {
        fence: Some(Fence(1)),
        seq: None,
    };

    fn commit(guard: Guard, at_ms: i64, changes: Vec<AgentChange>) -> AgentCommit {
        let agent = AgentName::new("writer").unwrap();
        AgentCommit {
            agent,
            guard,
            at: Time::from_ms(at_ms),
            changes,
        }
    }

    fn note() -> Vec<AgentChange> {
        vec![AgentChange::Noted(EventKind::AgentSession, 1.into())]
    }

    async fn supervised() -> MemoryStore {
        let store = MemoryStore::new();
        let holder = Holder::Time {
            by: "test".to_owned(),
        };
        let changes = vec![
            AgentChange::Created(Box::default()),
            AgentChange::LeaseTaken { holder, ttl: None },
        ];
        store
            .commit_agent(commit(Guard::default(), 1, changes))
            .await
            .unwrap();
        store
    }

    async fn notes(store: &MemoryStore) -> usize {
        let kinds = vec![EventKind::AgentSession];
        let (after, before, task, agent, limit, newest) = (0, None, None, None, 100, false);
        let query = EventQuery {
            after,
            before,
            task,
            agent,
            kinds,
            limit,
            newest,
        };
        store.events(query).await.unwrap().len()
    }

    #[tokio::test]
    async fn what_was_made_and_not_answered_is_not_told_twice() {
        let store = supervised().await;
        store.commit_agent(commit(FENCE, 2, note())).await.unwrap();
        make_once(&store, &commit(FENCE, 2, note()), 0)
            .await
            .unwrap();
        assert_eq!(notes(&store).await, 1);
    }

    #[tokio::test]
    async fn what_was_never_made_is_made_beside_others_of_the_same_moment() {
        let store = supervised().await;
        let mut told = ToldAt::default();
        store.commit_agent(commit(FENCE, 2, note())).await.unwrap();
        told.add(&commit(FENCE, 2, note()));
        let next = commit(FENCE, 2, note());
        make_once(&store, &next, told.before(&next)).await.unwrap();
        assert_eq!(notes(&store).await, 2);
    }
}
