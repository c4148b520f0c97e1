//! Heartbeats per second with a token each, beside axum that only answers.

use std::cell::RefCell;
use std::time::Duration;

use memchr::memmem;

use super::daemon::{Daemon, Floor};
use super::door::Door;
use super::flood::{Client, flood};
use super::shares::Shares;
use crate::contest::{Contest, Results};
use crate::row::{Row, Target};
use crate::samples::Samples;
use crate::stage::Stage;
use crate::usage::Work;

/// Connections that stay open.
pub(crate) const CONNECTIONS: usize = 64;
const BEAT: &str = "{}";

/// An agent that beats as fast as it is answered.
pub(crate) struct Beater(Vec<u8>);

impl Beater {
    /// So many, each of an agent of its own.
    pub(crate) fn many(door: &Door, count: usize) -> Vec<Beater> {
        let beater = |number: usize| {
            let path = format!("/api/agents/{}/heartbeat", name(number));
            Beater(door.request("POST", &path, Some(BEAT)))
        };
        (0..count).map(beater).collect()
    }
}

impl Client for Beater {
    fn next(&mut self) -> &[u8] {
        &self.0
    }

    fn is_answered(&mut self, status: u16, body: &[u8]) -> bool {
        // The floor answers with an empty object.
        status == 200 && (body == b"{}" || memmem::find(body, b"\"action\":\"continue\"").is_some())
    }
}

fn name(number: usize) -> String {
    format!("beater-{number}")
}

/// Registers the agents that beat.
pub(crate) fn register(door: &Door) -> anyhow::Result<()> {
    for number in 0..CONNECTIONS {
        door.ask(
            "POST",
            "/api/agents",
            Some(&format!("{{\"name\":\"{}\"}}", name(number))),
        )?;
    }
    Ok(())
}

pub(crate) fn rows(stage: &Stage, daemon: &Daemon) -> anyhow::Result<Vec<Row>> {
    register(&daemon.socket)?;
    let time = Duration::from_millis(stage.pick(1_000, 250));
    let socket = stage.folder().join("axum.sock");
    let floors = [
        Floor::start(stage, None)?,
        Floor::start(stage, Some(&socket))?,
    ];
    let costs: [[RefCell<Costs>; 2]; 2] = Default::default();
    let mut contest = Contest::default();
    for (place, door) in [&daemon.tcp, &daemon.socket].into_iter().enumerate() {
        let [of_floor, of_daemon] = &costs[place];
        let floor = &floors[place];
        contest.enter(format!("axum {place}"), move |_| {
            measure(&floor.door, floor.pid(), time, &mut of_floor.borrow_mut())
        });
        contest.enter(format!("relight {place}"), move |_| {
            measure(door, daemon.pid(), time, &mut of_daemon.borrow_mut())
        });
    }
    let results = contest.run(stage.pick(7, 3))?;
    let rows = |place: usize, over: &str| {
        let [of_floor, of_daemon] = &costs[place];
        rows_of(
            &results,
            place,
            over,
            &of_floor.borrow(),
            &of_daemon.borrow(),
        )
    };
    Ok([rows(0, "TCP"), rows(1, "the socket")].concat())
}

/// What each round cost.
#[derive(Default)]
struct Costs {
    cpu_us: Vec<f64>,
    shares: Shares,
}

/// Beats per second; who used the processor for it is kept.
fn measure(door: &Door, pid: u32, time: Duration, costs: &mut Costs) -> anyhow::Result<f64> {
    let before = Work::of(&[pid])?;
    let flooded = flood(door, Beater::many(door, CONNECTIONS), time)?;
    let spent = Work::of(&[pid])?.since(before);
    costs.shares = Shares::of(flooded, spent, time);
    costs
        .cpu_us
        .push(spent.cpu_ms * 1e3 / (flooded.per_second * time.as_secs_f64()));
    Ok(flooded.per_second)
}

fn rows_of(
    results: &Results,
    place: usize,
    over: &str,
    of_floor: &Costs,
    of_daemon: &Costs,
) -> Vec<Row> {
    let cpu = |costs: &Costs| Samples::new(costs.cpu_us.clone());
    vec![
        Row::new(
            format!("heartbeats over {over}, {CONNECTIONS} connections"),
            "beats/s",
        )
        .figure(results.get(&format!("relight {place}")))
        .beside(
            "bare axum, the same load",
            results.get(&format!("axum {place}")),
        )
        .target(Target::TimesFloorMin(0.5))
        .note(Some(of_daemon.shares.text())),
        Row::new(format!("processor time of a heartbeat over {over}"), "µs")
            .figure(Some(&cpu(of_daemon)))
            .beside("bare axum", Some(&cpu(of_floor))),
    ]
}
