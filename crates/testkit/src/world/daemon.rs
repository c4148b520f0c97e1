//! A supervisor under proof or measure: `relight up` on a configuration that was made for it, or one
//! `relight run`, with the verbs that ask it for something.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::Signal;

use super::clock;
use super::group::Group;
use super::processes;
use super::product::{Answer, finish, plain};
use super::shown::{self, ShownAgent, ShownDeath};

/// No supervisor takes this long to begin or to end.
const LIMIT: Duration = Duration::from_secs(180);

/// What an agent's entry in the configuration says.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Keys beside them, each with its value as TOML.
    pub keys: Vec<(&'static str, String)>,
}

/// The home of a supervisor, and how to call the product there.
#[derive(Debug, Clone)]
pub struct Home {
    /// The `relight` binary.
    pub relight: PathBuf,
    /// `RELIGHT_HOME`.
    pub folder: PathBuf,
    /// Variables for everything that is started here.
    pub variables: Vec<(String, String)>,
    /// The help of `up` and `run`, by which flags are left out that the product does not have.
    help: String,
}

/// A supervisor that was started here.
#[derive(Debug)]
pub struct Supervisor {
    group: Group,
}

/// A policy under which every death is recovered from at once and no budget ends.
pub const AT_ONCE: [(&str, &str); 6] = [
    ("restart", "\"always\""),
    ("cooldown", "\"0s\""),
    ("max_attempts", "1000000"),
    ("restarts_max", "1000000"),
    ("silence_max", "\"0s\""),
    ("grace", "\"300ms\""),
];

impl Entry {
    /// An agent that is brought back at once from every death.
    pub fn at_once(name: &str, command: &[&str]) -> Self {
        let keys = AT_ONCE.map(|(key, value)| (key, value.to_owned()));
        let command = command.iter().map(|&word| word.to_owned()).collect();
        Self {
            name: name.to_owned(),
            command,
            keys: keys.to_vec(),
        }
    }

    /// The same with another value of a key.
    pub fn with(mut self, key: &'static str, value: &str) -> Self {
        self.keys.retain(|(found, _)| *found != key);
        self.keys.push((key, value.to_owned()));
        self
    }

    /// As it stands in the configuration.
    pub fn toml(&self) -> String {
        let quoted = |text: &String| format!("{text:?}");
        let command: Vec<String> = self.command.iter().map(quoted).collect();
        let mut text = format!("[[agent]]\nname = {:?}\n", self.name);
        text.push_str(&format!("command = [{}]\n", command.join(", ")));
        for (key, value) in &self.keys {
            text.push_str(&format!("{key} = {value}\n"));
        }
        text
    }

    /// The flags of `relight run` that say the same.
    fn flags(&self) -> Vec<(String, String)> {
        let flag = |key: &str| format!("--{}", key.replace('_', "-"));
        let mut flags = vec![(flag("name"), self.name.clone())];
        flags.extend(
            self.keys
                .iter()
                .map(|(key, value)| (flag(key), value.replace('"', ""))),
        );
        flags
    }
}

impl Home {
    /// A home in this folder.
    pub fn new(relight: &Path, folder: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let (relight, folder) = (relight.to_owned(), folder.to_owned());
        let mut home = Self {
            relight,
            folder,
            variables: Vec::new(),
            help: String::new(),
        };
        home.help = ["up", "run"]
            .map(|verb| home.help_of(verb).unwrap_or_default())
            .concat();
        Ok(home)
    }

    /// Whether the product has this verb at all.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.help_of(verb).is_some()
    }

    fn help_of(&self, verb: &str) -> Option<String> {
        self.call(&[verb, "--help"])
            .ok()
            .filter(|answer| answer.code == 0)
            .map(|answer| answer.stdout)
    }

    /// Writes the configuration of `up`.
    pub fn configure(&self, entries: &[Entry]) -> anyhow::Result<()> {
        let text: Vec<String> = entries.iter().map(Entry::toml).collect();
        Ok(std::fs::write(self.configuration(), text.join("\n"))?)
    }

    fn configuration(&self) -> PathBuf {
        self.folder.join("relight.toml")
    }

    /// Starts `relight up`; what it says goes to the file `said`.
    pub fn up(&self, flags: &[&str]) -> anyhow::Result<Supervisor> {
        let configuration = self.configuration().display().to_string();
        let mut words = [&["up", "--config", &configuration], flags].concat();
        words.extend(
            ["--no-http"]
                .iter()
                .filter(|flag| self.help.contains(**flag)),
        );
        self.supervise(&mut self.command(&words))
    }

    /// Starts `relight up` with HTTP at a port that the system chooses.
    pub fn serve(&self, flags: &[&str]) -> anyhow::Result<Supervisor> {
        let configuration = self.configuration().display().to_string();
        let serving = ["up", "--config", &configuration, "--listen", "127.0.0.1:0"];
        self.supervise(&mut self.command(&[&serving, flags].concat()))
    }

    /// Starts `relight run` for one agent.
    pub fn run(&self, entry: &Entry) -> anyhow::Result<Supervisor> {
        let mut words = vec!["run".to_owned()];
        let flags = entry.flags().into_iter();
        words.extend(
            flags
                .filter(|(flag, _)| self.help.contains(flag))
                .flat_map(|(f, v)| [f, v]),
        );
        words.push("--".to_owned());
        words.extend(entry.command.iter().cloned());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.supervise(&mut self.command(&words))
    }

    fn supervise(&self, command: &mut Command) -> anyhow::Result<Supervisor> {
        let said = std::fs::File::options()
            .append(true)
            .create(true)
            .open(self.said())?;
        command.stdout(Stdio::null()).stderr(said);
        Ok(Supervisor {
            group: Group::spawn(command)?,
        })
    }

    /// Where supervisors' standard errors go.
    pub fn said(&self) -> PathBuf {
        self.folder.join("said")
    }

    /// The last of what supervisors said.
    pub fn last_said(&self) -> String {
        let said = std::fs::read_to_string(self.said()).unwrap_or_default();
        let lines: Vec<&str> = said.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }

    /// A verb, ready to be run.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = plain(&self.relight, words);
        command
            .env("RELIGHT_HOME", &self.folder)
            .env("HOME", &self.folder);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.current_dir(&self.folder);
        command
    }

    /// Runs a verb to its end.
    pub fn call(&self, words: &[&str]) -> anyhow::Result<Answer> {
        finish(&mut self.command(words))
    }

    /// Whether a daemon listens.
    pub fn answers(&self) -> bool {
        UnixStream::connect(self.folder.join("relight.sock")).is_ok()
    }

    /// `relight ps`.
    pub fn agents(&self) -> anyhow::Result<Vec<ShownAgent>> {
        let answer = self.call(&["ps", "--json"])?;
        shown::agents(&answer.json()?).context("ps --json")
    }

    /// `relight deaths NAME`.
    pub fn deaths(&self, name: &str) -> anyhow::Result<Vec<ShownDeath>> {
        let words = ["deaths", name, "--json", "-n", "100000"];
        // All of them, where the answer is cut to the newest by itself.
        let answer = self.call(&words)?;
        shown::deaths(&answer.json()?).context("deaths --json")
    }

    /// The folder of an agent's logs.
    pub fn logs(&self, name: &str) -> PathBuf {
        self.folder.join("agents").join(name).join("log")
    }
}

impl Supervisor {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.group.leader().as_raw_nonzero().get().unsigned_abs()
    }

    /// Whether it has not ended.
    pub fn is_alive(&self) -> bool {
        processes::is_alive(self.pid())
    }

    /// SIGKILL, and nothing is left of it.
    pub fn kill(self) -> anyhow::Result<()> {
        processes::kill(self.pid());
        self.end().map(drop)
    }

    /// Asks it to end; its exit code.
    pub fn terminate(self) -> anyhow::Result<i32> {
        processes::signal(self.pid(), Signal::TERM);
        self.end()
    }

    /// Freezes it outside of a write: one frozen while it writes keeps SQLite's lock, and everybody
    /// waits.
    pub fn freeze(&self) -> anyhow::Result<()> {
        self.group.stop_outside_of_a_write()
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        processes::signal(self.pid(), Signal::CONT);
    }

    /// Waits until it ends within a time; whether it did.
    pub fn ends_within(&self, limit: Duration) -> anyhow::Result<bool> {
        self.group.leader_ends_within(limit)
    }

    /// Waits for its end; its exit code.
    pub fn end(self) -> anyhow::Result<i32> {
        let pid = self.pid();
        let ended = self.group.leader_ends_within(LIMIT)?;
        let (code, _) = self.group.wait_for_all(Duration::ZERO)?;
        anyhow::ensure!(ended, "supervisor {pid} did not end within {LIMIT:?}");
        Ok(code)
    }

    /// Waits until the daemon answers.
    pub fn is_ready(&self, home: &Home) -> anyhow::Result<()> {
        let ready = clock::becomes(LIMIT, || Ok(home.answers() || !self.is_alive()))?;
        let is_up = ready && home.answers();
        anyhow::ensure!(is_up, "`relight up` does not answer: {}", home.last_said());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_says_the_same_as_configuration_and_as_flags() {
        let entry = Entry::at_once("a", &["sh", "-c", "echo \"x\""]).with("grace", "\"1s\"");
        let toml = entry.toml();
        assert!(
            toml.contains(r#"command = ["sh", "-c", "echo \"x\""]"#),
            "{toml}"
        );
        assert!(
            toml.contains("cooldown = \"0s\"\n") && toml.contains("grace = \"1s\"\n"),
            "{toml}"
        );
        assert_eq!(toml.matches("grace").count(), 1);
        let flags = entry.flags();
        assert!(
            flags.contains(&("--max-attempts".into(), "1000000".into())),
            "{flags:?}"
        );
    }
}
