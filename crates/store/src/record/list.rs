//! The SQL of list queries, for both databases.

use relight_core::event::EventKind;
use relight_core::session::SessionStateKind;
use serde_json::Value;

use super::{BadValue, Cell, RowReader, state_code};
use crate::contract::{AgentQuery, AttemptQuery, EventQuery, KeptRange, SessionQuery, TaskQuery};

/// A statement with numbered parameters (`?3`, which PostgreSQL writes `$3`).
pub(crate) struct Statement {
    pub(crate) sql: String,
    pub(crate) values: Vec<Cell>,
}

impl Statement {
    /// `values` are the parameters of `select`.
    fn new(select: &str, values: Vec<Cell>) -> Self {
        Self {
            sql: format!("{select} WHERE true"),
            values,
        }
    }

    fn and(&mut self, condition: &str) {
        self.sql += &format!(" AND {condition}");
    }

    /// Adds the condition, in which `?` is the value; nothing without a value.
    fn compare(&mut self, condition: &str, value: Option<&str>) {
        let Some(value) = value else { return };
        self.values.push(value.into());
        self.and(&condition.replace('?', &format!("?{}", self.values.len())));
    }

    /// Adds nothing if there are no codes.
    fn among(&mut self, column: &str, codes: impl Iterator<Item = u8>) {
        let codes: Vec<String> = codes.map(|code| code.to_string()).collect();
        if !codes.is_empty() {
            self.and(&format!("{column} IN ({})", codes.join(",")));
        }
    }

    fn ordered(mut self, order: &str, limit: Option<usize>) -> Self {
        self.sql += &format!(" ORDER BY {order}");
        if let Some(limit) = limit {
            self.values
                .push(i64::try_from(limit).unwrap_or(i64::MAX).into());
            self.sql += &format!(" LIMIT ?{}", self.values.len());
        }
        self
    }
}

/// What the databases write in different ways about tasks.
pub(crate) struct TaskConditions {
    /// It is held.
    pub(crate) held: &'static str,
    /// Title and declared steps as one text.
    pub(crate) words: &'static str,
}

/// The tables are `task t`, `task_body b` and `lease l`.
pub(crate) fn list_tasks(
    select: &str,
    values: Vec<Cell>,
    query: &TaskQuery,
    sql: &TaskConditions,
) -> Statement {
    let mut list = Statement::new(select, values);
    list.among(
        "t.status",
        query.statuses.iter().map(|status| status.code()),
    );
    let is_rarer = query.in_doubt || query.held || query.held_by.is_some();
    let is_open = !query.statuses.iter().any(|status| status.is_terminal());
    if !query.statuses.is_empty() && is_open && !is_rarer {
        // Repeats the condition of the partial index on open tasks.
        list.and("t.status < 10");
    }
    list.compare(
        "t.agent = ?",
        query.agent.as_ref().map(|agent| agent.as_str()),
    );
    list.compare("b.folder = ?", query.checkpoint_folder.as_deref());
    list.compare(
        "l.attempt = ?",
        query.held_by.as_ref().map(|tag| tag.as_str()),
    );
    if query.held {
        list.and(sql.held);
    }
    if query.in_doubt {
        list.and("t.steps_open > 0");
    }
    let find = query.find.as_deref().map(like);
    let found = format!(
        "(lower(t.id || ' ' || {}) LIKE ? ESCAPE '!' OR EXISTS (SELECT 1 FROM journal j
            WHERE j.task = t.n AND j.name IS NOT NULL AND j.id > t.steps_from
              AND lower(j.name) LIKE ? ESCAPE '!'))",
        sql.words
    );
    list.compare(&found, find.as_deref());
    let after = query.after.as_ref().map(|after| after.as_str());
    let (order, beyond) = if query.newest {
        ("t.n DESC", "t.n < (SELECT n FROM task WHERE id = ?)")
    } else {
        ("t.n", "t.n > (SELECT n FROM task WHERE id = ?)")
    };
    list.compare(beyond, after);
    list.ordered(order, query.limit)
}

/// The pattern of a text that contains this one.
fn like(text: &str) -> String {
    let mut pattern = String::from("%");
    for letter in text.to_ascii_lowercase().chars() {
        if matches!(letter, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(letter);
    }
    pattern + "%"
}

pub(crate) fn list_agents(select: &str, values: Vec<Cell>, query: &AgentQuery) -> Statement {
    let mut list = Statement::new(select, values);
    list.among("state", query.states.iter().map(|state| state_code(*state)));
    list.compare("name > ?", query.after.as_ref().map(|after| after.as_str()));
    list.ordered("name", query.limit)
}

/// The table is `attempt a`.
pub(crate) fn list_attempts(select: &str, query: &AttemptQuery) -> Statement {
    let mut list = Statement::new(select, Vec::new());
    let agent = query.agent.as_ref().map(|agent| agent.as_str());
    list.compare("a.agent = (SELECT n FROM agent WHERE name = ?)", agent);
    if query.ended {
        list.and("a.cause IS NOT NULL");
    }
    // Within an agent both orders are the same; each has its own index.
    let order = if agent.is_some() { "a.number" } else { "a.n" };
    let before = format!("{order} < (SELECT {order} FROM attempt a WHERE a.tag = ?)");
    list.compare(&before, query.before.as_ref().map(|tag| tag.as_str()));
    list.ordered(&format!("{order} DESC"), Some(query.limit))
}

pub(crate) fn list_kept(range: &KeptRange) -> Statement {
    let mut list = Statement::new("SELECT name, body FROM kept", Vec::new());
    list.compare("name >= ?", Some(&range.from));
    list.compare("name < ?", Some(&range.to));
    let order = if range.descending {
        "name DESC"
    } else {
        "name"
    };
    list.ordered(order, range.limit)
}

/// A row of `list_kept`.
pub(crate) fn read_kept(row: &mut RowReader<'_>) -> Result<(String, Value), BadValue> {
    Ok((row.text("kept.name")?.into_owned(), row.json("kept.body")?))
}

pub(crate) fn list_sessions(select: &str, values: Vec<Cell>, query: &SessionQuery) -> Statement {
    let mut list = Statement::new(select, values);
    list.among("state", query.states.iter().map(|state| state.code()));
    if !query.states.is_empty() && !query.states.contains(&SessionStateKind::Idle) {
        // Repeats the condition of the partial index: SQLite does not derive it.
        list.and("state > 1");
    }
    if query.seen {
        list.and("seen_at IS NOT NULL");
    }
    list.compare("key > ?", query.after.as_ref().map(|after| after.as_str()));
    list.ordered("key", query.limit)
}

/// Event kinds with an index of their own, whose condition is `kind IN (21, 22, 23)`.
const OF_ATTEMPTS: [EventKind; 3] = [
    EventKind::AttemptBegun,
    EventKind::AttemptStarted,
    EventKind::AttemptDied,
];

/// Columns as `read_event` needs them, of `journal j`; `?1` and `?2` are the ids between which events are
/// looked for. `by_index` makes the database use the index of attempts: it gets the condition on the kind, the
/// order and the limit.
pub(crate) fn list_events(
    query: &EventQuery,
    by_index: impl Fn(&str, &str, usize) -> String,
) -> Statement {
    let select = "
        SELECT j.id, j.at, j.kind, t.id, j.name, j.occurrence, j.fence,
               CASE WHEN j.exit_code IS NULL THEN j.detail END, j.exit_code, a.name
        FROM journal j LEFT JOIN task t ON t.n = j.task LEFT JOIN agent a ON a.n = j.agent";
    let number = |id: u64| Cell::from(i64::try_from(id).unwrap_or(i64::MAX));
    let values = vec![
        number(query.after),
        number(query.before.unwrap_or(u64::MAX)),
    ];
    let mut list = Statement::new(select, values);
    list.and("j.id > ?1 AND j.id < ?2");
    let task = query.task.as_ref().map(|task| task.as_str());
    list.compare("j.task = (SELECT n FROM task WHERE id = ?)", task);
    let agent = query.agent.as_ref().map(|agent| agent.as_str());
    list.compare("j.agent = (SELECT n FROM agent WHERE name = ?)", agent);
    let order = if query.newest { "DESC" } else { "ASC" };
    let are_of_attempts = query.kinds.iter().all(|kind| OF_ATTEMPTS.contains(kind));
    let codes = query.kinds.iter().map(|kind| kind.code());
    if are_of_attempts && !query.kinds.is_empty() && task.is_none() && agent.is_none() {
        let codes: Vec<String> = codes.map(|code| code.to_string()).collect();
        let limit = query.limit.min(i64::MAX as usize);
        list.and(&by_index(
            &format!("kind IN ({})", codes.join(",")),
            order,
            limit,
        ));
    } else {
        list.among("j.kind", codes);
    }
    list.ordered(&format!("j.id {order}"), Some(query.limit))
}
