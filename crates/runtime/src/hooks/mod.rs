//! What the hooks of an agent's program observe: turns of its conversation and tool calls, kept as steps of
//! a task.
//!
//! The task is the one that the agent was given. Without one, or when that has ended, the conversation has a
//! task of its own, held by the program's process while a turn runs. Hooks only observe: nothing here holds a
//! call back, and what cannot be recorded is reported to the caller, which continues.

mod dispatch;
mod payload;
mod tell;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use relight_core::agent::plain::plain_line;
use relight_core::change::Change;
use relight_core::decide::{Observed, Right, TaskEvent};
use relight_core::ids::TaskId;
use relight_core::lease::{Fence, Holder, HolderLife};
use relight_core::limits;
use relight_core::step::{Output, RepeatRule, Step, StepKey, StepOutcome};
use relight_core::task::{NewTask, Task, Usage};
use relight_core::time::Span;

use crate::engine::{ActError, Acted, Engine};
use crate::holders;
use crate::os::{attempts, clock, fleet, process};
use crate::redact_input::clipped_clean;

pub use self::dispatch::{Observation, Telling};
pub use self::payload::{Payload, ToolCall, session_task};
pub use self::tell::{Settled, settle_edits};

/// Most bytes of a prompt that are kept.
const PROMPT_BYTES_MAX: usize = 2 << 10;
const TITLE_BYTES_MAX: usize = 80;
/// How long a conversation that was cut off is worth a word.
const KEPT: Span = Span::from_secs(30 * 24 * 60 * 60);
/// Most open calls that the end of a turn closes.
const CLOSED_AT_ONCE: usize = 1_000;
/// Calls without an id that have the same arguments: how many may begin at the same time.
const BEGUN_AT_ONCE_MAX: u32 = 64;
/// Calls without an id that have the same arguments: how many of them may be open at a time.
const OPEN_ALIKE_MAX: u32 = 8;

/// What happens in an agent's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookEvent {
    /// A conversation starts or is resumed.
    SessionStart,
    /// The user has submitted a prompt.
    Prompt,
    /// A tool is about to be called.
    BeforeTool,
    /// A tool was called.
    AfterTool,
    /// A turn has ended.
    Stop,
    /// A turn has ended with an error.
    Failure,
    /// The program ends the conversation.
    SessionEnd,
}

impl HookEvent {
    /// All of them, with their names.
    pub const ALL: [(&'static str, Self); 7] = [
        ("session-start", Self::SessionStart),
        ("prompt", Self::Prompt),
        ("before-tool", Self::BeforeTool),
        ("after-tool", Self::AfterTool),
        ("stop", Self::Stop),
        ("failure", Self::Failure),
        ("session-end", Self::SessionEnd),
    ];
}

impl FromStr for HookEvent {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == text);
        let names = || Self::ALL.map(|(name, _)| name).join(", ");
        found
            .map(|(_, event)| event)
            .ok_or_else(|| format!("write one of {}", names()))
    }
}

/// Repeat rules by the name of the tool. A `*` at the end matches anything; case does not count. A list that
/// is not given is the default one.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(default = "ToolRules::usual", deny_unknown_fields)]
pub struct ToolRules {
    /// Calls that are not recorded.
    pub ignored: Vec<String>,
    /// Calls that a file's hash can tell about.
    pub verify: Vec<String>,
    /// Calls that do no harm twice. They are recorded when they have ended.
    pub repeatable: Vec<String>,
    /// Calls that must not be repeated: those of this list, and all that no list names.
    pub once: Vec<String>,
}

impl ToolRules {
    /// Those of `[hooks]` in `relight.toml` where nothing is said.
    pub fn usual() -> Self {
        let list = |names: &str| names.split(' ').map(str::to_owned).collect();
        Self {
            ignored: list("mcp__relight__* relight_*"),
            verify: list(
                "Edit MultiEdit Write NotebookEdit write_file edit_file WriteFile StrReplace* replace \
                 create patch apply_patch",
            ),
            repeatable: list(
                "Read ReadFile read_file read_many_files NotebookRead ReadMediaFile view view_image Glob \
                 Grep grep_search search_file_content rg LS list list_directory WebSearch \
                 google_web_search web_search Todo* todo_write update_plan SetTodoList report_intent \
                 ToolSearch Task Agent",
            ),
            once: Vec::new(),
        }
    }

    /// The rule of a tool; none for one that is not recorded.
    pub fn of(&self, tool: &str) -> Option<RepeatRule> {
        let is_in = |list: &[String]| list.iter().any(|pattern| matches(pattern, tool));
        match () {
            () if is_in(&self.ignored) => None,
            () if is_in(&self.once) => Some(RepeatRule::Once),
            () if is_in(&self.verify) => Some(RepeatRule::Verify),
            () if is_in(&self.repeatable) => Some(RepeatRule::Repeatable),
            () => Some(RepeatRule::Once),
        }
    }
}

fn matches(pattern: &str, tool: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => tool
            .get(..start.len())
            .is_some_and(|it| it.eq_ignore_ascii_case(start)),
        None => tool.eq_ignore_ascii_case(pattern),
    }
}

/// What runs a conversation: its turns are held by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunsIn {
    /// This process: the program observes itself.
    ThisProcess,
    /// The process that has called this one.
    Caller,
    /// Someone else, who holds what it takes like this.
    Other(Holder),
}

/// One conversation, as a hook sees it.
#[derive(Debug)]
pub struct Conversation<'a> {
    /// The store.
    pub engine: &'a Engine,
    /// The agent's program: `claude`, `codex` …
    pub program: &'a str,
    /// What the program wrote.
    pub payload: &'a Payload,
    /// The task that the agent was given, with its fence.
    pub given: Option<(TaskId, Option<Fence>)>,
    /// What runs it.
    pub runs_in: RunsIn,
    /// A supervisor reads what the program uses from its output: hooks do not count it again.
    pub is_metered: bool,
}

impl Conversation<'_> {
    /// The task that stands for the conversation.
    pub fn own_task(&self) -> TaskId {
        session_task(self.engine.redactor(), self.program, &self.payload.session)
    }

    /// Keeps the prompt and, in a conversation's own task, begins a turn.
    pub async fn prompted(&self) -> Result<(), ActError> {
        self.complete_told().await?;
        if let Some((task, right)) = self.given_task().await? {
            let Some(prompt) = self.context().remove("prompt") else {
                return Ok(());
            };
            let pairs = [("prompt".to_owned(), prompt)].into();
            let set = TaskEvent::Set(pairs);
            return self
                .engine
                .act_upon(Some(task.clone()), &task.id, right, set)
                .await
                .map(|_| ());
        }
        // An interrupted turn may have no other end.
        if let Some(task) = self.running_task().await? {
            let closed = self.open_calls(&task).await?;
            self.engine
                .act_together(&task.id, Right::Unfenced, closed)
                .await?;
        }
        self.engine
            .observe(self.new_task(), vec![self.turn().await?])
            .await
            .map(|_| ())
    }

    /// Records that a call begins. A repeatable one is recorded at its end, as a lost begin changes nothing.
    pub async fn call_begins(&self, tool: &ToolCall, rule: RepeatRule) -> Result<(), ActError> {
        if !rule.needs_intent_first() {
            return Ok(());
        }
        for _ in 0..BEGUN_AT_ONCE_MAX {
            if self.is_begun(tool, rule).await? {
                return Ok(());
            }
        }
        Err(ActError::Contended(self.own_task()))
    }

    /// Begins a call; not when it has no id and another one that is the same took its number meanwhile.
    async fn is_begun(&self, tool: &ToolCall, rule: RepeatRule) -> Result<bool, ActError> {
        let redactor = self.engine.redactor();
        let folder = self.payload.folder.as_deref();
        let call = tool.call(redactor, folder, rule == RepeatRule::Verify);
        let begun = |key| {
            TaskEvent::Observe(Observed::CallBegun {
                key,
                rule,
                call: call.clone(),
            })
        };
        let is_its_own = |acted: &Acted| {
            let mut changes = acted.decision.changes.iter();
            tool.id.is_some() || changes.any(|change| matches!(change, Change::StepBegun(_)))
        };
        if let Some((task, right)) = self.given_task().await? {
            match self.begin(task, right, tool, begun).await {
                // It was taken from this agent, or has ended meanwhile.
                Err(ActError::Refused(_)) => {}
                acted => return acted.map(|acted| is_its_own(&acted)),
            }
        }
        if let Some(task) = self.running_task().await? {
            let right = Right::Fence(task.lease.fence);
            let acted = self.begin(task, right, tool, begun).await?;
            return Ok(is_its_own(&acted));
        }
        let key = self.next_key(&self.own_task(), tool).await?;
        let events = vec![self.turn().await?, begun(key)];
        let acted = self.engine.observe(self.new_task(), events).await?;
        Ok(acted.is_none_or(|acted| is_its_own(&acted)))
    }

    /// The number of a call without an id counts only in the state of the task in which it was chosen;
    /// calls with ids begin beside each other.
    async fn begin(
        &self,
        task: Task,
        right: Right,
        tool: &ToolCall,
        begun: impl Fn(StepKey) -> TaskEvent,
    ) -> Result<Acted, ActError> {
        let (id, key) = (task.id.clone(), self.next_key(&task.id, tool).await?);
        match tool.id {
            Some(_) => {
                self.engine
                    .act_upon(Some(task), &id, right, begun(key))
                    .await
            }
            None => self.engine.act_together(&id, right, vec![begun(key)]).await,
        }
    }

    /// Records that a call has ended, in the task in which it was begun.
    pub async fn call_ended(&self, tool: &ToolCall, rule: RepeatRule) -> Result<(), ActError> {
        let failed = tool.failed;
        let outcome = if failed {
            StepOutcome::Failed
        } else {
            StepOutcome::Done
        };
        let stderr = self
            .payload
            .error
            .clone()
            .filter(|_| failed)
            .unwrap_or_default();
        let output = Output {
            exit_code: i32::from(failed),
            stderr,
            ..Output::default()
        };
        let ended = |key| {
            let output = Some(output.clone());
            TaskEvent::Observe(Observed::CallEnded {
                key,
                rule,
                outcome,
                output,
            })
        };
        let own = self.own_task();
        let given = self.given.as_ref().map(|(id, _)| id);
        let tasks: Vec<&TaskId> = given.into_iter().chain([&own]).collect();
        let mut begun = None;
        for id in &tasks {
            if begun.is_none() {
                let key = self.open_key(id, tool).await?;
                begun = key.map(|key| ((*id).clone(), key));
            }
        }
        if begun.is_none() && rule.needs_intent_first() {
            begun = self.open_without_arguments(&tasks, tool).await?;
        }
        if let Some((id, key)) = begun {
            let ended = self.engine.act(&id, Right::Unfenced, ended(key)).await;
            return ended.map(|_| ());
        }
        if let Some((task, right)) = self.given_task().await? {
            let key = self.next_key(&task.id, tool).await?;
            return self
                .engine
                .act(&task.id, right, ended(key))
                .await
                .map(|_| ());
        }
        let key = self.next_key(&own, tool).await?;
        match self.running_task().await? {
            Some(task) => {
                let right = Right::Fence(task.lease.fence);
                self.engine
                    .act_upon(Some(task), &own, right, ended(key))
                    .await
                    .map(|_| ())
            }
            // It came after the end of its turn.
            None if self.engine.store().task(&own).await?.is_some() => Ok(()),
            None => self
                .engine
                .observe(self.new_task(), vec![self.turn().await?, ended(key)])
                .await
                .map(|_| ()),
        }
    }

    /// Records the end of a turn. Calls that have no end by then were refused or broken off, and the
    /// conversation knows: they are not in doubt. A conversation's own task is complete until the next turn.
    pub async fn turn_ends(&self, event: HookEvent) -> Result<(), ActError> {
        let given = self.given_task().await?;
        let own = match &given {
            Some(_) => None,
            None => self.running_task().await?,
        };
        let Some(task) = given.as_ref().map(|(task, _)| task).or(own.as_ref()) else {
            return Ok(());
        };
        let mut events = self.open_calls(task).await?;
        // A program that ends in the middle of a call was stopped: the call may or may not have happened.
        if event == HookEvent::SessionEnd && !events.is_empty() {
            return Ok(());
        }
        if event != HookEvent::SessionEnd {
            if !self.is_metered {
                let turns = 1;
                let used = self.payload.used;
                events.push(TaskEvent::Spend(Usage { turns, ..used }));
            }
            let outcome = match (&self.payload.error, event) {
                (Some(error), _) => format!("failed: {error}"),
                (None, HookEvent::Failure) => "failed".to_owned(),
                (None, _) => "finished".to_owned(),
            };
            events.push(TaskEvent::Set([("outcome".to_owned(), outcome)].into()));
        }
        let right = match given.as_ref() {
            Some((_, right)) => *right,
            None => {
                events.push(TaskEvent::Done { force: true });
                Right::Fence(task.lease.fence)
            }
        };
        if events.is_empty() {
            return Ok(());
        }
        match self.engine.act_together(&task.id, right, events).await {
            // Two hooks can tell of the same end.
            Ok(_) | Err(ActError::Refused(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The task that the agent was given, if it can be written to, and by what right.
    async fn given_task(&self) -> Result<Option<(Task, Right)>, ActError> {
        let Some((id, fence)) = &self.given else {
            return Ok(None);
        };
        let task = self.engine.store().task(id).await?;
        let right = fence.map_or(Right::Unfenced, Right::Fence);
        let is_ours = |task: &Task| match fence {
            Some(fence) => task.lease.admits(*fence),
            None => true,
        };
        let task = task.filter(|task| !task.status.is_terminal() && is_ours(task));
        Ok(task.map(|task| (task, right)))
    }

    /// The conversation's own task while a turn of it runs.
    async fn running_task(&self) -> Result<Option<Task>, ActError> {
        let Some(task) = self.engine.store().task(&self.own_task()).await? else {
            return Ok(None);
        };
        let life = self.engine.holder_life(&task, Right::Unfenced).await?;
        let runs = task.lease.held.is_some() && life == HolderLife::Alive;
        Ok(Some(task).filter(|_| runs))
    }

    async fn turn(&self) -> Result<TaskEvent, ActError> {
        let (new, holder) = (Box::new(self.new_task()), self.holder().await?);
        Ok(TaskEvent::Observe(Observed::Turn { new, holder }))
    }

    /// The program that is observed; under a supervisor it ends with its attempt at the latest. Where
    /// others could not see a process end, the clock tells.
    async fn holder(&self) -> Result<Holder, ActError> {
        let process = match &self.runs_in {
            RunsIn::ThisProcess => Some(process::me().clone()),
            RunsIn::Caller => process::caller().and_then(process::identity),
            RunsIn::Other(holder) => return Ok(holder.clone()),
        };
        let attempt = match attempts::own() {
            Some(tag) => holders::of_attempt(self.engine.store().as_ref(), tag).await?,
            None => None,
        };
        Ok(match (attempt, process) {
            (Some(Holder::Attempt { attempt, shim, .. }), Some(process))
                if process::has_below(&shim, process.pid) =>
            {
                Holder::Attempt {
                    attempt,
                    shim,
                    process: Some(process),
                }
            }
            (None, Some(process))
                if !self.engine.store().is_shared() && fleet::node().is_none() =>
            {
                Holder::Process(process)
            }
            _ => Holder::Time {
                by: format!("{} (seen by hooks)", self.program),
            },
        })
    }

    fn new_task(&self) -> NewTask {
        let mut new = NewTask::bare(self.own_task());
        new.context = self.context();
        new.spec.title = new
            .context
            .get("prompt")
            .map(|prompt| clipped_clean(prompt, TITLE_BYTES_MAX));
        new.spec.observed = true;
        new.expires_at = Some(clock::now().plus(KEPT));
        new
    }

    /// What a successor needs to know. Redacted before it is cut, because half a secret is not recognised.
    fn context(&self) -> BTreeMap<String, String> {
        let prompt = self.payload.prompt.as_ref().map(|prompt| {
            let clean = self.engine.redactor().text(prompt);
            let words: Vec<&str> = clean.split_whitespace().collect();
            clipped_clean(&plain_line(&words.join(" ")), PROMPT_BYTES_MAX)
        });
        let folder = self.payload.folder.as_deref().map(absolute);
        let pairs = [("prompt", prompt), ("workspace", folder)];
        let given = pairs
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)));
        given
            .filter(|(_, value)| value.len() <= limits::CONTEXT_VALUE.max)
            .collect()
    }

    /// Ends of the calls that were begun in this turn and are open.
    async fn open_calls(&self, task: &Task) -> Result<Vec<TaskEvent>, ActError> {
        if task.steps_open == 0 {
            return Ok(Vec::new());
        }
        let steps = self.engine.store().steps(&task.id).await?.into_iter();
        let steps = steps.filter(|step| is_open_in_turn(task, step));
        let ended = |Step { key, rule, .. }| {
            let outcome = StepOutcome::Failed;
            TaskEvent::Observe(Observed::CallEnded {
                key,
                rule,
                outcome,
                output: None,
            })
        };
        Ok(steps.take(CLOSED_AT_ONCE).map(ended).collect())
    }

    /// The key of a call that begins. Without an id, the same arguments are another call each time.
    async fn next_key(&self, task: &TaskId, tool: &ToolCall) -> Result<StepKey, ActError> {
        let mut key = tool.key(self.engine.redactor());
        if tool.id.is_none() {
            key.occurrence = self.last_alike(task, &key).await? + 1;
        }
        Ok(key)
    }

    /// The key of a call that was begun in this task and is open, or was closed with its turn.
    async fn open_key(&self, task: &TaskId, tool: &ToolCall) -> Result<Option<StepKey>, ActError> {
        let mut key = tool.key(self.engine.redactor());
        let last = match tool.id {
            Some(_) => 1,
            None => self.last_alike(task, &key).await?,
        };
        for occurrence in (last.saturating_sub(OPEN_ALIKE_MAX) + 1..=last).rev() {
            key.occurrence = occurrence;
            if self
                .engine
                .store()
                .step(task, &key)
                .await?
                .is_some_and(|step| step.is_open())
            {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// The call that an end without its arguments, or with others of it redacted, belongs to: by its id, else
    /// the only one of that tool, or with those arguments, that is open in this turn.
    async fn open_without_arguments(
        &self,
        tasks: &[&TaskId],
        tool: &ToolCall,
    ) -> Result<Option<(TaskId, StepKey)>, ActError> {
        let name = tool.tool(self.engine.redactor());
        let is_it = |task: &Task, step: &Step| match (&tool.id, &step.call) {
            (Some(_), _) => step.is_open() && tool.is_step(step),
            (None, Some(call)) => {
                let is_it = match tool.input.is_null() {
                    true => call.tool == name,
                    false => tool.is_step(step),
                };
                is_it && is_open_in_turn(task, step)
            }
            (None, None) => false,
        };
        let (store, mut found) = (self.engine.store(), Vec::new());
        for id in tasks {
            let task = store.task(id).await?.filter(|task| task.steps_open > 0);
            let Some(task) = task else { continue };
            let steps = store.steps(id).await?.into_iter();
            let its = steps.filter(|step| is_it(&task, step));
            found.extend(its.map(|step| ((*id).clone(), step.key)));
        }
        // Of several nobody can tell which one has ended.
        Ok(found.pop().filter(|_| found.is_empty()))
    }

    /// The last occurrence of a name; 0 when there is none. They have no gaps, so few have to be looked at.
    async fn last_alike(&self, task: &TaskId, key: &StepKey) -> Result<u32, ActError> {
        let is_there = async |occurrence| {
            let key = StepKey {
                occurrence,
                ..key.clone()
            };
            Ok::<bool, ActError>(self.engine.store().step(task, &key).await?.is_some())
        };
        let mut absent: u32 = 1;
        while absent < u32::MAX / 2 && is_there(absent).await? {
            absent *= 2;
        }
        let mut last = absent / 2;
        while last + 1 < absent {
            let middle = last.midpoint(absent);
            match is_there(middle).await? {
                true => last = middle,
                false => absent = middle,
            }
        }
        Ok(last)
    }
}

/// Whether this is a call that was begun in the task's turn and has no end.
fn is_open_in_turn(task: &Task, step: &Step) -> bool {
    let is_of_turn = step.fence == task.lease.fence || step.fence == Fence::default();
    step.call.is_some() && step.is_open() && is_of_turn
}

/// A folder without links, so that the same one is found again.
pub(crate) fn absolute(folder: &Path) -> String {
    let found = folder
        .canonicalize()
        .or_else(|_| std::path::absolute(folder));
    found
        .unwrap_or_else(|_| PathBuf::from(folder))
        .to_string_lossy()
        .into_owned()
}
