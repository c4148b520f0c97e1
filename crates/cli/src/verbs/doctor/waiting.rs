//! What waits in the store for somebody: work to recover, alerts to be told.

use std::sync::Arc;

use relight_core::session::Rules;
use relight_core::time::Span;
use relight_redact::{MarkKey, Redactor};
use relight_runtime::alerts::overview;
use relight_runtime::engine::Engine;
use relight_runtime::sessions;
use relight_runtime::supervise::unnoticed_deaths::{self, Discrepancy};
use relight_store::{Store, StoreError};

use super::finding::DoctorFinding;
use crate::exit::Failure;

/// Alerts that are looked at.
const ALERTS_MAX: usize = 1_000;

pub(super) async fn look(store: &Arc<dyn Store>) -> Vec<DoctorFinding> {
    let mut findings = match to_recover(store).await {
        Ok(finding) => vec![finding],
        Err(failure) => vec![DoctorFinding::warning("recover", failure.message)],
    };
    match alerts(store.as_ref()).await {
        Ok(found) => findings.extend(found),
        Err(error) => findings.push(DoctorFinding::warning("alerts", error.to_string())),
    }
    findings
}

/// What `relight recover` would put right.
async fn to_recover(store: &Arc<dyn Store>) -> Result<DoctorFinding, Failure> {
    // Nothing is written, so nothing is marked by this key.
    let engine = Engine::new(Arc::clone(store), Redactor::new(MarkKey::new([0; 32])));
    let lost = unnoticed_deaths::find(&engine).await?;
    let rules = Rules {
        window: Span::ZERO,
        ..Rules::default()
    };
    let sessions = sessions::find(&engine, &rules).await?.len();
    let tasks = lost
        .iter()
        .filter(|one| matches!(one, Discrepancy::Task { .. }))
        .count();
    let dead = lost
        .iter()
        .filter(|one| matches!(one, Discrepancy::Agent { lives: false, .. }))
        .count();
    if tasks + dead + sessions == 0 {
        return Ok(DoctorFinding::ok(
            "recover",
            "nothing waits to be recovered",
        ));
    }
    let text = format!("{dead} agents, {tasks} tasks and {sessions} sessions lost their holder");
    Ok(DoctorFinding::warning("recover", text).hint("relight recover --dry-run"))
}

async fn alerts(store: &dyn Store) -> Result<Vec<DoctorFinding>, StoreError> {
    let found = overview(store, ALERTS_MAX).await?;
    if found.sinks.is_empty() {
        let text =
            "none are sent: relight up or run has not run with an [alert] command or webhook yet";
        return Ok(vec![DoctorFinding::ok("alerts", text)]);
    }
    let pending = found
        .alerts
        .iter()
        .filter(|told| !told.pending.is_empty())
        .count();
    let mut findings = Vec::new();
    for sink in &found.sinks {
        if sink.is_gone {
            let text = format!(
                "the {} answered that it is gone and is not called any more",
                sink.name
            );
            findings.push(
                DoctorFinding::warning("alerts", text)
                    .hint("fix [alert], then relight alerts test"),
            );
        } else if let Some(why) = &sink.why {
            let text = format!(
                "the {} did not take an alert in {} tries: {why}",
                sink.name, sink.tries
            );
            findings
                .push(DoctorFinding::warning("alerts", text).hint("relight alerts list --pending"));
        }
    }
    if findings.is_empty() {
        findings.push(DoctorFinding::ok(
            "alerts",
            format!("{pending} not delivered yet"),
        ));
    }
    Ok(findings)
}
