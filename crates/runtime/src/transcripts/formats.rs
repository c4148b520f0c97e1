//! The transcript formats, as data: what a record of each looks like, and where its calls and results are.
//!
//! All of them are JSON Lines. What a format does not name is left as it is, so that records of newer
//! versions survive.

use std::fmt;
use std::str::FromStr;

use relight_core::time::Time;
use serde::Deserialize;
use serde_json::{Value, json};

/// The program that writes a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// Kimi Code.
    Kimi,
    /// Qwen Code.
    Qwen,
}

impl Format {
    /// All of them. A file is of the first one that knows most of its records.
    pub const ALL: [Self; 5] = [
        Self::ClaudeCode,
        Self::Codex,
        Self::Gemini,
        Self::Kimi,
        Self::Qwen,
    ];

    /// Its name, which is also the name of its preset.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Kimi => "kimi",
            Self::Qwen => "qwen",
        }
    }

    pub(super) fn shape(self) -> &'static Shape {
        match self {
            Self::ClaudeCode => &CLAUDE_CODE,
            Self::Codex => &CODEX,
            Self::Gemini => &GEMINI,
            Self::Kimi => &KIMI,
            Self::Qwen => &QWEN,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Format {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|format| format.as_str() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            format!("{name:?} is not a transcript format; known: {names}")
        })
    }
}

/// What a format looks like. Places are JSON pointers.
pub(super) struct Shape {
    /// Places that no other format has.
    signs: &'static [&'static str],
    /// Groups of members; a record has all members of one group.
    members: &'static [&'static [&'static str]],
    /// Without a record like this at the beginning the program refuses the file.
    pub(super) header: Option<Is>,
    /// Records name the record before them (`uuid`, `parentUuid`).
    pub(super) is_linked: bool,
    /// A message of the user: whatever is open before it was passed over.
    prompt: &'static [Is],
    call: Part,
    result: Part,
    /// A line that answers a call.
    pub(super) answer: fn(&CallAnswer<'_>) -> Value,
}

/// The text at a place is one of these.
pub(super) struct Is(&'static str, &'static [&'static str]);

impl Is {
    pub(super) fn holds(&self, value: &Value) -> bool {
        let text = value.pointer(self.0).and_then(Value::as_str);
        text.is_some_and(|text| self.1.contains(&text))
    }
}

/// Where calls or results are in a record.
struct Part {
    /// The list that holds them; the record itself when none.
    each: Option<&'static str>,
    is: Option<Is>,
    id: &'static str,
    name: &'static str,
    /// The first of these that is there.
    arguments: &'static [&'static str],
}

impl Part {
    fn all<'v>(&'v self, record: &'v Value) -> impl Iterator<Item = &'v Value> {
        let found: &[Value] = match self.each {
            Some(each) => record
                .pointer(each)
                .and_then(Value::as_array)
                .map_or(&[], |all| all),
            None => std::slice::from_ref(record),
        };
        found
            .iter()
            .filter(|part| self.is.as_ref().is_none_or(|is| is.holds(part)))
    }
}

/// A call as a record has it.
pub(super) struct TranscriptCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: Value,
}

/// What a line that answers a call is made of.
pub(super) struct CallAnswer<'a> {
    /// The record of the call.
    pub(super) call_record: &'a Value,
    pub(super) call: &'a TranscriptCall,
    /// The last record of the file, and its own id.
    pub(super) last: &'a Value,
    pub(super) last_id: Option<&'a str>,
    pub(super) new_id: &'a str,
    pub(super) text: &'a str,
    pub(super) now: Time,
}

impl Shape {
    pub(super) fn has_sign(&self, value: &Value) -> bool {
        self.signs
            .iter()
            .any(|place| value.pointer(place).is_some())
    }

    /// Whether calls and results are records of their own, each written once.
    pub(super) fn has_call_records(&self) -> bool {
        self.call.each.is_none()
    }

    /// Whether it is a record of this format.
    pub(super) fn is_record(&self, value: &Value) -> bool {
        let has = |member: &&str| value.get(member).is_some();
        self.members.iter().any(|group| group.iter().all(has))
    }

    pub(super) fn calls(&self, record: &Value) -> Vec<TranscriptCall> {
        let read = |part: &Value| {
            let text = |place: &str| part.pointer(place).and_then(Value::as_str);
            let arguments = self
                .call
                .arguments
                .iter()
                .find_map(|place| part.pointer(place));
            Some(TranscriptCall {
                id: text(self.call.id)?.to_owned(),
                name: text(self.call.name).unwrap_or("?").to_owned(),
                arguments: arguments.cloned().unwrap_or_default(),
            })
        };
        self.call.all(record).filter_map(read).collect()
    }

    pub(super) fn results<'v>(&'v self, record: &'v Value) -> impl Iterator<Item = &'v str> {
        let id = |part: &'v Value| part.pointer(self.result.id).and_then(Value::as_str);
        self.result.all(record).filter_map(id)
    }

    pub(super) fn is_prompt(&self, record: &Value) -> bool {
        self.prompt.iter().all(|is| is.holds(record)) && self.results(record).next().is_none()
    }

    /// The id by which other records name this one.
    pub(super) fn id<'v>(&self, record: &'v Value) -> Option<&'v str> {
        record
            .get("uuid")
            .filter(|_| self.is_linked)
            .and_then(Value::as_str)
    }

    /// The record before it.
    pub(super) fn parent<'v>(&self, record: &'v Value) -> Option<&'v str> {
        record
            .get(PARENT)
            .filter(|_| self.is_linked)
            .and_then(Value::as_str)
    }
}

pub(super) const PARENT: &str = "parentUuid";

static CLAUDE_CODE: Shape = Shape {
    signs: &["/isSidechain"],
    members: &[
        &["type", "uuid", "isSidechain"],
        &["type", "sessionId"],
        &["type", "leafUuid"],
        &["type", "messageId"],
    ],
    header: None,
    is_linked: true,
    prompt: &[Is("/type", &["user"])],
    call: Part {
        each: Some("/message/content"),
        is: Some(Is("/type", &["tool_use"])),
        id: "/id",
        name: "/name",
        arguments: &["/input"],
    },
    result: Part {
        each: Some("/message/content"),
        is: Some(Is("/type", &["tool_result"])),
        id: "/tool_use_id",
        name: "",
        arguments: &[],
    },
    answer: |answer| {
        let result = json!({
            "type": "tool_result", "tool_use_id": answer.call.id, "content": answer.text,
            "is_error": true,
        });
        linked_answer(answer, &["requestId", "slug"], |line| {
            line["type"] = json!("user");
            line["message"] = json!({"role": "user", "content": [result]});
            line["toolUseResult"] = json!(format!("Error: {}", answer.text));
            line["sourceToolAssistantUUID"] = answer.call_record["uuid"].clone();
        })
    },
};

static QWEN: Shape = Shape {
    signs: &["/message/parts", "/systemPayload"],
    members: &[&["type", "uuid", "sessionId", "version"]],
    header: None,
    is_linked: true,
    prompt: &[Is("/type", &["user"])],
    call: Part {
        each: Some("/message/parts"),
        is: None,
        id: "/functionCall/id",
        name: "/functionCall/name",
        arguments: &["/functionCall/args"],
    },
    result: Part {
        each: Some("/message/parts"),
        is: None,
        id: "/functionResponse/id",
        name: "",
        arguments: &[],
    },
    answer: |answer| {
        let TranscriptCall { id, name, .. } = answer.call;
        let response = json!({"id": id, "name": name, "response": {"error": answer.text}});
        linked_answer(
            answer,
            &["model", "usageMetadata", "contextWindowSize"],
            |line| {
                line["type"] = json!("tool_result");
                line["message"] =
                    json!({"role": "user", "parts": [{"functionResponse": response}]});
                line["toolCallResult"] =
                    json!({"callId": id, "status": "error", "resultDisplay": answer.text});
            },
        )
    },
};

static CODEX: Shape = Shape {
    signs: &["/payload"],
    members: &[&["timestamp", "type", "payload"]],
    header: Some(Is("/type", &["session_meta"])),
    is_linked: false,
    prompt: &[
        Is("/payload/type", &["message"]),
        Is("/payload/role", &["user"]),
    ],
    call: Part {
        each: None,
        is: Some(Is(
            "/payload/type",
            &["function_call", "custom_tool_call", "local_shell_call"],
        )),
        id: "/payload/call_id",
        name: "/payload/name",
        arguments: &["/payload/arguments", "/payload/input", "/payload/action"],
    },
    result: Part {
        each: None,
        is: Some(Is(
            "/payload/type",
            &["function_call_output", "custom_tool_call_output"],
        )),
        id: "/payload/call_id",
        name: "",
        arguments: &[],
    },
    answer: |answer| {
        let kind = match answer
            .call_record
            .pointer("/payload/type")
            .and_then(Value::as_str)
        {
            Some("custom_tool_call") => "custom_tool_call_output",
            _ => "function_call_output",
        };
        let mut line = json!({"timestamp": format!("{:.3}", answer.now.as_timestamp())});
        if let Some(ordinal) = answer.last.get("ordinal").and_then(Value::as_u64) {
            line["ordinal"] = json!(ordinal.saturating_add(1));
        }
        line["type"] = json!("response_item");
        line["payload"] = json!({"type": kind, "call_id": answer.call.id, "output": answer.text});
        line
    },
};

static KIMI: Shape = Shape {
    signs: &["/protocol_version", "/agentId"],
    members: &[&["type", "time"], &["type", "protocol_version"]],
    header: Some(Is("/type", &["metadata"])),
    is_linked: false,
    prompt: &[Is("/type", &["turn.prompt"])],
    call: Part {
        each: None,
        is: Some(Is("/event/type", &["tool.call"])),
        id: "/event/toolCallId",
        name: "/event/name",
        arguments: &["/event/args"],
    },
    result: Part {
        each: None,
        is: Some(Is("/event/type", &["tool.result"])),
        id: "/event/toolCallId",
        name: "",
        arguments: &[],
    },
    answer: |answer| {
        let mut line = answer.call_record.clone();
        line["event"] = json!({
            "type": "tool.result",
            "parentUuid": answer.call_record.pointer("/event/uuid"),
            "toolCallId": answer.call.id,
            "result": {"output": answer.text, "isError": true},
        });
        line["time"] = json!(answer.now.as_ms());
        line
    },
};

const RESULT_STATUS: Is = Is("/status", &["success", "error", "cancelled"]);

static GEMINI: Shape = Shape {
    signs: &["/$set", "/startTime"],
    members: &[
        &["id", "timestamp", "type"],
        &["sessionId", "startTime"],
        &["$set"],
        &["$rewindTo"],
    ],
    header: None,
    is_linked: false,
    prompt: &[Is("/type", &["user"])],
    call: Part {
        each: Some("/toolCalls"),
        is: None,
        id: "/id",
        name: "/name",
        arguments: &["/args"],
    },
    // A call is written together with its result.
    result: Part {
        each: Some("/toolCalls"),
        is: Some(RESULT_STATUS),
        id: "/id",
        name: "",
        arguments: &[],
    },
    // The whole message once more, under its own id, with all its calls answered: the newer one counts.
    answer: |answer| {
        let mut line = answer.call_record.clone();
        let calls = line.get_mut("toolCalls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten() {
            if !RESULT_STATUS.holds(call) && call.is_object() {
                let (id, name) = (&call["id"], &call["name"]);
                let response = json!({"id": id, "name": name, "response": {"error": answer.text}});
                call["status"] = json!("error");
                call["result"] = json!([{"functionResponse": response}]);
            }
        }
        line
    },
};

/// The record of the call with another content: its envelope (folder, session, version) stays.
fn linked_answer(
    answer: &CallAnswer<'_>,
    without: &[&str],
    fill: impl FnOnce(&mut Value),
) -> Value {
    let mut line = answer.call_record.clone();
    if let Some(members) = line.as_object_mut() {
        members.retain(|name, _| !without.contains(&name.as_str()));
    }
    line[PARENT] = json!(answer.last_id);
    line["uuid"] = json!(answer.new_id);
    line["timestamp"] = json!(format!("{:.3}", answer.now.as_timestamp()));
    fill(&mut line);
    line
}
