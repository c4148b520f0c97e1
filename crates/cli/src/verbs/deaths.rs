//! `relight deaths`: how attempts ended, and what was found then.

use relight_core::agent::{Attempt, PostMortem, RecordedDeath};
use relight_core::error_code::ErrorCode;
use relight_core::ids::{AgentName, NodeName};
use relight_core::time::Span;
use relight_runtime::engine::ActError;
use relight_runtime::operations::death;
use relight_runtime::operations::view::List;
use relight_store::{AgentQuery, AttemptQuery, Store};
use serde_json::{Value, json};

use super::ps::to_second;
use crate::arguments::agent::DeathsArguments;
use crate::environment::Environment;
use crate::exit::{Failure, Outcome};
use crate::{block_on, output};

pub(crate) fn run(environment: &Environment, arguments: &DeathsArguments) -> Outcome {
    let engine = environment.engine()?;
    let (deaths, next) = block_on(deaths(engine.store().as_ref(), arguments))?;
    let values: Vec<&Value> = deaths.iter().map(|death| &death.json).collect();
    let page = List::new(values, next);
    output::answer(environment, &page, &text(arguments, &deaths));
    Ok(0)
}

/// An attempt that ended.
struct DeadAttempt {
    agent: AgentName,
    number: u32,
    /// The node of a fleet that it ran on.
    node: Option<NodeName>,
    ended: RecordedDeath,
    post_mortem: PostMortem,
    json: Value,
}

impl DeadAttempt {
    fn of(attempt: Attempt) -> Option<Self> {
        Some(Self {
            json: json!(death::DeathView::of(attempt.clone())?),
            node: attempt.node().cloned(),
            agent: attempt.agent,
            number: attempt.number,
            ended: attempt.ended?,
            post_mortem: attempt.post_mortem.unwrap_or_default(),
        })
    }

    fn row(&self) -> Vec<String> {
        let death = &self.ended.death;
        vec![
            to_second(death.at),
            self.agent.to_string(),
            self.number.to_string(),
            self.ended.cause.to_string(),
            self.ended.in_words(),
            self.ended.lived_in_words(),
            death.note.clone().unwrap_or_default(),
        ]
    }

    /// Of many finished steps only some are kept.
    fn done_text(&self) -> Option<String> {
        let PostMortem {
            done, done_count, ..
        } = &self.post_mortem;
        let names = done.join(", ");
        let is_all = *done_count <= done.len() as u64;
        match (done.is_empty(), is_all) {
            (true, _) => None,
            (false, true) => Some(names),
            (false, false) => Some(format!("{done_count} steps, the last: {names}")),
        }
    }

    fn in_full(&self) -> String {
        let (death, found) = (&self.ended.death, &self.post_mortem);
        let list = |steps: &[String]| (!steps.is_empty()).then(|| steps.join(", "));
        let count = |count: u32| (count > 0).then(|| count.to_string());
        let facts = [
            (
                "agent",
                Some(format!("{}, attempt {}", self.agent, self.number)),
            ),
            ("node", self.node.as_ref().map(ToString::to_string)),
            (
                "died",
                Some(format!(
                    "{} after {}",
                    death.at,
                    self.ended.lived_in_words()
                )),
            ),
            ("last sign", death.last_sign.map(|at| at.to_string())),
            ("cause", Some(self.ended.cause_in_words())),
            ("note", death.note.clone()),
            ("task", found.task.clone()),
            ("last step", found.last_step.clone()),
            ("done", self.done_text()),
            ("in doubt", list(&found.in_doubt)),
            ("next", found.next.clone()),
            (
                "memory",
                found
                    .memory_max_kib
                    .map(|kib| format!("{} MiB at most", kib.div_ceil(1024))),
            ),
            ("cpu", found.cpu_ms.map(|ms| Span::from_ms(ms).to_string())),
            ("leftovers", count(found.leftovers)),
            ("survivors", count(found.survivors)),
        ];
        let present = facts
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        let rows: Vec<_> = present
            .map(|(name, value)| vec![name.to_owned(), value])
            .collect();
        let mut text = output::facts(&rows);
        if !found.last_output.trim().is_empty() {
            text += "\n\nlast output:\n";
            text += found.last_output.trim_end();
        }
        text
    }
}

async fn deaths(
    store: &dyn Store,
    arguments: &DeathsArguments,
) -> Result<(Vec<DeadAttempt>, Option<String>), Failure> {
    let mut limit = arguments.newest;
    if let Some(name) = &arguments.name {
        let agent = store
            .agent(name)
            .await?
            .ok_or_else(|| ActError::NoSuchAgent(name.clone()))?;
        if let Some(number) = arguments.attempt {
            // They are numbered in order: the wanted one is so far from the newest.
            limit = agent.attempt_number.saturating_sub(number) as usize + 1;
        }
    }
    let (mut deaths, mut next) = newest(store, arguments.name.as_ref(), limit).await?;
    if let (Some(name), Some(number)) = (&arguments.name, arguments.attempt) {
        deaths.retain(|death| death.number == number);
        next = None;
        if deaths.is_empty() {
            let text = format!("there is no death of attempt {number} of agent {name}");
            return Err(
                Failure::of(ErrorCode::NOT_FOUND, text).hint(format!("relight deaths {name}"))
            );
        }
    }
    Ok((deaths, next))
}

/// The newest deaths, newest first, and the tag of the last of them where there are more. Attempts of several agents do not end in the order in which they
/// began, so each agent is asked for its own.
async fn newest(
    store: &dyn Store,
    name: Option<&AgentName>,
    limit: usize,
) -> Result<(Vec<DeadAttempt>, Option<String>), Failure> {
    let names = match name {
        Some(name) => vec![name.clone()],
        None => {
            let agents = store.agents(AgentQuery::default()).await?;
            agents.into_iter().map(|agent| agent.name).collect()
        }
    };
    let mut deaths = Vec::new();
    for name in names {
        let query = AttemptQuery {
            agent: Some(name),
            ended: true,
            limit: limit.saturating_add(1),
            before: None,
        };
        deaths.extend(
            store
                .attempts(query)
                .await?
                .into_iter()
                .filter_map(DeadAttempt::of),
        );
    }
    // A stable order: those of one agent keep theirs where two died at one moment.
    deaths.sort_by_key(|death| std::cmp::Reverse(death.ended.death.at));
    let has_more = deaths.len() > limit;
    deaths.truncate(limit);
    let last = deaths.last().filter(|_| has_more);
    let next = last.and_then(|death| death.json["tag"].as_str().map(str::to_owned));
    Ok((deaths, next))
}

fn text(arguments: &DeathsArguments, deaths: &[DeadAttempt]) -> String {
    let (Some(newest), is_one) = (deaths.first(), arguments.attempt.is_some()) else {
        return match &arguments.name {
            Some(name) => format!("no attempt of agent {name} has ended"),
            None => "no agent has died; relight ps shows what runs".to_owned(),
        };
    };
    if is_one {
        return newest.in_full();
    }
    let header = ["time", "agent", "attempt", "cause", "how", "lived", "note"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(deaths.iter().map(DeadAttempt::row));
    let mut text = output::table(&rows);
    if arguments.name.is_some() {
        text += &format!("\n\nthe newest:\n\n{}", newest.in_full());
    }
    text
}
