//! Heartbeats per second with a token each, beside axum that only answers.

use std::cell::Cell;
use std::time::Duration;

use super::daemon::{Daemon, Floor};
use super::door::Door;
use super::flood::{Client, flood};
use super::shares::Shares;
use crate::contest::{Contest, Results};
use crate::row::{Row, Target};
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
        status == 200 && body == b"{}"
    }
}

fn name(number: usize) -> String {
    format!("beater-{number}")
}

/// Registers the agents that beat.
pub(crate) fn register(door: &Door) -> anyhow::Result<()> {
    for number in 0..CONNECTIONS {
        door.ask("POST", "/api/agents", Some(&format!("{{\"name\":\"{}\"}}", name(number))))?;
    }
    Ok(())
}

pub(crate) fn rows(stage: &Stage, daemon: &Daemon) -> anyhow::Result<Vec<Row>> {
    register(&daemon.socket)?;
    let time = Duration::from_millis(stage.pick(1_000, 250));
    let socket = stage.folder().join("axum.sock");
    let floors = [Floor::start(stage, None)?, Floor::start(stage, Some(&socket))?];
    let shares = [Cell::<Shares>::default(), Cell::<Shares>::default()];
    let mut contest = Contest::default();
    for (place, door) in [&daemon.tcp, &daemon.socket].into_iter().enumerate() {
        let floor = &floors[place].door;
        contest.enter(format!("axum {place}"), move |_| {
            Ok(flood(floor, Beater::many(floor, CONNECTIONS), time)?.per_second)
        });
        let share = &shares[place];
        contest.enter(format!("relight {place}"), move |_| {
            let before = Work::of(&[daemon.pid()])?;
            let flooded = flood(door, Beater::many(door, CONNECTIONS), time)?;
            let spent = Work::of(&[daemon.pid()])?.since(before);
            share.set(Shares::of(flooded, spent, time));
            Ok(flooded.per_second)
        });
    }
    let results = contest.run(stage.pick(7, 3))?;
    Ok(vec![
        row(&results, 0, "TCP", shares[0].get()),
        row(&results, 1, "the socket", shares[1].get()),
    ])
}

fn row(results: &Results, place: usize, over: &str, shares: Shares) -> Row {
    Row::new(format!("heartbeats over {over}, {CONNECTIONS} connections"), "beats/s")
        .figure(results.get(&format!("relight {place}")))
        .beside("bare axum, the same load", results.get(&format!("axum {place}")))
        .target(Target::TimesFloorMin(0.5))
        .note(Some(shares.text()))
}
