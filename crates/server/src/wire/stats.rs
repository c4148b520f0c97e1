//! An overview.

use std::collections::BTreeMap;

use relight_core::time::Time;
use relight_runtime::operations::needs::NeedsMe;
use serde::{Deserialize, Serialize};

/// The period.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams))]
#[cfg_attr(test, into_params(parameter_in = Query))]
pub(crate) struct WhichHours {
    /// Length in hours, 1 to 168.
    #[cfg_attr(test, param(minimum = 1, maximum = 168, default = 24))]
    pub(crate) hours: Option<u32>,
}

/// An overview.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct Stats {
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) now: Time,
    pub(crate) version: String,
    pub(crate) project: Option<ProjectName>,
    /// The folder of the state.
    pub(crate) home: String,
    pub(crate) node: Option<String>,
    /// The nodes of the fleet by state; empty without a fleet.
    pub(crate) nodes: BTreeMap<String, u64>,
    /// A drain is active.
    pub(crate) draining: bool,
    /// Nothing was resumed at the start.
    pub(crate) held_back: bool,
    /// By state.
    pub(crate) agents: BTreeMap<String, u64>,
    /// By status.
    pub(crate) tasks: BTreeMap<String, u64>,
    /// By state.
    pub(crate) sessions: BTreeMap<String, u64>,
    /// Steps in doubt, as `relight inflight` lists them: none that a live holder is at.
    pub(crate) in_doubt: u64,
    pub(crate) deaths_per_hour: Vec<DeathsOfHour>,
    pub(crate) recoveries_per_hour: Vec<RecoveriesOfHour>,
    pub(crate) time_to_recover_ms: TimeToRecover,
    /// What agents report that they spent; hours without spending are omitted.
    pub(crate) cost_per_hour: Vec<CostOfHour>,
    /// Of the last hour.
    pub(crate) steps_per_minute: Vec<StepsOfMinute>,
    /// Newest first, at most 100.
    pub(crate) needs_me: Vec<NeedsMe>,
    /// The total, including those that are not listed.
    pub(crate) needs_me_total: u64,
}

/// The project of the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct ProjectName {
    pub(crate) name: String,
    /// The folder of its `relight.toml`.
    pub(crate) folder: String,
}

/// The deaths of one hour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct DeathsOfHour {
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) hour: Time,
    /// By cause; causes without deaths are omitted.
    pub(crate) causes: BTreeMap<String, u64>,
}

/// The recoveries of one hour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct RecoveriesOfHour {
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) hour: Time,
    pub(crate) count: u64,
}

/// The spending of one hour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct CostOfHour {
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) hour: Time,
    /// Such as `0.25`.
    pub(crate) cost: String,
}

/// From the last sign of life to the start of the next attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct TimeToRecover {
    pub(crate) p50: Option<u64>,
    pub(crate) p99: Option<u64>,
    pub(crate) count: usize,
}

/// Steps finished in one minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct StepsOfMinute {
    #[cfg_attr(test, schema(value_type = String))]
    pub(crate) minute: Time,
    pub(crate) count: u64,
}
