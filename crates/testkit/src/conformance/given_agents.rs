//! Set-up of the suite for agents and their attempts.

use relight_core::agent::change::AgentChange;
use relight_core::agent::death::HowEnded;
use relight_core::agent::{
    Agent, AgentPlan, AgentState, Attempt, AttemptTag, Cause, Death, PostMortem, RecordedDeath,
    Stopper,
};
use relight_core::decide::Guard;
use relight_core::event::Event;
use relight_core::lease::{Fence, Holder, ProcessIdentity};
use relight_core::time::{Span, Time};

use super::given::{CLOCK_NOISE_MS_MAX, FREE, agent, all_events, events, noon};
use relight_store::{
    AgentCommit, AgentCommitError, AgentQuery, AttemptQuery, Committed, EventQuery, Store,
};

pub(super) fn agent_commit(name: &str, guard: Guard, changes: Vec<AgentChange>) -> AgentCommit {
    AgentCommit {
        agent: agent(name),
        guard,
        at: noon(),
        changes,
    }
}

pub(super) async fn put_agent(
    store: &dyn Store,
    name: &str,
    guard: Guard,
    changes: Vec<AgentChange>,
) -> Result<Committed, AgentCommitError> {
    store.commit_agent(agent_commit(name, guard, changes)).await
}

/// Commits what must be taken.
pub(super) async fn done_agent(
    store: &dyn Store,
    name: &str,
    guard: Guard,
    changes: Vec<AgentChange>,
) -> Committed {
    put_agent(store, name, guard, changes)
        .await
        .expect("a commit that must be taken")
}

pub(super) fn plan(program: &str) -> AgentPlan {
    AgentPlan {
        command: vec![program.to_owned()],
        ..AgentPlan::default()
    }
}

pub(super) fn created_as(plan: AgentPlan) -> AgentChange {
    AgentChange::Created(Box::new(plan))
}

pub(super) async fn add_agent(store: &dyn Store, name: &str) -> Committed {
    done_agent(store, name, FREE, vec![created_as(plan("true"))]).await
}

/// Adds an agent that supervisor 1 holds.
pub(super) async fn add_supervised(store: &dyn Store, name: &str) -> Fence {
    done_agent(
        store,
        name,
        FREE,
        vec![created_as(plan("true")), taken_by(1)],
    )
    .await
    .fence
}

/// A supervisor takes the agent for as long as it lives.
pub(super) fn taken_by(pid: u32) -> AgentChange {
    AgentChange::LeaseTaken {
        holder: Holder::Process(process(pid)),
        ttl: None,
    }
}

/// Somebody takes it for a time.
pub(super) fn taken_for(secs: u64) -> AgentChange {
    let holder = Holder::Time {
        by: "somebody".to_owned(),
    };
    AgentChange::LeaseTaken {
        holder,
        ttl: Some(Span::from_secs(secs)),
    }
}

pub(super) fn process(pid: u32) -> ProcessIdentity {
    ProcessIdentity {
        pid,
        start: u64::from(pid) * 7,
        boot: "boot".to_owned(),
        node: None,
    }
}

pub(super) fn tag(name: &str, number: u32) -> AttemptTag {
    AttemptTag::new(&agent(name), number, u64::from(number) * 0x1_0001)
}

pub(super) fn begun_attempt(name: &str, number: u32) -> AgentChange {
    AgentChange::Begun {
        number,
        tag: tag(name, number),
    }
}

pub(super) fn spawned_attempt(number: u32) -> AgentChange {
    let (process, shim) = (process(100 + number), Some(process(200 + number)));
    AgentChange::Spawned {
        number,
        process,
        shim,
        log: Some((3, 4_096)),
    }
}

pub(super) fn ended_attempt(number: u32) -> AgentChange {
    let ended = Box::new(ended_by(Cause::Signal, HowEnded::Signal(9)));
    AgentChange::Ended {
        number,
        ended,
        post_mortem: Box::default(),
    }
}

pub(super) fn ended_by(cause: Cause, how: HowEnded) -> RecordedDeath {
    let death = Death {
        how,
        lived: Span::from_secs(5),
        ..Death::lost(noon(), "a note")
    };
    RecordedDeath { cause, death }
}

pub(super) fn found_at_death(text: &str) -> PostMortem {
    PostMortem {
        done_count: 2,
        last_output: text.to_owned(),
        task: Some("t".to_owned()),
        last_step: Some(text.to_owned()),
        done: vec!["one".to_owned(), text.to_owned()],
        in_doubt: vec![text.to_owned()],
        next: Some(text.to_owned()),
        memory_max_kib: Some(u64::MAX),
        cpu_ms: Some(0),
        leftovers: u32::MAX,
        survivors: 1,
    }
}

pub(super) fn stopped() -> AgentChange {
    AgentChange::State(AgentState::Stopped {
        by: Stopper::Person,
    })
}

pub(super) async fn read_agent(store: &dyn Store, name: &str) -> Agent {
    look_at_agent(store, name)
        .await
        .expect("the agent is there")
}

/// The agent, without the noise of a clock that goes on by itself.
async fn look_at_agent(store: &dyn Store, name: &str) -> Option<Agent> {
    let mut agent = store
        .agent(&agent(name))
        .await
        .expect("a store that can be read")?;
    if let Some(left) = agent
        .lease
        .held
        .as_mut()
        .and_then(|held| held.left.as_mut())
    {
        let whole = left.as_ms().div_ceil(CLOCK_NOISE_MS_MAX) * CLOCK_NOISE_MS_MAX;
        *left = Span::from_ms(whole);
    }
    Some(agent)
}

pub(super) async fn agent_left(store: &dyn Store, name: &str) -> Option<Span> {
    read_agent(store, name)
        .await
        .lease
        .held
        .expect("the agent is held")
        .left
}

pub(super) async fn agent_names(store: &dyn Store, query: AgentQuery) -> Vec<String> {
    let agents = store.agents(query).await.expect("a store that can be read");
    agents.iter().map(|agent| agent.name.to_string()).collect()
}

pub(super) async fn attempt(store: &dyn Store, tag: &AttemptTag) -> Option<Attempt> {
    store.attempt(tag).await.expect("a store that can be read")
}

pub(super) fn all_attempts() -> AttemptQuery {
    AttemptQuery {
        agent: None,
        ended: false,
        limit: usize::MAX,
        before: None,
    }
}

pub(super) fn attempts_of(name: &str) -> AttemptQuery {
    AttemptQuery {
        agent: Some(agent(name)),
        ..all_attempts()
    }
}

/// As `name.number`, in the store's order.
pub(super) async fn attempts(store: &dyn Store, query: AttemptQuery) -> Vec<String> {
    let found = store
        .attempts(query)
        .await
        .expect("a store that can be read");
    found
        .iter()
        .map(|attempt| format!("{}.{}", attempt.agent, attempt.number))
        .collect()
}

pub(super) async fn forget_attempts(store: &dyn Store, before: Time) -> u64 {
    store
        .forget_attempts(before)
        .await
        .expect("a store that can be written")
}

pub(super) async fn forget_agent(store: &dyn Store, name: &str, seq: u64) -> bool {
    store
        .forget_agent(&agent(name), seq, noon())
        .await
        .expect("a store that can be written")
}

pub(super) fn events_of(name: &str) -> EventQuery {
    EventQuery {
        agent: Some(agent(name)),
        ..all_events()
    }
}

/// Everything that a store tells of one agent, for comparing before and after.
pub(super) async fn all_of_agent(
    store: &dyn Store,
    name: &str,
) -> (Option<Agent>, Vec<Attempt>, Vec<Event>, u64) {
    (
        look_at_agent(store, name).await,
        store
            .attempts(attempts_of(name))
            .await
            .expect("a store that can be read"),
        events(store, events_of(name)).await,
        store
            .newest_event()
            .await
            .expect("a store that can be read"),
    )
}
