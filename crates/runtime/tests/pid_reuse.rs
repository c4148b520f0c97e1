//! A pid that was recorded and now belongs to another program is never signalled.
//!
//! Pids come again at will only in a pid namespace of our own: the test starts itself there. That
//! needs root; without, it says that it was skipped.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::fs;
use std::process::Child;

use relight_runtime::core::agent::AttemptTag;
use relight_runtime::core::lease::ProcessIdentity;
use relight_runtime::core::time::Span;
use relight_runtime::os::environment;
use relight_runtime::os::process::{command, identity, is_alive};
use relight_runtime::supervise::sweep;
use relight_runtime::supervise::watch_process::ProcessWatch;

const INSIDE: &str = "RELIGHT_TEST_INSIDE";
const TAG: &str = "reuse.1.0123456789ab";
const TRIES_MAX: u32 = 10_000;

#[test]
fn a_recorded_pid_that_is_somebody_elses_now_is_never_signalled() {
    let itself = std::env::current_exe().unwrap();
    let unshare = ["--pid", "--fork", "--mount-proc", "--kill-child"];
    let can = command("unshare", &unshare).arg("true").output();
    if !can.is_ok_and(|done| done.status.success()) {
        eprintln!("SKIPPED: a pid namespace of our own needs root and unshare(1)");
        return;
    }
    let done = command("unshare", &unshare)
        .arg(itself)
        .args([
            "--exact",
            "inside_the_namespace",
            "--ignored",
            "--nocapture",
        ])
        .env(INSIDE, "1")
        // The test itself carries the tag, and must not find itself.
        .env("RELIGHT_ATTEMPT", TAG)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success() && said.contains("the innocent lives"),
        "{said}"
    );
}

#[test]
#[ignore = "run by the test above, in a pid namespace of its own"]
fn inside_the_namespace() {
    let variables = environment::variables();
    if !environment::texts(&variables).any(|(name, _)| name == INSIDE) {
        return;
    }
    let tag = AttemptTag::from_text(TAG);
    assert!(
        sweep::find(std::slice::from_ref(&tag))
            .unwrap()
            .found
            .is_empty(),
        "only ourselves"
    );

    let mut agent = command("sleep", &["60"])
        .env("RELIGHT_ATTEMPT", TAG)
        .spawn()
        .unwrap();
    let recorded = identity(agent.id()).unwrap();
    let scan = sweep::find(std::slice::from_ref(&tag)).unwrap();
    assert_eq!(scan.found.len(), 1);
    agent.kill().unwrap();
    agent.wait().unwrap();
    let mut innocent = another_with_the_pid_of(&recorded);

    assert!(!is_alive(&recorded));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { assert!(ProcessWatch::new(&recorded).unwrap().is_none()) });
    let second = Span::from_secs(1);
    // Found before the pid changed hands, stopped after it.
    let swept = sweep::stop(scan, second, second).unwrap();
    assert!(swept.survivors.is_empty(), "{swept:?}");
    assert_eq!(sweep::clear(&[tag], second, second).unwrap().stopped, 0);
    assert_eq!(innocent.try_wait().unwrap(), None, "it was signalled");
    assert!(identity(recorded.pid).is_some());
    innocent.kill().unwrap();
    innocent.wait().unwrap();
    println!("the innocent lives");
}

/// Another program with the same pid, and a later start time as the kernel counts it.
fn another_with_the_pid_of(recorded: &ProcessIdentity) -> Child {
    for _ in 0..TRIES_MAX {
        fs::write(
            "/proc/sys/kernel/ns_last_pid",
            (recorded.pid - 1).to_string(),
        )
        .unwrap();
        let mut child = command("sleep", &["60"])
            .env_remove("RELIGHT_ATTEMPT")
            .spawn()
            .unwrap();
        let has_pid = child.id() == recorded.pid;
        let is_later = identity(child.id()).is_some_and(|new| new.start > recorded.start);
        if has_pid && is_later {
            return child;
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    panic!("the pid did not come again");
}
