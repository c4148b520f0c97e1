//! What each event of an agent's program records: the one dispatch of `relight hook` and `hook.observe`.

use relight_core::step::RepeatRule;

use super::{Conversation, HookEvent, Payload, ToolCall};
use crate::engine::ActError;

/// An event of which something is recorded.
#[derive(Debug)]
pub struct Observation<'a> {
    event: HookEvent,
    call: Option<(&'a ToolCall, RepeatRule)>,
}

/// What a program's model is told of work that was cut off.
#[derive(Debug, Clone, Copy)]
pub struct Telling<F> {
    /// The event whose answer the program passes to its model.
    pub at: HookEvent,
    /// Under a supervisor, which has written a brief for its own agent: reads it.
    pub brief: Option<F>,
}

impl<'a> Observation<'a> {
    /// None where nothing is recorded; the store is not needed then. `rule_of` gives the repeat rule of a
    /// tool by its name, none for one whose calls are not recorded.
    pub fn of(
        event: HookEvent,
        payload: &'a Payload,
        rule_of: impl FnOnce(&str) -> Option<RepeatRule>,
    ) -> Option<Self> {
        let call = match event {
            HookEvent::BeforeTool | HookEvent::AfterTool => {
                let tool = payload.tool.as_ref()?;
                Some((tool, rule_of(&tool.name)?))
            }
            _ => None,
        };
        // A call that may be repeated is recorded when it has ended.
        let is_left_for_its_end =
            event == HookEvent::BeforeTool && matches!(call, Some((_, RepeatRule::Repeatable)));
        (!is_left_for_its_end).then_some(Self { event, call })
    }

    /// Records it. Answers what the program is to tell its model.
    pub async fn record<F: FnOnce() -> Option<String>>(
        self,
        conversation: &Conversation<'_>,
        telling: Telling<F>,
    ) -> Result<Option<String>, ActError> {
        // A conversation that only clears or shortens its history was told already.
        let source = conversation.payload.source.as_deref();
        let begins = !matches!(source, Some("clear" | "compact"));
        let told = match telling.brief {
            _ if self.event != telling.at || !begins => None,
            Some(read) => read(),
            None => conversation.tell().await?,
        };
        match (self.event, self.call) {
            (HookEvent::BeforeTool, Some((tool, rule))) => {
                conversation.call_begins(tool, rule).await?;
            }
            (HookEvent::AfterTool, Some((tool, rule))) => {
                conversation.call_ended(tool, rule).await?;
            }
            (HookEvent::Prompt, _) => conversation.prompted().await?,
            (HookEvent::Stop | HookEvent::Failure | HookEvent::SessionEnd, _) => {
                conversation.turn_ends(self.event).await?;
            }
            (HookEvent::SessionStart | HookEvent::BeforeTool | HookEvent::AfterTool, _) => {}
        }
        Ok(told.map(|text| format!("Relight: {text}")))
    }
}
