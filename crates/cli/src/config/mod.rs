//! `relight.toml`: read, checked and completed with defaults.
//!
//! Every mistake is told at once, with its place. Leaves to others: opening the store, starting agents.

mod agent;
mod alert;
mod keys;
mod node;
mod problem;
mod queue;
mod recovery;
#[cfg(test)]
mod reference;
mod section;
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use relight_core::ids::AgentName;
use relight_core::session::{Policy, Rules};
use relight_runtime::hooks::ToolRules;
use relight_runtime::presets::Preset;
use toml::de::DeTable;

pub(crate) use agent::{AgentConfig, short_environment};
pub(crate) use alert::AlertConfig;
pub(crate) use keys::DEFAULT;
pub(crate) use node::NodeConfig;
pub(crate) use problem::ConfigError;
pub(crate) use queue::QueueConfig;
pub(crate) use recovery::Recovery;
pub(crate) use source::{Content, FILE_NAME, Origin, Source};

use crate::exit::{Exit, Failure};
use crate::log::LogFormat;
use problem::Problems;
use section::Section;

/// More is not a configuration.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// What a configuration says.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The folder of the file; relative paths count from here.
    pub(crate) folder: PathBuf,
    /// The file that it was read from; none for a text.
    pub(crate) origin: Option<Origin>,
    /// The store's URL; none leaves it to the environment.
    pub(crate) store_url: Option<String>,
    /// What becomes of agents and tasks that died.
    pub(crate) recovery: Recovery,
    /// The limits of tasks, and the pace of taking work up again.
    pub(crate) queue: QueueConfig,
    /// What becomes of sessions that were cut off.
    pub(crate) sessions: Rules,
    /// How much output is kept.
    pub(crate) log: Log,
    /// Where traces go.
    pub(crate) otlp: Option<String>,
    /// Who is told.
    pub(crate) alert: AlertConfig,
    /// What the daemon serves.
    pub(crate) daemon: DaemonConfig,
    /// This machine in a fleet.
    pub(crate) node: NodeConfig,
    /// What tool calls in doubt mean.
    pub(crate) hooks: ToolRules,
    /// The agents, in the order of the file.
    pub(crate) agents: Vec<AgentConfig>,
}

/// `[log]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Log {
    /// Bytes of one file.
    pub(crate) file_max: u64,
    /// Files of one agent.
    pub(crate) files: u32,
    /// How the daemon says what happens.
    pub(crate) format: LogFormat,
}

/// `[daemon]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DaemonConfig {
    pub(crate) listen: SocketAddr,
    /// Whether it listens there at all.
    pub(crate) http: bool,
    /// Whether an agent with a command may be registered over HTTP.
    pub(crate) commands: bool,
    /// Further names by which the daemon is called.
    pub(crate) hosts: Vec<String>,
    /// The files of certificate and key.
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
}

/// As it is without a file.
impl Default for Config {
    fn default() -> Self {
        Self::parse("", Path::new(FILE_NAME), &[]).expect("the defaults are valid")
    }
}

impl Config {
    /// Reads a file; `presets` is the folder of the user's own presets. One that was found in the working
    /// folder is refused when others can write it.
    pub(crate) fn load(source: &Source, presets: Option<&Path>) -> Result<Self, Failure> {
        let file = &source.file;
        let content = source.read().map_err(|error| {
            Failure::new(
                Exit::Config,
                format!("cannot read {}: {error}", file.display()),
            )
            .hint("give --config FILE; relight setup config writes a relight.toml in this folder")
        })?;
        content.refuse_stranger()?;
        let config = Self::parse(&content.text, file, &Preset::names(presets))?;
        Ok(Self {
            origin: Some(content.origin()),
            ..config
        })
    }

    /// The store that a file names, whatever else is wrong in it; none where it names none. For commands
    /// that need nothing more of it: one look, and nothing is parsed that cannot name a store.
    pub(crate) fn store_url_of(content: &Content) -> Result<Option<String>, String> {
        if !content.text.contains("store") {
            return Ok(None);
        }
        let table =
            DeTable::parse(&content.text).map_err(|mistake| mistake.message().to_owned())?;
        let store = table
            .get_ref()
            .get("store")
            .and_then(|value| value.get_ref().as_table());
        let Some(url) = store.and_then(|store| store.get("url")) else {
            return Ok(None);
        };
        let url = url
            .get_ref()
            .as_str()
            .ok_or("url in [store] is not a text")?;
        Ok(Some(from_folder(url, &folder_of(&content.source.file))))
    }

    /// The rules of tools that a text gives, whatever else is wrong in it.
    pub(crate) fn tool_rules_of(text: &str) -> ToolRules {
        let text = if text.contains("hooks") { text } else { "" };
        let problems = Problems::default();
        let (table, _) = DeTable::parse_recoverable(text);
        tool_rules(&Section::file(table.get_ref(), &problems).section("hooks"))
    }

    /// Reads a text. `presets` are the names of those that there are.
    pub fn parse(text: &str, file: &Path, presets: &[String]) -> Result<Self, ConfigError> {
        let problems = Problems::default();
        let (table, mistakes) = DeTable::parse_recoverable(text);
        for mistake in &mistakes {
            problems.add(mistake.span().unwrap_or_default(), mistake.message(), None);
        }
        // After a mistake in the grammar, what was understood of the rest may be wrong.
        if !mistakes.is_empty() {
            return Err(problems.into_error(text, file));
        }
        let config = Self::from_table(table.get_ref(), folder_of(file), presets, &problems);
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(problems.into_error(text, file))
        }
    }

    fn from_table(
        table: &DeTable<'_>,
        folder: PathBuf,
        presets: &[String],
        problems: &Problems,
    ) -> Self {
        let top = Section::file(table, problems);
        let section = top.section("recovery");
        let recovery = Recovery::read(&section);
        let agents = agents(&top, &folder, presets, &section);
        Self {
            store_url: top
                .section("store")
                .optional("url", store_url)
                .map(|url| from_folder(&url, &folder)),
            queue: QueueConfig::read(&top.section("queue"), &top.section("budget")),
            sessions: sessions(&top.section("sessions")),
            log: Log::read(&top.section("log")),
            otlp: top.section("telemetry").optional("otlp", http_address),
            alert: AlertConfig::read(&top.section("alert"), &folder),
            daemon: DaemonConfig::read(&top.section("daemon"), &folder),
            node: NodeConfig::read(&top.section("node")),
            hooks: tool_rules(&top.section("hooks")),
            recovery,
            agents,
            folder,
            origin: None,
        }
    }
}

/// `[hooks]`.
fn tool_rules(section: &Section<'_>) -> ToolRules {
    let names = |key| section.words(key).unwrap_or_default();
    ToolRules {
        ignored: names("ignored"),
        verify: names("verify"),
        repeatable: names("repeatable"),
        once: names("once"),
    }
}

/// `[sessions]`.
fn sessions(section: &Section<'_>) -> Rules {
    let policies = Policy::ALL.map(|policy| (policy.as_str(), policy));
    Rules {
        policy: section.one_of("policy", &policies),
        freshness: section.span("freshness"),
        window: section.span("window"),
    }
}

impl Log {
    fn read(section: &Section<'_>) -> Self {
        let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
        Self {
            file_max: section.parsed("file_max", bytes),
            files: section.count("files", 1..=1_000),
            format: section.one_of("format", &formats),
        }
    }
}

impl DaemonConfig {
    fn read(section: &Section<'_>, folder: &Path) -> Self {
        let address = |text: &str| {
            text.parse()
                .map_err(|_| "write ADDRESS:PORT, such as 127.0.0.1:7717".to_owned())
        };
        let file = |key| section.optional(key, |path| Ok(folder.join(path)));
        let tls = file("tls_cert").zip(file("tls_key"));
        for (key, other) in [("tls_cert", "tls_key"), ("tls_key", "tls_cert")] {
            if section.has(key) && !section.has(other) {
                section.problem(key, &format!("`{key}` needs `{other}` beside it"), None);
            }
        }
        Self {
            hosts: section.words("hosts").unwrap_or_default(),
            tls,
            listen: section.parsed("listen", address),
            http: section.flag("http"),
            commands: section.flag("commands"),
        }
    }
}

fn agents<'t>(
    top: &Section<'t>,
    folder: &Path,
    presets: &[String],
    recovery: &Section<'t>,
) -> Vec<AgentConfig> {
    let mut names: BTreeSet<AgentName> = BTreeSet::new();
    let mut agents = Vec::new();
    for section in top.agents(recovery) {
        let Some(agent) = AgentConfig::read(&section, folder, presets) else {
            continue;
        };
        if !names.insert(agent.name.clone()) {
            let text = format!("there is an agent {:?} already", agent.name.as_str());
            section.problem("name", &text, None);
        }
        agents.push(agent);
    }
    agents
}

fn store_url(text: &str) -> Result<String, String> {
    let known = ["sqlite:", "postgres:", "postgresql:", "memory:"];
    if known.iter().any(|scheme| text.starts_with(scheme)) {
        return Ok(text.to_owned());
    }
    Err("write sqlite:PATH or postgres://…".to_owned())
}

/// The URL with the path of a file counted from this folder.
fn from_folder(url: &str, folder: &Path) -> String {
    let path = url
        .strip_prefix("sqlite:")
        .map(|path| path.strip_prefix("//").unwrap_or(path));
    match path {
        Some(path) if !path.is_empty() => format!("sqlite:{}", folder.join(path).display()),
        _ => url.to_owned(),
    }
}

fn http_address(text: &str) -> Result<String, String> {
    if text.starts_with("http://") || text.starts_with("https://") {
        return Ok(text.to_owned());
    }
    Err("write an address such as http://127.0.0.1:4318".to_owned())
}

/// `10MB`, `512KiB`.
fn bytes(text: &str) -> Result<u64, String> {
    let units = [
        ("", 0),
        ("B", 1),
        ("kB", 1_000),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ];
    let bad = || "write a size such as 10MB or 512KiB".to_owned();
    let digits_end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (count, unit) = text.split_at(digits_end);
    let (_, unit) = units
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(bad)?;
    let bytes = count
        .parse()
        .ok()
        .and_then(|count: u64| count.checked_mul(*unit));
    match bytes {
        Some(bytes @ 1_000..) => Ok(bytes),
        Some(_) => Err("write at least 1kB, such as 10MB".to_owned()),
        None => Err(bad()),
    }
}

fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
        _ => PathBuf::from("."),
    }
}
