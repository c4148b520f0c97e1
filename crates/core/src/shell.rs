//! Commands as a person pastes them into a shell.

use crate::ids::{TaskId, is_obeyed};

/// A word of a command: what is in it is never obeyed.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._:@/-".contains(c);
    let needs_no_quotes = !text.is_empty() && text.chars().all(is_plain);
    if needs_no_quotes {
        text.to_owned()
    } else {
        shell_quote(text)
    }
}

/// The same, in quotes whether it needs them or not.
pub fn shell_quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The same as `$'…'`, which bash and zsh read: every character that a terminal obeys is an escape.
pub fn shell_escape(text: &str) -> String {
    let mut quoted = String::from("$'");
    for c in text.chars() {
        match c {
            '\\' | '\'' => quoted.extend(['\\', c]),
            c if is_obeyed(c) => {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    quoted += &format!("\\{byte:03o}");
                }
            }
            c => quoted.push(c),
        }
    }
    quoted + "'"
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
    fn an_escaped_value_has_no_character_that_a_terminal_obeys() {
        assert_eq!(
            shell_escape("a\u{1b}]0;x\u{7}'\\\u{202e}"),
            r"$'a\033]0;x\007\'\\\342\200\256'"
        );
    }

    #[test]
    fn a_hint_can_be_pasted_into_a_shell() {
        for (name, word) in [
            ("deploy", "deploy"),
            ("a b", "'a b'"),
            ("it's $(id)", r"'it'\''s $(id)'"),
        ] {
            assert_eq!(shell_word(name), word);
        }
    }
}
