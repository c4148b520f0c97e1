//! A random walk over tasks, agents, holders, deaths, clocks and strategies, held against a small
//! model that knows nothing of the code.

mod model;
mod real;

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, proptest};
use proptest::prop_oneof;
use proptest::sample::select;

use model::{Answer, Model, Word};
use real::Real;

const TASKS: usize = 3;
const AGENTS: u32 = 2;
const HOLDERS: u32 = 3;
/// From one state in so many it is tried whether every task can still come to its end.
const REACHABLE_EVERY: usize = 5;

/// What somebody does, or what happens.
#[derive(Debug, Clone, Copy)]
enum Move {
    /// An agent takes a task from the queue in a process.
    Claim {
        task: usize,
        agent: u32,
        holder: u32,
    },
    /// Whoever has, or once had, this lease finishes a step.
    Step { task: usize, fence: u64 },
    /// It tells what it cost.
    Spend { task: usize, fence: u64, cost: u64 },
    /// It says that the task is finished.
    Done { task: usize, fence: u64 },
    /// It says that the task failed, and its strategy answers.
    Fail {
        task: usize,
        fence: u64,
        answer: Answer,
    },
    /// A process dies, and another is started in its place.
    Die { holder: u32 },
    /// All tasks of dead processes are given to their strategies.
    Sweep { answer: Answer },
    /// The agent of an interrupted task is terminated.
    AgentGone { task: usize, answer: Answer },
    /// Time passes.
    Wait { ms: u64 },
    /// A person ends it.
    Cancel { task: usize },
    /// A person wants it tried again.
    Retry {
        task: usize,
        agent: Option<u32>,
        force: bool,
    },
    /// A person takes it from whoever has it.
    Release { task: usize },
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let task = || 0..TASKS;
    let fence = || 0..8_u64;
    let one = prop_oneof![
        6 => (task(), 0..AGENTS, 0..HOLDERS)
            .prop_map(|(task, agent, holder)| Move::Claim { task, agent, holder }),
        4 => (task(), fence()).prop_map(|(task, fence)| Move::Step { task, fence }),
        1 => (task(), fence(), 1..4_u64)
            .prop_map(|(task, fence, cost)| Move::Spend { task, fence, cost }),
        1 => (task(), fence()).prop_map(|(task, fence)| Move::Done { task, fence }),
        3 => (task(), fence(), answer())
            .prop_map(|(task, fence, answer)| Move::Fail { task, fence, answer }),
        3 => (0..HOLDERS).prop_map(|holder| Move::Die { holder }),
        4 => answer().prop_map(|answer| Move::Sweep { answer }),
        1 => (task(), answer()).prop_map(|(task, answer)| Move::AgentGone { task, answer }),
        2 => (1..50_000_u64).prop_map(|ms| Move::Wait { ms }),
        1 => task().prop_map(|task| Move::Cancel { task }),
        2 => (task(), prop::option::of(0..AGENTS), any::<bool>())
            .prop_map(|(task, agent, force)| Move::Retry { task, agent, force }),
        1 => task().prop_map(|task| Move::Release { task }),
    ];
    prop::collection::vec(one, 1..80)
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        4 => Just(Answer::Resume),
        4 => select(vec![true, false]).prop_map(|keep_progress| Answer::Reassign { keep_progress }),
        1 => Just(Answer::Suspend),
        2 => (1..30_000_u64).prop_map(|ms| Answer::Defer { ms }),
        1 => Just(Answer::GiveUp),
    ]
}

/// At least so many; more when `PROPTEST_CASES` says so.
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
    #![proptest_config(cases(1_000))]

    #[test]
    fn code_and_model_go_the_same_way(
        moves in moves(),
        max_retries in prop::collection::vec(0..3_u32, TASKS),
    ) {
        let mut model = Model::new(&max_retries);
        let mut real = Real::new(&max_retries);
        for (number, one) in moves.into_iter().enumerate() {
            let before = model.clone();
            step(&mut model, &mut real, one);
            assert_eq!(real.seen(), model.tasks, "after {one:?} upon {before:#?}");
            check_invariants(&before, &model);
            // Walks are of every length, so states of every age are looked at.
            if number % REACHABLE_EVERY == 0 {
                (0..TASKS).for_each(|task| check_reachable(&model, &real, task));
            }
        }
    }
}

/// The same to both; they must agree on whether it is refused.
fn step(model: &mut Model, real: &mut Real, one: Move) {
    let (theirs, ours) = match one {
        Move::Claim {
            task,
            agent,
            holder,
        } => (
            real.claim(task, agent, holder),
            model.claim(task, agent, holder),
        ),
        Move::Step { task, fence } => (real.step(task, fence), model.step(task, fence)),
        Move::Spend { task, fence, cost } => (
            real.spend(task, fence, cost),
            model.spend(task, fence, cost),
        ),
        Move::Done { task, fence } => (real.done(task, fence), model.done(task, fence)),
        Move::Fail {
            task,
            fence,
            answer,
        } => (
            real.fail(task, fence, answer),
            model.fail(task, fence, answer),
        ),
        Move::Die { holder } => {
            real.die(holder);
            (true, model.die(holder))
        }
        Move::Sweep { answer } => {
            real.sweep(answer);
            (true, model.sweep(answer))
        }
        Move::AgentGone { task, answer } => (
            real.agent_gone(task, answer),
            model.agent_gone(task, answer),
        ),
        Move::Wait { ms } => {
            real.wait(ms);
            (true, model.wait(ms))
        }
        Move::Cancel { task } => (real.cancel(task), model.cancel(task)),
        Move::Retry { task, agent, force } => (
            real.retry(task, agent, force),
            model.retry(task, agent, force),
        ),
        Move::Release { task } => (real.release(task), model.release(task)),
    };
    assert_eq!(theirs, ours, "whether {one:?} is taken upon {model:#?}");
}

/// What no single move may break.
fn check_invariants(before: &Model, after: &Model) {
    for (old, new) in before.tasks.iter().zip(&after.tasks) {
        let was_over = matches!(old.status, Word::Completed | Word::Cancelled);
        assert!(
            !was_over || old == new,
            "what is over stays as it is: {old:?} {new:?}"
        );
        assert!(new.retries <= new.max_retries + new.forced, "{new:?}");
        assert!(
            new.fence >= old.fence && new.starts >= old.starts,
            "{old:?} {new:?}"
        );
        assert!(
            new.cost >= old.cost,
            "no progress gives money back: {old:?} {new:?}"
        );
        let works = new.status == Word::InProgress;
        assert_eq!(
            works,
            new.holder.is_some(),
            "who works on it holds it: {new:?}"
        );
    }
}

/// From wherever it is, a task can be brought to its end by what goes by itself, or by a person.
fn check_reachable(model: &Model, real: &Real, task: usize) {
    let (mut model, mut real) = (model.clone(), real.clone());
    let is_over =
        |model: &Model| matches!(model.tasks[task].status, Word::Completed | Word::Cancelled);
    let by_itself = Answer::Reassign {
        keep_progress: true,
    };
    for round in 0..3 {
        if is_over(&model) {
            return;
        }
        for holder in 0..HOLDERS {
            step(&mut model, &mut real, Move::Die { holder });
        }
        step(&mut model, &mut real, Move::Sweep { answer: by_itself });
        if round > 0 {
            // It waits for a person, by a limit or by its strategy.
            step(
                &mut model,
                &mut real,
                Move::Retry {
                    task,
                    agent: Some(0),
                    force: true,
                },
            );
        }
        step(&mut model, &mut real, Move::Wait { ms: 10_000_000 });
        for agent in 0..AGENTS {
            step(
                &mut model,
                &mut real,
                Move::Claim {
                    task,
                    agent,
                    holder: 0,
                },
            );
        }
        let fence = model.tasks[task].fence;
        step(&mut model, &mut real, Move::Done { task, fence });
        assert_eq!(real.seen(), model.tasks);
    }
    assert!(
        is_over(&model),
        "task {task} is stuck: {:?}",
        model.tasks[task]
    );
}
