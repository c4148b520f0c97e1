//! Events as a stream.

use std::io::{BufRead, BufReader};

use relight_core::change::Change;
use relight_core::decide::Guard;
use relight_core::event::EventKind;
use relight_core::ids::TaskId;
use relight_core::task::NewTask;
use relight_core::time::Time;
use relight_store::Commit;
use serde_json::{Value, json};

use crate::ground::{Asking, Ground, Stream};

/// A watcher; the answer's head is read already.
struct Watcher(BufReader<Box<dyn Stream>>);

impl Watcher {
    fn begin(ground: &Ground, path: &str, last: Option<u64>) -> Self {
        Self::over(ground.ask("GET", path).token(&ground.token), last)
    }

    fn over(ask: Asking<'_>, last: Option<u64>) -> Self {
        let ask = ask.header("Accept", "text/event-stream");
        let ask = match last {
            Some(last) => ask.header("Last-Event-ID", &last.to_string()),
            None => ask,
        };
        let mut watcher = Self(BufReader::new(ask.open()));
        let head = watcher.paragraph().unwrap();
        assert!(head[0].contains("200") && head.iter().any(|line| line.contains("event-stream")));
        watcher
    }

    /// Lines up to an empty one; none at the end.
    fn paragraph(&mut self) -> Option<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end() {
                "" if lines.is_empty() => {}
                "" => return Some(lines),
                line => lines.push(line.to_owned()),
            }
        }
    }

    /// The next event: its name and data. The sizes of pieces and comments are passed over.
    fn next(&mut self) -> Option<(String, Value)> {
        loop {
            let lines = self.paragraph()?;
            let find = |name: &str| lines.iter().find_map(|line| line.strip_prefix(name));
            if let (Some(event), Some(data)) = (find("event: "), find("data: ")) {
                return Some((event.to_owned(), serde_json::from_str(data).unwrap()));
            }
        }
    }
}

impl Watcher {
    /// Reads on to the event of this task: how many were seen, and how many were missed.
    fn read_to(&mut self, task: &str) -> (u64, u64) {
        let (mut seen, mut missed) = (0, 0);
        loop {
            let (event, data) = self.next().unwrap();
            match event.as_str() {
                "dropped" => missed += data["missed"].as_u64().unwrap(),
                _ => seen += 1,
            }
            if data["task"] == task {
                return (seen, missed);
            }
        }
    }
}

fn add(ground: &Ground, id: &str) {
    assert_eq!(ground.post("/api/tasks", &json!({"id": id})).status, 201);
}

#[test]
fn what_happens_is_told_as_it_happens() {
    let ground = Ground::new();
    add(&ground, "before");
    let mut watcher = Watcher::begin(&ground, "/api/events?kind=task.created", None);
    add(&ground, "after");
    let (event, data) = watcher.next().unwrap();
    assert_eq!(
        (event.as_str(), &data["task"]),
        ("task.created", &json!("after"))
    );
}

#[test]
fn a_watcher_that_comes_back_misses_nothing_and_sees_nothing_twice() {
    let ground = Ground::new();
    let ids = |range: std::ops::Range<u32>| range.map(|at| format!("t{at}")).collect::<Vec<_>>();
    let path = "/api/events?kind=task.created";
    let mut watcher = Watcher::begin(&ground, path, Some(0));
    ids(0..3).iter().for_each(|id| add(&ground, id));
    let mut seen = Vec::new();
    let mut last = 0;
    let mut look = |watcher: &mut Watcher, count: usize| {
        for _ in 0..count {
            let (_, data) = watcher.next().unwrap();
            seen.push(data["task"].as_str().unwrap().to_owned());
            last = data["id"].as_u64().unwrap();
        }
        last
    };
    let last = look(&mut watcher, 2);
    drop(watcher);
    ids(3..400).iter().for_each(|id| {
        let new = NewTask::bare(TaskId::new(id.clone()).unwrap());
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(ground.engine.add(new))
            .unwrap();
    });
    let mut watcher = Watcher::begin(&ground, path, Some(last));
    look(&mut watcher, 398);
    assert_eq!(seen, ids(0..400));
}

#[test]
fn a_watcher_that_does_not_read_is_told_how_many_it_missed() {
    let ground = Ground::new();
    let path = "/api/events?kind=task.context";
    // The socket holds far less than a TCP connection does before its writer has to wait.
    let mut deaf = Watcher::over(ground.ask("GET", path).over_socket(), None);
    let mut other = Watcher::begin(&ground, path, None);
    // A batch has at most five of them, and the ring has 256 batches.
    let all = 1_800;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    for at in 0..all {
        let task = TaskId::new(format!("t{at}")).unwrap();
        let changes = vec![
            Change::Created(Box::new(NewTask::bare(task.clone()))),
            Change::Noted(EventKind::TaskContext, "x".repeat(15_000).into()),
        ];
        let commit = Commit {
            task,
            guard: Guard::default(),
            at: Time::from_ms(1),
            changes,
        };
        runtime
            .block_on(ground.engine.store().commit(commit))
            .unwrap();
    }
    // What another one has seen was told to all.
    let last = format!("t{}", all - 1);
    other.read_to(&last);
    let (seen, missed) = deaf.read_to(&last);
    assert!(
        missed > 0 && seen + missed >= all,
        "{seen} seen, {missed} missed"
    );
}

#[test]
fn a_stream_ends_with_the_daemon() {
    let mut ground = Ground::new();
    let mut watcher = Watcher::begin(&ground, "/api/events", None);
    ground.stop();
    assert_eq!(watcher.next(), None);
}

#[test]
fn the_list_has_filters_and_pages() {
    let ground = Ground::new();
    for id in ["a", "b", "c"] {
        add(&ground, id);
    }
    let page = ground.get("/api/events?kind=task.created&limit=2").ok();
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    let next = page["next"].as_str().unwrap();
    let rest = ground
        .get(&format!(
            "/api/events?kind=task.created&limit=2&after={next}"
        ))
        .ok();
    assert_eq!(
        (&rest["items"][0]["task"], &rest["next"]),
        (&json!("c"), &Value::Null)
    );
    assert_eq!(
        ground.get("/api/events?task=b").ok()["items"][0]["task"],
        "b"
    );
    assert_eq!(
        ground.get("/api/events?newest=true&limit=1").ok()["items"][0]["task"],
        "c"
    );
    let back = ground
        .get("/api/events?kind=task.created&newest=true&limit=2")
        .ok();
    let before = back["next"].as_str().unwrap();
    let earlier = ground
        .get(&format!(
            "/api/events?kind=task.created&limit=2&before={before}"
        ))
        .ok();
    assert_eq!(
        (&back["items"][1]["task"], &earlier["items"][0]["task"]),
        (&json!("c"), &json!("a"))
    );
    assert_eq!(
        (earlier["items"].as_array().unwrap().len(), &earlier["next"]),
        (1, &json!(null))
    );
    assert_eq!(ground.get("/api/events?before=soon").status, 422);
    assert_eq!(ground.get("/api/events?kind=odd").status, 422);
    let odd = ground.ask("GET", "/api/events").token(&ground.token);
    let odd = odd
        .header("Accept", "text/event-stream")
        .header("Last-Event-ID", "x")
        .send();
    assert_eq!(odd.status, 422);
}
