//! What a supervisor asks again and again goes by an index, however long the journal is.

use relight_core::agent::AttemptTag;
use relight_core::event::EventKind;
use relight_core::ids::{AgentName, SessionKey};
use relight_core::session::SessionStateKind;
use relight_core::status::TaskStatus;
use rusqlite::types::{ToSql, Value as SqlValue};
use rusqlite::{Connection, params_from_iter};

use super::lease_clock::LeaseNow;
use super::open::{self, Use};
use super::{attempts, journal, queue, sessions, tasks};
use crate::contract::{AttemptQuery, EventQuery, SessionQuery, TaskQuery};
use crate::record::Statement;

const NOW: LeaseNow = LeaseNow { boot: 1, ms: 1 };

/// SQLite's words about how it would answer.
fn plan_of(list: Statement) -> String {
    plan_of_sql((list.sql, list.values.into_iter()))
}

/// The same of any statement.
fn plan_of_sql<V: ToSql>((sql, values): (String, impl Iterator<Item = V>)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let db: Connection = open::open(&folder.path().join("relight.db"), Use::Long).unwrap();
    let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let lines = explain
        .query_map(params_from_iter(values), |row| row.get::<_, String>(3))
        .unwrap();
    lines.map(Result::unwrap).collect::<Vec<_>>().join("\n")
}

fn agent() -> Option<AgentName> {
    Some(AgentName::new("a").unwrap())
}

#[test]
fn events_of_an_agent_are_found_without_reading_the_journal() {
    let kinds = Vec::new();
    let query = EventQuery {
        after: 0,
        before: None,
        task: None,
        agent: agent(),
        kinds,
        limit: 5,
        newest: true,
    };
    insta::assert_snapshot!(plan_of(journal::events_sql(&query)), @"
    SEARCH j USING INDEX journal_agent (agent=? AND rowid>? AND rowid<?)
    SCALAR SUBQUERY 1
    SEARCH agent USING COVERING INDEX agent_name (name=?)
    SEARCH t USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN
    SEARCH a USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN
    ");
}

#[test]
fn the_newest_deaths_are_found_without_reading_the_steps_between() {
    let kinds = vec![EventKind::AttemptDied, EventKind::AttemptBegun];
    let (after, before, limit) = (7, None, 5);
    let query = EventQuery {
        after,
        before,
        task: None,
        agent: None,
        kinds,
        limit,
        newest: true,
    };
    insta::assert_snapshot!(plan_of(journal::events_sql(&query)), @"
    SEARCH j USING INTEGER PRIMARY KEY (rowid=?)
    LIST SUBQUERY 1
    SEARCH journal USING COVERING INDEX journal_attempt (kind=? AND rowid>? AND rowid<?)
    USE TEMP B-TREE FOR ORDER BY
    SEARCH t USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN
    SEARCH a USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN
    ");
    assert_eq!(
        EventKind::AttemptBegun.code()..=EventKind::AttemptDied.code(),
        21..=23
    );
}

#[test]
fn tasks_of_an_attempt_are_found_by_its_lease() {
    let held_by = Some(AttemptTag::from_text("a.1.0"));
    let query = TaskQuery {
        held_by,
        ..TaskQuery::default()
    };
    insta::assert_snapshot!(plan_of(tasks::list_sql(&query, NOW)), @"
    SEARCH l USING INDEX lease_attempt (attempt=?)
    SEARCH t USING INTEGER PRIMARY KEY (rowid=?)
    SEARCH b USING INTEGER PRIMARY KEY (rowid=?)
    USE TEMP B-TREE FOR ORDER BY
    ");
}

#[test]
fn tasks_in_doubt_or_held_are_found_among_many_finished_ones() {
    let query = TaskQuery::with_steps_in_doubt();
    insta::assert_snapshot!(plan_of(tasks::list_sql(&query, NOW)), @"
    SCAN t USING INDEX task_in_doubt
    SEARCH b USING INTEGER PRIMARY KEY (rowid=?)
    SEARCH l USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN
    ");
    let query = TaskQuery {
        held: true,
        ..TaskQuery::default()
    };
    insta::assert_snapshot!(plan_of(tasks::list_sql(&query, NOW)), @"
    SEARCH t USING INTEGER PRIMARY KEY (rowid=?)
    USING ROWID SEARCH ON TABLE lease FOR IN-OPERATOR
    SEARCH b USING INTEGER PRIMARY KEY (rowid=?)
    SEARCH l USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN
    ");
}

#[test]
fn attempts_of_an_agent_are_walked_newest_first() {
    let query = AttemptQuery {
        agent: agent(),
        ended: true,
        limit: 5,
        before: None,
    };
    insta::assert_snapshot!(plan_of(attempts::list_sql(&query)), @"
    SEARCH g USING INTEGER PRIMARY KEY (rowid=?)
    SCALAR SUBQUERY 1
    SEARCH agent USING COVERING INDEX agent_name (name=?)
    REUSE SUBQUERY 1
    SEARCH a USING INDEX attempt_number (agent=?)
    ");
}

#[test]
fn claims_walk_along_indexes_whatever_else_is_in_the_store() {
    let plan = plan_of_sql((
        queue::claimable_sql().to_owned(),
        vec![SqlValue::Null; 7].into_iter(),
    ));
    let tasks: std::collections::BTreeSet<&str> = plan
        .lines()
        .filter(|line| line.contains(" task "))
        .map(str::trim)
        .collect();
    insta::assert_snapshot!(tasks.into_iter().collect::<Vec<_>>().join("\n"), @"
    SEARCH task USING INDEX task_failed (not_before<?)
    SEARCH task USING INDEX task_failed (not_before=?)
    SEARCH task USING INDEX task_for_agent (agent=? AND status=? AND not_before<?)
    SEARCH task USING INDEX task_for_agent (agent=? AND status=? AND not_before=?)
    SEARCH task USING INDEX task_open (status=? AND not_before<?)
    SEARCH task USING INDEX task_open (status=? AND not_before=?)
    ");
    // The only sort is that of the few that were found.
    assert_eq!(plan.matches("USE TEMP B-TREE").count(), 1, "{plan}");
}

#[test]
fn the_next_time_that_something_is_due_is_the_first_of_an_index() {
    let plan = plan_of_sql((
        queue::next_due_sql().to_owned(),
        [SqlValue::Null].into_iter(),
    ));
    let tasks: std::collections::BTreeSet<&str> = plan
        .lines()
        .filter(|line| line.contains(" task "))
        .map(str::trim)
        .collect();
    insta::assert_snapshot!(tasks.into_iter().collect::<Vec<_>>().join("\n"), @"SEARCH task USING COVERING INDEX task_open (status=? AND not_before>?)");
}

#[test]
fn open_tasks_are_found_without_the_finished_ones() {
    let statuses = vec![TaskStatus::Assigned, TaskStatus::InProgress];
    let plan = plan_of(tasks::list_sql(
        &TaskQuery {
            statuses,
            ..TaskQuery::default()
        },
        NOW,
    ));
    insta::assert_snapshot!(plan, @"
    SEARCH t USING INDEX task_open (status=?)
    SEARCH b USING INTEGER PRIMARY KEY (rowid=?)
    SEARCH l USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN
    USE TEMP B-TREE FOR ORDER BY
    ");
}

#[test]
fn turns_in_flight_are_found_without_reading_idle_sessions() {
    let after = Some(SessionKey::new("a").unwrap());
    let states = vec![SessionStateKind::Active];
    let query = SessionQuery {
        states,
        seen: false,
        after,
        limit: Some(5),
    };
    insta::assert_snapshot!(plan_of(sessions::list_sql(&query, NOW)), @"SEARCH session USING INDEX session_open (state=? AND key>?)");
}

#[test]
fn sessions_that_were_only_seen_are_found_without_reading_the_others() {
    let query = SessionQuery {
        seen: true,
        limit: Some(5),
        ..SessionQuery::default()
    };
    insta::assert_snapshot!(plan_of(sessions::list_sql(&query, NOW)), @"SCAN session USING INDEX session_seen");
}
