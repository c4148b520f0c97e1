use std::io::Read;

use super::{LogPosition, Stage, at, numbered, stage};
use crate::supervise::log::{LINE_BYTES_MAX, LogLine};

fn whole(text: impl AsRef<[u8]>) -> LogLine {
    LogLine {
        bytes: text.as_ref().to_vec(),
        is_whole: true,
    }
}

fn read_all(stage: &Stage, from: LogPosition) -> Vec<u8> {
    let mut bytes = Vec::new();
    stage.log.reader(from).read_to_end(&mut bytes).unwrap();
    bytes
}

fn last_lines(stage: &Stage, count: usize) -> Vec<String> {
    let lines = stage.log.last_lines(count, LogPosition::START).unwrap();
    lines
        .into_iter()
        .map(|line| String::from_utf8(line.bytes).unwrap())
        .collect()
}

#[test]
fn a_reader_goes_from_a_place_across_files() {
    let stage = stage();
    stage.says(1, "one\ntwo\n");
    stage.says(3, "three\n");
    assert_eq!(read_all(&stage, LogPosition::START), b"one\ntwo\nthree\n");
    assert_eq!(read_all(&stage, at(1, 4)), b"two\nthree\n");
    assert_eq!(read_all(&stage, at(2, 99)), b"three\n");
    assert_eq!(read_all(&stage, at(3, 2)), b"ree\n");
    assert_eq!(read_all(&stage, at(4, 0)), b"");
}

#[test]
fn without_a_log_there_is_nothing_to_read() {
    let stage = stage();
    assert_eq!(read_all(&stage, LogPosition::START), b"");
    assert_eq!(last_lines(&stage, 5), [""; 0]);
    assert_eq!(stage.log.last_bytes(5, LogPosition::START).unwrap(), b"");
}

#[test]
fn a_reader_finds_what_is_written_later() {
    let stage = stage();
    stage.says(1, "one\n");
    let mut reader = stage.log.reader(LogPosition::START);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    stage.says(1, "two\n");
    stage.says(2, "three\n");
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(
        (text.as_str(), reader.position()),
        ("one\ntwo\nthree\n", at(2, 6))
    );
}

#[test]
fn an_agent_that_truncates_its_own_output_is_read_on() {
    let stage = stage();
    stage.says(1, "a long beginning\n");
    let mut reader = stage.log.reader(LogPosition::START);
    reader.read_to_end(&mut Vec::new()).unwrap();
    stage.agent(1).set_len(0).unwrap();
    stage.says(1, "anew\n");
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "anew\n");
}

#[test]
fn a_place_beyond_the_end_gives_nothing_old() {
    let stage = stage();
    stage.says(1, "short\n");
    assert_eq!(read_all(&stage, at(1, 1_000)), b"");
}

#[test]
fn zeros_that_the_agent_wrote_are_output() {
    let stage = stage();
    stage.says(1, [0; 10_000]);
    assert_eq!(read_all(&stage, LogPosition::START), [0; 10_000]);
}

#[test]
fn lines_are_given_when_they_are_ended() {
    let stage = stage();
    stage.says(1, "one\n\nthr");
    let mut lines = stage.log.lines(LogPosition::START);
    assert_eq!(lines.next_line().unwrap(), Some(whole("one")));
    assert_eq!(lines.next_line().unwrap(), Some(whole("")));
    assert_eq!(
        (lines.next_line().unwrap(), lines.position()),
        (None, at(1, 5))
    );
    stage.says(1, "ee\nfour");
    assert_eq!(lines.next_line().unwrap(), Some(whole("three")));
    assert_eq!(
        (lines.next_line().unwrap(), lines.position()),
        (None, at(1, 11))
    );
    assert_eq!(lines.take_rest(), Some(whole("four")));
    assert_eq!(lines.take_rest(), None);
}

#[test]
fn the_next_file_ends_a_line() {
    let stage = stage();
    stage.says(1, "cut o");
    let mut lines = stage.log.lines(LogPosition::START);
    assert_eq!(lines.next_line().unwrap(), None);
    stage.agent(2);
    assert_eq!(lines.next_line().unwrap(), None);
    stage.says(2, "anew\n");
    assert_eq!(lines.next_line().unwrap(), Some(whole("cut o")));
    assert_eq!(lines.position(), at(2, 0));
    assert_eq!(lines.next_line().unwrap(), Some(whole("anew")));
}

#[test]
fn an_endless_line_costs_bounded_memory() {
    let stage = stage();
    stage.says(1, vec![0xff; 1_000_000]);
    stage.says(1, "\nnext\n");
    stage.says(1, vec![b'a'; LINE_BYTES_MAX]);
    stage.says(1, "\n");
    let mut lines = stage.log.lines(LogPosition::START);
    let cut = LogLine {
        bytes: vec![0xff; LINE_BYTES_MAX],
        is_whole: false,
    };
    assert_eq!(lines.next_line().unwrap(), Some(cut));
    assert_eq!(lines.next_line().unwrap(), Some(whole("next")));
    assert_eq!(
        lines.next_line().unwrap(),
        Some(whole(vec![b'a'; LINE_BYTES_MAX]))
    );
    assert_eq!(lines.next_line().unwrap(), None);
}

#[test]
fn the_last_lines_of_many_are_the_last() {
    let stage = stage();
    let text: String = (0..10_000).map(numbered).collect();
    stage.says(1, &text[..700_000]);
    stage.says(2, &text[700_000..]);
    for count in [1, 200, 3_000, 3_001, 9_999, 10_000, 20_000] {
        let wanted: Vec<&str> = text
            .lines()
            .skip(10_000_usize.saturating_sub(count))
            .collect();
        assert_eq!(last_lines(&stage, count), wanted, "last {count}");
    }
}

#[test]
fn the_last_lines_are_those_a_person_would_count() {
    let stage = stage();
    stage.says(1, "one\n\ntwo\n\n");
    assert_eq!(last_lines(&stage, 0), [""; 0]);
    assert_eq!(last_lines(&stage, 1), [""]);
    assert_eq!(last_lines(&stage, 3), ["", "two", ""]);
    stage.says(1, "unended");
    assert_eq!(last_lines(&stage, 2), ["", "unended"]);
    stage.agent(2);
    assert_eq!(last_lines(&stage, 1), ["unended"]);
    stage.says(2, "x");
    assert_eq!(last_lines(&stage, 2), ["unended", "x"]);
}

#[test]
fn nothing_of_an_earlier_attempt_is_among_the_last() {
    let stage = stage();
    stage.says(1, "earlier\nfirst\nsecond\n");
    let since = at(1, 8);
    assert_eq!(
        stage.log.last_lines(9, since).unwrap(),
        [whole("first"), whole("second")]
    );
    assert_eq!(stage.log.last_bytes(99, since).unwrap(), b"first\nsecond\n");
    assert_eq!(
        stage.log.last_lines(9, stage.log.end().unwrap()).unwrap(),
        []
    );
}

#[test]
fn the_last_bytes_are_taken_across_files() {
    let stage = stage();
    stage.says(1, "abc");
    stage.says(2, "");
    stage.says(3, "def");
    let last = |count| stage.log.last_bytes(count, LogPosition::START).unwrap();
    let taken = [last(0), last(2), last(3), last(4), last(6), last(99)];
    assert_eq!(
        taken,
        [&b""[..], b"ef", b"def", b"cdef", b"abcdef", b"abcdef"]
    );
}
