//! The fake agent does what its flags say and tells the truth about itself.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use relight_testkit::agent::{LiveMark, Places, ReadLine, live_marks, parse_line};
use relight_testkit::world::product::plain;
use relight_testkit::world::{clock, processes};

const LIMIT: Duration = Duration::from_secs(120);

fn places() -> (tempfile::TempDir, Places) {
    let folder = tempfile::tempdir().unwrap();
    let places = Places::at(folder.path());
    places.create().unwrap();
    (folder, places)
}

/// An agent of this attempt, with its output in the file `output`.
fn agent(places: &Places, number: u32, flags: &str) -> Command {
    let folder = places.folder().display().to_string();
    let mut words = vec!["--folder", &folder, "--name", "a"];
    words.extend(flags.split_whitespace());
    let mut command = plain(Path::new(env!("CARGO_BIN_EXE_relight-fake-agent")), &words);
    command.env(
        "RELIGHT_ATTEMPT",
        format!("a.{number}.{:x}", std::process::id()),
    );
    let output = std::fs::File::create(places.folder().join("output")).unwrap();
    command.stdout(output).stderr(Stdio::null());
    command
}

fn wait_for_births(places: &Places, count: usize) {
    let born = || Ok(places.births("a")?.len() == count);
    assert!(
        clock::becomes(LIMIT, born).unwrap(),
        "no birth: {:?}",
        places.complaints()
    );
}

fn wait_for_marks(places: &Places, count: usize) -> Vec<LiveMark> {
    let marked = || Ok(live_marks(places)?.len() == count);
    assert!(
        clock::becomes(LIMIT, marked).unwrap(),
        "{:?}",
        live_marks(places).unwrap()
    );
    live_marks(places).unwrap()
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn it_ends_with_its_code_and_has_told_its_birth() {
    let (_folder, places) = places();
    let before = clock::monotonic_ns();
    let mut child = agent(&places, 3, "--exit-after-ms 1 --exit-code 9")
        .spawn()
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(9));
    let births = places.births("a").unwrap();
    assert_eq!(
        (births.len(), births[0].number, births[0].pid),
        (1, 3, child.id())
    );
    assert!((before..clock::monotonic_ns()).contains(&births[0].at_ns));
    assert_eq!(places.complaints(), [] as [&str; 0]);
}

#[test]
fn a_second_copy_complains() {
    let (_folder, places) = places();
    let first = agent(&places, 1, "").spawn().unwrap();
    wait_for_births(&places, 1);
    let second = agent(&places, 2, "--exit-after-ms 1")
        .spawn()
        .unwrap()
        .wait()
        .unwrap();
    end(first);
    assert!(second.success());
    let complaints = places.complaints();
    assert!(
        complaints[0].starts_with("doubled: a attempt 2"),
        "{complaints:?}"
    );
    assert!(
        complaints[1].starts_with("left behind: pid"),
        "{complaints:?}"
    );
}

#[test]
fn every_line_that_it_says_it_wrote_is_there() {
    let (_folder, places) = places();
    let child = agent(&places, 5, "--lines 50 --every-ms 1 --width 70")
        .spawn()
        .unwrap();
    assert!(clock::becomes(LIMIT, || Ok(places.written("a", 5) >= 100)).unwrap());
    end(child);
    let written = places.written("a", 5);
    let output = std::fs::read_to_string(places.folder().join("output")).unwrap();
    let numbers: Vec<u64> = output
        .lines()
        .map(|line| match parse_line(line) {
            ReadLine::Whole(line) if line.attempt == 5 => line.number,
            other => panic!("{line:?} is {other:?}"),
        })
        .collect();
    let count = numbers.len() as u64;
    assert!(
        written == count || written + 1 == count,
        "{written} said, {count} there"
    );
    assert_eq!(numbers, (1..=count).collect::<Vec<u64>>());
}

#[test]
fn its_tree_outlives_it_and_can_be_found() {
    let (_folder, places) = places();
    let child = agent(&places, 1, "--children 2 --grandchildren 1")
        .spawn()
        .unwrap();
    let leader = child.id();
    wait_for_marks(&places, 4);
    end(child);
    let left = wait_for_marks(&places, 3);
    let tag = format!("{:x}", std::process::id());
    let is_tagged = |pid: u32| {
        processes::tagged(|agent| agent == "a")
            .iter()
            .any(|(found, with)| *found == pid && with.ends_with(&tag))
    };
    assert!(
        left.iter()
            .all(|mark| mark.pid != leader && is_tagged(mark.pid)),
        "{left:?}"
    );
    left.iter().for_each(|mark| processes::kill(mark.pid));
    wait_for_marks(&places, 0);
}
