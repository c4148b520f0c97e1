//! Finds the prompt among the words of a command, to put the brief in its place.
//!
//! A program's own parser knows; here is a list of its options without values, and everything else that
//! begins with a dash is taken to have one, unless that begins with a dash too.

use serde::Deserialize;

use crate::os::word::Word;

/// Where the prompt of a program is.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PromptRule {
    /// It follows one of these options.
    after: Vec<String>,
    /// Else it is the last word that is no option and no value of one.
    words: bool,
    /// All such words together are the prompt.
    many: bool,
    /// Options without a value.
    switches: Vec<String>,
    /// The words up to the first of these are not the prompt.
    subcommands: Vec<String>,
    /// The word after them by which a user resumes a session: its id follows, unless one of the options
    /// `instead_of_id` is there.
    resume: Option<String>,
    instead_of_id: Vec<String>,
    /// What stands in its place when the agent is resumed.
    pub(super) becomes: Vec<String>,
    /// What is added at the end when there is none.
    pub(super) missing: Vec<String>,
}

impl Default for PromptRule {
    fn default() -> Self {
        Self {
            after: Vec::new(),
            words: true,
            many: false,
            switches: Vec::new(),
            subcommands: Vec::new(),
            resume: None,
            instead_of_id: Vec::new(),
            becomes: Vec::new(),
            missing: Vec::new(),
        }
    }
}

/// Where it was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PromptPosition {
    /// These words, at least one.
    Words(Vec<usize>),
    /// The value in `FLAG=VALUE`.
    Joined { at: usize, flag: String },
}

impl PromptRule {
    /// Whether its words name the session.
    pub(super) fn needs_session(&self) -> bool {
        self.becomes
            .iter()
            .chain(&self.missing)
            .any(|word| word.contains("{session}"))
    }

    /// The prompt of this command, whose first word is the program.
    pub(super) fn find(&self, command: &[Word]) -> Option<PromptPosition> {
        self.after_option(command)
            .or_else(|| self.as_words(command))
    }

    fn after_option(&self, command: &[Word]) -> Option<PromptPosition> {
        for (at, word) in command.iter().enumerate().skip(1) {
            let Word::Text(text) = word else { continue };
            if self.after.contains(text) {
                let next = command.get(at + 1).filter(|next| !is_option(next));
                return next.map(|_| PromptPosition::Words(vec![at + 1]));
            }
            if let Some((flag, _)) = text.split_once('=')
                && self.after.iter().any(|known| known == flag)
            {
                return Some(PromptPosition::Joined {
                    at,
                    flag: flag.to_owned(),
                });
            }
        }
        None
    }

    fn as_words(&self, command: &[Word]) -> Option<PromptPosition> {
        if !self.words {
            return None;
        }
        let mut found = self.words_after_subcommand(command);
        found.drain(..self.resume_words(command, &found));
        let last = *found.last()?;
        Some(PromptPosition::Words(if self.many {
            found
        } else {
            vec![last]
        }))
    }

    fn words_after_subcommand(&self, command: &[Word]) -> Vec<usize> {
        let mut found = self.plain_words(command);
        if let Some(begin) = self.subcommand(command) {
            found.retain(|at| *at > begin);
        }
        found
    }

    /// How many of these words choose a session: the word `resume`, and the id.
    fn resume_words(&self, command: &[Word], found: &[usize]) -> usize {
        let first = found.first().map(|at| command[*at].as_os_str());
        let resumes = self
            .resume
            .as_ref()
            .is_some_and(|word| first == Some(word.as_ref()));
        let is_instead = |word: &Word| {
            self.instead_of_id
                .iter()
                .any(|it| word.as_os_str() == &**it)
        };
        match (resumes, command.iter().any(is_instead)) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => found.len().min(2),
        }
    }

    /// The command without the words by which the user chose a session.
    pub(super) fn without_resume(&self, command: &[Word]) -> Vec<Word> {
        let found = self.words_after_subcommand(command);
        let dropped = &found[..self.resume_words(command, &found)];
        let kept = command
            .iter()
            .enumerate()
            .filter(|(at, _)| !dropped.contains(at));
        kept.map(|(_, word)| word.clone()).collect()
    }

    /// The words that are neither options nor their values.
    fn plain_words(&self, command: &[Word]) -> Vec<usize> {
        let mut found = Vec::new();
        let mut at = 1;
        while let Some(word) = command.get(at) {
            if word.as_os_str() == "--" {
                found.extend(at + 1..command.len());
                break;
            }
            if !is_option(word) {
                found.push(at);
            } else if self.takes_value(word) && command.get(at + 1).is_some_and(|it| !is_option(it))
            {
                at += 1;
            }
            at += 1;
        }
        found
    }

    fn takes_value(&self, option: &Word) -> bool {
        let Word::Text(text) = option else {
            return false;
        };
        !text.contains('=') && !self.switches.contains(text)
    }

    fn subcommand(&self, command: &[Word]) -> Option<usize> {
        let known = |word: &Word| {
            self.subcommands
                .iter()
                .any(|known| word.as_os_str() == &**known)
        };
        command
            .iter()
            .skip(1)
            .position(known)
            .map(|after_program| after_program + 1)
    }
}

/// `-` alone is a value: standard input.
fn is_option(word: &Word) -> bool {
    matches!(word, Word::Text(text) if text.len() > 1 && text.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::Preset;

    fn found(preset: &str, command: &str) -> String {
        let words: Vec<Word> = command.split(' ').map(Word::from).collect();
        match Preset::by_name(preset, None).unwrap().prompt.find(&words) {
            None => "none".to_owned(),
            Some(PromptPosition::Words(at)) => at
                .iter()
                .map(|at| words[*at].to_text())
                .collect::<Vec<_>>()
                .join(" "),
            Some(PromptPosition::Joined { at, flag }) => format!("{flag}= in {at}"),
        }
    }

    #[test]
    fn the_prompt_is_found_where_each_program_has_it() {
        for (preset, command, prompt) in [
            ("claude-code", "claude -p P --model opus", "P"),
            (
                "claude-code",
                "claude --print P --allowedTools Bash Edit",
                "P",
            ),
            ("claude-code", "claude --model opus P", "P"),
            ("claude-code", "claude --verbose P", "P"),
            (
                "claude-code",
                "claude -p --safe-mode --permission-mode X P",
                "P",
            ),
            (
                "claude-code",
                "claude -p --unknown --permission-mode X P",
                "P",
            ),
            ("claude-code", "claude -p", "none"),
            ("claude-code", "claude --model opus", "none"),
            ("codex", "codex exec --sandbox workspace-write P", "P"),
            ("codex", "codex --model o exec --json P", "P"),
            ("codex", "codex exec resume --last P", "P"),
            ("codex", "codex exec resume ID P", "P"),
            ("codex", "codex exec resume ID", "none"),
            ("codex", "codex exec -", "-"),
            ("codex", "codex exec --json", "none"),
            ("gemini", "gemini --prompt=P", "--prompt= in 1"),
            ("gemini", "gemini -m flash P", "P"),
            ("opencode", "opencode run -m a/b fix the bug", "fix the bug"),
            ("opencode", "opencode run --pure -m a/b do it", "do it"),
            ("opencode", "opencode run -- -x y", "-x y"),
            ("kimi", "kimi --print -p P", "P"),
            ("aider", "aider --message P a.py", "P"),
            ("aider", "aider a.py b.py", "none"),
        ] {
            assert_eq!(found(preset, command), prompt, "{command}");
        }
    }
}
