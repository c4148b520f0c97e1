//! How punctual the end of an agent is: the kill of a hung one, and of a tree that ignores SIGTERM.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use relight_testkit::agent::Places;
use relight_testkit::world::clock::{self, monotonic_ns};
use relight_testkit::world::daemon::{Entry, Home, Supervisor};
use relight_testkit::world::processes;

use crate::births::Births;
use crate::keeper::span_ms;
use crate::row::{Row, Target};
use crate::samples::Samples;
use crate::stage::Stage;

/// What may be silent for so long.
const SILENCE: Duration = Duration::from_secs(1);
/// What a tree has to end in after SIGTERM.
const GRACE: Duration = Duration::from_secs(1);
/// Nothing here takes longer.
const LIMIT: Duration = Duration::from_secs(30);
/// Leader, child and grandchild.
const TREE: usize = 3;

pub(crate) fn rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let row = |what: &str, measured: anyhow::Result<Samples>| {
        let note = measured.as_ref().err().map(|error| format!("{error:#}"));
        let row = Row::new(what, "ms")
            .figure(measured.ok().as_ref())
            .note(note);
        row.target(Target::ValueMax(100.0))
    };
    Ok(vec![
        row(
            "from the silence limit to the end of a hung agent",
            hung(stage),
        ),
        row("from the grace to the end of a TERM-deaf tree", deaf(stage)),
    ])
}

/// Lets agents be silent; how long after the limit each one is gone.
fn hung(stage: &Stage) -> anyhow::Result<Samples> {
    let folder = stage.subfolder("hung")?;
    let mut births = Births::in_folder(&folder)?;
    let worker = stage.floor("floor-worker").display().to_string();
    let pipe = births.path().display().to_string();
    let name = format!("b{}-hung", std::process::id());
    let entry = Entry::at_once(&name, &[&worker, &pipe]).with("silence_max", "\"1s\"");
    let daemon = Daemon::start(stage, &folder.join("home"), &entry)?;
    let mut late = Vec::new();
    for _ in 0..stage.pick(10, 2) {
        let born = births.next(LIMIT)?;
        let is_gone = clock::becomes(LIMIT, || Ok(!processes::is_alive(born.pid)))?;
        ensure!(
            is_gone,
            "a silent agent still lived after {LIMIT:?}: {}",
            daemon.home.last_said()
        );
        late.push(span_ms(born.at_ns, monotonic_ns()) - SILENCE.as_secs_f64() * 1e3);
    }
    let early = late.iter().copied().fold(f64::INFINITY, f64::min);
    ensure!(
        early >= 0.0,
        "a silent agent was ended {:.1} ms before its limit",
        -early
    );
    Ok(Samples::new(late))
}

/// Stops a tree that ignores SIGTERM; how long after its grace nothing of it is left.
fn deaf(stage: &Stage) -> anyhow::Result<Samples> {
    let folder = stage.subfolder("deaf")?;
    let places = Places::at(folder.join("records"));
    places.create()?;
    let program = stage.floor("relight-fake-agent").display().to_string();
    let records = places.folder().display().to_string();
    let name = format!("b{}-deaf", std::process::id());
    let words = [
        "sh",
        "-c",
        "trap '' TERM; exec \"$0\" \"$@\"",
        &program,
        "--folder",
        &records,
    ];
    let flags = ["--name", &name, "--children", "1", "--grandchildren", "1"];
    let entry = Entry::at_once(&name, &[&words[..], &flags].concat()).with("grace", "\"1s\"");
    let daemon = Daemon::start(stage, &folder.join("home"), &entry)?;
    let tree = || processes::tagged(|agent| agent == name);
    let mut late = Vec::new();
    for _ in 0..stage.pick(5, 1) {
        let is_whole = clock::becomes(LIMIT, || Ok(tree().len() == TREE))?;
        ensure!(
            is_whole,
            "the tree has {} processes: {}",
            tree().len(),
            daemon.home.last_said()
        );
        let home = daemon.home.clone();
        let words = ["stop".to_owned(), name.clone()];
        let began = monotonic_ns();
        let verb = std::thread::spawn(move || home.call(&words.each_ref().map(String::as_str)));
        let is_gone = clock::becomes(LIMIT, || Ok(tree().is_empty()))?;
        let took = span_ms(began, monotonic_ns());
        ensure!(is_gone, "the tree still lives after {LIMIT:?}");
        verb.join().ok().context("a call never panics")??;
        late.push(took - GRACE.as_secs_f64() * 1e3);
        daemon.home.call(&["start", &name])?;
    }
    Ok(Samples::new(late))
}

/// `relight up` with one agent, gone with everything of it at the end.
struct Daemon {
    home: Home,
    supervisor: Option<Supervisor>,
    name: String,
}

impl Daemon {
    fn start(stage: &Stage, folder: &std::path::Path, entry: &Entry) -> anyhow::Result<Daemon> {
        let home = Home::new(stage.relight(), folder)?;
        ensure!(home.has_verb("up"), "there is no `relight up` yet");
        home.configure(std::slice::from_ref(entry))?;
        let supervisor = Some(home.up(&[])?);
        Ok(Daemon {
            home,
            supervisor,
            name: entry.name.clone(),
        })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.home.call(&["down"]);
        if let Some(supervisor) = self.supervisor.take() {
            let _ = supervisor.kill();
        }
        processes::end_all(|agent| agent == self.name);
    }
}
