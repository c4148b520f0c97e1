//! What all agents of one supervisor share.

use std::path::PathBuf;
use std::sync::Arc;

use relight_core::ids::AgentName;
use relight_core::lease::{Holder, ProcessIdentity};
use tokio::sync::Semaphore;

use super::cgroup::Cgroups;
use super::log::Growth;
use super::notice::Notices;
use super::word::Word;
use crate::engine::Engine;

/// What all agents of one supervisor share.
#[derive(Debug)]
pub(super) struct Desk {
    /// The store, with the funnel in front of it.
    pub(super) engine: Engine,
    /// The folder that the store is in.
    pub(super) home: PathBuf,
    /// What is started as a shim: this very program.
    pub(super) program: PathBuf,
    /// This process.
    pub(super) owner: ProcessIdentity,
    /// Who hears what happens.
    pub(super) notices: Notices,
    /// Tells which log has grown.
    pub(super) growth: Growth<AgentName>,
    /// Where a cgroup was delegated to us.
    pub(super) cgroups: Option<Cgroups>,
    /// How many files this process could have open before it asked for more; agents get that.
    pub(super) nofile: Option<u64>,
    /// Room for so many who ask git something that nobody waits for.
    pub(super) git_places: Arc<Semaphore>,
    /// Where agents find the store again.
    pub(super) places: Vec<(Word, Word)>,
}

impl Desk {
    pub(super) fn holder(&self) -> Holder {
        Holder::Process(self.owner.clone())
    }
}
