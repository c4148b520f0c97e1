//! Flags of `relight hook` and `relight setup hooks`.

use clap::{Args, ValueEnum};
use relight_runtime::hooks::HookEvent;

/// `hook`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  relight hook before-tool --for claude < event.json\n\n\
    `relight setup hooks` installs it. It only observes: the exit code is always 0, it prints only what the\n\
    program reads, and errors go to hooks.log in the home folder."
)]
pub(crate) struct HookArguments {
    /// What happens: session-start, prompt, before-tool, after-tool, stop, failure or session-end
    #[arg(value_name = "EVENT", value_parser = event)]
    pub(crate) event: HookEvent,
    /// The agent's program
    #[arg(long = "for", value_name = "PROGRAM")]
    pub(crate) program: HookProgram,
}

fn event(text: &str) -> Result<HookEvent, String> {
    text.parse()
}

/// A program whose hooks are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HookProgram {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
    /// Gemini CLI
    Gemini,
    /// Kimi Code
    Kimi,
    /// Qwen Code
    Qwen,
    /// Cursor
    Cursor,
    /// OpenCode
    Opencode,
    /// GitHub Copilot CLI
    Copilot,
}

impl HookProgram {
    /// As the flag has it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Kimi => "kimi",
            Self::Qwen => "qwen",
            Self::Cursor => "cursor",
            Self::Opencode => "opencode",
            Self::Copilot => "copilot",
        }
    }
}
