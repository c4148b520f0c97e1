//! The flags of a fake agent: what it does, and when.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;

/// Which process of the tree this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// The one that the supervisor started.
    #[default]
    Leader,
    /// Starts a child in a session of its own and is gone: the middle of a double fork.
    Launcher,
    /// Lives until somebody ends it.
    Child,
}

/// What an agent does. Without any of it, it lives and is quiet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// Which process of the tree this is.
    pub role: Role,
    /// Where records are left.
    pub folder: PathBuf,
    /// Its name.
    pub name: String,
    /// Numbered lines in one go.
    pub lines: u64,
    /// How long it pauses between two goes.
    pub every: Duration,
    /// How wide a line is at least.
    pub width: usize,
    /// Direct children.
    pub children: u32,
    /// Grandchildren by double fork, each in its own session.
    pub grandchildren: u32,
    /// Ends by itself after so long.
    pub exit_after: Option<Duration>,
    /// Its exit code then.
    pub exit_code: u8,
    /// Does nothing at all after so long, and lives.
    pub hang_after: Option<Duration>,
    /// Says by `sd_notify` that it lives, so often.
    pub beat: Option<Duration>,
}

impl Options {
    /// Reads `--flag value` pairs.
    pub fn parse(words: &[String]) -> anyhow::Result<Self> {
        let mut options = Self {
            every: Duration::from_millis(20),
            ..Self::default()
        };
        for pair in words.chunks(2) {
            let [flag, value] = pair else {
                anyhow::bail!("{} has no value", pair[0])
            };
            options
                .set(flag, value)
                .with_context(|| format!("{flag} {value}"))?;
        }
        anyhow::ensure!(!options.folder.as_os_str().is_empty(), "--folder is needed");
        anyhow::ensure!(!options.name.is_empty(), "--name is needed");
        Ok(options)
    }

    fn set(&mut self, flag: &str, value: &str) -> anyhow::Result<()> {
        let span = || anyhow::Ok(Duration::from_millis(value.parse()?));
        match flag {
            "--role" => self.role = Role::parse(value)?,
            "--folder" => self.folder = value.into(),
            "--name" => self.name = value.to_owned(),
            "--lines" => self.lines = value.parse()?,
            "--every-ms" => self.every = span()?,
            "--width" => self.width = value.parse()?,
            "--children" => self.children = value.parse()?,
            "--grandchildren" => self.grandchildren = value.parse()?,
            "--exit-after-ms" => self.exit_after = Some(span()?),
            "--exit-code" => self.exit_code = value.parse()?,
            "--hang-after-ms" => self.hang_after = Some(span()?),
            "--beat-ms" => self.beat = Some(span()?),
            _ => anyhow::bail!("no such flag"),
        }
        Ok(())
    }
}

impl Role {
    /// As it is written in a flag.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Launcher => "launcher",
            Self::Child => "child",
        }
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let all = [Self::Leader, Self::Launcher, Self::Child];
        all.into_iter()
            .find(|role| role.as_str() == text)
            .context("no such role")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> anyhow::Result<Options> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Options::parse(&words)
    }

    #[test]
    fn flags_say_what_an_agent_does() {
        let options =
            parsed("--folder /f --name a --lines 3 --exit-after-ms 7 --role child").unwrap();
        assert_eq!(options.exit_after, Some(Duration::from_millis(7)));
        assert_eq!((options.lines, options.role), (3, Role::Child));
    }

    #[test]
    fn a_flag_that_is_not_there_is_refused() {
        assert!(parsed("--folder /f --name a --colour red").is_err());
        assert!(parsed("--name a").is_err());
    }
}
