//! The operations: each verb is one typed request, one function and one typed answer.
//!
//! The fronts (command line, HTTP, MCP) only read a request and render the answer or the error. What is
//! checked, committed and written beside the store is the same for all of them because it is done here.

/// Defines a request: a body of HTTP or MCP, or what the command line was given.
macro_rules! request {
    ($(#[$doc:meta])* step $name:ident { $($fields:tt)* }) => {
        request! {
            $(#[$doc])*
            task $name {
                /// Its name.
                #[cfg_attr(feature = "schema", schema(ignore))]
                pub step: relight_core::ids::StepName,
                /// Default: 1.
                #[cfg_attr(feature = "schema", schema(value_type = Option<i64>, minimum = 1, maximum = 4294967295_i64))]
                pub occurrence: Option<std::num::NonZeroU32>,
                $($fields)*
            }
        }
    };
    ($(#[$doc:meta])* session $name:ident { $($fields:tt)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// Which session. Over HTTP it is in the path.
            #[cfg_attr(feature = "schema", schema(ignore))]
            pub key: relight_core::ids::SessionKey,
            $($fields)*
        }
    };
    ($(#[$doc:meta])* task $name:ident { $($fields:tt)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// Which task. Over HTTP it is in the path.
            #[cfg_attr(feature = "schema", schema(ignore))]
            pub task: relight_core::ids::TaskId,
            /// The right to write.
            #[serde(default, deserialize_with = "crate::operations::fields::fence")]
            #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
            pub fence: Option<relight_core::lease::Fence>,
            $($fields)*
        }
    };
}

#[cfg(all(target_os = "linux", feature = "supervision"))]
pub mod agent;
pub mod checkpoint;
#[cfg(all(target_os = "linux", feature = "supervision"))]
pub mod death;
pub mod fields;
#[cfg(all(target_os = "linux", feature = "supervision"))]
pub mod hook;
#[cfg(all(target_os = "linux", feature = "supervision"))]
pub mod live_signs;
#[cfg(all(target_os = "linux", feature = "supervision"))]
pub mod needs;
#[cfg(all(target_os = "linux", feature = "supervision"))]
pub mod node;
pub mod record;
#[cfg(all(target_os = "linux", feature = "supervision"))]
pub mod recover;
pub mod session;
#[cfg_attr(
    not(all(target_os = "linux", feature = "supervision")),
    path = "state_file_absent.rs"
)]
mod state_file;
pub mod step;
pub mod step_times;
#[cfg(all(target_os = "linux", feature = "supervision"))]
pub mod table;
pub mod task;
pub mod view;
pub mod work;

use std::collections::BTreeSet;
use std::path::PathBuf;

use async_trait::async_trait;
use relight_core::decide::{Right, TaskEvent};
use relight_core::error_code::ErrorCode;
use relight_core::ids::TaskId;
use relight_core::lease::{Fence, Holder};
use relight_core::task::Task;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::boxed::boxed;
use crate::dialect::{Dialect, FileCopyError, SetAside};
use crate::engine::{ActError, Acted, Engine};
use crate::spelling::nearest;

/// One verb: a request that is run once.
#[async_trait]
pub trait Operation: DeserializeOwned + Send {
    /// What it answers.
    type Answer: Serialize + Send;

    /// Checks it, does it, and brings the files beside the store up to date.
    async fn run(self, context: &Context) -> Result<Written<Self::Answer>, ActError>;
}

/// What operations work with.
#[derive(Debug, Clone)]
pub struct Context {
    /// The store, behind redaction.
    pub engine: Engine,
    /// The folder of the state.
    pub home: PathBuf,
}

/// The answer of an operation that was committed.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Written<T> {
    /// The answer.
    #[serde(flatten)]
    pub answer: T,
    /// Why the checkpoint file or the state file could not be written. The store has everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub file_error: Option<FileCopyError>,
    /// Damaged checkpoint files that were set aside.
    #[serde(skip)]
    pub set_aside: Vec<SetAside>,
    /// The task as it is now.
    #[serde(skip)]
    pub task: Task,
}

impl Written<()> {
    fn new(task: Task) -> Self {
        Self {
            answer: (),
            file_error: None,
            set_aside: Vec::new(),
            task,
        }
    }
}

impl<T> Written<T> {
    /// With another answer.
    fn map<U>(self, answer: impl FnOnce(T, &Task) -> U) -> Written<U> {
        let Self {
            answer: before,
            file_error,
            set_aside,
            task,
        } = self;
        Written {
            answer: answer(before, &task),
            file_error,
            set_aside,
            task,
        }
    }
}

impl Context {
    /// Applies an event and brings the files beside the store up to date.
    async fn act(
        &self,
        id: &TaskId,
        right: Right,
        event: TaskEvent,
    ) -> Result<Written<Acted>, ActError> {
        let acted = self.engine.act(id, right, event).await?;
        Ok(self.refresh(id).await?.map(|(), _| acted))
    }

    /// The same after a step: it changes neither who holds its task nor its workflow. Most tasks have
    /// nothing beside the store, and are not read again.
    async fn refresh_after_step(&self, acted: Acted) -> Result<Written<()>, ActError> {
        let task = acted.after();
        let holder = task.lease.held.as_ref().map(|held| &held.holder);
        if task.checkpoint.is_some() || matches!(holder, Some(Holder::Attempt { .. })) {
            return self.refresh(&task.id).await;
        }
        Ok(Written::new(task))
    }

    /// Brings up to date what lies beside the store: the checkpoint file of a workflow, the state file of
    /// a supervised agent. One that cannot be written now is written with the next change.
    #[boxed]
    pub async fn refresh(&self, id: &TaskId) -> Result<Written<()>, ActError> {
        let task = self.engine.task(id).await?;
        let mut written = Written {
            file_error: state_file::refresh(&self.home, &self.engine, &task).await,
            ..Written::new(task)
        };
        let Some(settings) = &written.task.checkpoint else {
            return Ok(written);
        };
        let folder = PathBuf::from(&settings.folder);
        match Dialect::new(self.engine.clone(), folder).save(id).await {
            Ok(saved) => {
                written.file_error = saved.file_error().or(written.file_error);
                written.set_aside = saved.set_aside;
            }
            Err(error) => {
                let (path, reason) = (settings.folder.clone(), error.to_string());
                written.file_error = Some(FileCopyError { path, reason });
            }
        }
        Ok(written)
    }
}

/// How many items a list has where nobody says.
const LIST_DEFAULT: usize = 100;
/// Most items of one page of a list.
pub const LIST_MAX: usize = 1_000;

/// How many items of a list are asked for: by every front in the same way.
pub fn page_limit(given: Option<usize>) -> Result<usize, ActError> {
    match given.unwrap_or(LIST_DEFAULT) {
        limit @ 1..=LIST_MAX => Ok(limit),
        limit => {
            let range = (1, LIST_MAX as i64);
            Err(invalid(out_of_range("limit", &limit.to_string(), range)))
        }
    }
}

/// Reads a request. What is null was not given.
pub fn read<T: DeserializeOwned>(given: Map<String, Value>) -> Result<T, ActError> {
    read_beside(given, &[])
}

/// The same where these fields, which were taken out before, are known too.
fn read_beside<T: DeserializeOwned>(
    mut given: Map<String, Value>,
    beside: &[&str],
) -> Result<T, ActError> {
    given.retain(|_, value| !value.is_null());
    read_exactly(given, beside)
}

/// The same where null is a value.
fn read_exactly<T: DeserializeOwned>(
    given: Map<String, Value>,
    beside: &[&str],
) -> Result<T, ActError> {
    of_object(given).map_err(|text| {
        let Some((name, known)) = text
            .strip_prefix("unknown field `")
            .and_then(|rest| rest.split_once('`'))
        else {
            return invalid(text);
        };
        let known = known.split('`').skip(1).step_by(2);
        unknown_field(name, known.chain(beside.iter().copied()))
    })
}

/// Reads an object; the text of an error names the field.
fn of_object<T: DeserializeOwned>(given: Map<String, Value>) -> Result<T, String> {
    serde_path_to_error::deserialize(Value::Object(given)).map_err(|error| {
        let (path, text) = (error.path().to_string(), error.inner().to_string());
        let is_about_type = text.starts_with("invalid type");
        match text.strip_prefix("invalid value: ") {
            _ if path == "." => text,
            Some(why) => about_value(&path, why),
            None if is_about_type => format!("{path}: {}", plain_types(&text)),
            // The others name the field, or the value is a name that says what it is.
            None => plain_types(&text),
        }
    })
}

/// What is wrong with the value of a field.
fn about_value(field: &str, why: &str) -> String {
    let number = why.strip_prefix("integer `");
    let number = number.and_then(|rest| rest.split_once("`, expected "));
    match number.and_then(|(given, kind)| Some((given, whole_numbers(kind)?))) {
        Some((given, range)) => out_of_range(field, given, range),
        None => format!("{field}: {}", plain_types(why)),
    }
}

/// Why a number of a field or a query is refused.
pub fn out_of_range(field: &str, given: &str, (least, most): (i64, i64)) -> String {
    format!("{field} is {given}; write {least} to {most}")
}

/// The numbers of a type; a length in a request is that of a page.
fn whole_numbers(kind: &str) -> Option<(i64, i64)> {
    Some(match kind {
        "usize" => (1, LIST_MAX as i64),
        "u64" => (0, i64::MAX),
        "u32" => (0, u32::MAX.into()),
        "a nonzero u32" => (1, u32::MAX.into()),
        "u8" => (0, u8::MAX.into()),
        "i32" => (i32::MIN.into(), i32::MAX.into()),
        _ => return None,
    })
}

/// Refuses a field that is none of those that are known.
pub fn unknown_field<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> ActError {
    let known: BTreeSet<&str> = known.collect();
    let hint = match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None if known.is_empty() => "it takes none".to_owned(),
        None => format!("known are {}", Vec::from_iter(known).join(", ")),
    };
    ActError::Invalid {
        code: ErrorCode::INVALID,
        message: format!("unknown field {name:?}"),
        hint: Some(hint),
    }
}

/// What was expected, in words that no language of programs is needed for.
fn plain_types(text: &str) -> String {
    let Some((given, expected)) = text.split_once(", expected ") else {
        return text.to_owned();
    };
    let (word, rest) = match expected.find(" at line ") {
        Some(at) => expected.split_at(at),
        None => (expected, ""),
    };
    if let Some((least, most)) = whole_numbers(word) {
        return format!("{given}, expected a whole number from {least} to {most}{rest}");
    }
    let word = match word {
        "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        other => other,
    };
    format!("{given}, expected {word}{rest}")
}

/// By what right a request writes.
pub fn right(fence: Option<Fence>) -> Right {
    fence.map_or(Right::Unfenced, Right::Fence)
}

fn invalid(message: impl Into<String>) -> ActError {
    ActError::Invalid {
        code: ErrorCode::INVALID,
        message: message.into(),
        hint: None,
    }
}

/// Refuses a reason that says nothing.
pub(crate) fn check_reason(reason: &str) -> Result<(), ActError> {
    if reason.trim().is_empty() {
        Err(invalid("a reason is needed"))
    } else {
        Ok(())
    }
}
