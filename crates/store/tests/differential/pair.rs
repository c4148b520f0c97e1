//! Two stores side by side: every operation goes to both, every answer is compared.

use std::fmt::Debug;
use std::sync::Arc;

use relight_core::agent::{Agent, Attempt, AttemptTag};
use relight_core::claimant::Claimant;
use relight_core::event::Event;
use relight_core::ids::{AgentName, IdempotencyKey, SessionKey, TaskId};
use relight_core::lease::{Fence, HeldLease, Lease};
use relight_core::session::{Session, SessionChange, SessionState};
use relight_core::step::{Step, StepKey};
use relight_core::task::Task;
use relight_core::time::{Span, Time};
use relight_store::{
    AgentCommit, AgentCommitError, AgentQuery, AttemptQuery, Commit, CommitError, EventQuery,
    SessionQuery, Store, StoreError, TaskQuery,
};
use relight_testkit::conformance::Harness;
use serde_json::Value;

/// Both stores, with the handle that is in use at the moment.
pub(crate) struct Pair<'a> {
    seed: u64,
    operations: u32,
    harnesses: [&'a dyn Harness; 2],
    stores: [Arc<dyn Store>; 2],
    newest_events: [u64; 2],
}

impl<'a> Pair<'a> {
    pub(crate) async fn open(seed: u64, a: &'a dyn Harness, b: &'a dyn Harness) -> Self {
        let stores = [a.open().await, b.open().await];
        Self {
            seed,
            operations: 0,
            harnesses: [a, b],
            stores,
            newest_events: [0, 0],
        }
    }

    /// Goes on with new handles, as another process would.
    pub(crate) async fn reopen(&mut self) {
        let [a, b] = self.harnesses;
        self.stores = [a.open().await, b.open().await];
    }

    pub(crate) async fn advance(&mut self, span: Span) {
        for harness in self.harnesses {
            harness.advance(span).await;
        }
    }

    /// Whether it was taken.
    pub(crate) async fn commit(&mut self, commit: Commit) -> bool {
        let what = format!("{commit:?}");
        let [a, b] = &self.stores;
        let both = [
            told(a.commit(commit.clone()).await),
            told(b.commit(commit).await),
        ];
        self.same(&what, both).is_ok()
    }

    /// Neither answers; the caller commits something before it reads again.
    pub(crate) fn commit_deferred(&mut self, commit: Commit) {
        let [a, b] = &self.stores;
        a.commit_deferred(commit.clone());
        b.commit_deferred(commit);
    }

    pub(crate) async fn renew(&mut self, task: &TaskId, fence: Fence) {
        let [a, b] = &self.stores;
        let both = [
            told(a.renew(task, fence).await),
            told(b.renew(task, fence).await),
        ];
        self.same("renew", both).ok();
    }

    pub(crate) async fn forget(&mut self, tasks: Vec<(TaskId, u64)>, at: Time) {
        let what = format!("forget {tasks:?}");
        let [a, b] = &self.stores;
        let both = [
            read(a.forget(tasks.clone(), at).await),
            read(b.forget(tasks, at).await),
        ];
        self.same(&what, both);
    }

    pub(crate) async fn forget_events(&mut self, before: Time) {
        let [a, b] = &self.stores;
        let both = [
            read(a.forget_events(before).await),
            read(b.forget_events(before).await),
        ];
        self.same(&format!("forget events before {before}"), both);
    }

    pub(crate) async fn commit_agent(&mut self, commit: AgentCommit) {
        let what = format!("{commit:?}");
        let [a, b] = &self.stores;
        let both = [
            told_of_agent(a.commit_agent(commit.clone()).await),
            told_of_agent(b.commit_agent(commit).await),
        ];
        self.same(&what, both).ok();
    }

    pub(crate) async fn forget_agent(&mut self, name: &AgentName, seq: u64, at: Time) {
        let [a, b] = &self.stores;
        let both = [
            read(a.forget_agent(name, seq, at).await),
            read(b.forget_agent(name, seq, at).await),
        ];
        self.same(&format!("forget agent {name} at {seq}"), both);
    }

    pub(crate) async fn forget_attempts(&mut self, before: Time) {
        let [a, b] = &self.stores;
        let both = [
            read(a.forget_attempts(before).await),
            read(b.forget_attempts(before).await),
        ];
        self.same(&format!("forget attempts before {before}"), both);
    }

    pub(crate) async fn agent(&mut self, name: &AgentName) -> Option<Agent> {
        let [a, b] = &self.stores;
        let both = [read(a.agent(name).await), read(b.agent(name).await)]
            .map(|agent| agent.map(settled_agent));
        self.same("agent", both)
    }

    pub(crate) async fn agents(&mut self, query: AgentQuery) -> Vec<Agent> {
        let what = format!("{query:?}");
        let [a, b] = &self.stores;
        let both = [
            read(a.agents(query.clone()).await),
            read(b.agents(query).await),
        ]
        .map(|agents| {
            agents
                .into_iter()
                .map(settled_agent)
                .collect::<Vec<Agent>>()
        });
        self.same(&what, both)
    }

    pub(crate) async fn attempt(&mut self, tag: &AttemptTag) {
        let [a, b] = &self.stores;
        let both = [read(a.attempt(tag).await), read(b.attempt(tag).await)];
        self.same(&format!("attempt {tag}"), both);
    }

    pub(crate) async fn attempts(&mut self, query: AttemptQuery) -> Vec<Attempt> {
        let what = format!("{query:?}");
        let [a, b] = &self.stores;
        let both = [
            read(a.attempts(query.clone()).await),
            read(b.attempts(query).await),
        ];
        self.same(&what, both)
    }

    pub(crate) async fn commit_sessions(&mut self, changes: Vec<SessionChange>, at: Time) {
        let what = format!("{changes:?}");
        let [a, b] = &self.stores;
        let both = [
            read(a.commit_sessions(changes.clone(), at).await),
            read(b.commit_sessions(changes, at).await),
        ];
        self.same(&what, both);
    }

    pub(crate) async fn session(&mut self, key: &SessionKey) -> Option<Session> {
        let [a, b] = &self.stores;
        let both = [read(a.session(key).await), read(b.session(key).await)]
            .map(|session| session.map(settled_session));
        self.same("session", both)
    }

    pub(crate) async fn sessions(&mut self, query: SessionQuery) -> Vec<Session> {
        let what = format!("{query:?}");
        let [a, b] = &self.stores;
        let both = [
            read(a.sessions(query.clone()).await),
            read(b.sessions(query).await),
        ]
        .map(|sessions| {
            sessions
                .into_iter()
                .map(settled_session)
                .collect::<Vec<Session>>()
        });
        self.same(&what, both)
    }

    pub(crate) async fn kept(&mut self, name: &str) -> Option<Value> {
        let [a, b] = &self.stores;
        let both = [read(a.kept(name).await), read(b.kept(name).await)];
        self.same(&format!("kept {name}"), both)
    }

    pub(crate) async fn keep(&mut self, name: &str, before: Option<Value>, now: Value) {
        let what = format!("keep {name} {before:?} {now}");
        let [a, b] = &self.stores;
        let both = [
            read(a.keep(name, before.clone(), now.clone()).await),
            read(b.keep(name, before, now).await),
        ];
        self.same(&what, both);
    }

    pub(crate) async fn task(&mut self, id: &TaskId) -> Option<Task> {
        let [a, b] = &self.stores;
        let both = [read(a.task(id).await), read(b.task(id).await)].map(|task| task.map(settled));
        self.same("task", both)
    }

    pub(crate) async fn task_with_key(&mut self, key: &IdempotencyKey) {
        let [a, b] = &self.stores;
        let both = [
            read(a.task_with_key(key).await),
            read(b.task_with_key(key).await),
        ]
        .map(|task| task.map(settled));
        self.same("task with key", both);
    }

    pub(crate) async fn tasks(&mut self, query: TaskQuery) -> Vec<Task> {
        let what = format!("{query:?}");
        let [a, b] = &self.stores;
        let both = [
            read(a.tasks(query.clone()).await),
            read(b.tasks(query).await),
        ]
        .map(|tasks| tasks.into_iter().map(settled).collect::<Vec<Task>>());
        self.same(&what, both)
    }

    pub(crate) async fn unfinished(&mut self) {
        let [a, b] = &self.stores;
        let both = [read(a.unfinished().await), read(b.unfinished().await)];
        self.same("unfinished", both);
    }

    pub(crate) async fn step(&mut self, task: &TaskId, key: &StepKey) -> Option<Step> {
        let [a, b] = &self.stores;
        let both = [read(a.step(task, key).await), read(b.step(task, key).await)];
        self.same("step", both)
    }

    pub(crate) async fn steps(&mut self, task: &TaskId) -> Vec<Step> {
        let [a, b] = &self.stores;
        let both = [read(a.steps(task).await), read(b.steps(task).await)];
        self.same("steps", both)
    }

    pub(crate) async fn output(&mut self, task: &TaskId, key: &StepKey) {
        let [a, b] = &self.stores;
        let both = [
            read(a.output(task, key).await),
            read(b.output(task, key).await),
        ];
        self.same("output", both);
    }

    pub(crate) async fn claimable(&mut self, agent: &AgentName, now: Time, limit: usize) {
        let [a, b] = &self.stores;
        let claimant = Claimant::new(agent.clone());
        let both = [
            read(a.claimable(&claimant, now, limit).await),
            read(b.claimable(&claimant, now, limit).await),
        ];
        let due = [read(a.next_due(now).await), read(b.next_due(now).await)];
        self.same(&format!("claimable {agent} {now} {limit}"), both);
        self.same(&format!("next_due {now}"), due);
    }

    /// `after` is a place in the list of all events: ids grow in both, but need not be equal.
    pub(crate) async fn events(&mut self, after: usize, query: EventQuery) {
        let what = format!("after place {after}: {query:?}");
        let mut both = Vec::new();
        for store in &self.stores {
            let everything = read(store.events(all_events()).await);
            let after = everything.get(after).map_or(0, |event| event.id);
            let found = read(
                store
                    .events(EventQuery {
                        after,
                        ..query.clone()
                    })
                    .await,
            );
            assert!(found.is_sorted_by(|a, b| a.id < b.id) && found.iter().all(|e| e.id > after));
            both.push(without_ids(found));
        }
        let both = [both.swap_remove(0), both.swap_remove(0)];
        self.same(&what, both);
    }

    /// Each by itself: never behind its last event, never going back.
    pub(crate) async fn newest_event(&mut self) {
        for (store, before) in self.stores.iter().zip(&mut self.newest_events) {
            let newest = read(store.newest_event().await);
            let last = read(store.events(all_events()).await)
                .last()
                .map_or(0, |event| event.id);
            assert!(
                newest >= last && newest >= *before,
                "{newest} after {before} and {last}"
            );
            *before = newest;
        }
    }

    pub(crate) async fn inventory(&mut self) {
        let mut both = Vec::new();
        for store in &self.stores {
            let inventory = read(store.inventory(false).await);
            let counts = (inventory.events, inventory.in_doubt);
            let units = (inventory.tasks, inventory.agents, inventory.sessions);
            both.push((units, counts, inventory.damage));
        }
        let both = [both.swap_remove(0), both.swap_remove(0)];
        self.same("inventory", both);
    }

    pub(crate) async fn compare_everything(&mut self) {
        for task in self.tasks(TaskQuery::default()).await {
            self.task(&task.id).await;
            for step in self.steps(&task.id).await {
                self.step(&task.id, &step.key).await;
                self.output(&task.id, &step.key).await;
            }
        }
        for agent in self.agents(AgentQuery::default()).await {
            self.agent(&agent.name).await;
            let of_agent = EventQuery {
                agent: Some(agent.name.clone()),
                ..all_events()
            };
            self.events(usize::MAX, of_agent).await;
            self.attempts(AttemptQuery {
                agent: Some(agent.name),
                ..all_attempts()
            })
            .await;
        }
        for attempt in self.attempts(all_attempts()).await {
            self.attempt(&attempt.tag).await;
        }
        self.sessions(SessionQuery::default()).await;
        self.unfinished().await;
        self.events(usize::MAX, all_events()).await;
        self.newest_event().await;
        self.inventory().await;
    }

    fn same<T: PartialEq + Debug>(&mut self, what: &str, both: [T; 2]) -> T {
        let [a, b] = both;
        self.operations += 1;
        let (seed, number) = (self.seed, self.operations);
        assert!(
            a == b,
            "the stores differ in answer {number} (replay with RELIGHT_SEED={seed})\n\
             asked: {what}\n    a: {a:?}\n    b: {b:?}"
        );
        a
    }
}

pub(crate) fn all_events() -> EventQuery {
    EventQuery {
        after: 0,
        before: None,
        task: None,
        agent: None,
        kinds: Vec::new(),
        limit: usize::MAX,
        newest: false,
    }
}

pub(crate) fn all_attempts() -> AttemptQuery {
    AttemptQuery {
        agent: None,
        ended: false,
        limit: usize::MAX,
        before: None,
    }
}

/// All leases and all moves of the clock are whole ticks, so that a clock that also goes on by itself
/// gives the same answer.
pub(crate) const TICK: Span = Span::from_secs(1_000);

fn settled(mut task: Task) -> Task {
    settle(&mut task.lease);
    task
}

fn settled_agent(mut agent: Agent) -> Agent {
    settle(&mut agent.lease);
    agent
}

fn settled_session(mut session: Session) -> Session {
    if let SessionState::Active {
        owner: Some(held), ..
    } = &mut session.state
    {
        settle_held(held);
    }
    session
}

fn settle(lease: &mut Lease) {
    if let Some(held) = lease.held.as_mut() {
        settle_held(held);
    }
}

fn settle_held(held: &mut HeldLease) {
    if let Some(left) = held.left.as_mut() {
        *left = Span::from_ms(left.as_ms().next_multiple_of(TICK.as_ms()));
    }
}

fn without_ids(events: Vec<Event>) -> Vec<Event> {
    events
        .into_iter()
        .map(|event| Event { id: 0, ..event })
        .collect()
}

fn read<T>(answer: Result<T, StoreError>) -> T {
    answer.expect("neither store fails as a whole")
}

/// An answer that can be compared: refusals by all they say.
fn told<T>(answer: Result<T, CommitError>) -> Result<T, String> {
    answer.map_err(|refusal| match refusal {
        CommitError::Store(error) => panic!("neither store fails as a whole: {error:?}"),
        refusal => format!("{refusal:?}"),
    })
}

/// The same for agents; a tag that is taken is refused by each in its own words.
fn told_of_agent<T>(answer: Result<T, AgentCommitError>) -> Result<T, String> {
    answer.map_err(|refusal| match refusal {
        AgentCommitError::Store(StoreError::Unsuitable { .. }) => "taken".to_owned(),
        AgentCommitError::Store(error) => panic!("neither store fails as a whole: {error:?}"),
        refusal => format!("{refusal:?}"),
    })
}
