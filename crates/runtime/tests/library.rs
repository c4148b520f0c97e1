//! What a program that embeds Relight can rely on.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use relight_runtime::EngineAccess as _;
use relight_runtime::core::decide::Refusal;
use relight_runtime::core::event::EventKind;
use relight_runtime::core::ids::TaskId;
use relight_runtime::core::recovery::TaskPolicy;
use relight_runtime::core::status::TaskStatus;
use relight_runtime::core::step::RepeatRule;
use relight_runtime::engine::ActError;
use relight_runtime::os::{clock, process};
use relight_runtime::{Ended, Relight, RunningTask, StepError, StepRun};
use relight_store::EventQuery;
use tempfile::TempDir;

type Never = std::convert::Infallible;

/// A store in a folder of its own.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder for the test"),
        }
    }

    fn url(&self) -> String {
        format!("sqlite:{}/relight.db", self.folder.path().display())
    }

    async fn open(&self) -> Relight {
        Relight::open(&self.url()).await.expect("the store opens")
    }

    async fn start(&self) -> RunningTask {
        let relight = self.open().await;
        relight
            .task("t")
            .expect("an id")
            .start()
            .await
            .expect("the task starts")
    }

    async fn status(&self) -> TaskStatus {
        let relight = self.open().await;
        relight
            .engine()
            .task(&TaskId::new("t").expect("an id"))
            .await
            .expect("a task")
            .status
    }
}

/// Runs a step that counts how often it ran.
async fn counted(task: &RunningTask, name: &str, runs: &AtomicU32) -> u32 {
    let run = || async { Ok::<_, Never>(runs.fetch_add(1, Ordering::Relaxed) + 1) };
    task.step(name, run).await.expect("the step gives a value")
}

#[tokio::test]
async fn a_dropped_task_goes_on_and_its_finished_steps_give_their_values() {
    let (place, runs) = (Place::new(), AtomicU32::new(0));
    let first = place.start().await;
    assert!(!first.resumed());
    assert_eq!(counted(&first, "a", &runs).await, 1);
    drop(first);
    let second = place.start().await;
    assert!(second.resumed());
    assert_eq!(second.progress().done_steps, ["a"]);
    assert_eq!(counted(&second, "a", &runs).await, 1);
    assert_eq!(runs.into_inner(), 1);
}

#[tokio::test]
async fn a_dropped_task_is_interrupted() {
    let place = Place::new();
    drop(place.start().await);
    assert_eq!(place.status().await, TaskStatus::Interrupted);
}

#[tokio::test]
async fn a_failed_step_runs_again_with_the_same_key() {
    let place = Place::new();
    let task = place.start().await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let run = |run: relight_runtime::StepRun| {
            seen.push((run.tries, run.idempotency_key));
            async { Err::<(), _>("no") }
        };
        let error = task.plan("s").unwrap().run(run).await.unwrap_err();
        assert!(matches!(error, StepError::Failed("no")));
    }
    let tries: Vec<u32> = seen.iter().map(|(tries, _)| *tries).collect();
    assert_eq!(tries, [1, 2, 3]);
    assert!(seen.iter().all(|(_, key)| *key == seen[0].1));
    let value = task
        .step("s", || async { Ok::<_, Never>("yes".to_owned()) })
        .await
        .unwrap();
    assert_eq!(value, "yes");
}

#[tokio::test]
async fn the_same_name_again_is_the_next_occurrence_and_replays_in_order() {
    let (place, runs) = (Place::new(), AtomicU32::new(0));
    let first = place.start().await;
    for expected in 1..=3 {
        assert_eq!(counted(&first, "s", &runs).await, expected);
    }
    drop(first);
    let second = place.start().await;
    for expected in 1..=4 {
        assert_eq!(counted(&second, "s", &runs).await, expected);
    }
    assert_eq!(runs.into_inner(), 4);
}

#[tokio::test]
async fn a_finished_step_that_the_store_has_lost_runs_again() {
    let (place, runs) = (Place::new(), AtomicU32::new(0));
    let task = place.start().await;
    let pay = || async { Ok::<_, Never>(runs.fetch_add(1, Ordering::Relaxed) + 1) };
    let ask = || {
        task.plan("pay")
            .expect("a name")
            .occurrence(1)
            .run(|_| pay())
    };
    assert_eq!(ask().await.expect("it runs"), 1);

    // As after a failover to a standby that was behind.
    let db = rusqlite::Connection::open(place.folder.path().join("relight.db")).expect("it opens");
    let gone = db
        .execute("DELETE FROM journal WHERE name = 'pay'", [])
        .expect("it is written");
    assert!(gone > 0);

    assert_eq!(
        ask()
            .await
            .expect("it runs again, and does not answer with nothing"),
        2
    );
    assert_eq!(ask().await.expect("it is recorded"), 2);
}

#[tokio::test]
async fn a_finished_step_asked_with_another_input_is_refused() {
    let place = Place::new();
    let first = place.start().await;
    let ok = |_| async { Ok::<_, Never>(1) };
    first
        .plan("s")
        .unwrap()
        .input(&"one")
        .run(ok)
        .await
        .unwrap();
    drop(first);
    let second = place.start().await;
    let other = second
        .plan("s")
        .unwrap()
        .input(&"two")
        .run(ok)
        .await
        .unwrap_err();
    assert!(matches!(
        other,
        StepError::Act(ActError::Refused(Refusal::OtherInput { .. }))
    ));
    assert_eq!(
        second
            .plan("s")
            .unwrap()
            .input(&"one")
            .run(ok)
            .await
            .unwrap(),
        1
    );
}

#[tokio::test]
async fn a_value_of_another_type_is_an_error_that_names_the_step() {
    let place = Place::new();
    let first = place.start().await;
    first
        .step("s", || async { Ok::<_, Never>("text".to_owned()) })
        .await
        .unwrap();
    drop(first);
    let run = || async { Ok::<u32, Never>(1) };
    let error = place.start().await.step("s", run).await.unwrap_err();
    assert!(
        matches!(&error, StepError::Value { step, .. } if step.to_string() == "s"),
        "{error}"
    );
}

#[tokio::test]
async fn a_value_of_many_mebibytes_comes_back_whole() {
    let place = Place::new();
    let long: String = ('a'..='z').cycle().take(5 << 20).collect();
    let first = place.start().await;
    let kept = first
        .step("s", || async { Ok::<_, Never>(long.clone()) })
        .await
        .unwrap();
    drop(first);
    let run = || async { Ok::<_, Never>(String::new()) };
    let replayed: String = place.start().await.step("s", run).await.unwrap();
    assert!(kept == long && replayed == long);
}

#[tokio::test]
async fn a_value_that_cannot_be_written_is_an_error() {
    let place = Place::new();
    let task = place.start().await;
    let run = || async { Ok::<_, Never>(HashMap::from([((1_u8, 2_u8), 3_u8)])) };
    assert!(task.step("s", run).await.is_err());
}

#[tokio::test]
async fn a_value_that_reads_back_as_something_else_is_an_error() {
    let place = Place::new();
    let run = || async { Ok::<_, Never>(f64::NAN) };
    let first = place.start().await.step("s", run).await;
    let again = place.start().await.step("s", run).await;
    assert_eq!(first.is_ok(), again.is_ok());
}

#[tokio::test]
async fn a_step_whose_input_cannot_be_written_is_not_run() {
    let place = Place::new();
    let task = place.start().await;
    let never = |_| async { unreachable!("the step ran") as Result<u8, Never> };
    let input = HashMap::from([((1_u8, 1_u8), 1_u8)]);
    let refused = task
        .plan("s")
        .unwrap()
        .input(&input)
        .run(never)
        .await
        .unwrap_err();
    assert!(matches!(refused, StepError::Value { .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_steps_side_by_side_all_land() {
    let place = Place::new();
    let task = Arc::new(place.start().await);
    let steps: Vec<_> = (0..100_u32)
        .map(|n| {
            let task = Arc::clone(&task);
            tokio::spawn(async move {
                task.step(&format!("s{n}"), || async move { Ok::<_, Never>(n * 2) })
                    .await
            })
        })
        .collect();
    for (n, step) in (0..).zip(steps) {
        assert_eq!(step.await.unwrap().unwrap(), n * 2_u32);
    }
    drop(task);
    assert_eq!(place.start().await.progress().done_steps.len(), 100);
}

#[tokio::test]
async fn a_step_that_panicked_runs_again() {
    let (place, runs) = (Place::new(), AtomicU32::new(0));
    let task = place.start().await;
    let panicked = tokio::spawn(async move {
        let run = || async { panic!("a step may panic") };
        task.step::<(), Never, _, _>("s", run).await
    });
    assert!(panicked.await.unwrap_err().is_panic());
    assert_eq!(counted(&place.start().await, "s", &runs).await, 1);
}

type Pending = std::future::Pending<Result<u32, Never>>;

/// Drops a step once its work has begun.
async fn give_up_half_way<S, F>(step: S)
where
    S: FnOnce(Box<dyn FnOnce(StepRun) -> Pending>) -> F,
    F: Future,
{
    let (begun, half_way) = tokio::sync::oneshot::channel();
    let pending = move |_: StepRun| {
        begun.send(()).expect("somebody waits for it");
        std::future::pending()
    };
    tokio::select! {
        _ = step(Box::new(pending)) => unreachable!("its work never ends"),
        begun = half_way => begun.expect("it has begun"),
    }
}

#[tokio::test]
async fn a_step_that_was_given_up_half_way_is_in_doubt_by_its_rule() {
    let place = Place::new();
    let task = place.start().await;
    give_up_half_way(|pending| task.plan("s").unwrap().rule(RepeatRule::Once).run(pending)).await;
    drop(task);
    let again = place.start().await;
    let error = again
        .plan("s")
        .unwrap()
        .run(|_| async { Ok::<_, Never>(()) })
        .await
        .unwrap_err();
    assert!(matches!(error, StepError::InDoubt(_)), "{error}");
}

#[tokio::test]
async fn a_once_step_given_up_half_way_is_in_doubt_for_its_own_handle_too() {
    let place = Place::new();
    let task = place.start().await;
    give_up_half_way(|pending| task.plan("s").unwrap().rule(RepeatRule::Once).run(pending)).await;
    let again = task
        .plan("s")
        .unwrap()
        .rule(RepeatRule::Once)
        .run(|_| async { Ok::<_, Never>(()) });
    assert!(matches!(again.await, Err(StepError::InDoubt(_))));
}

#[tokio::test]
async fn a_once_step_in_doubt_blocks_its_task_and_sends_an_alert() {
    let place = Place::new();
    let task = place.start().await;
    give_up_half_way(|pending| task.plan("s").unwrap().rule(RepeatRule::Once).run(pending)).await;
    drop(task);
    let again = place.start().await;
    let ended = again
        .run(|task| async move {
            task.plan("s")
                .unwrap()
                .run(|_| async { Ok::<_, Never>(()) })
                .await
        })
        .await
        .unwrap();
    assert!(matches!(ended, Ended::Blocked), "{ended:?}");
    assert_eq!(place.status().await, TaskStatus::Blocked);
    let relight = place.open().await;
    let query = EventQuery {
        after: 0,
        before: None,
        task: None,
        agent: None,
        kinds: vec![EventKind::Alert],
        limit: 10,
        newest: false,
    };
    let alerts = relight.engine().store().events(query).await.unwrap();
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    assert_eq!(alerts[0].detail["alert"], "blocked");
    assert_eq!(alerts[0].detail["more"]["step"], "s");
}

#[tokio::test]
async fn each_end_leaves_its_status() {
    let place = Place::new();
    place.start().await.defer(clock::now()).await.unwrap();
    assert_eq!(place.status().await, TaskStatus::Deferred);
    place.start().await.block("why").await.unwrap();
    assert_eq!(place.status().await, TaskStatus::Blocked);
    let relight = place.open().await;
    let blocked = relight.task("t").unwrap().start().await.unwrap_err();
    assert!(
        matches!(blocked, ActError::Refused(Refusal::WaitsForPerson { .. })),
        "{blocked}"
    );
    relight
        .task("t")
        .unwrap()
        .force()
        .start()
        .await
        .unwrap()
        .done()
        .await
        .unwrap();
    assert_eq!(place.status().await, TaskStatus::Completed);
    let relight = place.open().await;
    let over = relight.task("t").unwrap().start().await.unwrap_err();
    assert!(
        matches!(over, ActError::Refused(Refusal::Illegal { .. })),
        "{over}"
    );
}

#[tokio::test]
async fn context_is_there_for_the_successor() {
    let place = Place::new();
    let task = place.start().await;
    task.set("branch", "fix-42").await.unwrap();
    let stored = place.open().await.engine().task(task.id()).await.unwrap();
    assert_eq!(stored.context["branch"], "fix-42");
}

#[tokio::test]
async fn names_that_cannot_be_are_errors() {
    let place = Place::new();
    let relight = place.open().await;
    assert!(relight.task("a\nb").is_err() && relight.task("../x").is_err());
    let task = place.start().await;
    let error = task
        .step("a\nb", || async { Ok::<_, Never>(()) })
        .await
        .unwrap_err();
    assert!(matches!(error, StepError::Name(_)));
    assert!(Relight::open("redis://h").await.is_err());
}

const STORE: &str = "RELIGHT_TEST_STORE";
const RULE: &str = "RELIGHT_TEST_RULE";

/// Asks the price, then pays by the rule; paying waits for a line of standard input.
#[tokio::test]
#[ignore = "not a test: the program that the tests below start and kill"]
#[expect(
    clippy::disallowed_methods,
    reason = "what to do comes by the environment"
)]
async fn killable_program() {
    let url = std::env::var(STORE).expect("the store of the test that starts this");
    let rule: RepeatRule = std::env::var(RULE)
        .expect("a rule")
        .parse()
        .expect("a rule");
    let relight = Relight::open(&url).await.unwrap();
    let task = relight.task("t").unwrap().start().await.unwrap();
    eprintln!("resumed {}", task.resumed());
    let ask = || async {
        eprintln!("runs ask");
        Ok::<_, Never>(42)
    };
    let price: u32 = task.step("ask the price", ask).await.unwrap();
    let pay = |_| async move {
        eprintln!("runs pay {price}");
        std::io::stdin().read_line(&mut String::new()).map(|_| ())
    };
    match task.plan("pay").unwrap().rule(rule).run(pay).await {
        Ok(()) => eprintln!("paid"),
        Err(error) => eprintln!("{error}"),
    }
}

/// That program in a process of its own.
struct Killable {
    child: Child,
    lines: Receiver<String>,
}

impl Killable {
    fn start(place: &Place, rule: &str) -> Self {
        let program = std::env::current_exe()
            .expect("this test is a file")
            .display()
            .to_string();
        let words = [
            "library::killable_program",
            "--exact",
            "--ignored",
            "--nocapture",
        ];
        let mut command = process::command(&program, &words.map(str::to_owned));
        command.env(STORE, place.url()).env(RULE, rule);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let (tell, lines) = mpsc::channel();
        let said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        std::thread::spawn(move || {
            said.map_while(Result::ok)
                .try_for_each(|line| tell.send(line))
        });
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines
            .recv_timeout(Duration::from_secs(180))
            .expect("it says something")
    }

    fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it can be waited for");
    }

    fn let_go(&mut self) {
        self.child
            .stdin
            .as_mut()
            .expect("a pipe")
            .write_all(b"\n")
            .expect("it listens");
    }
}

/// Kills a program in its second step.
fn killed_in_pay(place: &Place, rule: &str) {
    let mut program = Killable::start(place, rule);
    let lines = [program.line(), program.line(), program.line()];
    assert_eq!(lines, ["resumed false", "runs ask", "runs pay 42"]);
    program.kill();
}

#[test]
fn a_killed_program_goes_on_after_its_last_finished_step() {
    let place = Place::new();
    killed_in_pay(&place, "keyed");
    let mut again = Killable::start(&place, "keyed");
    assert_eq!(
        [again.line(), again.line()],
        ["resumed true", "runs pay 42"]
    );
    again.let_go();
    assert_eq!(again.line(), "paid");
    again.kill();
}

#[test]
fn a_program_killed_in_a_once_step_does_not_run_it_again() {
    for rule in ["once", "verify"] {
        let place = Place::new();
        killed_in_pay(&place, rule);
        let mut again = Killable::start(&place, rule);
        assert_eq!(again.line(), "resumed true");
        assert!(again.line().starts_with("step pay is in doubt"), "{rule}");
        again.kill();
    }
}

#[test]
fn the_rule_recorded_before_the_kill_holds() {
    let place = Place::new();
    killed_in_pay(&place, "once");
    let mut again = Killable::start(&place, "repeatable");
    assert_eq!(again.line(), "resumed true");
    assert!(again.line().starts_with("step pay is in doubt"));
    again.kill();
}

#[tokio::test]
async fn a_live_program_keeps_others_out_and_a_killed_one_does_not() {
    let place = Place::new();
    let mut program = Killable::start(&place, "keyed");
    (0..3).for_each(|_| drop(program.line()));
    let relight = place.open().await;
    let held = relight.task("t").unwrap().start().await.unwrap_err();
    assert!(
        matches!(held, ActError::Refused(Refusal::Held { .. })),
        "{held}"
    );
    program.kill();
    assert!(relight.task("t").unwrap().start().await.unwrap().resumed());
}

#[tokio::test]
async fn a_task_dropped_and_started_again_at_once_keeps_its_new_lease() {
    let (place, runs) = (Place::new(), AtomicU32::new(0));
    let relight = place.open().await;
    let start = async || relight.task("t").unwrap().start().await.unwrap();
    let first = start().await;
    counted(&first, "a", &runs).await;
    let old = first.fence();
    drop(first);
    let second = start().await;
    assert!(
        second.fence() > old,
        "what the dropped handle left behind ends only its own lease"
    );
    counted(&second, "b", &runs).await;
    second.done().await.unwrap();
    assert_eq!(place.status().await, TaskStatus::Completed);
}

#[tokio::test]
async fn two_handles_by_one_key_do_not_hold_one_task() {
    let place = Place::new();
    let relight = place.open().await;
    let by_key = |id: &str| relight.task(id).unwrap().key("k").unwrap().start();
    let first = by_key("x").await.unwrap();
    let second = by_key("y").await.unwrap_err();
    assert!(
        matches!(second, ActError::Refused(Refusal::Held { .. })),
        "{second}"
    );
    drop(first);
}

#[tokio::test]
async fn an_input_is_the_same_whatever_the_order_of_its_keys() {
    let (place, ok) = (Place::new(), |_| async { Ok::<_, Never>(1) });
    let one: HashMap<_, _> = (0..50).map(|n| (n.to_string(), n)).collect();
    let two: HashMap<_, _> = (0..50).rev().map(|n| (n.to_string(), n)).collect();
    place
        .start()
        .await
        .plan("s")
        .unwrap()
        .input(&one)
        .run(ok)
        .await
        .unwrap();
    place
        .start()
        .await
        .plan("s")
        .unwrap()
        .input(&two)
        .run(ok)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_step_that_verify_knows_to_have_happened_is_not_run() {
    let place = Place::new();
    let task = place.start().await;
    let unknown = |_| async { Ok::<_, Never>(None) };
    give_up_half_way(|pending| task.plan("s").unwrap().run_or_verify(unknown, pending)).await;
    let never = |_| async { unreachable!("the step ran again") as Result<u32, Never> };
    let found = task
        .plan("s")
        .unwrap()
        .run_or_verify(|_| async { Ok(Some(7)) }, never)
        .await;
    assert_eq!(found.unwrap(), 7);
}

#[tokio::test]
async fn a_task_is_not_done_over_declared_steps_that_are_open() {
    let place = Place::new();
    let start = || async {
        let relight = place.open().await;
        let task = relight
            .task("t")
            .unwrap()
            .declare("a")
            .unwrap()
            .declare("b")
            .unwrap();
        task.start().await.unwrap()
    };
    let task = start().await;
    task.step("a", || async { Ok::<_, Never>(()) })
        .await
        .unwrap();
    let refused = task.done().await.unwrap_err();
    let ActError::Refused(Refusal::StepsLeftOpen { steps, .. }) = refused else {
        panic!("{refused}")
    };
    assert_eq!(
        steps.iter().map(|step| step.as_str()).collect::<Vec<_>>(),
        ["b"]
    );
    let task = start().await;
    task.skip("b", "not needed").await.unwrap();
    task.step("b", || async { Err::<(), _>("it must not run") })
        .await
        .unwrap();
    task.done().await.unwrap();
    assert_eq!(place.status().await, TaskStatus::Completed);
}

#[tokio::test]
async fn work_that_ends_well_with_declared_steps_open_has_failed() {
    let place = Place::new();
    let relight = place.open().await;
    let task = relight
        .task("t")
        .unwrap()
        .declare("a")
        .unwrap()
        .start()
        .await
        .unwrap();
    let ended = task.run(|_| async { Ok::<_, Never>(()) }).await.unwrap();
    let relight_runtime::Ended::Failed { error, .. } = ended else {
        panic!("{ended:?}")
    };
    assert!(error.contains("not finished: a"), "{error}");
    assert_ne!(place.status().await, TaskStatus::Completed);
}

#[tokio::test]
async fn a_task_that_has_used_up_what_it_may_is_started_by_force_alone() {
    let place = Place::new();
    let policy = TaskPolicy {
        attempts_total_max: 2,
        ..TaskPolicy::default()
    };
    let relight = Relight::builder(&place.url())
        .policy(policy)
        .open()
        .await
        .unwrap();
    for _ in 0..2 {
        drop(relight.task("t").unwrap().start().await.unwrap());
    }
    let refused = relight.task("t").unwrap().start().await.unwrap_err();
    assert!(
        matches!(refused, ActError::Refused(Refusal::UsedUp { .. })),
        "{refused}"
    );
    relight.task("t").unwrap().force().start().await.unwrap();
}
