//! Asking the node that has an agent, over a store in memory and a clock that is moved: what becomes of
//! a wish that is taken, left alone, overtaken.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::sync::Arc;
use std::time::Duration;

use relight_core::agent::change::AgentChange;
use relight_core::agent::remote_command::{
    RemoteCommand, RemoteCommandOutcome, RemoteCommandProgress, RemoteVerb,
};
use relight_core::agent::{Agent, AgentStateKind};
use relight_core::decide::Guard;
use relight_core::ids::{AgentName, NodeName};
use relight_core::lease::{Holder, ProcessIdentity};
use relight_core::node::{Epoch, NewNode};
use relight_core::time::{Span, Time};
use relight_runtime::holders::Holders;
use relight_runtime::supervise::control::Changed;
use relight_runtime::supervise::remote_command_sender::{self, RemoteCommandError, RemoteDelivery};
use relight_store::{AgentCommit, MemoryStore, Store};
use tokio::time::timeout;

const PATIENCE: Span = Span::from_secs(60);
/// Longer than anything here takes, by the clock that is moved.
const ALL_OF_IT: Duration = Duration::from_secs(3_600);

/// Runs a node beside whoever asks it; both come to their end.
async fn beside<A, B>(asks: impl Future<Output = A>, node: impl Future<Output = B>) -> A {
    timeout(ALL_OF_IT, async { tokio::join!(asks, node).0 })
        .await
        .expect("everybody is answered")
}

fn x() -> AgentName {
    AgentName::new("x").unwrap()
}

async fn ask(
    store: &Arc<dyn Store>,
    agent: &AgentName,
    verb: RemoteVerb,
    patience: Span,
) -> Result<RemoteDelivery, RemoteCommandError> {
    let holders = Holders::new(Arc::clone(store));
    remote_command_sender::ask(&holders, agent, verb, patience).await
}

/// A store with an agent that nobody holds.
async fn store() -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    commit(&*store, vec![AgentChange::Created(Box::default())]).await;
    store
}

async fn commit(store: &dyn Store, changes: Vec<AgentChange>) {
    let guard = Guard {
        fence: None,
        seq: None,
    };
    let commit = AgentCommit {
        agent: x(),
        guard,
        at: Time::from_ms(0),
        changes,
    };
    store.commit_agent(commit).await.unwrap();
}

async fn agent(store: &dyn Store) -> Agent {
    store.agent(&x()).await.unwrap().unwrap()
}

/// A live node has the agent from now on.
async fn taken_by(store: &dyn Store, node: &str) {
    let name = NodeName::new(node).unwrap();
    let new = NewNode {
        name: name.clone(),
        instance: node.to_owned(),
        labels: Vec::new(),
        address: None,
        version: "1".to_owned(),
        ttl: Span::from_secs(8),
        process: None,
    };
    store.join_node(new, None, Time::from_ms(0)).await.unwrap();
    let process = ProcessIdentity {
        pid: 1,
        start: 1,
        boot: "b".to_owned(),
        node: Some(name),
    };
    commit(
        store,
        vec![AgentChange::LeaseTaken {
            holder: Holder::Process(process),
            ttl: None,
        }],
    )
    .await;
}

/// What a node sees once somebody has asked it.
async fn asked(store: &dyn Store) -> RemoteCommand {
    loop {
        let newest = store.newest_event().await.unwrap();
        let wish = agent(store)
            .await
            .wish
            .filter(|wish| wish.progress == RemoteCommandProgress::Asked);
        match wish {
            Some(wish) => return wish,
            None => store.changed(newest).await.unwrap(),
        }
    }
}

async fn say(store: &dyn Store, wish: RemoteCommand) {
    commit(store, vec![AgentChange::RemoteCommand(Box::new(wish))]).await;
}

/// What another node has done.
fn of(asked: Result<RemoteDelivery, RemoteCommandError>) -> Changed {
    match asked.unwrap() {
        RemoteDelivery::Done(changed) => changed,
        RemoteDelivery::Left(verb) => panic!("{verb:?} is left to be done"),
    }
}

fn done(problem: Option<&str>) -> RemoteCommandProgress {
    RemoteCommandProgress::Answered(RemoteCommandOutcome {
        previous: AgentStateKind::Running,
        now: AgentStateKind::Stopped,
        task_cancelled: None,
        problem: problem.map(str::to_owned),
    })
}

#[tokio::test(start_paused = true)]
async fn what_is_answered_comes_back_as_if_it_were_done_here() {
    let store = store().await;
    taken_by(&*store, "a").await;
    let node = async {
        let wish = asked(&*store).await;
        assert_eq!(
            (wish.verb, wish.by.as_str()),
            (RemoteVerb::Stop, "a command")
        );
        say(&*store, wish.clone().at(RemoteCommandProgress::Taken)).await;
        say(&*store, wish.at(done(None))).await;
    };
    let name = x();
    let changed = beside(ask(&store, &name, RemoteVerb::Stop, PATIENCE), node).await;
    let changed = of(changed);
    assert_eq!(
        (changed.agent, changed.previous_state, changed.state),
        (x(), AgentStateKind::Running, AgentStateKind::Stopped)
    );
}

#[tokio::test(start_paused = true)]
async fn what_went_wrong_there_names_the_node() {
    let store = store().await;
    taken_by(&*store, "a").await;
    let node = async {
        let wish = asked(&*store).await;
        say(&*store, wish.at(done(Some("agent x did not start")))).await;
    };
    let name = x();
    let refused = beside(ask(&store, &name, RemoteVerb::Start, PATIENCE), node).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.to_string(), "agent x did not start (on node a)");
}

#[tokio::test(start_paused = true)]
async fn what_nobody_takes_in_time_is_withdrawn() {
    let store = store().await;
    taken_by(&*store, "a").await;
    let begun = tokio::time::Instant::now();
    let refused = ask(&store, &x(), RemoteVerb::Stop, PATIENCE)
        .await
        .unwrap_err();
    assert!(
        matches!(refused, RemoteCommandError::Silent { .. }),
        "{refused}"
    );
    assert!(begun.elapsed().as_secs() < 15, "{:?}", begun.elapsed());
    assert_eq!(
        agent(&*store).await.wish.unwrap().progress,
        RemoteCommandProgress::Withdrawn
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_taken_and_not_finished_is_said_so() {
    let store = store().await;
    taken_by(&*store, "a").await;
    let node = async {
        let wish = asked(&*store).await;
        say(&*store, wish.at(RemoteCommandProgress::Taken)).await;
    };
    let name = x();
    let refused = beside(ask(&store, &name, RemoteVerb::Stop, PATIENCE), node).await;
    assert!(
        matches!(refused, Err(RemoteCommandError::Late { .. })),
        "{refused:?}"
    );
    assert_eq!(
        agent(&*store).await.wish.unwrap().progress,
        RemoteCommandProgress::Taken
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_has_it_next_is_asked_and_starts_it_only_once() {
    let store = store().await;
    taken_by(&*store, "a").await;
    let nodes = async {
        let wish = asked(&*store).await;
        assert_eq!(wish.verb, RemoteVerb::Restart);
        say(&*store, wish.at(RemoteCommandProgress::Taken)).await;
        // Seen by whoever asked before the agent changes hands.
        tokio::time::sleep(Duration::from_secs(1)).await;
        taken_by(&*store, "b").await;
        let wish = asked(&*store).await;
        assert_eq!(
            wish.verb,
            RemoteVerb::Start,
            "its new holder has begun a new attempt already"
        );
        say(&*store, wish.at(done(None))).await;
    };
    let name = x();
    let changed = beside(ask(&store, &name, RemoteVerb::Restart, PATIENCE), nodes).await;
    assert_eq!(of(changed).agent, x());
}

#[tokio::test(start_paused = true)]
async fn a_wish_that_somebody_left_behind_is_replaced() {
    let store = store().await;
    taken_by(&*store, "a").await;
    let left = RemoteCommand {
        id: "left".to_owned(),
        verb: RemoteVerb::Stop,
        by: "somebody who is gone".to_owned(),
        progress: RemoteCommandProgress::Asked,
    };
    say(&*store, left).await;
    let node = async {
        loop {
            let wish = asked(&*store).await;
            if wish.id != "left" {
                return say(&*store, wish.at(done(None))).await;
            }
            let newest = store.newest_event().await.unwrap();
            store.changed(newest).await.unwrap();
        }
    };
    let name = x();
    let changed = beside(ask(&store, &name, RemoteVerb::Start, PATIENCE), node).await;
    assert_eq!(of(changed).agent, x());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_the_next_wish_replaced_is_found_and_nothing_is_done_twice() {
    let store = store().await;
    taken_by(&*store, "a").await;
    let node = async {
        let wish = asked(&*store).await;
        let other = RemoteCommand {
            id: "other".to_owned(),
            ..wish.clone()
        };
        let changes = [wish.at(done(None)), other];
        let changes = changes.map(|wish| AgentChange::RemoteCommand(Box::new(wish)));
        commit(&*store, changes.into()).await;
    };
    let name = x();
    let changed = beside(ask(&store, &name, RemoteVerb::Restart, PATIENCE), node).await;
    assert_eq!(of(changed).state, AgentStateKind::Stopped);
    assert_eq!(agent(&*store).await.wish.unwrap().id, "other");
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_where_nobody_has_it() {
    let store = store().await;
    let asked = ask(&store, &x(), RemoteVerb::Restart, PATIENCE)
        .await
        .unwrap();
    assert_eq!(asked, RemoteDelivery::Left(RemoteVerb::Restart));
    assert_eq!(agent(&*store).await.wish, None);
}

#[tokio::test(start_paused = true)]
async fn a_restart_that_its_node_did_not_come_to_is_a_start_for_whoever_takes_over() {
    let store = store().await;
    taken_by(&*store, "a").await;
    let node = async {
        asked(&*store).await;
        // It leaves, and nobody but whoever asked is there.
        let name = NodeName::new("a").unwrap();
        store
            .leave_node(&name, Epoch(1), Time::from_ms(0))
            .await
            .unwrap();
    };
    let name = x();
    let left = beside(ask(&store, &name, RemoteVerb::Restart, PATIENCE), node)
        .await
        .unwrap();
    assert_eq!(
        left,
        RemoteDelivery::Left(RemoteVerb::Start),
        "its new holder has begun a new attempt already"
    );
}
