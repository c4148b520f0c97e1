//! Opening: versions beside each other, addresses and passwords.

use std::sync::{Arc, Mutex};

use relight_store::postgres::{PostgresStore, PostgresUrl};
use relight_store::{EventQuery, Store, StoreError, on_upgrade};

use crate::server::{Cluster, Durability, unique};

fn schema() -> String {
    unique(&format!("s{}_", std::process::id()))
}

fn url(cluster: &Cluster, rest: &str) -> PostgresUrl {
    cluster.url(rest).parse().expect("the test's own address")
}

#[test]
fn many_processes_may_make_the_schema_at_once() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let url = url(cluster, &format!("?schema={}", schema()));
    let openers = [(); 6].map(|()| {
        let url = url.clone();
        std::thread::spawn(move || PostgresStore::open(&url).map(drop))
    });
    for opener in openers {
        opener.join().unwrap().unwrap();
    }
}

#[test]
fn an_older_schema_is_brought_up_once_and_whoever_opens_it_is_told() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let schema = schema();
    let url = url(cluster, &format!("?schema={schema}"));
    drop(PostgresStore::open(&url).unwrap());
    cluster.sql(&format!(
        "DROP FUNCTION {schema}.append_step; DROP FUNCTION {schema}.append_steps;
         DROP INDEX {schema}.journal_attempt; ALTER TABLE {schema}.task DROP COLUMN pinned;
         UPDATE {schema}.meta SET schema = 6"
    ));
    let told = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&told);
    on_upgrade(move |upgrade| hears.lock().unwrap().push(upgrade.clone()));
    let openers = [(); 3].map(|()| {
        let url = url.clone();
        std::thread::spawn(move || PostgresStore::open(&url).map(drop))
    });
    for opener in openers {
        opener.join().unwrap().unwrap();
    }
    drop(PostgresStore::open(&url).unwrap());
    let mut told = told.lock().unwrap().clone();
    told.retain(|upgrade| upgrade.place == url.to_string());
    assert!((1..=3).contains(&told.len()), "{told:?}");
    assert!(
        told.iter()
            .all(|upgrade| upgrade.found == 6 && upgrade.known > 6),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_newer_schema_is_refused_unless_it_says_that_older_versions_may_go_on() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let schema = schema();
    let url = url(cluster, &format!("?schema={schema}"));
    let running = PostgresStore::open(&url).unwrap();
    let known = running.inventory(false).await.unwrap().schema;
    let set = |schema_number: u32, min_compatible: u32| {
        cluster.sql(&format!(
            "UPDATE {schema}.meta SET schema = {schema_number}, min_compatible = {min_compatible}"
        ));
    };
    set(known + 1, known);
    drop(PostgresStore::open(&url).unwrap());
    assert!(
        running.keep("a", None, 1.into()).await.unwrap(),
        "an older node beside a newer one"
    );
    set(known + 1, known + 1);
    let refused = PostgresStore::open(&url).unwrap_err();
    assert!(matches!(refused, StoreError::Newer { .. }), "{refused}");
    let late = running.keep("b", None, 1.into()).await.unwrap_err();
    assert!(
        matches!(late, StoreError::Newer { .. }),
        "a running node is told: {late}"
    );
    assert_eq!(running.kept("b").await.unwrap(), None);
}

/// In a rolling upgrade: a reader that never gets past such an event would ask for it for ever.
#[tokio::test]
async fn events_that_only_a_newer_version_can_read_are_given_all_the_same() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let schema = schema();
    let store = PostgresStore::open(&url(cluster, &format!("?schema={schema}"))).unwrap();
    cluster.sql(&format!(
        "INSERT INTO {schema}.journal (at, kind, detail) VALUES (1, 200, '{{\"a\": 1}}'), (2, 37, '{{')"
    ));
    let query = EventQuery {
        after: 0,
        before: None,
        task: None,
        agent: None,
        kinds: Vec::new(),
        limit: 10,
        newest: false,
    };
    let events = store.events(query).await.unwrap();
    let read: Vec<_> = events
        .iter()
        .map(|event| (event.id, event.kind.as_str()))
        .collect();
    assert_eq!(read, [(1, "unknown"), (2, "unknown")]);
    assert_eq!(events[0].detail["a"], 1, "what can be read is told");
    assert!(events[1].detail["unreadable"].is_string());
}

#[test]
fn a_wrong_password_is_a_clear_error_without_the_password() {
    let Some(cluster) = Cluster::start(Durability::Unsynced) else {
        return;
    };
    cluster.sql("CREATE ROLE ann LOGIN PASSWORD 'right'; GRANT ALL ON DATABASE postgres TO ann");
    cluster.require_passwords_of("ann");
    let with = |password: &str| {
        let url = cluster
            .url("?schema=ann")
            .replace("relight@", &format!("ann:{password}@"));
        PostgresStore::open(&url.parse().unwrap())
    };
    let wrong = with("n0t-right").unwrap_err();
    let told = format!("{wrong} {wrong:?}");
    assert!(
        told.contains("password authentication failed for user \"ann\""),
        "{told}"
    );
    assert!(!told.contains("n0t-right"), "{told}");
    drop(with("right").unwrap());
}

#[tokio::test]
async fn tls_is_used_where_it_is_asked_for_and_verified_where_that_is_asked_for() {
    let Some(plain) = Cluster::shared() else {
        return;
    };
    let refused = PostgresStore::open(&url(plain, "?sslmode=require")).unwrap_err();
    assert!(
        matches!(refused, StoreError::Unreachable { .. }),
        "{refused}"
    );
    let Some(cluster) = Cluster::start_with_tls(Durability::Unsynced) else {
        return;
    };
    for (mode, is_encrypted) in [("disable", "f"), ("prefer", "t"), ("require", "t")] {
        let store = PostgresStore::open(&url(&cluster, &format!("?sslmode={mode}"))).unwrap();
        let found = cluster.sql(
            "SELECT bool_and(s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)
             WHERE a.application_name = 'relight'",
        );
        assert_eq!(found, is_encrypted, "{mode}");
        assert_eq!(store.newest_event().await.unwrap(), 0);
    }
    let root = cluster.folder().join("server.crt");
    let verified = format!("?sslmode=verify-full&sslrootcert={}", root.display());
    let by_name = cluster.url(&verified).replace("127.0.0.1", "localhost");
    drop(PostgresStore::open(&by_name.parse().unwrap()).unwrap());
    let unknown = url(&cluster, "?sslmode=verify-full").to_string();
    let stranger = PostgresStore::open(&url(&cluster, "?sslmode=verify-full")).unwrap_err();
    assert!(
        stranger.to_string().contains("certificate"),
        "{unknown}: {stranger}"
    );
}
