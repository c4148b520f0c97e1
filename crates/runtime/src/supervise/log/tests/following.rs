use std::io::Write;

use super::{LogPosition, Stage, at, numbered, soon, stage};
use crate::supervise::log::Follow;

/// Follows until it has so many bytes.
async fn text(follow: &mut Follow, len: usize) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < len {
        bytes.extend_from_slice(soon(follow.next()).await);
    }
    String::from_utf8(bytes).unwrap()
}

fn follow(stage: &Stage, from: LogPosition) -> Follow {
    std::fs::create_dir_all(stage.log.folder()).unwrap();
    stage.log.follow(from).unwrap()
}

#[tokio::test]
async fn what_is_there_comes_first_and_then_what_is_written() {
    let stage = stage();
    stage.says(1, "old\nkept\n");
    let mut follow = follow(&stage, at(1, 4));
    assert_eq!(text(&mut follow, 5).await, "kept\n");
    stage.says(1, "new\n");
    assert_eq!(text(&mut follow, 4).await, "new\n");
    assert_eq!(follow.position(), at(1, 13));
    assert_eq!(follow.next_now().unwrap(), b"");
}

#[tokio::test]
async fn it_crosses_to_the_next_file() {
    let stage = stage();
    let mut follow = follow(&stage, LogPosition::START);
    stage.says(1, "one\n");
    assert_eq!(text(&mut follow, 4).await, "one\n");
    stage.says(1, "end\n");
    stage.says(2, "two\n");
    assert_eq!(text(&mut follow, 8).await, "end\ntwo\n");
}

#[tokio::test]
async fn a_file_removed_under_it_is_read_to_its_end() {
    let stage = stage();
    stage.says(1, "one\n");
    let mut follow = follow(&stage, LogPosition::START);
    assert_eq!(text(&mut follow, 4).await, "one\n");
    stage.says(1, "end\n");
    std::fs::remove_file(stage.log.path(1)).unwrap();
    stage.says(4, "four\n");
    assert_eq!(text(&mut follow, 9).await, "end\nfour\n");
}

#[tokio::test]
async fn output_is_shown_when_it_is_written() {
    let stage = stage();
    let mut follow = follow(&stage, LogPosition::START);
    let mut agent = stage.agent(1);
    for _ in 0..101 {
        let write = async { agent.write_all(b"now\n").unwrap() };
        // The follower waits already when the agent writes: it is asked first.
        let (chunk, ()) = tokio::join!(biased; soon(follow.next()), write);
        assert_eq!(chunk, b"now\n");
    }
}

#[tokio::test]
async fn a_fast_writer_is_followed_line_by_line() {
    let stage = stage();
    let mut follow = follow(&stage, LogPosition::START);
    let mut agent = stage.agent(1);
    let writer = std::thread::spawn(move || {
        (0..50_000).for_each(|number| agent.write_all(numbered(number).as_bytes()).unwrap());
    });
    let text = text(&mut follow, 5_000_000).await;
    writer.join().unwrap();
    assert!(
        text.lines()
            .enumerate()
            .all(|(number, line)| { numbered(number as u64).trim_end() == line })
    );
}
