//! What can be claimed, and when there will be more.

use std::sync::LazyLock;

use relight_core::claimant::Claimant;
use relight_core::ids::TaskId;
use relight_core::status::TaskStatus;
use relight_core::time::Time;

use super::connection::{Connection, values};
use super::error::PostgresFailure;
use super::lease_clock::NOW_MS;
use super::rows;
use super::text;

/// Of those that waited for a time, the ones that are due longest are looked at.
const DUE_MAX: usize = 1_000;

/// Each part by itself is a walk along an index that ends at the limit; together they would be a scan
/// and a sort. Nothing that is not due, failed for good or for another agent is looked at; what is held,
/// has expired or needs a skill that the claimant lacks is passed over one by one, so a queue that
/// begins with many such tasks is walked along them at each claim.
static CLAIMABLE: LazyLock<String> = LazyLock::new(|| {
    let usable = format!(
        "(expires_at IS NULL OR expires_at > $5)
         AND (NOT held OR (lease_ttl IS NOT NULL AND lease_until <= {NOW_MS}))
         AND (NOT pinned OR agent = $2 OR agent = $3)
         AND (needs IS NULL OR needs <@ $4::text[])"
    );
    let both = |condition: &str| {
        let part = |time: &str, order: &str, limit: &str| {
            format!(
                "(SELECT id, priority, n FROM task
                  WHERE {condition} AND not_before {time} AND {usable} ORDER BY {order} LIMIT {limit})"
            )
        };
        let ready = part("IS NULL", "priority DESC, n", "$6");
        let due = part(
            "IS NOT NULL AND not_before <= $5",
            "not_before",
            &DUE_MAX.to_string(),
        );
        format!("{ready} UNION ALL {due}")
    };
    let (created, deferred) = (TaskStatus::Created.code(), TaskStatus::Deferred.code());
    // The second condition of each is its index's own.
    let mut all: Vec<String> = [created, deferred]
        .map(|code| {
            both(&format!(
                "status = {code} AND (status = 1 OR status = 6) AND status < 10"
            ))
        })
        .into();
    for code in [TaskStatus::Assigned.code(), TaskStatus::Interrupted.code()] {
        for whose in ["''", "$2", "$3"] {
            let condition = format!(
                "COALESCE(agent, '') = {whose} AND status = {code} AND (status = 2 OR status = 7)"
            );
            all.push(both(&condition));
        }
    }
    let failed = TaskStatus::Failed.code();
    all.push(both(&format!(
        "status = {failed} AND retries < max_retries AND NOT given_up AND status < 10"
    )));
    let all = all.join(" UNION ALL ");
    format!("SELECT id FROM ({all}) AS found ORDER BY priority DESC, n LIMIT $6")
});

/// Candidates for an agent, best first; the lease clock tells which of them are held. Their rows are not
/// locked: a claim is a compare-and-set commit, and the loser looks for candidates again.
pub(super) async fn claimable(
    db: &Connection,
    claimant: &Claimant,
    now: Time,
    ahead_ms: i64,
    limit: usize,
) -> Result<Vec<TaskId>, PostgresFailure> {
    let skills: Vec<String> = claimant
        .skills
        .iter()
        .map(|skill| text::kept(skill).into_owned())
        .collect();
    let values = values![
        ahead_ms,
        claimant.agent.as_str().to_owned(),
        claimant.pool.as_ref().map(|pool| pool.as_str().to_owned()),
        skills,
        now.as_ms(),
        i64::try_from(limit).unwrap_or(i64::MAX),
    ];
    let rows = db.query(&CLAIMABLE, &values).await?;
    Ok(rows::readable(&rows, |row| row.parse("task.id")))
}

/// Of each status by itself the first one of the index; together it would be a walk.
static NEXT_DUE: LazyLock<String> = LazyLock::new(|| {
    let queued = TaskStatus::ALL
        .into_iter()
        .filter(|status| Claimant::is_for_the_queue(*status));
    let first = |status: TaskStatus| {
        format!(
            "(SELECT not_before FROM task WHERE status = {} AND status < 10
                AND not_before IS NOT NULL AND not_before > $1 ORDER BY not_before LIMIT 1)",
            status.code()
        )
    };
    let firsts: Vec<String> = queued.map(first).collect();
    format!(
        "SELECT MIN(not_before) FROM ({}) AS firsts",
        firsts.join(" UNION ALL ")
    )
});

pub(super) async fn next_due(db: &Connection, now: Time) -> Result<Option<Time>, PostgresFailure> {
    let row = db.query_opt(&NEXT_DUE, &values![now.as_ms()]).await?;
    Ok(row
        .and_then(|row| row.get::<_, Option<i64>>(0))
        .map(Time::from_ms))
}
