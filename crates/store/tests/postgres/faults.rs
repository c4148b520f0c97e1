//! Connections are killed, answers swallowed, servers killed: what was acknowledged is there, and
//! nothing is there twice.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use relight_core::change::{Change, StepMark};
use relight_core::decide::Guard;
use relight_core::event::EventKind;
use relight_core::ids::{NodeName, StepName, TaskId};
use relight_core::lease::{Fence, Holder};
use relight_core::node::NewNode;
use relight_core::step::{Output, RepeatRule, StepKey, StepOutcome, StepState};
use relight_core::task::NewTask;
use relight_core::time::{Span, Time};
use relight_store::postgres::{PostgresStore, PostgresUrl};
use relight_store::{Commit, EventQuery, Joined, Store, StoreError};
use tokio::time::{Instant, timeout};

use crate::proxy::{self, Trap};
use crate::server::{Cluster, Durability, unique};

const FENCE: Guard = Guard {
    fence: Some(Fence(1)),
    seq: None,
};
const FREE: Guard = Guard {
    fence: None,
    seq: None,
};

/// Most steps that are written while connections are killed.
const STEPS_MAX: u32 = 20_000;

fn id(text: &str) -> TaskId {
    TaskId::new(text).expect("a valid id")
}

fn commit(task: &str, guard: Guard, changes: Vec<Change>) -> Commit {
    Commit {
        task: id(task),
        guard,
        at: Time::from_ms(1_000),
        changes,
    }
}

/// A task that somebody holds with fence 1.
async fn held_task(store: &dyn Store, task: &str) {
    let holder = Holder::Time {
        by: "test".to_owned(),
    };
    let ttl = Some(Span::from_secs(600));
    let changes = vec![
        Change::Created(Box::new(NewTask::bare(id(task)))),
        Change::LeaseTaken { holder, ttl },
    ];
    store
        .commit(commit(task, FREE, changes))
        .await
        .expect("a new task is taken");
}

fn key(number: u32) -> StepKey {
    StepKey::first(StepName::new(format!("step {number}")).expect("a valid name"))
}

fn step(task: &str, number: u32) -> Commit {
    let mark = StepMark {
        key: key(number),
        rule: RepeatRule::Keyed,
        tries: 1,
        fingerprint: None,
        was_open: false,
        call: None,
    };
    let ended = Change::StepEnded {
        mark,
        outcome: StepOutcome::Done,
        output: None,
    };
    commit(task, FENCE, vec![ended])
}

fn url(cluster: &Cluster, port: u16) -> PostgresUrl {
    let schema = unique(&format!("f{}_", std::process::id()));
    let url = cluster.url(&format!("?schema={schema}&sslmode=disable"));
    let own = format!(":{}/", cluster.port());
    url.replace(&own, &format!(":{port}/"))
        .parse()
        .expect("the test's own address")
}

/// Every acknowledged step is there, every step at most once, and the task counts what is there.
async fn check(store: &dyn Store, task: &str, acknowledged: &HashSet<u32>) {
    let steps = store
        .steps(&id(task))
        .await
        .expect("a store that can be read");
    let there: HashSet<_> = steps.iter().map(|step| step.key.clone()).collect();
    assert_eq!(there.len(), steps.len(), "no step is there twice");
    for number in acknowledged {
        assert!(
            there.contains(&key(*number)),
            "step {number} was acknowledged"
        );
    }
    assert!(steps.iter().all(|step| step.state == StepState::Done));
    let kept = store
        .task(&id(task))
        .await
        .expect("a store that can be read");
    let kept = kept.expect("the task is there");
    assert_eq!(kept.steps_done, steps.len() as u64);
    let query = EventQuery {
        after: 0,
        task: Some(id(task)),
        agent: None,
        kinds: vec![EventKind::StepDone],
        limit: usize::MAX,
        newest: false,
        before: None,
    };
    let events = store.events(query).await.expect("a store that can be read");
    assert_eq!(events.len(), steps.len(), "one record each");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_was_lost_is_read_back() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let trap = Arc::new(Trap::default());
    let port = proxy::start(cluster.port(), Arc::clone(&trap)).await;
    let store = PostgresStore::open(&url(cluster, port)).unwrap();
    held_task(&store, "t").await;
    let mut acknowledged = HashSet::new();
    for number in 0..16 {
        match number % 4 {
            1 => trap.swallow_answer(),
            2 => trap.panic_at_commit(),
            3 => trap.swallow_commit(),
            _ => {}
        }
        // Steps go by one trip, all else by two.
        let is_step = number < 8;
        let noted = Change::Noted(EventKind::TaskContext, number.into());
        let other = commit("t", FENCE, vec![noted]);
        let made = store
            .commit(if is_step { step("t", number) } else { other })
            .await
            .unwrap();
        assert_eq!(made.seq, u64::from(number) + 2, "made once");
        if is_step {
            acknowledged.insert(number);
        }
    }
    assert_eq!(trap.caught.load(Ordering::SeqCst), 12);
    check(&store, "t", &acknowledged).await;
}

/// Shorter than the patience that all else has, and longer than a loaded machine needs.
const RENEWAL_MAX: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_renewed_though_every_connection_is_dead_and_looks_alive() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let trap = Arc::new(Trap::default());
    let port = proxy::start(cluster.port(), Arc::clone(&trap)).await;
    let store: Arc<dyn Store> = Arc::new(PostgresStore::open(&url(cluster, port)).unwrap());
    let node = NewNode {
        name: NodeName::new("a").expect("a valid name"),
        instance: "a".to_owned(),
        labels: Vec::new(),
        address: None,
        version: "1".to_owned(),
        ttl: Span::from_secs(60),
        process: None,
    };
    let joined = store
        .join_node(node.clone(), None, Time::from_ms(0))
        .await
        .unwrap();
    let Joined::As(epoch) = joined else {
        panic!("{joined:?}")
    };
    // As many connections as reads ever have.
    let reads: Vec<_> = (0..8)
        .map(|_| Arc::clone(&store))
        .map(|store| tokio::spawn(async move { store.nodes().await.unwrap().len() }))
        .collect();
    for read in reads {
        assert_eq!(read.await.unwrap(), 1);
    }
    trap.silence_all();
    let renewed = timeout(RENEWAL_MAX, store.renew_node(&node.name, epoch)).await;
    assert!(renewed.expect("the lease is not lost meanwhile").unwrap());
    let glance = timeout(RENEWAL_MAX, store.nodes_summary()).await;
    glance.expect("the others are seen as well").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_killed_at_random_lose_nothing_and_double_nothing() {
    let Some(cluster) = Cluster::start(Durability::Unsynced) else {
        return;
    };
    let cluster = Arc::new(cluster);
    let url = url(&cluster, cluster.port());
    let store: Arc<dyn Store> = Arc::new(PostgresStore::open(&url).unwrap());
    let tasks = ["a", "b", "c", "d"];
    for task in tasks {
        held_task(&*store, task).await;
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let killed = Arc::new(AtomicU32::new(0));
    let killer = tokio::task::spawn_blocking({
        let (is_over, cluster) = (Arc::clone(&is_over), Arc::clone(&cluster));
        let killed = Arc::clone(&killed);
        move || {
            while !is_over.load(Ordering::SeqCst) {
                // Only writers have a transaction under way; readers are killed with them.
                let sql = "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity
                           WHERE application_name = 'relight' AND backend_type = 'client backend'
                             AND (xact_start IS NOT NULL OR random() < 0.3)";
                killed.fetch_add(cluster.sql(sql).parse().unwrap(), Ordering::SeqCst);
            }
        }
    });
    let workers = tasks.map(|task| {
        let (store, killed) = (Arc::clone(&store), Arc::clone(&killed));
        tokio::spawn(async move {
            let mut acknowledged = HashSet::new();
            for number in 0..STEPS_MAX {
                if number >= 100 && killed.load(Ordering::SeqCst) > 5 {
                    break;
                }
                match store.commit(step(task, number)).await {
                    Ok(_) => drop(acknowledged.insert(number)),
                    Err(error) => assert!(is_unreachable(&error), "{error:?}"),
                }
            }
            acknowledged
        })
    });
    let mut all = Vec::new();
    for worker in workers {
        all.push(worker.await.unwrap());
    }
    is_over.store(true, Ordering::SeqCst);
    killer.await.unwrap();
    let killed = killed.load(Ordering::SeqCst);
    assert!(killed > 5, "{killed} connections were killed");
    for (task, acknowledged) in tasks.into_iter().zip(all) {
        assert!(!acknowledged.is_empty());
        check(&*store, task, &acknowledged).await;
    }
}

fn is_unreachable(error: &relight_store::CommitError) -> bool {
    matches!(
        error,
        relight_store::CommitError::Store(StoreError::Unreachable { .. })
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_and_started_again_is_waited_for() {
    let Some(cluster) = Cluster::start(Durability::Unsynced) else {
        return;
    };
    let cluster = Arc::new(cluster);
    let store: Arc<dyn Store> =
        Arc::new(PostgresStore::open(&url(&cluster, cluster.port())).unwrap());
    held_task(&*store, "t").await;
    let mut acknowledged = HashSet::new();
    for round in 0..3 {
        let killed = Arc::clone(&cluster);
        let restart = tokio::task::spawn_blocking(move || {
            killed.kill();
            killed.start_server();
        });
        for number in round * 100..round * 100 + 100 {
            match store.commit(step("t", number)).await {
                Ok(_) => drop(acknowledged.insert(number)),
                Err(error) => assert!(is_unreachable(&error), "{error:?}"),
            }
        }
        restart.await.unwrap();
    }
    check(&*store, "t", &acknowledged).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stays_away_is_told_of_and_nothing_is_acknowledged() {
    let Some(cluster) = Cluster::start(Durability::Unsynced) else {
        return;
    };
    let url = url(&cluster, cluster.port());
    let store = PostgresStore::open(&url).unwrap();
    held_task(&store, "t").await;
    cluster.kill();
    let task = id("t");
    let both = tokio::join!(store.commit(step("t", 1)), store.task(&task));
    assert!(is_unreachable(&both.0.unwrap_err()));
    assert!(matches!(both.1, Err(StoreError::Unreachable { .. })));
    let opened = tokio::time::timeout(
        Duration::from_secs(60),
        tokio::task::spawn_blocking(move || PostgresStore::open(&url)),
    );
    let refused = opened
        .await
        .expect("opening does not wait for it")
        .unwrap()
        .unwrap_err();
    assert!(
        matches!(refused, StoreError::Unreachable { .. }),
        "{refused}"
    );
    cluster.start_server();
    store.commit(step("t", 2)).await.unwrap();
    check(&store, "t", &HashSet::from([2])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_many_writers_become_visible_in_the_order_of_their_ids() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let url = url(cluster, cluster.port());
    let open = || Arc::new(PostgresStore::open(&url).unwrap()) as Arc<dyn Store>;
    let reader = open();
    let writers = ["a", "b", "c"].map(|task| {
        let store = open();
        tokio::spawn(async move {
            held_task(&*store, task).await;
            for number in 0..60 {
                let noted = Change::Noted(EventKind::TaskContext, number.into());
                // By one trip and by two in turn.
                let is_step = number % 2 == 0;
                let other = commit(task, FENCE, vec![noted]);
                store
                    .commit(if is_step { step(task, number) } else { other })
                    .await
                    .unwrap();
            }
        })
    });
    let (mut seen, mut after) = (0, 0);
    // Each step and each task's two first events.
    while seen < 3 * 62 {
        tokio::time::timeout(Duration::from_secs(180), reader.changed(after))
            .await
            .unwrap()
            .unwrap();
        let (task, agent, kinds) = (None, None, Vec::new());
        let (limit, newest, before) = (1_000, false, None);
        let query = EventQuery {
            after,
            task,
            agent,
            kinds,
            limit,
            newest,
            before,
        };
        let events = reader.events(query).await.unwrap();
        seen += events.len();
        after = events.last().map_or(after, |event| event.id);
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let newest = reader.newest_event().await.unwrap();
    assert_eq!(
        after, newest,
        "a reader that goes by the newest id misses none"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outputs_on_a_slow_link_hold_up_nobody_else_and_arrive() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let trap = Arc::new(Trap::default());
    let port = proxy::start(cluster.port(), Arc::clone(&trap)).await;
    let schema = unique(&format!("s{}_", std::process::id()));
    let open = |port: u16| {
        let text = format!("postgres://relight@127.0.0.1:{port}/postgres?schema={schema}");
        let url: PostgresUrl = text.parse().unwrap();
        PostgresStore::open(&url.with_patience(Duration::from_secs(12))).unwrap()
    };
    let (fast, slow) = (open(cluster.port()), open(port));
    for task in ["a", "b"] {
        held_task(&fast, task).await;
    }
    let mut much = step("a", 1);
    let Change::StepEnded { output, .. } = &mut much.changes[0] else {
        unreachable!()
    };
    *output = Some(Output {
        exit_code: 0,
        body: vec![b'x'; 1 << 20],
        ..Output::default()
    });
    // With something else it takes two trips.
    much.changes
        .push(Change::Noted(EventKind::TaskContext, 1.into()));
    trap.hold();
    let sent = tokio::spawn(async move { slow.commit(much).await });
    trap.held().await;
    let other = tokio::time::timeout(Duration::from_secs(4), fast.commit(step("b", 1))).await;
    other.expect("it waits for nobody's outputs").unwrap();
    // Longer than a transaction of little may be idle.
    let sql = format!(
        "SELECT COUNT(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
         WHERE relation = '{schema}.task'::regclass AND state = 'idle in transaction'
           AND clock_timestamp() - state_change > interval '4 s'"
    );
    let until = Instant::now() + Duration::from_secs(6);
    let has_waited = std::iter::repeat_with(|| cluster.sql(&sql) != "0")
        .take_while(|_| Instant::now() < until)
        .any(|is_long| is_long);
    trap.release();
    assert!(
        has_waited,
        "a transaction whose outputs are on their way is not idle"
    );
    sent.await.unwrap().expect("it arrives");
    check(&fast, "a", &HashSet::from([1])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_takes_connections_and_is_silent_is_passed_over_once() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let (silent, taken) = proxy::start_silent().await;
    let schema = unique(&format!("h{}_", std::process::id()));
    let text = format!(
        "postgres://relight@127.0.0.1:{silent},127.0.0.1:{}/postgres\
         ?sslmode=disable&connect_timeout=1&schema={schema}",
        cluster.port()
    );
    let store = PostgresStore::open(&text.parse().unwrap()).expect("the second one is found");
    assert_eq!(taken.load(Ordering::SeqCst), 1);
    // Each on a connection of its own: the one that did is asked first.
    held_task(&store, "t").await;
    store.forget_attempts(Time::from_ms(1)).await.unwrap();
    assert_eq!(taken.load(Ordering::SeqCst), 1);
}

/// Has each commit wait for a standby that is not there, or no longer.
fn wait_for_standby(cluster: &Cluster, waits: bool) {
    let name = if waits { "nobody" } else { "" };
    cluster.sql(&format!(
        "ALTER SYSTEM SET synchronous_standby_names = '{name}'"
    ));
    cluster.sql("SELECT pg_reload_conf()");
}

/// How often this was noted of a task.
async fn noted(store: &dyn Store, task: &str, what: u32) -> usize {
    let (task, kinds) = (Some(id(task)), vec![EventKind::TaskContext]);
    let (after, agent, limit, newest, before) = (0, None, usize::MAX, false, None);
    let query = EventQuery {
        after,
        task,
        agent,
        kinds,
        limit,
        newest,
        before,
    };
    let events = store.events(query).await.expect("a store that can be read");
    events
        .iter()
        .filter(|event| event.detail == serde_json::json!(what))
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_hangs_is_told_of_as_open_and_made_once() {
    let Some(cluster) = Cluster::start(Durability::Unsynced) else {
        return;
    };
    let url = url(&cluster, cluster.port()).with_patience(Duration::from_secs(1));
    let store = PostgresStore::open(&url).unwrap();
    for task in ["a", "b"] {
        held_task(&store, task).await;
    }
    wait_for_standby(&cluster, true);
    let note = |task, what: u32| {
        commit(
            task,
            FENCE,
            vec![Change::Noted(EventKind::TaskContext, what.into())],
        )
    };
    // The server takes its new setting when it likes; both go in one transaction.
    let mut hung = None;
    for what in 0..1_000 {
        store.commit_deferred(note("a", what));
        let answer = tokio::time::timeout(Duration::from_secs(120), store.commit(note("b", what)));
        if let Err(error) = answer.await.expect("callers are told in time") {
            assert!(is_unreachable(&error), "{error:?}");
            assert!(error.to_string().contains("may have been made"), "{error}");
            hung = Some(what);
            break;
        }
    }
    let hung = hung.expect("a commit hangs");
    let later = store.commit(note("b", hung + 1)).await;
    assert!(later.is_err(), "nothing follows while it hangs: {later:?}");
    wait_for_standby(&cluster, false);
    store.commit(note("b", hung + 2)).await.expect("it goes on");
    let counts = [
        noted(&store, "a", hung).await,
        noted(&store, "b", hung).await,
    ];
    assert_eq!(counts, [1, 1], "each once");
    assert_eq!(noted(&store, "b", hung + 2).await, 1);
}

/// Keeps others from a table or its rows until it is dropped.
struct TableLock(std::process::Child);

impl TableLock {
    /// The whole table.
    fn take(cluster: &Cluster, table: &str) -> Self {
        let asked = format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE");
        Self::ask(cluster, table, &asked, "AccessExclusiveLock")
    }

    /// All its rows.
    fn take_rows(cluster: &Cluster, table: &str) -> Self {
        let asked = format!("SELECT COUNT(*) FROM (SELECT 1 FROM {table} FOR UPDATE) AS all_rows");
        Self::ask(cluster, table, &asked, "RowShareLock")
    }

    fn ask(cluster: &Cluster, table: &str, asked: &str, mode: &str) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "a program of the test's own ground"
        )]
        let mut psql = std::process::Command::new(cluster.program("psql"));
        let place = format!(
            "host=127.0.0.1 port={} user=relight dbname=postgres",
            cluster.port()
        );
        psql.args(["-X", "-q", &place])
            .stdin(std::process::Stdio::piped());
        psql.stdout(std::process::Stdio::null());
        let mut child = psql.spawn().expect("psql runs");
        let asked = format!("BEGIN; {asked};\n");
        let stdin = child.stdin.as_mut().expect("it is a pipe");
        std::io::Write::write_all(stdin, asked.as_bytes()).expect("psql reads");
        let sql = format!(
            "SELECT COUNT(*) FROM pg_locks
             WHERE relation = '{table}'::regclass AND mode = '{mode}' AND granted"
        );
        let has_it = (0..10_000).any(|_| cluster.sql(&sql) == "1");
        assert!(has_it, "{table} is locked");
        Self(child)
    }
}

impl Drop for TableLock {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It ends with its input.
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_only_tries_passes_over_a_task_that_another_writer_is_at() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let schema = unique(&format!("p{}_", std::process::id()));
    let url = cluster
        .url(&format!("?schema={schema}&sslmode=disable"))
        .parse()
        .unwrap();
    let store = PostgresStore::open(&url).unwrap();
    for task in ["free", "met"] {
        let created = Change::Created(Box::new(NewTask::bare(id(task))));
        store
            .commit(commit(task, FREE, vec![created]))
            .await
            .unwrap();
    }
    let claim = |task| {
        let (holder, ttl) = (
            Holder::Time {
                by: "test".to_owned(),
            },
            Some(Span::from_secs(600)),
        );
        let guard = Guard {
            fence: None,
            seq: Some(1),
        };
        commit(task, guard, vec![Change::LeaseTaken { holder, ttl }])
    };
    assert_eq!(
        store.try_commit(claim("free")).await.unwrap().fence,
        Fence(1)
    );
    let lock = TableLock::take_rows(cluster, &format!("{schema}.task"));
    let tried = tokio::time::timeout(Duration::from_secs(60), store.try_commit(claim("met"))).await;
    let passed = tried.expect("it waits for nobody").unwrap_err();
    assert!(
        matches!(passed, relight_store::CommitError::Moved(_)),
        "{passed:?}"
    );
    drop(lock);
    assert_eq!(
        store.commit(claim("met")).await.unwrap().fence,
        Fence(1),
        "nothing was changed"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_do_not_wait_for_what_is_being_removed() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let schema = unique(&format!("l{}_", std::process::id()));
    let url = cluster
        .url(&format!("?schema={schema}&sslmode=disable"))
        .parse()
        .unwrap();
    let store: Arc<dyn Store> = Arc::new(PostgresStore::open(&url).unwrap());
    held_task(&*store, "t").await;
    let lock = TableLock::take(cluster, &format!("{schema}.attempt"));
    let removing = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.forget_attempts(Time::from_ms(1)).await }
    });
    for number in 0..20 {
        store.commit(step("t", number)).await.unwrap();
    }
    assert!(!removing.is_finished(), "it waits for the table");
    drop(lock);
    assert_eq!(removing.await.unwrap().unwrap(), 0);
}
