//! `relight ps`: agents as the store has them, with what it says of processes checked. A live
//! supervisor is asked for signs of life; without one nothing is missing but those.

mod all;
mod watch;

use relight_core::agent::{AgentStateKind, Cause};
use relight_core::time::Time;
use relight_runtime::drain;
use relight_runtime::operations::agent::{AgentView, SupervisorView, Truth};
use relight_runtime::operations::live_signs::LiveSigns;
use relight_runtime::operations::view::List;
use relight_runtime::os::clock;
use relight_store::AgentQuery;
use serde_json::json;

use super::operate;
use super::overview::state_word;
use crate::arguments::agent::{ListedState, PsArguments};
use crate::environment::Environment;
use crate::exit::Outcome;
use crate::{block_on, output};

pub(crate) fn run(environment: &Environment, arguments: &PsArguments) -> Outcome {
    if arguments.watch {
        return watch::run(environment, arguments);
    }
    if arguments.all {
        return all::run(environment, arguments);
    }
    let context = operate::context(environment)?;
    let (mut signs, here) = (LiveSigns::default(), output::here());
    let mut found = block_on(async {
        let here = here.as_deref();
        match &arguments.name {
            Some(name) => {
                let items = vec![context.show_agent(name, &mut signs, here).await?];
                Ok(List::new(items, None))
            }
            None => {
                context
                    .list_agents(query(arguments), &mut signs, here)
                    .await
            }
        }
    })?;
    found.items.retain(|agent| is_wanted(arguments, agent));
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
    output::left_out(&found.unreadable);
    Ok(0)
}

fn query(arguments: &PsArguments) -> AgentQuery {
    AgentQuery {
        states: arguments
            .states
            .iter()
            .map(|state| match state {
                ListedState::Kind(kind) => *kind,
                ListedState::Idle => AgentStateKind::Stopped,
            })
            .collect(),
        ..AgentQuery::default()
    }
}

/// Of the stopped agents that were read, only those that are idle may be wanted.
fn is_wanted(arguments: &PsArguments, agent: &AgentView) -> bool {
    let is_it = |state: &ListedState| match state {
        ListedState::Kind(kind) => *kind == agent.state,
        ListedState::Idle => agent.idle,
    };
    arguments.states.is_empty() || arguments.states.iter().any(is_it)
}

/// A restart is counted when it is decided; one that an agent still waits for has not happened.
fn restarts_text(agent: &AgentView) -> String {
    let is_due = agent.state == AgentStateKind::Crashed && agent.again_at.is_some();
    let happened = |count: u32| count.saturating_sub(u32::from(is_due));
    format!(
        "{} / {}",
        happened(agent.recoveries_in_a_row),
        happened(agent.restarts_total)
    )
}

fn last_death_text(agent: &AgentView, now: Time) -> String {
    let Some(death) = &agent.last_death else {
        return none();
    };
    let ago = now.since(death.at).rough();
    match death.cause.as_str() {
        // What else there is to say about these the cause does not say.
        "failed" => format!("{}, {ago} ago", death.how),
        "signal" => format!("{}, {ago} ago", death.how),
        cause => format!("{cause}, {ago} ago"),
    }
}

fn task_text(agent: &AgentView) -> Option<String> {
    let at = agent.step.as_ref().or(agent.task_status.as_ref());
    let at = at.map(|at| format!(" · {at}")).unwrap_or_default();
    Some(format!("{}{at}", agent.task.as_ref()?))
}

fn supervisor_text(agent: &AgentView) -> String {
    match (&agent.supervisor, agent.truth) {
        (_, Truth::Orphaned) => "none: orphaned".to_owned(),
        (
            Some(SupervisorView {
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

/// Whether more has to be said of it than its state, and what to type.
fn has_remedy(agent: &AgentView) -> bool {
    let is_quiet = matches!(
        agent.state,
        AgentStateKind::Running | AgentStateKind::Created | AgentStateKind::Stopped
    );
    agent.truth != Truth::AsRecorded || !is_quiet
}

fn remedies(agents: &[AgentView]) -> Vec<String> {
    let with_remedy = agents.iter().filter(|agent| has_remedy(agent));
    with_remedy
        .map(|agent| output::one_line(&format!("{}: {}", agent.name, agent.detail)))
        .collect()
}

/// The columns of the table; more of them when that was asked for.
fn rows(agents: &[AgentView], is_verbose: bool, now: Time) -> Vec<Vec<String>> {
    let mut header = [
        "agent",
        "state",
        "for",
        "pid",
        "attempt",
        "last death",
        "task",
    ]
    .to_vec();
    if is_verbose {
        header.extend(["restarts", "supervisor"]);
    }
    let has_nodes = agents.iter().any(|agent| agent.node.is_some());
    if has_nodes {
        header.push("node");
    }
    let row = |agent: &AgentView| {
        let mut row = vec![
            agent.name.clone(),
            state_word(agent, now).to_owned(),
            now.since(agent.since).rough(),
            agent.pid.map_or_else(none, |pid| pid.to_string()),
            agent.attempt.to_string(),
            last_death_text(agent, now),
            task_text(agent).unwrap_or_else(none),
        ];
        if is_verbose {
            row.extend([restarts_text(agent), supervisor_text(agent)]);
        }
        if has_nodes {
            row.push(agent.node.clone().unwrap_or_else(none));
        }
        row
    };
    let header = header.into_iter().map(str::to_owned).collect();
    std::iter::once(header)
        .chain(agents.iter().map(row))
        .collect()
}

/// One agent, a line a fact.
fn facts(agent: &AgentView, now: Time) -> Vec<Vec<String>> {
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
            match &agent.last_death {
                Some(death) if death.cause == Cause::Completed.as_str() => "last end",
                _ => "last death",
            },
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

/// The colour of its state.
fn colour(agent: &AgentView) -> Option<&'static str> {
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

fn print(environment: &Environment, arguments: &PsArguments, agents: &[AgentView]) {
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
    let is_verbose = environment.verbose > 0;
    // What is wide is wanted so.
    let width = output::terminal_size()
        .map(|(columns, _)| columns)
        .filter(|_| !is_verbose);
    output::line(&table(
        agents,
        is_verbose,
        now,
        width,
        output::has_colours(environment),
    ));
    for remedy in remedies(agents) {
        output::line(&remedy);
    }
}

/// The table, no wider than that.
fn table(
    agents: &[AgentView],
    is_verbose: bool,
    now: Time,
    width: Option<usize>,
    has_colours: bool,
) -> String {
    let rows = rows(agents, is_verbose, now);
    let agents: Vec<&AgentView> = agents.iter().collect();
    painted(&rows, &agents, now, width, has_colours)
}

/// Lays rows out, and colours the state of each agent.
fn painted(
    rows: &[Vec<String>],
    agents: &[&AgentView],
    now: Time,
    width: Option<usize>,
    has_colours: bool,
) -> String {
    let text = output::fitted(rows, width.unwrap_or(usize::MAX));
    if !has_colours {
        return text;
    }
    // A state begins where its title does, for the table was laid out without colours.
    let begin = text.find("state").unwrap_or_default();
    let mut lines = text.lines();
    let mut painted = vec![lines.next().unwrap_or_default().to_owned()];
    for (line, agent) in lines.zip(agents) {
        let state = state_word(agent, now);
        let at = line.char_indices().nth(begin).map_or(0, |(at, _)| at);
        painted.push(match (colour(agent), line[at..].strip_prefix(state)) {
            (Some(colour), Some(rest)) => format!("{}{colour}{state}{PLAIN}{rest}", &line[..at]),
            _ => line.to_owned(),
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
