//! A shim that was given cgroups. Needs root and a writable cgroup v2; says so where it is skipped.

use std::path::{Path, PathBuf};

use relight_core::agent::death::HowEnded;
use relight_core::time::Span;
use relight_runtime::supervise::shim::wire::Order;

use crate::stage::{Stage, gone, tag};

/// A cgroup of this test, removed with all below it.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new(name: &str) -> Option<Self> {
        let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
        let root = roots
            .into_iter()
            .find(|root| root.join("cgroup.procs").exists())?;
        let place = root.join(format!("relight-test-{name}-{}", std::process::id()));
        std::fs::create_dir(&place).is_ok().then_some(Self(place))
    }

    fn below(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let _ = std::fs::remove_dir(entry.path());
        }
        let _ = std::fs::remove_dir(&self.0);
    }
}

macro_rules! cgroup_or_skip {
    ($name:literal) => {
        match Cgroup::new($name) {
            Some(cgroup) => cgroup,
            None => return eprintln!("SKIPPED: there is no cgroup v2 that may be written"),
        }
    };
}

fn members(cgroup: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(cgroup.join("cgroup.procs")).unwrap();
    text.lines().map(|pid| pid.parse().unwrap()).collect()
}

#[tokio::test]
async fn each_attempt_is_born_in_its_own_cgroup_which_goes_with_it() {
    let cgroup = cgroup_or_skip!("own");
    let mut stage = Stage::new();
    let mut shim = stage.shim().await;
    for number in 1..=3 {
        let own = cgroup.below(&number.to_string());
        let next = cgroup.below(&(number + 1).to_string());
        let mut order = stage.script("echo $$ > $VOICES; exec sleep 600");
        (order.tag, order.number) = (tag(number), number);
        order.cgroups = Some((own.clone(), next.clone()));
        let leader = shim.start(order).await;
        stage.hear().await;
        // An answer comes after the shim has moved on.
        shim.send(Order::Quit).await;
        shim.next().await;
        assert_eq!(members(&own), [leader.pid]);
        assert_eq!(members(&next), [shim.identity.pid]);
        shim.stop(&[]).await;
        let ended = shim.ended().await;
        assert_eq!(
            (ended.how, ended.note, ended.oom),
            (HowEnded::Signal(9), None, false)
        );
        assert!(!own.exists());
    }
    let pid = shim.identity.pid;
    shim.quit().await;
    gone(pid).await;
}

#[tokio::test]
async fn what_cannot_be_started_leaves_no_cgroup() {
    let cgroup = cgroup_or_skip!("none");
    let stage = Stage::new();
    let mut shim = stage.shim().await;
    let mut order = stage.order(&["no-such-program"]);
    order.cgroups = Some((cgroup.below("1"), cgroup.below("2")));
    assert_eq!(shim.fail(order).await.how, HowEnded::Code(127));
    assert!(!cgroup.below("1").exists());
    let pid = shim.identity.pid;
    shim.quit().await;
    gone(pid).await;
}

#[tokio::test]
async fn a_cgroup_that_cannot_be_had_is_a_note_and_no_more() {
    let stage = Stage::new();
    let mut shim = stage.shim().await;
    let mut order = stage.script("exit 3");
    order.cgroups = Some(("/proc/no/such/cgroup".into(), "/proc/no/such/other".into()));
    order.leftover_grace = Span::ZERO;
    let ended = shim.run(order).await;
    assert_eq!(ended.how, HowEnded::Code(3));
    insta::assert_snapshot!(ended.note.unwrap(), @"it has no cgroup: No such file or directory (os error 2)");
}
