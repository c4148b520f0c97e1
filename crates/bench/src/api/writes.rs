//! Durable writes of steps over HTTP, a begin and an end each, beside the library's own.

use std::cell::Cell;
use std::time::Duration;

use anyhow::Context as _;

use super::daemon::Daemon;
use super::door::Door;
use super::flood::{Client, flood};
use super::shares::Shares;
use crate::contest::{Contest, Results};
use crate::holder::{Holder, RESULT_BYTES};
use crate::load::{Carrier, Until, per_second};
use crate::product::Library;
use crate::prose::prose;
use crate::row::{Row, Target};
use crate::stage::Stage;
use crate::usage::Work;

const AT_ONCE: [usize; 3] = [1, 16, 256];
/// Where a target is.
const JUDGED: usize = 256;
const DOORS: [&str; 2] = ["TCP", "the socket"];

/// Holds one task and writes its steps, each begun and then ended.
struct Writer<'d> {
    door: &'d Door,
    task: String,
    fence: u64,
    step: usize,
    is_begun: bool,
    end: String,
    request: Vec<u8>,
}

impl<'d> Writer<'d> {
    /// Starts so many tasks; not part of any figure.
    fn many(door: &'d Door, name: &str, count: usize) -> anyhow::Result<Vec<Writer<'d>>> {
        let result = prose(RESULT_BYTES);
        let start = |number: usize| {
            let task = format!("{name}-{number}");
            let started = door.ask("POST", &format!("/api/tasks/{task}/start"), Some("{}"))?;
            let fence = started["fence"].as_u64().context("a fence")?;
            let end = serde_json::json!({"fence": fence, "output": result}).to_string();
            Ok(Writer {
                door,
                task,
                fence,
                step: 0,
                is_begun: false,
                end,
                request: Vec::new(),
            })
        };
        (0..count).map(start).collect()
    }
}

impl Client for Writer<'_> {
    fn next(&mut self) -> &[u8] {
        let begin = format!("{{\"fence\":{}}}", self.fence);
        let (verb, body) = if self.is_begun {
            ("end", self.end.as_str())
        } else {
            ("begin", begin.as_str())
        };
        self.step += usize::from(!self.is_begun);
        self.is_begun = !self.is_begun;
        let path = format!("/api/tasks/{}/steps/step-{}/{verb}", self.task, self.step);
        self.request = self.door.request("POST", &path, Some(body));
        &self.request
    }

    fn is_answered(&mut self, status: u16, _body: &[u8]) -> bool {
        status == 200
    }
}

pub(crate) fn rows(stage: &Stage, daemon: &Daemon) -> anyhow::Result<Vec<Row>> {
    let time = Duration::from_millis(stage.pick(1_000, 250));
    let library = stage
        .runtime
        .block_on(Library::open(&stage.subfolder("library")?))?;
    let shares: [Cell<Shares>; AT_ONCE.len() * DOORS.len()] = Default::default();
    let mut contest = Contest::default();
    for (place, at_once) in AT_ONCE.into_iter().enumerate() {
        let library = &library;
        contest.enter(by_library(at_once), move |round| {
            let name = format!("library-{at_once}-{round}");
            let holders = Holder::start(&stage.runtime, library, &name, at_once)?;
            per_second(
                &stage.runtime,
                Carrier::Tasks,
                holders,
                Until::Elapsed(time),
            )
        });
        for (over, door) in [&daemon.tcp, &daemon.socket].into_iter().enumerate() {
            let share = &shares[place * DOORS.len() + over];
            contest.enter(over_http(over, at_once), move |round| {
                let name = format!("{over}-{at_once}-{round}");
                let writers = Writer::many(door, &name, at_once)?;
                let before = Work::of(&[daemon.pid()])?;
                let flooded = flood(door, writers, time)?;
                let spent = Work::of(&[daemon.pid()])?.since(before);
                share.set(Shares::of(flooded, spent, time));
                Ok(flooded.per_second)
            });
        }
    }
    let results = contest.run(stage.pick(5, 2))?;
    let mut rows = Vec::new();
    for (place, at_once) in AT_ONCE.into_iter().enumerate() {
        for over in 0..DOORS.len() {
            let shares = shares[place * DOORS.len() + over].get();
            rows.push(row(&results, over, at_once, shares));
        }
    }
    Ok(rows)
}

fn row(results: &Results, over: usize, at_once: usize, shares: Shares) -> Row {
    let connections = if at_once == 1 {
        "connection"
    } else {
        "connections"
    };
    let what = format!("step writes over {}, {at_once} {connections}", DOORS[over]);
    let row = Row::new(what, "writes/s")
        .figure(results.get(&over_http(over, at_once)))
        .beside(by_library(at_once), results.get(&by_library(at_once)))
        .note(Some(shares.text()));
    if at_once == JUDGED {
        row.target(Target::TimesFloorMin(0.5))
    } else {
        row
    }
}

fn by_library(at_once: usize) -> String {
    format!("the library, {at_once} at once")
}

fn over_http(over: usize, at_once: usize) -> String {
    format!("http {over}, {at_once} at once")
}
