//! Sessions through the library: turns, owners that die, several gateways on one store.

use std::collections::BTreeMap;
use std::time::Duration;

use relight_runtime::EngineAccess as _;
use relight_runtime::Relight;
use relight_runtime::core::ids::SessionKey;
use relight_runtime::core::lease::{Holder, ProcessIdentity};
use relight_runtime::core::session::{
    Generation, Policy, Rules, SessionEvent, SessionRefusal, SessionStateKind, read_marks,
};
use relight_runtime::core::time::Span;
use relight_runtime::os::process;
use relight_runtime::sessions::{self, Owner, SessionError};

struct Ground {
    relight: Relight,
    _folder: tempfile::TempDir,
}

async fn ground() -> Ground {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}/relight.db", folder.path().display());
    Ground {
        relight: Relight::open(&url).await.expect("a new store"),
        _folder: folder,
    }
}

fn key(text: &str) -> SessionKey {
    SessionKey::new(text).expect("a valid key")
}

/// A process that was there and is gone.
fn dead() -> Holder {
    let me = process::identity(std::process::id()).expect("we live");
    Holder::Process(ProcessIdentity {
        // By more than any system is off.
        start: me.start + 10,
        ..me
    })
}

/// A process that lives beside us.
fn live() -> Holder {
    Holder::Process(process::identity(1).expect("the first process lives"))
}

impl Ground {
    async fn begin(&self, text: &str, owner: Holder) -> Result<Generation, SessionError> {
        let session_id = "conversation".parse().expect("a valid id");
        let event = SessionEvent::Begin {
            session_id,
            owner,
            ttl: None,
            context: BTreeMap::new(),
        };
        let acted = sessions::act(self.relight.engine(), &key(text), event).await?;
        Ok(acted.after.generation)
    }

    async fn state(&self, text: &str) -> SessionStateKind {
        let found = sessions::session(self.relight.engine(), &key(text))
            .await
            .expect("a store that can be used");
        found.state.kind()
    }

    /// The keys of those that were decided, with their new state.
    async fn recover(&self, rules: &Rules) -> Vec<String> {
        let decided = self
            .relight
            .recover_sessions(rules)
            .await
            .expect("a store that can be used");
        decided
            .iter()
            .map(|one| format!("{} {}", one.key, one.state))
            .collect()
    }
}

fn pending() -> Rules {
    Rules {
        policy: Policy::ResumePending,
        ..Rules::default()
    }
}

#[tokio::test]
async fn exactly_the_turns_of_dead_owners_are_found_and_only_once() {
    let ground = ground().await;
    ground.begin("dead", dead()).await.unwrap();
    ground.begin("live", live()).await.unwrap();
    ground
        .relight
        .session("ended")
        .unwrap()
        .begin("c")
        .await
        .unwrap()
        .end()
        .await
        .unwrap();
    let mine = ground
        .relight
        .session("mine")
        .unwrap()
        .begin("c")
        .await
        .unwrap();
    assert_eq!(ground.recover(&Rules::default()).await, ["dead suspended"]);
    assert_eq!(ground.recover(&Rules::default()).await, [] as [&str; 0]);
    assert_eq!(ground.state("live").await, SessionStateKind::Active);
    mine.end().await.unwrap();
}

#[tokio::test]
async fn a_dry_run_finds_the_same_and_changes_nothing() {
    let ground = ground().await;
    ground.begin("dead", dead()).await.unwrap();
    let found = sessions::find(ground.relight.engine(), &pending())
        .await
        .unwrap();
    assert_eq!(ground.state("dead").await, SessionStateKind::Active);
    let decided = ground.relight.recover_sessions(&pending()).await.unwrap();
    assert_eq!(found, decided);
}

#[tokio::test]
async fn two_gateways_do_not_touch_each_others_live_turns() {
    let ground = ground().await;
    ground.begin("theirs", live()).await.unwrap();
    let refused = ground.relight.session("theirs").unwrap().begin("c").await;
    assert!(format!("{refused:?}").contains("Held"), "{refused:?}");
    assert_eq!(ground.relight.shutdown_sessions().await.unwrap(), []);
    assert_eq!(ground.state("theirs").await, SessionStateKind::Active);
}

#[tokio::test]
async fn a_stale_turns_end_does_not_clear_a_newer_turn() {
    let ground = ground().await;
    let first = ground
        .relight
        .session("s")
        .unwrap()
        .begin("c")
        .await
        .unwrap();
    let second = ground
        .relight
        .session("s")
        .unwrap()
        .begin("c")
        .await
        .unwrap();
    let stale = first.end().await;
    assert!(matches!(
        stale,
        Err(SessionError::Refused(SessionRefusal::Fenced { .. }))
    ));
    assert_eq!(ground.state("s").await, SessionStateKind::Active);
    second.end().await.unwrap();
    assert_eq!(ground.state("s").await, SessionStateKind::Idle);
}

#[tokio::test]
async fn a_clean_shutdown_leaves_no_mark() {
    let ground = ground().await;
    let turn = ground
        .relight
        .session("mine")
        .unwrap()
        .begin("c")
        .await
        .unwrap();
    let lease = Span::from_secs(600);
    let timed = ground
        .relight
        .session("timed")
        .unwrap()
        .lease(lease)
        .begin("c")
        .await
        .unwrap();
    ground
        .relight
        .session("seen")
        .unwrap()
        .touch("c")
        .await
        .unwrap();
    ground.begin("gone", dead()).await.unwrap();
    let mut discarded = ground.relight.shutdown_sessions().await.unwrap();
    discarded.sort();
    assert_eq!(discarded, [key("mine"), key("timed")]);
    assert_eq!(ground.recover(&Rules::default()).await, ["gone suspended"]);
    // Somebody else may have begun a turn since: a discarded one cannot be ended any more.
    for discarded in [turn, timed] {
        let late = discarded.end().await;
        assert!(
            matches!(
                late,
                Err(SessionError::Refused(SessionRefusal::Fenced { .. }))
            ),
            "{late:?}"
        );
    }
}

#[tokio::test]
async fn the_marks_of_a_process_that_is_gone_are_discarded_by_its_number() {
    let ground = ground().await;
    ground.begin("s", dead()).await.unwrap();
    let Holder::Process(owner) = dead() else {
        unreachable!()
    };
    let gone = Owner::GonePid(owner.pid);
    assert_eq!(
        sessions::shutdown(ground.relight.engine(), &gone)
            .await
            .unwrap(),
        [key("s")]
    );
    assert_eq!(ground.recover(&Rules::default()).await, [] as [&str; 0]);
}

#[tokio::test]
async fn a_turn_that_is_dropped_is_given_up() {
    let ground = ground().await;
    let turn = ground
        .relight
        .session("s")
        .unwrap()
        .begin("c")
        .await
        .unwrap();
    let store = ground.relight.engine().store();
    let newest = store.newest_event().await.unwrap();
    drop(turn);
    tokio::time::timeout(Duration::from_secs(60), store.changed(newest))
        .await
        .unwrap()
        .unwrap();
    let session = sessions::session(ground.relight.engine(), &key("s"))
        .await
        .unwrap();
    assert_eq!(
        (session.state.kind(), session.deaths_in_a_row),
        (SessionStateKind::Idle, 0)
    );
}

#[tokio::test]
async fn a_turn_by_lease_is_renewed_while_it_runs() {
    let ground = ground().await;
    let lease = Span::from_secs(4);
    let turn = ground
        .relight
        .session("s")
        .unwrap()
        .lease(lease)
        .begin("c")
        .await
        .unwrap();
    let seq = async || {
        sessions::session(ground.relight.engine(), &key("s"))
            .await
            .unwrap()
            .seq
    };
    let before = seq().await;
    let renewed = async {
        while seq().await < before + 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), renewed)
        .await
        .unwrap();
    assert_eq!(ground.recover(&Rules::default()).await, [] as [&str; 0]);
    turn.end().await.unwrap();
}

#[tokio::test]
async fn a_cut_off_turn_is_resumed_with_its_context() {
    let ground = ground().await;
    let turn = ground
        .relight
        .session("s")
        .unwrap()
        .set("model", "opus")
        .begin("c")
        .await
        .unwrap();
    turn.end().await.unwrap();
    ground.begin("s", dead()).await.unwrap();
    assert_eq!(ground.recover(&pending()).await, ["s resume_pending"]);
    let turn = ground
        .relight
        .session("s")
        .unwrap()
        .begin("conversation")
        .await
        .unwrap();
    let previous = turn.previous().unwrap();
    assert_eq!(previous.state.kind(), SessionStateKind::ResumePending);
    assert_eq!(
        (previous.deaths_in_a_row, turn.generation()),
        (1, Generation(3))
    );
    turn.end().await.unwrap();
}

#[tokio::test]
async fn secrets_of_a_session_never_reach_the_disk() {
    let ground = ground().await;
    let secret = "sk-ant-api03-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let turn = ground
        .relight
        .session("s")
        .unwrap()
        .set("note", secret)
        .begin("c")
        .await
        .unwrap();
    turn.end().await.unwrap();
    let reason = Some(format!("the key {secret} leaked"));
    let suspend = SessionEvent::Suspend { reason };
    sessions::act(ground.relight.engine(), &key("s"), suspend)
        .await
        .unwrap();
    let session = sessions::session(ground.relight.engine(), &key("s"))
        .await
        .unwrap();
    assert!(!format!("{session:?}").contains(secret), "{session:?}");
    assert!(
        ground
            .relight
            .session(secret)
            .unwrap()
            .begin("c")
            .await
            .is_err()
    );
    assert!(
        ground
            .relight
            .session("s2")
            .unwrap()
            .begin(secret)
            .await
            .is_err()
    );
}

#[tokio::test]
async fn an_imported_file_is_recovered_like_a_crash() {
    let ground = ground().await;
    let marks =
        read_marks(br#"{"a": {"session_id": "x", "generation": 3}, "live": {"session_id": "y"}}"#);
    ground.begin("live", live()).await.unwrap();
    let answer = sessions::import(ground.relight.engine(), marks.unwrap(), None)
        .await
        .unwrap();
    assert_eq!(answer.imported, [key("a")]);
    assert_eq!(answer.refused.len(), 1);
    assert_eq!(
        sessions::in_flight(ground.relight.engine())
            .await
            .unwrap()
            .len(),
        2
    );
    assert_eq!(ground.recover(&Rules::default()).await, ["a suspended"]);
}

#[tokio::test]
async fn more_sessions_than_a_page_are_all_decided() {
    let ground = ground().await;
    let marks: Vec<String> = (0..9_000)
        .map(|n| format!(r#""s{n:05}": {{"session_id": "x", "generation": 1}}"#))
        .collect();
    let text = format!("{{{}}}", marks.join(","));
    let marks = read_marks(text.as_bytes()).unwrap();
    let done = sessions::import(ground.relight.engine(), marks, None)
        .await
        .unwrap();
    assert_eq!(done.imported.len(), 9_000);
    assert_eq!(ground.recover(&Rules::default()).await.len(), 9_000);
    assert_eq!(ground.recover(&Rules::default()).await.len(), 0);
}
