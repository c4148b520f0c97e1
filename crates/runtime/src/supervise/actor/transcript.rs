//! Repairs the transcript of the session that an attempt is about to resume.
//!
//! Whatever cannot be done here is told and stops nothing: the program may still resume its session.

use std::path::PathBuf;

use relight_core::agent::change::AgentChange;
use relight_core::event::EventKind;
use relight_core::step::{Call, Step};
use serde_json::json;

use super::{Actor, SupervisionLost};
use crate::hooks::ToolCall;
use crate::os::threads;
use crate::supervise::notices::What;
use crate::transcripts::{self, OpenCall, Remedy, TranscriptReport};

impl Actor {
    /// Repairs the transcript, and keeps its calls without a result for the brief. Returns whether the
    /// session is forgotten, because its program could not resume it.
    pub(super) async fn repair_transcript(&mut self) -> Result<bool, SupervisionLost> {
        let Some(report) = self.examined_transcript().await else {
            return Ok(false);
        };
        let TranscriptReport {
            path,
            examination,
            kept,
            ..
        } = report;
        if !examination.open_calls.is_empty() {
            self.open_calls = examination
                .open_calls
                .into_iter()
                .map(ToolCall::from)
                .collect();
        }
        let detail = json!({
            "session": self.agent.session, "transcript": path, "findings": examination.findings,
            "kept": kept,
        });
        let path = path.display();
        if let Remedy::Impossible(reason) = examination.remedy {
            let text = format!("{path} cannot be repaired ({reason}): a new session is begun");
            self.tell(What::Trouble(text));
            self.commit(vec![AgentChange::Session(None)]).await?;
            return Ok(true);
        }
        if let Some(kept) = kept {
            let kept = kept.display();
            let text = format!("{path} was damaged and is repaired; the damaged file is {kept}");
            self.tell(What::Trouble(text));
            self.commit(vec![AgentChange::Noted(EventKind::AgentSession, detail)])
                .await?;
        }
        Ok(false)
    }

    /// None where no transcript is resumed, or where it cannot be read. Files of another user are left
    /// alone.
    async fn examined_transcript(&self) -> Option<TranscriptReport> {
        let launch = self.launch_of("", "", false);
        let (preset, session) = (self.spec.preset.clone(), self.agent.session.clone()?);
        if self.spec.user.is_some() || !preset.resumes(&self.spec.command, launch) {
            return None;
        }
        let (environment, folder) = (self.spec.environment.clone(), self.workspace());
        let variable = move |name: &str| -> Option<PathBuf> {
            let mut all = environment.iter().rev();
            let (_, value) = all.find(|(known, _)| known.as_os_str() == name)?;
            (!value.as_os_str().is_empty()).then(|| folder.join(value.as_os_str()))
        };
        let examine = move || {
            let (path, format) = preset.transcript(&session, variable)?;
            let repaired = transcripts::repair(&path, Some(format));
            Some(repaired.map_err(|error| (error, transcripts::check(&path, Some(format)).ok())))
        };
        match threads::run(examine).await.flatten()? {
            Ok(report) => Some(report),
            Err((error, seen)) => {
                self.tell(What::Trouble(format!(
                    "its transcript cannot be repaired: {error}"
                )));
                seen
            }
        }
    }

    /// Calls without a result that no hook recorded: a step tells more than a transcript.
    pub(super) fn calls_in_doubt(&self, steps: &[Step]) -> Vec<Call> {
        let redactor = self.context.engine.redactor();
        let is_recorded = |call: &ToolCall| steps.iter().any(|step| call.is_step(step));
        let calls = self.open_calls.iter().filter(|call| !is_recorded(call));
        calls.map(|call| call.call(redactor, None, false)).collect()
    }
}

impl From<OpenCall> for ToolCall {
    fn from(
        OpenCall {
            id,
            name,
            arguments,
        }: OpenCall,
    ) -> Self {
        Self {
            name,
            input: arguments,
            id: Some(id),
            failed: false,
        }
    }
}
