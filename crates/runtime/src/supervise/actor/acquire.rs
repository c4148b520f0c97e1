//! Acquires an agent. First start, restart and recovery share this path.
//!
//! The store holds the recorded state; the shim and the lock show the actual state. A live attempt
//! of ours is adopted. One that died meanwhile is recorded with its real end, if that can be found.
//! Unknown processes are stopped before anything new starts.

use std::collections::VecDeque;
use std::sync::Arc;

use relight_core::agent::change::AgentChange;
use relight_core::agent::death::{HowEnded, ReportedEnd};
use relight_core::agent::decide::{AgentEffect, AgentEvent, decide};
use relight_core::agent::{Agent, AgentState, Attempt, AttemptTag, Pause, Stopper, Takes};
use relight_core::decide::Guard;
use relight_core::ids::NodeName;
use relight_core::lease::{HeldLease, Holder, ProcessIdentity};
use relight_core::restart_budget;
use relight_core::time::Time;
use relight_store::{AgentCommit, AgentCommitError, AttemptQuery, StoreError, TaskQuery};
use tokio::sync::{mpsc, watch};

use super::death::{SeenOfDeath, bare_record};
use super::ledger::Ledger;
use super::live_attempt::LiveAttempt;
use super::tree::{ConnectedShim, Orphan, Tree};
use super::{Actor, AgentSnapshot, Mail, SupervisionLost};
use crate::os::limits::{self, Room};
use crate::os::{clock, file, process, threads};
use crate::supervise::attempt_waits;
use crate::supervise::context::{NodeRight, SupervisorContext};
use crate::supervise::control::DEATH_MAX;
use crate::supervise::folder::AgentFolder;
use crate::supervise::follow_output::AttemptStream;
use crate::supervise::heartbeats::BeatSlot;
use crate::supervise::log::{AgentLog, LogPosition, LogStart};
use crate::supervise::notices::What;
use crate::supervise::oom::Oom;
use crate::supervise::shim::client;
use crate::supervise::shim::record;
use crate::supervise::shim::wire::{ExitRecord, Input};
use crate::supervise::spec::AgentSpec;
use crate::supervise::successor;
use crate::supervise::watch_process::ProcessWatch;

/// Maximum number of tries to take the lease while others change the agent.
const ROUNDS_MAX: usize = 100;

/// Why an agent cannot be supervised here.
#[derive(Debug, thiserror::Error)]
pub enum AcquireError {
    /// Another supervisor holds it.
    #[error("agent {agent} is supervised by {} since {}", .held.holder, .held.since)]
    Held {
        /// Which agent.
        agent: relight_core::ids::AgentName,
        /// By whom.
        held: Box<HeldLease>,
    },
    /// Others keep changing it.
    #[error("agent {0} is being changed by others all the time")]
    Contended(relight_core::ids::AgentName),
    /// The store itself.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another supervisor took it meanwhile.
    #[error(transparent)]
    Lost(#[from] SupervisionLost),
}

/// What to do with an agent once it is acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcquireMode {
    /// Continue as its state says.
    Wake,
    /// Start it on request of a person.
    Start,
    /// Start it on request of a person with a different command: nothing of the earlier work is
    /// resumed.
    Anew,
    /// Continue as its state says, but work begun before waits for its turn.
    Turn,
    /// Only reconcile the record; start nothing.
    HoldBack,
    /// Stop what runs, as if this supervisor ended; start nothing.
    GiveBack,
}

/// Takes the lease and reconciles the record with what runs.
pub(in crate::supervise) async fn acquire(
    context: Arc<SupervisorContext>,
    mut spec: AgentSpec,
    begin: AcquireMode,
    take_over: bool,
    beats: Arc<BeatSlot>,
    mail: mpsc::UnboundedReceiver<Mail>,
) -> Result<(Actor, watch::Receiver<AgentSnapshot>), AcquireError> {
    let right = context.node_right();
    let (agent, was_on, is_changed) = take_lease(&context, right, &mut spec, take_over).await?;
    let folder = AgentFolder::of(&context.home, &spec.name);
    successor::sweep(&folder);
    let query = AttemptQuery {
        agent: Some(spec.name.clone()),
        ended: true,
        limit: 1,
        before: None,
    };
    let last = context.engine.store().attempts(query).await?.pop();
    let first_view = AgentSnapshot {
        agent: agent.clone(),
        last_sign: None,
        waiting_until: None,
        waits_for_work: false,
        phase: None,
        status: None,
        at_rest: false,
        last_attempt: last.clone(),
    };
    let (view, views) = watch::channel(first_view);
    let fence = agent.lease.fence;
    let holds = match begin {
        AcquireMode::HoldBack | AcquireMode::GiveBack => Some(Pause::HeldBack),
        AcquireMode::Turn => (agent.attempt_number > 0).then_some(Pause::Turn),
        AcquireMode::Wake | AcquireMode::Start | AcquireMode::Anew => None,
    };
    let ledger = Ledger::open(Arc::clone(&context), spec.name.clone(), fence, right);
    let mut actor = Actor {
        context,
        spec,
        folder,
        agent,
        fence,
        ledger,
        tree: Tree::None,
        life: None,
        notify: None,
        due: None,
        last,
        head: None,
        oom: Oom::default(),
        captured_session: None,
        at_rest: false,
        holds,
        postponed: None,
        room_pause: std::time::Duration::ZERO,
        task_held: None,
        has_passed_input: false,
        takes_over: false,
        handed_over: None,
        not_started: None,
        open_calls: Vec::new(),
        leaving: false,
        waiters: Vec::new(),
        events: std::collections::VecDeque::new(),
        asked: tokio::task::JoinSet::new(),
        open_brief: None,
        beats,
        mail,
        delayed_mail: VecDeque::new(),
        delayed_events: VecDeque::new(),
        view,
        node_right: right,
        agent_was_on: was_on,
    };
    actor.reconcile().await?;
    if is_changed {
        actor.end_cooldown().await?;
    }
    if begin == AcquireMode::Anew {
        actor.forget_the_past().await?;
    }
    if matches!(begin, AcquireMode::Start | AcquireMode::Anew) {
        actor.retry_failed_task().await;
    }
    actor.begin(begin);
    Ok((actor, views))
}

/// Returns the agent with its new lease, the node that held it before, and whether its plan changed.
async fn take_lease(
    context: &SupervisorContext,
    right: NodeRight,
    spec: &mut AgentSpec,
    take_over: bool,
) -> Result<(Agent, Option<NodeName>, bool), AcquireError> {
    let store = context.engine.store();
    for _ in 0..ROUNDS_MAX {
        let at = clock::now();
        let before = store.agent(&spec.name).await?;
        let held = before.as_ref().and_then(|agent| agent.lease.held.as_ref());
        let was_on = held.and_then(|held| held.holder.node()).cloned();
        context.engine.holders().look_for(held).await?;
        if !context.still_has(right) {
            return Err(SupervisionLost::Node(spec.name.clone()).into());
        }
        let mut changes = Vec::new();
        let mut agent = match &before {
            None => {
                changes.push(AgentChange::Created(Box::new(spec.plan.clone())));
                AgentChange::first(&spec.name, &spec.plan, at)
            }
            Some(agent) => {
                if let Some(held) = held_by_another(context, agent)
                    && !take_over
                {
                    if has_died(&held.holder).await {
                        continue;
                    }
                    let held = Box::new(held.clone());
                    return Err(AcquireError::Held {
                        agent: spec.name.clone(),
                        held,
                    });
                }
                // A task assigned by the queue is only in the store.
                if [spec.plan.takes, agent.plan.takes] == [Takes::Start; 2] {
                    spec.plan.task.clone_from(&agent.plan.task);
                }
                if agent.plan != spec.plan {
                    changes.push(AgentChange::Planned(Box::new(spec.plan.clone())));
                }
                agent.clone()
            }
        };
        changes.push(AgentChange::LeaseTaken {
            holder: context.holder(),
            ttl: context.hold,
        });
        let guard = Guard {
            fence: None,
            seq: before.as_ref().map(|agent| agent.seq),
        };
        let commit = AgentCommit {
            agent: spec.name.clone(),
            guard,
            at,
            changes: changes.clone(),
        };
        match store.commit_agent(commit).await {
            Ok(committed) => {
                changes
                    .iter()
                    .for_each(|change| change.apply(&mut agent, at));
                agent.seq = committed.seq;
                agent.lease.fence = committed.fence;
                let is_changed = |change| matches!(change, &AgentChange::Planned(_));
                return Ok((agent, was_on, changes.iter().any(is_changed)));
            }
            Err(AgentCommitError::Store(error)) => return Err(error.into()),
            // Lost a race; read again.
            Err(_) => {}
        }
    }
    Err(AcquireError::Contended(spec.name.clone()))
}

/// The shim's accept queue is full; that is not a lack of descriptors.
fn is_full(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::WouldBlock
}

fn held_by_another<'a>(context: &SupervisorContext, agent: &'a Agent) -> Option<&'a HeldLease> {
    let held = agent.lease.held.as_ref()?;
    let ours = held.holder == context.holder();
    let lives = context.engine.holders().is_alive(held);
    (lives && !ours).then_some(held)
}

/// Waits for a supervisor of this machine that was killed just now.
async fn has_died(holder: &Holder) -> bool {
    let Holder::Process(process) = holder else {
        return false;
    };
    if !process::is_alive(process) {
        return false;
    }
    let pid = process.pid;
    threads::run(move || process::has_died_within(pid, DEATH_MAX))
        .await
        .unwrap_or(false)
}

impl Actor {
    fn begin(&mut self, begin: AcquireMode) {
        let event = match begin {
            AcquireMode::Wake | AcquireMode::Turn => AgentEvent::Wake,
            AcquireMode::Start | AcquireMode::Anew => AgentEvent::Start,
            AcquireMode::HoldBack => AgentEvent::HoldBack,
            AcquireMode::GiveBack => AgentEvent::Stop(Stopper::Shutdown),
        };
        self.events.push_back(event);
        // A death that was just recorded is not the last word: only then nobody gives it work.
        self.at_rest = false;
        self.show();
    }

    /// Clears work and session, so that the next attempt resumes neither.
    async fn forget_the_past(&mut self) -> Result<(), SupervisionLost> {
        self.last = None;
        match self.agent.session {
            Some(_) => self.commit(vec![AgentChange::Session(None)]).await,
            None => Ok(()),
        }
    }

    /// The cooldown of a command that could not be started does not bind another command.
    pub(super) async fn end_cooldown(&mut self) -> Result<(), SupervisionLost> {
        let failed = self.last.as_ref().and_then(Attempt::why_not_started);
        let waits = matches!(self.agent.state, AgentState::Crashed { again_at: Some(_) });
        if failed.is_none() || !waits {
            return Ok(());
        }
        let tally = restart_budget::progress(self.agent.tally.clone());
        let again_at = Some(clock::now());
        let changes = vec![
            AgentChange::Tally(tally),
            AgentChange::State(AgentState::Crashed { again_at }),
        ];
        self.commit(changes).await?;
        self.events.push_back(AgentEvent::Due);
        Ok(())
    }

    /// Makes the record match what runs.
    async fn reconcile(&mut self) -> Result<(), AcquireError> {
        let attempt = self.live_attempt().await?;
        let (_room, connection) = self.reach_shim().await;
        let met = match connection {
            Some(connection) => Tree::meet(connection).await.ok().flatten(),
            None => None,
        };
        match met {
            Some(met) => self.meet_shim(met, attempt).await,
            None => self.meet_nobody(attempt).await,
        }
    }

    /// Connects to the shim, if one listens. A shim that does not answer is found by its lock.
    /// Without a free descriptor neither can be checked; then it waits, because a live attempt must
    /// not be taken for dead.
    async fn reach_shim(&self) -> (Room, Option<client::ShimConnection>) {
        let mut pause = std::time::Duration::from_millis(250);
        loop {
            if let Ok(Some(room)) = Room::take() {
                match client::connect(&self.folder, self.fence).await {
                    Ok(connection) => return (room, connection),
                    Err(error) if is_full(&error) || !limits::is_exhausted(&error) => {
                        return (room, None);
                    }
                    Err(_) => {}
                }
            }
            self.tell(What::Trouble(
                "too many files are open to take it up; waiting".to_owned(),
            ));
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(std::time::Duration::from_secs(30));
        }
    }

    /// The attempt that is alive according to the store.
    async fn live_attempt(&self) -> Result<Option<Attempt>, StoreError> {
        match &self.agent.state {
            AgentState::Running { attempt, .. } => {
                self.context.engine.store().attempt(attempt).await
            }
            AgentState::Created
            | AgentState::Crashed { .. }
            | AgentState::Suspended { .. }
            | AgentState::Stopped { .. }
            | AgentState::Terminated { .. } => Ok(None),
        }
    }

    async fn meet_shim(
        &mut self,
        met: ConnectedShim,
        attempt: Option<Attempt>,
    ) -> Result<(), AcquireError> {
        self.tree = met.tree;
        let Some((tag, process)) = met.running else {
            return self.record_death_from_file(attempt).await;
        };
        if attempt.as_ref().is_some_and(|attempt| attempt.tag == tag) {
            self.adopt(&tag, process, attempt).await;
            return Ok(());
        }
        if self.comes_after(&tag, attempt).await? {
            self.adopt(&tag, process, None).await;
            return Ok(());
        }
        // The store does not know this attempt.
        self.tree = Tree::None;
        self.clear_tags(vec![tag]).await?;
        Ok(())
    }

    /// Whether this is the next attempt, which the last supervisor started without recording it. Then
    /// the end of the one before is recorded.
    async fn comes_after(
        &mut self,
        tag: &AttemptTag,
        attempt: Option<Attempt>,
    ) -> Result<bool, SupervisionLost> {
        let is_next = self.agent.next_attempt.as_ref() == Some(tag);
        let Some(attempt) = attempt.filter(|_| is_next) else {
            return Ok(false);
        };
        let record = self.record_of(attempt.number, &attempt.tag);
        let record = record.unwrap_or_else(|| bare_record(attempt.tag.clone(), attempt.number));
        self.catch_up(attempt, record, SeenOfDeath::default())
            .await?;
        let state = &self.agent.state;
        Ok(matches!(state, AgentState::Running { attempt, .. } if attempt == tag))
    }

    /// Records the end of an attempt whose successor was already started; starts nothing. A drain
    /// does not matter: the successor runs already.
    async fn catch_up(
        &mut self,
        attempt: Attempt,
        record: ExitRecord,
        seen: SeenOfDeath,
    ) -> Result<(), SupervisionLost> {
        let said = self.read_back(&attempt, record.how).await?;
        let event = self.facts_of(&attempt, &record, said, seen).await;
        let decision = decide(&self.agent, event, self.decision_input().await);
        self.last = Some(attempt);
        self.commit(decision.changes).await?;
        for effect in decision.effects {
            if let AgentEffect::Alert(_) = effect {
                self.act(effect).await?;
            }
        }
        Ok(())
    }

    /// Adopts a live attempt of an earlier supervisor.
    async fn adopt(
        &mut self,
        tag: &AttemptTag,
        process: ProcessIdentity,
        attempt: Option<Attempt>,
    ) {
        let number = tag.number().unwrap_or(self.agent.attempt_number);
        let begins = attempt
            .as_ref()
            .and_then(|attempt| attempt.log)
            .map(LogPosition::from);
        let files = AgentLog::of(&self.folder);
        let at = begins.or_else(|| files.end().ok()).unwrap_or_default();
        let log = LogStart {
            number: at.number,
            path: files.path(at.number),
            offset: at.offset,
        };
        let began = attempt
            .as_ref()
            .map_or(self.agent.updated_at, |attempt| attempt.begun_at);
        let lived = process::age(&process).as_duration();
        let mut life = LiveAttempt::new(&self.spec, tag.clone(), number, log, &self.folder, lived);
        life.begun_at = began;
        life.started(process.clone());
        if let Some(waits) = attempt_waits::kept(&self.folder, tag) {
            life.waits_still(waits);
        }
        self.life = Some(life);
        self.stand_guard();
        // Only attempts that must be restarted wait for their turn.
        self.has_its_turn();
        self.listen();
        self.watch_output();
        let recorded = attempt
            .as_ref()
            .is_some_and(|attempt| attempt.process.is_some());
        let without_shim = !self.tree.is_ready();
        self.tell(What::Adopted {
            number,
            process: process.clone(),
            without_shim,
        });
        if self.spec.input == Input::Passed {
            let text = "standard input is not passed on: the attempt keeps the input that it had";
            self.tell(What::Trouble(text.to_owned()));
            self.has_passed_input = true;
        }
        // In a fleet every attempt needs a shim that enforces the deadline.
        let is_unguarded = without_shim && self.context.fleet.is_some();
        if self.ending().is_some() || is_unguarded {
            let ladder = if without_shim {
                self.ladder_in_time()
            } else {
                self.ladder()
            };
            self.tree.stop(ladder).await;
        }
        if !recorded {
            let shim = self.tree.shim().cloned();
            let spawned = AgentChange::Spawned {
                number,
                process,
                shim,
                log: None,
            };
            let _ = self.commit(vec![spawned]).await;
        }
    }

    /// Handles the case that no shim listens.
    async fn meet_nobody(&mut self, attempt: Option<Attempt>) -> Result<(), AcquireError> {
        let Some(attempt) = attempt else {
            return Ok(());
        };
        let known = attempt.process.clone();
        if let Some(leader) = self.orphan(attempt.number, &attempt.tag, known) {
            let tag = attempt.tag.clone();
            self.adopt(&tag, leader, Some(attempt)).await;
            return Ok(());
        }
        let (next, number) = (self.agent.next_attempt.clone(), attempt.number + 1);
        if let Some(tag) = next
            && let Some(leader) = self.orphan(number, &tag, None)
        {
            if self.comes_after(&tag, Some(attempt)).await? {
                self.adopt(&tag, leader, None).await;
                return Ok(());
            }
            self.tree = Tree::None;
            self.clear_tags(vec![tag]).await?;
            return Ok(());
        }
        self.record_death_from_file(Some(attempt)).await
    }

    /// The main process of an attempt that lives without a shim: the `known` one, or the one that the
    /// shim left a note of.
    fn orphan(
        &mut self,
        number: u32,
        tag: &AttemptTag,
        known: Option<ProcessIdentity>,
    ) -> Option<ProcessIdentity> {
        if self.record_of(number, tag).is_some() {
            return None;
        }
        let leader = known.or_else(|| record::process(&self.folder, number, tag))?;
        let watch = ProcessWatch::new(&leader).ok().flatten()?;
        self.tree = Tree::Orphan(Orphan {
            watch,
            tag: tag.clone(),
        });
        Some(leader)
    }

    /// No process is left. Records the death from the shim's exit record, or as lost.
    async fn record_death_from_file(
        &mut self,
        attempt: Option<Attempt>,
    ) -> Result<(), AcquireError> {
        let Some(attempt) = attempt else {
            return Ok(());
        };
        let process = attempt.process.as_ref().or(attempt.shim.as_ref());
        let was_begun_here = || record::was_begun(&self.folder, attempt.number, &attempt.tag);
        let (here, had_it) = (self.context.owner.node.as_ref(), self.agent_was_on.as_ref());
        if let Some(node) = other_node(process, was_begun_here, here, had_it).cloned() {
            return self.record_death_of_node(attempt, &node).await;
        }
        let record = self.record_of(attempt.number, &attempt.tag);
        let is_lost = record.is_none();
        if is_lost && self.was_never_started(&attempt) {
            self.start_again(attempt.number, attempt.tag);
            return Ok(());
        }
        let mut note = "the machine went down".to_owned();
        let process = attempt.process.as_ref().or(attempt.shim.as_ref());
        let is_same_boot = process.is_none_or(|process| process.boot == self.context.owner.boot);
        if is_lost && is_same_boot {
            self.clear_leftovers().await?;
            note = "it died together with its shim while nobody watched".to_owned();
            let (leader, shim) = (attempt.process.as_ref(), attempt.shim.as_ref());
            note += &self
                .what_may_be_left(leader, shim)
                .await
                .unwrap_or_default();
        }
        let record = match record {
            Some(record) => record,
            None => {
                let log = attempt
                    .log
                    .map(|(number, _)| AgentLog::of(&self.folder).path(number));
                let last_output = log.and_then(|log| file::modified_at(&log));
                self.lost_record(&attempt, last_output, note).await
            }
        };
        // The successor may have been started and have died before that was recorded.
        let after = self.end_of_successor(attempt.number + 1).await?;
        let seen = SeenOfDeath {
            unwatched: is_lost,
            ..SeenOfDeath::default()
        };
        match after {
            Some(after) => self.record_both_deaths(attempt, record, after, seen).await,
            None => Ok(self.record_unwatched_death(attempt, record, seen).await?),
        }
    }

    /// Whether the last supervisor died before a shim was told to start this attempt, usually while
    /// it waited for resources. Nothing ran, so it is started now and costs no budget.
    fn was_never_started(&self, attempt: &Attempt) -> bool {
        let may_start = self.holds.is_none()
            && self.ending().is_none()
            && !self.context.is_draining()
            && !self.is_stopped_by_budget();
        let is_known = attempt.process.is_some() || attempt.shim.is_some();
        may_start && !is_known && !record::was_begun(&self.folder, attempt.number, &attempt.tag)
    }

    /// Its node is gone, so how it ended is unknown. Its shim has stopped it in time.
    async fn record_death_of_node(
        &mut self,
        attempt: Attempt,
        node: &NodeName,
    ) -> Result<(), AcquireError> {
        let note = format!("its node {node} was lost");
        let last_renewed = self.context.engine.holders().last_renewed(node);
        let record = self.lost_record(&attempt, last_renewed, note).await;
        // Local logs with the same number belong to other attempts.
        let seen = SeenOfDeath {
            wrote_nothing: true,
            unwatched: true,
            node_lost: true,
            silent_since: None,
        };
        Ok(self.record_death(attempt, record, None, seen).await?)
    }

    async fn record_both_deaths(
        &mut self,
        attempt: Attempt,
        record: ExitRecord,
        after: ExitRecord,
        seen: SeenOfDeath,
    ) -> Result<(), AcquireError> {
        self.catch_up(attempt, record, seen).await?;
        match self
            .live_attempt()
            .await?
            .filter(|next| next.tag == after.tag)
        {
            Some(next) => Ok(self.record_unwatched_death(next, after, seen).await?),
            None => Ok(()),
        }
    }

    async fn record_unwatched_death(
        &mut self,
        attempt: Attempt,
        record: ExitRecord,
        seen: SeenOfDeath,
    ) -> Result<(), SupervisionLost> {
        let said = self.read_back(&attempt, record.how).await?;
        self.record_death(attempt, record, said, seen).await
    }

    /// Reads the output that an attempt wrote while it was unsupervised, and keeps its session id.
    async fn read_back(
        &mut self,
        attempt: &Attempt,
        how: HowEnded,
    ) -> Result<Option<ReportedEnd>, SupervisionLost> {
        let preset = Arc::clone(&self.spec.preset);
        let Some(begins) = attempt.log.filter(|_| preset.reads_stream()) else {
            return Ok(None);
        };
        let mut stream = AttemptStream::new(&preset, begins.into(), &self.folder);
        let session = stream.read_all().await;
        self.captured(session);
        self.keep_captured().await?;
        self.charge(attempt, stream.used(), None, false).await?;
        Ok(stream.ended(&preset, how, self.should_resume_session(), self.ending()))
    }

    /// How the attempt with the allocated next tag ended, according to the store; none if it never
    /// began.
    async fn end_of_successor(
        &mut self,
        number: u32,
    ) -> Result<Option<ExitRecord>, SupervisionLost> {
        let Some(tag) = self.agent.next_attempt.clone() else {
            return Ok(None);
        };
        if let Some(record) = self.record_of(number, &tag) {
            return Ok(Some(record));
        }
        if !record::was_begun(&self.folder, number, &tag) {
            return Ok(None);
        }
        self.clear_tags(vec![tag.clone()]).await?;
        let note = Some("it died together with its shim while nobody watched".to_owned());
        Ok(Some(ExitRecord {
            note,
            ..bare_record(tag, number)
        }))
    }

    /// Exit record of an attempt whose end nobody saw. It ended at its last sign of life: `seen`,
    /// or the last write to a task that it held.
    async fn lost_record(&self, attempt: &Attempt, seen: Option<Time>, note: String) -> ExitRecord {
        let held = TaskQuery {
            held_by: Some(attempt.tag.clone()),
            ..TaskQuery::default()
        };
        let held = self
            .context
            .engine
            .store()
            .tasks(held)
            .await
            .unwrap_or_default();
        let moved_at = held.iter().map(|task| task.updated_at).max();
        let at = seen
            .max(moved_at)
            .map_or(attempt.begun_at, |at| at.max(attempt.begun_at));
        let at = at.min(clock::now());
        ExitRecord {
            note: Some(note),
            at,
            lived: at.since(attempt.begun_at),
            ..bare_record(attempt.tag.clone(), attempt.number)
        }
    }

    /// All tags under which processes of the agent may run.
    pub(super) async fn tags(&self) -> Vec<AttemptTag> {
        let query = AttemptQuery {
            agent: Some(self.spec.name.clone()),
            ended: false,
            limit: 8,
            before: None,
        };
        let attempts = self
            .context
            .engine
            .store()
            .attempts(query)
            .await
            .unwrap_or_default();
        let mut tags: Vec<AttemptTag> = attempts.into_iter().map(|attempt| attempt.tag).collect();
        tags.extend(self.agent.next_attempt.clone());
        tags
    }
}

/// The node that an attempt ran on, if it did not run here. `had_it` is the node that had the agent last.
fn other_node<'a>(
    process: Option<&'a ProcessIdentity>,
    was_begun_here: impl FnOnce() -> bool,
    here: Option<&NodeName>,
    had_it: Option<&'a NodeName>,
) -> Option<&'a NodeName> {
    match process {
        Some(process) => process.node.as_ref().filter(|node| Some(*node) != here),
        // Its process was never recorded. The lease tells only who had the agent last: this node may
        // have taken it from the one that began the attempt, and lost its own lease.
        None => had_it.filter(|_| !was_begun_here()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    #[test]
    fn an_attempt_with_a_recorded_process_ran_where_that_was() {
        let on = |name: Option<&str>| ProcessIdentity {
            pid: 1,
            start: 1,
            boot: "boot".to_owned(),
            node: name.map(node),
        };
        let (here, there) = (node("here"), node("there"));
        let found = |process: &ProcessIdentity| {
            other_node(Some(process), || false, Some(&here), Some(&here)).cloned()
        };
        assert_eq!(found(&on(Some("there"))), Some(there));
        assert_eq!(found(&on(Some("here"))), None);
        assert_eq!(found(&on(None)), None);
    }

    /// Otherwise it would be started a second time under the same number and tag.
    #[test]
    fn an_attempt_without_a_recorded_process_ran_here_only_if_it_was_begun_here() {
        let (here, there) = (node("here"), node("there"));
        let found = |begun: bool, had_it: &NodeName| {
            other_node(None, || begun, Some(&here), Some(had_it)).cloned()
        };
        assert_eq!(
            found(false, &here),
            Some(here.clone()),
            "it took the agent over and lost its own lease"
        );
        assert_eq!(found(false, &there), Some(there.clone()));
        assert_eq!(found(true, &here), None);
        assert_eq!(found(true, &there), None);
        assert_eq!(
            other_node(None, || false, None, None),
            None,
            "there is no fleet"
        );
    }
}
