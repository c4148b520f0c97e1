//! `relight session` from outside.

use crate::cases;

use std::fs;

use cases::Place;
use serde_json::{Value, json};

/// A gateway: a process that lives until it is killed.
struct Gateway {
    running: cases::Running,
    pid: u32,
}

fn gateway(place: &Place) -> Gateway {
    let mut running = place.shell("echo $$; exec sleep 50").spawn();
    let pid = running.line().parse().expect("the pid of the gateway");
    Gateway { running, pid }
}

impl Gateway {
    fn begin(&self, place: &Place, key: &str) -> u64 {
        let words = format!("session begin {key} --id c-{key} --owner-pid {}", self.pid);
        place
            .ok(&words)
            .text()
            .trim()
            .parse()
            .expect("a generation")
    }

    /// SIGKILL, and until it is gone.
    fn die(self) {
        self.running.kill();
    }
}

fn state(place: &Place, key: &str) -> String {
    let shown = place.json(&format!("session show {key}"));
    shown["state"].as_str().expect("a state").to_owned()
}

/// The keys and states that a recovery answered.
fn recovered(place: &Place, flags: &str) -> Vec<String> {
    let answer = place.json(&format!("session recover {flags}"));
    let items = answer["items"].as_array().expect("items");
    let word = |item: &Value, name: &str| item[name].as_str().unwrap_or("–").to_owned();
    items
        .iter()
        .map(|item| format!("{} {}", word(item, "key"), word(item, "state")))
        .collect()
}

#[test]
fn after_a_crash_exactly_the_sessions_in_flight_are_suspended() {
    let place = Place::new();
    let (dying, other) = (gateway(&place), gateway(&place));
    for key in ["a", "b", "c"] {
        assert_eq!(dying.begin(&place, key), 1);
    }
    other.begin(&place, "d");
    place.ok("session end b --generation 1");
    dying.die();
    assert_eq!(
        recovered(&place, "--dry-run"),
        ["a suspended", "c suspended"]
    );
    assert_eq!(recovered(&place, ""), ["a suspended", "c suspended"]);
    assert_eq!(recovered(&place, ""), [] as [&str; 0]);
    assert_eq!(
        (state(&place, "b"), state(&place, "d")),
        ("idle".into(), "active".into())
    );
    let suspended = place.json("session list --state suspended");
    assert_eq!(suspended["items"].as_array().unwrap().len(), 2);
    other.die();
}

#[test]
fn a_clean_shutdown_leaves_none() {
    let place = Place::new();
    let (mine, other) = (gateway(&place), gateway(&place));
    mine.begin(&place, "a");
    other.begin(&place, "b");
    place.ok(&format!(
        "session touch seen --id c --owner-pid {}",
        mine.pid
    ));
    let answer = place.json(&format!("session shutdown --owner-pid {}", mine.pid));
    assert_eq!(answer["discarded"], json!(["a"]));
    mine.die();
    assert_eq!(recovered(&place, ""), [] as [&str; 0]);
    let pid = other.pid;
    other.die();
    // The service manager calls it once the gateway has ended in order.
    let answer = place.json(&format!("session shutdown --owner-pid {pid}"));
    assert_eq!(answer["discarded"], json!(["b"]));
}

#[test]
fn a_stale_end_is_told_so_and_clears_nothing() {
    let place = Place::new();
    let gateway = gateway(&place);
    assert_eq!(gateway.begin(&place, "s"), 1);
    assert_eq!(gateway.begin(&place, "s"), 2);
    let answer = place.fails("session end s --generation 1", 77);
    assert!(
        answer
            .stderr
            .contains("turn 1 is not the newest, which is 2"),
        "{}",
        answer.stderr
    );
    assert_eq!(state(&place, "s"), "active");
    place.ok("session end s --generation 2");
    assert_eq!(
        place.json("session end s --generation 2")["ended_before"],
        true
    );
    place.fails("session end s --generation 3", 77);
    gateway.die();
}

#[test]
fn an_unknown_key_is_a_plain_answer() {
    let place = Place::new();
    for words in [
        "end x --generation 1",
        "show x",
        "resume x",
        "suspend x",
        "clear x",
    ] {
        let answer = place.fails(&format!("session {words}"), 1);
        assert!(
            answer.stderr.contains("there is no session x"),
            "{}",
            answer.stderr
        );
    }
    assert_eq!(place.json("session list")["items"], json!([]));
}

#[test]
fn values_that_cannot_be_are_wrong_usage() {
    let place = Place::new();
    for words in [
        "begin k",
        "begin --id c",
        "begin k\u{7f} --id c",
        "begin k --id c\u{1b}[2J",
        "begin k --id c --owner-pid 4294967295",
        "begin k --id c --set novalue",
        "begin k --id c --export --json",
        "end k",
        "list --state lost",
        "recover --policy hope",
        "recover --window soon",
        "import --owner-pid 4294967295",
    ] {
        place.fails(&format!("session {words}"), 2);
    }
    assert_eq!(place.json("session list")["items"], json!([]));
}

#[test]
fn two_gateways_do_not_touch_each_others_live_turns() {
    let place = Place::new();
    let (one, two) = (gateway(&place), gateway(&place));
    one.begin(&place, "s");
    let held = format!("session begin s --id c --owner-pid {}", two.pid);
    let answer = place.fails(&held, 75);
    assert!(
        answer.stderr.contains(&format!("process {}", one.pid)),
        "{}",
        answer.stderr
    );
    place.ok(&format!("session shutdown --owner-pid {}", two.pid));
    assert_eq!(recovered(&place, ""), [] as [&str; 0]);
    assert_eq!(state(&place, "s"), "active");
    place.fails("session resume s", 75);
    one.die();
    assert_eq!(two.begin(&place, "s"), 2, "a dead owner holds nothing");
    assert_eq!(place.json("session show s")["deaths_in_a_row"], 1);
    two.die();
}

#[test]
fn callers_without_a_process_have_a_lease_by_time() {
    let place = Place::new();
    assert_eq!(
        place.ok("session begin s --id c --lease 1h").text().trim(),
        "1"
    );
    let owner = &place.json("session show s")["owner"];
    assert_eq!(
        (&owner["by"], &owner["alive"]),
        (&json!("tester"), &json!(true))
    );
    assert_eq!(
        place.ok("session begin s --id c --lease 1ms").text().trim(),
        "2"
    );
    assert_eq!(recovered(&place, ""), ["s suspended"]);
    place.ok("session begin t --id c");
    assert_eq!(place.json("session shutdown")["discarded"], json!(["t"]));
}

#[test]
fn the_policy_and_the_limits_come_from_flags_else_from_the_configuration() {
    let place = Place::new();
    fs::write(
        place.work("relight.toml"),
        "[sessions]\npolicy = \"resume_pending\"\nfreshness = \"0s\"\n",
    )
    .unwrap();
    for key in ["a", "b"] {
        let dying = gateway(&place);
        dying.begin(&place, key);
        dying.die();
        let flags = if key == "a" { "" } else { "--policy suspend" };
        let state = if key == "a" {
            "resume_pending"
        } else {
            "suspended"
        };
        assert_eq!(recovered(&place, flags), [format!("{key} {state}")]);
    }
    assert_eq!(place.json("session show a")["fresh_until"], Value::Null);
    fs::write(
        place.work("relight.toml"),
        "[sessions]\npolicy = \"hope\"\n",
    )
    .unwrap();
    place.fails("session recover", 78);
    place.fails("session recover --config absent.toml", 78);
    place.ok("session list");
}

#[test]
fn what_waits_too_long_to_be_taken_up_expires() {
    let place = Place::new();
    let dying = gateway(&place);
    dying.begin(&place, "s");
    dying.die();
    let pending = "--policy resume_pending --freshness 1ms";
    assert_eq!(recovered(&place, pending), ["s resume_pending"]);
    assert_eq!(
        recovered(&place, "--freshness 0s"),
        [] as [&str; 0],
        "no limit"
    );
    assert_eq!(state(&place, "s"), "expired", "also before anybody swept");
    assert_eq!(recovered(&place, pending), ["s expired"]);
    let resumed = place.json("session resume s");
    assert_eq!(
        (&resumed["previous_state"], &resumed["state"]),
        (&json!("expired"), &json!("idle"))
    );
    place.fails("session resume s", 1);
}

#[test]
fn three_deaths_in_a_row_suspend_whatever_the_policy() {
    let place = Place::new();
    let mut states = Vec::new();
    for _ in 0..3 {
        let dying = gateway(&place);
        dying.begin(&place, "s");
        dying.die();
        states.extend(recovered(&place, "--policy resume_pending"));
    }
    assert_eq!(
        states,
        ["s resume_pending", "s resume_pending", "s suspended"]
    );
    let shown = place.json("session show s");
    assert_eq!(
        (&shown["suspended_by"], &shown["deaths_in_a_row"]),
        (&json!("limit"), &json!(3))
    );
    assert_eq!(place.json("session resume s")["deaths_in_a_row"], 0);
}

#[test]
fn a_reason_that_was_given_is_kept_over_the_generic_one() {
    let place = Place::new();
    let dying = gateway(&place);
    dying.begin(&place, "s");
    place
        .relight("session suspend s --reason")
        .arg("waits for Ann")
        .run()
        .with_code(0);
    place.fails("session end s --generation 1", 77);
    let refused = place.fails(
        &format!("session begin s --id c --owner-pid {}", dying.pid),
        1,
    );
    assert!(
        refused.stderr.contains("waits for Ann"),
        "{}",
        refused.stderr
    );
    place.ok("session resume s");
    dying.begin(&place, "s");
    dying.die();
    assert_eq!(recovered(&place, ""), ["s suspended"]);
    assert_eq!(place.json("session show s")["reason"], "waits for Ann");
}

#[test]
fn a_turn_whose_gateway_died_needs_a_person_until_it_is_decided() {
    let place = Place::new();
    let dying = gateway(&place);
    dying.begin(&place, "s");
    place.ok("status");
    dying.die();
    let status = place.fails("status", 1).text();
    assert!(status.contains("needs me  1"), "{status}");
    assert!(status.contains("try: relight session recover"), "{status}");
    place.ok("session recover --policy resume_pending");
    place.ok("status");
}

#[test]
fn what_was_never_marked_is_found_by_the_window_alone() {
    let place = Place::new();
    place.ok("session touch seen --id c");
    place.ok("session begin marked --id c --lease 1h");
    place.ok("session end marked --generation 1");
    place.ok("session touch marked --id c");
    assert_eq!(recovered(&place, "--window 0s"), [] as [&str; 0]);
    assert_eq!(recovered(&place, "--window 120s"), ["seen suspended"]);
}

#[test]
fn a_turn_of_a_resumed_session_gets_its_id_and_context() {
    let place = Place::new();
    let dying = gateway(&place);
    let begin = format!(
        "session begin s --id c --set model=opus --owner-pid {}",
        dying.pid
    );
    place.ok(&begin);
    dying.die();
    recovered(&place, "--policy resume_pending");
    let lives = gateway(&place);
    let begun = place.json(&format!("session begin s --id c --owner-pid {}", lives.pid));
    assert_eq!(begun["generation"], 2);
    assert_eq!(
        (&begun["resumed"], &begun["previous_state"]),
        (&json!(true), &json!("resume_pending"))
    );
    assert_eq!(begun["context"], json!({"model": "opus"}));
    lives.die();
}

#[test]
fn exported_variables_stand_for_the_key_and_the_generation() {
    let place = Place::new();
    let script = "eval \"$(relight session begin k --id c --owner-pid $$ --export)\"
        relight session show --json | grep -q '\"active\"' && relight session end";
    place.shell(script).run().with_code(0);
    assert_eq!(state(&place, "k"), "idle");
}

#[test]
fn an_agent_under_run_owns_its_turns() {
    let place = Place::new();
    let call = place
        .relight("run --name gate --restart never --")
        .args(["sh", "-c"]);
    call.arg("relight session begin k --id c && kill -9 $$")
        .run();
    let owner = &place.json("session show k")["owner"];
    assert_eq!(
        (&owner["kind"], &owner["alive"]),
        (&json!("attempt"), &json!(false))
    );
    assert_eq!(recovered(&place, ""), ["k suspended"]);
}

#[test]
fn the_file_of_another_gateway_is_taken_in_and_given_out() {
    let place = Place::new();
    let file = place.work("agent_checkpoints.json");
    let lives = gateway(&place);
    lives.begin(&place, "mine");
    place.ok("session export");
    let marks: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(
        (&marks["mine"]["session_id"], &marks["mine"]["generation"]),
        (&json!("c-mine"), &json!(1))
    );
    fs::write(
        &file,
        r#"{"theirs": {"session_id": "x", "started_at": 1777636800.5, "generation": 4}}"#,
    )
    .unwrap();
    let answer = place.json("session import");
    assert_eq!(answer["imported"], json!(["theirs"]));
    assert_eq!(place.json("session import")["same"], json!(["theirs"]));
    assert_eq!(recovered(&place, ""), ["theirs suspended"]);
    place.fails("session import", 1);
    assert_eq!(
        fs::read_dir(place.path("work")).unwrap().count(),
        1,
        "nothing is left beside"
    );
    lives.die();
}

/// Keys as gateways make them up, and the longest one.
fn keys_of_gateways() -> Vec<String> {
    let given = [
        "agent:main:signal:dm:+15551234567",
        "!room:server.org",
        "@user:server",
        "部屋 🚀",
        "../a b/..",
        "it's \"quoted\" $(id)",
        "19:meeting_OGNjNTJjODYtOGUwZC00M2YzLWIxMjUtMDFkOWU5MTE3Mzhk@thread.v2",
        "nostr:npub1qpzry9x8gf2tvdw0s3jn54khce6mua7lqpzry9x8gf2tvdw0s3jn54khce6",
        "auth:user:9f86d081884c7d659a2feaa0c55ad015",
        "api:key:9f86d081884c7d659a2feaa0c55ad015",
        "webchat:token:8cc52c86-8e0d-43f3-b125-01d9e911738d",
    ];
    given
        .map(str::to_owned)
        .into_iter()
        .chain(["é".repeat(256)])
        .collect()
}

#[test]
fn a_session_may_have_any_key_without_control_characters() {
    let place = Place::new();
    for key in keys_of_gateways() {
        let session = |verb: &str| {
            place
                .relight(&format!("--json session {verb}"))
                .arg(&key)
                .run()
                .with_code(0)
        };
        assert_eq!(
            session("begin --id chat#1").json()["generation"],
            1,
            "{key}"
        );
        assert_eq!(session("show").json()["key"], key.as_str());
        session("end --generation 1");
        session("suspend");
        session("resume");
        session("clear");
        let export = place
            .relight("session begin --export --id c")
            .arg(&key)
            .run()
            .with_code(0);
        let ended = format!("{}relight session end", export.text());
        place.shell(&ended).run().with_code(0);
    }
    let list = place.json("session list --limit 3");
    let next = list["next"].as_str().unwrap();
    let rest = place
        .relight("--json session list --after")
        .arg(next)
        .run()
        .with_code(0)
        .json();
    assert_eq!(
        rest["items"].as_array().unwrap().len(),
        keys_of_gateways().len() - 3
    );
    for bad in ["", "a\nb", "a\u{1b}[2J", "a\u{7f}", &"x".repeat(513)] {
        place
            .relight("session begin --id c")
            .arg(bad)
            .run()
            .with_code(2);
    }
}

#[test]
fn import_drops_no_session_and_export_writes_seconds() {
    let place = Place::new();
    let file = place.work("agent_checkpoints.json");
    let entry = json!({"session_id": "20260501_120000_a b", "started_at": 1777636800.125});
    let entries = keys_of_gateways()
        .into_iter()
        .map(|key| (key, entry.clone()));
    let marks = Value::Object(entries.collect());
    fs::write(&file, marks.to_string()).unwrap();
    let answer = place.json("session import");
    assert_eq!(
        answer["imported"].as_array().unwrap().len(),
        keys_of_gateways().len()
    );
    place.ok("session export out.json");
    let out: Value = serde_json::from_slice(&fs::read(place.work("out.json")).unwrap()).unwrap();
    for key in keys_of_gateways() {
        assert_eq!(out[&key]["started_at"], json!(1_777_636_800.125), "{key}");
        assert_eq!(out[&key]["session_id"], entry["session_id"], "{key}");
    }
    fs::write(
        &file,
        r#"{"a": {"session_id": "x"}, "a": {"session_id": "y"}}"#,
    )
    .unwrap();
    place.fails("session import", 65).says(&["key \"a\" twice"]);
}

#[test]
fn a_missing_or_damaged_file_is_a_clear_answer() {
    let place = Place::new();
    place.fails("session import absent.json", 1);
    let file = place.work("agent_checkpoints.json");
    for text in ["", "{\"a\": {\"session_", "\0\0\0\0\0", "[1]"] {
        fs::write(&file, text).unwrap();
        let answer = place.fails("session import", 65);
        assert!(answer.stderr.contains("is damaged"), "{}", answer.stderr);
    }
    fs::write(&file, r#"{"good": {"session_id": "x"}, "bad": 7}"#).unwrap();
    let answer = place.fails("--json session import", 65).json();
    assert_eq!(
        (&answer["imported"], &answer["damaged"][0]["key"]),
        (&json!(["good"]), &json!("bad"))
    );
    place.fails("session export absent/../agent_checkpoints.json/x", 2);
}

#[test]
fn secrets_of_sessions_never_reach_the_disk() {
    let place = Place::new();
    let secret = "ghp_0123456789abcdefABCDEF0123456789abcd";
    place.ok(&format!("session begin s --id c --set token={secret}"));
    place
        .relight("session suspend s --reason")
        .arg(&format!("leaked {secret}"))
        .run()
        .with_code(0);
    place.fails(&format!("session begin {secret} --id c"), 2);
    place.fails(&format!("session begin t --id {secret}"), 2);
    assert!(place.files_with(secret.as_bytes()).is_empty());
}

#[test]
fn a_mark_that_cannot_be_written_leaks_nothing_and_can_be_tried_again() {
    let place = Place::new();
    place.ok("session begin other --id c");
    let limited = "ulimit -f 0; trap '' XFSZ; relight session begin s --id c";
    let answer = place.shell(limited).run();
    assert_eq!(answer.code, 74, "{}", answer.stderr);
    place.fails("session show s", 1);
    assert_eq!(place.ok("session begin s --id c").text().trim(), "1");
}

#[test]
fn events_tell_what_became_of_a_session() {
    let place = Place::new();
    let dying = gateway(&place);
    dying.begin(&place, "s");
    dying.die();
    recovered(&place, "");
    let events = place
        .ok("events --kind session.begun --kind session.state --json")
        .text();
    let told: Vec<Value> = events
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(told.len(), 2);
    assert_eq!(
        (&told[1]["detail"]["session"], &told[1]["detail"]["to"]),
        (&json!("s"), &json!("suspended"))
    );
}

#[test]
fn a_recovery_that_is_killed_is_finished_by_the_next() {
    let place = Place::new();
    let marks: Vec<String> = (0..5_000)
        .map(|n| format!(r#""s{n}": {{"session_id": "x"}}"#))
        .collect();
    fs::write(
        place.work("agent_checkpoints.json"),
        format!("{{{}}}", marks.join(",")),
    )
    .unwrap();
    place.ok("session import");
    let running = place.relight("session recover").spawn();
    running.kill();
    recovered(&place, "");
    assert_eq!(
        place.json("session list --state active")["items"],
        json!([])
    );
}

#[test]
fn old_sessions_are_counted_and_forgotten() {
    let place = Place::new();
    let gateway = gateway(&place);
    let generation = gateway.begin(&place, "idle");
    gateway.begin(&place, "live");
    place.ok(&format!("session end idle --generation {generation}"));
    assert_eq!(place.json("prune")["sessions"], 0);
    let dry = place.ok("prune --older-than 0s --dry-run");
    assert!(dry.text().contains("and 1 session"), "{}", dry.text());
    assert_eq!(place.json("prune --older-than 0s --dry-run")["sessions"], 1);
    assert_eq!(place.json("prune --older-than 0s")["sessions"], 1);
    let keys = place.json("session list");
    let keys: Vec<&Value> = keys["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|item| &item["key"])
        .collect();
    assert_eq!(keys, ["live"]);
    gateway.die();
}

#[test]
fn since_is_when_the_state_last_changed_and_not_the_last_write() {
    let place = Place::new();
    let shown = || place.json("session list")["items"][0].clone();
    let stays = |words: &str| {
        let before = shown();
        place.ok(words);
        let after = shown();
        assert_ne!(after["updated_at"], before["updated_at"], "{words}");
        assert_eq!(after["since"], before["since"], "{words}");
    };
    place.ok("session touch k --id c");
    stays("session touch k --id c");
    stays("session clear k");
    let idle = shown();
    place.ok("session suspend k");
    assert_ne!(shown()["since"], idle["since"]);
    stays("session suspend k --reason again");
}
