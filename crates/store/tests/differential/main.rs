//! Two stores are given the same random operations and must give the same answers.
//!
//! One seed replays everything: `RELIGHT_SEED=… cargo test -p relight-store --test differential`.

mod dice;
mod pair;
mod plan;
#[path = "../sqlite_harness/mod.rs"]
mod sqlite_harness;

use relight_store::MemoryStore;
use relight_store::sqlite::Use;
use relight_testkit::conformance::Harness;

use dice::Dice;
use pair::{Pair, TICK};
use plan::Plan;

const SEEDS: u64 = 60;
const OPERATIONS: u32 = 400;

#[tokio::test]
async fn memory_agrees_with_memory() {
    for seed in seeds() {
        run(seed, OPERATIONS, &MemoryStore::new(), &MemoryStore::new()).await;
    }
}

#[tokio::test]
async fn sqlite_agrees_with_memory() {
    for seed in seeds() {
        let sqlite = sqlite_harness::SqliteHarness::new(Use::Long);
        run(seed, OPERATIONS, &MemoryStore::new(), &sqlite).await;
    }
}

#[tokio::test]
#[should_panic(expected = "the stores differ")]
async fn a_difference_is_found() {
    let (a, b) = (MemoryStore::new(), MemoryStore::new());
    let mut plan = Plan::new(Dice::new(1));
    let mut pair = Pair::open(1, &a, &b).await;
    for _ in 0..OPERATIONS {
        b.advance(TICK);
        plan.step(&mut pair).await;
    }
}

/// Gives both the same `operations` of this seed, compares every answer, and everything at the end.
async fn run(seed: u64, operations: u32, a: &dyn Harness, b: &dyn Harness) {
    let mut plan = Plan::new(Dice::new(seed));
    let mut pair = Pair::open(seed, a, b).await;
    for _ in 0..operations {
        plan.step(&mut pair).await;
    }
    pair.compare_everything().await;
}

/// One seed when it was asked for, else all.
fn seeds() -> Vec<u64> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one door by which a seed is replayed"
    )]
    match std::env::var("RELIGHT_SEED") {
        Ok(text) => vec![text.parse().expect("RELIGHT_SEED is a number")],
        Err(_) => (0..SEEDS).collect(),
    }
}
