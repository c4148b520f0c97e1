//! Loads the working set of a batch in one round trip, and writes what was touched in another.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use relight_core::event::EventKind;
use relight_core::ids::{AgentName, TaskId};
use relight_core::lease::HeldLease;
use tokio_postgres::Row;

use super::connection::{Connection, Script, get, values};
use super::error::PostgresFailure;
use super::lease_clock::NOW_MS;
use super::{agents, attempts, journal, named_records, nodes, rows, sessions, tasks, text};
use crate::apply::{
    AgentEntry, Concern, JournalEntry, NodeRow, RecordEntry, SessionEntry, TaskEntry, TaskParts,
    WorkingSet,
};
use crate::bodies::to_json;
use crate::record::{
    BadValue, agent_row, attempt_row, bad_value, body_row, from_json, hot_row, lease_row, node_row,
    parse, read_agent, read_task, session_row, step_state, task_row,
};
use crate::record::{Column, Row as CellRow, Table};

/// The lease clock, read after all rows are locked.
static CLOCK: LazyLock<String> = LazyLock::new(|| format!("SELECT {NOW_MS}"));

/// Loads what a concern names.
pub(super) struct Load<'c, 'o>(pub(super) &'c Concern<'o>);

impl Load<'_, '_> {
    /// Adds the queries to the script. Rows are locked first, in the same order by every writer; later
    /// statements see what was committed while the locks were waited for.
    fn ask(&self, script: &mut Script, ahead_ms: i64) -> Places {
        let concern = self.0;
        let mut ask = |is_wanted: bool, sql: &'static str, values: Vec<_>| {
            is_wanted.then(|| script.add(sql, values))
        };
        let list = |names: &mut dyn Iterator<Item = &str>| -> Vec<String> {
            names.map(str::to_owned).collect()
        };
        let some_tasks = |wanted: &dyn Fn(&TaskParts) -> bool| {
            let tasks = concern.tasks.iter().filter(|(_, parts)| wanted(parts));
            list(&mut tasks.map(|(id, _)| id.as_str()))
        };
        let waited = some_tasks(&|parts| !parts.is_passed_over());
        let free = some_tasks(&TaskParts::is_passed_over);
        let (bodies, leases) = (
            some_tasks(&|parts| parts.body),
            some_tasks(&|parts| parts.holder),
        );
        let agents = list(&mut concern.agents.iter().map(|name| name.as_str()));
        let sessions = list(&mut concern.sessions.iter().map(|key| key.as_str()));
        let records: Vec<String> = concern
            .records
            .iter()
            .map(|name| text::kept(name).into_owned())
            .collect();
        let nodes = list(&mut concern.nodes.iter().map(|name| name.as_str()));
        let keys = list(&mut concern.keys.iter().map(|key| key.as_str()));
        let steps = || concern.steps.iter();
        let numbers: Vec<i64> = concern
            .attempts
            .iter()
            .map(|(_, number)| i64::from(*number))
            .collect();
        let names = list(&mut concern.attempts.iter().map(|(name, _)| name.as_str()));
        let tags: Vec<String> = concern
            .tags
            .iter()
            .map(|tag| attempts::kept_tag(tag))
            .collect();
        Places {
            tasks: ask(!waited.is_empty(), &tasks::LOCK, values![waited]),
            free_tasks: ask(!free.is_empty(), &tasks::LOCK_FREE, values![free]),
            agents: ask(!agents.is_empty(), &agents::LOCK, values![agents]),
            sessions: ask(!sessions.is_empty(), sessions::LOCK, values![sessions]),
            records: ask(!records.is_empty(), named_records::LOCK, values![records]),
            nodes: ask(!nodes.is_empty(), &nodes::LOCK, values![nodes]),
            bodies: ask(!bodies.is_empty(), tasks::BODIES, values![bodies]),
            leases: ask(!leases.is_empty(), tasks::LEASES, values![leases]),
            steps: ask(
                !concern.steps.is_empty(),
                &journal::STATES,
                values![
                    list(&mut steps().map(|(task, _)| task.as_str())),
                    list(&mut steps().map(|(_, key)| key.name.as_str())),
                    steps()
                        .map(|(_, key)| i64::from(key.occurrence))
                        .collect::<Vec<i64>>(),
                ],
            ),
            keys: ask(!keys.is_empty(), tasks::KEYS, values![keys]),
            attempts: ask(
                !numbers.is_empty(),
                &attempts::CONCERNED,
                values![names, numbers, tags],
            ),
            task_numbers: ask(
                concern.tasks_to_be > 0,
                tasks::NUMBERS,
                values![concern.tasks_to_be as i64],
            ),
            agent_numbers: ask(
                concern.agents_to_be > 0,
                agents::NUMBERS,
                values![concern.agents_to_be as i64],
            ),
            clock: script.add(&CLOCK, values![ahead_ms]),
        }
    }

    /// Reads everything in one round trip, after the statements of `script`.
    pub(super) async fn read(
        &self,
        db: &Connection,
        mut script: Script,
        ahead_ms: i64,
    ) -> Result<(Vec<Vec<Row>>, WorkingSet), PostgresFailure> {
        let places = self.ask(&mut script, ahead_ms);
        let answers = db.run(script).await?;
        let set = self
            .working_set(&answers, &places)
            .map_err(|bad| db.damaged(&bad))?;
        Ok((
            answers,
            WorkingSet {
                place: Arc::clone(&db.place),
                ..set
            },
        ))
    }

    fn working_set(&self, answers: &[Vec<Row>], places: &Places) -> Result<WorkingSet, BadValue> {
        let rows = |place: Option<usize>| place.map_or(&[][..], |place| &answers[place]);
        let mut batch = WorkingSet::default();
        for row in rows(places.tasks).iter().chain(rows(places.free_tasks)) {
            let mut entry = rows::read(row, read_task)?;
            entry.lease_until = lease_end(entry.task.lease.held.as_ref());
            batch.tasks.insert(entry.task.id.clone(), Box::new(entry));
        }
        let passed = self
            .0
            .tasks
            .iter()
            .filter(|(_, parts)| parts.is_passed_over());
        let passed = passed
            .map(|(id, _)| *id)
            .filter(|id| !batch.tasks.contains_key(*id));
        batch.passed = passed.cloned().collect();
        self.fill_tasks(&mut batch, answers, places)?;
        for row in rows(places.keys) {
            batch.keys.insert(
                parse(get(row, 0)?, "task_body.key")?,
                parse(get(row, 1)?, "task.id")?,
            );
        }
        for row in rows(places.agents) {
            let mut entry = rows::read(row, read_agent)?;
            entry.lease_until = lease_end(entry.agent.lease.held.as_ref());
            batch.agents.rows.insert(entry.agent.name.clone(), entry);
        }
        for row in rows(places.attempts) {
            batch.agents.know(attempts::read(row)?);
        }
        for row in rows(places.sessions) {
            let entry = SessionEntry {
                seq: get::<i64>(row, 1)?.cast_unsigned(),
                lease_until: get(row, 2)?,
                is_there: true,
                next: None,
            };
            batch
                .sessions
                .insert(parse(get(row, 0)?, "session.key")?, entry);
        }
        for row in rows(places.records) {
            let value = Some(from_json(get(row, 1)?, "kept.body")?);
            let entry = RecordEntry {
                value,
                is_there: true,
                is_changed: false,
            };
            batch.records.insert(text::read(get(row, 0)?), entry);
        }
        for row in rows(places.nodes) {
            batch.nodes.know(nodes::read_locked(row)?);
        }
        batch.task_numbers = descending(rows(places.task_numbers))?;
        batch.agents.numbers = descending(rows(places.agent_numbers))?;
        batch.now_ms = get(&answers[places.clock][0], 0)?;
        Ok(batch)
    }

    /// Adds bodies, holders and step states.
    fn fill_tasks(
        &self,
        batch: &mut WorkingSet,
        answers: &[Vec<Row>],
        places: &Places,
    ) -> Result<(), BadValue> {
        let rows = |place: Option<usize>| place.map_or(&[][..], |place| &answers[place]);
        for row in rows(places.bodies) {
            let id: TaskId = parse(get(row, 0)?, "task.id")?;
            let Some(entry) = batch.tasks.get_mut(&id) else {
                continue;
            };
            let door: Option<&str> = get(row, 3)?;
            entry.task.spec = from_json(get(row, 1)?, "task_body.spec")?;
            entry.task.context = from_json(get(row, 2)?, "task_body.context")?;
            entry.task.checkpoint = door
                .map(|door| from_json(door, "task_body.door"))
                .transpose()?;
        }
        for row in rows(places.leases) {
            let id: TaskId = parse(get(row, 0)?, "task.id")?;
            let held = batch
                .tasks
                .get_mut(&id)
                .and_then(|entry| entry.task.lease.held.as_mut());
            if let Some(held) = held {
                held.holder = from_json(get(row, 1)?, "lease.holder")?;
                held.since = relight_core::time::Time::from_ms(get(row, 2)?);
            }
        }
        let asked: Vec<_> = self.0.steps.iter().collect();
        for row in rows(places.steps) {
            let place = usize::try_from(get::<i64>(row, 0)?).unwrap_or(0);
            let (task, key) = asked[place - 1];
            let code: i16 = get(row, 1)?;
            let kind = u8::try_from(code).ok().and_then(EventKind::from_code);
            let kind = kind.ok_or_else(|| bad_value("journal.kind", code))?;
            let state = step_state(kind, get(row, 2)?)?;
            if let Some(entry) = batch.tasks.get_mut(*task) {
                entry.steps.insert((*key).clone(), state);
            }
        }
        Ok(())
    }
}

/// Sorted so that the last is the smallest.
fn descending(rows: &[Row]) -> Result<Vec<i64>, BadValue> {
    let mut numbers = rows
        .iter()
        .map(|row| get(row, 0))
        .collect::<Result<Vec<i64>, _>>()?;
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    Ok(numbers)
}

/// The place of each query's rows among the answers.
struct Places {
    tasks: Option<usize>,
    free_tasks: Option<usize>,
    agents: Option<usize>,
    sessions: Option<usize>,
    records: Option<usize>,
    nodes: Option<usize>,
    bodies: Option<usize>,
    leases: Option<usize>,
    steps: Option<usize>,
    keys: Option<usize>,
    attempts: Option<usize>,
    task_numbers: Option<usize>,
    agent_numbers: Option<usize>,
    clock: usize,
}

/// The statements that write what was touched, without COMMIT; empty if nothing changed. The journal comes
/// last, because its lock is held until the end of the transaction.
pub(super) fn write(set: &WorkingSet, entries: &[JournalEntry<'_>], journal_key: i64) -> Script {
    let mut script = Script::default();
    let cleared = write_tasks(set.tasks.values().map(|entry| &**entry), &mut script);
    let agents = &set.agents;
    let (new, changed): (Vec<_>, Vec<_>) = agents
        .rows
        .values()
        .filter(|entry| entry.is_changed)
        .partition(|entry| entry.is_new);
    let rows = |entries: Vec<&AgentEntry>| entries.into_iter().map(agent_row).collect();
    add(
        &mut script,
        &agents::INSERT,
        Table::Agent.columns(),
        rows(new),
    );
    add(
        &mut script,
        &agents::UPDATE,
        Table::Agent.columns(),
        rows(changed),
    );
    let attempt = |key: &(AgentName, u32)| {
        without_number(attempt_row(agents.rows[&key.0].n, &agents.attempts[key]))
    };
    let attempts = agents.written.iter().map(attempt).collect();
    add(&mut script, &attempts::WRITE, attempts::written(), attempts);
    write_sessions(set.sessions.values(), &mut script);
    write_records(&set.records, &mut script);
    let (new, changed, gone) = set.nodes.written();
    let rows = |nodes: Vec<&NodeRow>| nodes.into_iter().map(node_row).collect();
    add(
        &mut script,
        &nodes::INSERT,
        Table::Node.columns(),
        rows(new),
    );
    add(
        &mut script,
        &nodes::UPDATE,
        Table::Node.columns(),
        rows(changed),
    );
    let gone: Vec<String> = gone
        .into_iter()
        .map(|name| name.as_str().to_owned())
        .collect();
    if !gone.is_empty() {
        script.add(nodes::DELETE, values![gone]);
    }
    if !entries.is_empty() {
        journal::append(&mut script, journal_key, entries);
    }
    if !cleared.is_empty() {
        script.add(&tasks::CLEAR_STEPS, values![cleared]);
    }
    script
}

/// Adds a statement, unless it has no rows.
fn add(script: &mut Script, sql: &'static str, columns: &[Column], rows: Vec<CellRow>) {
    if !rows.is_empty() {
        script.add(sql, rows::lists_of(columns, rows));
    }
}

fn without_number(row: CellRow) -> CellRow {
    row.into_iter().skip(1).collect()
}

/// Returns the tasks whose steps were cleared.
fn write_tasks<'e>(entries: impl Iterator<Item = &'e TaskEntry>, script: &mut Script) -> Vec<i64> {
    let (mut new, mut changed, mut bodies, mut leases) = Default::default();
    let (mut ended, mut cleared): (Vec<i64>, Vec<i64>) = Default::default();
    let with_number = |n: i64, row: CellRow| [vec![n.into()], row].concat();
    for entry in entries {
        let (touched, task) = (&entry.touched, &entry.task);
        cleared.extend(touched.cleared.then_some(entry.n));
        if touched.is_new {
            Vec::push(&mut new, task_row(entry));
            continue;
        }
        if touched.hot {
            Vec::push(&mut changed, hot_row(entry));
        }
        if touched.body {
            Vec::push(&mut bodies, with_number(entry.n, body_row(task)));
        }
        if touched.lease && task.lease.held.is_some() {
            Vec::push(&mut leases, with_number(entry.n, lease_row(task)));
        } else if touched.lease {
            ended.push(entry.n);
        }
    }
    add(script, &tasks::UPDATE, tasks::hot(), changed);
    add(script, &tasks::INSERT, Table::Task.columns(), new);
    add(script, &tasks::UPDATE_BODIES, &tasks::body(), bodies);
    if !ended.is_empty() {
        script.add(tasks::END_LEASES, values![ended]);
    }
    add(script, &tasks::WRITE_LEASES, &tasks::lease(), leases);
    cleared
}

fn write_sessions<'e>(entries: impl Iterator<Item = &'e SessionEntry>, script: &mut Script) {
    let (mut new, mut changed): (Vec<CellRow>, Vec<CellRow>) = Default::default();
    for entry in entries {
        let Some(next) = &entry.next else { continue };
        let rows = if entry.is_there {
            &mut changed
        } else {
            &mut new
        };
        rows.push(without_number(session_row(next, entry.lease_until)));
    }
    add(script, &sessions::INSERT, sessions::written(), new);
    add(script, &sessions::UPDATE, sessions::written(), changed);
}

fn write_records(entries: &BTreeMap<String, RecordEntry>, script: &mut Script) {
    for (is_there, sql) in [
        (false, &*named_records::INSERT),
        (true, &*named_records::UPDATE),
    ] {
        let wanted = |entry: &RecordEntry| entry.is_changed && entry.is_there == is_there;
        let entries = entries.iter().filter(|(_, entry)| wanted(entry));
        let row = |(name, entry): (&String, &RecordEntry)| {
            vec![name.as_str().into(), to_json(&entry.value).into()]
        };
        add(
            script,
            sql,
            Table::Kept.columns(),
            entries.map(row).collect(),
        );
    }
}

/// The end of a lease that was selected with `Lease::Until`.
fn lease_end(held: Option<&HeldLease>) -> Option<i64> {
    held.and_then(|held| held.left)
        .map(|end| end.as_ms().cast_signed())
}
