//! Agents are brought back as soon as ever while others flood the API.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::Context as _;

use super::beats::{Beater, CONNECTIONS, register};
use super::daemon::doors;
use super::door::Door;
use super::flood::flood_until;
use crate::contest::Contest;
use crate::keeper::Keeper;
use crate::row::{Row, Target};
use crate::samples::Samples;
use crate::stage::Stage;

const FLOOR: &str = "waitid+spawn loop, the same flood";
const CALM: &str = "the same without a flood";
const RELIGHT: &str = "relight";

pub(crate) fn rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let mut floor = Keeper::floor(stage, "flooded-floor", 1)?;
    let mut relight = Keeper::prepared(stage, "flooded", 1)?;
    relight.serve()?;
    let mut relight = relight.wait_for_all(1)?;
    let home = relight.home.as_ref().context("a home of Relight's")?;
    let supervisor = relight.supervisor().context("a supervisor")?;
    let (tcp, socket) = doors(home, supervisor)?;
    register(&socket)?;
    let rounds = stage.pick(100, 8);
    let calm = (0..rounds).map(|_| relight.kill_one_ms()).collect::<anyhow::Result<Vec<_>>>()?;
    let results = during_a_flood(&tcp, || {
        let mut contest = Contest::default();
        contest.enter(FLOOR, |_| floor.kill_one_ms());
        contest.enter(RELIGHT, |_| relight.kill_one_ms());
        contest.run(rounds)
    })?;
    let p99 = |name: &str| results.get(name).map(|all| Samples::new(vec![all.p99()]));
    let what = format!("kill to successor while {CONNECTIONS} connections beat");
    let row = Row::new(&what, "ms").figure(results.get(RELIGHT));
    Ok(vec![
        row.clone().beside(FLOOR, results.get(FLOOR)).target(Target::TimesFloorMax(2.0)),
        Row::new(format!("{what}, p99"), "ms")
            .figure(p99(RELIGHT).as_ref())
            .beside(format!("{FLOOR}, p99"), p99(FLOOR).as_ref())
            .target(Target::TimesFloorMax(4.0)),
        row.beside(CALM, Some(&Samples::new(calm))),
    ])
}

/// Does something while every connection beats as fast as it is answered.
fn during_a_flood<T>(door: &Door, run: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let beaters = Beater::many(door, CONNECTIONS);
        let flood = || flood_until(door, beaters, |_| is_over.load(Ordering::Relaxed));
        let flooding = scope.spawn(flood);
        let result = run();
        is_over.store(true, Ordering::Relaxed);
        flooding.join().expect("the flood does not panic")?;
        result
    })
}
