//! `relight transcript`, from outside.

use std::fs;

use serde_json::Value;

use crate::relight::Stage;

const SOUND: &str = "{\"type\":\"metadata\",\"protocol_version\":\"1.5\",\"created_at\":1}\n\
    {\"type\":\"turn.prompt\",\"agentId\":\"main\",\"input\":[],\"time\":2}\n";

/// A transcript of Kimi Code with this after two sound records.
fn with_tail(stage: &Stage, tail: &str) -> String {
    let path = stage.folder.path().join("wire.jsonl");
    fs::write(&path, format!("{SOUND}{tail}")).unwrap();
    path.to_str().unwrap().to_owned()
}

fn first_item(text: &str) -> Value {
    serde_json::from_str::<Value>(text).unwrap()["items"][0].clone()
}

#[test]
fn a_torn_transcript_is_found_repaired_and_sound() {
    let stage = Stage::new();
    let path = with_tail(&stage, "{\"type\":\"turn.pro");
    let found = stage.run(&["transcript", "check", &path, "--json"]);
    assert_eq!(found.code, 1, "{found:?}");
    let item = first_item(&found.stdout);
    assert_eq!(
        (&item["state"], &item["format"]),
        (&"damaged".into(), &"kimi".into())
    );
    assert_eq!(item["findings"][0]["kind"], "torn_tail");
    let repaired = stage.run(&["transcript", "repair", &path, "--json"]);
    assert_eq!(repaired.code, 0, "{repaired:?}");
    let kept = first_item(&repaired.stdout)["kept"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(fs::read_to_string(kept).unwrap().ends_with("turn.pro"));
    assert_eq!(fs::read_to_string(&path).unwrap(), SOUND);
    let sound = stage.run(&["transcript", "check", &path]);
    assert_eq!(sound.code, 0, "{sound:?}");
}

#[test]
fn a_file_that_cannot_be_read_stops_no_other() {
    let stage = Stage::new();
    let path = with_tail(&stage, "{\"type\":\"turn.pro");
    let missing = format!("{path}.none");
    let ran = stage.run(&["transcript", "repair", &missing, &path, "--json"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains(&missing), "{ran:?}");
    assert_eq!(first_item(&ran.stdout)["state"], "repaired");
    assert_eq!(fs::read_to_string(&path).unwrap(), SOUND);
}

#[test]
fn what_cannot_be_repaired_is_65_and_stays_as_it_is() {
    let stage = Stage::new();
    let path = with_tail(&stage, "");
    fs::write(&path, &SOUND[10..]).unwrap();
    let ran = stage.run(&["transcript", "repair", &path]);
    assert_eq!(ran.code, 65, "{ran:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), &SOUND[10..]);
    fs::write(&path, "").unwrap();
    assert_eq!(stage.run(&["transcript", "check", &path]).code, 65);
    assert_eq!(
        stage
            .run(&["transcript", "check", &format!("{path}.none")])
            .code,
        1
    );
    fs::write(&path, "{}\n").unwrap();
    let unknown = stage.run(&["transcript", "check", &path]);
    let formats = "give --format, one of claude-code, codex, gemini, kimi, qwen";
    assert!(
        unknown.code == 65 && unknown.stderr.contains(formats),
        "{unknown:?}"
    );
    assert_eq!(
        stage
            .run(&["transcript", "check", "--agent", "nobody"])
            .code,
        1
    );
}

#[test]
fn a_transcript_that_a_process_has_open_is_not_repaired() {
    let stage = Stage::new();
    let path = with_tail(&stage, "half");
    let open = fs::File::open(&path).unwrap();
    let ran = stage.run(&["transcript", "repair", &path]);
    assert_eq!(ran.code, 75, "{ran:?}");
    drop(open);
    assert_eq!(stage.run(&["transcript", "repair", &path]).code, 0);
}
