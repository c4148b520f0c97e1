//! A stop while the store cannot be written, for example because the agent's own log filled the
//! disk. The stop is obeyed and recorded later: by this supervisor once there is room, or by the
//! next one from the shim's exit record.

use super::tree::{self, TreeEvent};
use super::{Actor, Mail, StateChangeResult, SupervisionLost, WantedState};
use crate::os::threads;
use crate::supervise::notices::What;
use crate::supervise::shim::wire::ShimReport;
use relight_core::time::Span;

impl Actor {
    /// Waits until everything submitted is durable. A stop that arrives while the store fails does
    /// not wait.
    pub(super) async fn settle(&mut self) -> Result<(), SupervisionLost> {
        let mut has_stopped = false;
        loop {
            let wants_stop = self.wants_stop() && !has_stopped;
            let failing = self.ledger.failing();
            tokio::select! {
                biased;
                settled = self.ledger.settle() => return settled,
                Some(mail) = self.mail.recv() => self.delayed_mail.push_back(mail),
                error = failing, if wants_stop => {
                    has_stopped = true;
                    if self.end_processes().await {
                        self.answer_unrecorded(&error);
                        self.tell(What::StoppedUnrecorded(error));
                    }
                }
            }
        }
    }

    /// Whether the latest request is a stop.
    fn wants_stop(&self) -> bool {
        let latest = self.delayed_mail.iter().rev().find_map(|mail| match mail {
            Mail::Stop(..) => Some(true),
            Mail::Start(_) | Mail::Restart(_) => Some(false),
            _ => None,
        });
        let waits = || {
            self.waiters
                .last()
                .is_some_and(|last| last.wanted == WantedState::Rest)
        };
        latest.unwrap_or_else(waits)
    }

    /// Stops the live attempt and waits for the end of its processes. False if the store is written
    /// again first: then all goes its usual way.
    async fn end_processes(&mut self) -> bool {
        if self.life.is_none() {
            self.tree.dismiss().await;
            return true;
        }
        let ladder = self.ladder();
        self.tree.stop(ladder).await;
        loop {
            tokio::select! {
                event = self.tree.next() => {
                    let is_over = self.is_over(&event).await;
                    self.delayed_events.push_back(event);
                    if is_over {
                        return true;
                    }
                }
                Some(mail) = self.mail.recv() => {
                    if matches!(mail, Mail::KillNow) {
                        self.tree.stop(Vec::new()).await;
                    }
                    self.delayed_mail.push_back(mail);
                }
                _ = self.ledger.settle() => return false,
            }
        }
    }

    /// Whether no process is left. Without a shim they are found by their tag.
    async fn is_over(&self, event: &TreeEvent) -> bool {
        match event {
            TreeEvent::Says(ShimReport::Ended(record)) => record.survivors == 0,
            TreeEvent::Says(_) | TreeEvent::ShimContinued(_) => false,
            TreeEvent::ShimGone | TreeEvent::ShimKilled(_) | TreeEvent::LeaderGone(_) => {
                let Some(life) = &self.life else { return true };
                let (leader, tag) = (life.process.clone(), life.tag.clone());
                let end = move || tree::end(leader.as_ref(), tag, Span::ZERO);
                threads::run(end).await.is_some_and(|ended| ended.is_ok())
            }
        }
    }

    /// Answers all requests to stop: it is stopped, but the store does not say so yet.
    fn answer_unrecorded(&mut self, error: &str) {
        let (stops, others) = std::mem::take(&mut self.delayed_mail)
            .into_iter()
            .partition::<Vec<_>, _>(|mail| matches!(mail, Mail::Stop(..)));
        self.delayed_mail = others.into();
        for stop in stops {
            let Mail::Stop(by, answer) = stop else {
                continue;
            };
            self.await_state(WantedState::Rest, answer);
            self.events
                .push_back(relight_core::agent::decide::AgentEvent::Stop(by));
        }
        let (name, state) = (&self.spec.name, self.agent.state.kind());
        for waiter in self
            .waiters
            .extract_if(.., |waiter| waiter.wanted == WantedState::Rest)
        {
            let _ = waiter.answer.send(StateChangeResult {
                previous: waiter.previous,
                state,
                task_cancelled: waiter.task_cancelled,
                problem: Some(format!(
                    "agent {name} is stopped, but not recorded so: {error}"
                )),
                hint: Some(format!("make room; relight ps {name} shows it")),
                has_ended: false,
            });
        }
    }
}
