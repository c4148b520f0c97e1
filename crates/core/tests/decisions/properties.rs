//! What holds for every sequence of events, however it comes.

use relight_core::change::Change;
use relight_core::claimant::Claimant;
use relight_core::decide::{
    Refusal, Right, StartLimits, Starter, TaskDecision, TaskDecisionInput, TaskEvent, decide,
};
use relight_core::lease::{Fence, Holder, HolderLife, ProcessIdentity};
use relight_core::recovery::TaskPolicy;
use relight_core::status::TaskStatus;
use relight_core::step::{Output, RepeatRule, Step, StepKey, StepOutcome, StepState};
use relight_core::task::{CheckpointSettings, Task};
use relight_core::time::Span;

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, proptest};
use proptest::prop_oneof;
use proptest::sample::select;

use crate::given::{agent, later, new_task, noon, person, step_key};

/// At least `cases_min` of them; more when `PROPTEST_CASES` says so.
fn cases(cases_min: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = default.cases.max(cases_min);
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..default
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn every_status_change_is_an_arrow_of_the_table(moves in moves()) {
        World::live(&moves, |before, decision| {
            let mut task = before.clone();
            for change in &decision.changes {
                if let Change::Status { to, .. } = change {
                    assert!(task.status.can_become(*to), "{} → {to} by {decision:?}", task.status);
                }
                change.apply(&mut task, noon());
            }
        });
    }

    #[test]
    fn a_person_can_always_end_a_task_and_bring_it_to_its_goal(moves in moves()) {
        let world = World::live(&moves, |_, _| {});
        if world.task.status.is_terminal() {
            return Ok(());
        }
        let cancelled = world.clone().then(TaskEvent::Cancel { reason: None });
        assert_eq!(cancelled.task.status, TaskStatus::Cancelled);
        let mut finished = world;
        let limits = StartLimits::Forced;
        let (holder, ttl) = (person("eve"), None);
        let start = TaskEvent::Start { holder, ttl, steal: true, starter: None, limits };
        let done = TaskEvent::Done { force: true };
        for step in finished.steps.clone() {
            finished = finished.then(TaskEvent::StepResolve { key: step.key, happened: true });
        }
        for event in [TaskEvent::Retry { agent: None, force: true }, start, done] {
            finished = finished.then(event);
        }
        assert_eq!(finished.task.status, TaskStatus::Completed);
    }

    #[test]
    fn replaying_the_changes_gives_the_same_task(moves in moves()) {
        let mut history = Vec::new();
        let world = World::live(&moves, |_, decision| history.push(decision.changes.clone()));
        let mut replayed = Change::first(&new_task(), noon());
        for changes in &history {
            changes.iter().for_each(|change| change.apply(&mut replayed, noon()));
            replayed.seq += 1;
        }
        assert_eq!(replayed, world.task);
    }

    #[test]
    fn the_counts_are_those_of_the_steps(moves in moves()) {
        let world = World::live(&moves, |_, _| {});
        let count = |state| world.steps.iter().filter(|step| step.state == state).count() as u64;
        assert_eq!(world.task.steps_open, count(StepState::Begun));
        assert_eq!(world.task.steps_done, count(StepState::Done) + count(StepState::Skipped));
    }

    #[test]
    fn no_task_is_done_over_a_declared_step_that_is_open_unless_by_force(moves in moves()) {
        World::live(&moves, |before, decision| {
            let completes = |change: &Change| matches!(
                change, Change::Status { to: TaskStatus::Completed, reason: None }
            );
            let declared = !before.spec.steps.is_empty();
            if declared && decision.changes.iter().any(completes) {
                assert!(before.steps_done > 0, "{before:?}");
            }
        });
    }

    #[test]
    fn fences_never_shrink_and_at_most_one_is_admitted(moves in moves()) {
        World::live(&moves, |before, decision| {
            let mut task = before.clone();
            for change in &decision.changes {
                let fence = task.lease.fence;
                change.apply(&mut task, noon());
                assert!(task.lease.fence >= fence, "{change:?}");
            }
            let admitted = (0..=task.lease.fence.0 + 2).filter(|n| task.lease.admits(Fence(*n)));
            assert!(admitted.count() <= 1);
        });
    }

    #[test]
    fn a_holder_is_never_replaced_under_the_same_fence(moves in moves()) {
        World::live(&moves, |before, decision| {
            let mut task = before.clone();
            decision.changes.iter().for_each(|change| change.apply(&mut task, noon()));
            let holder = |task: &Task| task.lease.held.clone().map(|held| held.holder);
            let replaced = holder(before).is_some() && holder(&task).is_some_and(|new| Some(new) != holder(before));
            assert!(!replaced || task.lease.fence > before.lease.fence, "{decision:?}");
        });
    }

    #[test]
    fn an_older_fence_writes_nothing(moves in moves(), event in events(), age in 1u64..4) {
        let world = World::live(&moves, |_, _| {});
        let older = Fence(world.task.lease.fence.0.saturating_sub(age));
        if older == world.task.lease.fence || takes_a_lease(&event) {
            return Ok(());
        }
        let refused = world.decide(event, Right::Fence(older), HolderLife::Alive);
        assert!(matches!(refused, Err(Refusal::Fenced { ours, .. }) if ours == older), "{refused:?}");
    }

    #[test]
    fn whoever_asks_for_the_lease_with_an_older_fence_gets_no_more_than_without(
        moves in moves(), event in events(), age in 1u64..4, life in lives(),
    ) {
        let world = World::live(&moves, |_, _| {});
        let older = Fence(world.task.lease.fence.0.saturating_sub(age));
        if older == world.task.lease.fence || !takes_a_lease(&event) {
            return Ok(());
        }
        let with = world.decide(event.clone(), Right::Fence(older), life);
        assert_eq!(with, world.decide(event, Right::Unfenced, life));
    }

    #[test]
    fn what_a_holder_decides_is_guarded_by_its_fence(moves in moves(), event in events()) {
        let world = World::live(&moves, |_, _| {});
        let fence = world.task.lease.fence;
        let guarded = world.task.lease.admits(fence) && !is_a_persons(&event);
        let decided = world.decide(event, Right::Fence(fence), HolderLife::Alive);
        let Ok(TaskDecision { guard, .. }) = decided else { return Ok(()) };
        assert_eq!(guard.fence, guarded.then_some(fence));
        assert!(guard.fence.is_some() || guard.seq.is_some());
    }

    #[test]
    fn a_finished_task_stays_as_it_is_unless_it_is_replaced(moves in moves(), event in events()) {
        let world = World::live(&moves, |_, _| {});
        let replaces = matches!(event, TaskEvent::Replace(_));
        if !world.task.status.is_terminal() || replaces {
            return Ok(());
        }
        let status = world.task.status;
        assert_eq!(world.then(event).task.status, status);
    }
}

/// A task with its steps, as a store would hold them.
#[derive(Debug, Clone)]
struct World {
    task: Task,
    steps: Vec<Step>,
}

/// One event, and by whom.
#[derive(Debug, Clone)]
struct Move {
    event: TaskEvent,
    /// How many numbers behind the newest fence; none shows no fence.
    fence_age: Option<u64>,
    life: HolderLife,
}

impl World {
    fn new() -> Self {
        Self {
            task: Change::first(&new_task(), noon()),
            steps: Vec::new(),
        }
    }

    /// Lives through the moves; `see` is shown each decision and the task it was about.
    fn live(moves: &[Move], mut see: impl FnMut(&Task, &TaskDecision)) -> Self {
        let mut world = Self::new();
        for Move {
            event,
            fence_age,
            life,
        } in moves
        {
            let newest = world.task.lease.fence.0;
            let right = match fence_age {
                Some(age) => Right::Fence(Fence(newest.saturating_sub(*age))),
                None => Right::Unfenced,
            };
            if let Ok(decision) = world.decide(event.clone(), right, *life) {
                see(&world.task, &decision);
                world.commit(&decision);
            }
        }
        world
    }

    fn decide(
        &self,
        event: TaskEvent,
        right: Right,
        life: HolderLife,
    ) -> Result<TaskDecision, Refusal> {
        let step = event
            .step()
            .and_then(|key| self.steps.iter().find(|step| step.key == *key));
        let (task, steps) = (&self.task, self.steps.as_slice());
        decide(
            &TaskDecisionInput {
                task,
                step,
                steps,
                life,
                right,
                caller: None,
                now: noon(),
            },
            event,
        )
    }

    /// A person's next event; refused ones change nothing.
    fn then(mut self, event: TaskEvent) -> Self {
        if let Ok(decision) = self.decide(event, Right::Unfenced, HolderLife::Alive) {
            self.commit(&decision);
        }
        self
    }

    fn commit(&mut self, decision: &TaskDecision) {
        let guard = decision.guard;
        assert!(
            guard
                .fence
                .is_none_or(|fence| self.task.lease.admits(fence)),
            "{decision:?}"
        );
        for change in &decision.changes {
            change.apply(&mut self.task, noon());
            if matches!(change, Change::StepsCleared) {
                self.steps.clear();
            }
            if let Some(record) = change.step_record(noon(), guard.fence) {
                self.steps.retain(|step| step.key != record.key);
                self.steps.push(record);
            }
        }
        self.task.seq += 1;
    }
}

fn is_a_persons(event: &TaskEvent) -> bool {
    matches!(
        event,
        TaskEvent::Cancel { .. }
            | TaskEvent::Retry { .. }
            | TaskEvent::Restart { .. }
            | TaskEvent::Release { force: true }
            | TaskEvent::StepResolve { .. }
            | TaskEvent::Replace(_)
            | TaskEvent::Start { steal: true, .. }
    )
}

fn takes_a_lease(event: &TaskEvent) -> bool {
    matches!(event, TaskEvent::Start { .. } | TaskEvent::Claim { .. })
}

fn lives() -> impl Strategy<Value = HolderLife> {
    select(vec![HolderLife::Alive, HolderLife::Gone])
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let fence_age = prop_oneof![4 => Just(Some(0)), 1 => Just(Some(1)), 3 => Just(None)];
    let life = select(vec![HolderLife::Alive, HolderLife::Gone]);
    let one = (events(), fence_age, life).prop_map(|(event, fence_age, life)| Move {
        event,
        fence_age,
        life,
    });
    prop::collection::vec(one, 0..30)
}

fn events() -> impl Strategy<Value = TaskEvent> {
    let reason = || "why".to_owned();
    let statuses = select(TaskStatus::ALL.to_vec());
    let key = || select(vec![step_key("a"), step_key("b")]);
    let outcome = select(vec![StepOutcome::Done, StepOutcome::Failed]);
    let someone = prop::option::of(Just(agent("bob")));
    prop_oneof![
        (holders(), any::<bool>()).prop_map(|((holder, ttl), steal)| TaskEvent::Start {
            holder,
            ttl,
            steal,
            starter: None,
            limits: StartLimits::Forced,
        }),
        (holders(), any::<bool>()).prop_map(|((holder, ttl), _)| TaskEvent::Start {
            holder,
            ttl,
            steal: false,
            starter: Some(Starter::Itself(Claimant::new(agent("bob")))),
            limits: StartLimits::Policy(TaskPolicy::default()),
        }),
        holders().prop_map(|(holder, ttl)| TaskEvent::Claim {
            claimant: Claimant::new(agent("bob")),
            holder,
            ttl,
            policy: TaskPolicy::default(),
        }),
        Just(TaskEvent::Set([("k".to_owned(), "v".to_owned())].into())),
        Just(TaskEvent::Declare(vec![step_key("a").name])),
        Just(TaskEvent::SetCheckpoint(CheckpointSettings::default())),
        Just(TaskEvent::Replace(Box::new(new_task()))),
        statuses.prop_map(|to| TaskEvent::Move { to, reason: None }),
        Just(TaskEvent::Review),
        any::<bool>().prop_map(|force| TaskEvent::Done { force }),
        Just(TaskEvent::Fail { reason: reason() }),
        Just(TaskEvent::Block {
            reason: reason(),
            is_told: false
        }),
        Just(TaskEvent::Defer {
            until: later(),
            reason: None
        }),
        Just(TaskEvent::Cancel { reason: None }),
        (someone.clone(), any::<bool>())
            .prop_map(|(agent, force)| TaskEvent::Retry { agent, force }),
        someone.prop_map(|agent| TaskEvent::Restart { agent }),
        any::<bool>().prop_map(|force| TaskEvent::Release { force }),
        any::<bool>().prop_map(move |agent_keeps_it| TaskEvent::Interrupt {
            reason: reason(),
            agent_keeps_it
        }),
        begins(key()),
        begins(key()),
        (key(), outcome, any::<bool>()).prop_map(|(key, outcome, output)| TaskEvent::StepEnd {
            key,
            outcome,
            output: output.then(Output::default),
        }),
        (key(), any::<bool>()).prop_map(|(key, happened)| TaskEvent::StepResolve { key, happened }),
        key().prop_map(move |key| TaskEvent::StepSkip {
            key,
            reason: reason()
        }),
    ]
}

fn begins(key: impl Strategy<Value = StepKey>) -> impl Strategy<Value = TaskEvent> {
    let rule = select(RepeatRule::ALL.to_vec());
    let fingerprint = prop::option::of(0u64..2);
    (key, rule, fingerprint).prop_map(|(key, rule, fingerprint)| TaskEvent::StepBegin {
        key,
        rule,
        fingerprint,
    })
}

fn holders() -> impl Strategy<Value = (Holder, Option<Span>)> {
    let process = |pid| {
        Holder::Process(ProcessIdentity {
            pid,
            start: 1,
            boot: "b".to_owned(),
            node: None,
        })
    };
    prop_oneof![
        (1u32..3).prop_map(move |pid| (process(pid), None)),
        (1u32..3).prop_map(|n| (
            Holder::Attempt {
                process: None,
                attempt: n.to_string(),
                shim: ProcessIdentity {
                    pid: n,
                    start: 1,
                    boot: "boot".to_owned(),
                    node: None
                }
            },
            None
        )),
        Just((person("ann"), Some(Span::from_secs(60)))),
    ]
}
