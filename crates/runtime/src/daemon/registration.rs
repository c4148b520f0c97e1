//! Agents that are registered over HTTP while the daemon runs.

use std::path::Path;

use relight_core::agent::change::AgentChange;
use relight_core::decide::Guard;
use relight_core::error_code::ErrorCode;
use relight_core::ids::AgentName;
use relight_store::{AgentCommit, AgentCommitError};
use tokio::sync::oneshot;

use super::{Daemon, Host};
use crate::os::clock;
use crate::supervise::control::{AgentRegistration, ControlReply, Refused, Registered};
use crate::supervise::program;
use crate::supervise::spec::AgentSpec;
use crate::supervise::supervisor::AcquireMode;

impl<H: Host> Daemon<H> {
    /// Supervises an agent that somebody registered, from now on. The same one again changes nothing.
    pub(super) async fn register(&mut self, new: AgentRegistration) -> Result<Registered, Refused> {
        let refused = |code, message: String, hint: Option<String>| Refused {
            code,
            message,
            hint,
        };
        let name = new.name.clone();
        let engine = self.supervisor.engine().clone();
        let plan = self.host.plan(new);
        let known = engine.store().agent(&name).await;
        let known = known.map_err(|error| refused(ErrorCode::INTERNAL, error.to_string(), None))?;
        let is_same = known.as_ref().is_some_and(|known| known.plan == plan);
        if known.is_some() && !is_same {
            let text = format!("there is an agent {name} already");
            let hint = Some("take another name, or DELETE it first".to_owned());
            return Err(refused(ErrorCode::CONFLICT, text, hint));
        }
        if is_same && self.supervisor.view(&name).is_some() {
            return Ok(Registered { created: false });
        }
        let spec = self.host.registered_spec(name.clone(), plan)?;
        program::check(
            &spec.command,
            &spec.environment,
            Path::new(&spec.plan.folder),
        )
        .map_err(|error| refused(ErrorCode::INVALID, error.note, None))?;
        let taken = match &self.membership {
            Some(_) => self
                .create(spec, known.is_some())
                .await
                .map_err(|e| e.to_string()),
            None => {
                let taken = self
                    .supervisor
                    .acquire(spec, AcquireMode::Wake, false)
                    .await;
                taken.map_err(|error| error.to_string())
            }
        };
        taken.map_err(|why| refused(ErrorCode::CONTENDED, why, None))?;
        self.host.say(&format!(
            "{name} was registered and is supervised from now on"
        ));
        Ok(Registered {
            created: known.is_none(),
        })
    }

    /// Makes an agent known to the whole fleet: the node whose turn it is takes it up.
    pub(super) async fn create(
        &mut self,
        spec: AgentSpec,
        is_known: bool,
    ) -> Result<(), AgentCommitError> {
        if !is_known {
            let changes = vec![AgentChange::Created(Box::new(spec.plan.clone()))];
            let guard = Guard {
                fence: None,
                seq: None,
            };
            let commit = AgentCommit {
                agent: spec.name.clone(),
                guard,
                at: clock::now(),
                changes,
            };
            self.supervisor
                .engine()
                .store()
                .commit_agent(commit)
                .await?;
        }
        if !self.supervisor.knows(&spec.name) {
            drop(self.supervisor.wait_for_agents(vec![spec]));
        }
        Ok(())
    }

    /// Stops it and gives it back; whoever asked hears once that is done.
    pub(super) fn unregister(&mut self, name: &AgentName, reply: oneshot::Sender<ControlReply>) {
        let retired = match self.membership {
            Some(_) => self.supervisor.unregister(name),
            None => self.supervisor.retire(name),
        };
        if retired.is_some() {
            self.host
                .say(&format!("{name} is not registered any more; it is stopped"));
        }
        tokio::spawn(async move {
            if let Some(retired) = retired {
                // Dropped when the supervisor ends, which gives it back too.
                let _ = retired.await;
            }
            let _ = reply.send(ControlReply::ok(&serde_json::json!({})));
        });
    }
}
