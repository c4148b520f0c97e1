//! The verbs of a task that is there: what its holder or a person says of it.

use std::collections::BTreeMap;

use async_trait::async_trait;
use relight_core::decide::{Right, TaskEvent};
use relight_core::ids::AgentName;
use relight_core::lease::Fence;
use relight_core::task::{Cost, Usage};
use relight_core::time::Moment;
use serde::Serialize;

use super::{Context, Operation, Written, check_reason, fields, invalid, right, view};
use crate::boxed::boxed;
use crate::engine::ActError;
use crate::os::clock;
use crate::recovery::{Recovered, Recoverer};

/// A verb that is one event, and answers the task as it is after it.
macro_rules! verb {
    ($(#[$doc:meta])* $name:ident { $($fields:tt)* } |$given:ident| $event:expr) => {
        verb! { $(#[$doc])* $name { $($fields)* } |$given| right($given.fence), $event }
    };
    ($(#[$doc:meta])* $name:ident { $($fields:tt)* } |$given:ident| $right:expr, $event:expr) => {
        request! { $(#[$doc])* task $name { $($fields)* } }

        #[async_trait]
        impl Operation for $name {
            type Answer = view::TaskView;

            async fn run(self, context: &Context) -> Result<Written<view::TaskView>, ActError> {
                let $given = self;
                let event = $event;
                let written = context.act(&$given.task, $right, event).await?;
                Ok(written.map(|_, task| view::TaskView::new(task.clone(), context.engine.holders())))
            }
        }
    };
}

verb! {
    /// It is finished.
    TaskDone {
        /// Even if declared steps are open or failed.
        #[serde(default)]
        pub force: bool,
    }
    |given| TaskEvent::Done { force: given.force }
}

verb! {
    /// Marks the task as done; it waits for a review.
    TaskReview {
        /// Even if it is blocked or suspended; only for people.
        #[serde(default)]
        pub force: bool,
    }
    |given| a_person(given.fence, given.force), TaskEvent::Review
}

verb! {
    /// It cannot continue until a person acts; an alert is sent.
    TaskBlock {
        /// What the person must do.
        #[serde(deserialize_with = "fields::reason")]
        pub reason: String,
    }
    |given| {
        check_reason(&given.reason)?;
        TaskEvent::Block { reason: given.reason, is_told: false }
    }
}

verb! {
    /// It continues later.
    TaskDefer {
        /// A time, or a duration from now.
        #[serde(deserialize_with = "fields::text")]
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        pub until: Moment,
        /// Why.
        pub reason: Option<String>,
    }
    |given| {
        let until = given.until.after(clock::now()).map_err(|error| invalid(error.to_string()))?;
        TaskEvent::Defer { until, reason: given.reason }
    }
}

verb! {
    /// Releases the lease.
    TaskRelease {
        /// Take it from a live holder too; its later writes are refused.
        #[serde(default)]
        pub force: bool,
    }
    |given| TaskEvent::Release { force: given.force }
}

verb! {
    /// Cancels the task.
    TaskCancel {
        /// Why.
        pub reason: Option<String>,
    }
    |given| TaskEvent::Cancel { reason: given.reason }
}

verb! {
    /// Assigns the task again.
    TaskRetry {
        /// The new agent. Default: the same agent.
        #[serde(default, deserialize_with = "fields::optional_text")]
        #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
        pub agent: Option<AgentName>,
        /// Even if no retry is left, or a live holder has it.
        #[serde(default)]
        pub force: bool,
    }
    |given| TaskEvent::Retry { agent: given.agent, force: given.force }
}

verb! {
    /// Context for a successor.
    TaskSet {
        /// What is added or replaced.
        #[serde(deserialize_with = "fields::context")]
        pub set: BTreeMap<String, String>,
    }
    |given| {
        if given.set.is_empty() {
            return Err(invalid("nothing to set; give a key and its value"));
        }
        TaskEvent::Set(given.set)
    }
}

verb! {
    /// Cost and turns to add.
    TaskSpend {
        /// What it cost, such as `0.25`.
        #[serde(default, deserialize_with = "fields::optional_text")]
        #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
        pub cost: Option<Cost>,
        /// Turns of a model that it took.
        #[serde(default, deserialize_with = "fields::optional_number")]
        pub turns: Option<u64>,
    }
    |given| {
        if (given.cost, given.turns) == (None, None) {
            return Err(invalid("nothing was used; give a cost or turns"));
        }
        TaskEvent::Spend(usage(given.cost, given.turns))
    }
}

request! {
    /// It failed; its strategy decides what happens next.
    task TaskFail {
        /// Why.
        #[serde(deserialize_with = "fields::reason")]
        pub reason: String,
        /// Even if it is blocked or suspended; only for people.
        #[serde(default)]
        pub force: bool,
    }
}

/// A task that failed.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Failed {
    /// As it is now.
    #[serde(flatten)]
    pub task: view::TaskView,
    /// What its strategy decided.
    pub recovery: Recovered,
}

impl TaskFail {
    /// Asks the strategy; both are one commit.
    #[boxed]
    pub async fn run(
        self,
        context: &Context,
        recoverer: &Recoverer,
    ) -> Result<Written<Failed>, ActError> {
        check_reason(&self.reason)?;
        let right = a_person(self.fence, self.force);
        let recoverer = recoverer.on_behalf_of(&context.engine);
        let recovery = recoverer.fail(&self.task, right, &self.reason).await?;
        let written = context.refresh(&self.task).await?;
        Ok(written.map(|(), task| Failed {
            task: view::TaskView::new(task.clone(), context.engine.holders()),
            recovery,
        }))
    }
}

/// By what right a request writes that a person may make of work that waits for one.
fn a_person(fence: Option<Fence>, force: bool) -> Right {
    if force && fence.is_none() {
        Right::Person
    } else {
        right(fence)
    }
}

/// What a piece of work has used.
pub fn usage(cost: Option<Cost>, turns: Option<u64>) -> Usage {
    Usage {
        cost_micros: cost.unwrap_or_default().0,
        turns: turns.unwrap_or_default(),
        ..Usage::default()
    }
}
