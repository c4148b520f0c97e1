//! The two texts for agents: the block in AGENTS.md and the skill. The texts themselves are the
//! `.md` files beside this one.

use std::path::{Path, PathBuf};

use relight_core::shell::shell_word;

use super::marked::{self, Edition, MarkerStamp, State};

const AGENTS_MD: Edition = Edition {
    version: 2,
    text: include_str!("agents_md.md"),
};
const SKILL: Edition = Edition {
    version: 2,
    text: include_str!("skill.md"),
};
const SKILL_NAME: &str = "restart-recovery";
const SKILL_STAMP: &str = "<!-- relight:skill ";

/// One text in one file.
#[derive(Debug)]
pub(super) enum Piece {
    /// A block in a file that is not ours.
    AgentsMd(PathBuf),
    /// A file of ours, with its stamp in the last line.
    Skill(PathBuf),
}

impl Piece {
    pub(super) fn skill_in(folder: &Path) -> Self {
        Self::Skill(folder.join(SKILL_NAME).join("SKILL.md"))
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::AgentsMd(path) | Self::Skill(path) => path,
        }
    }

    /// What to type.
    pub(super) fn command(&self) -> String {
        match self {
            Self::AgentsMd(path) if path != Path::new("AGENTS.md") => {
                format!(
                    "relight setup agents-md --file {}",
                    shell_word(&path.to_string_lossy())
                )
            }
            Self::AgentsMd(_) => "relight setup agents-md".to_owned(),
            Self::Skill(_) => "relight setup skill".to_owned(),
        }
    }

    /// What a new file holds.
    pub(super) fn text(&self) -> String {
        match self {
            Self::AgentsMd(_) => marked::block(AGENTS_MD),
            Self::Skill(_) => {
                format!(
                    "{}{SKILL_STAMP}{} -->\n",
                    SKILL.text,
                    MarkerStamp::of(SKILL)
                )
            }
        }
    }

    pub(super) fn state(&self, content: Option<&[u8]>) -> State {
        let Some(content) = content else {
            return State::Absent;
        };
        match self {
            Self::AgentsMd(_) => marked::state(AGENTS_MD, content),
            Self::Skill(_) => skill_state(content),
        }
    }

    /// The state in words.
    pub(super) fn says(&self, state: &State) -> String {
        let what = match self {
            Self::AgentsMd(_) => "the Relight block",
            Self::Skill(_) => "the Relight skill",
        };
        match state {
            State::Absent => format!("{what} is not there"),
            State::Current => format!("{what} is current"),
            State::Outdated { version } => format!("{what} is outdated (v{version})"),
            State::Newer { version } => {
                format!("{what} is of a later version of relight (v{version})")
            }
            State::Edited => format!("{what} was edited by hand"),
            State::Broken { why } => format!("{what} cannot be told from the rest: {why}"),
        }
    }

    /// The file with our text in it.
    pub(super) fn with(&self, content: &[u8]) -> Vec<u8> {
        match self {
            Self::AgentsMd(_) => marked::put(AGENTS_MD, content),
            Self::Skill(_) => self.text().into_bytes(),
        }
    }

    /// The file without our text.
    pub(super) fn without(&self, content: &[u8]) -> Vec<u8> {
        match self {
            Self::AgentsMd(_) => marked::take_out(content),
            Self::Skill(_) => Vec::new(),
        }
    }

    /// The skill's folder goes with it unless somebody put more there.
    pub(super) fn remove_folder(&self) {
        if let (Self::Skill(path), Some(folder)) = (self, self.path().parent()) {
            debug_assert!(path.ends_with("SKILL.md"));
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// The whole file is ours: everything before the stamp is the text, nothing may follow it.
fn skill_state(content: &[u8]) -> State {
    let trimmed = content.trim_ascii_end();
    let last_line = trimmed
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    let (text, stamp) = trimmed.split_at(last_line);
    let stamp = stamp
        .strip_prefix(SKILL_STAMP.as_bytes())
        .and_then(MarkerStamp::read);
    marked::judge(SKILL, stamp, text)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use clap::error::ErrorKind;

    use super::*;
    use crate::arguments::Cli;

    /// A changed text needs a raised version, or nobody is told that theirs is outdated.
    #[test]
    fn the_texts_are_those_of_their_versions() {
        insta::assert_snapshot!(MarkerStamp::of(AGENTS_MD), @"v2 500ac736b8be17ea");
        insta::assert_snapshot!(MarkerStamp::of(SKILL), @"v2 dc9c5b341a8f4fb6");
    }

    /// What agents are told to type is what the flags take.
    #[test]
    fn the_commands_in_the_texts_are_commands() {
        let texts = [AGENTS_MD.text, SKILL.text].join("\n").replace("\\\n", " ");
        let mut tried = 0;
        for line in commands(&texts) {
            let line = line.replace("--fence N", "--fence 1");
            let parsed = Cli::try_parse_from(words(&line));
            let told = parsed.as_ref().err().map(ToString::to_string);
            let is_help = parsed.is_err_and(|error| error.kind() == ErrorKind::DisplayHelp);
            assert!(told.is_none() || is_help, "{line}: {told:?}");
            tried += 1;
        }
        assert!(tried > 15, "only {tried} commands were found");
    }

    /// Lines of code and code within a line that start with the program's name and name a verb.
    fn commands(text: &str) -> impl Iterator<Item = &str> {
        let lines = text.lines().filter(|line| line.starts_with("relight "));
        let inline = text.split('`').skip(1).step_by(2);
        lines.chain(inline.filter(|code| code.starts_with("relight ")))
    }

    /// As a shell would, for the quoting that the texts use.
    fn words(line: &str) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for (number, part) in line.split('\'').enumerate() {
            let is_quoted = number % 2 == 1;
            match is_quoted {
                true => words.push(part.to_owned()),
                false => words.extend(part.split_whitespace().map(str::to_owned)),
            }
        }
        words
    }

    #[test]
    fn a_skill_is_judged_by_its_last_line() {
        let skill = Piece::skill_in(Path::new("skills"));
        let text = skill.text();
        let state = |content: &str| skill.state(Some(content.as_bytes()));
        assert_eq!(state(&text), State::Current);
        assert_eq!(state(&text.replace('\n', "\r\n")), State::Current);
        assert_eq!(state(&format!("{text}and more\n")), State::Edited);
        assert_eq!(state(&text.replacen("relight", "other", 1)), State::Edited);
        assert_eq!(state(""), State::Edited);
        assert_eq!(skill.state(None), State::Absent);
    }
}
