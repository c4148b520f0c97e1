//! `relight setup mcp --check`: is the entry in the client's file, and what does the client itself say of it?

use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use relight_core::agent::plain::plain_line;
use relight_runtime::os::{child, process};

use super::client::NAME;
use crate::arguments::other::McpClient;

/// Programs of this kind need seconds to start; one that connects to its servers needs longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long its output may come after its end.
const LEFT: Duration = Duration::from_secs(1);
/// More is not a list of servers.
const ANSWER_BYTES_MAX: u64 = 256 << 10;

/// What a client says of our entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum McpCheck {
    /// It is ready to use.
    Ready,
    /// It waits for a person: what to do.
    Wants(String),
    /// It does not know the entry.
    Unknown,
    /// It cannot start the server, or cannot reach it.
    Failed(String),
    /// Its program is not installed.
    NotInstalled(&'static str),
    /// Nobody can be asked.
    CannotAsk(String),
}

impl McpCheck {
    /// Whether nothing is left to do as far as is known.
    pub(super) fn is_fine(&self) -> bool {
        match self {
            Self::Ready | Self::NotInstalled(_) | Self::CannotAsk(_) => true,
            Self::Wants(_) | Self::Unknown | Self::Failed(_) => false,
        }
    }

    /// One word for programs.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Wants(_) => "wants",
            Self::Unknown => "unknown",
            Self::Failed(_) => "failed",
            Self::NotInstalled(_) => "not_installed",
            Self::CannotAsk(_) => "cannot_ask",
        }
    }

    /// For people.
    pub(super) fn text(&self, client: McpClient) -> String {
        let name = client.name();
        match self {
            Self::Ready => format!("{name} has it and can use it"),
            Self::Wants(what) => format!("{name} does not use it yet: {what}"),
            Self::Unknown => format!("{name} does not know it"),
            Self::Failed(line) => format!("{name} cannot start it: {line}"),
            Self::NotInstalled(program) => {
                format!("{name} is not installed here (no `{program}` in PATH): it was not asked")
            }
            Self::CannotAsk(why) => format!("{name} was not asked: {why}"),
        }
    }
}

fn hear(from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (said, hears) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error may be enough.
        let _ = from.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes);
        said.send(bytes)
    });
    hears
}

impl McpClient {
    /// The command that tells what it knows of our entry.
    fn question(self) -> Result<&'static [&'static str], &'static str> {
        match self {
            Self::Claude => Ok(&["claude", "mcp", "get", NAME]),
            Self::Codex => Ok(&["codex", "mcp", "get", NAME]),
            Self::Gemini => Ok(&["gemini", "mcp", "list"]),
            Self::Qwen => Ok(&["qwen", "mcp", "list"]),
            Self::Opencode => Ok(&["opencode", "mcp", "list"]),
            Self::Cursor => Ok(&["cursor-agent", "mcp", "list"]),
            Self::Kimi => Err("it has no command for that; /mcp in its screen shows its servers"),
            Self::Copilot => {
                Err("no command of it for that is known; /mcp in its screen shows its servers")
            }
        }
    }

    /// Asks the client. Takes a minute at most.
    pub(super) fn ask(self) -> McpCheck {
        match self.question() {
            Ok(words) => self.asked(words),
            Err(why) => McpCheck::CannotAsk(why.to_owned()),
        }
    }

    fn asked(self, words: &'static [&'static str]) -> McpCheck {
        let cannot = |error: &std::io::Error| McpCheck::CannotAsk(format!("{}: {error}", words[0]));
        let mut command = process::command(words[0], &words[1..]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut running = match command.env("NO_COLOR", "1").process_group(0).spawn() {
            Ok(running) => running,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return McpCheck::NotInstalled(words[0]);
            }
            Err(error) => return cannot(&error),
        };
        // In threads, because a child of it may keep its output open.
        let said = [
            running.stdout.take().map(hear),
            running.stderr.take().map(hear),
        ];
        if child::wait_or_kill_group(&mut running, PATIENCE).is_none() {
            let words = words.join(" ");
            return McpCheck::CannotAsk(format!(
                "`{words}` did not answer within {} s",
                PATIENCE.as_secs()
            ));
        }
        let heard = said
            .into_iter()
            .flatten()
            .filter_map(|said| said.recv_timeout(LEFT).ok());
        self.understood(&String::from_utf8_lossy(
            &heard.collect::<Vec<_>>().concat(),
        ))
    }

    /// What the client's answer means.
    fn understood(self, text: &str) -> McpCheck {
        let lines: Vec<String> = text.lines().map(plain_line).collect();
        let about = |line: &&String| {
            let words = line.to_ascii_lowercase();
            // Lists have a line for each server; one that was asked for by name has lines of its own.
            words.contains(NAME) || words.contains("status:") || words.contains("enabled:")
        };
        let told: Vec<&String> = lines.iter().filter(about).collect();
        let find = |parts: &[&str]| {
            told.iter().find(|line| {
                let line = line.to_ascii_lowercase();
                parts.iter().any(|part| line.contains(part))
            })
        };
        let wants = || {
            self.wants()
                .unwrap_or("approve the server in its screen")
                .to_owned()
        };
        if find(&["no mcp server named"]).is_some() || told.is_empty() {
            return McpCheck::Unknown;
        }
        if find(&["pending approval", "needs approval", "not loaded"]).is_some() {
            return McpCheck::Wants(wants());
        }
        if find(&["disabled", "enabled: false"]).is_some() {
            return match text.to_ascii_lowercase().contains("untrusted") {
                true => McpCheck::Wants(wants()),
                false => McpCheck::Wants("the server is disabled in its settings".to_owned()),
            };
        }
        if let Some(line) = find(&["disconnected", "failed", "✗", "error"]) {
            return McpCheck::Failed(line.trim().to_owned());
        }
        if find(&["connected", "enabled", "ready"]).is_some() {
            return McpCheck::Ready;
        }
        let first = told.first().map(|line| line.trim()).unwrap_or_default();
        McpCheck::CannotAsk(format!("its answer is not understood: {first}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers of Claude Code 2.1.326, Codex 0.169, Gemini CLI 0.61, Qwen Code 0.24 and OpenCode 1.18.
    #[test]
    fn answers_of_the_real_clients_are_understood() {
        let claude = |status: &str| {
            format!(
                "relight:\n  Scope: Project config (shared via .mcp.json)\n  Status: {status}\n  \
                 Type: stdio\n  Command: relight\n  Args: mcp\n\n\
                 To remove this server, run: claude mcp remove relight -s project\n"
            )
        };
        let pending = claude("⏸ Pending approval (run `claude` to approve)");
        let untrusted = "Warning: MCP servers are configured but disabled because this folder is \
                         untrusted.\n\nConfigured MCP servers:\n\n○ relight: relight mcp (stdio) - Disabled\n";
        for (client, text, word) in [
            (McpClient::Claude, pending.as_str(), "wants"),
            (McpClient::Claude, &claude("✔ Connected"), "ready"),
            (McpClient::Claude, &claude("✗ Failed to connect"), "failed"),
            (
                McpClient::Claude,
                "No MCP server named \"relight\". Run `claude mcp add` to add one.",
                "unknown",
            ),
            (
                McpClient::Codex,
                "relight\n  enabled: true\n  transport: stdio\n  command: relight\n  args: mcp\n",
                "ready",
            ),
            (McpClient::Codex, "relight\n  enabled: false\n", "wants"),
            (
                McpClient::Codex,
                "Error: No MCP server named 'relight' found.\n\nStack backtrace:\n",
                "unknown",
            ),
            (McpClient::Gemini, "No MCP servers configured.", "unknown"),
            (McpClient::Gemini, untrusted, "wants"),
            (
                McpClient::Gemini,
                "Configured MCP servers:\n\n✓ relight: relight mcp (stdio) - Connected\n",
                "ready",
            ),
            (
                McpClient::Gemini,
                "Configured MCP servers:\n\n✗ relight: nosuch mcp (stdio) - Disconnected\n",
                "failed",
            ),
            (
                McpClient::Gemini,
                "Configured MCP servers:\n\n✓ other: other mcp (stdio) - Connected\n",
                "unknown",
            ),
            (
                McpClient::Qwen,
                "Configured MCP servers:\n\u{1b}[33m●\u{1b}[0m relight: relight mcp (stdio) - Pending approval\n",
                "wants",
            ),
            (
                McpClient::Opencode,
                "┌  MCP Servers\n│\n●  ✓ relight \u{1b}[90mconnected\n│      \u{1b}[90mrelight mcp\n│\n└  1 server(s)\n",
                "ready",
            ),
            (
                McpClient::Opencode,
                "┌  MCP Servers\n│\n▲  No MCP servers configured\n",
                "unknown",
            ),
            (McpClient::Cursor, "relight: something new", "cannot_ask"),
        ] {
            assert_eq!(client.understood(text).word(), word, "{text}");
        }
    }

    #[test]
    fn what_the_client_still_wants_is_said() {
        let McpCheck::Wants(what) = McpClient::Claude.understood("Status: Pending approval") else {
            panic!("it waits for a person");
        };
        assert!(what.contains("enabledMcpjsonServers"), "{what}");
    }
}
