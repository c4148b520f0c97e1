//! Distributes candidate tasks to all concurrent claimants of this process.
//!
//! One read of the queue serves everybody who was waiting when it began, and each gets another task:
//! claimers side by side neither read the same nor race for it. Whoever asks is served by a read
//! that began after it asked, so nothing that was added before is overlooked. Other processes are
//! not known here; the commit tells who was faster. Where they are faster often, each looks further than
//! the head of the queue and chooses anywhere among tasks of the same priority.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use relight_core::claimant::Claimant;
use relight_core::ids::{AgentName, TaskId};
use relight_core::status::TaskStatus;
use relight_core::task::Task;
use relight_core::time::Span;
use relight_store::{StoreError, TaskQuery};
use tokio::sync::{oneshot, watch};
use tokio::time::sleep;

use crate::drain;
use crate::holders::HolderWatch;
use crate::os::{clock, random};
use crate::recovery::{Recoverer, TaskSweep, sweep_all};

/// Sweeps take at most this fraction of the time.
const SWEEP_SHARE: u64 = 20;

/// Maximum number of repeats after the serving task was aborted.
const ASKED_MAX: usize = 1_000;
/// Maximum number of unreadable tasks at the head of the queue that are skipped.
const UNREADABLE_MAX: usize = 16;
/// Maximum factor of candidates read per wanted task.
const SPREAD_MAX: usize = 16;
/// How much a task lost to another process raises that factor; each one won lowers it by one.
const SPREAD_FOR_LOST: usize = 2;

/// Offer to a claimant.
#[derive(Debug)]
pub(super) enum Offer {
    /// A task reserved for this claimant within the process.
    Task(Reserved, Arc<Claimant>),
    /// There is none.
    Nothing,
    /// A drain is in effect.
    Draining,
    /// The agent holds its maximum number of tasks.
    Full {
        /// How many.
        held: u32,
    },
    /// It may not work now, and why.
    MayNotWork(String),
}

/// Shared state of all claimants of this process.
#[derive(Debug, Default)]
pub(super) struct ClaimDispatcher {
    state: Mutex<DispatcherState>,
    /// Held during a sweep.
    sweeping: tokio::sync::Mutex<()>,
    /// The holders that the last sweep found alive.
    holders: watch::Sender<Arc<HolderWatch>>,
}

#[derive(Debug, Default)]
struct DispatcherState {
    asking: Vec<ClaimRequest>,
    /// A task serves the requests.
    is_served: bool,
    /// Tasks being claimed now, with their agent.
    reserved: HashMap<TaskId, AgentName>,
    /// No sweep is needed before this time, by the monotonic clock.
    swept_until_ms: u64,
    /// A sweep was wanted before that time or during another one.
    is_sweep_put_off: bool,
    /// When the last sweep ended, by the same clock.
    swept_at_ms: u64,
    /// Grows with tasks lost to other processes.
    lost: usize,
}

#[derive(Debug)]
struct ClaimRequest {
    agent: AgentName,
    skills: Vec<String>,
    tell: oneshot::Sender<Result<Offer, StoreError>>,
}

/// A task that is being claimed; reserved within this process until dropped.
#[derive(Debug)]
pub(super) struct Reserved {
    dispatcher: Arc<ClaimDispatcher>,
    id: TaskId,
    task: Option<Box<Task>>,
}

impl Reserved {
    pub(super) fn id(&self) -> &TaskId {
        &self.id
    }

    /// The task as it was read; none on a second call.
    pub(super) fn take_task(&mut self) -> Option<Task> {
        self.task.take().map(|task| *task)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.dispatcher.state().reserved.remove(&self.id);
    }
}

impl ClaimDispatcher {
    /// Asks for a task for an agent with these skills.
    pub(super) async fn ask(
        self: &Arc<Self>,
        recoverer: &Recoverer,
        agent: &AgentName,
        skills: &[String],
    ) -> Result<Offer, StoreError> {
        for _ in 0..ASKED_MAX {
            let (tell, told) = oneshot::channel();
            let asking = ClaimRequest {
                agent: agent.clone(),
                skills: skills.to_vec(),
                tell,
            };
            if let Some(serving) = self.enter(asking) {
                // In a task of its own, because the first requester may be cancelled while others
                // wait. Serving within a claim would let each claimant continue alone, so that
                // their commits share no sync.
                tokio::spawn(serving.serve(recoverer.clone()));
            }
            // Unanswered only if that task was aborted.
            if let Ok(offer) = told.await {
                return offer;
            }
        }
        Ok(Offer::Nothing)
    }

    /// Recovers tasks of dead holders; one sweep at a time.
    pub(super) async fn sweep_all(&self, recoverer: &Recoverer) -> Result<TaskSweep, StoreError> {
        self.sweep_alone(self.sweeping.lock().await, recoverer)
            .await
    }

    async fn sweep_alone(
        &self,
        alone: tokio::sync::MutexGuard<'_, ()>,
        recoverer: &Recoverer,
    ) -> Result<TaskSweep, StoreError> {
        let began_ms = clock::monotonic_ms();
        self.state().is_sweep_put_off = false;
        self.holders.send_replace(Arc::default());
        let mut swept = sweep_all(recoverer).await;
        // Where it failed, the next one is made by time.
        let holders = swept.as_mut().map(|swept| std::mem::take(&mut swept.watch));
        {
            let mut state = self.state();
            let ended_ms = clock::monotonic_ms();
            state.swept_at_ms = ended_ms;
            state.swept_until_ms = ended_ms + (ended_ms - began_ms) * SWEEP_SHARE;
        }
        self.holders
            .send_replace(Arc::new(holders.unwrap_or_default()));
        drop(alone);
        swept
    }

    /// Sweeps while claims wait: when a holder that lived may be gone, when a sweep that was put off may be
    /// made, and every `every` for what no event reports. What it recovers is a change of the store, which
    /// wakes the claims. Does not return.
    pub(super) async fn keep_swept(self: &Arc<Self>, recoverer: &Recoverer, every: Span) {
        let mut swept = self.holders.subscribe();
        loop {
            let holders = Arc::clone(&swept.borrow_and_update());
            tokio::select! {
                biased;
                () = holders.ended() => {}
                () = sleep(self.sweep_due(every)) => {}
                // The sender lives as long as this.
                _ = swept.changed() => continue,
            }
            let (dispatcher, recoverer) = (Arc::clone(self), recoverer.clone());
            // In a task of its own: the claim may be woken by the first task that is recovered.
            let sweeping = tokio::spawn(async move {
                let early_ms = dispatcher.early_ms();
                sleep(Duration::from_millis(early_ms)).await;
                let alone = dispatcher.sweeping.lock().await;
                // One claim sweeps for all.
                if Arc::ptr_eq(&dispatcher.holders.borrow(), &holders) {
                    // Tasks that cannot be recovered block nothing; `recover` reports them.
                    let _ = dispatcher.sweep_alone(alone, &recoverer).await;
                }
            });
            let _ = sweeping.await;
        }
    }

    /// Time until the next sweep that no event asks for.
    fn sweep_due(&self, every: Span) -> Duration {
        if self.state().is_sweep_put_off {
            return Duration::from_millis(self.early_ms());
        }
        let since_ms = clock::monotonic_ms().saturating_sub(self.state().swept_at_ms);
        Duration::from_millis(every.as_ms().saturating_sub(since_ms))
    }

    /// How much too early a sweep would be now.
    fn early_ms(&self) -> u64 {
        let swept_until_ms = self.state().swept_until_ms;
        swept_until_ms.saturating_sub(clock::monotonic_ms())
    }

    /// Records whether an offered task was won.
    pub(super) fn note(&self, is_got: bool) {
        let mut state = self.state();
        state.lost = match is_got {
            true => state.lost.saturating_sub(1),
            false => (state.lost + SPREAD_FOR_LOST).min(SPREAD_MAX - 1),
        };
    }

    fn reserve(self: &Arc<Self>, task: Task, agent: &AgentName) -> Reserved {
        let id = task.id.clone();
        self.state().reserved.insert(id.clone(), agent.clone());
        Reserved {
            dispatcher: Arc::clone(self),
            id,
            task: Some(Box::new(task)),
        }
    }

    /// Adds a request. Returns the serving role if nobody has it.
    fn enter(self: &Arc<Self>, asking: ClaimRequest) -> Option<Serving> {
        let mut state = self.state();
        state.asking.push(asking);
        let is_served = std::mem::replace(&mut state.is_served, true);
        (!is_served).then(|| Serving {
            dispatcher: Arc::clone(self),
            is_over: false,
        })
    }

    fn state(&self) -> MutexGuard<'_, DispatcherState> {
        self.state
            .lock()
            .expect("nothing panics while it is locked")
    }
}

/// The serving role, held by one task until there are no more requests.
struct Serving {
    dispatcher: Arc<ClaimDispatcher>,
    is_over: bool,
}

impl Drop for Serving {
    fn drop(&mut self) {
        if !self.is_over {
            let mut state = self.dispatcher.state();
            state.is_served = false;
            // They notice the missing answer and ask again.
            state.asking.clear();
        }
    }
}

impl Serving {
    async fn serve(mut self, recoverer: Recoverer) {
        while !self.ends() {
            // Let concurrent requests join.
            tokio::task::yield_now().await;
            let asking = std::mem::take(&mut self.dispatcher.state().asking);
            self.answer(&recoverer, asking).await;
        }
    }

    /// Whether there are no more requests. The role ends under the same lock, so that no request is
    /// missed.
    fn ends(&mut self) -> bool {
        let mut state = self.dispatcher.state();
        state.is_served = !state.asking.is_empty();
        self.is_over = !state.is_served;
        self.is_over
    }

    async fn answer(&self, recoverer: &Recoverer, asking: Vec<ClaimRequest>) {
        match drain::now(recoverer.engine().store().as_ref()).await {
            Ok(None) => {}
            Ok(Some(_)) => return tell_all(asking, || Ok(Offer::Draining)),
            Err(error) => return tell_all(asking, || Err(error.clone())),
        }
        for alike in by_claimant(asking) {
            let (agent, skills) = (alike[0].agent.clone(), alike[0].skills.clone());
            match self.offers(recoverer, &agent, &skills, alike.len()).await {
                Ok((offers, last)) => {
                    let offers = offers
                        .into_iter()
                        .map(Some)
                        .chain(std::iter::repeat_with(|| None));
                    for (asking, offer) in alike.into_iter().zip(offers) {
                        // A cancelled requester leaves its task to others.
                        let _ = asking
                            .tell
                            .send(Ok(offer.unwrap_or_else(|| last.to_offer())));
                    }
                }
                Err(error) => tell_all(alike, || Err(error.clone())),
            }
        }
    }

    /// Up to `wanted` tasks for one claimant, and the reason for those who get none.
    async fn offers(
        &self,
        recoverer: &Recoverer,
        agent: &AgentName,
        skills: &[String],
        wanted: usize,
    ) -> Result<(Vec<Offer>, NoMore), StoreError> {
        let store = recoverer.engine().store();
        let mut claimant = Claimant::new(agent.clone());
        let mut room = usize::MAX;
        let mut last = NoMore::Nothing;
        if let Some(known) = store.agent(agent).await? {
            if let Some(why) = known.refuses_work(clock::now()) {
                return Ok((Vec::new(), NoMore::MayNotWork(why)));
            }
            claimant = known.plan.claimant(agent);
            if let Some(max) = known.plan.concurrency {
                let held = self.held_by(recoverer, agent).await?;
                room = (max as usize).saturating_sub(held);
                if room < wanted {
                    last = NoMore::Full {
                        held: u32::try_from(held).unwrap_or(u32::MAX),
                    };
                }
            }
        }
        claimant.skills.extend(skills.iter().cloned());
        let claimant = Arc::new(claimant);
        let wanted = wanted.min(room);
        let mut offers = self.reserve(recoverer, &claimant, wanted).await?;
        if offers.len() < wanted && self.sweep(recoverer).await? {
            let missing = wanted - offers.len();
            offers.extend(self.reserve(recoverer, &claimant, missing).await?);
        }
        if offers.len() < wanted {
            last = NoMore::Nothing;
        }
        Ok((offers, last))
    }

    /// Reserves the best tasks. Unreadable ones are skipped, so that they do not block others.
    async fn reserve(
        &self,
        recoverer: &Recoverer,
        claimant: &Arc<Claimant>,
        wanted: usize,
    ) -> Result<Vec<Offer>, StoreError> {
        let store = recoverer.engine().store();
        let (spread, reserved) = {
            let state = self.dispatcher.state();
            (1 + state.lost, state.reserved.len())
        };
        let limit = wanted * spread + reserved + UNREADABLE_MAX;
        let mut candidates = store.claimable(claimant, clock::now(), limit).await?;
        {
            let state = self.dispatcher.state();
            candidates.retain(|id| !state.reserved.contains_key(id));
        }
        let mut offers = Vec::with_capacity(wanted);
        if spread > 1 {
            let mut tasks = store.tasks_by_id(&candidates).await?;
            shuffle_alike(&mut tasks, random::number());
            for task in tasks.into_iter().take(wanted) {
                let reserved = self.dispatcher.reserve(task, &claimant.agent);
                offers.push(Offer::Task(reserved, Arc::clone(claimant)));
            }
            return Ok(offers);
        }
        while offers.len() < wanted && !candidates.is_empty() {
            let more = (wanted - offers.len()).min(candidates.len());
            let ids: Vec<TaskId> = candidates.drain(..more).collect();
            for task in store.tasks_by_id(&ids).await? {
                let reserved = self.dispatcher.reserve(task, &claimant.agent);
                offers.push(Offer::Task(reserved, Arc::clone(claimant)));
            }
        }
        Ok(offers)
    }

    /// Sweeps if due. Returns whether tasks were recovered.
    async fn sweep(&self, recoverer: &Recoverer) -> Result<bool, StoreError> {
        let is_early = self.dispatcher.early_ms() > 0;
        // The running sweep reports what it finds by its commits.
        let alone = self.dispatcher.sweeping.try_lock().ok();
        let Some(alone) = alone.filter(|_| !is_early) else {
            self.dispatcher.state().is_sweep_put_off = true;
            return Ok(false);
        };
        // Tasks that cannot be recovered block nothing; `recover` reports them.
        let swept = self.dispatcher.sweep_alone(alone, recoverer).await?;
        Ok(!swept.recovered.is_empty())
    }

    async fn held_by(&self, recoverer: &Recoverer, agent: &AgentName) -> Result<usize, StoreError> {
        let statuses = vec![TaskStatus::InProgress];
        let agent_only = Some(agent.clone());
        // Few of the open tasks are held, so the backend only reads those.
        let query = TaskQuery {
            statuses,
            agent: agent_only,
            held: true,
            ..TaskQuery::default()
        };
        let tasks = recoverer.engine().store().tasks(query).await?;
        let mut all: std::collections::HashSet<TaskId> =
            tasks.into_iter().map(|task| task.id).collect();
        let state = self.dispatcher.state();
        let reserved = state
            .reserved
            .iter()
            .filter(|(_, for_whom)| *for_whom == agent);
        all.extend(reserved.map(|(id, _)| id.clone()));
        Ok(all.len())
    }
}

/// Shuffles tasks of equal priority, so that several processes rarely try the same ones.
fn shuffle_alike(tasks: &mut [Task], mut random: u64) {
    for alike in tasks.chunk_by_mut(|one, next| one.spec.priority == next.spec.priority) {
        for last in (1..alike.len()).rev() {
            random = scrambled(random);
            alike.swap(last, (random % (last as u64 + 1)) as usize);
        }
    }
}

/// The next pseudo-random number (`SplitMix64`).
fn scrambled(number: u64) -> u64 {
    let mut next = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    next = (next ^ (next >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    next = (next ^ (next >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    next ^ (next >> 31)
}

/// Why there is no task for a claimant.
#[derive(Debug)]
enum NoMore {
    Nothing,
    Full { held: u32 },
    MayNotWork(String),
}

impl NoMore {
    fn to_offer(&self) -> Offer {
        match self {
            Self::Nothing => Offer::Nothing,
            Self::Full { held } => Offer::Full { held: *held },
            Self::MayNotWork(why) => Offer::MayNotWork(why.clone()),
        }
    }
}

fn tell_all(asking: Vec<ClaimRequest>, answer: impl Fn() -> Result<Offer, StoreError>) {
    for asking in asking {
        let _ = asking.tell.send(answer());
    }
}

/// Groups requests by claimant, in order of arrival.
fn by_claimant(asking: Vec<ClaimRequest>) -> Vec<Vec<ClaimRequest>> {
    let mut groups: Vec<Vec<ClaimRequest>> = Vec::new();
    for one in asking {
        let is_alike = |group: &&mut Vec<ClaimRequest>| {
            group[0].agent == one.agent && group[0].skills == one.skills
        };
        match groups.iter_mut().find(is_alike) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use relight_core::change::Change;
    use relight_core::task::NewTask;
    use relight_core::time::Time;

    use super::*;

    #[test]
    fn tasks_of_the_same_priority_come_in_any_order_and_the_best_stay_first() {
        let task = |(id, priority): (&str, i32)| {
            let mut new = NewTask::bare(TaskId::new(id).unwrap());
            new.spec.priority = priority;
            Change::first(&new, Time::from_ms(0))
        };
        let order = |random| {
            let mut tasks = [("a", 9), ("b", 5), ("c", 5), ("d", 5), ("e", 1)]
                .map(task)
                .to_vec();
            shuffle_alike(&mut tasks, random);
            tasks
                .iter()
                .map(|task| task.id.as_str())
                .collect::<String>()
        };
        let orders: std::collections::BTreeSet<String> = (0..1_000).map(order).collect();
        let all = ["abcde", "abdce", "acbde", "acdbe", "adbce", "adcbe"];
        assert_eq!(orders.iter().map(String::as_str).collect::<Vec<_>>(), all);
    }

    #[test]
    fn whoever_loses_often_looks_further_until_it_wins_again() {
        let dispatcher = ClaimDispatcher::default();
        for _ in 0..100 {
            dispatcher.note(false);
        }
        assert_eq!(dispatcher.state().lost + 1, SPREAD_MAX);
        for _ in 0..100 {
            dispatcher.note(true);
        }
        assert_eq!(dispatcher.state().lost, 0);
    }
}
