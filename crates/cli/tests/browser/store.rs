//! Pasts made through the library: agents that lived and died before the daemon was started.

use std::sync::Arc;

use relight_core::agent::change::AgentChange;
use relight_core::agent::death::HowEnded;
use relight_core::agent::{
    AgentPlan, AgentState, AttemptTag, Cause, Death, PostMortem, RecordedDeath, Stopper,
};
use relight_core::change::Change;
use relight_core::decide::Guard;
use relight_core::ids::{AgentName, TaskId};
use relight_core::lease::ProcessIdentity;
use relight_core::task::NewTask;
use relight_core::time::{Span, Time};
use relight_runtime::os::clock;
use relight_runtime::store_url::StoreUrl;
use relight_store::sqlite::Use;
use relight_store::{AgentCommit, Commit, Store};

use crate::ground::Ground;

/// Tasks that are added at the same time: they share the disk's syncs.
const TASKS_TOGETHER: usize = 2_000;
/// Lives that are written down in one go.
const LIVES_TOGETHER: usize = 16;

const FREE: Guard = Guard {
    fence: None,
    seq: None,
};

/// The store of a ground that has no daemon yet.
pub(crate) fn open(ground: &Ground) -> Arc<dyn Store> {
    // Its folder and its file are made by the product itself.
    assert_eq!(ground.call(&["ps"]).code, 0);
    StoreUrl::Sqlite(ground.home("relight.db"))
        .open(Use::Long)
        .unwrap()
}

/// An agent that has lived so often, and was stopped after.
pub(crate) async fn lived(store: &dyn Store, name: &str, attempts: u32, text: &str) {
    let agent = AgentName::new(name).unwrap();
    let plan = AgentPlan {
        command: vec!["./agent".to_owned()],
        ..AgentPlan::default()
    };
    let at = earlier(24 * 60);
    let changes = vec![AgentChange::Created(Box::new(plan))];
    commit(
        store,
        AgentCommit {
            agent: agent.clone(),
            guard: FREE,
            at,
            changes,
        },
    )
    .await;
    let numbers: Vec<u32> = (1..=attempts).collect();
    for together in numbers.chunks(LIVES_TOGETHER) {
        let at = earlier(u64::from(attempts - together[0]) * 30 + 1);
        let changes = together
            .iter()
            .flat_map(|number| life(&agent, *number, at, text))
            .collect();
        commit(
            store,
            AgentCommit {
                agent: agent.clone(),
                guard: FREE,
                at,
                changes,
            },
        )
        .await;
    }
    let stopped = AgentChange::State(AgentState::Stopped {
        by: Stopper::Person,
    });
    let at = clock::now();
    commit(
        store,
        AgentCommit {
            agent,
            guard: FREE,
            at,
            changes: vec![stopped],
        },
    )
    .await;
}

/// Many of them, together: they share the disk's syncs.
pub(crate) async fn lived_all(store: &Arc<dyn Store>, agents: usize, attempts: u32) {
    let mut lives = tokio::task::JoinSet::new();
    for number in 0..agents {
        let store = Arc::clone(store);
        let name = format!("agent-{number:04}");
        lives.spawn(async move { lived(&*store, &name, attempts, "a note").await });
    }
    lives.join_all().await;
}

/// So many tasks, `task-000000` and on.
pub(crate) async fn many_tasks(store: &Arc<dyn Store>, tasks: usize) {
    let numbers: Vec<usize> = (0..tasks).collect();
    for together in numbers.chunks(TASKS_TOGETHER) {
        let mut added = tokio::task::JoinSet::new();
        for number in together {
            let (store, number) = (Arc::clone(store), *number);
            added.spawn(async move {
                let id = TaskId::new(format!("task-{number:06}")).unwrap();
                let mut new = NewTask::bare(id.clone());
                new.spec.title = Some(format!("Number {number}"));
                let commit = Commit {
                    task: id,
                    guard: FREE,
                    at: clock::now(),
                    changes: vec![Change::Created(Box::new(new))],
                };
                store.commit(commit).await.unwrap();
            });
        }
        added.join_all().await;
    }
}

/// What an agent of this daemon went through before: how long it lived each time, how long it was away
/// after, and of what it died. It ends now, ready to be started.
pub(crate) async fn had(store: &dyn Store, name: &str, lives: &[(u64, u64, Cause)]) {
    let agent = AgentName::new(name).unwrap();
    let plan = AgentPlan {
        command: vec![format!("./{name}")],
        ..AgentPlan::default()
    };
    let all_ms: u64 = lives
        .iter()
        .map(|(minutes, away_ms, _)| minutes * 60_000 + away_ms)
        .sum();
    let mut at = Time::from_ms(clock::now().as_ms() - i64::try_from(all_ms).unwrap());
    let mut changes = vec![AgentChange::Created(Box::new(plan))];
    for (number, (minutes, away_ms, cause)) in (1..).zip(lives) {
        let died_at = at.plus(Span::from_ms(minutes * 60_000));
        let mut life = life(&agent, number, died_at, "the last thing it said");
        let mut died = life.split_off(2);
        if let Some(AgentChange::Ended { ended, .. }) = died.first_mut() {
            ended.cause = *cause;
            ended.death.lived = Span::from_ms(minutes * 60_000);
            ended.death.note = None;
            if matches!(cause, Cause::Failed | Cause::Completed) {
                ended.death.how = HowEnded::Code(i32::from(*cause == Cause::Failed));
            }
        }
        changes.extend(life);
        let guard = FREE;
        commit(
            store,
            AgentCommit {
                agent: agent.clone(),
                guard,
                at,
                changes,
            },
        )
        .await;
        commit(
            store,
            AgentCommit {
                agent: agent.clone(),
                guard,
                at: died_at,
                changes: died,
            },
        )
        .await;
        changes = Vec::new();
        at = died_at.plus(Span::from_ms(*away_ms));
    }
}

async fn commit(store: &dyn Store, commit: AgentCommit) {
    store.commit_agent(commit).await.unwrap();
}

fn earlier(minutes: u64) -> Time {
    Time::from_ms(clock::now().as_ms() - i64::try_from(minutes * 60_000).unwrap())
}

/// From its begin to its death.
fn life(agent: &AgentName, number: u32, at: Time, text: &str) -> Vec<AgentChange> {
    let tag = AttemptTag::new(agent, number, u64::from(number));
    let process = ProcessIdentity {
        pid: 1 << 30,
        start: 1,
        boot: "another".to_owned(),
        node: None,
    };
    let death = Death {
        how: HowEnded::Signal(9),
        lived: Span::from_secs(60),
        ..Death::lost(at, text)
    };
    let texts = || vec![text.to_owned()];
    let post_mortem = PostMortem {
        last_output: text.to_owned(),
        last_step: Some(text.to_owned()),
        done: texts(),
        in_doubt: texts(),
        next: Some(text.to_owned()),
        ..PostMortem::default()
    };
    vec![
        AgentChange::Begun { number, tag },
        AgentChange::Spawned {
            number,
            process,
            shim: None,
            log: None,
        },
        AgentChange::Ended {
            number,
            ended: Box::new(RecordedDeath {
                cause: Cause::Signal,
                death,
            }),
            post_mortem: Box::new(post_mortem),
        },
    ]
}

/// Runs what the library does.
pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(work)
}
