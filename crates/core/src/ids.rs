//! Names that people give: tasks, agents, keys, steps. A value of these types is always valid.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest id in bytes.
pub const ID_BYTES_MAX: usize = 128;
/// Longest step name or key in bytes.
pub const NAME_BYTES_MAX: usize = 200;

/// Longest session key, workflow id and name of a workflow's agent in bytes.
pub const TEXT_BYTES_MAX: usize = 512;

/// The characters of an id.
const ID_ALLOWED: &str = "A-Z a-z 0-9 . _ : @ / -";

/// An id or name as it stands in one part of a URL's path.
pub fn in_path(id: &str) -> String {
    let mut path = String::with_capacity(id.len());
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:@".contains(&byte) {
            path.push(char::from(byte));
        } else {
            write!(path, "%{byte:02X}").expect("writing to memory cannot fail");
        }
    }
    path
}

/// Why a text is not a valid id or name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Nothing there.
    #[error("{what} is empty")]
    Empty {
        /// Which name was asked for.
        what: &'static str,
    },
    /// Over the limit.
    #[error("{what} has {len} bytes, at most {max} are allowed")]
    TooLong {
        /// Which name was asked for.
        what: &'static str,
        /// Its length.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// A character outside the allowed set.
    #[error("{what} {text:?} has the character {found:?}; allowed are {allowed}")]
    BadCharacter {
        /// Which name was asked for.
        what: &'static str,
        /// The text, shortened.
        text: String,
        /// The first bad character.
        found: char,
        /// The allowed set, in words.
        allowed: &'static str,
    },
    /// A shape that could be taken for a path or a flag.
    #[error("{what} {text:?} {why}")]
    BadShape {
        /// Which name was asked for.
        what: &'static str,
        /// The text.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

fn check_id(what: &'static str, text: &str) -> Result<(), IdError> {
    check_length(what, text, ID_BYTES_MAX)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._:@/-".contains(c);
    if let Some(found) = text.chars().find(|c| !allowed(*c)) {
        let text = shorten(text);
        return Err(IdError::BadCharacter {
            what,
            text,
            found,
            allowed: ID_ALLOWED,
        });
    }
    let shape = |why| {
        Err(IdError::BadShape {
            what,
            text: text.to_owned(),
            why,
        })
    };
    if text.contains("..") {
        return shape("contains `..`");
    }
    if text.starts_with('/') {
        return shape("starts with `/`");
    }
    if text.starts_with('-') {
        return shape("starts with `-`");
    }
    Ok(())
}

fn check_name(what: &'static str, text: &str) -> Result<(), IdError> {
    check_length(what, text, NAME_BYTES_MAX)?;
    if let Some(found) = text.chars().find(|c| is_obeyed(*c)) {
        let text = shorten(text);
        return Err(IdError::BadCharacter {
            what,
            text,
            found,
            allowed: "printable characters",
        });
    }
    let shape = |why| {
        Err(IdError::BadShape {
            what,
            text: text.to_owned(),
            why,
        })
    };
    if text.starts_with('-') {
        return shape("starts with `-`");
    }
    if text.trim() != text {
        return shape("starts or ends with white space");
    }
    Ok(())
}

/// Any text without control characters, as other programs make them up.
fn check_text(what: &'static str, text: &str) -> Result<(), IdError> {
    check_length(what, text, TEXT_BYTES_MAX)?;
    if let Some(found) = text.chars().find(|c| c.is_control()) {
        let (text, allowed) = (shorten(text), "all but control characters");
        return Err(IdError::BadCharacter {
            what,
            text,
            found,
            allowed,
        });
    }
    Ok(())
}

/// The same, but nothing that could be taken for a path out of a folder.
fn check_task_id(what: &'static str, text: &str) -> Result<(), IdError> {
    check_text(what, text).map_err(|error| match error {
        // What most ids may have: only those of workflows may have more.
        IdError::BadCharacter {
            what, text, found, ..
        } => IdError::BadCharacter {
            what,
            text,
            found,
            allowed: ID_ALLOWED,
        },
        error => error,
    })?;
    let shape = |why| {
        Err(IdError::BadShape {
            what,
            text: shorten(text),
            why,
        })
    };
    if text.split('/').any(|part| part == "..") {
        return shape("has `..` as a part of a path");
    }
    if text.starts_with('/') {
        return shape("starts with `/`");
    }
    Ok(())
}

/// Checks a skill: a word that tasks ask for and agents declare. Its length is bounded elsewhere.
pub fn check_skill(text: &str) -> Result<(), IdError> {
    let what = "skill";
    if text.trim().is_empty() {
        return Err(IdError::Empty { what });
    }
    match text.chars().find(|c| is_obeyed(*c)) {
        Some(found) => Err(IdError::BadCharacter {
            what,
            text: shorten(text),
            found,
            allowed: "printable characters",
        }),
        None => Ok(()),
    }
}

/// Shown to people beside other words: nothing that a terminal obeys, and not only white space.
fn check_owner(what: &'static str, text: &str) -> Result<(), IdError> {
    check_length(what, text, TEXT_BYTES_MAX)?;
    if let Some(found) = text.chars().find(|c| is_obeyed(*c)) {
        let text = shorten(text);
        return Err(IdError::BadCharacter {
            what,
            text,
            found,
            allowed: "printable characters",
        });
    }
    if text.trim() != text {
        let why = "starts or ends with white space";
        return Err(IdError::BadShape {
            what,
            text: shorten(text),
            why,
        });
    }
    Ok(())
}

fn check_length(what: &'static str, text: &str, max: usize) -> Result<(), IdError> {
    match text.len() {
        0 => Err(IdError::Empty { what }),
        len if len > max => Err(IdError::TooLong { what, len, max }),
        _ => Ok(()),
    }
}

/// Whether a terminal or an editor obeys this character instead of showing it: control characters,
/// other line breaks, and those that turn the direction of writing.
pub fn is_obeyed(c: char) -> bool {
    let turns = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    turns || c.is_control()
}

fn shorten(text: &str) -> String {
    text.chars().take(60).collect()
}

macro_rules! text_type {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:ident) => {
        text_type!($(#[$doc])* $name, $what, $check, stored $check);
    };
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:ident, stored $stored:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks and takes the text.
            pub fn new(text: impl Into<String>) -> Result<Self, IdError> {
                let text = text.into();
                $check($what, &text)?;
                Ok(Self(text))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                $stored($what, &text)?;
                Ok(Self(text))
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }
    };
}

text_type!(
    /// A task's id. Of a workflow of the checkpoint dialect: 1–512 bytes of any text without control
    /// characters, no `..` as a part of a path, no leading `/`. Of any other task only what
    /// [`TaskId::strict`] takes, which the engine checks when one is added.
    TaskId, "task id", check_task_id
);
text_type!(
    /// An agent's name: 1–128 of `A-Za-z0-9._:@/-`, no `..`, no leading `/` or `-`. One that is read
    /// from a store may also be the name of a workflow's agent.
    AgentName, "agent name", check_id, stored check_text
);

impl TaskId {
    /// The id of a task that is not a workflow: 1–128 of `A-Za-z0-9._:@/-`, no `..`, no leading `/` or
    /// `-`.
    pub fn strict(text: &str) -> Result<Self, IdError> {
        check_id("task id", text)?;
        Ok(Self(text.to_owned()))
    }
}

impl AgentName {
    /// The name of a workflow's agent: 1–512 bytes of any text without control characters.
    pub fn of_workflow(text: &str) -> Result<Self, IdError> {
        check_text("agent name", text)?;
        Ok(Self(text.to_owned()))
    }
}

text_type!(
    /// A machine's name in a fleet, by the same rule as an agent's.
    NodeName, "node name", check_id
);
text_type!(
    /// By which a gateway knows a conversation, such as `agent:main:signal:dm:+15551234567`: 1–512
    /// bytes of any text without control characters.
    SessionKey, "session key", check_text
);
text_type!(
    /// The agent's own id of a conversation, by the same rule.
    SessionId, "session id", check_text
);
text_type!(
    /// Who runs a turn of a session, for people to read: 1–512 bytes of printable text.
    OwnerName, "owner", check_owner
);
text_type!(
    /// What makes two requests for work the same request.
    IdempotencyKey, "idempotency key", check_name
);
text_type!(
    /// A step's name: up to 200 bytes of printable text, for people write sentences there.
    StepName, "step name", check_name
);

/// The value of `RELIGHT_ATTEMPT`: globally unique and readable, such as `writer.7.9f3c2a1b8d4e`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AttemptTag(String);

impl AttemptTag {
    /// Makes a tag; `chance` makes it unique across stores.
    pub fn new(agent: &AgentName, number: u32, chance: u64) -> Self {
        Self(format!(
            "{agent}.{number}.{:012x}",
            chance & 0xffff_ffff_ffff
        ))
    }

    /// A tag from the environment or a record.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Whether it is an attempt of this agent.
    pub fn is_of(&self, agent: &AgentName) -> bool {
        self.agent() == Some(agent.as_str())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The agent's name in it; none when it is not a valid tag.
    pub fn agent(&self) -> Option<&str> {
        self.0.rsplitn(3, '.').nth(2)
    }

    /// The attempt's number in it; none when it is not a valid tag.
    pub fn number(&self) -> Option<u32> {
        self.0.rsplit('.').nth(1)?.parse().ok()
    }
}

impl fmt::Display for AttemptTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_ids_that_could_leave_a_folder_or_look_like_a_flag_are_refused() {
        for bad in [
            "",
            "..",
            "a/../b",
            "/etc/passwd",
            "-x",
            "a b",
            "a\nb",
            "a\0b",
            "ä",
            "a%2F",
            "$(id)",
        ] {
            assert!(TaskId::strict(bad).is_err(), "{bad:?} was taken");
            assert!(AgentName::new(bad).is_err(), "{bad:?} was taken");
        }
        assert!(TaskId::strict(&"x".repeat(129)).is_err());
        for good in [
            "a",
            "deploy-42",
            "org/repo#".trim_end_matches('#'),
            "a:b@c.d_e",
            "x.y",
        ] {
            assert!(TaskId::strict(good).is_ok(), "{good:?} was refused");
        }
        assert!(TaskId::strict(&"x".repeat(128)).is_ok());
    }

    #[test]
    fn keys_and_workflows_take_any_text_without_control_characters() {
        let long = "é".repeat(256);
        for good in [
            "agent:main:signal:dm:+15551234567",
            "!room:server.org",
            "a b",
            "部屋 🚀",
            "-x",
            &long,
        ] {
            assert!(SessionKey::new(good).is_ok(), "{good:?} was refused");
            assert!(TaskId::new(good).is_ok(), "{good:?} was refused");
            assert!(AgentName::of_workflow(good).is_ok(), "{good:?} was refused");
            assert_eq!(AgentName::try_from(good.to_owned()).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "a\nb",
            "a\0b",
            "\u{1b}[2J",
            "\u{9b}",
            "\u{7f}",
            &"x".repeat(513),
        ] {
            assert!(SessionKey::new(bad).is_err(), "{bad:?} was taken");
            assert!(TaskId::new(bad).is_err(), "{bad:?} was taken");
            assert!(AgentName::of_workflow(bad).is_err(), "{bad:?} was taken");
        }
        for path in ["..", "../x", "a/../b", "/etc/passwd"] {
            assert!(TaskId::new(path).is_err(), "{path:?} was taken");
        }
    }

    #[test]
    fn a_path_takes_any_text_in_one_part() {
        assert_eq!(in_path("a:b@c.d_e-~"), "a:b@c.d_e-~");
        assert_eq!(in_path("!é /+?#%"), "%21%C3%A9%20%2F%2B%3F%23%25");
    }

    #[test]
    fn step_names_take_sentences_but_no_control_characters() {
        assert!(StepName::new("send the mail (2nd try)").is_ok());
        for bad in ["", "a\nb", "\u{1b}[31m", "a\u{202e}b", "-rf", " x", "x "] {
            assert!(StepName::new(bad).is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn owners_take_what_people_can_read() {
        assert!(OwnerName::new("gateway 7 (Zoë)").is_ok());
        for bad in [
            "",
            " ",
            " x",
            "a\nb",
            "\u{1b}[31m",
            "a\u{202e}b",
            &"x".repeat(513),
        ] {
            assert!(OwnerName::new(bad).is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn an_error_names_the_thing_and_the_character() {
        insta::assert_snapshot!(TaskId::strict("a b").unwrap_err(), @r#"task id "a b" has the character ' '; allowed are A-Z a-z 0-9 . _ : @ / -"#);
    }
}
