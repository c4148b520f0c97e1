//! Asks the daemon's store what an agent asked, and writes down what it says.

use relight_runtime::fleet::key;
use relight_runtime::operations::record;
use relight_store::{Commit, CommitError, Inventory, Store, StoreError};
use serde::Serialize;
use serde_json::Value;

use super::call::{Maybe, Read, Write};

/// Whether agents have any business with this write. Of the small records of the store, commands write
/// the mark of a drain, and programs their own.
pub(super) fn is_for_agents(write: &Write) -> bool {
    match write {
        Write::Keep { name, .. } => {
            name == relight_runtime::drain::NAME || name.starts_with(record::PREFIX)
        }
        Write::ForgetKept(range) => record::is_of_programs(range),
        _ => true,
    }
}

/// What is wrong with a write that no command of ours would ask for; stores take it for a bug.
pub(super) fn misshape(write: &Write) -> Option<&'static str> {
    match write {
        Write::Commit { soon, commit } => soon.iter().chain([commit]).find_map(Commit::misshape),
        Write::CommitSoon(commits) => commits.iter().find_map(Commit::misshape),
        _ => None,
    }
}

/// A store as agents know it: by the name of its node, and by no address.
pub(super) struct StoreProxy<'a> {
    pub(super) store: &'a dyn Store,
    /// What the store is called to agents.
    pub(super) name: String,
}

impl<'a> StoreProxy<'a> {
    /// The proxy of this node, or of a daemon that is alone.
    pub(super) fn of(store: &'a dyn Store, node: Option<&str>) -> Self {
        let name = match node {
            Some(node) => format!("of node {node}"),
            None => "of the daemon".to_owned(),
        };
        Self { store, name }
    }

    /// What the store says, as JSON.
    pub(super) async fn read(&self, read: Read) -> Vec<u8> {
        let store = self.store;
        match read {
            Read::Task(id) => self.said(store.task(&id).await),
            Read::TasksById(ids) => self.said(store.tasks_by_id(&ids).await),
            Read::TaskWithKey(key) => self.said(store.task_with_key(&key).await),
            Read::Tasks(query) => self.said(store.tasks(query).await),
            Read::Unfinished => self.said(store.unfinished().await),
            Read::Step(task, key) => self.said(store.step(&task, &key).await),
            Read::TaskWithStep(task, key) => self.said(store.task_with_step(&task, &key).await),
            Read::Steps(task) => self.said(store.steps(&task).await),
            Read::Output(task, key) => self.said(store.output(&task, &key).await),
            Read::Events(query) => self.said(store.events(query).await),
            Read::Agent(name) => self.said(store.agent(&name).await),
            Read::Agents(query) => self.said(store.agents(query).await),
            Read::Attempt(tag) => self.said(store.attempt(&tag).await),
            Read::Attempts(query) => self.said(store.attempts(query).await),
            Read::Session(key) => self.said(store.session(&key).await),
            Read::Sessions(query) => self.said(store.sessions(query).await),
            // Of the nodes alone: by it any log of the fleet can be read.
            Read::Kept(name) if name == key::RECORD => self.said(Ok::<_, StoreError>(Maybe(None))),
            Read::Kept(name) => self.said(store.kept(&name).await.map(Maybe)),
            Read::Unreadable(of) => self.said(store.unreadable(of).await),
            Read::KeptIn(range) if record::is_of_programs(&range) => {
                self.said(store.kept_in(range).await)
            }
            // The others are Relight's own.
            Read::KeptIn(_) => self.said(Ok::<Vec<(String, Value)>, StoreError>(Vec::new())),
            Read::Inventory { whole } => {
                let found = store.inventory(whole).await;
                self.said(found.map(|found| Inventory {
                    place: format!("the store {}", self.name),
                    ..found
                }))
            }
            Read::Claimable {
                claimant,
                now,
                limit,
            } => self.said(store.claimable(&claimant, now, limit).await),
            Read::NextDue(now) => self.said(store.next_due(now).await),
            Read::Nodes => self.said(store.nodes().await),
            Read::NewestEvent => self.said(store.newest_event().await),
        }
    }

    /// Changes the store; what it says, as JSON.
    pub(super) async fn write(&self, write: Write) -> Vec<u8> {
        let store = self.store;
        match write {
            Write::Commit { soon, commit } => {
                soon.into_iter()
                    .for_each(|commit| drop(store.commit_deferred(commit)));
                self.said(store.commit(commit).await)
            }
            Write::CommitSoon(commits) => {
                commits
                    .into_iter()
                    .for_each(|commit| drop(store.commit_deferred(commit)));
                written(&())
            }
            Write::Renew(task, fence) => self.said(store.renew(&task, fence).await),
            Write::CommitSessions(changes, at) => {
                self.said(store.commit_sessions(changes, at).await)
            }
            Write::Keep {
                name,
                before: Maybe(before),
                now,
                told,
            } if told.is_empty() => self.said(store.keep(&name, before, now).await),
            Write::Keep {
                name,
                before: Maybe(before),
                now,
                told,
            } => self.said(store.keep_and_tell(&name, before, now, told).await),
            Write::ForgetKept(range) => self.said(store.forget_kept(range).await),
        }
    }

    /// What it said, without its address.
    pub(super) fn said<T: Serialize, E: Placed>(&self, said: Result<T, E>) -> Vec<u8> {
        written(&said.map_err(|error| error.called(&self.name)))
    }
}

/// An error that may tell where a store is.
pub(super) trait Placed: Serialize {
    /// The same of a store that is called so.
    fn called(self, name: &str) -> Self;
}

impl Placed for StoreError {
    fn called(self, name: &str) -> Self {
        StoreError::called(self, name)
    }
}

impl Placed for CommitError {
    fn called(self, name: &str) -> Self {
        match self {
            Self::Store(error) => Self::Store(error.called(name)),
            other => other,
        }
    }
}

/// A value as JSON.
pub(super) fn written(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("what a store says has string keys")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use relight_store::MemoryStore;

    use super::*;

    const ADDRESS: &str = "postgres://ann@db.internal:5432/work";

    fn every_error() -> Vec<StoreError> {
        let (place, text) = (|| ADDRESS.to_owned(), || "it is so".to_owned());
        vec![
            StoreError::Io {
                place: place(),
                source: Arc::new(std::io::Error::other("full")),
            },
            StoreError::Damaged {
                place: place(),
                what: text(),
            },
            StoreError::Newer {
                place: place(),
                found: 9,
                known: 8,
            },
            StoreError::Busy { place: place() },
            StoreError::Unreachable {
                place: place(),
                why: text(),
            },
            StoreError::HalfCopied {
                place: place(),
                from: place(),
            },
            StoreError::Replaced { place: place() },
            StoreError::Unsuitable {
                place: place(),
                why: text(),
            },
        ]
    }

    #[tokio::test]
    async fn no_answer_tells_where_the_store_is() {
        let store = MemoryStore::new();
        let proxy = StoreProxy::of(&store, Some("n"));
        for error in every_error() {
            let said = [
                proxy.said::<(), _>(Err(error.clone())),
                proxy.said::<(), _>(Err(CommitError::from(error))),
            ];
            for said in said.map(|said| String::from_utf8(said).unwrap()) {
                assert!(
                    said.contains("of node n") && !said.contains("db.internal"),
                    "{said}"
                );
            }
        }
        let found = proxy.read(Read::Inventory { whole: false }).await;
        let found = String::from_utf8(found).unwrap();
        assert!(
            found.contains(r#""place":"the store of node n""#),
            "{found}"
        );
    }
}
