//! What agent programs write to their hooks, read into one form.
//!
//! The programs use the same few fields under different names; a field that is missing or has another type
//! is one that was not given.

use std::path::PathBuf;

use relight_core::agent::brief::ATTEMPT_HEADING;
use relight_core::agent::plain::{clipped, plain_line};
use relight_core::ids::{ID_BYTES_MAX, StepName, TaskId};
use relight_core::step::{Call, Step, StepKey, WrittenFile};
use relight_core::usage::Usage;
use relight_redact::Redactor;
use serde_json::Value;

use crate::os::file;
use crate::presets;
use crate::redact_input::clipped_clean;

/// Most bytes of arguments that are kept.
const ARGUMENTS_BYTES_MAX: usize = 400;
/// Most bytes of the arguments in the name of a step.
const SUMMARY_BYTES_MAX: usize = 90;
const TOOL_BYTES_MAX: usize = 40;
const CALL_ID_BYTES_MAX: usize = 60;
/// A larger file is not hashed.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// What is prepared of longer arguments before they are redacted.
const INPUT_BYTES_MAX: usize = 64 << 10;

/// One event of a hook.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Payload {
    /// The conversation's id.
    pub session: String,
    /// The folder that the agent works in.
    pub folder: Option<PathBuf>,
    /// What the user wrote.
    pub prompt: Option<String>,
    /// The tool call.
    pub tool: Option<ToolCall>,
    /// Why a turn or a call failed, with the type of the error where there is one.
    pub error: Option<String>,
    /// How a session began: `startup`, `resume`, `clear`, `compact`.
    pub source: Option<String>,
    /// What the turn has used, where the program says so.
    pub used: Usage,
    /// The event's name in the program's own words.
    pub event: Option<String>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub input: Value,
    /// The program's id of this call.
    pub id: Option<String>,
    /// Whether the program says that it failed.
    pub failed: bool,
}

impl Payload {
    /// Reads what a program wrote; none without a conversation.
    pub fn read(value: &Value) -> Option<Self> {
        let session = text(
            value,
            &["session_id", "sessionId", "sessionID", "conversation_id"],
        )?
        .to_owned();
        let roots = value["workspace_roots"][0].as_str();
        Some(Self {
            session,
            folder: text(value, &["cwd", "directory"])
                .or(roots)
                .map(PathBuf::from),
            prompt: prompt_of(&value["prompt"]),
            tool: ToolCall::read(value),
            error: error_of(value),
            source: text(value, &["source"]).map(str::to_owned),
            used: used_in(value),
            event: text(value, &["hook_event_name", "hookEventName"]).map(str::to_owned),
        })
    }
}

impl ToolCall {
    fn read(value: &Value) -> Option<Self> {
        let name = text(value, &["tool_name", "toolName", "tool"])?.to_owned();
        let input = ["tool_input", "toolArgs", "tool_args", "args"]
            .iter()
            .find_map(|k| value.get(k));
        let input = match input {
            // Arguments that are JSON in a text.
            Some(Value::String(text)) => {
                serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
            }
            other => other.cloned().unwrap_or_default(),
        };
        let id = text(
            value,
            &["tool_use_id", "tool_call_id", "toolCallId", "callID"],
        );
        let response = ["tool_response", "tool_output", "toolResult", "tool_result"];
        let response = response
            .iter()
            .find_map(|key| value.get(key))
            .unwrap_or(&Value::Null);
        let kind = response["resultType"].as_str();
        let failed = error_of(value).is_some()
            || response.get("error").is_some_and(|error| !error.is_null())
            || kind.is_some_and(|kind| kind != "success");
        Some(Self {
            name,
            input,
            id: id.map(str::to_owned),
            failed,
        })
    }

    /// The step that stands for it: its tool and arguments, and the call's id or a hash of the arguments.
    /// The same call has the same name at its begin and its end, but for what is redacted in only one of
    /// two environments: there [`Self::is_step`] finds it.
    pub fn key(&self, redactor: &Redactor) -> StepKey {
        let [mut id, hash] = self.ids();
        if redactor.text(&id) != id {
            id.clone_from(&hash);
        }
        let tool = self.tool(redactor);
        let summary = clipped_clean(&self.arguments(redactor), SUMMARY_BYTES_MAX);
        let summary = if summary.is_empty() {
            summary
        } else {
            format!(": {summary}")
        };
        let name = format!("{tool}{summary} [{id}]");
        // What stands before the id makes it look like a secret.
        let name = match redactor.text(&name) == name {
            true => name,
            false => format!("call [{hash}]"),
        };
        StepKey::first(
            StepName::new(name.trim_start_matches(['-', ' '])).expect("the text of a plain line"),
        )
    }

    /// Its id, and a hash that is written where the id cannot be.
    fn ids(&self) -> [String; 2] {
        let whole = self.id.clone().unwrap_or_else(|| self.input.to_string());
        let hash = blake3::hash(whole.as_bytes()).to_hex()[..12].to_owned();
        let id = self.id.as_deref();
        let id = id.filter(|id| id.len() <= CALL_ID_BYTES_MAX);
        [id.map_or_else(|| hash.clone(), plain_line), hash]
    }

    /// Whether this step stands for it. Hooks may name the tool otherwise, but have the same id.
    pub fn is_step(&self, step: &Step) -> bool {
        let name = step.key.name.as_str();
        let mut ids = self.ids().into_iter();
        step.call.is_some() && ids.any(|id| name.ends_with(&format!("[{id}]")))
    }

    /// What a successor is told about it.
    pub fn call(
        &self,
        redactor: &Redactor,
        folder: Option<&std::path::Path>,
        writes: bool,
    ) -> Call {
        Call {
            tool: self.tool(redactor),
            arguments: self.arguments(redactor),
            file: if writes {
                self.written_file(folder)
            } else {
                None
            },
        }
    }

    pub(super) fn tool(&self, redactor: &Redactor) -> String {
        let name = plain_line(&redactor.text(&self.name));
        let name = clipped_clean(name.trim_matches(['-', ' ']), TOOL_BYTES_MAX);
        if name.is_empty() {
            "tool".to_owned()
        } else {
            name
        }
    }

    /// On one line: a command, a path or the file of a patch by itself, else all of them. Redacted before it
    /// is cut, because half a secret is not recognised.
    fn arguments(&self, redactor: &Redactor) -> String {
        let command = self
            .patched()
            .or_else(|| text(&self.input, &["command", "cmd"]));
        let said = match command.or_else(|| self.path()) {
            Some(said) => said.to_owned(),
            // Some have the words of a command in a list.
            None if self.input["command"].is_array() => {
                let words = self.input["command"].as_array().into_iter().flatten();
                words
                    .filter_map(Value::as_str)
                    .collect::<Vec<_>>()
                    .join(" ")
            }
            None => match &self.input {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                Value::Object(all) if all.is_empty() => String::new(),
                other => other.to_string(),
            },
        };
        let clean = redactor
            .text(&said[..said.floor_char_boundary(INPUT_BYTES_MAX)])
            .into_owned();
        let words: Vec<&str> = clean.split_whitespace().collect();
        clipped_clean(plain_line(&words.join(" ")).trim(), ARGUMENTS_BYTES_MAX)
    }

    fn path(&self) -> Option<&str> {
        let keys = [
            "file_path",
            "filePath",
            "path",
            "absolute_path",
            "notebook_path",
            "target_file",
        ];
        text(&self.input, &keys)
    }

    /// The one file that a patch names; none when it names several or gives it another name.
    fn patched(&self) -> Option<&str> {
        let keys = ["command", "input", "patch", "patchText"];
        let patch = self.input.as_str().or_else(|| text(&self.input, &keys))?;
        if !patch.trim_start().starts_with("*** Begin Patch") {
            return None;
        }
        let starts = ["Update File: ", "Add File: ", "Delete File: ", "Move to: "];
        let mut files = patch.lines().filter_map(|line| {
            let line = line.strip_prefix("*** ")?;
            starts
                .iter()
                .find_map(|start| line.strip_prefix(start))
                .map(str::trim)
        });
        let first = files.next()?;
        files.all(|other| other == first).then_some(first)
    }

    /// The file before the call, and after it where the arguments tell.
    fn written_file(&self, folder: Option<&std::path::Path>) -> Option<WrittenFile> {
        let path = self.path().or_else(|| self.patched())?;
        let path = folder.unwrap_or(std::path::Path::new("/")).join(path);
        let before = content(&path).ok()?;
        let whole = text(&self.input, &["content", "contents", "file_text"]).map(str::to_owned);
        let after = whole.or_else(|| self.edited(before.as_deref()?));
        let hashed = |bytes: &[u8]| blake3::hash(bytes).to_hex().to_string();
        let path = path.to_str()?.to_owned();
        let after = after.map(|after| hashed(after.as_bytes()));
        Some(WrittenFile {
            path,
            before: before.map(|bytes| hashed(&bytes)),
            after,
        })
    }

    /// The text with one part replaced, as the arguments of an edit say.
    fn edited(&self, before: &[u8]) -> Option<String> {
        let before = std::str::from_utf8(before).ok()?;
        let old = text(&self.input, &["old_string", "oldString", "old_str"])?;
        let new = ["new_string", "newString", "new_str"];
        let new = new.iter().find_map(|key| self.input[key].as_str())?;
        let all = self.input["replace_all"]
            .as_bool()
            .or(self.input["replaceAll"].as_bool());
        Some(match all {
            Some(true) => before.replace(old, new),
            _ => before.replacen(old, new, 1),
        })
    }
}

/// Hash of a file now; an error when nobody can tell.
pub(super) fn hash_of(path: &str) -> Result<Option<String>, ()> {
    let found = content(std::path::Path::new(path))?;
    Ok(found.map(|bytes| blake3::hash(&bytes).to_hex().to_string()))
}

/// The content of a file, none when there is none. What is too large or no file is an error.
fn content(path: &std::path::Path) -> Result<Option<Vec<u8>>, ()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(_) => Err(()),
        Ok(_) => file::read_regular(path, FILE_BYTES_MAX).map(Some).ok_or(()),
    }
}

/// The task that stands for a conversation: the program and the conversation's id.
pub fn session_task(redactor: &Redactor, program: &str, session: &str) -> TaskId {
    let id = format!("{program}/{session}");
    let is_plain = TaskId::strict(&id).is_ok() && id.len() <= ID_BYTES_MAX;
    if is_plain && redactor.text(&id) == id {
        return TaskId::new(id).expect("it was checked");
    }
    let hash = blake3::hash(session.as_bytes()).to_hex();
    TaskId::new(format!("{program}/{}", &hash[..16])).expect("a program's name and hex digits")
}

/// The first of these fields that is a text and not empty.
fn text<'v>(value: &'v Value, keys: &[&str]) -> Option<&'v str> {
    keys.iter()
        .find_map(|key| value[key].as_str())
        .filter(|text| !text.is_empty())
}

/// `rate_limit: try again later`; also as an object with a name and a message.
fn error_of(value: &Value) -> Option<String> {
    let error = &value["error"];
    let kind = text(value, &["error_type"]).or_else(|| text(error, &["name", "type"]));
    let message = text(value, &["error_message", "error_details", "errorMessage"])
        .or_else(|| text(error, &["message"]));
    let parts: Vec<&str> = [kind, error.as_str(), message]
        .into_iter()
        .flatten()
        .collect();
    (!parts.is_empty()).then(|| clipped(&plain_line(&parts.join(": ").replace('\n', " ")), 400))
}

/// What the user wrote, as a text or as parts of one. The brief that a supervisor passes in its place, or after
/// it, is not the user's.
fn prompt_of(prompt: &Value) -> Option<String> {
    let parts = prompt
        .as_array()
        .map(|parts| parts.iter().filter_map(|part| part["text"].as_str()));
    let whole = match parts {
        Some(parts) => parts.collect::<Vec<_>>().join("\n"),
        None => prompt.as_str()?.to_owned(),
    };
    let own = match whole.split_once(ATTEMPT_HEADING) {
        // Some programs put quotes around it.
        Some((own, _)) => own
            .trim_matches(|c: char| c.is_whitespace() || c == '"')
            .to_owned(),
        None => whole,
    };
    (!own.is_empty()).then_some(own)
}

/// Cost of the turn, and its tokens where there is an object `usage`. Numbers of tokens beside it are of the
/// last request only.
fn used_in(value: &Value) -> Usage {
    let amount = |place: &Value, keys: &[&str]| {
        let found = keys.iter().find_map(|key| place[key].as_f64());
        found.map_or(0.0, |amount| amount.clamp(0.0, presets::AMOUNT_MAX))
    };
    let (usage, cost) = (&value["usage"], ["cost_usd", "total_cost_usd", "costUsd"]);
    Usage {
        cost_micros: (amount(value, &cost) * 1e6).round() as u64,
        turns: 0,
        input_tokens: amount(usage, &["input_tokens", "inputTokens"]) as u64,
        output_tokens: amount(usage, &["output_tokens", "outputTokens"]) as u64,
    }
}
