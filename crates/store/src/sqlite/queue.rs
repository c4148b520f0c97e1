//! Claimable tasks of the queue.

use std::sync::LazyLock;

use relight_core::claimant::Claimant;
use relight_core::ids::{AgentName, TaskId};
use relight_core::status::TaskStatus;
use relight_core::time::Time;
use rusqlite::{Connection, Result, params};

use super::lease_clock::LeaseNow;
use super::rows;
use crate::bodies::to_json;

/// Limit of due tasks that are examined, longest due first.
const DUE_MAX: usize = 1_000;

/// Each part is an index scan that stops at the limit; combined they would be a table scan and a
/// sort. Tasks that are not due, failed for good or belong to another agent are not read.
static CLAIMABLE: LazyLock<String> = LazyLock::new(|| {
    let usable = "(expires_at IS NULL OR expires_at > ?4)
                   AND (held = 0
                        OR (lease_ttl IS NOT NULL AND (lease_boot != ?5 OR lease_until <= ?6)))
                   AND (pinned = 0 OR agent = ?1 OR agent = ?2)
                   AND (needs IS NULL OR NOT EXISTS (
                        SELECT 1 FROM json_each(needs) AS need
                        WHERE need.value NOT IN (SELECT value FROM json_each(?3))))";
    let both = |index: &str, condition: &str| {
        let part = |time: &str, order: &str, limit: &str| {
            format!(
                "SELECT * FROM (
                 SELECT id, priority, n FROM task INDEXED BY {index}
                 WHERE {condition} AND not_before {time} AND {usable} ORDER BY {order} LIMIT {limit})"
            )
        };
        let ready = part("IS NULL", "priority DESC, n", "?7");
        let due = part("<= ?4", "not_before", &DUE_MAX.to_string());
        format!("{ready} UNION ALL {due}")
    };
    let (created, deferred) = (TaskStatus::Created.code(), TaskStatus::Deferred.code());
    let mut all = vec![
        both("task_open", &format!("status = {created} AND status < 10")),
        both("task_open", &format!("status = {deferred} AND status < 10")),
    ];
    for status in [TaskStatus::Assigned.code(), TaskStatus::Interrupted.code()] {
        for whose in ["IS NULL", "= ?1", "= ?2"] {
            // The second condition is the index's own.
            let condition = format!("status = {status} AND (status = 2 OR status = 7)");
            all.push(both(
                "task_for_agent",
                &format!("agent {whose} AND {condition}"),
            ));
        }
    }
    let failed = TaskStatus::Failed.code();
    let may_be_tried = format!("status = {failed} AND retries < max_retries AND given_up = 0");
    all.push(both("task_failed", &may_be_tried));
    format!(
        "SELECT id FROM ({}) ORDER BY priority DESC, n LIMIT ?7",
        all.join(" UNION ALL ")
    )
});

#[cfg(test)]
pub(super) fn next_due_sql() -> &'static str {
    &NEXT_DUE
}

#[cfg(test)]
pub(super) fn claimable_sql() -> &'static str {
    &CLAIMABLE
}

/// Candidates for an agent, best first; which of them are held is told by the lease clock.
pub(super) fn claimable(
    db: &Connection,
    claimant: &Claimant,
    now: Time,
    lease_now: LeaseNow,
    limit: usize,
) -> Result<Vec<TaskId>> {
    let mut select = db.prepare_cached(&CLAIMABLE)?;
    let rows = select.query_map(
        params![
            claimant.agent.as_str(),
            claimant.pool.as_ref().map(AgentName::as_str),
            to_json(&claimant.skills),
            now.as_ms(),
            lease_now.boot,
            lease_now.ms,
            i64::try_from(limit).unwrap_or(i64::MAX)
        ],
        |row| rows::read(row, |row| row.parse("task.id")),
    )?;
    rows.collect()
}

/// Of each status by itself the first one of the index; together it would be a walk.
static NEXT_DUE: LazyLock<String> = LazyLock::new(|| {
    let queued = TaskStatus::ALL
        .into_iter()
        .filter(|status| Claimant::is_for_the_queue(*status));
    let first = |status: TaskStatus| {
        format!(
            "SELECT MIN(not_before) AS at FROM task
             WHERE status = {} AND status < 10 AND not_before > ?1",
            status.code()
        )
    };
    let firsts: Vec<String> = queued.map(first).collect();
    format!("SELECT MIN(at) FROM ({})", firsts.join(" UNION ALL "))
});

pub(super) fn next_due(db: &Connection, now: Time) -> Result<Option<Time>> {
    let mut select = db.prepare_cached(&NEXT_DUE)?;
    select.query_row([now.as_ms()], |row| {
        Ok(row.get::<_, Option<i64>>(0)?.map(Time::from_ms))
    })
}
