//! The whole tree of an agent: stopped, waited for, gone before the end is told.

use relight_core::agent::death::HowEnded;
use relight_core::time::Span;

use crate::stage::{SIGINT, SIGTERM, Stage, exists, kill};

#[tokio::test]
async fn a_grandchild_in_its_own_session_is_gone_before_the_end_is_told() {
    let mut stage = Stage::new();
    let mut shim = stage.shim().await;
    let script = "setsid sh -c '(echo $(exec sh -c \"echo \\$PPID\") > $VOICES; exec sleep 600) &'
        exec sleep 600";
    let leader = shim.start(stage.script(script)).await;
    let grandchild = stage.hear_pid().await;
    assert!(exists(grandchild));
    kill(leader.pid);
    let ended = shim.ended().await;
    assert!(!exists(grandchild));
    assert_eq!(ended.how, HowEnded::Signal(9));
    assert_eq!((ended.leftovers, ended.survivors), (1, 0));
}

#[tokio::test]
async fn a_tree_that_is_deaf_to_sigterm_is_gone_at_its_grace() {
    let mut stage = Stage::new();
    let mut shim = stage.shim().await;
    let script =
        "trap '' TERM; setsid sh -c 'echo $$ > $VOICES; sleep 600; sleep 600' & wait; wait";
    let leader = shim.start(stage.script(script)).await;
    let child = stage.hear_pid().await;
    shim.stop(&[(SIGTERM, 300)]).await;
    let ended = shim.ended().await;
    assert_eq!(ended.how, HowEnded::Signal(9));
    assert!(
        ended.lived >= Span::from_ms(300),
        "killed after {}",
        ended.lived.as_ms()
    );
    assert!(!exists(leader.pid) && !exists(child));
}

#[tokio::test]
async fn each_rung_of_the_ladder_is_told_once() {
    let mut stage = Stage::new();
    let mut shim = stage.shim().await;
    let script = "trap 'echo int' INT; trap 'echo term; exit 4' TERM; echo $$ > $VOICES;
        while :; do sleep 600 & wait; done";
    shim.start(stage.script(script)).await;
    stage.hear_pid().await;
    shim.stop(&[(SIGINT, 100), (SIGTERM, 60_000)]).await;
    assert_eq!(shim.ended().await.how, HowEnded::Code(4));
    assert_eq!(stage.logged(), "int\nterm\n");
}

#[tokio::test]
async fn a_second_stop_with_a_shorter_ladder_hurries() {
    let mut stage = Stage::new();
    let mut shim = stage.shim().await;
    shim.start(stage.script("trap '' TERM; echo $$ > $VOICES; while :; do sleep 600; done"))
        .await;
    stage.hear_pid().await;
    shim.stop(&[(SIGTERM, 600_000)]).await;
    shim.stop(&[]).await;
    assert_eq!(shim.ended().await.how, HowEnded::Signal(9));
}

#[tokio::test]
async fn a_stopped_process_is_woken_to_hear_that_it_shall_end() {
    let mut stage = Stage::new();
    let mut shim = stage.shim().await;
    let script = "trap 'exit 5' TERM; echo $$ > $VOICES; kill -STOP $$; while :; do :; done";
    let leader = shim.start(stage.script(script)).await;
    stage.hear_pid().await;
    shim.stop(&[(SIGTERM, 60_000)]).await;
    assert_eq!(shim.ended().await.how, HowEnded::Code(5));
    assert!(!exists(leader.pid));
}

#[tokio::test]
async fn orphans_do_not_pile_up_while_the_leader_lives() {
    let mut stage = Stage::new();
    let mut shim = stage.shim().await;
    // A zombie would still be there for `kill -0`.
    let script = "orphan=$(sh -c 'sleep 0 > /dev/null & echo $!')
        while kill -0 $orphan 2> /dev/null; do :; done
        echo reaped > $VOICES; exec sleep 600";
    shim.start(stage.script(script)).await;
    assert_eq!(stage.hear().await, "reaped");
}

#[tokio::test]
async fn what_outlives_the_leader_and_is_deaf_goes_at_its_own_grace() {
    let mut stage = Stage::new();
    let mut shim = stage.shim().await;
    let script = "trap '' TERM; setsid sh -c 'echo $$ > $VOICES; sleep 600; sleep 600' & wait";
    let mut order = stage.script(script);
    order.leftover_grace = Span::from_ms(200);
    let leader = shim.start(order).await;
    let child = stage.hear_pid().await;
    kill(leader.pid);
    let ended = shim.ended().await;
    assert!(!exists(child));
    assert_eq!((ended.how, ended.survivors), (HowEnded::Signal(9), 0));
}

#[tokio::test]
async fn a_chain_that_forks_away_again_and_again_is_caught() {
    let mut stage = Stage::new();
    let mut shim = stage.shim().await;
    let runner = stage.home().join("runner");
    std::fs::write(
        &runner,
        "[ $1 = 40 ] && echo far > $VOICES; setsid sh $0 $(($1 + 1)) &",
    )
    .unwrap();
    let start = format!("setsid sh {} 1; exec sleep 600", runner.display());
    shim.start(stage.script(&start)).await;
    assert_eq!(stage.hear().await, "far");
    shim.stop(&[]).await;
    assert_eq!(shim.ended().await.survivors, 0);
    shim.quit().await;
    assert!(!stage.is_locked());
}
