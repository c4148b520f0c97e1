//! Recovers what dead holders left: deaths of agents that nobody saw are recorded, tasks go to their
//! strategies, sessions are decided.

use std::path::{Path, PathBuf};

use relight_core::error_code::{ErrorCode, Refused, with_causes};
use relight_core::event::EventKind;
use relight_core::ids::AgentName;
use relight_core::session::Rules;
use relight_core::time::Span;
use relight_store::EventQuery;
use serde::{Deserialize, Serialize};

use crate::boxed::boxed;
use crate::engine::Engine;
use crate::os::fleet;
use crate::presets::Preset;
use crate::queue::Queue;
use crate::recovery::operator::{self, AwaitingOperator, Filter};
use crate::recovery::{Recovered, Recoverer};
use crate::sessions::{self, Decided};
use crate::supervise::notices::Notice;
use crate::supervise::supervisor::{AcquireError, Supervisor, SupervisorSettings};
use crate::supervise::unnoticed_deaths::{self, Discrepancy};

/// How long a machine that is no node of the fleet holds an agent after its last commit. Whoever is cut off
/// in the middle would keep the agent forever.
pub const HOLD_OF_A_MOMENT: Span = Span::from_secs(60);

/// A recovery of everything in the store.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreRecovery {
    /// Only answer what would be done.
    #[serde(default)]
    pub dry_run: bool,
}

/// How it is recovered.
#[derive(Debug)]
pub struct RecoverySettings {
    /// Takes up agents for a moment, to record their deaths; has the strategies and limits of tasks.
    pub supervisor: SupervisorSettings,
    /// What becomes of sessions that were cut off.
    pub sessions: Rules,
    /// The user's own presets, which interpret the end of an agent.
    pub presets: Option<PathBuf>,
    /// Which waiting work a dry run lists.
    pub filter: Filter,
}

/// What a recovery found, and what became of it.
#[derive(Debug, Default, Serialize)]
pub struct RecoveryReport {
    /// Nothing was done.
    pub dry_run: bool,
    /// Where the store differed from reality.
    pub findings: Vec<Discrepancy>,
    /// Agents that somebody else holds.
    pub left_alone: Vec<AgentName>,
    /// What strategies decided.
    pub recovered: Vec<Recovered>,
    /// Work that waits for somebody, of a dry run.
    pub waiting: Vec<AwaitingOperator>,
    /// The sessions that were decided.
    pub sessions: Vec<Decided>,
    /// Why tasks could not be recovered. One that could not be stops no other.
    pub failed: Vec<Refused>,
    /// Why agents were left alone.
    #[serde(skip)]
    pub refused: Vec<(AgentName, AcquireError)>,
    /// What happened to agents meanwhile.
    #[serde(skip)]
    pub notices: Vec<Notice>,
}

impl StoreRecovery {
    /// Recovers everything whose holder is gone; agents are not started.
    #[boxed]
    pub async fn run(
        self,
        engine: &Engine,
        plan: RecoverySettings,
    ) -> Result<RecoveryReport, Refused> {
        let SupervisorSettings {
            strategies, policy, ..
        } = &plan.supervisor;
        let recoverer = Recoverer::new(engine.clone(), strategies.clone(), policy.clone());
        // Only the gateway knows whether a session that was never marked was cut off: it knows that it starts.
        let rules = Rules {
            window: Span::ZERO,
            ..plan.sessions
        };
        let mut report = RecoveryReport {
            dry_run: self.dry_run,
            findings: unnoticed_deaths::find(engine).await?,
            ..RecoveryReport::default()
        };
        if self.dry_run {
            report.waiting = operator::list(&recoverer, &plan.filter).await?;
            report.sessions = sessions::find(engine, &rules).await?;
            return Ok(report);
        }
        let newest = engine.store().newest_event().await?;
        let is_dead =
            |finding: &Discrepancy| matches!(finding, Discrepancy::Agent { lives: false, .. });
        if report.findings.iter().any(is_dead) {
            record_deaths(
                engine,
                plan.supervisor,
                plan.presets.as_deref(),
                &mut report,
            )
            .await?;
        }
        // After the deaths of agents: those count for the tasks that the agents held.
        let swept = Queue::new(recoverer).recover().await?;
        let failed = swept.failed.into_iter();
        report.failed = failed.map(|(_, error)| error.into()).collect();
        report.recovered = decided_after(engine, newest).await?;
        report.sessions = sessions::recover(engine, &rules).await?;
        Ok(report)
    }
}

async fn record_deaths(
    engine: &Engine,
    settings: SupervisorSettings,
    presets: Option<&Path>,
    report: &mut RecoveryReport,
) -> Result<(), Refused> {
    let is_no_node = engine.store().is_shared() && fleet::node().is_none();
    let settings = SupervisorSettings {
        hold: is_no_node.then_some(HOLD_OF_A_MOMENT),
        ..settings
    };
    let home = settings.home.clone();
    let generic = Preset::by_name("generic", presets).map_err(|error| {
        Refused::new(
            ErrorCode::CONFIG,
            with_causes(&error),
            "relight presets list shows all",
        )
    })?;
    // One that no longer exists interprets nothing.
    let preset = |name: &str| Preset::by_name(name, presets).unwrap_or_else(|_| generic.clone());
    let (mut supervisor, mut notices) =
        Supervisor::new(engine.clone(), settings).map_err(|error| {
            let text = format!("cannot use {}: {error}", home.display());
            Refused::without_hint(ErrorCode::IO, text)
        })?;
    report.refused = unnoticed_deaths::record(&mut supervisor, preset).await?;
    while let Ok(notice) = notices.try_recv() {
        report.notices.push(notice);
    }
    let left_alone = report.refused.iter().map(|(name, _)| name.clone());
    report.left_alone = left_alone.collect();
    Ok(())
}

/// What strategies decided after this event, with the tasks as they are now.
async fn decided_after(engine: &Engine, after: u64) -> Result<Vec<Recovered>, Refused> {
    let query = EventQuery {
        after,
        before: None,
        task: None,
        agent: None,
        kinds: vec![EventKind::TaskRecovery],
        limit: usize::MAX,
        newest: false,
    };
    let mut decided = Vec::new();
    for event in engine.store().events(query).await? {
        let Some(id) = &event.task else { continue };
        if let Some(task) = engine.store().task(id).await? {
            decided.push(Recovered::read(&task, Some(&event.detail)));
        }
    }
    Ok(decided)
}
