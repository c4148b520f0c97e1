//! Agents are brought back as soon as ever while others flood the API.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::Context as _;

use super::beats::{Beater, CONNECTIONS, register};
use super::daemon::doors;
use super::door::Door;
use super::flood::flood_until;
use crate::contest::{Contest, Results};
use crate::keeper::Keeper;
use crate::row::{Row, Target};
use crate::samples::Samples;
use crate::stage::Stage;
use crate::usage::waited_ms;

const FLOOR: &str = "waitid+spawn loop, the same flood";
const CALM: &str = "the same without a flood";
const RELIGHT: &str = "relight";

pub(crate) fn rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let mut floor = Keeper::floor(stage, "flooded-floor", 1)?;
    let mut relight = Keeper::prepared(stage, "flooded", 1)?;
    relight.serve()?;
    let relight = relight.wait_for_all(1)?;
    let home = relight.home.as_ref().context("a home of Relight's")?;
    let supervisor = relight.supervisor().context("a supervisor")?;
    let (tcp, socket) = doors(home, supervisor)?;
    register(&socket)?;
    let waits = RefCell::new(Vec::new());
    let (pid, relight) = (relight.pid()?, RefCell::new(relight));
    let mut contest = Contest::default();
    contest.enter(FLOOR, |_| during_a_flood(&tcp, || floor.kill_one_ms()));
    contest.enter(CALM, |_| relight.borrow_mut().kill_one_ms());
    contest.enter(RELIGHT, |_| {
        during_a_flood(&tcp, || {
            let before = waited_ms(pid)?;
            let took = relight.borrow_mut().kill_one_ms()?;
            waits.borrow_mut().push(waited_ms(pid)? - before);
            Ok(took)
        })
    });
    let results = contest.run(stage.pick(100, 8))?;
    Ok(table(&results, &Samples::new(waits.into_inner())))
}

fn table(results: &Results, waits: &Samples) -> Vec<Row> {
    let p99 = |name: &str| results.get(name).map(|all| Samples::new(vec![all.p99()]));
    let what = format!("kill to successor while {CONNECTIONS} connections beat");
    let row = Row::new(&what, "ms").figure(results.get(RELIGHT));
    vec![
        row.clone()
            .beside(FLOOR, results.get(FLOOR))
            .target(Target::TimesFloorMax(2.0)),
        Row::new(format!("{what}, p99"), "ms")
            .figure(p99(RELIGHT).as_ref())
            .beside(format!("{FLOOR}, p99"), p99(FLOOR).as_ref())
            .target(Target::TimesFloorMax(4.0)),
        row.beside(CALM, results.get(CALM)),
        Row::new("of it, the supervising thread waited for a processor", "ms").figure(Some(waits)),
    ]
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
