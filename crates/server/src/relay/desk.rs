//! Asks the daemon's store what an agent asked, and writes down what it says.

use relight::fleet::key;
use relight_store::{Commit, Store, StoreError};
use serde::Serialize;

use super::call::{Maybe, Read, Write};

/// The only small record of the store that commands write: the mark of a drain.
const KEPT_BY_COMMANDS: &str = relight::drain::NAME;

/// Whether agents have any business with this write.
pub(super) fn is_for_agents(write: &Write) -> bool {
    !matches!(write, Write::Keep { name, .. } if name != KEPT_BY_COMMANDS)
}

/// What is wrong with a write that no command of ours would ask for; stores take it for a bug.
pub(super) fn misshape(write: &Write) -> Option<&'static str> {
    match write {
        Write::Commit { soon, commit } => soon.iter().chain([commit]).find_map(Commit::misshape),
        Write::CommitSoon(commits) => commits.iter().find_map(Commit::misshape),
        _ => None,
    }
}

/// What the store says, as JSON.
pub(super) async fn read(store: &dyn Store, read: Read) -> Vec<u8> {
    match read {
        Read::Task(id) => written(&store.task(&id).await),
        Read::TasksById(ids) => written(&store.tasks_by_id(&ids).await),
        Read::TaskWithKey(key) => written(&store.task_with_key(&key).await),
        Read::Tasks(query) => written(&store.tasks(query).await),
        Read::Unfinished => written(&store.unfinished().await),
        Read::Step(task, key) => written(&store.step(&task, &key).await),
        Read::TaskWithStep(task, key) => written(&store.task_with_step(&task, &key).await),
        Read::Steps(task) => written(&store.steps(&task).await),
        Read::Output(task, key) => written(&store.output(&task, &key).await),
        Read::Events(query) => written(&store.events(query).await),
        Read::Agent(name) => written(&store.agent(&name).await),
        Read::Agents(query) => written(&store.agents(query).await),
        Read::Attempt(tag) => written(&store.attempt(&tag).await),
        Read::Attempts(query) => written(&store.attempts(query).await),
        Read::Session(key) => written(&store.session(&key).await),
        Read::Sessions(query) => written(&store.sessions(query).await),
        // Of the nodes alone: by it any log of the fleet can be read.
        Read::Kept(name) if name == key::RECORD => written(&Ok::<_, StoreError>(Maybe(None))),
        Read::Kept(name) => written(&store.kept(&name).await.map(Maybe)),
        Read::Inventory { whole } => written(&store.inventory(whole).await),
        Read::Claimable { claimant, now, limit } => {
            written(&store.claimable(&claimant, now, limit).await)
        }
        Read::NextDue(now) => written(&store.next_due(now).await),
        Read::Nodes => written(&store.nodes().await),
        Read::NewestEvent => written(&store.newest_event().await),
    }
}

/// Changes the store; what it says, as JSON.
pub(super) async fn write(store: &dyn Store, write: Write) -> Vec<u8> {
    match write {
        Write::Commit { soon, commit } => {
            soon.into_iter().for_each(|commit| drop(store.commit_soon(commit)));
            written(&store.commit(commit).await)
        }
        Write::CommitSoon(commits) => {
            commits.into_iter().for_each(|commit| drop(store.commit_soon(commit)));
            written(&())
        }
        Write::Renew(task, fence) => written(&store.renew(&task, fence).await),
        Write::Forget(tasks, at) => written(&store.forget(tasks, at).await),
        Write::ForgetEvents(before) => written(&store.forget_events(before).await),
        Write::ForgetAttempts(before) => written(&store.forget_attempts(before).await),
        Write::CommitSessions(changes, at) => written(&store.commit_sessions(changes, at).await),
        Write::ForgetSessions(sessions) => written(&store.forget_sessions(sessions).await),
        Write::Keep { name, before: Maybe(before), now, told } if told.is_empty() => {
            written(&store.keep(&name, before, now).await)
        }
        Write::Keep { name, before: Maybe(before), now, told } => {
            written(&store.keep_and_tell(&name, before, now, told).await)
        }
    }
}

/// A value as JSON.
pub(super) fn written(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("what a store says has string keys")
}
