//! What becomes of a task by its strategy, and what becomes of a strategy that misbehaves.

use std::time::Duration;

use relight_runtime::EngineAccess as _;
use relight_runtime::core::change::Change;
use relight_runtime::core::decide::Guard;
use relight_runtime::core::event::EventKind;
use relight_runtime::core::ids::TaskId;
use relight_runtime::core::lease::{Holder, ProcessIdentity};
use relight_runtime::core::status::TaskStatus;
use relight_runtime::core::task::{NewTask, Task};
use relight_runtime::core::time::{Span, Time};
use relight_runtime::os::clock;
use relight_runtime::recovery::{Exec, Recovered};
use relight_runtime::store::{Commit, EventQuery};
use relight_runtime::{
    Decision, HolderDeath, RecoveryAnswer, RecoveryContext, RecoveryStrategy, Relight,
    RelightBuilder, StrategyError, TaskPolicy,
};

/// A strategy made of a function.
struct Made<F>(F);

impl<F> RecoveryStrategy for Made<F>
where
    F: Fn(&Task, &HolderDeath, &RecoveryContext) -> Result<RecoveryAnswer, StrategyError>
        + Send
        + Sync,
{
    fn recover(
        &self,
        task: &Task,
        death: &HolderDeath,
        context: &RecoveryContext,
    ) -> Result<RecoveryAnswer, StrategyError> {
        (self.0)(task, death, context)
    }
}

fn misbehaving(time_max: Duration) -> RelightBuilder {
    Relight::builder("memory:")
        .strategy("panics", Made(|_: &_, _: &_, _: &_| panic!("out of ideas")))
        .strategy(
            "hangs",
            Made(|_: &_, _: &_, _: &_| {
                loop {
                    std::thread::park();
                }
            }),
        )
        .strategy(
            "errs",
            Made(|_: &_, _: &_, _: &_| Err("no line to ops".into())),
        )
        .strategy(
            "suspends",
            Made(|_: &_, _: &_, _: &_| Ok(Decision::Suspend.into())),
        )
        .strategy_time_max(time_max)
}

/// Fails a task of this strategy.
async fn failed(relight: &Relight, id: &str, strategy: &str) -> Recovered {
    let builder = relight
        .task(id)
        .expect("a test that can be set up")
        .strategy(strategy)
        .expect("a test that can be set up");
    builder
        .start()
        .await
        .expect("a test that can be set up")
        .fail("the first error")
        .await
        .expect("a test that can be set up")
}

/// A task that a process held which is gone.
async fn left_behind(relight: &Relight, id: &str, strategy: Option<&str>, max_retries: u32) {
    let mut new = NewTask::bare(TaskId::new(id).expect("a test that can be set up"));
    new.spec.strategy = strategy.map(str::to_owned);
    new.spec.max_retries = Some(max_retries);
    let boot = "a boot long ago".to_owned();
    let holder = Holder::Process(ProcessIdentity {
        pid: 1,
        start: 1,
        boot,
        node: None,
    });
    let changes = vec![
        Change::Created(Box::new(new)),
        Change::Assigned(Some(
            relight_runtime::core::ids::AgentName::new("ann").expect("a test that can be set up"),
        )),
        Change::LeaseTaken { holder, ttl: None },
        Change::Status {
            to: TaskStatus::InProgress,
            reason: None,
        },
    ];
    let task = TaskId::new(id).expect("a test that can be set up");
    let commit = Commit {
        task,
        guard: Guard::default(),
        at: clock::now(),
        changes,
    };
    relight
        .engine()
        .store()
        .commit(commit)
        .await
        .expect("a test that can be set up");
}

async fn task(relight: &Relight, id: &str) -> Task {
    relight
        .engine()
        .task(&TaskId::new(id).expect("a test that can be set up"))
        .await
        .expect("a test that can be set up")
}

async fn decisions(relight: &Relight, id: &str) -> Vec<serde_json::Value> {
    let task = Some(TaskId::new(id).expect("a test that can be set up"));
    let kinds = vec![EventKind::TaskRecovery];
    let query = EventQuery {
        after: 0,
        before: None,
        task,
        agent: None,
        kinds,
        limit: 100,
        newest: false,
    };
    let events = relight
        .engine()
        .store()
        .events(query)
        .await
        .expect("a test that can be set up");
    events.into_iter().map(|event| event.detail).collect()
}

#[tokio::test]
async fn one_that_misbehaves_is_answered_for_and_hides_nothing() {
    let (soon, late) = (Duration::from_millis(100), Duration::from_secs(60));
    for (strategy, time_max, trouble) in [
        ("panics", late, "it panicked"),
        ("hangs", soon, "it did not answer within 100ms"),
        ("errs", late, "no line to ops"),
    ] {
        let relight = misbehaving(time_max).open().await.unwrap();
        let recovered = failed(&relight, "t", strategy).await;
        assert_eq!(
            recovered.decision.as_deref(),
            Some("reassign"),
            "{strategy}"
        );
        assert_eq!(recovered.trouble.as_deref(), Some(trouble));
        assert_eq!(recovered.reason.as_deref(), Some("the first error"));
        let told = &decisions(&relight, "t").await[0];
        assert_eq!(
            (&told["trouble"], &told["error"]),
            (&trouble.into(), &"the first error".into())
        );
    }
}

#[tokio::test]
async fn one_that_hangs_stops_no_other_recovery() {
    let relight = misbehaving(Duration::from_secs(3)).open().await.unwrap();
    for number in 0..4 {
        left_behind(&relight, &format!("hangs-{number}"), Some("hangs"), 1).await;
        left_behind(&relight, &format!("waits-{number}"), Some("suspends"), 1).await;
    }
    let swept = relight.recover().await.unwrap();
    assert_eq!((swept.recovered.len(), swept.failed.len()), (8, 0));
    for number in 0..4 {
        assert_eq!(
            task(&relight, &format!("waits-{number}")).await.status,
            TaskStatus::Suspended
        );
        assert_eq!(
            task(&relight, &format!("hangs-{number}")).await.status,
            TaskStatus::Failed
        );
    }
}

#[tokio::test]
async fn a_strategy_that_nobody_knows_here_is_answered_for() {
    let relight = Relight::open("memory:").await.unwrap();
    left_behind(&relight, "t", Some("elsewhere"), 1).await;
    let swept = relight.recover().await.unwrap();
    assert!(
        swept.recovered[0]
            .trouble
            .as_ref()
            .unwrap()
            .contains("no strategy \"elsewhere\"")
    );
    assert_eq!(task(&relight, "t").await.status, TaskStatus::Failed);
}

#[tokio::test]
async fn a_failed_task_is_taken_again_as_often_as_it_may() {
    for (max_retries, lives) in [(0, 1), (1, 2), (2, 3)] {
        let policy = TaskPolicy {
            cooldown: Span::ZERO,
            ..TaskPolicy::default()
        };
        let relight = Relight::builder("memory:")
            .policy(policy)
            .open()
            .await
            .unwrap();
        relight
            .task("t")
            .unwrap()
            .max_retries(max_retries)
            .add()
            .await
            .unwrap();
        let mut lived = 0;
        while let Some(task) = relight.queue().claim("ann", &[]).await.unwrap() {
            task.fail("again").await.unwrap();
            lived += 1;
        }
        let task = task(&relight, "t").await;
        assert_eq!((lived, task.retries), (lives, max_retries), "{max_retries}");
        assert_eq!(task.status, TaskStatus::Failed);
    }
}

#[tokio::test]
async fn resume_is_for_the_same_agent_and_keeps_what_is_done() {
    let relight = Relight::builder("memory:")
        .default_strategy("resume")
        .open()
        .await
        .unwrap();
    left_behind(&relight, "t", None, 1).await;
    relight.recover().await.unwrap();
    assert_eq!(task(&relight, "t").await.status, TaskStatus::Interrupted);
    assert!(relight.queue().claim("bob", &[]).await.unwrap().is_none());
    let task = relight.queue().claim("ann", &[]).await.unwrap().unwrap();
    assert!(task.resumed());
    assert_eq!(task.record().retries, 0);
}

#[tokio::test]
async fn a_claim_finds_what_a_dead_holder_left() {
    let relight = Relight::open("memory:").await.unwrap();
    left_behind(&relight, "t", None, 1).await;
    let found = relight.queue().claim("bob", &[]).await.unwrap().unwrap();
    assert_eq!((found.id().as_str(), found.record().retries), ("t", 1));
    assert_eq!(decisions(&relight, "t").await[0]["cause"], "lost");
}

#[tokio::test]
async fn a_strategy_of_ones_own_is_told_counts_and_its_reason_is_kept() {
    let own = Made(
        |task: &Task, death: &HolderDeath, context: &RecoveryContext| {
            assert_eq!((task.id.as_str(), context.attempts), ("t", 1));
            assert!(death.reason.starts_with("its holder is gone"));
            Ok(RecoveryAnswer::from(Decision::GiveUp).because("not worth it"))
        },
    );
    let relight = Relight::builder("memory:")
        .strategy("own", own)
        .open()
        .await
        .unwrap();
    left_behind(&relight, "t", Some("own"), 5).await;
    relight.recover().await.unwrap();
    let told = &decisions(&relight, "t").await[0];
    assert_eq!(
        (&told["decision"], &told["reason"]),
        (&"give_up".into(), &"not worth it".into())
    );
    assert!(task(&relight, "t").await.tally.given_up);
    assert!(relight.queue().claim("ann", &[]).await.unwrap().is_none());
}

/// A shell script as strategy `exec`.
fn exec(script: &str, time_max: Duration) -> Exec {
    let command = ["sh", "-c", script].map(str::to_owned).to_vec();
    Exec {
        command,
        folder: None,
        time_max,
    }
}

async fn decided(script: &str, time_max: Duration) -> (Recovered, Task) {
    let builder = Relight::builder("memory:").strategy("exec", exec(script, time_max));
    let relight = builder.open().await.expect("the store opens");
    let recovered = failed(&relight, "t", "exec").await;
    (recovered, task(&relight, "t").await)
}

const ENOUGH: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_command_decides_by_what_it_prints() {
    for (said, status) in [
        (r#"{"decision": "resume"}"#, TaskStatus::Interrupted),
        (
            r#"{"decision": "reassign", "keep_progress": false}"#,
            TaskStatus::Failed,
        ),
        (
            r#"{"decision": "suspend", "reason": "ask me"}"#,
            TaskStatus::Suspended,
        ),
        (r#"{"decision": "give_up"}"#, TaskStatus::Failed),
    ] {
        let (recovered, _) = decided(&format!("cat >/dev/null; echo '{said}'"), ENOUGH).await;
        assert_eq!(
            (recovered.status, recovered.trouble),
            (status, None),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_command_puts_off_by_a_duration_or_to_a_time() {
    let near = |task: &Task, seconds| {
        let at = task.not_before.unwrap();
        let wanted = clock::now().plus(Span::from_secs(seconds));
        assert!(
            at <= wanted && wanted.since(at) < Span::from_secs(300),
            "{at} {wanted}"
        );
    };
    let (_, task) = decided(r#"echo '{"decision": "defer", "until": "10m"}'"#, ENOUGH).await;
    assert_eq!(task.status, TaskStatus::Deferred);
    near(&task, 600);
    let at: Time = clock::now().plus(Span::from_secs(7_200));
    let said = format!(r#"echo '{{"decision": "defer", "until": "{at}"}}'"#);
    near(&decided(&said, ENOUGH).await.1, 7_200);
}

#[tokio::test]
async fn a_command_is_told_the_case_as_json() {
    let script = r#"grep -q '"id":"t".*"reason":"the first error".*"max_retries":1' && echo '{"decision": "suspend"}'"#;
    let (recovered, _) = decided(script, ENOUGH).await;
    assert_eq!(
        (recovered.status, recovered.trouble),
        (TaskStatus::Suspended, None)
    );
}

#[tokio::test]
async fn a_command_that_cannot_be_understood_is_answered_for() {
    for (script, trouble) in [
        ("exit 3", "sh ended with exit status: 3"),
        ("kill -9 $$", "sh ended with signal: 9 (SIGKILL)"),
        (
            "echo maybe",
            "sh gave no decision: expected value at line 1 column 1",
        ),
        (
            ":",
            "sh gave no decision: EOF while parsing a value at line 1 column 0",
        ),
        (
            r#"echo '{"decision": "pray"}'"#,
            r#""pray" is not one of resume"#,
        ),
        (r#"echo '{"decision": "defer"}'"#, "defer needs `until`"),
        (
            r#"echo '{"decision": "defer", "until": "9000d"}'"#,
            "is further away than",
        ),
        (
            r#"echo '{"decision": "defer", "until": "soon"}'"#,
            r#""soon" is not a time or duration"#,
        ),
    ] {
        let (recovered, task) = decided(script, ENOUGH).await;
        let told = recovered.trouble.unwrap();
        assert!(told.contains(trouble), "{script}: {told}");
        assert_eq!(
            (task.status, task.reason.as_deref()),
            (TaskStatus::Failed, Some("the first error"))
        );
    }
}

#[tokio::test]
async fn a_command_that_is_too_slow_is_killed_and_answered_for() {
    let (recovered, _) = decided("exec sleep 600", Duration::from_millis(100)).await;
    assert_eq!(
        recovered.trouble.as_deref(),
        Some("sh did not answer within 100ms")
    );
    let missing = Exec {
        command: vec!["/nowhere/at-all".to_owned()],
        folder: None,
        time_max: ENOUGH,
    };
    let relight = Relight::builder("memory:")
        .strategy("exec", missing)
        .open()
        .await
        .unwrap();
    let recovered = failed(&relight, "t", "exec").await;
    assert!(
        recovered
            .trouble
            .unwrap()
            .starts_with("/nowhere/at-all cannot be run")
    );
}

#[tokio::test]
async fn a_command_that_leaves_its_output_to_a_child_does_not_hold_up_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let script = format!(
        "sleep 600 & echo $! > {}; echo '{{\"decision\": \"suspend\"}}'",
        pid.display()
    );
    let (recovered, _) = decided(&script, Duration::from_secs(3)).await;
    // The end of its output never comes, so what it said counts as nothing.
    assert_eq!(recovered.decision.as_deref(), Some("reassign"));
    assert!(recovered.trouble.unwrap().contains("did not answer"));
    let child: i32 = std::fs::read_to_string(&pid)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let child = rustix::process::Pid::from_raw(child).unwrap();
    rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
}
