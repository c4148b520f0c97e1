//! Commands as a person pastes them into a shell.

use crate::ids::TaskId;

/// A word of a command: what is in it is never obeyed.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._:@/-".contains(c);
    let needs_no_quotes = !text.is_empty() && text.chars().all(is_plain);
    if needs_no_quotes { text.to_owned() } else { shell_quote(text) }
}

/// The same, in quotes whether it needs them or not.
pub fn shell_quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// What shows a task and lets it continue.
pub(crate) fn show_then_retry(id: &TaskId) -> String {
    let id = shell_word(id.as_str());
    format!("relight task show {id}, then relight task retry {id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_can_be_pasted_into_a_shell() {
        for (name, word) in
            [("deploy", "deploy"), ("a b", "'a b'"), ("it's $(id)", r"'it'\''s $(id)'")]
        {
            assert_eq!(shell_word(name), word);
        }
    }
}
