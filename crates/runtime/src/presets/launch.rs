//! Puts the command of an attempt together: the user's words, with what the preset adds.

use serde::Deserialize;

use super::prompt::{PromptPosition, PromptRule};
use super::{Preset, SessionSource};
use crate::os::word::Word;

/// What is known when an attempt is launched.
#[derive(Debug, Clone, Copy)]
pub struct Launch<'a> {
    /// Nothing went before it.
    pub first: bool,
    /// There is no session to resume: it is new, or gone.
    pub anew: bool,
    /// The id of its own session.
    pub session: Option<&'a str>,
    /// What it is told.
    pub brief: &'a str,
    /// Where that is written.
    pub brief_file: &'a str,
    /// What the user wants instead of the preset's `resume`.
    pub resume_args: Option<&'a [Word]>,
    /// It has the terminal: what it writes is for a person.
    pub has_terminal: bool,
}

/// Words that make the program write what Relight can read, in place of its screen.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StreamRule {
    words: Vec<String>,
    /// Only where the command has one of these options; always when none is named.
    #[serde(default)]
    only_with: Vec<String>,
}

/// Where in the command the preset's words go.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ArgumentPosition {
    /// After the program.
    Program,
    /// After everything.
    #[default]
    End,
    /// After the first of these words; where there is none, the command stays as it is.
    After(Vec<String>),
}

/// How the program is resumed on a terminal when the words of `place` are not in its command.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScreenRule {
    /// Subcommands that have no conversation.
    #[serde(default)]
    unless: Vec<String>,
    /// Words after the program.
    #[serde(default)]
    resume: Vec<String>,
    /// Where its prompt is, if not where it is without a screen.
    prompt: Option<PromptRule>,
}

const SESSION: &str = "{session}";
const PLACEHOLDERS: [&str; 3] = [SESSION, "{brief}", "{brief_file}"];

impl Launch<'_> {
    /// The text with its placeholders filled, each once: what was filled in is not looked at again.
    pub(super) fn fill(self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            filled += &rest[..at];
            rest = &rest[at..];
            let known = PLACEHOLDERS.iter().find(|known| rest.starts_with(**known));
            match known {
                Some(known) => filled += self.value(known),
                None => filled.push('{'),
            }
            rest = &rest[known.map_or(1, |known| known.len())..];
        }
        filled + rest
    }

    fn value(&self, placeholder: &str) -> &str {
        match placeholder {
            SESSION => self.session.unwrap_or_default(),
            "{brief}" => self.brief,
            _ => self.brief_file,
        }
    }

    fn fill_words<'w>(self, words: impl IntoIterator<Item = &'w Word>) -> Vec<Word> {
        let fill = |word: &Word| match word {
            Word::Text(text) => Word::Text(self.fill(text)),
            Word::Bytes(_) => word.clone(),
        };
        words.into_iter().map(fill).collect()
    }
}

/// How an attempt begins.
enum LaunchMode {
    Anew,
    /// With these words.
    Again(Vec<Word>),
}

impl Preset {
    /// The command of an attempt. A later one begins anew as well where there is nothing to resume:
    /// the session's id is needed and not known.
    pub fn command(&self, given: &[Word], launch: Launch<'_>) -> Vec<Word> {
        if let Some(screen) = self.with_screen(given, launch) {
            return screen.command(given, launch);
        }
        match self.beginning(given, launch) {
            LaunchMode::Anew => self.anew(given, launch),
            LaunchMode::Again(words) => self.again(given, &words, launch),
        }
    }

    /// Whether this attempt continues a conversation.
    pub fn resumes(&self, given: &[Word], launch: Launch<'_>) -> bool {
        if let Some(screen) = self.with_screen(given, launch) {
            return screen.resumes(given, launch);
        }
        matches!(self.beginning(given, launch), LaunchMode::Again(_))
    }

    /// The same program as it is with its screen, when this command opens it.
    fn with_screen(&self, given: &[Word], launch: Launch<'_>) -> Option<Self> {
        let screen = self.screen.as_ref().filter(|_| launch.has_terminal)?;
        let ArgumentPosition::After(anchors) = &self.place else {
            return None;
        };
        let others = anchors.iter().chain(&screen.unless);
        let mut words = given.iter().skip(1);
        if words.any(|word| others.clone().any(|other| is(word, other))) {
            return None;
        }
        Some(Self {
            place: ArgumentPosition::Program,
            launch: Vec::new(),
            resume: screen.resume.clone(),
            prompt: screen.prompt.clone().unwrap_or_else(|| self.prompt.clone()),
            screen: None,
            ..self.clone()
        })
    }

    /// Whether the brief's own text is in the command or the environment of this attempt; its file can
    /// still be written anew when it is not.
    pub fn passes_brief(&self, given: &[Word], launch: Launch<'_>) -> bool {
        let untold = Launch {
            brief: "",
            ..launch
        };
        self.command(given, launch) != self.command(given, untold)
            || self.environment(launch) != self.environment(untold)
    }

    /// Whether the output of this attempt tells what it uses.
    pub fn meters(&self, given: &[Word], launch: Launch<'_>) -> bool {
        let command = self.command(given, launch);
        let stream: Vec<Word> = groups(words(&self.stream.words))
            .into_iter()
            .next()
            .unwrap_or_default();
        let has_stream = command
            .windows(stream.len().max(1))
            .any(|part| part == stream);
        !self.usage.is_empty() && has_stream
    }

    fn beginning(&self, given: &[Word], launch: Launch<'_>) -> LaunchMode {
        if launch.first || launch.anew {
            return LaunchMode::Anew;
        }
        let with_stream =
            |resume: &[String]| [self.stream_words(given, launch), words(resume)].concat();
        let resume = launch
            .resume_args
            .map_or_else(|| with_stream(&self.resume), <[Word]>::to_vec);
        let needs_session = self.prompt.needs_session() || resume.iter().any(asks_for_session);
        if !needs_session || launch.session.is_some() {
            return LaunchMode::Again(resume);
        }
        match &self.resume_latest {
            Some(latest) => LaunchMode::Again(with_stream(latest)),
            None => LaunchMode::Anew,
        }
    }

    /// A session with a screen keeps it.
    fn stream_words(&self, given: &[Word], launch: Launch<'_>) -> Vec<Word> {
        let StreamRule {
            words: stream,
            only_with,
        } = &self.stream;
        let is_asked_for = |option: &String| has_flag(given, &Word::from(option.as_str()));
        let is_without_screen = only_with.is_empty() || only_with.iter().any(is_asked_for);
        if launch.has_terminal || !is_without_screen {
            Vec::new()
        } else {
            words(stream)
        }
    }

    fn anew(&self, given: &[Word], launch: Launch<'_>) -> Vec<Word> {
        let told = self.with_prompt_and_brief(given, launch);
        let chosen_by_user = given.iter().any(|word| self.session_flag(word).is_some());
        let has_own_id = launch.session.is_some() && !chosen_by_user;
        let preset = [self.stream_words(given, launch), words(&self.launch)].concat();
        let ours = groups(preset).into_iter().filter(|group| {
            let names_session = group.iter().any(asks_for_session);
            (has_own_id || !names_session) && !has_flag(given, &group[0])
        });
        let ours = launch.fill_words(&ours.flatten().collect::<Vec<_>>());
        self.put(told.clone(), ours).unwrap_or(told)
    }

    /// A new conversation after a death knows neither the prompt nor what was done: it gets both.
    fn with_prompt_and_brief(&self, given: &[Word], launch: Launch<'_>) -> Vec<Word> {
        let mut command = given.to_vec();
        if launch.first || launch.brief.is_empty() || self.prompt.becomes.is_empty() {
            return command;
        }
        match self.prompt.find(given) {
            Some(PromptPosition::Words(at)) => {
                let prompt: Vec<String> = at.iter().map(|at| given[*at].to_text()).collect();
                for at in at[1..].iter().rev() {
                    command.remove(*at);
                }
                command[at[0]] = format!("{}\n\n{}", prompt.join(" "), launch.brief).into();
            }
            Some(PromptPosition::Joined { at, .. }) => {
                command[at] = format!("{}\n\n{}", given[at].to_text(), launch.brief).into();
            }
            None => {}
        }
        command
    }

    fn again(&self, given: &[Word], resume: &[Word], launch: Launch<'_>) -> Vec<Word> {
        let kept = self.without_session_flags(&self.prompt.without_resume(given));
        let ours = groups(resume.to_vec())
            .into_iter()
            .filter(|group| !has_flag(&kept, &group[0]));
        let ours = launch.fill_words(&ours.flatten().collect::<Vec<_>>());
        // Whoever says himself where the brief goes keeps the prompt as it is.
        let places_brief = launch
            .resume_args
            .is_some_and(|words| words.iter().any(asks_for_brief));
        let prompted = match places_brief {
            true => kept,
            false => self.with_new_prompt(&kept, launch),
        };
        self.put(prompted, ours).unwrap_or_else(|| given.to_vec())
    }

    /// The command with our words; none where there is no place for them.
    fn put(&self, mut command: Vec<Word>, ours: Vec<Word>) -> Option<Vec<Word>> {
        let at = match &self.place {
            ArgumentPosition::Program => command.len().min(1),
            ArgumentPosition::End => command.len(),
            ArgumentPosition::After(anchors) => {
                let is_anchor = |word: &Word| anchors.iter().any(|anchor| is(word, anchor));
                command.iter().skip(1).position(is_anchor)? + 2
            }
        };
        command.splice(at..at, ours);
        Some(command)
    }

    fn with_new_prompt(&self, given: &[Word], launch: Launch<'_>) -> Vec<Word> {
        let mut command = given.to_vec();
        let becomes = words(&self.prompt.becomes);
        match self.prompt.find(given) {
            Some(PromptPosition::Words(at)) if !becomes.is_empty() => {
                let first = at[0];
                for at in at.iter().rev() {
                    command.remove(*at);
                }
                command.splice(first..first, launch.fill_words(&becomes));
            }
            Some(PromptPosition::Joined { at, flag }) if becomes.len() == 1 => {
                let value = launch.fill_words(&becomes)[0].to_text();
                command[at] = Word::Text(format!("{flag}={value}"));
            }
            Some(_) => {}
            None => command.extend(launch.fill_words(&words(&self.prompt.missing))),
        }
        command
    }

    /// The user's choice of a session was for the first attempt.
    fn without_session_flags(&self, given: &[Word]) -> Vec<Word> {
        let mut kept = Vec::with_capacity(given.len());
        let mut words = given.iter();
        while let Some(word) = words.next() {
            match self.session_flag(word) {
                None => kept.push(word.clone()),
                Some(values) => words.by_ref().take(values).for_each(drop),
            }
        }
        kept
    }

    /// How many values follow this word, when it chooses a session.
    fn session_flag(&self, word: &Word) -> Option<usize> {
        if self.session.from == SessionSource::None {
            return None;
        }
        let Word::Text(text) = word else { return None };
        let (flag, joined) = text
            .split_once('=')
            .map_or((text.as_str(), false), |it| (it.0, true));
        let values = *self.session.flags.get(flag)?;
        Some(if joined { 0 } else { values })
    }
}

fn words(texts: &[String]) -> Vec<Word> {
    texts.iter().map(|text| Word::from(text.as_str())).collect()
}

fn is(word: &Word, text: &str) -> bool {
    word.as_os_str() == text
}

fn asks_for_session(word: &Word) -> bool {
    matches!(word, Word::Text(text) if text.contains(SESSION))
}

fn asks_for_brief(word: &Word) -> bool {
    matches!(word, Word::Text(text) if text.contains("{brief}") || text.contains("{brief_file}"))
}

/// An option and its values; a new group begins at each word with a dash.
fn groups(words: Vec<Word>) -> Vec<Vec<Word>> {
    let mut groups: Vec<Vec<Word>> = Vec::new();
    for word in words {
        let is_option = matches!(&word, Word::Text(text) if text.starts_with('-'));
        match groups.last_mut() {
            Some(group) if !is_option => group.push(word),
            _ => groups.push(vec![word]),
        }
    }
    groups
}

/// Whether the user gave that option already, which then counts.
fn has_flag(given: &[Word], flag: &Word) -> bool {
    let Word::Text(flag) = flag else { return false };
    let same = |word: &Word| match word {
        Word::Text(text) => {
            text == flag
                || text
                    .strip_prefix(flag.as_str())
                    .is_some_and(|rest| rest.starts_with('='))
        }
        Word::Bytes(_) => false,
    };
    flag.starts_with('-')
        && given
            .iter()
            .skip(1)
            .take_while(|word| !is(word, "--"))
            .any(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAUNCH: Launch<'_> = Launch {
        first: false,
        anew: false,
        session: Some("{brief}"),
        brief: "say {session}",
        brief_file: "/f",
        resume_args: None,
        has_terminal: false,
    };

    #[test]
    fn placeholders_are_filled_once_and_all_else_is_literal() {
        for (text, filled) in [
            ("{session}", "{brief}"),
            ("--resume={session}", "--resume={brief}"),
            ("{brief} in {brief_file}", "say {session} in /f"),
            (
                "{sessions} {} {{session} {Brief}",
                "{sessions} {} {{brief} {Brief}",
            ),
            ("{", "{"),
            ("ä{session", "ä{session"),
        ] {
            assert_eq!(LAUNCH.fill(text), filled);
        }
    }

    #[test]
    fn the_brief_is_passed_where_its_text_is_among_the_words() {
        let passes = |preset: &str, command: &str, resume_args: Option<&[Word]>| {
            let preset = Preset::by_name(preset, None).unwrap();
            let command: Vec<Word> = command.split(' ').map(Word::from).collect();
            preset.passes_brief(
                &command,
                Launch {
                    resume_args,
                    ..LAUNCH
                },
            )
        };
        assert!(!passes("generic", "./agent --fast", None));
        assert!(!passes(
            "generic",
            "./agent",
            Some(&["--go-on={brief_file}".into()])
        ));
        assert!(passes(
            "generic",
            "./agent",
            Some(&["--go-on={brief}".into()])
        ));
        assert!(passes("claude-code", "claude -p write", None));
        assert!(passes("codex", "codex exec write", None));
    }

    #[test]
    fn a_first_attempt_is_passed_no_brief() {
        let preset = Preset::by_name("claude-code", None).unwrap();
        let command: Vec<Word> = ["claude", "-p", "write"].map(Word::from).to_vec();
        assert!(!preset.passes_brief(
            &command,
            Launch {
                first: true,
                ..LAUNCH
            }
        ));
    }

    #[test]
    fn a_word_that_is_not_text_stays_as_it_is() {
        let word = Word::Bytes(vec![0xff, b'{', b'}']);
        let preset = Preset::by_name("generic", None).unwrap();
        assert_eq!(preset.command(std::slice::from_ref(&word), LAUNCH), [word]);
    }
}
