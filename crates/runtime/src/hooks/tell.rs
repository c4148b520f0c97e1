//! What a new conversation is told about one that was cut off: its own, or another of the same program in the
//! same folder. Edits that a file's hash can tell about are settled first.

use std::path::Path;

use relight_core::agent::brief::{BriefFacts, brief};
use relight_core::decide::{Observed, Right, TaskEvent};
use relight_core::ids::TaskId;
use relight_core::status::TaskStatus;
use relight_core::step::{Call, Step, StepOutcome};
use relight_core::task::Task;
use relight_store::TaskQuery;
use serde_json::{Map, Value};

use super::payload::hash_of;
use super::{Conversation, absolute};
use crate::boxed::boxed;
use crate::engine::{ActError, Engine, TaskSnapshot};
use crate::git_state::git_facts;

/// Most conversations of a folder that are told of at a time.
const TOLD_MAX: usize = 2;
/// The record of conversations that were cut off: for the task of each the task of the conversation that was
/// told of it last.
const TOLD: &str = "hooks.told";
/// Most conversations in that record. One that is dropped is told of once more.
const RECORDED_MAX: usize = 1_000;
/// How often a record is written again because somebody else was faster.
const ROUNDS_MAX: usize = 100;

/// A call in doubt that its file could tell about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// What was called.
    pub call: Call,
    /// Whether it happened.
    pub happened: bool,
}

/// Looks at the files of edits in doubt and records what is found. For tasks that nobody works on.
pub async fn settle_edits(engine: &Engine, view: &TaskSnapshot) -> Result<Vec<Settled>, ActError> {
    let (mut events, mut settled) = (Vec::new(), Vec::new());
    for step in view.steps.iter().filter(|step| step.is_open()) {
        let Some((call, happened)) = verdict(step) else {
            continue;
        };
        let outcome = if happened {
            StepOutcome::Done
        } else {
            StepOutcome::Failed
        };
        let (key, rule) = (step.key.clone(), step.rule);
        events.push(TaskEvent::Observe(Observed::CallEnded {
            key,
            rule,
            outcome,
            output: None,
        }));
        settled.push(Settled {
            call: call.clone(),
            happened,
        });
    }
    if !events.is_empty() {
        engine
            .act_together(&view.task.id, Right::Unfenced, events)
            .await?;
    }
    Ok(settled)
}

fn verdict(step: &Step) -> Option<(&Call, bool)> {
    let call = step.call.as_ref()?;
    let file = call.file.as_ref()?;
    let now = hash_of(&file.path).ok()?;
    Some((call, file.was_written(now.as_deref())?))
}

impl Conversation<'_> {
    /// The brief for this conversation, redacted; none when nothing was cut off. Other conversations are
    /// told of until one that was told has its first prompt.
    #[boxed]
    pub async fn tell(&self) -> Result<Option<String>, ActError> {
        let mut told = Vec::new();
        for task in self.cut_off().await?.into_iter().take(TOLD_MAX) {
            let is_own = task.id == self.own_task();
            let text = self.brief_of(&task.id).await?;
            if !is_own {
                let own = Value::String(self.own_task().to_string());
                self.record(|told| {
                    told.insert(task.id.to_string(), own.clone());
                })
                .await?;
            }
            let whose = match is_own {
                true => "This conversation was cut off.",
                false => "An earlier conversation in this folder was cut off.",
            };
            told.extend(text.map(|text| format!("{whose}\n{text}")));
        }
        Ok((!told.is_empty()).then(|| told.join("\n")))
    }

    /// Completes the conversations that this one was told of: nobody continues them, and their doubts stay.
    pub(super) async fn complete_told(&self) -> Result<(), ActError> {
        let own = self.own_task();
        let told = self.engine.store().kept(TOLD).await?.unwrap_or_default();
        let is_told = |id: &str| told[id] == own.as_str();
        if !told
            .as_object()
            .is_some_and(|told| told.keys().any(|id| is_told(id)))
        {
            return Ok(());
        }
        for task in self.cut_off().await? {
            if is_told(task.id.as_str()) {
                let events = vec![self.turn().await?, TaskEvent::Done { force: true }];
                self.engine
                    .act_together(&task.id, Right::Unfenced, events)
                    .await?;
            }
        }
        self.record(|told| told.retain(|_, to| *to != own.as_str()))
            .await
    }

    /// Changes the record of who was told of what.
    async fn record(&self, change: impl Fn(&mut Map<String, Value>)) -> Result<(), ActError> {
        let store = self.engine.store();
        for _ in 0..ROUNDS_MAX {
            let before = store.kept(TOLD).await?;
            let mut told = match &before {
                Some(Value::Object(told)) => told.clone(),
                _ => Map::new(),
            };
            change(&mut told);
            while told.len() > RECORDED_MAX
                && let Some(first) = told.keys().next().cloned()
            {
                told.remove(&first);
            }
            if store.keep(TOLD, before, Value::Object(told)).await? {
                break;
            }
        }
        Ok(())
    }

    /// Conversations of this program whose turn was cut off: this one, and those of this folder.
    async fn cut_off(&self) -> Result<Vec<Task>, ActError> {
        let store = self.engine.store();
        let statuses = vec![TaskStatus::InProgress, TaskStatus::Interrupted];
        let (own, prefix) = (self.own_task(), format!("{}/", self.program));
        let folder = self.payload.folder.as_deref().map(absolute);
        let mut tasks = store
            .tasks(TaskQuery {
                statuses,
                ..TaskQuery::default()
            })
            .await?;
        tasks.retain(|task| {
            let is_here = folder.is_some() && task.context.get("workspace") == folder.as_ref();
            let is_its = task.spec.observed && task.id.as_str().starts_with(&prefix);
            is_its && (task.id == own || is_here)
        });
        // Another conversation was told of it, and this one is resumed all the same.
        let resumed = store.task(&own).await?.filter(|task| task.steps_open > 0);
        tasks.extend(resumed.filter(|task| task.status == TaskStatus::Completed));
        let holders = self.engine.holders();
        holders
            .look_for(tasks.iter().filter_map(|task| task.lease.held.as_ref()))
            .await?;
        tasks.retain(|task| !holders.is_held(&task.lease));
        // Its own first, then the newest.
        tasks.sort_by_key(|task| (task.id != own, std::cmp::Reverse(task.updated_at)));
        Ok(tasks)
    }

    async fn brief_of(&self, id: &TaskId) -> Result<Option<String>, ActError> {
        let settled = settle_edits(self.engine, &self.engine.view(id).await?).await?;
        let view = self.engine.view(id).await?;
        let place = view
            .task
            .context
            .get("workspace")
            .map_or("", String::as_str);
        let git = git_facts(Path::new(place));
        let settled: Vec<(&Call, bool)> =
            settled.iter().map(|it| (&it.call, it.happened)).collect();
        let facts = BriefFacts {
            agent: None,
            attempt_number: 1,
            before: None,
            worker: None,
            task: Some((&view.task, &view.steps)),
            settled: &settled,
            open_calls: &[],
            handed_over: None,
            git: git.as_ref().map(|git| (place, git)),
            host: None,
        };
        Ok(brief(&facts).map(|text| self.engine.redactor().text(&text).into_owned()))
    }
}
