//! What waits for a person, each with what to type.

use relight_core::agent::death::ReportedEnd;
use relight_core::agent::{Agent, AgentState, AgentStateKind, Attempt, Pause, Takes};
use relight_core::alert::{Alert, AlertKind, resolve_command, resolve_first};
use relight_core::claimant::Claimant;
use relight_core::event::EventKind;
use relight_core::ids::AgentName;
use relight_core::session::{Session, SessionStateKind};
use relight_core::shell::shell_word;
use relight_core::status::TaskStatus;
use relight_core::step::Step;
use relight_core::store_budget::Overspent;
use relight_core::task::Task;
use relight_core::time::Time;
use relight_store::{
    AgentQuery, AttemptQuery, EventQuery, Inventory, SessionQuery, Store, StoreError, TaskQuery,
};
use serde::Serialize;

use super::Context;
use crate::boxed::boxed;
use crate::inflight;
use crate::supervise::store_budget::overspent_until;

/// So many are listed; the rest is only counted.
const NEEDS_MAX: usize = 100;
/// Failed tasks that are looked through for those that nobody tries again.
const FAILED_MAX: usize = 1_000;
/// New tasks that are looked through for those that no agent can take.
const CREATED_MAX: usize = 1_000;
/// Tasks with an open step whose steps are looked at.
const OPEN_MAX: usize = 1_000;
/// A task with more steps is not read whole for the name of one.
const STEPS_MAX: u64 = 1_000;

/// Something that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct NeedsMe {
    /// `terminated`, `blocked`, `suspended`, `given_up`, `parked`, `in_doubt`, `no_agent` or `not_started`.
    pub kind: String,
    /// `task/ID`, `agent/NAME`, `session/KEY` or `store`.
    pub subject: String,
    pub text: String,
    /// What to type.
    pub hint: String,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub at: Time,
}

/// What waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// The newest first.
    pub listed: Vec<NeedsMe>,
    /// With those that are not listed.
    pub total: u64,
}

impl Context {
    /// What waits for a person now.
    #[boxed]
    pub async fn needs_me(&self, inventory: &Inventory) -> Result<Needs, StoreError> {
        let mut listed = self.needs_of_agents().await?;
        let store = self.engine.store().as_ref();
        let overspent = overspent_until(store).await?;
        let overspent = overspent.as_ref().map(need_of_store);
        // The inventory counts the others.
        let incurable = listed.iter().filter(|need| need.kind != "terminated");
        let incurable = incurable.count();
        listed.extend(self.needs_of_tasks().await?);
        let mut given_up = self.given_up().await?;
        given_up.extend(self.without_agent().await?);
        let counted = given_up.len() + incurable + usize::from(overspent.is_some());
        let total = waiting(inventory) + counted as u64;
        listed.extend(overspent);
        listed.extend(given_up);
        listed.extend(self.needs_of_sessions().await?);
        listed.sort_by_key(|need| std::cmp::Reverse(need.at));
        let total = total.max(listed.len() as u64);
        listed.truncate(NEEDS_MAX);
        Ok(Needs { listed, total })
    }

    /// How many steps may or may not have happened, as `inflight` lists them.
    #[boxed]
    pub async fn in_doubt(&self, inventory: &Inventory) -> Result<u64, StoreError> {
        if inventory.in_doubt == 0 {
            return Ok(0);
        }
        let count = inflight::count_in_doubt(&self.engine, &self.home, OPEN_MAX).await? as u64;
        // Each task that was not looked at has at least one.
        Ok(count + inventory.in_doubt.saturating_sub(OPEN_MAX as u64))
    }

    async fn needs_of_agents(&self) -> Result<Vec<NeedsMe>, StoreError> {
        let mut needs = Vec::new();
        for states in [
            vec![AgentStateKind::Terminated, AgentStateKind::Suspended],
            vec![AgentStateKind::Crashed],
        ] {
            let query = AgentQuery {
                states,
                after: None,
                limit: Some(NEEDS_MAX),
            };
            for agent in &self.engine.store().agents(query).await? {
                needs.extend(self.need_of_agent(agent).await?);
            }
        }
        Ok(needs)
    }

    /// One whose restarts are used up, that no restart cures, or whose command cannot be started.
    async fn need_of_agent(&self, agent: &Agent) -> Result<Option<NeedsMe>, StoreError> {
        let name = &agent.name;
        let start = agent.command_to_start(None);
        let (kind, text, hint) = match &agent.state {
            AgentState::Terminated { why } => (
                "terminated",
                format!("agent {name} is not brought back any more: {why}"),
                format!("relight deaths {name}, then {start}"),
            ),
            AgentState::Suspended {
                why: Pause::Incurable,
                ..
            } => {
                let death = self.last_death(name).await?.and_then(|last| last.ended);
                let death = death.map(|ended| ended.death);
                let said = death.as_ref().and_then(|death| match &death.said {
                    Some(ReportedEnd::Incurable(why)) => Some(why.clone()),
                    _ => None,
                });
                let note = death.as_ref().and_then(|death| death.note.clone());
                let alert = match (said, agent.spent()) {
                    (None, Some(spent)) => Alert::agent_overspent(name, &start, &spent),
                    (said, _) => {
                        let why = said.or(note).unwrap_or_else(|| "unknown".to_owned());
                        Alert::agent_suspended(name, &start, &why)
                    }
                };
                ("suspended", alert.text, alert.hint.unwrap_or_default())
            }
            AgentState::Crashed { .. } => {
                let last = self.last_death(name).await?;
                let Some(why) = last.as_ref().and_then(Attempt::why_not_started) else {
                    return Ok(None);
                };
                (
                    "not_started",
                    format!("agent {name} cannot be started: {why}"),
                    format!("correct that, then {start}"),
                )
            }
            _ => return Ok(None),
        };
        Ok(Some(NeedsMe {
            kind: kind.to_owned(),
            subject: format!("agent/{name}"),
            text,
            hint,
            at: agent.updated_at,
        }))
    }

    async fn last_death(&self, name: &AgentName) -> Result<Option<Attempt>, StoreError> {
        let query = AttemptQuery {
            agent: Some(name.clone()),
            ended: true,
            before: None,
            limit: 1,
        };
        Ok(self.engine.store().attempts(query).await?.pop())
    }

    async fn needs_of_tasks(&self) -> Result<Vec<NeedsMe>, StoreError> {
        let mut needs = Vec::new();
        for status in [TaskStatus::Blocked, TaskStatus::Suspended] {
            for task in self.tasks_that_are(status, NEEDS_MAX).await? {
                needs.push(self.need_of_task(&task).await?);
            }
        }
        Ok(needs)
    }

    async fn given_up(&self) -> Result<Vec<NeedsMe>, StoreError> {
        let failed = self.tasks_that_are(TaskStatus::Failed, FAILED_MAX).await?;
        let mut needs = Vec::new();
        for task in failed.iter().filter(|task| !task.has_retry_left()) {
            let id = shell_word(task.id.as_str());
            let retry = format!("relight task retry {id} --force, or relight task cancel {id}");
            let doubt = self.doubt_of(task).await?.filter(Step::waits_for_person);
            let hint = match doubt {
                Some(step) => format!("{}, then {retry}", resolve_first(&task.id, &step.key)),
                None => retry,
            };
            needs.push(need(task, "given_up", hint));
        }
        Ok(needs)
    }

    async fn without_agent(&self) -> Result<Vec<NeedsMe>, StoreError> {
        let found = tasks_without_agent(self.engine.store().as_ref()).await?;
        let need = |(task, why): (Task, String)| NeedsMe {
            text: format!("task {} waits: {why}", task.id),
            ..need(&task, "no_agent", give_skill(&task))
        };
        Ok(found.into_iter().map(need).collect())
    }

    async fn tasks_that_are(
        &self,
        status: TaskStatus,
        limit: usize,
    ) -> Result<Vec<Task>, StoreError> {
        let (statuses, limit) = (vec![status], Some(limit));
        self.engine
            .store()
            .tasks(TaskQuery {
                statuses,
                limit,
                ..TaskQuery::default()
            })
            .await
    }

    async fn need_of_task(&self, task: &Task) -> Result<NeedsMe, StoreError> {
        let id = shell_word(task.id.as_str());
        let doubt = self.doubt_of(task).await?;
        let kind = match (self.is_parked(task).await?, task.status, task.steps_open) {
            (true, ..) => "parked",
            (false, TaskStatus::Blocked, 1..) => "in_doubt",
            (false, TaskStatus::Blocked, 0) => "blocked",
            (false, ..) => "suspended",
        };
        let first = match (kind, doubt) {
            ("parked" | "in_doubt", Some(step)) if task.status == TaskStatus::Blocked => {
                let command = resolve_command(&task.id, &step.key);
                let hint = format!("{command} --happened, or {command} --did-not");
                return Ok(need(task, kind, hint));
            }
            ("in_doubt", _) => {
                return Ok(need(task, kind, format!("relight step list --task {id}")));
            }
            (_, Some(step)) if step.waits_for_person() => resolve_first(&task.id, &step.key),
            _ => format!("relight task show {id}"),
        };
        let hint = match kind {
            "parked" => format!("{first}, then relight recover {id} --resume"),
            _ => format!("{first}, then relight task retry {id}"),
        };
        Ok(need(task, kind, hint))
    }

    /// The first step that was begun and not ended; one that only a person decides about before others.
    async fn doubt_of(&self, task: &Task) -> Result<Option<Step>, StoreError> {
        if task.steps_open == 0 || task.steps_done > STEPS_MAX {
            return Ok(None);
        }
        let steps = self.engine.store().steps(&task.id).await?;
        let open = steps.into_iter().filter(Step::is_open);
        Ok(open.min_by_key(|step| !step.waits_for_person()))
    }

    /// Whether it stands where it does because it used up what it may: the alert tells, which came
    /// with the change of its status.
    async fn is_parked(&self, task: &Task) -> Result<bool, StoreError> {
        let kinds = vec![EventKind::Alert, EventKind::TaskStatus];
        let of_task = Some(task.id.clone());
        let query = EventQuery {
            task: of_task,
            kinds,
            newest: true,
            limit: 4,
            after: 0,
            before: None,
            agent: None,
        };
        let events = self.engine.store().events(query).await?;
        let moved_at = events
            .iter()
            .rfind(|event| event.kind == EventKind::TaskStatus);
        let moved_at = moved_at.map(|event| event.at);
        let alert = events.iter().rfind(|event| event.kind == EventKind::Alert);
        let alert = alert.filter(|event| moved_at.is_none_or(|moved_at| event.at >= moved_at));
        let alert = alert.and_then(|event| Alert::from_detail(&event.detail));
        Ok(alert.is_some_and(|alert| alert.kind == AlertKind::Parked))
    }

    async fn needs_of_sessions(&self) -> Result<Vec<NeedsMe>, StoreError> {
        let states = vec![SessionStateKind::Suspended];
        let limit = Some(NEEDS_MAX);
        let query = SessionQuery {
            states,
            limit,
            ..SessionQuery::default()
        };
        let sessions = self.engine.store().sessions(query).await?;
        Ok(sessions.iter().map(need_of_session).collect())
    }
}

/// New tasks whose skills no agent has, each with why; none where no agent takes tasks of the queue.
pub async fn tasks_without_agent(store: &dyn Store) -> Result<Vec<(Task, String)>, StoreError> {
    let waiting = TaskQuery {
        statuses: vec![TaskStatus::Created],
        limit: Some(CREATED_MAX),
        ..TaskQuery::default()
    };
    let mut tasks = store.tasks(waiting).await?;
    tasks.retain(|task| !task.spec.needs.is_empty());
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    let agents = store.agents(AgentQuery::default()).await?;
    let found = tasks.into_iter().filter_map(|task| {
        let why = lacks_agent(&task, &agents)?;
        Some((task, why))
    });
    Ok(found.collect())
}

/// Why no agent can take the task. An agent that was neither given skills nor is started with tasks says
/// nothing about the queue: workers outside of Relight name their skills when they claim.
pub fn lacks_agent(task: &Task, agents: &[Agent]) -> Option<String> {
    let of_queue = |agent: &&Agent| {
        !agent.plan.skills.is_empty()
            || agent.plan.takes == Takes::Start
            || agent.plan.pool.is_some()
    };
    let agents: Vec<&Agent> = agents.iter().filter(of_queue).collect();
    let needs = &task.spec.needs;
    let has = |agent: &&Agent, need: &String| agent.plan.skills.contains(need);
    let can = |agent: &&Agent| needs.iter().all(|need| has(agent, need));
    if agents.is_empty() || !Claimant::is_for_the_queue(task.status) || agents.iter().any(can) {
        return None;
    }
    let nobodys = needs
        .iter()
        .filter(|need| !agents.iter().any(|agent| has(agent, need)));
    let mut named: Vec<&str> = nobodys.map(String::as_str).collect();
    if named.is_empty() {
        named = needs.iter().map(String::as_str).collect();
    }
    let word = if named.len() == 1 { "skill" } else { "skills" };
    Some(format!("no agent has the {word} {}", named.join(", ")))
}

/// What to do about a task that no agent can take.
pub fn give_skill(task: &Task) -> String {
    let id = shell_word(task.id.as_str());
    format!("give an agent of relight.toml the skill, or relight task cancel {id}")
}

/// What waits by its state alone.
fn waiting(inventory: &Inventory) -> u64 {
    let of = |status| count(&inventory.tasks, status);
    of(TaskStatus::Blocked)
        + of(TaskStatus::Suspended)
        + count(&inventory.agents, AgentStateKind::Terminated)
        + count(&inventory.sessions, SessionStateKind::Suspended)
}

fn count<T: PartialEq + Copy>(counts: &[(T, u64)], wanted: T) -> u64 {
    counts
        .iter()
        .find(|(kind, _)| *kind == wanted)
        .map_or(0, |(_, count)| *count)
}

fn need(task: &Task, kind: &str, hint: String) -> NeedsMe {
    let reason = task
        .reason
        .as_ref()
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    NeedsMe {
        kind: kind.to_owned(),
        subject: format!("task/{}", task.id),
        text: format!("task {} is {}{reason}", task.id, task.status),
        hint,
        at: task.updated_at,
    }
}

fn need_of_store(overspent: &Overspent) -> NeedsMe {
    let alert = Alert::store_overspent(&overspent.why, overspent.until);
    NeedsMe {
        kind: alert.kind.to_string(),
        subject: alert.subject.to_string(),
        text: alert.text,
        hint: alert.hint.unwrap_or_default(),
        at: overspent.since,
    }
}

fn need_of_session(session: &Session) -> NeedsMe {
    let reason = session
        .reason
        .as_ref()
        .map(|reason| format!(": {}", reason.text));
    NeedsMe {
        kind: "suspended".to_owned(),
        subject: format!("session/{}", session.key),
        text: format!(
            "session {} waits{}",
            session.key,
            reason.unwrap_or_default()
        ),
        hint: format!(
            "relight session resume {}",
            shell_word(session.key.as_str())
        ),
        at: session.updated_at,
    }
}
