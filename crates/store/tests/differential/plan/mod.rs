//! What is done next: decided operations, raw ones with right and wrong guards, and reads.

mod agents;
mod sessions;

use std::collections::BTreeMap;

use relight_core::agent::AttemptTag;
use relight_core::change::{Change, StepMark};
use relight_core::claimant::Claimant;
use relight_core::decide::{
    Guard, Right, StartLimits, Starter, TaskDecisionInput, TaskEvent, decide,
};
use relight_core::event::EventKind;
use relight_core::ids::{AgentName, IdempotencyKey, StepName, TaskId};
use relight_core::lease::{Fence, Holder, HolderLife, ProcessIdentity};
use relight_core::recovery::TaskPolicy;
use relight_core::status::TaskStatus;
use relight_core::step::{Output, RepeatRule, Step, StepKey, StepOutcome};
use relight_core::task::{CheckpointSettings, NewTask, Task, TaskSpec, TaskTally, Usage};
use relight_core::time::{Span, Time};
use relight_core::usage::Reading;
use relight_store::{Commit, EventQuery, TaskQuery};
use serde_json::json;

use crate::dice::Dice;
use crate::pair::{Pair, TICK, all_events};

const TASKS: u64 = 7;
const AGENTS: [&str; 3] = ["ann", "bob", "carl"];
const KEYS: [&str; 3] = ["k1", "k2", "k 3 ü"];
const STEPS: [&str; 4] = ["plan", "write", "send the mail", "Plan"];
const FOLDERS: [&str; 2] = ["/srv/a", "/srv/a/b"];
/// The wall clock goes on from here, and now and then back.
const START_MS: i64 = 1_777_636_800_000;

/// The random plan, and the wall clock it goes by.
pub(crate) struct Plan {
    dice: Dice,
    now: Time,
}

impl Plan {
    pub(crate) fn new(dice: Dice) -> Self {
        Self {
            dice,
            now: Time::from_ms(START_MS),
        }
    }

    /// One operation.
    pub(crate) async fn step(&mut self, pair: &mut Pair<'_>) {
        self.tick();
        match self.dice.below(100) {
            0..10 => self.create(pair).await,
            10..34 => self.decided(pair).await,
            34..54 => self.supervise(pair).await,
            54..61 => self.raw(pair).await,
            61..65 => self.hold_steps(pair).await,
            65..72 => self.soon(pair).await,
            72..76 => self.renew(pair).await,
            76..82 => pair.advance(self.ticks(3)).await,
            82..85 => self.forget(pair).await,
            85..86 => pair.forget_events(self.around_now()).await,
            86..88 => pair.reopen().await,
            88..93 => self.converse(pair).await,
            _ => self.look(pair).await,
        }
    }

    // Writes

    async fn create(&mut self, pair: &mut Pair<'_>) {
        let new = self.new_task();
        let mut changes = vec![Change::Created(Box::new(new.clone()))];
        if self.dice.chance(20) {
            let (holder, ttl) = self.holder();
            changes.push(Change::LeaseTaken { holder, ttl });
        }
        pair.commit(self.commit(new.id, Guard::default(), changes))
            .await;
    }

    async fn decided(&mut self, pair: &mut Pair<'_>) {
        if let Some(commit) = self.decision(pair).await {
            pair.commit(commit).await;
        }
    }

    /// What `decide` makes of a random event; nothing when it refuses.
    async fn decision(&mut self, pair: &mut Pair<'_>) -> Option<Commit> {
        let (id, key) = (self.task_id(), self.step_key());
        let task = pair.task(&id).await?;
        let step = pair.step(&id, &key).await;
        let steps = pair.steps(&id).await;
        let (life, right, now) = (self.life(&task), self.right(&task), self.now);
        let scene = TaskDecisionInput {
            task: &task,
            step: step.as_ref(),
            steps: &steps,
            life,
            right,
            caller: None,
            now,
        };
        let decision = decide(&scene, self.event(&id, key)).ok()?;
        Some(self.commit(id, decision.guard, decision.changes))
    }

    /// Changes that nobody decided, under a guard that may be wrong.
    async fn raw(&mut self, pair: &mut Pair<'_>) {
        let (id, key) = (self.task_id(), self.step_key());
        let task = pair.task(&id).await;
        let step = pair.step(&id, &key).await;
        let mut changes = Vec::new();
        if self.dice.chance(50) {
            changes.push(self.step_change(key, step.as_ref()));
        }
        for _ in 0..self.dice.below(4) {
            changes.push(self.change(&id));
        }
        let guard = self.guard(task.as_ref());
        pair.commit(self.commit(id, guard, changes)).await;
    }

    /// Begins and ends of several steps under the holder's fence, and nothing else: what backends have a
    /// shortcut for.
    async fn hold_steps(&mut self, pair: &mut Pair<'_>) {
        let id = self.task_id();
        let Some(task) = pair.task(&id).await else {
            return;
        };
        let mut changes = Vec::new();
        for _ in 0..1 + self.dice.below(3) {
            let key = self.step_key();
            let step = pair.step(&id, &key).await;
            let change = self.step_change(key, step.as_ref());
            changes.extend(
                matches!(change, Change::StepBegun(_) | Change::StepEnded { .. }).then_some(change),
            );
        }
        let seq = self.dice.chance(20).then(|| self.near(Fence(task.seq)).0);
        let guard = Guard {
            fence: Some(self.near(task.lease.fence)),
            seq,
        };
        pair.commit(self.commit(id, guard, changes)).await;
    }

    /// Several that are not waited for, then one that is: from then on they must be seen.
    async fn soon(&mut self, pair: &mut Pair<'_>) {
        let beacon = TaskId::new("beacon").expect("a valid id");
        if pair.task(&beacon).await.is_none() {
            let new = Box::new(NewTask::bare(beacon.clone()));
            pair.commit(self.commit(beacon.clone(), Guard::default(), vec![Change::Created(new)]))
                .await;
        }
        let mut all = Vec::new();
        for _ in 0..1 + self.dice.below(4) {
            all.extend(self.decision(pair).await);
        }
        // Only the first decision about a task stands on what is there.
        all.sort_by(|a, b| a.task.cmp(&b.task));
        all.dedup_by(|a, b| a.task == b.task);
        for commit in all {
            pair.commit_deferred(commit);
        }
        let note = vec![Change::Noted(
            EventKind::CheckpointImported,
            json!({"n": self.dice.roll()}),
        )];
        assert!(
            pair.commit(self.commit(beacon, Guard::default(), note))
                .await,
            "nothing refuses it"
        );
    }

    async fn renew(&mut self, pair: &mut Pair<'_>) {
        let id = self.task_id();
        let newest = pair
            .task(&id)
            .await
            .map_or(Fence(0), |task| task.lease.fence);
        let fence = self.near(newest);
        pair.renew(&id, fence).await;
    }

    async fn forget(&mut self, pair: &mut Pair<'_>) {
        let mut asked = Vec::new();
        for _ in 0..self.dice.below(4) {
            let id = self.task_id();
            let seq = pair.task(&id).await.map_or(0, |task| task.seq);
            let wrong = u64::from(self.dice.chance(40));
            asked.push((id, seq + wrong));
        }
        pair.forget(asked, self.now).await;
    }

    // Reads

    async fn look(&mut self, pair: &mut Pair<'_>) {
        let (id, key) = (self.task_id(), self.step_key());
        match self.dice.below(10) {
            0 => pair.unfinished().await,
            1 => pair.inventory().await,
            2 => pair.newest_event().await,
            3 => pair.output(&id, &key).await,
            4 => drop(pair.steps(&id).await),
            5 => pair.task_with_key(&self.key()).await,
            6 => {
                let (agent, now) = (self.agent(), self.around_now());
                let limit = self.dice.below(5) as usize;
                pair.claimable(&agent, now, limit).await;
            }
            7 => drop(pair.tasks(self.task_query()).await),
            8 => {
                let (after, query) = self.event_query();
                pair.events(after, query).await;
            }
            _ => pair.compare_everything().await,
        }
    }

    fn task_query(&mut self) -> TaskQuery {
        TaskQuery {
            statuses: (0..self.dice.below(4)).map(|_| self.status()).collect(),
            agent: self.dice.chance(30).then(|| self.agent()),
            checkpoint_folder: self.dice.chance(30).then(|| self.folder()),
            held_by: self
                .dice
                .chance(15)
                .then(|| AttemptTag::from_text(format!("attempt {}", self.dice.below(3)))),
            held: self.dice.chance(15),
            in_doubt: self.dice.chance(15),
            find: self.dice.chance(15).then(|| {
                let words = ["t", "T1", "a b", "%", "title", "plan", "MAIL"];
                (*self.dice.pick(&words)).to_owned()
            }),
            newest: self.dice.chance(30),
            after: self.dice.chance(30).then(|| self.task_id()),
            limit: self.dice.maybe(|dice| dice.below(4) as usize),
        }
    }

    fn event_query(&mut self) -> (usize, EventQuery) {
        let query = EventQuery {
            task: self.dice.chance(50).then(|| self.task_id()),
            agent: self.dice.chance(25).then(|| self.agent()),
            kinds: (0..self.dice.below(4))
                .map(|_| *self.dice.pick(&EventKind::ALL))
                .collect(),
            limit: self.dice.below(20) as usize,
            newest: self.dice.chance(50),
            before: self.dice.chance(25).then(|| self.dice.below(300)),
            ..all_events()
        };
        (self.dice.below(200) as usize, query)
    }

    // Parts

    fn tick(&mut self) {
        let (forth, back) = (self.dice.below(5_000), self.dice.below(20_000));
        let ms = if self.dice.chance(3) {
            -(back as i64)
        } else {
            forth as i64
        };
        self.now = Time::from_ms(self.now.as_ms() + ms);
    }

    fn commit(&self, task: TaskId, guard: Guard, changes: Vec<Change>) -> Commit {
        Commit {
            task,
            guard,
            at: self.now,
            changes,
        }
    }

    fn event(&mut self, id: &TaskId, key: StepKey) -> TaskEvent {
        let (holder, ttl) = self.holder();
        let reason = self.text();
        match self.dice.below(22) {
            0 => {
                let (steal, limits) = (self.dice.chance(30), StartLimits::Forced);
                let ann = || AgentName::new("ann").expect("a good name");
                let starter = steal.then(|| Starter::Planned(ann()));
                TaskEvent::Start {
                    holder,
                    ttl,
                    steal,
                    starter,
                    limits,
                }
            }
            1 => {
                let limits = StartLimits::Policy(TaskPolicy::default());
                TaskEvent::Start {
                    holder,
                    ttl,
                    steal: false,
                    starter: None,
                    limits,
                }
            }
            2 => {
                let claimant = Claimant::new(self.agent());
                TaskEvent::Claim {
                    claimant,
                    holder,
                    ttl,
                    policy: TaskPolicy::default(),
                }
            }
            3 => TaskEvent::Set(self.context()),
            4 => TaskEvent::Review,
            5 => TaskEvent::Done {
                force: self.dice.chance(50),
            },
            6 => TaskEvent::Fail { reason },
            7 => TaskEvent::Block {
                reason,
                is_told: false,
            },
            8 => TaskEvent::Defer {
                until: self.around_now(),
                reason: Some(reason),
            },
            9 if self.dice.chance(30) => TaskEvent::Cancel {
                reason: Some(reason),
            },
            9 | 10 => TaskEvent::Retry {
                agent: self.maybe_agent(),
                force: self.dice.chance(50),
            },
            11 => TaskEvent::Release {
                force: self.dice.chance(50),
            },
            12 => TaskEvent::SetCheckpoint(self.door()),
            13 => TaskEvent::StepResolve {
                key,
                happened: self.dice.chance(50),
            },
            14 if self.dice.chance(30) => TaskEvent::StepSkip { key, reason },
            14 => TaskEvent::Move {
                to: self.status(),
                reason: Some(reason),
            },
            15 => TaskEvent::Declare(self.declared()),
            16 if self.dice.chance(50) => TaskEvent::Replace(Box::new(NewTask {
                id: id.clone(),
                ..self.new_task()
            })),
            16..=18 => TaskEvent::StepEnd {
                key,
                outcome: self.outcome(),
                output: self.output(),
            },
            _ => TaskEvent::StepBegin {
                key,
                rule: *self.dice.pick(&RepeatRule::ALL),
                fingerprint: self.dice.chance(20).then(|| self.dice.roll()),
            },
        }
    }

    fn change(&mut self, id: &TaskId) -> Change {
        let (holder, ttl) = self.holder();
        match self.dice.below(17) {
            0 => Change::Status {
                to: self.status(),
                reason: self.dice.maybe(|_| "raw".to_owned()),
            },
            1 => Change::Assigned(self.maybe_agent()),
            2 => Change::Retried,
            3 | 4 => Change::LeaseTaken { holder, ttl },
            5 => Change::LeaseEnded,
            6 => Change::FenceRaised,
            7 => Change::ContextSet(self.context()),
            8 => Change::NotBefore(Some(self.around_now())),
            9 => Change::StepsDeclared(self.declared()),
            10 => Change::Noted(EventKind::CheckpointDamaged, json!({"why": self.text()})),
            11 => Change::Replaced(Box::new(NewTask {
                id: id.clone(),
                ..self.new_task()
            })),
            12 => Change::Spent(Usage {
                cost_micros: self.dice.below(9),
                turns: self.dice.below(3),
                input_tokens: self.dice.below(5),
                ..Usage::default()
            }),
            13 => Change::Tally(TaskTally {
                recoveries: self.dice.below(4) as u32,
                given_up: self.dice.chance(20),
                ..TaskTally::default()
            }),
            14 => Change::Pinned(self.dice.chance(50)),
            15 => Change::Metered {
                readings: vec![Reading {
                    source: format!("attempt {}", self.dice.below(3)),
                    total: Usage {
                        output_tokens: self.dice.roll(),
                        ..Usage::default()
                    },
                }],
                spent: Usage {
                    output_tokens: self.dice.below(9),
                    ..Usage::default()
                },
            },
            _ => Change::StepsCleared,
        }
    }

    /// Stands on what was read, so that the counts stay true.
    fn step_change(&mut self, key: StepKey, step: Option<&Step>) -> Change {
        let was_open = step.is_some_and(Step::is_open);
        let tries = step.map_or(0, |step| step.tries) + 1;
        let rule = *self.dice.pick(&RepeatRule::ALL);
        let mark = StepMark {
            key,
            rule,
            tries,
            fingerprint: Some(self.dice.roll()),
            was_open,
            call: None,
        };
        match self.dice.below(4) {
            0 => Change::StepBegun(mark),
            1 => Change::StepEnded {
                mark,
                outcome: self.outcome(),
                output: self.output(),
            },
            2 => Change::StepSkipped {
                mark,
                reason: self.text(),
            },
            _ => Change::StepResolved {
                mark,
                happened: self.dice.chance(50),
            },
        }
    }

    fn guard(&mut self, task: Option<&Task>) -> Guard {
        let (fence, seq) = task.map_or((Fence(1), 1), |task| (task.lease.fence, task.seq));
        Guard {
            fence: self.dice.chance(50).then(|| self.near(fence)),
            seq: self.dice.chance(50).then(|| self.near(Fence(seq)).0),
        }
    }

    fn right(&mut self, task: &Task) -> Right {
        if self.dice.chance(30) {
            Right::Unfenced
        } else {
            Right::Fence(self.near(task.lease.fence))
        }
    }

    /// Mostly the number itself, sometimes the one before or after.
    fn near(&mut self, number: Fence) -> Fence {
        match self.dice.below(8) {
            0 => Fence(number.0.saturating_sub(1)),
            1 => number.next(),
            _ => number,
        }
    }

    fn life(&mut self, task: &Task) -> HolderLife {
        let left = task.lease.held.as_ref().and_then(|held| held.left);
        match left {
            Some(Span::ZERO) => HolderLife::Gone,
            Some(_) => HolderLife::Alive,
            None if self.dice.chance(50) => HolderLife::Alive,
            None => HolderLife::Gone,
        }
    }

    fn new_task(&mut self) -> NewTask {
        NewTask {
            id: self.task_id(),
            agent: self.maybe_agent(),
            spec: TaskSpec {
                title: self.dice.chance(50).then(|| self.text()),
                steps: self.declared(),
                payload: self
                    .dice
                    .maybe(|dice| json!({"n": dice.roll(), "list": [1, "x", null]})),
                strategy: self.dice.maybe(|_| "resume".to_owned()),
                max_retries: self.dice.maybe(|dice| dice.below(4) as u32),
                key: self.dice.chance(50).then(|| self.key()),
                ttl_ms: None,
                priority: self.dice.below(5) as i32 - 2,
                needs: self
                    .dice
                    .maybe(|_| vec!["rust".to_owned()])
                    .unwrap_or_default(),
                spent_keys: (0..self.dice.below(3)).map(|_| self.key()).collect(),
                ..TaskSpec::default()
            },
            context: self.context(),
            expires_at: self.dice.chance(30).then(|| self.around_now()),
            checkpoint: self.dice.chance(40).then(|| self.door()),
        }
    }

    fn door(&mut self) -> CheckpointSettings {
        CheckpointSettings {
            folder: self.folder(),
            handoff_to: self.dice.maybe(|_| "somebody".to_owned()),
            notes: self.dice.chance(50).then(|| self.text()),
            blocked: self.dice.chance(50),
        }
    }

    fn holder(&mut self) -> (Holder, Option<Span>) {
        let number = self.dice.below(3);
        match self.dice.below(4) {
            0 => (Holder::Process(self.process()), None),
            1 => {
                let (attempt, shim) = (format!("attempt {number}"), self.process());
                (
                    Holder::Attempt {
                        process: None,
                        attempt,
                        shim,
                    },
                    None,
                )
            }
            _ => {
                let by = format!("person {number}");
                (Holder::Time { by }, Some(self.ticks(8)))
            }
        }
    }

    fn process(&mut self) -> ProcessIdentity {
        let start = self.dice.below(3);
        ProcessIdentity {
            pid: start as u32,
            start,
            boot: "boot".to_owned(),
            node: None,
        }
    }

    fn ticks(&mut self, end: u64) -> Span {
        Span::from_ms(self.dice.below(end) * TICK.as_ms())
    }

    fn output(&mut self) -> Option<Output> {
        self.dice.maybe(|dice| {
            let mut body = vec![b'x'; dice.below(300) as usize];
            body.extend(dice.roll().to_le_bytes());
            let stderr = dice.roll().to_string();
            let redacted = dice.chance(20);
            Output {
                stderr,
                redacted,
                ..Output::keep(dice.below(5) as i32 - 2, body)
            }
        })
    }

    fn context(&mut self) -> BTreeMap<String, String> {
        let keys = ["branch", "stage", ""];
        (0..self.dice.below(3))
            .map(|_| ((*self.dice.pick(&keys)).to_owned(), self.text()))
            .collect()
    }

    fn declared(&mut self) -> Vec<StepName> {
        (0..self.dice.below(4))
            .map(|_| self.step_key().name)
            .collect()
    }

    fn step_key(&mut self) -> StepKey {
        let name = StepName::new(*self.dice.pick(&STEPS)).expect("a valid name");
        StepKey {
            name,
            occurrence: if self.dice.chance(80) { 1 } else { 2 },
        }
    }

    fn outcome(&mut self) -> StepOutcome {
        if self.dice.chance(50) {
            StepOutcome::Done
        } else {
            StepOutcome::Failed
        }
    }

    fn status(&mut self) -> TaskStatus {
        *self.dice.pick(&TaskStatus::ALL)
    }

    fn text(&mut self) -> String {
        (*self
            .dice
            .pick(&["", "why not", "größer\n'; --", "\u{1b}[31m"]))
        .to_owned()
    }

    fn folder(&mut self) -> String {
        (*self.dice.pick(&FOLDERS)).to_owned()
    }

    fn key(&mut self) -> IdempotencyKey {
        IdempotencyKey::new(*self.dice.pick(&KEYS)).expect("a valid key")
    }

    fn agent(&mut self) -> AgentName {
        AgentName::new(*self.dice.pick(&AGENTS)).expect("a valid name")
    }

    fn maybe_agent(&mut self) -> Option<AgentName> {
        self.dice.chance(50).then(|| self.agent())
    }

    fn task_id(&mut self) -> TaskId {
        TaskId::new(format!("t{}", self.dice.below(TASKS))).expect("a valid id")
    }

    fn around_now(&mut self) -> Time {
        Time::from_ms(self.now.as_ms() - 50_000 + self.dice.below(100_000) as i64)
    }
}
