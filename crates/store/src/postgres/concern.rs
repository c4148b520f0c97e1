//! What a batch of operations must read, in one trip, and what it writes, in another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use relight_core::agent::change::AgentChange;
use relight_core::change::Change;
use relight_core::ids::TaskId;
use relight_core::step::StepKey;
use tokio_postgres::Row;

use super::apply::{Batch, RecordEntry, SessionEntry, TaskEntry, Touched};
use super::apply_agent::AgentEntry;
use super::connection::{Connection, Script, get, values};
use super::error::{BadValue, Failure};
use super::lease_clock::NOW_MS;
use super::operation::Operation;
use super::tasks::{
    BodyColumns, HotColumns, LeaseColumns, from_json, parse, read_body, read_hot, unsigned,
};
use super::{agents, attempts, journal, kept, nodes, sessions, tasks, text};
use crate::check;
use crate::contract::{AgentCommit, Commit};

/// The lease clock, asked after all rows are held.
static CLOCK: LazyLock<String> = LazyLock::new(|| format!("SELECT {NOW_MS}"));

/// Everything that the operations of a batch look at.
#[derive(Debug, Default)]
pub(super) struct Concern {
    tasks: BTreeSet<String>,
    bodies: BTreeSet<String>,
    leases: BTreeSet<String>,
    steps: BTreeSet<(TaskId, StepKey)>,
    keys: BTreeSet<String>,
    tasks_to_be: i64,
    agents: BTreeSet<String>,
    agents_to_be: i64,
    attempts: BTreeSet<(String, i64)>,
    tags: BTreeSet<String>,
    sessions: BTreeSet<String>,
    records: BTreeSet<String>,
    nodes: BTreeSet<String>,
}

impl Concern {
    pub(super) fn of(operations: &[Operation]) -> Self {
        let mut concern = Self::default();
        for operation in operations {
            match operation {
                Operation::Commit(commit) => concern.add_task(commit),
                Operation::Renew(task, _) => {
                    concern.tasks.insert(task.as_str().to_owned());
                }
                Operation::CommitAgent(commit) => concern.add_agent(commit),
                Operation::CommitSessions(changes, _) => {
                    let keys = changes.iter().map(|change| change.next.key.as_str().to_owned());
                    concern.sessions.extend(keys);
                }
                Operation::Keep { name, .. } => {
                    concern.records.insert(text::kept(name).into_owned());
                }
                Operation::JoinNode(node, ..) => {
                    concern.nodes.insert(node.name.as_str().to_owned());
                }
                Operation::LeaveNode(name, ..)
                | Operation::DrainNode(name, ..)
                | Operation::ForgetNode(name, _) => {
                    concern.nodes.insert(name.as_str().to_owned());
                }
            }
        }
        concern
    }

    fn add_task(&mut self, commit: &Commit) {
        let id = commit.task.as_str();
        self.tasks.insert(id.to_owned());
        self.keys.extend(check::key_given(commit).map(|key| key.as_str().to_owned()));
        for change in &commit.changes {
            match change {
                Change::Created(_) => self.tasks_to_be += 1,
                Change::Replaced(_)
                | Change::Door(_)
                | Change::ContextSet(_)
                | Change::StepsDeclared(_) => {
                    self.bodies.insert(id.to_owned());
                }
                // Their events name the holder.
                Change::LeaseEnded | Change::FenceRaised => {
                    self.leases.insert(id.to_owned());
                }
                _ => {}
            }
            if let Some(mark) = change.mark() {
                self.steps.insert((commit.task.clone(), mark.key.clone()));
            }
        }
    }

    fn add_agent(&mut self, commit: &AgentCommit) {
        let name = commit.agent.as_str();
        self.agents.insert(name.to_owned());
        for change in &commit.changes {
            self.agents_to_be += i64::from(matches!(change, AgentChange::Created(_)));
            if let Some(number) = change.attempt() {
                self.attempts.insert((name.to_owned(), number.into()));
            }
            if let AgentChange::Begun { tag, .. } = change {
                self.tags.insert(attempts::kept_tag(tag));
            }
        }
    }

    /// What is asked, after what the script has already. Rows are locked first, in one order for all;
    /// what belongs to them is read by later statements, which see what the locks waited for.
    fn ask(&self, script: &mut Script, ahead_ms: i64) -> Places {
        let list = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<String>>();
        let mut ask = |is_wanted: bool, sql: &'static str, values: Vec<_>| {
            is_wanted.then(|| script.add(sql, values))
        };
        let has_attempts = !self.attempts.is_empty();
        let (names, numbers): (Vec<String>, Vec<i64>) = self.attempts.iter().cloned().unzip();
        let steps = || self.steps.iter();
        Places {
            tasks: ask(!self.tasks.is_empty(), &tasks::LOCK, values![list(&self.tasks)]),
            agents: ask(
                !self.agents.is_empty(),
                &agents::LOCK,
                values![ahead_ms, list(&self.agents)],
            ),
            sessions: ask(!self.sessions.is_empty(), sessions::LOCK, values![list(&self.sessions)]),
            records: ask(!self.records.is_empty(), kept::LOCK, values![list(&self.records)]),
            nodes: ask(!self.nodes.is_empty(), &nodes::LOCK, values![ahead_ms, list(&self.nodes)]),
            bodies: ask(!self.bodies.is_empty(), tasks::BODIES, values![list(&self.bodies)]),
            leases: ask(!self.leases.is_empty(), tasks::LEASES, values![list(&self.leases)]),
            steps: ask(
                !self.steps.is_empty(),
                &journal::STATES,
                values![
                    steps().map(|(task, _)| task.as_str().to_owned()).collect::<Vec<String>>(),
                    steps().map(|(_, key)| key.name.as_str().to_owned()).collect::<Vec<String>>(),
                    steps().map(|(_, key)| i64::from(key.occurrence)).collect::<Vec<i64>>(),
                ],
            ),
            keys: ask(!self.keys.is_empty(), tasks::KEYS, values![list(&self.keys)]),
            attempts: ask(
                has_attempts,
                attempts::CONCERNED,
                values![names, numbers, list(&self.tags)],
            ),
            task_numbers: ask(self.tasks_to_be > 0, tasks::NUMBERS, values![self.tasks_to_be]),
            agent_numbers: ask(self.agents_to_be > 0, agents::NUMBERS, values![self.agents_to_be]),
            clock: script.add(&CLOCK, values![ahead_ms]),
        }
    }

    /// Reads everything in one trip; `script` is sent before it, its own rows are passed over.
    pub(super) async fn read(
        &self,
        db: &Connection,
        mut script: Script,
        ahead_ms: i64,
    ) -> Result<(Vec<Vec<Row>>, Batch), Failure> {
        let places = self.ask(&mut script, ahead_ms);
        let answers = db.run(script).await?;
        let batch = self.batch(&answers, &places).map_err(|bad| db.damaged(&bad))?;
        Ok((answers, Batch { place: db.place.to_string(), ..batch }))
    }

    fn batch(&self, answers: &[Vec<Row>], places: &Places) -> Result<Batch, BadValue> {
        let rows = |place: Option<usize>| place.map_or(&[][..], |place| &answers[place]);
        let mut batch = Batch::default();
        for row in rows(places.tasks) {
            let row = read_hot(row)?;
            let (id, steps, touched) =
                (row.task.id.clone(), Default::default(), Touched::default());
            batch.tasks.insert(id, TaskEntry { row, steps, touched });
        }
        self.fill_tasks(&mut batch, answers, places)?;
        for row in rows(places.keys) {
            batch
                .keys
                .insert(parse(get(row, 0)?, "task_body.key")?, parse(get(row, 1)?, "task.id")?);
        }
        for row in rows(places.agents) {
            let row = agents::read(row)?;
            let entry = AgentEntry { is_new: false, is_changed: false, row };
            batch.agents.rows.insert(entry.row.agent.name.clone(), entry);
        }
        for row in rows(places.attempts) {
            batch.agents.know(attempts::read(row)?);
        }
        for row in rows(places.sessions) {
            let entry = SessionEntry {
                seq: unsigned(row, 1)?,
                lease_until: get(row, 2)?,
                is_there: true,
                next: None,
            };
            batch.sessions.insert(parse(get(row, 0)?, "session.key")?, entry);
        }
        for row in rows(places.records) {
            let value = Some(from_json(get(row, 1)?, "kept.body")?);
            let entry = RecordEntry { value, is_there: true, is_changed: false };
            batch.records.insert(text::read(get(row, 0)?), entry);
        }
        for row in rows(places.nodes) {
            batch.nodes.know(nodes::read(row)?);
        }
        batch.task_numbers = descending(rows(places.task_numbers))?;
        batch.agents.numbers = descending(rows(places.agent_numbers))?;
        batch.now_ms = get(&answers[places.clock][0], 0)?;
        Ok(batch)
    }

    /// What the hot rows do not have.
    fn fill_tasks(
        &self,
        batch: &mut Batch,
        answers: &[Vec<Row>],
        places: &Places,
    ) -> Result<(), BadValue> {
        let rows = |place: Option<usize>| place.map_or(&[][..], |place| &answers[place]);
        for row in rows(places.bodies) {
            let id: TaskId = parse(get(row, 0)?, "task.id")?;
            let body = read_body(row, 1)?;
            if let Some(entry) = batch.tasks.get_mut(&id) {
                let task = &mut entry.row.task;
                (task.spec, task.context, task.checkpoint) =
                    (body.spec, body.context, body.checkpoint);
            }
        }
        for row in rows(places.leases) {
            let id: TaskId = parse(get(row, 0)?, "task.id")?;
            let held =
                batch.tasks.get_mut(&id).and_then(|entry| entry.row.task.lease.held.as_mut());
            if let Some(held) = held {
                held.holder = from_json(get(row, 1)?, "lease.holder")?;
                held.since = relight_core::time::Time::from_ms(get(row, 2)?);
            }
        }
        let asked: Vec<_> = self.steps.iter().collect();
        for row in rows(places.steps) {
            let place = usize::try_from(get::<i64>(row, 0)?).unwrap_or(0);
            let (task, key) = asked[place - 1];
            let state = journal::state(get(row, 1)?, get(row, 2)?)?;
            if let Some(entry) = batch.tasks.get_mut(task) {
                entry.steps.insert(key.clone(), state);
            }
        }
        Ok(())
    }
}

/// Taken from the end, the smallest comes first.
fn descending(rows: &[Row]) -> Result<Vec<i64>, BadValue> {
    let mut numbers = rows.iter().map(|row| get(row, 0)).collect::<Result<Vec<i64>, _>>()?;
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    Ok(numbers)
}

/// Where the rows of each question are among the answers.
struct Places {
    tasks: Option<usize>,
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

impl Batch {
    /// What is to be written, without the commit itself; nothing when nothing changed. The journal
    /// comes last: its lock is held for the rest of the transaction.
    pub(super) fn write(self, journal_key: i64) -> Script {
        let mut script = Script::default();
        let cleared = write_tasks(&self.tasks.into_values().collect::<Vec<_>>(), &mut script);
        let (mut new, mut changed) = Default::default();
        let (mut attempts, agents) = (attempts::AttemptColumns::default(), self.agents);
        for entry in agents.rows.values().filter(|entry| entry.is_changed) {
            let columns: &mut agents::AgentColumns =
                if entry.is_new { &mut new } else { &mut changed };
            columns.push(&entry.row);
        }
        for key in &agents.written {
            attempts.push(agents.rows[&key.0].row.n, &agents.attempts[key]);
        }
        add(&mut script, !new.is_empty(), agents::INSERT, || new.into_values());
        add(&mut script, !changed.is_empty(), agents::UPDATE, || changed.into_values());
        add(&mut script, !attempts.is_empty(), attempts::WRITE, || attempts.into_values());
        write_sessions(&self.sessions.into_values().collect::<Vec<_>>(), &mut script);
        write_records(&self.records, &mut script);
        let (new, changed, gone) = self.nodes.written();
        add(&mut script, !new.is_empty(), nodes::INSERT, || new.into_values());
        add(&mut script, !changed.is_empty(), nodes::UPDATE, || changed.into_values());
        add(&mut script, !gone.is_empty(), nodes::DELETE, || values![gone]);
        if !self.journal.is_empty() {
            script.add(journal::LOCK, values![journal_key]);
            script.add(journal::APPEND, journal::append_values(self.journal));
        }
        add(&mut script, !cleared.is_empty(), &tasks::CLEAR_STEPS, || values![cleared]);
        script
    }
}

fn add(
    script: &mut Script,
    is_wanted: bool,
    sql: &'static str,
    values: impl FnOnce() -> Vec<super::connection::Value>,
) {
    if is_wanted {
        script.add(sql, values());
    }
}

/// Answers those whose steps were cleared.
fn write_tasks(entries: &[TaskEntry], script: &mut Script) -> Vec<i64> {
    let (mut new, mut changed) = (HotColumns::default(), HotColumns::default());
    let (mut new_bodies, mut bodies) = (BodyColumns::default(), BodyColumns::default());
    let mut leases = LeaseColumns::default();
    let mut cleared = Vec::new();
    for TaskEntry { row, touched, .. } in entries {
        match touched.is_new {
            true => {
                new.push(row);
                new_bodies.push(row);
            }
            false if touched.hot => changed.push(row),
            false => {}
        }
        if touched.body && !touched.is_new {
            bodies.push(row);
        }
        let has_no_row = touched.is_new && row.task.lease.held.is_none();
        if touched.lease && !has_no_row {
            leases.push(row);
        }
        if touched.cleared {
            cleared.push(row.n);
        }
    }
    add(script, !changed.is_empty(), &tasks::UPDATE, || changed.into_values());
    add(script, !new.is_empty(), &tasks::INSERT, || new.into_values());
    for (columns, sql) in [(bodies, tasks::UPDATE_BODIES), (new_bodies, tasks::INSERT_BODIES)] {
        if !columns.is_empty() {
            let has_needs = columns.has_needs() || sql == tasks::UPDATE_BODIES;
            let (values, needs) = columns.into_values();
            script.add(sql, values);
            add(script, has_needs, tasks::UPDATE_NEEDS, || needs);
        }
    }
    let ended = std::mem::take(&mut leases.ended);
    add(script, !ended.is_empty(), tasks::END_LEASES, || values![ended]);
    add(script, leases.has_held(), tasks::WRITE_LEASES, || leases.into_values());
    cleared
}

fn write_sessions(entries: &[SessionEntry], script: &mut Script) {
    let (mut new, mut changed) = (sessions::SessionColumns::default(), Default::default());
    for entry in entries {
        let Some(next) = &entry.next else { continue };
        let columns: &mut sessions::SessionColumns =
            if entry.is_there { &mut changed } else { &mut new };
        columns.push(next, entry.lease_until);
    }
    add(script, !new.is_empty(), &sessions::INSERT, || new.into_values());
    add(script, !changed.is_empty(), &sessions::UPDATE, || changed.into_values());
}

fn write_records(entries: &BTreeMap<String, RecordEntry>, script: &mut Script) {
    for (is_there, sql) in [(false, kept::INSERT), (true, kept::UPDATE)] {
        let wanted = |entry: &RecordEntry| entry.is_changed && entry.is_there == is_there;
        let (names, bodies): (Vec<String>, Vec<String>) = entries
            .iter()
            .filter(|(_, entry)| wanted(entry))
            .map(|(name, entry)| {
                let value = entry.value.as_ref().expect("what was changed has a value");
                (text::kept(name).into_owned(), value.to_string())
            })
            .unzip();
        add(script, !names.is_empty(), sql, || values![names, bodies]);
    }
}
