//! Reports growing logs of all agents with one descriptor.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use rustix::fs::inotify::WatchFlags;

use super::inotify::Inotify;

/// Watches the current log of each agent.
///
/// A watch fires once and is then gone until [`Growth::again`], so an agent that writes without pause
/// wakes its supervisor, and pays for being watched, once each time it is armed.
///
/// Growth between a firing and the next arming is not told: **look at the end of the log
/// ([`super::AgentLog::end`]) after each arming**, the first included; what grew before is seen then, what
/// grows later fires. For the same reason a firing says only "look": trimming fires as well, and
/// whether the agent gave a sign is whether the end has changed.
#[derive(Debug)]
pub struct Growth<Key> {
    inotify: Inotify,
    watches: Mutex<Watches<Key>>,
}

#[derive(Debug)]
struct Watches<Key> {
    by_key: HashMap<Key, WatchedLog>,
    armed: HashMap<i32, Key>,
    fired: VecDeque<Key>,
}

#[derive(Debug)]
struct WatchedLog {
    path: PathBuf,
    armed_as: Option<i32>,
}

/// The kernel's queue overflowed.
const OVERFLOW: i32 = -1;

impl<Key: Clone + Eq + Hash> Growth<Key> {
    /// Watches nothing yet. Needs a Tokio runtime.
    pub fn new() -> io::Result<Self> {
        let watches = Watches {
            by_key: HashMap::new(),
            armed: HashMap::new(),
            fired: VecDeque::new(),
        };
        Ok(Self {
            inotify: Inotify::new()?,
            watches: Mutex::new(watches),
        })
    }

    /// Watches this file for the agent, instead of the previous one, and arms the watch.
    pub fn watch(&self, key: &Key, path: &Path) -> io::Result<()> {
        self.forget(key)?;
        let watched = WatchedLog {
            path: path.to_owned(),
            armed_as: None,
        };
        self.lock().by_key.insert(key.clone(), watched);
        self.again(key)
    }

    /// Arms the watch of an agent again; does nothing when it is armed or unknown.
    pub fn again(&self, key: &Key) -> io::Result<()> {
        let mut watches = self.lock();
        let Some(watched) = watches.by_key.get_mut(key) else {
            return Ok(());
        };
        if watched.armed_as.is_some() {
            return Ok(());
        }
        let watch = self
            .inotify
            .add(&watched.path, WatchFlags::MODIFY | WatchFlags::ONESHOT)?;
        watched.armed_as = Some(watch);
        watches.armed.insert(watch, key.clone());
        Ok(())
    }

    /// Removes the watch of this agent.
    pub fn forget(&self, key: &Key) -> io::Result<()> {
        let mut watches = self.lock();
        watches.fired.retain(|fired| fired != key);
        let Some(watched) = watches.by_key.remove(key) else {
            return Ok(());
        };
        let Some(watch) = watched.armed_as else {
            return Ok(());
        };
        watches.armed.remove(&watch);
        self.inotify.remove(watch)
    }

    /// Waits for the next watch to fire and returns its agent. Cancel-safe.
    pub async fn next(&self) -> io::Result<Key> {
        loop {
            if let Some(key) = self.lock().fired.pop_front() {
                return Ok(key);
            }
            self.inotify.heard(|watch| self.lock().fire(watch)).await?;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Watches<Key>> {
        self.watches
            .lock()
            .expect("nothing panics while it holds the watches")
    }
}

impl<Key: Clone + Eq + Hash> Watches<Key> {
    /// Handles a watch that fired or whose file is gone. Disarmed watches are unknown here.
    fn fire(&mut self, watch: i32) {
        if watch == OVERFLOW {
            let armed: Vec<i32> = self.armed.keys().copied().collect();
            return armed.into_iter().for_each(|watch| self.fire(watch));
        }
        let Some(key) = self.armed.remove(&watch) else {
            return;
        };
        if let Some(watched) = self.by_key.get_mut(&key) {
            watched.armed_as = None;
        }
        self.fired.push_back(key);
    }
}
