//! What happens in an agent's program, observed from inside it: the same records as `relight hook` makes, for
//! programs that embed an agent and Relight both.

use std::str::FromStr;

use relight_core::ids::TaskId;
use relight_core::lease::Fence;
use relight_core::step::RepeatRule;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Context, fields, invalid};
use crate::boxed::boxed;
use crate::engine::ActError;
use crate::hooks::{Conversation, HookEvent, Observation, Payload, RunsIn, Telling, ToolRules};

/// An event of an agent's program.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookObserve {
    /// `session-start`, `prompt`, `before-tool`, `after-tool`, `stop`, `failure` or `session-end`.
    #[serde(deserialize_with = "fields::text")]
    pub event: HookEvent,
    /// The program, such as `claude`.
    pub program: String,
    /// What the program says about it, as its hooks get it on standard input.
    pub payload: Value,
    /// The repeat rule of the tool, over what `rules` say.
    pub rule: Option<String>,
    /// The rules of tools, with the keys of `[hooks]` in `relight.toml`. That file is not read here: what is
    /// not given is as by default.
    pub rules: Option<ToolRules>,
}

/// What the program is to tell its model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HookObserved {
    /// What was cut off before, when a conversation starts.
    pub context: Option<String>,
}

impl HookObserve {
    /// Records it. `given` is the task that the program works on, `runs_in` what runs the program.
    #[boxed]
    pub async fn run(
        self,
        context: &Context,
        given: Option<(TaskId, Option<Fence>)>,
        runs_in: RunsIn,
    ) -> Result<HookObserved, ActError> {
        let payload =
            Payload::read(&self.payload).ok_or_else(|| invalid("the payload names no session"))?;
        let given_rule = self.rule.as_deref().map(RepeatRule::from_str).transpose();
        let given_rule = given_rule.map_err(|error| invalid(error.to_string()))?;
        let rules = self.rules.unwrap_or_else(ToolRules::usual);
        let rule_of = |tool: &str| given_rule.or_else(|| rules.of(tool));
        let Some(observation) = Observation::of(self.event, &payload, rule_of) else {
            return Ok(HookObserved { context: None });
        };
        let conversation = Conversation {
            engine: &context.engine,
            program: &self.program,
            payload: &payload,
            given,
            runs_in,
            is_metered: false,
        };
        let telling = Telling {
            at: HookEvent::SessionStart,
            brief: None::<fn() -> Option<String>>,
        };
        let context = observation.record(&conversation, telling).await?;
        Ok(HookObserved { context })
    }
}
