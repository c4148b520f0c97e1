//! `relight recover`: says of everything whose holder is gone what it really is, and does what its rule
//! says; or what a person says (`operator`).

use std::collections::HashSet;

use relight_core::event::EventKind;
use relight_core::ids::TaskId;
use relight_core::lease::Holder;
use relight_core::session::Rules;
use relight_core::time::Span;
use relight_runtime::engine::Engine;
use relight_runtime::recovery::operator::{AwaitingOperator, Filter, command_to_continue};
use relight_runtime::recovery::{OrphanedTask, Recovered, Recoverer, lost, sweep};
use relight_runtime::sessions::{self, Decided};
use relight_runtime::supervise::supervisor::Supervisor;
use relight_runtime::supervise::unnoticed_deaths::{self, Discrepancy};
use relight_store::EventQuery;
use serde_json::{Value, json};

use super::operator::{self, waiting_text};
use super::session::recovery::in_words as session_in_words;
use super::supervision::{self, cannot_use};
use super::task_queue::{recovered_text, trouble_text};
use crate::arguments::agent::RecoverArguments;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::work::Work;

pub(crate) fn run(environment: &Environment, arguments: &RecoverArguments) -> Outcome {
    if let Some(verb) = operator::verb(arguments) {
        return operator::act(environment, arguments, &verb);
    }
    if !arguments.tasks.is_empty() || arguments.all {
        return Err(Failure::new(Exit::Usage, "what is to become of them?")
            .hint("add --resume, --restart, --abandon or --hand-over AGENT"));
    }
    let given = arguments.config.config.as_deref();
    let work = match arguments.dry_run {
        true => Work::find_to_read(environment, given)?,
        false => Work::find(environment, given)?,
    };
    let filter = operator::filter(arguments);
    let (report, damage) = supervision::runtime()?.block_on(async {
        let engine = environment.long_engine()?;
        let report = match arguments.dry_run {
            true => foresee(&work.recoverer(engine.clone()), &work.sessions, &filter).await,
            false => recover(environment, &engine, work).await,
        }?;
        let damage = engine.store().inventory(true).await?.damage;
        Ok::<_, Failure>((report, damage))
    })?;
    output::answer(environment, &report.to_json(), &report.in_words());
    for row in damage {
        output::alert(&format!("{row}; it is left out (relight doctor says more)"));
    }
    for DecidedTask { recovered, .. } in &report.decided {
        if let Some(trouble) = &recovered.trouble {
            output::alert(&trouble_text(recovered, trouble));
        }
    }
    for failure in &report.failed {
        output::failure(environment.json, failure);
    }
    Ok(if report.failed.is_empty() {
        0
    } else {
        Exit::No as u8
    })
}

/// What a recovery found, and what became of it.
#[derive(Default)]
pub(super) struct Report {
    dry_run: bool,
    findings: Vec<Discrepancy>,
    /// Agents that somebody else holds.
    left_alone: Vec<String>,
    decided: Vec<DecidedTask>,
    /// Work that waits for somebody, where nothing was done.
    waiting: Vec<AwaitingOperator>,
    sessions: Vec<Decided>,
    failed: Vec<Failure>,
}

impl Report {
    pub(super) fn to_json(&self) -> Value {
        let recovered: Vec<&Recovered> = self.decided.iter().map(|one| &one.recovered).collect();
        json!({
            "dry_run": self.dry_run,
            "findings": self.findings,
            "left_alone": self.left_alone,
            "recovered": recovered,
            "waiting": self.waiting,
            "sessions": self.sessions,
            "failed": self.failed.iter().map(Failure::json).collect::<Vec<_>>(),
        })
    }

    fn in_words(&self) -> String {
        let mut lines = match self.dry_run {
            true => self.foreseen(),
            false => told(&self.findings, &self.decided),
        };
        let verb = if self.dry_run { "would become" } else { "is" };
        lines.extend(
            self.sessions
                .iter()
                .map(|session| session_in_words(session, verb)),
        );
        if lines.is_empty() {
            "nothing to recover".to_owned()
        } else {
            lines.join("\n")
        }
    }

    fn foreseen(&self) -> Vec<String> {
        let is_agent = |finding: &&Discrepancy| matches!(finding, Discrepancy::Agent { .. });
        let of_agents = self.findings.iter().filter(is_agent);
        let mut lines: Vec<String> = of_agents
            .map(|finding| in_words(finding, "would be"))
            .collect();
        lines.extend(self.waiting.iter().map(waiting_text));
        // One that has a lease and is not at work is on no desk.
        let on_desk = |id: &TaskId| self.waiting.iter().any(|waiting| waiting.task == *id);
        let others = self.findings.iter().filter(|finding| match finding {
            Discrepancy::Task { task, .. } => !on_desk(task),
            Discrepancy::Agent { .. } => false,
        });
        lines.extend(others.map(|finding| in_words(finding, "would be")));
        lines
    }
}

/// Everything that is not as the store says, and all work that waits. Nothing is done.
pub(super) async fn foresee(
    recoverer: &Recoverer,
    rules: &Rules,
    filter: &Filter,
) -> Result<Report, Failure> {
    Ok(Report {
        dry_run: true,
        findings: unnoticed_deaths::find(recoverer.engine()).await?,
        waiting: operator::list(recoverer, filter).await?,
        sessions: sessions::find(recoverer.engine(), &marked(rules)).await?,
        ..Report::default()
    })
}

/// Asks nothing. One that cannot be recovered stops no other.
pub(super) async fn recover(
    environment: &Environment,
    engine: &Engine,
    work: Work,
) -> Result<Report, Failure> {
    let rules = work.sessions;
    let findings = unnoticed_deaths::find(engine).await?;
    let newest = engine.store().newest_event().await?;
    let failed = sweep_workers(&work.recoverer(engine.clone())).await?;
    let left_alone = put_right(environment, work).await?;
    Ok(Report {
        findings,
        left_alone,
        failed,
        decided: decisions(engine, newest).await?,
        sessions: sessions::recover(engine, &marked(&rules)).await?,
        ..Report::default()
    })
}

/// Only sessions whose turn was marked: whether one that never was has been cut off is for its gateway
/// to say, which knows that it starts.
fn marked(rules: &Rules) -> Rules {
    Rules {
        window: Span::ZERO,
        ..*rules
    }
}

/// Gives tasks of workers to their strategies; those of agents are put right with their agents.
async fn sweep_workers(recoverer: &Recoverer) -> Result<Vec<Failure>, Failure> {
    let is_a_workers = |lost: &OrphanedTask| {
        let held = lost.task().lease.held.as_ref();
        !held.is_some_and(|held| matches!(held.holder, Holder::Attempt { .. }))
    };
    let mut found = lost(recoverer.engine()).await?;
    found.retain(is_a_workers);
    let swept = sweep(recoverer, found).await.into_iter();
    Ok(swept
        .filter_map(Result::err)
        .map(|(_, error)| Failure::from(error))
        .collect())
}

/// What a strategy decided about a task, and how it is told.
pub(super) struct DecidedTask {
    recovered: Recovered,
    text: String,
}

/// What strategies decided after this event, with the tasks as they are now.
async fn decisions(engine: &Engine, after: u64) -> Result<Vec<DecidedTask>, Failure> {
    let kinds = vec![EventKind::TaskRecovery];
    let query = EventQuery {
        after,
        before: None,
        task: None,
        agent: None,
        kinds,
        limit: usize::MAX,
        newest: false,
    };
    let mut decided = Vec::new();
    for event in engine.store().events(query).await? {
        let Some(id) = &event.task else { continue };
        if let Some(task) = engine.store().task(id).await? {
            let recovered = Recovered::read(&task, Some(&event.detail));
            let command = command_to_continue(engine, &task).await?;
            decided.push(DecidedTask {
                text: recovered_text(&recovered, &task, command.as_deref()),
                recovered,
            });
        }
    }
    Ok(decided)
}

/// A line for each thing that was found, then for what else was decided.
fn told(findings: &[Discrepancy], decided: &[DecidedTask]) -> Vec<String> {
    let of_task = |id: &TaskId| decided.iter().find(|decided| decided.recovered.task == *id);
    let mut lines = Vec::new();
    let mut named = HashSet::new();
    for finding in findings {
        let decided = match finding {
            Discrepancy::Task { task, .. } => of_task(task),
            Discrepancy::Agent { .. } => None,
        };
        lines.push(match decided {
            Some(DecidedTask { recovered, text }) => {
                named.insert(&recovered.task);
                text.clone()
            }
            None => in_words(finding, "is"),
        });
    }
    let others = decided
        .iter()
        .filter(|decided| !named.contains(&decided.recovered.task));
    lines.extend(others.map(|decided| decided.text.clone()));
    lines
}

async fn put_right(environment: &Environment, work: Work) -> Result<Vec<String>, Failure> {
    let engine = environment.long_engine()?;
    let home = environment.store_folder(&engine)?;
    let settings = supervision::settings_for_a_moment(environment, &home)?;
    let settings = supervision::with_work(settings, work);
    let generic = supervision::preset(environment, None)?;
    // One that is not there any more tells nothing.
    let preset = |name: &str| {
        supervision::preset(environment, Some(name)).unwrap_or_else(|_| generic.clone())
    };
    let (mut supervisor, mut notices) =
        Supervisor::new(engine, settings).map_err(|error| cannot_use(&home, &error))?;
    let refused = unnoticed_deaths::put_right(&mut supervisor, preset).await?;
    while let Ok(notice) = notices.try_recv() {
        supervision::say(environment, &notice);
    }
    for (name, error) in &refused {
        output::note(environment, &format!("{name} is left alone: {error}"));
    }
    Ok(refused
        .into_iter()
        .map(|(name, _)| name.to_string())
        .collect())
}

fn in_words(finding: &Discrepancy, verb: &str) -> String {
    match finding {
        Discrepancy::Agent { agent, lives: true } => format!(
            "agent {agent} lives without a supervisor; its relight up or relight run adopts it \
             (relight start {agent} says which); relight stop {agent} ends it"
        ),
        Discrepancy::Agent {
            agent,
            lives: false,
        } => {
            format!(
                "agent {agent} died unnoticed; its death {verb} recorded (relight deaths {agent})"
            )
        }
        Discrepancy::Task { task, holder } => {
            format!("task {task} {verb} recovered: its holder, {holder}, is gone")
        }
    }
}
