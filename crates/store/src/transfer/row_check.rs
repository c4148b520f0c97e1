//! Whether rows say what some version wrote, and agree with each other.
//!
//! Knows no backend. Of every task it remembers a few numbers, and of every step one word, until the
//! journal was read: some 40 bytes a step.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;

use relight_core::agent::Cause;
use relight_core::event::EventKind;
use relight_core::ids::{NodeName, StepName};
use relight_core::step::{StepState, rule_from_code};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::bodies::{AttemptBody, OutputDetail};
use crate::record::{
    BadValue, RowReader, agent_row, read_agent, read_node, read_session, read_task, step_state,
    task_row,
};
use crate::record::{Cell, Row, Table};

/// Most findings that are told one by one.
const TOLD_MAX: usize = 20;

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Findings {
    /// How much.
    pub count: u64,
    /// The first of them, in words.
    pub told: Vec<String>,
}

impl Findings {
    pub(super) fn add(&mut self, finding: String) {
        self.count += 1;
        if self.told.len() < TOLD_MAX {
            self.told.push(finding);
        }
    }
}

/// What people know a row by.
pub(super) fn title(table: Table, row: &Row) -> String {
    RowCheck { table, row }.title()
}

/// Looks at rows as they come by, in the order of `Table::ALL`.
#[derive(Default)]
pub(super) struct Checker {
    findings: Findings,
    tasks: HashMap<i64, TaskSeen>,
    agents: HashMap<i64, AgentSeen>,
    steps: HashMap<(i64, u64), StepState>,
    /// Makes a short number of a step's name; the same one in a task only by a rare chance.
    shortener: RandomState,
}

/// What a task said of itself, and what its records say.
struct TaskSeen {
    id: String,
    fence: i64,
    steps_from: i64,
    done: i64,
    open: i64,
    counted_done: i64,
    counted_open: i64,
}

/// The same for an agent.
struct AgentSeen {
    name: String,
    fence: i64,
    attempt_number: i64,
}

impl Checker {
    pub(super) fn findings(&mut self) -> &mut Findings {
        &mut self.findings
    }

    pub(super) fn add(&mut self, table: Table, rows: &[Row]) {
        for row in rows {
            let look = RowCheck { table, row };
            let found = match table {
                Table::Task => self.task(&look),
                Table::Agent => self.agent(&look),
                Table::Attempt => self.attempt(&look),
                Table::Session => session(&look),
                Table::Node => node(&look),
                Table::Kept => kept(&look),
                Table::Journal => self.record(&look),
            };
            if let Err(what) = found {
                self.findings.add(format!("{}: {what}", look.title()));
            }
        }
    }

    /// After the last row: what the records of tasks come to.
    pub(super) fn finish(mut self) -> Findings {
        let mut tasks: Vec<TaskSeen> = self.tasks.into_values().collect();
        tasks.sort_by(|a, b| a.id.cmp(&b.id));
        for task in tasks {
            let (said, counted) = (
                (task.done, task.open),
                (task.counted_done, task.counted_open),
            );
            if said != counted {
                self.findings.add(format!(
                    "task {}: it says {} steps done and {} open, its records say {} and {}",
                    task.id, said.0, said.1, counted.0, counted.1
                ));
            }
        }
        self.findings
    }

    fn task(&mut self, look: &RowCheck<'_>) -> Result<(), String> {
        let seen = TaskSeen {
            id: look.need_text("id")?.to_owned(),
            fence: look.need("fence")?,
            steps_from: look.need("steps_from")?,
            done: look.need("steps_done")?,
            open: look.need("steps_open")?,
            counted_done: 0,
            counted_open: 0,
        };
        // Known whatever else is wrong with it: its records belong to it.
        self.tasks.insert(look.need("n")?, seen);
        look.need_text("spec")?;
        for column in [
            "fence",
            "seq",
            "steps_done",
            "steps_open",
            "steps_from",
            "cost",
            "turns",
        ] {
            look.not_negative(column)?;
        }
        match (look.need("held")?, look.text("holder")) {
            (0, Some(holder)) => return Err(format!("it is free, but {holder} has a lease")),
            (0, None) | (1, Some(_)) => {}
            (1, None) => return Err("it is held by nobody".to_owned()),
            (other, _) => return Err(format!("held holds {other}")),
        }
        let as_written = task_row(&look.read(read_task)?);
        let twice = [
            "max_retries",
            "priority",
            "needs",
            "key",
            "folder",
            "holder_attempt",
        ];
        twice
            .into_iter()
            .try_for_each(|column| look.same(column, &as_written))
    }

    fn agent(&mut self, look: &RowCheck<'_>) -> Result<(), String> {
        let (name, n, fence) = (
            look.need_text("name")?,
            look.need("n")?,
            look.need("fence")?,
        );
        let unread = AgentSeen {
            name: name.to_owned(),
            fence,
            attempt_number: i64::MAX,
        };
        self.agents.insert(n, unread);
        look.not_negative("fence")?;
        look.not_negative("seq")?;
        let entry = look.read(read_agent)?;
        look.same("state", &agent_row(&entry))?;
        if let Some(seen) = self.agents.get_mut(&n) {
            seen.attempt_number = entry.agent.attempt_number.into();
        }
        Ok(())
    }

    fn attempt(&self, look: &RowCheck<'_>) -> Result<(), String> {
        let number = look.need("number")?;
        look.need_text("tag")?;
        match self.agents.get(&look.need("agent")?) {
            None => return Err("its agent is not there".to_owned()),
            Some(agent) if number > agent.attempt_number => {
                return Err(format!("agent {} has had no attempt {number}", agent.name));
            }
            Some(_) => {}
        }
        let body: AttemptBody = look.json("body")?;
        let cause = body.ended.map(|ended| ended.cause);
        let place = cause.and_then(|cause| Cause::ALL.iter().position(|other| *other == cause));
        let code = place.map(|place| place as i64 + 1);
        if look.number("cause") == code {
            return Ok(());
        }
        Err("cause is not what its body says".to_owned())
    }

    fn record(&mut self, look: &RowCheck<'_>) -> Result<(), String> {
        let code = look.need("kind")?;
        let kind = u8::try_from(code).ok().and_then(EventKind::from_code);
        let kind = kind.ok_or_else(|| format!("kind holds {code}, which is none"))?;
        let fence = look.number("fence").unwrap_or(0);
        if let Some(n) = look.number("agent") {
            let agent = self.agents.get(&n).ok_or("its agent is not there")?;
            not_above(fence, agent.fence, "agent", &agent.name)?;
        }
        let Some(n) = look.number("task") else {
            return look.detail_of_an_event();
        };
        let task = self.tasks.get_mut(&n).ok_or("its task is not there")?;
        not_above(fence, task.fence, "task", &task.id)?;
        let Some(name) = look.text("name") else {
            return look.detail_of_an_event();
        };
        look.parse::<StepName>("name")?;
        let state = look.step_state(kind)?;
        if look.need("id")? <= task.steps_from {
            return Ok(());
        }
        let short = self.shortener.hash_one((name, look.need("occurrence")?));
        let before = self.steps.insert((n, short), state);
        for (state, by) in [(before, -1), (Some(state), 1)] {
            task.counted_done += if state.is_some_and(StepState::is_closed) {
                by
            } else {
                0
            };
            task.counted_open += if state == Some(StepState::Begun) {
                by
            } else {
                0
            };
        }
        Ok(())
    }
}

fn not_above(fence: i64, newest: i64, what: &str, whose: &str) -> Result<(), String> {
    if fence <= newest {
        return Ok(());
    }
    Err(format!(
        "it was written under fence {fence}, but {what} {whose} is at {newest}"
    ))
}

fn session(look: &RowCheck<'_>) -> Result<(), String> {
    let session = look.read(read_session)?;
    look.not_negative("seq")?;
    match session.finished > session.generation {
        true => Err("it finished a turn that was never begun".to_owned()),
        false => Ok(()),
    }
}

fn node(look: &RowCheck<'_>) -> Result<(), String> {
    look.parse::<NodeName>("name")?;
    look.not_negative("epoch")?;
    look.read(read_node).map(|_| ())
}

fn kept(look: &RowCheck<'_>) -> Result<(), String> {
    look.json::<Value>("body").map(|_| ())
}

/// One row, by the names of its columns.
struct RowCheck<'a> {
    table: Table,
    row: &'a Row,
}

impl RowCheck<'_> {
    /// What people know it by.
    fn title(&self) -> String {
        let known_by = match self.table {
            Table::Task => "id",
            Table::Agent | Table::Node | Table::Kept => "name",
            Table::Attempt => "tag",
            Table::Session => "key",
            Table::Journal => "id",
        };
        let table = if self.table == Table::Journal {
            "event"
        } else {
            self.table.name()
        };
        match self.cell(known_by) {
            Cell::Text(text) => format!("{table} {text}"),
            Cell::Number(number) => format!("{table} {number}"),
            Cell::None | Cell::Bytes(_) => format!("{table} without a name"),
        }
    }

    fn cell(&self, column: &str) -> &Cell {
        &self.row[self.table.place(column)]
    }

    fn number(&self, column: &str) -> Option<i64> {
        self.cell(column).number()
    }

    fn text(&self, column: &str) -> Option<&str> {
        self.cell(column).text()
    }

    fn need(&self, column: &str) -> Result<i64, String> {
        self.number(column)
            .ok_or_else(|| format!("it has no {column}"))
    }

    fn need_text(&self, column: &str) -> Result<&str, String> {
        self.text(column)
            .ok_or_else(|| format!("it has no {column}"))
    }

    fn not_negative(&self, column: &str) -> Result<(), String> {
        match self.need(column)? {
            0.. => Ok(()),
            number => Err(format!("{column} holds {number}")),
        }
    }

    fn read<T>(&self, read: fn(&mut RowReader<'_>) -> Result<T, BadValue>) -> Result<T, String> {
        read(&mut RowReader::new(self.row)).map_err(|bad| bad.to_string())
    }

    fn parse<T: FromStr>(&self, column: &str) -> Result<T, String> {
        let text = self.need_text(column)?;
        text.parse().map_err(|_| format!("{column} holds {text:?}"))
    }

    fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T, String> {
        let text = self.need_text(column)?;
        serde_json::from_str(text).map_err(|error| format!("{column} cannot be read: {error}"))
    }

    fn json_some<T: DeserializeOwned>(&self, column: &str) -> Result<Option<T>, String> {
        self.text(column).map(|_| self.json(column)).transpose()
    }

    /// What stands twice must be the same twice.
    fn same(&self, column: &str, as_written: &Row) -> Result<(), String> {
        if *self.cell(column) == as_written[self.table.place(column)] {
            return Ok(());
        }
        Err(format!("{column} is not what its body says"))
    }

    fn detail_of_an_event(&self) -> Result<(), String> {
        self.json_some::<Value>("detail").map(|_| ())
    }

    fn step_state(&self, kind: EventKind) -> Result<StepState, String> {
        let rule = self.need("rule")?;
        if u8::try_from(rule).ok().and_then(rule_from_code).is_none() {
            return Err(format!("rule holds {rule}, which is none"));
        }
        self.not_negative("tries")?;
        match kind {
            EventKind::StepResolved | EventKind::StepSkipped => drop(self.json::<Value>("detail")?),
            EventKind::StepBegun => drop(self.json_some::<Value>("detail")?),
            _ => drop(self.json_some::<OutputDetail>("detail")?),
        }
        step_state(kind, self.text("detail")).map_err(|bad| bad.to_string())
    }
}
