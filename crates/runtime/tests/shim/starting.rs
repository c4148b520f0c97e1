//! Starting agents, and what comes back when they end.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use relight_core::agent::death::HowEnded;
use relight_runtime::supervise::shim::client;
use relight_runtime::supervise::shim::wire::Input;

use crate::stage::{Stage, exists, read_to_end, tag, words};

#[tokio::test]
async fn an_exit_code_comes_back_with_what_the_agent_used() {
    let stage = Stage::new();
    let mut shim = stage.shim().await;
    let process = shim
        .start(stage.script("echo hello; echo oops >&2; exit 3"))
        .await;
    let ended = shim.ended().await;
    assert_eq!(ended.how, HowEnded::Code(3));
    assert_eq!(
        (&ended.tag, ended.number, &ended.process),
        (&tag(1), 1, &Some(process))
    );
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
    assert_eq!(
        shim.run(stage.script("kill -9 $$")).await.how,
        HowEnded::Signal(9)
    );
    assert_eq!(
        shim.run(stage.script("exit 137")).await.how,
        HowEnded::Code(137)
    );
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
        let note = ended
            .note
            .unwrap()
            .replace(stage.home().to_str().unwrap(), "HOME");
        ends.push(format!("{:?}: {note}", ended.how));
    }
    insta::assert_snapshot!(ends.join("\n"), @r"
    Code(127): there is no program no-such-program in its PATH
    Code(127): there is no program ./no/such/program
    Code(126): HOME/plain cannot be run: Permission denied (os error 13)
    Code(126): its folder HOME/nowhere is missing
    Code(127): the command is empty
    ");
    assert_eq!(
        shim.run(stage.script("exit 0")).await.how,
        HowEnded::Code(0)
    );
}

#[tokio::test]
async fn arguments_arrive_literally_whatever_they_are() {
    let stage = Stage::new();
    let mut shim = stage.shim().await;
    let mut order = stage.script("");
    order.command = words(&[
        b"printf",
        b"<%s>",
        b";",
        b"$(id)",
        b"a\nb",
        b"-n",
        b"\xff\xfe",
        b"",
    ]);
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
    assert_eq!(
        stage.logged(),
        format!("PATH=/usr/bin:/bin\nVOICES={}\n", voices.display())
    );
}

#[tokio::test]
async fn agents_start_with_default_signals_and_none_blocked() {
    let stage = Stage::new();
    let mut shim = stage.shim().await;
    shim.run(stage.order(&["cat", "/proc/self/status"])).await;
    let logged = stage.logged();
    for kind in ["SigBlk:", "SigIgn:", "SigCgt:"] {
        let mask = logged
            .lines()
            .find_map(|line| line.strip_prefix(kind))
            .unwrap()
            .trim();
        // The C library has 32 and 33 for itself, and nobody can set them back.
        let mask = u64::from_str_radix(mask, 16).unwrap() & !(0b11 << 31);
        assert_eq!(mask, 0, "{kind}");
    }
}

#[tokio::test]
async fn an_agent_inherits_the_lock_and_nothing_else() {
    let stage = Stage::new();
    let mut shim = stage.shim().await;
    shim.run(stage.script("for fd in /proc/self/fd/*; do readlink $fd; done"))
        .await;
    let lock = std::fs::canonicalize(stage.folder.lock()).unwrap();
    let log = std::fs::canonicalize(stage.log()).unwrap();
    let logged = stage.logged();
    let mut open: Vec<&str> = logged
        .lines()
        .filter(|line| !line.starts_with("/proc"))
        .collect();
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
async fn an_agent_with_a_terminal_has_its_streams_session_and_group() {
    let stage = Stage::new();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let stream = || OwnedFd::from(theirs.try_clone().unwrap());
    let lock = client::take_lock(&stage.folder).unwrap().unwrap();
    let mut shim = stage
        .shim_with(lock, Some([stream(), stream(), stream()]))
        .await;
    drop(theirs);
    let mut order =
        stage.script("read word; echo $word; echo $(cut -d' ' -f5,6 /proc/$$/stat) >&2");
    order.input = Input::Terminal;
    (&ours).write_all(b"hello\n").unwrap();
    shim.run(order).await;
    shim.quit().await;
    let own = std::fs::read_to_string("/proc/self/stat").unwrap();
    let own: Vec<_> = own
        .rsplit(')')
        .next()
        .unwrap()
        .split(' ')
        .skip(3)
        .take(2)
        .collect();
    let said = String::from_utf8(read_to_end(ours)).unwrap();
    assert_eq!(said, format!("hello\n{}\n", own.join(" ")));
}

#[tokio::test]
async fn any_other_agent_leads_a_group_in_a_session_apart() {
    let stage = Stage::new();
    let mut shim = stage.shim().await;
    let leader = shim
        .start(stage.script("cut -d' ' -f5,6 /proc/$$/stat"))
        .await;
    shim.ended().await;
    assert_eq!(
        stage.logged(),
        format!("{} {}\n", leader.pid, shim.identity.pid)
    );
}

#[tokio::test]
async fn an_agent_of_another_user_has_none_of_our_groups() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can start agents of other users");
        return;
    }
    let stage = Stage::new();
    let mut shim = stage.shim().await;
    let mut order = stage.order(&["id"]);
    order.folder = "/".into();
    order.user = Some((54_321, 54_322));
    shim.run(order).await;
    assert_eq!(stage.logged(), "uid=54321 gid=54322 groups=54322\n");
}

#[tokio::test]
async fn an_agent_has_the_limit_of_files_that_it_would_have_had() {
    let stage = Stage::new();
    let mut shim = stage.shim().await;
    let mut order = stage.script("ulimit -n");
    order.nofile = Some(123);
    shim.run(order).await;
    assert_eq!(stage.logged(), "123\n");
}

#[tokio::test]
async fn the_folder_of_its_log_is_made_when_it_is_missing() {
    let stage = Stage::new();
    let mut shim = stage.shim().await;
    let mut order = stage.script("echo hello");
    order.log = stage.home().join("elsewhere/deep/agent.log");
    let log = order.log.clone();
    shim.run(order).await;
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "hello\n");
    assert_eq!(
        std::fs::metadata(&log).unwrap().permissions().mode() & 0o777,
        0o600
    );
}
