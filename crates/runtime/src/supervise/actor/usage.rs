//! What an attempt uses, read from its output and added up for its agent and its task.
//!
//! Tasks are charged before the agent: where a counter stood when the work on a task began is the agent's
//! last reading. A crash in between changes nothing, because readings are totals.

use relight_core::agent::decide::AgentEvent;
use relight_core::agent::{Attempt, StopReason};
use relight_core::decide::{Observed, Right, TaskEvent};
use relight_core::ids::TaskId;
use relight_core::task::Task;
use relight_core::usage::{Reading, Usage};

use super::{Actor, SupervisionLost};
use crate::presets::UsageScope;
use crate::supervise::notices::What;
use crate::supervise::post_mortem;

/// The totals of an attempt, and the task that they were last charged to.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Charged {
    totals: [(UsageScope, Usage); 2],
    task: Option<TaskId>,
}

impl Charged {
    /// The task that was charged last.
    pub(super) fn task(&self) -> Option<TaskId> {
        self.task.clone()
    }
}

impl Actor {
    /// Why the live attempt is ended although it does not hang: the error that it repeats a request for, or
    /// the limit that it has reached.
    pub(super) fn why_incurable(&self) -> String {
        let stream = self.life.as_ref().and_then(|life| life.stream.as_ref());
        let repeats = stream.and_then(|stream| stream.repeats_in_vain());
        if let Some(why) = repeats {
            return self.context.engine.redactor().text(why).into_owned();
        }
        self.agent
            .spent()
            .unwrap_or_else(|| "its limit was reached".to_owned())
    }

    /// Whether the budget of the store is spent, and this agent may not go on.
    pub(super) fn is_stopped_by_budget(&self) -> bool {
        let overspent = self.context.budget.overspent();
        overspent.is_some_and(|overspent| self.agent.is_stopped_by(&overspent))
    }

    /// Why the live attempt is ended while others may spend no more either.
    pub(super) fn why_overspent(&self) -> String {
        let overspent = self.context.budget.overspent();
        overspent.map_or_else(
            || "the budget of the store was spent".to_owned(),
            |overspent| overspent.why,
        )
    }

    /// Charges what the live attempt has used since the last time, and ends an attempt that cannot succeed.
    pub(super) async fn note_usage(&mut self) -> Result<(), SupervisionLost> {
        let is_ending = self.ending().is_some();
        let Some(life) = &mut self.life else {
            return Ok(());
        };
        let Some(stream) = &life.stream else {
            return Ok(());
        };
        if stream.repeats_in_vain().is_some() && !is_ending {
            self.events
                .push_back(AgentEvent::End(StopReason::Incurable));
        }
        let totals = stream.used();
        if totals == life.charged.totals {
            return Ok(());
        }
        let attempt = life.as_attempt(&self.spec.name);
        let before = std::mem::take(&mut life.charged);
        let charged = self.charge(&attempt, totals, before.task, true).await?;
        if let Some(life) = &mut self.life {
            life.charged = charged;
        }
        Ok(())
    }

    /// Charges the totals of an attempt; `last` is the task that it was charged to before.
    pub(super) async fn charge(
        &mut self,
        attempt: &Attempt,
        totals: [(UsageScope, Usage); 2],
        last: Option<TaskId>,
        is_alive: bool,
    ) -> Result<Charged, SupervisionLost> {
        let readings = self.readings(attempt, totals);
        if readings.is_empty() {
            return Ok(Charged { totals, task: last });
        }
        let held = self.held_tasks(&attempt.tag).await.unwrap_or_default();
        let task = self.task_to_charge(&held).or(last);
        if let Some(task) = &task {
            self.charge_task(task, &readings).await;
        }
        let made_progress = self.has_progressed(attempt, &held, &readings).await;
        self.happen(AgentEvent::Used {
            readings,
            made_progress,
            is_alive,
            is_charged: task.is_some(),
        })
        .await?;
        Ok(Charged { totals, task })
    }

    fn readings(&self, attempt: &Attempt, totals: [(UsageScope, Usage); 2]) -> Vec<Reading> {
        let known = totals.into_iter().filter(|(_, total)| !total.is_nothing());
        let source = |of| match (of, &self.agent.session) {
            (UsageScope::Session, Some(session)) => format!("session {session}"),
            _ => format!("attempt {}", attempt.tag),
        };
        known
            .map(|(of, total)| Reading {
                source: source(of),
                total,
            })
            .collect()
    }

    /// The agent's own task, else the only one that it holds; a conversation's task counts where there is
    /// no other. Of several it is not known which one it works on.
    fn task_to_charge(&self, held: &[Task]) -> Option<TaskId> {
        if let Some(own) = &self.agent.plan.task {
            return Some(own.clone());
        }
        let only = |observed: bool| {
            let mut tasks = held.iter().filter(|task| task.spec.observed == observed);
            let first = tasks.next()?;
            tasks.next().is_none().then(|| first.id.clone())
        };
        only(false).or_else(|| only(true))
    }

    async fn charge_task(&self, task: &TaskId, readings: &[Reading]) {
        let is_its_own = self.agent.plan.task.as_ref() == Some(task);
        let with_base = |reading: &Reading| {
            let last = self.agent.usage.meter.last(&reading.source);
            let base = last.filter(|_| !is_its_own).map(|last| last.total);
            (reading.clone(), base.unwrap_or_default())
        };
        let readings = readings.iter().map(with_base).collect();
        let used = TaskEvent::Observe(Observed::Used { readings });
        let engine = &self.context.engine;
        // The next reading is a total again.
        if let Err(error) = engine.act(task, Right::Unfenced, used).await {
            self.tell(What::Trouble(format!("task {task}: {error}")));
        }
    }

    /// Whether a step or a task was finished since the last progress. The journal is read only when that
    /// decides whether the agent may continue.
    async fn has_progressed(&self, attempt: &Attempt, held: &[Task], readings: &[Reading]) -> bool {
        let usage = &self.agent.usage;
        let since = usage.progress_at.unwrap_or(self.agent.created_at);
        let has_moved = |task: &Task| task.tally.progress_at.is_some_and(|at| at > since);
        if held.iter().any(has_moved) {
            return true;
        }
        let mut meter = usage.meter.clone();
        for reading in readings {
            let news = meter.news(reading, Usage::default());
            meter.read(reading, news);
        }
        let spent = meter.used.since(usage.at_progress);
        if self.agent.plan.spend.reached(spent).is_none() {
            return false;
        }
        let begun_at = attempt.begun_at.max(since);
        let attempt = Attempt {
            begun_at,
            ..attempt.clone()
        };
        let finished = post_mortem::has_finished_work(&self.context.engine, &attempt).await;
        finished.unwrap_or(false)
    }
}
