//! Lists: the conditions of a query as SQL, once for both databases.

use relight_core::session::SessionStateKind;

use super::state_code;
use crate::contract::{AgentQuery, AttemptQuery, SessionQuery, TaskQuery};
use crate::transfer::Cell;

/// A statement and its values; `?3` is the place of the third, which PostgreSQL writes `$3`.
pub(crate) struct Statement {
    pub(crate) sql: String,
    pub(crate) values: Vec<Cell>,
}

impl Statement {
    /// `values` are those of the selection.
    fn new(select: &str, values: Vec<Cell>) -> Self {
        Self { sql: format!("{select} WHERE true"), values }
    }

    fn and(&mut self, condition: &str) {
        self.sql += &format!(" AND {condition}");
    }

    /// `?` in the condition is the value, where there is one to compare with.
    fn compare(&mut self, condition: &str, value: Option<&str>) {
        let Some(value) = value else { return };
        self.values.push(value.into());
        self.and(&condition.replace('?', &format!("?{}", self.values.len())));
    }

    /// Any when there are none.
    fn among(&mut self, column: &str, codes: impl Iterator<Item = u8>) {
        let codes: Vec<String> = codes.map(|code| code.to_string()).collect();
        if !codes.is_empty() {
            self.and(&format!("{column} IN ({})", codes.join(",")));
        }
    }

    fn ordered(mut self, order: &str, limit: Option<usize>) -> Self {
        self.sql += &format!(" ORDER BY {order}");
        if let Some(limit) = limit {
            self.values.push(i64::try_from(limit).unwrap_or(i64::MAX).into());
            self.sql += &format!(" LIMIT ?{}", self.values.len());
        }
        self
    }
}

/// Tasks `t` with bodies `b` and leases `l`; `held` is how the database best finds those with a lease.
pub(crate) fn list_tasks(
    select: &str,
    values: Vec<Cell>,
    query: &TaskQuery,
    held: &str,
) -> Statement {
    let mut list = Statement::new(select, values);
    list.among("t.status", query.statuses.iter().map(|status| status.code()));
    let is_rarer = query.in_doubt || query.held || query.held_by.is_some();
    let is_open = !query.statuses.iter().any(|status| status.is_terminal());
    if !query.statuses.is_empty() && is_open && !is_rarer {
        // Said once more in the words of the index, which knows open tasks alone.
        list.and("t.status < 10");
    }
    list.compare("t.agent = ?", query.agent.as_ref().map(|agent| agent.as_str()));
    list.compare("b.folder = ?", query.checkpoint_folder.as_deref());
    list.compare("l.attempt = ?", query.held_by.as_ref().map(|tag| tag.as_str()));
    if query.held {
        list.and(held);
    }
    if query.in_doubt {
        list.and("t.steps_open > 0");
    }
    let after = query.after.as_ref().map(|after| after.as_str());
    list.compare("t.n > (SELECT n FROM task WHERE id = ?)", after);
    list.ordered("t.n", query.limit)
}

pub(crate) fn list_agents(select: &str, values: Vec<Cell>, query: &AgentQuery) -> Statement {
    let mut list = Statement::new(select, values);
    list.among("state", query.states.iter().map(|state| state_code(*state)));
    list.compare("name > ?", query.after.as_ref().map(|after| after.as_str()));
    list.ordered("name", query.limit)
}

/// Attempts `a`.
pub(crate) fn list_attempts(select: &str, query: &AttemptQuery) -> Statement {
    let mut list = Statement::new(select, Vec::new());
    let agent = query.agent.as_ref().map(|agent| agent.as_str());
    list.compare("a.agent = (SELECT n FROM agent WHERE name = ?)", agent);
    if query.ended {
        list.and("a.cause IS NOT NULL");
    }
    // Both orders are the same for one agent, and each has its index.
    let order = if agent.is_some() { "a.number" } else { "a.n" };
    let before = format!("{order} < (SELECT {order} FROM attempt a WHERE a.tag = ?)");
    list.compare(&before, query.before.as_ref().map(|tag| tag.as_str()));
    list.ordered(&format!("{order} DESC"), Some(query.limit))
}

pub(crate) fn list_sessions(select: &str, values: Vec<Cell>, query: &SessionQuery) -> Statement {
    let mut list = Statement::new(select, values);
    list.among("state", query.states.iter().map(|state| state.code()));
    if !query.states.is_empty() && !query.states.contains(&SessionStateKind::Idle) {
        // The very words of the index: SQLite proves nothing by arithmetic.
        list.and("state > 1");
    }
    if query.seen {
        list.and("seen_at IS NOT NULL");
    }
    list.compare("key > ?", query.after.as_ref().map(|after| after.as_str()));
    list.ordered("key", query.limit)
}
