//! `agent_checkpoints.json`: what others wrote is read with care, what we write is read by all.

use insta::assert_snapshot;
use relight_core::lease::HolderLife;
use relight_core::session::{
    FileError, Generation, SessionEvent, SessionRefusal, SessionStateKind, read_marks, write_marks,
};

use crate::given::*;

#[test]
fn the_turns_in_flight_are_written_and_read_back() {
    let text = write_marks([&active(), &idle(), &pending()]);
    assert_snapshot!(text, @r#"
    {
      "telegram:dm:42": {
        "session_id": "conversation-1",
        "started_at": 1777636800.0,
        "generation": 2
      }
    }
    "#);
    let read = read_marks(text.as_bytes()).expect("it was written by us");
    let mark = &read.marks[&key()];
    assert_eq!(
        (mark.started_at, mark.generation),
        (Some(noon()), Some(Generation(2)))
    );
}

#[test]
fn times_and_numbers_of_other_languages_are_understood() {
    let read = read_marks(
        br#"{"a": {"session_id": "x", "started_at": 1777636800.25},
             "b": {"session_id": "x", "started_at": "2026-05-01T12:00:00.250000", "generation": null},
             "c": {"session_id": "x", "more": true}}"#,
    );
    let marks = read.expect("it makes sense").marks;
    let started: Vec<_> = marks
        .values()
        .map(|mark| mark.started_at.map(|at| at.as_ms()))
        .collect();
    assert_eq!(
        started,
        [Some(1_777_636_800_250), Some(1_777_636_800_250), None]
    );
}

#[test]
fn one_bad_entry_does_not_spoil_the_others() {
    let read = read_marks(
        br#"{"good": {"session_id": "x"}, "a\nb": {"session_id": "x"}, "list": [],
             "none": {}, "id": {"session_id": ""}, "time": {"session_id": "x", "started_at": "then"},
             "turn": {"session_id": "x", "generation": -1}, "huge": {"session_id": "x", "generation": 1e30}}"#,
    );
    let marks = read.expect("it is an object");
    assert_eq!(
        marks
            .marks
            .keys()
            .map(|key| key.as_str())
            .collect::<Vec<_>>(),
        ["good"]
    );
    let reasons: Vec<_> = marks
        .damaged
        .iter()
        .map(|(key, why)| format!("{key}: {why}"))
        .collect();
    assert_snapshot!(reasons.join("\n"), @r#"
    a
    b: session key "a\nb" has the character '\n'; allowed are all but control characters
    list: it is a list where an object was expected
    none: it has no session_id
    id: session id is empty
    time: its started_at "then" is not a time
    turn: its generation -1 is not a number of a turn
    huge: its generation 1e+30 is not a number of a turn
    "#);
}

#[test]
fn keys_as_gateways_have_them_are_all_taken() {
    let keys = [
        "agent:main:signal:dm:+15551234567",
        "!room:server.org",
        "@user:server",
        "部屋 🚀",
    ];
    let entry = serde_json::json!({"session_id": "conversation 1", "started_at": 1777636800.123});
    let entries = keys.iter().map(|key| ((*key).to_owned(), entry.clone()));
    let file = serde_json::Value::Object(entries.collect());
    let marks = read_marks(file.to_string().as_bytes()).expect("it makes sense");
    assert_eq!((marks.marks.len(), marks.damaged), (keys.len(), Vec::new()));
    let started = marks.marks.values().next().and_then(|mark| mark.started_at);
    assert_eq!(started.map(|at| at.as_ms()), Some(1_777_636_800_123));
}

#[test]
fn a_key_that_stands_there_twice_makes_the_file_ambiguous() {
    let twice = br#"{"a": {"session_id": "x"}, "a": {"session_id": "y"}}"#;
    let error = read_marks(twice).expect_err("nobody knows which one counts");
    assert_snapshot!(error, @r#"it has the key "a" twice in the object that ends at line 1 column 52"#);
    assert!(read_marks(br#"{"a": {"session_id": "x", "session_id": "y"}}"#).is_err());
}

#[test]
fn what_is_no_object_of_sessions_is_damaged() {
    for text in ["", "{", "\0\0\0\0", "[]", "null", "7"] {
        assert!(read_marks(text.as_bytes()).is_err(), "{text:?}");
    }
    assert_eq!(read_marks(b"[]"), Err(FileError::NotAnObject("a list")));
    assert_eq!(read_marks(b"{}").map(|marks| marks.marks.len()), Ok(0));
}

fn import(generation: Option<u64>) -> SessionEvent {
    SessionEvent::Import {
        session_id: id("conversation-1"),
        started_at: noon(),
        generation: generation.map(Generation),
        owner: None,
    }
}

#[test]
fn an_imported_mark_is_a_turn_in_flight() {
    let new = act(None, HolderLife::Gone, import(Some(7)))
        .expect("taken")
        .expect("a change")
        .next;
    assert_eq!(
        (new.state.kind(), new.generation),
        (SessionStateKind::Active, Generation(7))
    );
    let newer = after(&idle(), HolderLife::Gone, import(Some(7)));
    assert_eq!(
        (newer.generation, newer.finished),
        (Generation(7), Generation(2))
    );
    assert_eq!(
        after(&idle(), HolderLife::Gone, import(None)).generation,
        Generation(3)
    );
}

#[test]
fn an_import_knows_no_better_than_the_store() {
    let refused = |session, life, generation| act(Some(&session), life, import(generation));
    let older = refused(idle(), HolderLife::Gone, Some(2));
    assert!(
        matches!(older, Err(SessionRefusal::Older { .. })),
        "{older:?}"
    );
    let live = refused(active(), HolderLife::Alive, Some(3));
    assert!(matches!(live, Err(SessionRefusal::Held { .. })), "{live:?}");
    assert_eq!(
        refused(active(), HolderLife::Alive, Some(2)),
        Ok(None),
        "the very same turn"
    );
}
