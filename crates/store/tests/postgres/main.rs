//! PostgreSQL passes the suite, agrees with memory, and keeps its word when connections and servers
//! are killed. Needs the package `postgresql`; without it, says so, and memory stands in.

#[path = "../differential/dice.rs"]
mod dice;
mod faults;
#[path = "../transfer/ground.rs"]
mod ground;
mod harness;
mod late_writer;
#[path = "../differential/pair.rs"]
mod pair;
#[path = "../differential/plan/mod.rs"]
mod plan;
mod proxy;
mod schema;
#[path = "../../../testkit/src/postgres.rs"]
#[expect(
    unreachable_pub,
    dead_code,
    reason = "a module of testkit, taken in by its path"
)]
mod server;
mod transfer;

use harness::Ground;
use relight_store::MemoryStore;

relight_testkit::conformance_suite!(ground);

fn ground() -> Ground {
    Ground::new()
}

/// Few: each operation is a round trip or three. `RELIGHT_SEED` replays one of any number.
const SEEDS: u64 = 4;
const OPERATIONS: u32 = 400;

#[tokio::test]
async fn postgres_agrees_with_memory() {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one door by which a seed is replayed"
    )]
    let asked = std::env::var("RELIGHT_SEED").ok();
    let seeds = match asked {
        Some(text) => {
            let seed: u64 = text.parse().expect("RELIGHT_SEED is a number");
            seed..seed + 1
        }
        None => 0..SEEDS,
    };
    for seed in seeds {
        let (memory, postgres) = (MemoryStore::new(), Ground::new());
        let mut plan = plan::Plan::new(dice::Dice::new(seed));
        let mut pair = pair::Pair::open(seed, &memory, &postgres).await;
        for _ in 0..OPERATIONS {
            plan.step(&mut pair).await;
        }
        pair.compare_everything().await;
    }
}
