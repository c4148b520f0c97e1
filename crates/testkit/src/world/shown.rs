//! What the product says of agents and their deaths in JSON, read with as few assumptions as possible.

use anyhow::Context as _;
use serde_json::Value;

/// One agent of `relight ps --json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownAgent {
    /// Its name.
    pub name: String,
    /// One of the six states.
    pub state: String,
    /// Number of its newest attempt.
    pub attempt_number: u32,
    /// Its leader, while it runs.
    pub pid: Option<u32>,
    /// The process that supervises it; none when it is not told.
    pub supervisor: Option<u32>,
    /// Restarts charged to its budget; none when it is not told.
    pub restarts: Option<u32>,
}

/// One ended attempt of `relight deaths NAME --json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownDeath {
    /// Which attempt.
    pub number: u32,
    /// Why; empty when nothing is told.
    pub cause: String,
}

/// The agents in the answer of `ps --json`.
pub fn agents(answer: &Value) -> anyhow::Result<Vec<ShownAgent>> {
    list(answer, "agents")?
        .iter()
        .map(|one| agent(one).with_context(|| one.to_string()))
        .collect()
}

/// The ended attempts in the answer of `deaths --json`, oldest first; one that still lives is left out.
pub fn deaths(answer: &Value) -> anyhow::Result<Vec<ShownDeath>> {
    let all = list(answer, "deaths")?
        .iter()
        .map(|one| death(one).with_context(|| one.to_string()));
    let mut all: Vec<ShownDeath> = all.collect::<anyhow::Result<_>>()?;
    all.sort_by_key(|death| death.number);
    Ok(all)
}

/// Lists come under their own name or as `items`, as everywhere.
fn list<'a>(answer: &'a Value, name: &str) -> anyhow::Result<&'a Vec<Value>> {
    let found = answer
        .get(name)
        .or_else(|| answer.get("items"))
        .unwrap_or(answer);
    found
        .as_array()
        .with_context(|| format!("no list of {name} in {answer}"))
}

fn agent(one: &Value) -> Option<ShownAgent> {
    Some(ShownAgent {
        name: text(one, &["/name", "/agent"])?,
        state: text(one, &["/state", "/state/state"])?,
        attempt_number: number(one, &["/attempt_number", "/attempt", "/attempt/number"])?,
        pid: number(one, &["/pid", "/process/pid", "/attempt/process/pid"]),
        supervisor: number(one, SUPERVISOR),
        restarts: number(one, &["/restarts", "/restarts_total"]).or_else(|| restarts(one)),
    })
}

const SUPERVISOR: &[&str] = &[
    "/supervisor",
    "/supervisor/pid",
    "/supervisor_pid",
    "/holder/pid",
    "/holder/who/pid",
    "/lease/held/holder/pid",
];

/// The counts by hour, as the store keeps them.
fn restarts(one: &Value) -> Option<u32> {
    let hours = one.pointer("/tally/hours")?.as_array()?;
    hours.iter().map(|hour| number(hour, &["/restarts"])).sum()
}

fn death(one: &Value) -> Option<ShownDeath> {
    let number = number(one, &["/number", "/attempt_number", "/attempt"])?;
    Some(ShownDeath {
        number,
        cause: text(one, &["/cause", "/ended/cause"]).unwrap_or_default(),
    })
}

fn text(one: &Value, pointers: &[&str]) -> Option<String> {
    pointers
        .iter()
        .find_map(|pointer| one.pointer(pointer)?.as_str())
        .map(str::to_owned)
}

fn number(one: &Value, pointers: &[&str]) -> Option<u32> {
    let found = pointers
        .iter()
        .find_map(|pointer| one.pointer(pointer)?.as_u64())?;
    u32::try_from(found).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_agent_is_read_with_what_is_told_of_it() {
        let answer = json!({"agents": [
            {"name": "a", "state": "running", "attempt_number": 3, "pid": 7,
             "tally": {"hours": [{"hour": 1, "restarts": 2}]}},
            {"name": "b", "state": "stopped", "attempt_number": 1, "pid": null},
        ]});
        let shown = agents(&answer).unwrap();
        assert_eq!((shown[0].pid, shown[0].restarts), (Some(7), Some(2)));
        assert_eq!((shown[1].pid, shown[1].supervisor), (None, None));
    }

    #[test]
    fn a_death_without_a_cause_is_seen_as_such() {
        let answer = json!({"items": [{"number": 2, "cause": "signal"}, {"number": 1}]});
        let shown = deaths(&answer).unwrap();
        assert_eq!(
            shown[0],
            ShownDeath {
                number: 1,
                cause: String::new()
            }
        );
        assert_eq!(shown[1].cause, "signal");
    }
}
