//! What each MCP client wants to read: where its file is, and how an entry looks there.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::arguments::other::McpClient;
use crate::environment::Environment;

/// The name of our entry.
pub(super) const NAME: &str = "relight";
/// Where the clients find the token. It never stands in a file of theirs.
const TOKEN: &str = "RELIGHT_TOKEN";
/// The header by which the daemon is told which agent is served.
const AGENT_HEADER: &str = "Relight-Agent";
/// What Codex passes on to a server only when it is told to.
const PASSED_ON: [&str; 11] = [
    "RELIGHT_HOME",
    "RELIGHT_STORE",
    "RELIGHT_NODE",
    "RELIGHT_SOCKET",
    "RELIGHT_NODE_LEASE",
    "RELIGHT_AGENT",
    "RELIGHT_ATTEMPT",
    "RELIGHT_TASK",
    "RELIGHT_FENCE",
    "RELIGHT_CHECKPOINT_DIR",
    "NOTIFY_SOCKET",
];

/// How a client reaches Relight.
pub(super) enum Way {
    /// It starts a process: the program, and its words.
    Process { program: String, words: Vec<String> },
    /// It asks the daemon.
    Http { url: String, agent: Option<String> },
}

impl McpClient {
    /// The file that it reads.
    pub(super) fn file(self, environment: &Environment) -> PathBuf {
        match self {
            Self::Claude => ".mcp.json".into(),
            Self::Gemini => ".gemini/settings.json".into(),
            Self::Opencode => "opencode.json".into(),
            Self::Cursor => ".cursor/mcp.json".into(),
            Self::Kimi => ".kimi-code/mcp.json".into(),
            Self::Qwen => ".qwen/settings.json".into(),
            Self::Codex => in_home(environment, "CODEX_HOME", ".codex").join("config.toml"),
            Self::Copilot => {
                in_home(environment, "COPILOT_HOME", ".copilot").join("mcp-config.json")
            }
        }
    }

    /// What it wants from a person before it starts the server.
    pub(super) fn wants(self) -> Option<&'static str> {
        match self {
            Self::Claude => Some(
                "Claude Code asks once whether servers of .mcp.json may run: start `claude` here and \
                 approve it, or write \"enabledMcpjsonServers\": [\"relight\"] into \
                 ~/.claude/settings.json",
            ),
            Self::Gemini => Some(
                "Gemini CLI starts servers only in a folder that it trusts: answer its question \
                 there once, or pass --skip-trust",
            ),
            Self::Cursor => Some("Cursor asks once whether the server may run"),
            Self::Qwen => Some(
                "Qwen Code asks once whether servers of a project may run: start `qwen` here and \
                 approve it",
            ),
            Self::Codex | Self::Opencode | Self::Kimi | Self::Copilot => None,
        }
    }

    /// The table in which servers stand.
    pub(super) fn table(self) -> &'static str {
        match self {
            Self::Claude
            | Self::Gemini
            | Self::Cursor
            | Self::Kimi
            | Self::Qwen
            | Self::Copilot => "mcpServers",
            Self::Codex => "mcp_servers",
            Self::Opencode => "mcp",
        }
    }

    /// What it calls itself.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
            Self::Opencode => "OpenCode",
            Self::Cursor => "Cursor",
            Self::Kimi => "Kimi Code",
            Self::Qwen => "Qwen Code",
            Self::Copilot => "GitHub Copilot CLI",
        }
    }

    /// Our entry in that table.
    pub(super) fn entry(self, way: &Way) -> Value {
        match way {
            Way::Process { program, words } => self.process_entry(program, words),
            Way::Http { url, agent } => self.http_entry(url, agent.as_deref()),
        }
    }

    fn process_entry(self, program: &str, words: &[String]) -> Value {
        match self {
            Self::Claude | Self::Gemini | Self::Cursor | Self::Kimi | Self::Qwen => {
                json!({"command": program, "args": words})
            }
            Self::Copilot => {
                json!({"type": "local", "command": program, "args": words, "tools": ["*"]})
            }
            Self::Codex => json!({"command": program, "args": words, "env_vars": PASSED_ON}),
            Self::Opencode => {
                let all: Vec<&str> = std::iter::once(program)
                    .chain(words.iter().map(String::as_str))
                    .collect();
                json!({"type": "local", "command": all, "enabled": true})
            }
        }
    }

    fn http_entry(self, url: &str, agent: Option<&str>) -> Value {
        let headers = |token: String| {
            let mut headers = json!({"Authorization": format!("Bearer {token}")});
            if let Some(agent) = agent {
                headers[AGENT_HEADER] = json!(agent);
            }
            headers
        };
        match self {
            Self::Claude => {
                json!({"type": "http", "url": url, "headers": headers(format!("${{{TOKEN}}}"))})
            }
            Self::Gemini | Self::Qwen => {
                json!({"httpUrl": url, "headers": headers(format!("${{{TOKEN}}}"))})
            }
            Self::Copilot => json!({
                "type": "http", "url": url, "headers": headers(format!("${{{TOKEN}}}")),
                "tools": ["*"],
            }),
            Self::Kimi => match agent {
                Some(agent) => json!({"url": url, "bearerTokenEnvVar": TOKEN,
                    "headers": {AGENT_HEADER: agent}}),
                None => json!({"url": url, "bearerTokenEnvVar": TOKEN}),
            },
            Self::Cursor => json!({"url": url, "headers": headers(format!("${{env:{TOKEN}}}"))}),
            Self::Opencode => json!({
                "type": "remote", "url": url, "headers": headers(format!("{{env:{TOKEN}}}")),
                "enabled": true,
            }),
            Self::Codex => match agent {
                Some(agent) => json!({"url": url, "bearer_token_env_var": TOKEN,
                    "http_headers": {AGENT_HEADER: agent}}),
                None => json!({"url": url, "bearer_token_env_var": TOKEN}),
            },
        }
    }
}

/// A program's own folder: where its variable says, else in the user's home.
fn in_home(environment: &Environment, variable: &str, name: &str) -> PathBuf {
    match (environment.get(variable), environment.get("HOME")) {
        (Some(own), _) => PathBuf::from(own),
        (None, home) => home.map(PathBuf::from).unwrap_or_default().join(name),
    }
}
