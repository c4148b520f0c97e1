//! What lives of an agent keeps its node's lease: nobody gives it up while a process of it is left, and
//! nothing lives on that nobody guards.

use crate::fleet::{Fleet, Meet};
use crate::ground::{is_alive, until};

#[test]
fn recover_beside_a_dead_daemon_gives_away_nothing_that_lives() {
    let fleet = Fleet::new(Meet::InOneFile, "");
    let a = fleet.up("a");
    let pid = fleet.until_lives("a", 1);
    let _b = fleet.up("b");
    a.kill();
    let ran = fleet.call("a", &["recover"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("lives without a supervisor"), "{ran:?}");
    assert!(is_alive(pid), "it is left alone");
    until("its shim ends it", || (!is_alive(pid)).then_some(()));
    assert_eq!(fleet.ground.births(1), [pid], "nobody was faster");
    fleet.until_lives("b", 2);
    fleet.ground.assert_never_doubled();
}
