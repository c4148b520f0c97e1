//! Whole stores: copied, cut off and gone on with, verified, restored. Files here; with PostgreSQL in
//! `tests/postgres`.

#[path = "../differential/dice.rs"]
mod dice;
mod ground;
mod impatient;
#[path = "../differential/pair.rs"]
mod pair;
#[path = "../differential/plan/mod.rs"]
mod plan;

use ground::{CutOff, File, InSmallPages, copied, open};
use impatient::Stage;
use relight_core::change::{Change, StepMark};
use relight_core::decide::Guard;
use relight_core::ids::{NodeName, StepName, TaskId};
use relight_core::lease::{Fence, Holder};
use relight_core::node::NewNode;
use relight_core::step::{Output, RepeatRule, StepKey, StepOutcome};
use relight_core::task::NewTask;
use relight_core::time::{Span, Time};
use relight_store::sqlite::{SqliteExporter, SqliteStore, Use, raise_numbers};
use relight_store::transfer::{Cell, CopyError, Exporter as _, Table};
use relight_store::{Commit, CommitError, Store, StoreError};
use relight_testkit::conformance::Harness as _;

const OPERATIONS: u32 = 400;

/// Any seed, another one in each run; `RELIGHT_SEED` replays one.
fn seed() -> u64 {
    use std::hash::BuildHasher as _;
    #[expect(
        clippy::disallowed_methods,
        reason = "the one door by which a seed is replayed"
    )]
    let seed = match std::env::var("RELIGHT_SEED") {
        Ok(text) => text.parse().expect("RELIGHT_SEED is a number"),
        Err(_) => std::hash::RandomState::new().hash_one(0),
    };
    eprintln!("replay with RELIGHT_SEED={seed}");
    seed
}

#[tokio::test]
async fn a_copy_has_the_same_hashes_as_the_store_it_was_made_from() {
    for seed in 0..8 {
        let (from, to) = (File::filled(seed, OPERATIONS).await, File::new());
        let copied = copied(&mut from.exporter(), &mut to.importer())
            .await
            .unwrap();
        assert!(!copied.went_on && copied.anew.is_empty());
        let (a, b) = (from.verified().await, to.verified().await);
        assert_eq!(a, b, "seed {seed}");
        assert_eq!(a.damage.told, Vec::<String>::new(), "seed {seed}");
        assert_eq!((copied.tables, copied.hash), (a.tables, a.hash));
    }
}

#[tokio::test]
async fn a_copy_that_is_cut_off_at_any_write_is_gone_on_with() {
    let from = File::filled(seed(), OPERATIONS).await;
    let whole = from.verified().await;
    let mut writes = 0;
    loop {
        let to = File::new();
        let mut few = InSmallPages {
            store: from.exporter(),
            rows_max: 10,
        };
        let mut cut_off = CutOff {
            store: to.importer(),
            writes_left: writes,
        };
        let first = copied(&mut few, &mut cut_off).await;
        drop(cut_off);
        if first.is_ok() {
            break;
        }
        let refused = SqliteStore::open(&to.path(), Use::Short).unwrap_err();
        assert!(
            matches!(refused, StoreError::HalfCopied { .. }),
            "after {writes}: {refused}"
        );
        let second = copied(&mut from.exporter(), &mut to.importer())
            .await
            .unwrap();
        assert!(
            second.went_on && second.anew.is_empty(),
            "after {writes}: {second:?}"
        );
        assert_eq!(to.verified().await, whole, "after {writes} writes");
        writes += 1;
    }
    assert!(writes > 10, "it was cut off {writes} times");
}

#[tokio::test]
async fn a_copy_that_is_cut_off_after_its_last_write_is_found_to_be_whole() {
    let (from, to) = (File::filled(seed(), OPERATIONS).await, File::new());
    let first = copied(&mut from.exporter(), &mut to.importer())
        .await
        .unwrap();
    let again = copied(&mut from.exporter(), &mut to.importer())
        .await
        .unwrap();
    assert!(again.went_on && again.anew.is_empty());
    assert_eq!(
        (again.tables, again.hash, again.damage),
        (first.tables, first.hash, first.damage)
    );
    open(&to.path());
}

#[tokio::test]
async fn what_changed_between_two_runs_is_copied_anew() {
    let (from, to) = (File::filled(seed(), OPERATIONS).await, File::new());
    let mut few = InSmallPages {
        store: from.exporter(),
        rows_max: 40,
    };
    let mut cut_off = CutOff {
        store: to.importer(),
        writes_left: 7,
    };
    copied(&mut few, &mut cut_off).await.unwrap_err();
    drop((few, cut_off));
    from.sql(
        "UPDATE task SET updated_at = updated_at + 1; DELETE FROM journal WHERE id = (SELECT MIN(id) FROM journal)",
    );
    let second = copied(&mut from.exporter(), &mut to.importer())
        .await
        .unwrap();
    assert_eq!(second.anew, [Table::Task, Table::Journal]);
    assert_eq!(to.verified().await.hash, from.verified().await.hash);
}

#[tokio::test]
async fn a_copy_goes_on_when_what_was_copied_was_removed_and_made_again() {
    let from = File::filled(seed(), OPERATIONS).await;
    for writes in 1.. {
        let to = File::new();
        let mut few = InSmallPages {
            store: from.exporter(),
            rows_max: 40,
        };
        let mut cut_off = CutOff {
            store: to.importer(),
            writes_left: writes,
        };
        if copied(&mut few, &mut cut_off).await.is_ok() {
            return;
        }
        drop((few, cut_off));
        from.make_the_first_anew();
        let second = copied(&mut from.exporter(), &mut to.importer()).await;
        assert!(
            second.unwrap().anew.contains(&Table::Task),
            "after {writes} writes"
        );
        assert_eq!(
            to.verified().await.hash,
            from.verified().await.hash,
            "after {writes} writes"
        );
    }
}

#[tokio::test]
async fn a_look_is_never_left_alone_while_the_other_store_is_read() {
    let (from, to) = (File::filled(seed(), OPERATIONS).await, File::new());
    let stage = Stage::default();
    let mut look = stage.look(from.exporter());
    let mut cut_off = CutOff {
        store: stage.fill(to.importer()),
        writes_left: 9,
    };
    copied(&mut look, &mut cut_off).await.unwrap_err();
    drop(cut_off);
    copied(&mut look, &mut stage.fill(to.importer()))
        .await
        .unwrap();
    assert_eq!(to.verified().await.hash, from.verified().await.hash);
}

#[tokio::test]
async fn writes_during_a_copy_are_counted_and_not_in_it() {
    let (from, to) = (File::filled(1, OPERATIONS).await, File::new());
    let before = from.verified().await;
    let mut look = from.exporter();
    let store = open(&from.path());
    for name in ["a", "b", "c"] {
        assert!(store.keep(name, None, 1.into()).await.unwrap());
    }
    store.commit(new_task("later")).await.unwrap();
    let copied = copied(&mut look, &mut to.importer()).await.unwrap();
    assert_eq!(copied.written_meanwhile, 2, "created, and its lease taken");
    assert_eq!(to.verified().await, before);
}

#[tokio::test]
async fn only_the_store_that_was_begun_with_is_gone_on_with() {
    let (a, b, to) = (
        File::filled(1, 60).await,
        File::filled(2, 60).await,
        File::new(),
    );
    let mut cut_off = CutOff {
        store: to.importer(),
        writes_left: 1,
    };
    copied(&mut a.exporter(), &mut cut_off).await.unwrap_err();
    let other = copied(&mut b.exporter(), &mut to.importer())
        .await
        .unwrap_err();
    assert!(matches!(other, CopyError::OtherSource { .. }), "{other}");
    copied(&mut a.exporter(), &mut to.importer()).await.unwrap();
    let full = copied(&mut b.exporter(), &mut to.importer())
        .await
        .unwrap_err();
    assert!(matches!(full, CopyError::NotEmpty { .. }), "{full}");
    let same = copied(&mut a.exporter(), &mut a.importer())
        .await
        .unwrap_err();
    assert!(matches!(same, CopyError::Same(_)), "{same}");
}

#[tokio::test]
async fn a_copy_that_was_begun_again_writes_no_more() {
    let (from, to) = (File::filled(1, OPERATIONS).await, File::new());
    let mut first = to.importer();
    let place = relight_store::transfer::Exporter::place(&from.exporter());
    use relight_store::transfer::Importer as _;
    first.begin(&place).await.unwrap();
    copied(&mut from.exporter(), &mut to.importer())
        .await
        .unwrap();
    let late = first.clear(Table::Journal).await.unwrap_err();
    assert!(matches!(late, CopyError::TakenOver(_)), "{late}");
    assert_eq!(to.verified().await.hash, from.verified().await.hash);
}

#[tokio::test]
async fn a_copy_goes_on_where_the_store_was() {
    let (from, to) = (File::new(), File::new());
    let store = from.open().await;
    store.commit(new_task("t")).await.unwrap();
    let body = vec![7; 300_000];
    store
        .commit(step("t", Some(Fence(1)), body.clone()))
        .await
        .unwrap();
    let name = NodeName::new("build-1").unwrap();
    let ttl = Span::from_secs(60);
    let (labels, address) = (vec!["gpu".to_owned()], None);
    let (instance, version) = ("i".to_owned(), "1".to_owned());
    let node = NewNode {
        name,
        instance,
        labels,
        address,
        version,
        ttl,
        process: None,
    };
    store.join_node(node, None, Time::from_ms(1)).await.unwrap();
    let newest = store.newest_event().await.unwrap();
    copied(&mut from.exporter(), &mut to.importer())
        .await
        .unwrap();
    let store = open(&to.path());
    let task = store.task(&id("t")).await.unwrap().unwrap();
    let left = task.lease.held.unwrap().left.unwrap();
    assert!(
        left <= Span::from_secs(600) && left > Span::from_secs(500),
        "{left}"
    );
    let nodes = store.nodes().await.unwrap();
    assert!(
        nodes[0].left > Span::from_secs(30) && nodes[0].left <= ttl,
        "{nodes:?}"
    );
    let output = store.output(&id("t"), &key()).await.unwrap().unwrap();
    assert_eq!(output.body, body);
    store
        .commit(step("t", Some(Fence(1)), Vec::new()))
        .await
        .unwrap_err();
    store.commit(new_task("u")).await.unwrap();
    assert_eq!(
        store.newest_event().await.unwrap(),
        newest + 2,
        "numbers go on"
    );
}

#[tokio::test]
async fn a_file_is_not_brought_up_to_date_by_whoever_only_reads_it() {
    let file = File::filled(1, 20).await;
    file.sql("PRAGMA user_version = 7");
    let refused = SqliteExporter::open(&file.path()).map(drop).unwrap_err();
    assert!(refused.to_string().contains("it has schema 7"), "{refused}");
    let db = rusqlite::Connection::open(file.path()).expect("the file opens");
    let found: i32 = db
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(found, 7);
}

#[tokio::test]
async fn a_page_of_wide_rows_is_a_short_one() {
    let file = File::new();
    let store = open(&file.path());
    for number in 0..12 {
        store.commit(new_task(&format!("t{number}"))).await.unwrap();
    }
    file.sql("UPDATE task_body SET context = '{\"a\": \"' || hex(zeroblob(500000)) || '\"}'");
    let page = file
        .exporter()
        .page(Table::Task, &Cell::None)
        .await
        .unwrap();
    assert_eq!(page.len(), 5, "4 MiB and the rest of a row");
}

#[tokio::test]
async fn verify_finds_what_is_wrong() {
    let cases = [
        (
            "UPDATE task SET steps_done = 5 WHERE id = 't'",
            "5 steps done",
        ),
        ("UPDATE task SET status = 99", "status holds 99"),
        (
            "UPDATE task SET fence = 0, held = 0; DELETE FROM lease",
            "written under fence 1",
        ),
        ("UPDATE task_body SET spec = '{'", "spec cannot be read"),
        ("DELETE FROM task_body", "it has no spec"),
        ("DELETE FROM lease", "held by nobody"),
        (
            "UPDATE task_body SET key = 'k'",
            "key is not what its body says",
        ),
        (
            "UPDATE task_body SET spec = CAST(x'ff' AS TEXT)",
            "it has no spec",
        ),
        (
            "UPDATE journal SET body = x'00', output = NULL WHERE name = 'build'",
            "outputs of no step",
        ),
        ("DELETE FROM output", "steps whose output is gone"),
        (
            "UPDATE journal SET kind = 200 WHERE id = 1",
            "kind holds 200",
        ),
        (
            "UPDATE journal SET task = 77 WHERE name IS NOT NULL",
            "its task is not there",
        ),
        (
            "UPDATE journal SET rule = 9 WHERE name IS NOT NULL",
            "rule holds 9",
        ),
        (
            "INSERT INTO kept VALUES ('x', 'no json')",
            "kept x: body cannot be read",
        ),
        (
            "INSERT INTO attempt VALUES (1, 5, 1, 'tag', 1, NULL, '{}')",
            "its agent is not there",
        ),
        ("UPDATE task SET id = '../x'", "id holds"),
    ];
    for (broken, finding) in cases {
        let file = File::new();
        let store = file.open().await;
        store.commit(new_task("t")).await.unwrap();
        store
            .commit(step("t", Some(Fence(1)), vec![1; 20_000]))
            .await
            .unwrap();
        assert_eq!(file.verified().await.damage.count, 0);
        file.sql(broken);
        let damage = file.verified().await.damage;
        assert!(
            damage.told.iter().any(|told| told.contains(finding)),
            "{broken}: {damage:?}"
        );
    }
}

#[tokio::test]
async fn a_restored_store_takes_nothing_from_those_who_worked_with_a_later_one() {
    let (now, backup) = (File::new(), File::new());
    let store = open(&now.path());
    store.commit(new_task("t")).await.unwrap();
    copied(&mut now.exporter(), &mut backup.importer())
        .await
        .unwrap();
    // After the backup somebody takes over, and lives on.
    store.commit(taken("t", "later")).await.unwrap();
    let theirs = store.task(&id("t")).await.unwrap().unwrap().lease.fence;
    assert_eq!(theirs, Fence(2));

    raise_numbers(&backup.path(), 1_790_000_000_000, &serde_json::json!({})).unwrap();
    let restored = open(&backup.path());
    restored.commit(taken("t", "new")).await.unwrap();
    let late = restored
        .commit(step("t", Some(theirs), Vec::new()))
        .await
        .unwrap_err();
    assert!(matches!(late, CommitError::Fenced { .. }), "{late}");
    let fence = restored.task(&id("t")).await.unwrap().unwrap().lease.fence;
    assert_eq!(fence, Fence(1_790_000_000_001));
    restored
        .commit(step("t", Some(fence), Vec::new()))
        .await
        .unwrap();
    assert_eq!(backup.verified().await.damage.told, Vec::<String>::new());
}

fn id(text: &str) -> TaskId {
    TaskId::new(text).expect("a good id")
}

fn key() -> StepKey {
    StepKey::first(StepName::new("build").expect("a good name"))
}

fn commit(task: &str, fence: Option<Fence>, changes: Vec<Change>) -> Commit {
    let at = Time::from_ms(1_790_000_000_000);
    Commit {
        task: id(task),
        guard: Guard { fence, seq: None },
        at,
        changes,
    }
}

/// Held under fence 1.
fn new_task(name: &str) -> Commit {
    let mut created = vec![Change::Created(Box::new(NewTask::bare(id(name))))];
    created.extend(taken(name, "somebody").changes);
    commit(name, None, created)
}

fn taken(name: &str, by: &str) -> Commit {
    let holder = Holder::Time { by: by.to_owned() };
    let ttl = Some(Span::from_secs(600));
    commit(name, None, vec![Change::LeaseTaken { holder, ttl }])
}

fn step(name: &str, fence: Option<Fence>, body: Vec<u8>) -> Commit {
    let rule = RepeatRule::Keyed;
    let mark = StepMark {
        key: key(),
        rule,
        tries: 1,
        fingerprint: None,
        was_open: false,
        call: None,
    };
    let output = Some(Output::keep(0, body));
    commit(
        name,
        fence,
        vec![Change::StepEnded {
            mark,
            outcome: StepOutcome::Done,
            output,
        }],
    )
}
