//! A shim as the guardian of its tree: it ends it in time, whether or not anybody is there to say so.

use relight_core::time::Span;
use relight_runtime::fleet::Deadline;
use relight_runtime::os::clock;
use relight_runtime::presets::Rung;
use relight_runtime::supervise::shim::wire::Order;

use crate::stage::{SIGTERM, Stage, exists, gone};

/// Told to end after so long, and killed so long after that.
fn deadline(stop_in_ms: u64, kill_ms: u64) -> Deadline {
    let stop_at_ms = clock::boot_ms() + stop_in_ms;
    let ladder = vec![Rung {
        signal: SIGTERM,
        wait: Span::from_secs(600),
    }];
    Deadline {
        stop_at_ms,
        kill_at_ms: stop_at_ms + kill_ms,
        ladder,
    }
}

const DEAF: &str = "trap '' TERM; setsid sh -c 'echo $$ > $VOICES; exec sleep 600' & wait; wait";

#[tokio::test]
async fn a_tree_that_nobody_speaks_for_is_gone_at_its_deadline() {
    let mut stage = Stage::new();
    let mut shim = stage.shim().await;
    let deadline = deadline(200, 200);
    let kill_at_ms = deadline.kill_at_ms;
    let mut order = stage.script(DEAF);
    order.guard = Some(deadline);
    let leader = shim.start(order).await;
    let child = stage.hear_pid().await;
    let guardian = shim.identity.pid;
    drop(shim);
    gone(guardian).await;
    assert!(!exists(leader.pid) && !exists(child) && !stage.is_locked());
    assert!(clock::boot_ms() >= kill_at_ms, "it had its grace");
    assert!(stage.record(1).lease_ended);
}

#[tokio::test]
async fn a_later_deadline_puts_the_end_off() {
    let mut stage = Stage::new();
    let mut shim = stage.shim().await;
    let mut order = stage.script("echo $$ > $VOICES; exec sleep 600");
    order.guard = Some(deadline(300, 300));
    shim.start(order).await;
    let leader = stage.hear_pid().await;
    let (first, later) = (clock::boot_ms() + 600, deadline(1_000, 300));
    let stop_at_ms = later.stop_at_ms;
    shim.send(Order::Guard(later)).await;
    clock::until_boot_ms(first).await;
    assert!(exists(leader));
    assert!(shim.ended().await.lease_ended);
    assert!(clock::boot_ms() >= stop_at_ms);
}

#[tokio::test]
async fn nothing_is_started_after_the_deadline() {
    let stage = Stage::new();
    let mut shim = stage.shim().await;
    let mut order = stage.order(&["true"]);
    order.guard = Some(Deadline {
        stop_at_ms: 1,
        kill_at_ms: 2,
        ladder: Vec::new(),
    });
    let ended = shim.fail(order).await;
    assert!(ended.lease_ended && ended.process.is_none(), "{ended:?}");
    // Another word makes it good again.
    let mut order = stage.order(&["true"]);
    order.guard = Some(deadline(60_000, 1));
    assert!(!shim.run(order).await.lease_ended);
}
