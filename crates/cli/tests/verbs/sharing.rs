//! Many processes on one store.

use crate::cases;

use cases::{Place, at_once};
use relight_runtime::Relight;
use serde_json::json;

const MANY: usize = 16;

#[test]
fn a_new_store_is_created_by_many_at_once() {
    for _ in 0..5 {
        let place = Place::new();
        let adds = (0..MANY).map(|n| place.relight(&format!("task add t{n}")));
        at_once(adds)
            .into_iter()
            .for_each(|answer| drop(answer.with_code(0)));
        assert_eq!(
            place.json("task list")["items"].as_array().unwrap().len(),
            MANY
        );
        let left: Vec<_> = place.picture("home").into_keys().collect();
        assert_eq!(left.len(), 4, "nothing is left of the race: {left:?}");
    }
}

#[test]
fn steps_of_one_task_ended_by_many_at_once_all_land() {
    let place = Place::new();
    place.ok("task start t");
    let steps =
        (0..MANY).map(|n| place.relight(&format!("step run s{n} --task t --fence 1 -- true")));
    at_once(steps)
        .into_iter()
        .for_each(|answer| drop(answer.with_code(0)));
    let task = place.json("task show t");
    assert_eq!(task["done_steps"].as_array().unwrap().len(), MANY);
    assert_eq!(
        (&task["steps_done"], &task["in_doubt"]),
        (&json!(MANY), &json!([]))
    );
}

#[test]
fn one_task_started_by_many_at_once_has_one_holder() {
    let place = Place::new();
    let starts = (0..MANY).map(|_| place.relight("task start t --lease 1h"));
    let mut codes: Vec<i32> = at_once(starts).iter().map(|answer| answer.code).collect();
    codes.sort_unstable();
    assert_eq!((codes[0], &codes[1..]), (0, &[75; MANY - 1][..]));
}

#[test]
fn a_queue_claimed_by_many_at_once_is_handed_out_once() {
    let place = Place::new();
    for n in 0..MANY {
        place.ok(&format!("task add t{n}"));
    }
    let claims = (0..MANY).map(|_| place.relight("--json task claim --agent me"));
    let taken = at_once(claims)
        .into_iter()
        .map(|answer| answer.with_code(0).json()["task"].to_string());
    let taken: std::collections::BTreeSet<String> = taken.collect();
    assert_eq!(taken.len(), MANY);
}

#[test]
fn one_key_used_by_many_at_once_makes_one_task() {
    let place = Place::new();
    let adds = (0..MANY).map(|n| place.relight(&format!("task add t{n} --key k")));
    at_once(adds)
        .into_iter()
        .for_each(|answer| drop(answer.with_code(0)));
    assert_eq!(
        place.json("task list")["items"].as_array().unwrap().len(),
        1
    );
}

#[test]
fn one_step_run_by_many_at_once_is_finished_once() {
    let place = Place::new();
    place.ok("task start t");
    at_once((0..MANY).map(|_| place.relight("step run s --task t -- true")));
    assert_eq!(place.json("task show t")["steps_done"], 1);
}

#[test]
fn checkpoints_written_by_many_at_once_agree_with_the_store() {
    let place = Place::new();
    place.ok("checkpoint start --workflow w --agent a --step s0 --idempotency k");
    let updates = (0..MANY)
        .map(|n| place.relight(&format!("checkpoint update --workflow w --complete s{n}")));
    at_once(updates)
        .into_iter()
        .for_each(|answer| drop(answer.with_code(0)));
    let file = place.ok("checkpoint verify --json").json();
    assert_eq!(file["damaged"], 0);
    let bytes = std::fs::read(place.checkpoint("w")).unwrap();
    let file: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(file["completedSteps"].as_array().unwrap().len(), MANY);
    assert_eq!(file["seq"], place.json("task show w")["seq"]);
}

#[test]
fn a_library_handle_and_commands_of_two_homes_share_one_store() {
    let place = Place::new();
    let url = format!("sqlite:{}", place.path("shared/relight.db").display());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let relight = runtime.block_on(Relight::open(&url)).unwrap();
    let held = runtime
        .block_on(relight.task("held").unwrap().start())
        .unwrap();
    for home in ["one", "two"] {
        let call = place.relight(&format!("task add {home} --store {url} --home {home}"));
        call.run().with_code(0);
        let start = place.relight(&format!("task start held --store {url} --home {home}"));
        start
            .run()
            .with_code(75)
            .says(&[&format!("process {}", std::process::id())]);
    }
    let step = held.step("s", || async { Ok::<_, std::io::Error>(7) });
    assert_eq!(runtime.block_on(step).unwrap(), 7);
    let list = place
        .relight(&format!("--json task list --store {url}"))
        .run()
        .json();
    let ids: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| &task["id"])
        .collect();
    assert_eq!(ids, ["held", "one", "two"]);
    let show = place
        .relight(&format!("--json task show held --store {url}"))
        .run()
        .json();
    assert_eq!(show["done_steps"], json!(["s"]));
}
