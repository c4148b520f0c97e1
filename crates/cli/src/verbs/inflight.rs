//! `relight inflight`: everything in doubt or in flight, the most urgent first.

use relight_core::alert::resolve_first;
use relight_core::step::RepeatRule;
use relight_core::time::Time;
use relight_runtime::inflight::{self, Holding, Inflight, OpenStep, OpenTurn, Unsupervised};
use relight_runtime::os::clock;

use crate::environment::Environment;
use crate::exit::Outcome;
use crate::{block_on, output};

pub(crate) fn run(environment: &Environment) -> Outcome {
    let engine = environment.engine()?;
    let home = environment.store_folder(&engine)?;
    let found = block_on(inflight::look(&engine, &home))?;
    output::answer(environment, &found, &in_words(&found, clock::now()));
    Ok(0)
}

fn in_words(found: &Inflight, now: Time) -> String {
    if found.is_empty() {
        return "nothing is in doubt or in flight".to_owned();
    }
    let mut parts = Vec::new();
    let mut part = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            parts.push(format!("{title}\n  {}", lines.join("\n  ")));
        }
    };
    part(
        "in doubt: may or may not have happened",
        lines(&found.in_doubt, |it| doubt(it, now)),
    );
    part("holder gone", lines(&found.lost, |it| lost(it, now)));
    part("held", lines(&found.held, |it| held(it, now)));
    part(
        "running, of tasks that nobody holds",
        lines(&found.running, |it| running(it, now)),
    );
    part("agents without a supervisor", lines(&found.agents, agent));
    part(
        "sessions with a turn in flight",
        lines(&found.sessions, |it| turn(it, now)),
    );
    parts.join("\n")
}

fn lines<T>(all: &[T], line: impl Fn(&T) -> String) -> Vec<String> {
    all.iter().map(line).collect()
}

fn doubt(doubt: &OpenStep, now: Time) -> String {
    let OpenStep {
        task,
        status,
        step,
        rule,
        since,
        call,
        ..
    } = doubt;
    let then = match rule {
        _ if call.is_some() => "a tool call: its agent is told when it starts again",
        RepeatRule::Keyed => "the next step run repeats it with the same key",
        RepeatRule::Repeatable => "the next step run repeats it",
        RepeatRule::Verify => "the next step run asks its --verify first",
        RepeatRule::Once => "never repeated by itself: a person decides",
    };
    let age = now.since(*since);
    format!(
        "task {task} ({status}) · step {step} · {rule}, begun {age} ago; {then}\n      {}",
        resolve_first(task, step)
    )
}

fn lost(holding: &Holding, now: Time) -> String {
    let Holding {
        task,
        holder,
        since,
        ..
    } = holding;
    let age = now.since(*since);
    format!("task {task} · {holder}, taken {age} ago; relight recover applies its strategy")
}

fn held(holding: &Holding, now: Time) -> String {
    let Holding {
        task,
        holder,
        since,
        agent,
        steps,
        ..
    } = holding;
    let agent = agent
        .as_ref()
        .map(|agent| format!(" · {agent}"))
        .unwrap_or_default();
    let at = if steps.is_empty() {
        String::new()
    } else {
        format!(" · at {}", steps.join(", "))
    };
    format!(
        "task {task}{agent} · {holder}, for {}{at}",
        now.since(*since)
    )
}

fn running(open: &OpenStep, now: Time) -> String {
    let OpenStep {
        task,
        status,
        step,
        since,
        ..
    } = open;
    format!(
        "task {task} ({status}) · step {step}, for {}",
        now.since(*since)
    )
}

fn agent(found: &Unsupervised) -> String {
    let agent = &found.agent;
    if found.lives {
        format!(
            "{agent} lives; its relight up or relight run adopts it (relight start {agent} says which)"
        )
    } else {
        format!("{agent} died unnoticed; relight recover records it")
    }
}

fn turn(turn: &OpenTurn, now: Time) -> String {
    let OpenTurn {
        session,
        generation,
        since,
        owner,
        lives,
    } = turn;
    let owner = owner.as_deref().unwrap_or("nobody knows whose");
    let gone = if *lives == Some(false) {
        ", gone; relight recover decides about it"
    } else {
        ""
    };
    format!(
        "{session} · turn {generation} · {owner}, for {}{gone}",
        now.since(*since)
    )
}
