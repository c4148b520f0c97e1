//! Supervisors that come, go and are killed; and the shim that is killed.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use relight_core::agent::death::HowEnded;
use relight_core::lease::Fence;
use relight_runtime::os::pidfd;
use relight_runtime::supervise::shim::client;
use relight_runtime::supervise::shim::wire::{Order, ShimReport};
use rustix::process::Signal;

use crate::stage::{SIGTERM, Stage, exists, gone, kill, next, read_to_end, tag};

#[tokio::test]
async fn a_stop_that_comes_late_does_not_end_the_next_attempt() {
    let mut stage = Stage::new();
    let mut shim = stage.shim().await;
    shim.start(stage.script("echo $$ > $VOICES; exec sleep 600"))
        .await;
    stage.hear_pid().await;
    let of_another = Order::Stop {
        ladder: Vec::new(),
        tag: Some(tag(9)),
    };
    shim.send(of_another).await;
    let identity = shim.identity.clone();
    shim.send(Order::Quit).await;
    let told = shim.next().await;
    assert!(
        matches!(&told, Some(ShimReport::Status { shim, running: Some(_) }) if *shim == identity),
        "{told:?}"
    );
    shim.send(Order::Stop {
        ladder: Vec::new(),
        tag: Some(tag(1)),
    })
    .await;
    assert_eq!(shim.ended().await.how, HowEnded::Signal(9));
}

#[tokio::test]
async fn stop_and_quit_say_how_things_are_when_they_do_not_apply() {
    let mut stage = Stage::new();
    let mut shim = stage.shim().await;
    shim.stop(&[(SIGTERM, 10)]).await;
    let identity = shim.identity.clone();
    assert_eq!(
        shim.next().await,
        Some(ShimReport::Status {
            shim: identity.clone(),
            running: None
        })
    );

    let leader = shim
        .start(stage.script("echo $$ > $VOICES; exec sleep 600"))
        .await;
    stage.hear_pid().await;
    let running = Some((tag(1), leader));
    shim.send(Order::Quit).await;
    let status = ShimReport::Status {
        shim: identity,
        running,
    };
    assert_eq!(shim.next().await, Some(status.clone()));
    shim.send(Order::Start(Box::new(stage.script("true"))))
        .await;
    assert_eq!(shim.next().await, Some(status));
}

#[tokio::test]
async fn a_shim_outlives_its_supervisor_and_tells_the_next_one() {
    let mut stage = Stage::new();
    let mut shim = stage.shim().await;
    let leader = shim
        .start(stage.script("echo $$ > $VOICES; exec sleep 600"))
        .await;
    stage.hear_pid().await;
    drop(shim);
    let mut adopted = stage.adopted(2).await;
    assert_eq!(adopted.running, Some((tag(1), leader.clone())));
    kill(leader.pid);
    assert_eq!(adopted.ended().await.how, HowEnded::Signal(9));
    assert_eq!(
        adopted.run(stage.script("exit 6")).await.how,
        HowEnded::Code(6)
    );
}

#[tokio::test]
async fn a_newer_supervisor_takes_over_and_an_older_one_is_refused() {
    let stage = Stage::new();
    let mut first = stage.shim().await;
    let _second = stage.adopted(5).await;
    assert_eq!(first.next().await, None);
    let mut stale = client::connect(&stage.folder, Fence(4))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        next(&mut stale).await,
        Some(ShimReport::Refused { newest: Fence(5) })
    );
    assert_eq!(next(&mut stale).await, None);
    let _same = stage.adopted(5).await;
}

#[tokio::test]
async fn nonsense_ends_only_the_connection_it_came_by() {
    let stage = Stage::new();
    let mut shim = stage.shim().await;
    for nonsense in [
        b"what?\n".to_vec(),
        b"{\"order\":\"quit\"}\n".to_vec(),
        vec![b'x'; 5 << 20],
    ] {
        let mut stream = UnixStream::connect(stage.folder.shim_socket()).unwrap();
        // The shim may hang up before it has read everything.
        let _ = stream.write_all(&nonsense);
        assert_eq!(read_to_end(stream), b"");
    }
    assert_eq!(
        shim.run(stage.script("exit 0")).await.how,
        HowEnded::Code(0)
    );
}

#[tokio::test]
async fn nobody_connected_a_record_is_left_and_the_shim_is_gone() {
    let mut stage = Stage::new();
    let mut shim = stage.shim().await;
    let leader = shim
        .start(stage.script("echo $$ > $VOICES; exec sleep 600"))
        .await;
    stage.hear_pid().await;
    let pid = shim.identity.pid;
    drop(shim);
    kill(leader.pid);
    gone(pid).await;
    assert_eq!(stage.record(1).how, HowEnded::Signal(9));
    assert!(!stage.is_locked());
    assert!(!stage.folder.shim_socket().exists());
    assert!(
        client::connect(&stage.folder, Fence(2))
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn an_idle_shim_ends_with_its_supervisor() {
    let stage = Stage::new();
    let shim = stage.shim().await;
    let pid = shim.identity.pid;
    drop(shim);
    gone(pid).await;
    assert!(!stage.is_locked());
}

#[tokio::test]
async fn the_lock_is_held_as_long_as_anything_lives() {
    let mut stage = Stage::new();
    let mut shim = stage.shim().await;
    assert!(stage.is_locked());
    let leader = shim
        .start(stage.script("echo $$ > $VOICES; exec sleep 600"))
        .await;
    stage.hear_pid().await;
    kill(shim.identity.pid);
    assert_eq!(shim.next().await, None);
    gone(shim.identity.pid).await;
    assert!(stage.is_locked());
    kill(leader.pid);
    gone(leader.pid).await;
    assert!(!stage.is_locked());
}

#[tokio::test]
async fn output_is_not_cut_off_by_the_death_of_the_shim() {
    let mut stage = Stage::new();
    let mut shim = stage.shim().await;
    let script = "trap 'echo after; echo $? > $VOICES; kill $!; exit' USR1
        echo before; sleep 600 & echo $$ > $VOICES; wait";
    let leader = shim.start(stage.script(script)).await;
    stage.hear_pid().await;
    kill(shim.identity.pid);
    assert_eq!(shim.next().await, None);
    pidfd::signal(pidfd::open(leader.pid).unwrap(), Signal::USR1).unwrap();
    assert_eq!(stage.hear().await, "0");
    assert_eq!(stage.logged(), "before\nafter\n");
}

#[tokio::test]
async fn signals_to_the_shim_itself_do_not_end_it() {
    let mut stage = Stage::new();
    let mut shim = stage.shim().await;
    shim.start(stage.script("echo $$ > $VOICES; read x; exec sleep 600"))
        .await;
    stage.hear_pid().await;
    let handle = pidfd::open(shim.identity.pid).unwrap();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        pidfd::signal(&handle, signal).unwrap();
    }
    shim.stop(&[]).await;
    assert_eq!(shim.ended().await.survivors, 0);
}

#[tokio::test]
async fn a_long_path_is_no_obstacle() {
    let stage = Stage::far_away();
    let mut shim = stage.shim().await;
    assert_eq!(
        shim.run(stage.script("exit 2")).await.how,
        HowEnded::Code(2)
    );
    let mut adopted = stage.adopted(2).await;
    assert_eq!(
        adopted.run(stage.script("exit 3")).await.how,
        HowEnded::Code(3)
    );
    adopted.quit().await;
}

#[tokio::test]
async fn a_shim_that_is_gone_leaves_no_zombie_to_its_supervisor() {
    let stage = Stage::new();
    let shim = stage.shim().await;
    let pid = shim.identity.pid;
    shim.quit().await;
    gone(pid).await;
    let reaped = async {
        while exists(pid) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), reaped)
        .await
        .unwrap();
}
