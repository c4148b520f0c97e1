//! How large a stored text may be. Whatever is larger is refused before anything is written.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::task::{CheckpointSettings, NewTask};

/// A limit with its name, as errors and the reference show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// What is bounded.
    pub what: &'static str,
    /// The largest size that is accepted.
    pub max: usize,
    /// The unit of the size.
    pub unit: &'static str,
}

/// Something is larger than its limit. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {} has {size} {}, at most {} are allowed", .limit.what, .limit.unit, .limit.max)]
pub struct TooLarge {
    /// Its size.
    pub size: usize,
    /// The limit.
    pub limit: Limit,
}

impl Limit {
    const fn bytes(what: &'static str, max: usize) -> Self {
        Self {
            what,
            max,
            unit: "bytes",
        }
    }

    /// Refuses a size over the limit.
    pub fn check(self, size: usize) -> Result<(), TooLarge> {
        if size <= self.max {
            Ok(())
        } else {
            Err(TooLarge { size, limit: self })
        }
    }

    /// The beginning of a text that Relight itself writes and must not be refused.
    pub fn shorten(self, mut text: String) -> String {
        if text.len() > self.max {
            text.truncate(text.floor_char_boundary(self.max - "…".len()));
            text.push('…');
        }
        text
    }

    pub(crate) fn check_option(self, text: Option<&str>) -> Result<(), TooLarge> {
        self.check(text.map_or(0, str::len))
    }
}

/// A task's title.
pub const TITLE: Limit = Limit::bytes("title", 1 << 10);
/// Why something was done.
pub const REASON: Limit = Limit::bytes("reason", 16 << 10);
/// Notes of a checkpoint.
pub const NOTES: Limit = Limit::bytes("notes of a checkpoint", 64 << 10);
/// Who should take over a checkpoint.
pub const HANDOFF: Limit = Limit::bytes("name of the agent to hand over to", 512);
/// The folder of a checkpoint's file.
pub const FOLDER: Limit = Limit::bytes("folder", 4 << 10);
/// A key of the context.
pub const CONTEXT_KEY: Limit = Limit::bytes("key of the context", 200);
/// A value of the context.
pub const CONTEXT_VALUE: Limit = Limit::bytes("value of the context", 256 << 10);
/// All keys and values of one task or session.
pub const CONTEXT: Limit = Limit::bytes("whole context", 1 << 20);
/// A task's payload, as JSON.
pub const PAYLOAD: Limit = Limit::bytes("payload", 1 << 20);
/// How many objects and lists of a payload may lie inside each other.
pub const PAYLOAD_DEPTH: Limit = Limit {
    what: "nesting of the payload",
    max: 60,
    unit: "levels",
};
/// The name of a strategy.
pub const STRATEGY: Limit = Limit::bytes("name of the strategy", 200);
/// A skill that a task needs or an agent has.
pub const SKILL: Limit = Limit::bytes("skill", 200);
/// Skills of one task or agent.
pub const SKILLS: Limit = Limit {
    what: "list of skills",
    max: 100,
    unit: "entries",
};
/// Steps declared ahead for one task.
pub const STEPS: Limit = Limit {
    what: "list of declared steps",
    max: 100_000,
    unit: "entries",
};
/// The command of an agent, all words together.
pub const COMMAND: Limit = Limit::bytes("command", 128 << 10);

/// The name of a token.
pub const TOKEN_NAME: Limit = Limit::bytes("name of the token", 200);

/// A number that the store cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is too large; the largest number is {max}", max = i64::MAX)]
pub struct NumberTooLarge(u64);

/// Refuses a number that the store cannot hold.
pub fn number(number: u64) -> Result<u64, NumberTooLarge> {
    if i64::try_from(number).is_ok() {
        Ok(number)
    } else {
        Err(NumberTooLarge(number))
    }
}

/// All limits, for the reference.
pub const ALL: [Limit; 16] = [
    TITLE,
    REASON,
    NOTES,
    HANDOFF,
    FOLDER,
    CONTEXT_KEY,
    CONTEXT_VALUE,
    CONTEXT,
    PAYLOAD,
    PAYLOAD_DEPTH,
    STRATEGY,
    SKILL,
    SKILLS,
    STEPS,
    COMMAND,
    TOKEN_NAME,
];

/// Checks everything free in a new task.
pub fn check_new(new: &NewTask) -> Result<(), TooLarge> {
    let spec = &new.spec;
    TITLE.check_option(spec.title.as_deref())?;
    STEPS.check(spec.steps.len())?;
    STRATEGY.check_option(spec.strategy.as_deref())?;
    check_skills(&spec.needs)?;
    if let Some(payload) = &spec.payload {
        PAYLOAD_DEPTH.check(depth(payload))?;
        PAYLOAD.check(payload.to_string().len())?;
    }
    check_context(&new.context, None)?;
    new.checkpoint.as_ref().map_or(Ok(()), check_checkpoint)
}

fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or_default()
}

/// Checks the skills of a task or an agent.
pub fn check_skills(skills: &[String]) -> Result<(), TooLarge> {
    SKILLS.check(skills.len())?;
    skills.iter().try_for_each(|skill| SKILL.check(skill.len()))
}

/// Checks the settings of a checkpoint.
pub fn check_checkpoint(settings: &CheckpointSettings) -> Result<(), TooLarge> {
    FOLDER.check(settings.folder.len())?;
    HANDOFF.check_option(settings.handoff_to.as_deref())?;
    NOTES.check_option(settings.notes.as_deref())
}

/// Checks what is set, together with what stays of the context before.
pub fn check_context(
    pairs: &BTreeMap<String, String>,
    before: Option<&BTreeMap<String, String>>,
) -> Result<(), TooLarge> {
    for (key, value) in pairs {
        CONTEXT_KEY.check(key.len())?;
        CONTEXT_VALUE.check(value.len())?;
    }
    let stays = before
        .into_iter()
        .flatten()
        .filter(|(key, _)| !pairs.contains_key(*key));
    CONTEXT.check(
        pairs
            .iter()
            .chain(stays)
            .map(|(key, value)| key.len() + value.len())
            .sum(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_context_counts_what_was_there_before() {
        let pairs = |prefix: &str, count| {
            let value = "x".repeat(CONTEXT_VALUE.max);
            (0..count)
                .map(|n| (format!("{prefix}{n}"), value.clone()))
                .collect()
        };
        let before: BTreeMap<_, _> = pairs("a", 3);
        assert_eq!(check_context(&pairs("a", 3), Some(&before)), Ok(()));
        let error = check_context(&pairs("b", 1), Some(&before)).unwrap_err();
        assert_eq!(error.limit, CONTEXT);
    }

    #[test]
    fn what_is_shortened_is_within_its_limit() {
        for text in [
            "ü".repeat(SKILL.max),
            "x".repeat(SKILL.max),
            "x".repeat(SKILL.max + 1),
        ] {
            assert!(SKILL.check(SKILL.shorten(text).len()).is_ok());
        }
    }
}
