//! The one table of tools: their names, what they say about themselves, and what they take.

use std::sync::Arc;

use relight_runtime::operations::unknown_field;
use relight_runtime::redact_input::without_secrets;
use rmcp::model::{self, JsonObject, ToolAnnotations};
use serde_json::{Value, json};

use crate::error::ApiError;

/// A verb of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    TaskStart,
    TaskDone,
    TaskBlock,
    StepBegin,
    StepEnd,
    StepSkip,
    CheckpointSave,
    CheckpointResume,
    Heartbeat,
    Inflight,
    ResumeBrief,
}

/// What a tool says about itself.
struct About {
    name: &'static str,
    title: &'static str,
    text: &'static str,
    effect: Effect,
    fields: &'static [Field],
}

/// What a call changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Nothing.
    Reads,
    /// The same call again changes nothing more.
    Once,
    /// Each call counts.
    Each,
}

/// One argument.
#[derive(Clone, Copy)]
struct Field {
    name: &'static str,
    kind: FieldKind,
    need: Need,
    text: &'static str,
}

#[derive(Clone, Copy)]
enum FieldKind {
    Text,
    Number,
    Flag,
    Texts,
    Pairs,
    OneOf(&'static [&'static str]),
}

/// Where an argument must be given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Always,
    /// Where nobody remembers it.
    OverHttp,
    Never,
    /// It is there over HTTP alone, and need not be given.
    NeverAndOnlyOverHttp,
}

impl Field {
    fn is_there(self, over_http: bool) -> bool {
        over_http || self.need != Need::NeverAndOnlyOverHttp
    }
}

const fn field(name: &'static str, kind: FieldKind, need: Need, text: &'static str) -> Field {
    Field {
        name,
        kind,
        need,
        text,
    }
}

const TASK: Field = field(
    "task",
    FieldKind::Text,
    Need::OverHttp,
    "task id; default: the one you started",
);
const FENCE: Field = field(
    "fence",
    FieldKind::Number,
    Need::OverHttp,
    "from task_start; default: remembered",
);
const STEP: Field = field(
    "step",
    FieldKind::Text,
    Need::Always,
    "name of the step, stable across attempts",
);
const OCCURRENCE: Field = field(
    "occurrence",
    FieldKind::Number,
    Need::Never,
    "1 for the first use of the name, 2 for the second",
);
const AGENT: Field = field(
    "agent",
    FieldKind::Text,
    Need::Never,
    "your name, if you have one",
);

impl Tool {
    /// All of them, in the order in which an agent needs them.
    pub(super) const ALL: [Self; 11] = [
        Self::TaskStart,
        Self::StepBegin,
        Self::StepEnd,
        Self::StepSkip,
        Self::TaskDone,
        Self::TaskBlock,
        Self::ResumeBrief,
        Self::Inflight,
        Self::Heartbeat,
        Self::CheckpointSave,
        Self::CheckpointResume,
    ];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.about().name == name)
    }

    /// Whether a token that may only read is enough.
    pub(super) fn is_read_only(self) -> bool {
        self.about().effect == Effect::Reads
    }

    /// As the protocol has it.
    pub(super) fn described(self, over_http: bool) -> model::Tool {
        let about = self.about();
        let hints = ToolAnnotations::with_title(about.title)
            .read_only(about.effect == Effect::Reads)
            .destructive(false)
            .idempotent(about.effect != Effect::Each)
            .open_world(false);
        model::Tool::new(
            about.name,
            about.text,
            Arc::new(schema(about.fields, over_http)),
        )
        .with_title(about.title)
        .with_annotations(hints)
    }

    /// Refuses what its schema does not name.
    pub(super) fn check_names(self, given: &JsonObject, over_http: bool) -> Result<(), ApiError> {
        let about = self.about();
        let known: Vec<&str> = about
            .fields
            .iter()
            .filter(|field| field.is_there(over_http))
            .map(|f| f.name)
            .collect();
        let Some(unknown) = given.keys().find(|name| !known.contains(&name.as_str())) else {
            return Ok(());
        };
        let mut error = ApiError::from(unknown_field(unknown, known.into_iter()));
        error.message = without_secrets(error.message);
        Err(error)
    }

    fn about(self) -> &'static About {
        match self {
            Self::TaskStart => &TASK_START,
            Self::TaskDone => &TASK_DONE,
            Self::TaskBlock => &TASK_BLOCK,
            Self::StepBegin => &STEP_BEGIN,
            Self::StepEnd => &STEP_END,
            Self::StepSkip => &STEP_SKIP,
            Self::CheckpointSave => &CHECKPOINT_SAVE,
            Self::CheckpointResume => &CHECKPOINT_RESUME,
            Self::Heartbeat => &HEARTBEAT,
            Self::Inflight => &INFLIGHT,
            Self::ResumeBrief => &RESUME_BRIEF,
        }
    }
}

const TASK_START: About = About {
    name: "task_start",
    title: "Start or continue a task",
    text: "Takes a task, adding it if it is new, and returns payload and progress (20 done \
           steps). Call it first and after any restart.",
    effect: Effect::Once,
    fields: &[
        field(
            "task",
            FieldKind::Text,
            Need::OverHttp,
            "id that you choose, stable across restarts",
        ),
        field("title", FieldKind::Text, Need::Never, "what it is about"),
        field(
            "steps",
            FieldKind::Texts,
            Need::Never,
            "names of the declared steps, in order",
        ),
        field(
            "set",
            FieldKind::Pairs,
            Need::Never,
            "context for a successor: issue, branch, workspace, stage",
        ),
        AGENT,
        field(
            "fence",
            FieldKind::Number,
            Need::Never,
            "to continue a lease that you have",
        ),
        field(
            "lease",
            FieldKind::Text,
            Need::NeverAndOnlyOverHttp,
            "kept so long after each call; default 10m",
        ),
    ],
};

const TASK_DONE: About = About {
    name: "task_done",
    title: "Finish a task",
    text: "The whole task is finished. Refused while declared steps are open: finish or skip them.",
    effect: Effect::Once,
    fields: &[
        field(
            "force",
            FieldKind::Flag,
            Need::Never,
            "finish even if steps are open",
        ),
        TASK,
        FENCE,
    ],
};

const TASK_BLOCK: About = About {
    name: "task_block",
    title: "Block a task",
    text: "The task cannot continue before a person acts; an alert is sent.",
    effect: Effect::Once,
    fields: &[
        field(
            "reason",
            FieldKind::Text,
            Need::Always,
            "what the person must do",
        ),
        TASK,
        FENCE,
    ],
};

const STEP_BEGIN: About = About {
    name: "step_begin",
    title: "Begin a step",
    text: "Call before an action with an effect. Returns advice: go, again, ask, wait or \
           finished, and an idempotency_key to pass to the other side.",
    // Begun twice it is in doubt, and its rule may leave that to a person.
    effect: Effect::Each,
    fields: &[
        STEP,
        field(
            "rule",
            FieldKind::OneOf(&["keyed", "repeatable", "verify", "once"]),
            Need::Never,
            "if it is cut off: keyed (default) = again with the same key; repeatable = again; \
             verify = find out first; once = only a person may decide",
        ),
        OCCURRENCE,
        TASK,
        FENCE,
    ],
};

const STEP_END: About = About {
    name: "step_end",
    title: "End a step",
    text: "Call after the action. A finished step is never done again.",
    effect: Effect::Once,
    fields: &[
        STEP,
        field(
            "failed",
            FieldKind::Flag,
            Need::Never,
            "it failed and may be tried again",
        ),
        field(
            "output",
            FieldKind::Text,
            Need::Never,
            "what a successor needs of the result; short",
        ),
        field(
            "cost",
            FieldKind::Text,
            Need::Never,
            "what it cost, such as 0.25",
        ),
        field(
            "turns",
            FieldKind::Number,
            Need::Never,
            "model turns it took",
        ),
        OCCURRENCE,
        TASK,
        FENCE,
    ],
};

const STEP_SKIP: About = About {
    name: "step_skip",
    title: "Skip a step",
    text: "Closes a declared step without doing it.",
    effect: Effect::Once,
    fields: &[
        STEP,
        field(
            "reason",
            FieldKind::Text,
            Need::Always,
            "why it is not needed",
        ),
        OCCURRENCE,
        TASK,
        FENCE,
    ],
};

const CHECKPOINT_SAVE: About = About {
    name: "checkpoint_save",
    title: "Save a checkpoint",
    text: "Saves a workflow's progress, also as a file; begins the workflow if it is new. An \
           alternative to task_start and steps.",
    effect: Effect::Once,
    fields: &[
        field(
            "workflow",
            FieldKind::Text,
            Need::Always,
            "id that you choose",
        ),
        field(
            "step",
            FieldKind::Text,
            Need::Never,
            "step that you are about to do; required for a new workflow",
        ),
        field(
            "complete",
            FieldKind::Texts,
            Need::Never,
            "steps that are finished",
        ),
        field(
            "remaining",
            FieldKind::Texts,
            Need::Never,
            "for a new workflow: steps after this one",
        ),
        field(
            "status",
            FieldKind::OneOf(&["in_progress", "blocked", "done", "failed"]),
            Need::Never,
            "the new status",
        ),
        field("notes", FieldKind::Text, Need::Never, "for the successor"),
        field(
            "handoff",
            FieldKind::Text,
            Need::Never,
            "for a new workflow: who should take over",
        ),
        field(
            "idempotency",
            FieldKind::Text,
            Need::Never,
            "for a new workflow; default: its id",
        ),
        AGENT,
        field(
            "fence",
            FieldKind::Number,
            Need::Never,
            "from the answer of checkpoint_resume",
        ),
    ],
};

const CHECKPOINT_RESUME: About = About {
    name: "checkpoint_resume",
    title: "Resume a workflow",
    text: "Takes a workflow, the oldest unfinished one by default, and returns what is done, in \
           doubt and next.",
    effect: Effect::Once,
    fields: &[
        field("workflow", FieldKind::Text, Need::Never, "its id"),
        field("agent", FieldKind::Text, Need::Never, "only of this agent"),
        field(
            "fence",
            FieldKind::Number,
            Need::Never,
            "to continue a lease that you have",
        ),
        field(
            "lease",
            FieldKind::Text,
            Need::NeverAndOnlyOverHttp,
            "kept so long after each call; default 10m",
        ),
    ],
};

const HEARTBEAT: About = About {
    name: "heartbeat",
    title: "Send a sign of life",
    text: "Tells that you are alive, during long work without output. Obey the answer's action.",
    effect: Effect::Each,
    fields: &[
        field("status", FieldKind::Text, Need::Never, "what you do"),
        field(
            "waiting_until",
            FieldKind::Text,
            Need::Never,
            "silent until then: a time, or a duration such as 10m",
        ),
        field("task", FieldKind::Text, Need::Never, "what you work on"),
        field(
            "attempt",
            FieldKind::Number,
            Need::Never,
            "from an earlier answer",
        ),
        AGENT,
    ],
};

const INFLIGHT: About = About {
    name: "inflight",
    title: "What is in doubt or in flight",
    text: "Lists steps in doubt, tasks whose holder is gone, and tasks held now.",
    effect: Effect::Reads,
    fields: &[],
};

const RESUME_BRIEF: About = About {
    name: "resume_brief",
    title: "Read the brief",
    text: "Returns payload, what is done, in doubt, next.",
    effect: Effect::Reads,
    fields: &[
        field(
            "task",
            FieldKind::Text,
            Need::Never,
            "default: the one you started",
        ),
        AGENT,
    ],
};

fn schema(fields: &[Field], over_http: bool) -> JsonObject {
    let is_needed =
        |field: &Field| field.need == Need::Always || (over_http && field.need == Need::OverHttp);
    let fields = fields.iter().filter(|field| field.is_there(over_http));
    let mut object = JsonObject::new();
    object.insert("type".to_owned(), json!("object"));
    let properties: JsonObject = fields
        .clone()
        .map(|field| (field.name.to_owned(), property(field)))
        .collect();
    object.insert("properties".to_owned(), Value::Object(properties));
    let needed: Vec<&str> = fields
        .filter(|field| is_needed(field))
        .map(|field| field.name)
        .collect();
    if !needed.is_empty() {
        object.insert("required".to_owned(), json!(needed));
    }
    object.insert("additionalProperties".to_owned(), json!(false));
    object
}

/// Plain types alone: some clients understand nothing else.
fn property(field: &Field) -> Value {
    let text = field.text;
    match field.kind {
        FieldKind::Text => json!({"type": "string", "description": text}),
        FieldKind::Number => json!({"type": "integer", "description": text}),
        FieldKind::Flag => json!({"type": "boolean", "description": text}),
        FieldKind::Texts => {
            json!({"type": "array", "items": {"type": "string"}, "description": text})
        }
        FieldKind::Pairs => json!({
            "type": "object", "additionalProperties": {"type": "string"}, "description": text,
        }),
        FieldKind::OneOf(words) => json!({"type": "string", "enum": words, "description": text}),
    }
}

#[cfg(test)]
mod tests {
    use super::super::arguments;
    use super::*;

    /// Something of each kind.
    fn sample(field: &Field) -> Value {
        match field.kind {
            FieldKind::Text if field.name == "lease" => json!("10m"),
            FieldKind::Text => json!("1"),
            FieldKind::Number => json!(1),
            FieldKind::Flag => json!(true),
            FieldKind::Texts => json!(["a"]),
            FieldKind::Pairs => json!({"a": "b"}),
            FieldKind::OneOf(words) => json!(words[0]),
        }
    }

    #[test]
    fn every_field_that_a_tool_describes_is_one_that_it_takes() {
        for tool in Tool::ALL {
            let about = tool.about();
            let given: JsonObject = about
                .fields
                .iter()
                .map(|field| (field.name.to_owned(), sample(field)))
                .collect();
            arguments::check(tool, given.clone()).unwrap_or_else(|error| {
                panic!("{} does not take what it describes: {error:?}", about.name)
            });
            let mut more = given;
            more.insert("surplus".to_owned(), json!(1));
            assert!(
                arguments::check(tool, more).is_err(),
                "{} takes anything",
                about.name
            );
        }
    }

    #[test]
    fn what_nobody_remembers_over_http_must_be_given_there() {
        let needed = |tool: Tool, over_http| {
            let schema = tool.described(over_http).input_schema;
            schema.get("required").cloned().unwrap_or_default()
        };
        assert_eq!(
            needed(Tool::StepEnd, true),
            json!(["step", "task", "fence"])
        );
        assert_eq!(needed(Tool::StepEnd, false), json!(["step"]));
        assert_eq!(needed(Tool::TaskStart, true), json!(["task"]));
        assert_eq!(needed(Tool::Inflight, true), Value::Null);
    }

    #[test]
    fn only_what_changes_nothing_is_open_to_those_who_may_only_read() {
        let read: Vec<&str> = Tool::ALL
            .into_iter()
            .filter(|tool| tool.is_read_only())
            .map(|tool| tool.about().name)
            .collect();
        assert_eq!(read, ["resume_brief", "inflight"]);
    }

    #[test]
    fn an_agent_pays_for_the_list_only_a_little() {
        for over_http in [false, true] {
            let all: Vec<_> = Tool::ALL.map(|tool| tool.described(over_http)).into();
            let bytes = serde_json::to_vec(&all).unwrap().len();
            assert!(bytes < 8_500, "{bytes} bytes");
        }
    }
}
