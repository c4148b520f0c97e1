//! `relight ps`: agents as the store has them, with what it says of processes checked. A live
//! supervisor is asked for signs of life; without one nothing is missing but those.

use relight_core::agent::AgentStateKind;
use relight_core::time::Time;
use relight_runtime::drain;
use relight_runtime::operations::agent::{Agent, Supervisor, Truth};
use relight_runtime::operations::live_signs::LiveSigns;
use relight_runtime::operations::view::List;
use relight_runtime::os::clock;
use relight_store::AgentQuery;
use serde_json::json;

use super::operate;
use crate::arguments::agent::PsArguments;
use crate::environment::Environment;
use crate::exit::Outcome;
use crate::{block_on, output};

pub(crate) fn run(environment: &Environment, arguments: &PsArguments) -> Outcome {
    let context = operate::context(environment)?;
    let (mut signs, here) = (LiveSigns::default(), output::here());
    let found = block_on(async {
        let here = here.as_deref();
        match &arguments.name {
            Some(name) => {
                let items = vec![context.show_agent(name, &mut signs, here).await?];
                Ok(List { items, next: None })
            }
            None => {
                let query = AgentQuery {
                    states: arguments.states.clone(),
                    ..AgentQuery::default()
                };
                context.list_agents(query, &mut signs, here).await
            }
        }
    })?;
    let drain = block_on(drain::now(context.engine.store().as_ref()))?;
    let since = drain.map(|drain| drain.since);
    if environment.json {
        let mut answer = json!(found);
        answer["draining_since"] = json!(since);
        output::json(&answer);
    } else if !environment.quiet {
        print(environment, arguments, &found.items);
        if let Some(since) = since {
            output::line(&super::drain::line(since));
        }
    }
    Ok(0)
}

fn restarts_text(agent: &Agent) -> String {
    format!("{} / {}", agent.recoveries_in_a_row, agent.restarts_total)
}

fn last_death_text(agent: &Agent, now: Time) -> String {
    let Some(death) = &agent.last_death else {
        return none();
    };
    let ago = now.since(death.at);
    match death.cause.as_str() {
        // What else there is to say about these the cause does not say.
        "failed" | "signal" => format!("{}: {}, {ago} ago", death.cause, death.how),
        cause => format!("{cause}, {ago} ago"),
    }
}

fn task_text(agent: &Agent) -> Option<String> {
    let at = agent.step.as_ref().or(agent.task_status.as_ref());
    let at = at.map(|at| format!(" · {at}")).unwrap_or_default();
    Some(format!("{}{at}", agent.task.as_ref()?))
}

fn supervisor_text(agent: &Agent) -> String {
    match (&agent.supervisor, agent.truth) {
        (_, Truth::Orphaned) => "none: orphaned".to_owned(),
        (
            Some(Supervisor {
                kind,
                pid,
                alive: true,
                ..
            }),
            _,
        ) => {
            format!("{} {pid}", kind.unwrap_or("pid"))
        }
        (_, Truth::DiedUnnoticed | Truth::Forgotten | Truth::Unheard) => "none".to_owned(),
        (_, Truth::AsRecorded | Truth::NotRecorded) => none(),
    }
}

fn row(agent: &Agent, now: Time) -> Vec<String> {
    vec![
        agent.name.clone(),
        agent.detail.clone(),
        agent.attempt.to_string(),
        agent.pid.map_or_else(none, |pid| pid.to_string()),
        to_second(agent.since),
        restarts_text(agent),
        last_death_text(agent, now),
        task_text(agent).unwrap_or_else(none),
        supervisor_text(agent),
    ]
}

/// One agent, a line a fact.
fn facts(agent: &Agent, now: Time) -> Vec<Vec<String>> {
    let last_sign = agent
        .last_sign_at
        .map(|at| format!("{} ago", now.since(at)));
    let facts = [
        ("agent", Some(agent.name.clone())),
        ("state", Some(agent.detail.clone())),
        ("since", Some(to_second(agent.since))),
        ("attempt", Some(agent.attempt.to_string())),
        ("pid", agent.pid.map(|pid| pid.to_string())),
        (
            "restarts",
            Some(format!("{} (in a row / in all)", restarts_text(agent))),
        ),
        (
            "last death",
            agent
                .last_death
                .as_ref()
                .map(|_| last_death_text(agent, now)),
        ),
        ("last sign", last_sign),
        ("says", agent.status_text.clone()),
        ("task", task_text(agent)),
        ("supervisor", Some(supervisor_text(agent))),
        ("node", agent.node.clone()),
        ("session", agent.session.clone()),
        (
            "round",
            (agent.iteration > 0).then(|| agent.iteration.to_string()),
        ),
        ("preset", Some(agent.preset.clone())),
        ("command", Some(agent.command.join(" "))),
        ("folder", Some(agent.folder.clone())),
    ];
    let present = facts
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    present
        .map(|(name, value)| vec![name.to_owned(), value])
        .collect()
}

/// The colour of its state's first word.
fn colour(agent: &Agent) -> Option<&'static str> {
    match (agent.state, agent.truth) {
        (_, Truth::DiedUnnoticed) | (AgentStateKind::Terminated, _) => Some(RED),
        (_, Truth::Orphaned | Truth::Forgotten | Truth::Unheard | Truth::NotRecorded)
        | (AgentStateKind::Crashed | AgentStateKind::Suspended, _) => Some(YELLOW),
        (AgentStateKind::Running, Truth::AsRecorded) => Some(GREEN),
        (AgentStateKind::Created | AgentStateKind::Stopped, Truth::AsRecorded) => None,
    }
}

const RED: &str = "\u{1b}[31m";
const YELLOW: &str = "\u{1b}[33m";
const GREEN: &str = "\u{1b}[32m";
const PLAIN: &str = "\u{1b}[0m";

const HEADER: [&str; 9] = [
    "agent",
    "state",
    "attempt",
    "pid",
    "since",
    "restarts",
    "last death",
    "task",
    "supervisor",
];

fn print(environment: &Environment, arguments: &PsArguments, agents: &[Agent]) {
    let now = clock::now();
    if agents.is_empty() {
        let text = if arguments.states.is_empty() {
            "no agents; relight run -- CMD makes the first"
        } else {
            "no agent is in such a state; relight ps shows all"
        };
        output::line(text);
        return;
    }
    if let (Some(_), [agent]) = (&arguments.name, agents) {
        output::line(&output::facts(&facts(agent, now)));
        return;
    }
    let mut rows = vec![HEADER.map(str::to_owned).to_vec()];
    rows.extend(agents.iter().map(|agent| row(agent, now)));
    if agents.iter().any(|agent| agent.node.is_some()) {
        let nodes = agents
            .iter()
            .map(|agent| agent.node.clone().unwrap_or_else(none));
        let column = std::iter::once("node".to_owned()).chain(nodes);
        rows.iter_mut()
            .zip(column)
            .for_each(|(row, node)| row.push(node));
    }
    let text = output::table(&rows);
    output::line(&if output::has_colours(environment) {
        paint(&text, agents)
    } else {
        text
    });
}

/// Colours each state where it stands, after the name; the table laid it out without colours.
fn paint(table: &str, agents: &[Agent]) -> String {
    let mut lines = table.lines();
    let mut painted = vec![lines.next().unwrap_or_default().to_owned()];
    for (line, agent) in lines.zip(agents) {
        let (name, rest) = line.split_at(agent.name.len());
        let state = output::one_line(&agent.detail);
        painted.push(match colour(agent) {
            Some(colour) => {
                name.to_owned() + &rest.replacen(&state, &format!("{colour}{state}{PLAIN}"), 1)
            }
            None => line.to_owned(),
        });
    }
    painted.join("\n")
}

/// Milliseconds help nobody in a table.
pub(super) fn to_second(at: Time) -> String {
    Time::from_ms(at.as_ms().div_euclid(1_000) * 1_000).to_string()
}

fn none() -> String {
    "–".to_owned()
}
