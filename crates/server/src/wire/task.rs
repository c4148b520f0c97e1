//! Tasks that are added, started or claimed.

use std::collections::BTreeMap;

use relight_runtime::operations::fields;
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::{Map, Value, from_value};

/// A task to add.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(try_from = "Map<String, Value>")]
pub(crate) struct NewTask {
    pub(crate) id: String,
    #[serde(flatten)]
    pub(crate) spec: TaskSpec,
}

impl TryFrom<Map<String, Value>> for NewTask {
    type Error = serde_json::Error;

    fn try_from(mut given: Map<String, Value>) -> Result<Self, Self::Error> {
        let id = given.remove("id").ok_or_else(|| Self::Error::missing_field("id"))?;
        Ok(Self { id: from_value(id)?, spec: from_value(Value::Object(given))? })
    }
}

/// The definition of a task.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskSpec {
    pub(crate) title: Option<String>,
    /// Its agent. Default: any.
    pub(crate) agent: Option<String>,
    /// The declared steps, in order.
    #[serde(default)]
    pub(crate) steps: Vec<String>,
    #[cfg_attr(test, schema(value_type = Value, required = false))]
    pub(crate) payload: Option<Value>,
    pub(crate) strategy: Option<String>,
    #[cfg_attr(test, schema(value_type = Option<i64>, minimum = 0, maximum = 4294967295_i64))]
    pub(crate) max_retries: Option<u32>,
    /// The idempotency key: two requests with the same key are one.
    pub(crate) key: Option<String>,
    /// Larger goes first.
    #[serde(default)]
    pub(crate) priority: i32,
    /// Skills that an agent needs.
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    /// How long it is worth resuming. Default, and `0s`: always.
    pub(crate) ttl: Option<String>,
    /// Initial context.
    #[serde(default)]
    pub(crate) set: BTreeMap<String, String>,
}

/// A task to start; added if it does not exist.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(try_from = "Map<String, Value>")]
pub(crate) struct StartTask {
    #[serde(flatten)]
    pub(crate) spec: TaskSpec,
    /// How long each write renews the lease for. Default: `10m`.
    pub(crate) lease: Option<String>,
    /// The fence of the lease to continue.
    pub(crate) fence: Option<u64>,
    /// Start it even if it waits for a person, or has used up its budget.
    #[serde(default)]
    pub(crate) force: bool,
}

impl TryFrom<Map<String, Value>> for StartTask {
    type Error = serde_json::Error;

    fn try_from(mut given: Map<String, Value>) -> Result<Self, Self::Error> {
        let lease = from_value(given.remove("lease").unwrap_or_default())?;
        let fence = fields::optional_number(given.remove("fence").unwrap_or_default())?;
        let force = given.remove("force").map(from_value).transpose()?.unwrap_or(false);
        // The id stands in the path; said again it must not hurt.
        given.remove("id");
        Ok(Self { spec: from_value(Value::Object(given))?, lease, fence, force })
    }
}

/// A request for work.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Claim {
    pub(crate) agent: String,
    /// Its skills, in addition to those in the store.
    #[serde(default)]
    pub(crate) skills: Vec<String>,
    /// How long to wait for a task. Default: no wait.
    pub(crate) wait: Option<String>,
    /// How long each write renews the lease for. Default: `10m`.
    pub(crate) lease: Option<String>,
}
