//! The real programs: where they come from, how they are set up for the stub model, and what they are asked.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use relight_runtime::os::process;
use serde_json::{Value, json};

use crate::world::product::{finish, plain};

/// Kimi Code and Qwen Code need a newer one than Debian's.
const NODE_VERSION: &str = "24.21.0";
/// What OpenCode would otherwise install into the folder of a plugin, from the network.
const PLUGIN: (&str, &str, &str) = ("opencode-plugin", "@opencode-ai/plugin", "1.18.33");

/// One program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// OpenCode.
    Opencode,
    /// Kimi Code.
    Kimi,
    /// Qwen Code.
    Qwen,
}

impl Client {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Claude,
        Self::Codex,
        Self::Gemini,
        Self::Opencode,
        Self::Kimi,
        Self::Qwen,
    ];

    /// Its name, which is that of its program and of its hooks.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Kimi => "kimi",
            Self::Qwen => "qwen",
        }
    }

    /// Its version.
    pub fn version(self) -> &'static str {
        self.package().1
    }

    /// The preset for it.
    pub(super) fn preset(self) -> &'static str {
        if self == Self::Claude {
            "claude-code"
        } else {
            self.name()
        }
    }

    fn package(self) -> (&'static str, &'static str) {
        match self {
            Self::Claude => ("@anthropic-ai/claude-code", "2.1.326"),
            Self::Codex => ("@openai/codex", "0.169.0"),
            Self::Gemini => ("@google/gemini-cli", "0.61.0"),
            Self::Opencode => ("opencode-ai", "1.18.33"),
            Self::Kimi => ("@moonshot-ai/kimi-code", "2.1.0"),
            Self::Qwen => ("@qwen-code/qwen-code", "0.24.4"),
        }
    }

    /// Its tool for commands, and a tool that only its main conversation has: titles, summaries and memories
    /// are asked for with other tools or none.
    pub(super) fn tools(self) -> [&'static str; 2] {
        match self {
            Self::Claude => ["Bash", "Agent"],
            Self::Codex => ["exec_command", "write_stdin"],
            Self::Gemini => ["run_shell_command", "write_file"],
            Self::Opencode => ["bash", "todowrite"],
            Self::Kimi => ["Bash", "Agent"],
            Self::Qwen => ["run_shell_command", "agent"],
        }
    }

    /// Arguments of that tool.
    pub(super) fn shell(self, command: &str) -> Value {
        match self {
            // Else it is in the background after a few seconds.
            Self::Codex => json!({"cmd": command, "yield_time_ms": 30_000}),
            Self::Kimi => json!({"command": command}),
            Self::Qwen => {
                json!({"command": command, "description": "works", "is_background": false})
            }
            Self::Claude | Self::Gemini | Self::Opencode => {
                json!({"command": command, "description": "works"})
            }
        }
    }

    /// Its command line. Permissions are given: nobody is there to be asked.
    pub(super) fn words(self, prompt: &str) -> Vec<String> {
        let words: &[&str] = match self {
            Self::Claude => &["claude", "--dangerously-skip-permissions", "-p"],
            Self::Codex => &[
                "codex",
                "exec",
                "--skip-git-repo-check",
                "--dangerously-bypass-approvals-and-sandbox",
                "--dangerously-bypass-hook-trust",
            ],
            Self::Gemini => &[
                "gemini",
                "--yolo",
                "--skip-trust",
                "-m",
                "gemini-2.5-flash",
                "-p",
            ],
            Self::Opencode => &["opencode", "run", "-m", "stub/m"],
            Self::Kimi => &["kimi", "-p"],
            Self::Qwen => &["qwen", "--yolo", "--auth-type", "openai", "-p"],
        };
        words
            .iter()
            .copied()
            .chain([prompt])
            .map(str::to_owned)
            .collect()
    }

    /// Whether its hooks are installed for the user; else for the project.
    pub(super) fn has_user_hooks(self) -> bool {
        matches!(self, Self::Codex | Self::Kimi | Self::Gemini)
    }

    /// Writes its settings, so that it asks the stub and nobody else.
    pub(super) fn set_up(
        self,
        home: &Path,
        folder: &Path,
        port: u16,
        clis: &Path,
    ) -> anyhow::Result<()> {
        let base = format!("http://127.0.0.1:{port}");
        let write = |path: PathBuf, text: String| {
            fs::create_dir_all(path.parent().unwrap_or(home))?;
            fs::write(path, text)
        };
        match self {
            Self::Claude | Self::Qwen => {}
            Self::Codex => write(
                home.join(".codex/config.toml"),
                format!(
                    "model = \"stub\"\nmodel_provider = \"stub\"\n\
                     check_for_update_on_startup = false\n\
                     [analytics]\nenabled = false\n\
                     [model_providers.stub]\nname = \"stub\"\nbase_url = \"{base}/v1\"\n\
                     wire_api = \"responses\"\nenv_key = \"STUB_KEY\"\n\
                     request_max_retries = 1\nstream_max_retries = 1\n"
                ),
            )?,
            Self::Gemini => {
                let settings = json!({"security": {"auth": {"selectedType": "gemini-api-key"}},
                    "general": {"disableAutoUpdate": true}});
                write(home.join(".gemini/settings.json"), settings.to_string())?;
            }
            Self::Opencode => {
                let provider = json!({"npm": "@ai-sdk/openai-compatible", "name": "stub",
                    "options": {"baseURL": format!("{base}/v1"), "apiKey": "k"},
                    "models": {"m": {"name": "m"}}});
                let settings = json!({"autoupdate": false, "share": "disabled",
                    "permission": "allow", "provider": {"stub": provider}});
                write(folder.join("opencode.json"), settings.to_string())?;
                let plugin = clis.join(format!("{}-{}", PLUGIN.0, PLUGIN.2));
                for place in [folder.join(".opencode"), home.join(".config/opencode")] {
                    fs::create_dir_all(&place)?;
                    for file in ["package.json", "package-lock.json"] {
                        fs::copy(plugin.join(file), place.join(file))?;
                    }
                    symlink(plugin.join("node_modules"), place.join("node_modules"))?;
                }
            }
            Self::Kimi => write(
                home.join(".kimi-code/config.toml"),
                format!(
                    "default_model = \"stub\"\n[providers.stub]\ntype = \"openai\"\n\
                     base_url = \"{base}/v1\"\napi_key = \"k\"\n\
                     [models.stub]\nprovider = \"stub\"\nmodel = \"stub\"\n\
                     max_context_size = 100000\n"
                ),
            )?,
        }
        Ok(())
    }

    /// Variables that it needs.
    pub(super) fn variables(self, port: u16) -> Vec<(&'static str, String)> {
        let base = format!("http://127.0.0.1:{port}");
        let text = str::to_owned;
        match self {
            Self::Claude => vec![
                ("ANTHROPIC_BASE_URL", base),
                ("ANTHROPIC_API_KEY", text("k")),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", text("1")),
                ("DISABLE_AUTOUPDATER", text("1")),
                // Ten by itself, even of a refused key, which take minutes.
                ("CLAUDE_CODE_MAX_RETRIES", text("3")),
                // Without it, root may not skip permissions.
                ("IS_SANDBOX", text("1")),
            ],
            Self::Codex => vec![("STUB_KEY", text("k"))],
            Self::Gemini => {
                vec![
                    ("GOOGLE_GEMINI_BASE_URL", base),
                    ("GEMINI_API_KEY", text("k")),
                ]
            }
            Self::Opencode => vec![
                ("OPENCODE_DISABLE_MODELS_FETCH", text("1")),
                ("OPENCODE_DISABLE_AUTOUPDATE", text("1")),
            ],
            Self::Kimi => vec![],
            Self::Qwen => vec![
                ("OPENAI_BASE_URL", format!("{base}/v1")),
                ("OPENAI_API_KEY", text("k")),
                ("OPENAI_MODEL", text("stub")),
            ],
        }
    }

    /// The folders that its program and its Node are in.
    pub(super) fn path(self, clis: &Path) -> String {
        let (node, _) = node_package();
        let own = clis.join(format!("{}-{}", self.name(), self.version()));
        let node = clis.join(format!("node-{NODE_VERSION}/node_modules/{node}/bin"));
        let own = own.join("node_modules/.bin");
        format!(
            "{}:{}:/usr/local/bin:/usr/bin:/bin",
            own.display(),
            node.display()
        )
    }

    pub(super) fn is_installed(self, clis: &Path) -> bool {
        let plugin = clis.join(format!("{}-{}", PLUGIN.0, PLUGIN.2));
        clis.join(format!("{}-{}", self.name(), self.version()))
            .exists()
            && clis.join(format!("node-{NODE_VERSION}")).exists()
            && (self != Self::Opencode || plugin.exists())
    }

    /// Installs it, unless it is there.
    pub fn install(self, clis: &Path) -> anyhow::Result<()> {
        let (node, version) = node_package();
        install(clis, "node", &node, version)?;
        if self == Self::Opencode {
            install(clis, PLUGIN.0, PLUGIN.1, PLUGIN.2)?;
        }
        let (package, version) = self.package();
        install(clis, self.name(), package, version)
    }
}

fn node_package() -> (String, &'static str) {
    let machine = if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "x64"
    };
    (format!("node-linux-{machine}"), NODE_VERSION)
}

/// Whole or not at all: another run may be installing the same.
fn install(clis: &Path, name: &str, package: &str, version: &str) -> anyhow::Result<()> {
    let folder = clis.join(format!("{name}-{version}"));
    if folder.exists() {
        return Ok(());
    }
    eprintln!("installing {package} {version}");
    let partial = clis.join(format!("{name}-{version}.{}", std::process::id()));
    fs::create_dir_all(&partial)?;
    let place = partial.display().to_string();
    let what = format!("{package}@{version}");
    let mut npm = npm(&[
        "install",
        "--no-audit",
        "--no-fund",
        "--prefix",
        &place,
        &what,
    ]);
    let answer = finish(&mut npm).context("npm")?;
    if answer.code != 0 {
        fs::remove_dir_all(&partial)?;
        anyhow::bail!("npm cannot install {what}: {}", answer.stderr.trim());
    }
    match fs::rename(&partial, &folder) {
        Err(_) if folder.exists() => fs::remove_dir_all(&partial).context("the second copy"),
        renamed => renamed.context("cannot rename"),
    }
}

/// With the user's settings: a registry of their own may be in them.
fn npm(words: &[&str]) -> Command {
    let mut npm = process::command("npm", words);
    npm.stdin(std::process::Stdio::null());
    npm
}

/// Whether a network of our own can be made here.
pub(super) fn has_namespaces() -> bool {
    let words = ["--net", "sh", "-c", "ip link set lo up"];
    finish(&mut plain(Path::new("unshare"), &words)).is_ok_and(|answer| answer.code == 0)
}
