//! A shim with real agents: their ends, their trees, and the deaths of those around it.

mod shim_stage;

use std::io::Write;
use std::os::unix::net::UnixStream;

use relight::doors::pidfd;
use relight::supervise::shim::client;
use relight::supervise::shim::wire::{Order, Report};
use relight_core::agent::death::HowEnded;
use relight_core::lease::Fence;
use relight_core::time::Span;
use rustix::process::Signal;

use shim_stage::{SIGINT, SIGTERM, Stage, exists, gone, next, tag, words};

#[tokio::test]
async fn an_exit_code_comes_back_with_what_the_agent_used() {
    let stage = Stage::new();
    let mut shim = stage.shim().await;
    let process = shim.start(stage.script("echo hello; echo oops >&2; exit 3")).await;
    let ended = shim.ended().await;
    assert_eq!(ended.how, HowEnded::Code(3));
    assert_eq!((&ended.tag, ended.number, &ended.process), (&tag(1), 1, &Some(process)));
    assert!(ended.memory_max_kib.unwrap() > 100);
    assert_eq!((ended.leftovers, ended.survivors, ended.oom), (0, 0, false));
    assert_eq!(stage.logged(), "hello\noops\n");
    assert_eq!(stage.record(1), ended);
    shim.quit().await;
    assert!(!stage.is_locked());
}

#[tokio::test]
async fn a_signal_is_told_apart_from_a_code() {
    let stage = Stage::new();
    let mut shim = stage.shim().await;
    assert_eq!(shim.run(stage.script("kill -9 $$")).await.how, HowEnded::Signal(9));
    assert_eq!(shim.run(stage.script("exit 137")).await.how, HowEnded::Code(137));
}

#[tokio::test]
async fn what_cannot_be_started_is_an_exit_with_a_note() {
    let stage = Stage::new();
    let mut shim = stage.shim().await;
    let plain_file = stage.home().join("plain");
    std::fs::write(&plain_file, "").unwrap();
    let plain_file = plain_file.to_str().unwrap();
    let mut in_no_folder = stage.script("true");
    in_no_folder.folder = stage.home().join("nowhere");
    let mut nothing = stage.script("");
    nothing.command.clear();
    let mut ends = Vec::new();
    for order in [
        stage.order(&["no-such-program"]),
        stage.order(&["./no/such/program"]),
        stage.order(&[plain_file]),
        in_no_folder,
        nothing,
    ] {
        let ended = shim.fail(order).await;
        assert_eq!(ended.process, None);
        let note = ended.note.unwrap().replace(stage.home().to_str().unwrap(), "HOME");
        ends.push(format!("{:?}: {note}", ended.how));
    }
    insta::assert_snapshot!(ends.join("\n"), @r"
    Code(127): there is no program no-such-program in its PATH
    Code(127): there is no program ./no/such/program
    Code(126): HOME/plain cannot be run: Permission denied (os error 13)
    Code(126): its folder HOME/nowhere is missing
    Code(127): the command is empty
    ");
    assert_eq!(shim.run(stage.script("exit 0")).await.how, HowEnded::Code(0));
}

#[tokio::test]
async fn arguments_arrive_literally_whatever_they_are() {
    let stage = Stage::new();
    let mut shim = stage.shim().await;
    let mut order = stage.script("");
    order.command = words(&[b"printf", b"<%s>", b";", b"$(id)", b"a\nb", b"-n", b"\xff\xfe", b""]);
    order.command.insert(2, "--".into());
    assert_eq!(shim.run(order).await.how, HowEnded::Code(0));
    let logged = std::fs::read(stage.log()).unwrap();
    assert_eq!(logged, b"<--><;><$(id)><a\nb><-n><\xff\xfe><>");
}

#[tokio::test]
async fn an_agent_has_its_own_environment_and_no_other() {
    let stage = Stage::new();
    let mut shim = stage.shim().await;
    shim.run(stage.order(&["env"])).await;
    let voices = stage.home().join("voices");
    assert_eq!(stage.logged(), format!("PATH=/usr/bin:/bin\nVOICES={}\n", voices.display()));
}

#[tokio::test]
async fn agents_start_with_default_signals_and_none_blocked() {
    let stage = Stage::new();
    let mut shim = stage.shim().await;
    shim.run(stage.order(&["cat", "/proc/self/status"])).await;
    let logged = stage.logged();
    for kind in ["SigBlk:", "SigIgn:", "SigCgt:"] {
        let mask = logged.lines().find_map(|line| line.strip_prefix(kind)).unwrap().trim();
        // The C library has 32 and 33 for itself, and nobody can set them back.
        let mask = u64::from_str_radix(mask, 16).unwrap() & !(0b11 << 31);
        assert_eq!(mask, 0, "{kind}");
    }
}

#[tokio::test]
async fn an_agent_inherits_the_lock_and_nothing_else() {
    let stage = Stage::new();
    let mut shim = stage.shim().await;
    shim.run(stage.script("for fd in /proc/self/fd/*; do readlink $fd; done")).await;
    let lock = std::fs::canonicalize(stage.folder.lock()).unwrap();
    let log = std::fs::canonicalize(stage.log()).unwrap();
    let logged = stage.logged();
    let mut open: Vec<&str> = logged.lines().filter(|line| !line.starts_with("/proc")).collect();
    open.sort_unstable();
    open.dedup();
    let mut expected = vec!["/dev/null", lock.to_str().unwrap(), log.to_str().unwrap()];
    expected.sort_unstable();
    assert_eq!(open, expected);
}

#[tokio::test]
async fn a_restart_goes_through_the_same_shim() {
    let stage = Stage::new();
    let mut shim = stage.shim().await;
    for number in 1..=3 {
        let mut order = stage.script("echo $0 again");
        order.number = number;
        order.tag = tag(number);
        let ended = shim.run(order).await;
        assert_eq!((ended.number, ended.tag), (number, tag(number)));
    }
    assert_eq!(stage.logged(), "/bin/sh again\n".repeat(3));
    assert!(exists(shim.identity.pid));
}

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
    assert!(ended.lived >= Span::from_ms(300), "killed after {}", ended.lived.as_ms());
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
    shim.start(stage.script("trap '' TERM; echo $$ > $VOICES; while :; do sleep 600; done")).await;
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
async fn stop_and_quit_say_how_things_are_when_they_do_not_apply() {
    let mut stage = Stage::new();
    let mut shim = stage.shim().await;
    shim.stop(&[(SIGTERM, 10)]).await;
    let identity = shim.identity.clone();
    assert_eq!(shim.next().await, Some(Report::Status { shim: identity.clone(), running: None }));

    let leader = shim.start(stage.script("echo $$ > $VOICES; exec sleep 600")).await;
    stage.hear_pid().await;
    let running = Some((tag(1), leader));
    shim.send(Order::Quit).await;
    let status = Report::Status { shim: identity, running };
    assert_eq!(shim.next().await, Some(status.clone()));
    shim.send(Order::Start(Box::new(stage.script("true")))).await;
    assert_eq!(shim.next().await, Some(status));
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
async fn a_shim_outlives_its_supervisor_and_tells_the_next_one() {
    let mut stage = Stage::new();
    let mut shim = stage.shim().await;
    let leader = shim.start(stage.script("echo $$ > $VOICES; exec sleep 600")).await;
    stage.hear_pid().await;
    drop(shim);
    let mut adopted = stage.adopted(2).await;
    assert_eq!(adopted.running, Some((tag(1), leader.clone())));
    kill(leader.pid);
    assert_eq!(adopted.ended().await.how, HowEnded::Signal(9));
    assert_eq!(adopted.run(stage.script("exit 6")).await.how, HowEnded::Code(6));
}

#[tokio::test]
async fn a_newer_supervisor_takes_over_and_an_older_one_is_refused() {
    let stage = Stage::new();
    let mut first = stage.shim().await;
    let _second = stage.adopted(5).await;
    assert_eq!(first.next().await, None);
    let mut stale = client::connect(&stage.folder, Fence(4)).await.unwrap().unwrap();
    assert_eq!(next(&mut stale).await, Some(Report::Refused { newest: Fence(5) }));
    assert_eq!(next(&mut stale).await, None);
    let _same = stage.adopted(5).await;
}

#[tokio::test]
async fn nonsense_ends_only_the_connection_it_came_by() {
    let stage = Stage::new();
    let mut shim = stage.shim().await;
    for nonsense in [b"what?\n".to_vec(), b"{\"order\":\"quit\"}\n".to_vec(), vec![b'x'; 5 << 20]] {
        let mut stream = UnixStream::connect(stage.folder.shim_socket()).unwrap();
        // The shim may hang up before it has read everything.
        let _ = stream.write_all(&nonsense);
        assert_eq!(read_to_end(stream), b"");
    }
    assert_eq!(shim.run(stage.script("exit 0")).await.how, HowEnded::Code(0));
}

#[tokio::test]
async fn nobody_connected_a_record_is_left_and_the_shim_is_gone() {
    let mut stage = Stage::new();
    let mut shim = stage.shim().await;
    let leader = shim.start(stage.script("echo $$ > $VOICES; exec sleep 600")).await;
    stage.hear_pid().await;
    let pid = shim.identity.pid;
    drop(shim);
    kill(leader.pid);
    gone(pid).await;
    assert_eq!(stage.record(1).how, HowEnded::Signal(9));
    assert!(!stage.is_locked());
    assert!(!stage.folder.shim_socket().exists());
    assert!(client::connect(&stage.folder, Fence(2)).await.unwrap().is_none());
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
    let leader = shim.start(stage.script("echo $$ > $VOICES; exec sleep 600")).await;
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
    shim.start(stage.script("echo $$ > $VOICES; read x; exec sleep 600")).await;
    stage.hear_pid().await;
    let handle = pidfd::open(shim.identity.pid).unwrap();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        pidfd::signal(&handle, signal).unwrap();
    }
    shim.stop(&[]).await;
    assert_eq!(shim.ended().await.survivors, 0);
}

fn kill(pid: u32) {
    pidfd::signal(pidfd::open(pid).unwrap(), Signal::KILL).unwrap();
}

fn read_to_end(mut stream: UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Reset instead of ended: it had not read everything.
    let _ = std::io::Read::read_to_end(&mut stream, &mut bytes);
    bytes
}
