use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{LIMITS, at, soon, stage};
use crate::supervise::log::Growth;

/// The key of a file that is written last, to show that nothing else fired.
const LAST: u32 = u32::MAX;

#[tokio::test]
async fn a_watch_fires_once_however_much_is_written() {
    let (stage, growth) = (stage(), Growth::new().unwrap());
    let (mut agent, mut last) = (stage.agent(1), stage.agent(2));
    growth.watch(&7, &stage.log.path(1)).unwrap();
    growth.watch(&LAST, &stage.log.path(2)).unwrap();
    for _ in 0..1_000 {
        agent.write_all(b"more\n").unwrap();
    }
    last.write_all(b"x").unwrap();
    assert_eq!(
        (soon(growth.next()).await, soon(growth.next()).await),
        (7, LAST)
    );
}

#[tokio::test]
async fn a_watch_that_is_armed_again_fires_again() {
    let (stage, growth) = (stage(), Growth::new().unwrap());
    let mut agent = stage.agent(1);
    growth.watch(&7, &stage.log.path(1)).unwrap();
    for _ in 0..100 {
        agent.write_all(b"more\n").unwrap();
        assert_eq!(soon(growth.next()).await, 7);
        growth.again(&7).unwrap();
        growth.again(&7).unwrap();
    }
}

#[tokio::test]
async fn growth_before_the_arming_is_seen_at_the_end() {
    let (stage, growth) = (stage(), Growth::new().unwrap());
    stage.says(1, "first\n");
    growth.watch(&7, &stage.log.path(1)).unwrap();
    stage.says(1, "fires\n");
    assert_eq!(soon(growth.next()).await, 7);
    stage.says(1, "does not\n");
    growth.again(&7).unwrap();
    assert_eq!(stage.log.end().unwrap(), at(1, 21));
}

#[tokio::test]
async fn a_thousand_agents_share_one_descriptor() {
    let growth = Growth::new().unwrap();
    let stage = stage();
    for key in 0..1_000 {
        stage.says(key + 1, "");
        growth.watch(&key, &stage.log.path(key + 1)).unwrap();
    }
    for round in 0..3 {
        for key in 0..1_000 {
            stage.says(key + 1, "one\n");
            stage.says(key + 1, "two\n");
        }
        let mut fired = Vec::new();
        for _ in 0..1_000 {
            fired.push(soon(growth.next()).await);
        }
        fired.sort_unstable();
        assert_eq!(fired, Vec::from_iter(0..1_000), "round {round}");
        (0..1_000).for_each(|key| growth.again(&key).unwrap());
    }
}

#[tokio::test]
async fn the_next_file_takes_the_place_of_the_one_before() {
    let (stage, growth) = (stage(), Growth::new().unwrap());
    let (mut first, mut second) = (stage.agent(1), stage.agent(2));
    growth.watch(&7, &stage.log.path(1)).unwrap();
    first.write_all(b"fired, and not yet told").unwrap();
    growth.watch(&7, &stage.log.path(2)).unwrap();
    growth.watch(&LAST, &stage.log.path(1)).unwrap();
    first.write_all(b"no longer ours").unwrap();
    assert_eq!(soon(growth.next()).await, LAST);
    second.write_all(b"ours").unwrap();
    assert_eq!(soon(growth.next()).await, 7);
}

#[tokio::test]
async fn a_forgotten_agent_is_silent() {
    let (stage, growth) = (stage(), Growth::new().unwrap());
    stage.says(1, "");
    stage.says(2, "");
    growth.watch(&7, &stage.log.path(1)).unwrap();
    growth.watch(&LAST, &stage.log.path(2)).unwrap();
    growth.forget(&7).unwrap();
    growth.again(&7).unwrap();
    stage.says(1, "unheard");
    stage.says(2, "heard");
    assert_eq!(soon(growth.next()).await, LAST);
}

#[tokio::test]
async fn a_log_that_is_removed_is_told_of() {
    let (stage, growth) = (stage(), Growth::new().unwrap());
    stage.says(1, "");
    growth.watch(&7, &stage.log.path(1)).unwrap();
    std::fs::remove_file(stage.log.path(1)).unwrap();
    assert_eq!(soon(growth.next()).await, 7);
    assert!(growth.again(&7).is_err());
}

#[tokio::test]
async fn trimming_fires_but_is_no_growth() {
    let (stage, growth) = (stage(), Growth::new().unwrap());
    stage.says(1, vec![b'x'; 2_000_000]);
    let end = stage.log.end().unwrap();
    growth.watch(&7, &stage.log.path(1)).unwrap();
    stage.log.trim(&LIMITS).unwrap();
    assert_eq!(soon(growth.next()).await, 7);
    assert_eq!(stage.log.end().unwrap(), end);
}

#[tokio::test]
async fn a_writer_that_never_rests_wakes_once_for_each_arming() {
    let (stage, growth) = (stage(), Growth::new().unwrap());
    let mut agent = stage.agent(1);
    growth.watch(&7, &stage.log.path(1)).unwrap();
    let is_enough = Arc::new(AtomicBool::new(false));
    let writer = std::thread::spawn({
        let is_enough = Arc::clone(&is_enough);
        move || {
            while !is_enough.load(Ordering::Acquire) {
                agent.write_all(b"on and on\n").unwrap();
            }
        }
    });
    for _ in 0..200 {
        assert_eq!(soon(growth.next()).await, 7);
        growth.again(&7).unwrap();
    }
    assert_eq!(soon(growth.next()).await, 7);
    is_enough.store(true, Ordering::Release);
    writer.join().unwrap();
    stage.says(2, "");
    growth.watch(&LAST, &stage.log.path(2)).unwrap();
    stage.says(2, "x");
    assert_eq!(soon(growth.next()).await, LAST, "it was not armed again");
}
