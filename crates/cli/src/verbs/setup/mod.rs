//! `relight setup`: what agents have to know, kept in files that they read.
//!
//! Knows when a file may be written; where the text starts and ends in it is `marked`'s business.

mod client;
mod config;
mod hooks;
mod json_edit;
mod marked;
mod mcp;
mod mcp_check;
mod piece;

use std::path::Path;

use serde_json::json;

pub(super) use self::marked::State;
use self::piece::Piece;
use crate::arguments::hook::HookProgram;
use crate::arguments::other::{
    AgentsMdArguments, McpClient, SetupAgentArguments, SetupCommand, SetupDeed,
    SetupHooksArguments, SetupMcpArguments, SkillArguments,
};
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::{output, whole_file};

/// By its name where that leads here; else by its path.
fn program(environment: &Environment) -> Result<String, Failure> {
    let cannot = |error| Failure::new(Exit::Io, format!("cannot find this program: {error}"));
    let own = std::env::current_exe().map_err(cannot)?;
    let folders = environment.get("PATH").unwrap_or_default();
    let found = folders.split(':').filter(|folder| folder.starts_with('/'));
    let found = found.map(|folder| Path::new(folder).join(client::NAME));
    let found = found.into_iter().find(|path| path.is_file());
    let is_by_name = found.and_then(|path| path.canonicalize().ok()) == own.canonicalize().ok();
    Ok(if is_by_name {
        client::NAME.to_owned()
    } else {
        own.to_string_lossy().into_owned()
    })
}

/// Everything for one program: hooks, MCP, the skill and the block in the file that it reads. Nothing is written before
/// a person has seen what.
fn agent(environment: &Environment, given: &SetupAgentArguments) -> Outcome {
    let commands = given.program.commands();
    let mut plan = vec![hooks::plan(environment, given.program)?];
    for command in &commands {
        plan.push(match command {
            SetupCommand::Mcp(mcp) => {
                format!(
                    "{}: an MCP server named relight",
                    mcp.client.file(environment).display()
                )
            }
            SetupCommand::Skill(skill) => {
                format!("{}: a skill", Piece::skill_in(&skill.dir).path().display())
            }
            SetupCommand::AgentsMd(block) => {
                format!("{}: a block about restart-safe work", block.file.display())
            }
            _ => continue,
        });
    }
    if !given.yes {
        output::alert(&format!(
            "this changes, and keeps everything else:\n  {}",
            plan.join("\n  ")
        ));
        let is_asked = output::is_terminal() && std::io::IsTerminal::is_terminal(&std::io::stdin());
        if !is_asked {
            return Err(Failure::new(
                Exit::Usage,
                "nothing was changed: there is no terminal to ask on",
            )
            .hint("add --yes"));
        }
        output::alert("continue? [y/N]");
        let mut answer = String::new();
        let read = std::io::stdin().read_line(&mut answer);
        if read.is_err() || !matches!(answer.trim(), "y" | "Y" | "yes") {
            output::alert("nothing was changed");
            return Ok(Exit::No as u8);
        }
    }
    for command in &commands {
        let code = run(environment, command)?;
        if code != 0 {
            return Ok(code);
        }
    }
    Ok(0)
}

impl HookProgram {
    /// What `setup agent` runs for it.
    fn commands(self) -> Vec<SetupCommand> {
        let client = match self {
            Self::Claude => McpClient::Claude,
            Self::Codex => McpClient::Codex,
            Self::Gemini => McpClient::Gemini,
            Self::Cursor => McpClient::Cursor,
            Self::Opencode => McpClient::Opencode,
            Self::Kimi => McpClient::Kimi,
            Self::Qwen => McpClient::Qwen,
            Self::Copilot => McpClient::Copilot,
        };
        let skills = match self {
            Self::Claude => ".claude/skills",
            _ => ".agents/skills",
        };
        let deed = || SetupDeed {
            check: false,
            print: false,
            remove: false,
            force: false,
        };
        let own = match self {
            Self::Claude => "CLAUDE.md",
            Self::Gemini => "GEMINI.md",
            _ => "AGENTS.md",
        };
        let text = std::fs::read_to_string(own).unwrap_or_default();
        let is_import = |line: &str| matches!(line.trim(), "@AGENTS.md" | "@./AGENTS.md");
        let file = if text.lines().any(is_import) {
            "AGENTS.md"
        } else {
            own
        }
        .into();
        vec![
            SetupCommand::Hooks(SetupHooksArguments::of(self)),
            SetupCommand::Mcp(SetupMcpArguments::merged(client)),
            SetupCommand::Skill(SkillArguments {
                deed: deed(),
                dir: skills.into(),
            }),
            SetupCommand::AgentsMd(AgentsMdArguments { deed: deed(), file }),
        ]
    }
}

pub(crate) fn run(environment: &Environment, command: &SetupCommand) -> Outcome {
    let (piece, deed) = match command {
        SetupCommand::AgentsMd(given) => (Piece::AgentsMd(given.file.clone()), &given.deed),
        SetupCommand::Skill(given) => (Piece::skill_in(&given.dir), &given.deed),
        SetupCommand::Config(given) => return config::run(environment, given),
        SetupCommand::Mcp(given) => return mcp::run(environment, given),
        SetupCommand::Hooks(given) => return hooks::run(environment, given),
        SetupCommand::Agent(given) => return agent(environment, given),
    };
    if deed.print {
        return Ok(print(environment, &piece));
    }
    let bytes = read(&piece)?;
    let state = piece.state(bytes.as_deref());
    if deed.check {
        return check(environment, &piece, &state);
    }
    allow(&piece, &state, deed)?;
    if deed.remove {
        remove(environment, &piece, &state, &bytes.unwrap_or_default())
    } else {
        install(environment, &piece, &state, deed.force, bytes)
    }
}

/// The state of the block in this file; for `doctor`.
pub(super) fn agents_md_state(file: &Path) -> Result<Option<State>, Failure> {
    let piece = Piece::AgentsMd(file.to_owned());
    Ok(read(&piece)?.map(|bytes| piece.state(Some(&bytes))))
}

fn read(piece: &Piece) -> Result<Option<Vec<u8>>, Failure> {
    let path = piece.path();
    let bytes =
        whole_file::read(path).map_err(|error| whole_file::failure("read", path, &error))?;
    if bytes.as_ref().is_some_and(|bytes| bytes.contains(&0)) {
        let text = format!("{} is not a text file in UTF-8", path.display());
        return Err(Failure::new(Exit::Data, text));
    }
    Ok(bytes)
}

fn print(environment: &Environment, piece: &Piece) -> u8 {
    if environment.json {
        output::json(&json!({"file": piece.path(), "text": piece.text()}));
    } else {
        output::write_out(piece.text().as_bytes());
    }
    0
}

fn check(environment: &Environment, piece: &Piece, state: &State) -> Outcome {
    if let State::Broken { .. } = state {
        return Err(broken(piece, state));
    }
    let mut text = format!("{}: {}", piece.path().display(), piece.says(state));
    if !state.is_good() {
        text += &format!("; {} brings it up to date", piece.command());
    }
    if *state == State::Edited {
        text += " when --force is given";
    }
    output::answer(environment, &report(piece, state, "none"), &text);
    Ok(if state.is_good() { 0 } else { Exit::No as u8 })
}

/// What a person wrote is not ours to overwrite.
fn allow(piece: &Piece, state: &State, deed: &SetupDeed) -> Result<(), Failure> {
    match state {
        State::Broken { .. } => Err(broken(piece, state)),
        State::Edited if !deed.force => {
            let what = format!("{}: {}", piece.path().display(), piece.says(state));
            let verb = if deed.remove { " --remove" } else { "" };
            let command = piece.command();
            Err(Failure::new(Exit::No, what).hint(format!(
                "{command} --print shows ours; {command}{verb} --force drops yours"
            )))
        }
        State::Edited
        | State::Absent
        | State::Current
        | State::Outdated { .. }
        | State::Newer { .. } => Ok(()),
    }
}

/// A link is followed inside its folder only: a repository must not choose what is written elsewhere.
fn refuse_link_out(path: &Path) -> Result<(), Failure> {
    if !path.is_symlink() {
        return Ok(());
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize();
    let target = path.canonicalize();
    if let (Ok(folder), Ok(target)) = (&folder, &target)
        && target.starts_with(folder)
    {
        return Ok(());
    }
    let target = std::fs::read_link(path).unwrap_or_default();
    let text = format!(
        "{} is a symbolic link that leads out of its folder, to {}",
        path.display(),
        target.display()
    );
    Err(Failure::new(Exit::Config, text).hint(
        "put the file in the place of the link, write what --print shows by hand, or use --file where the command has it",
    ))
}

fn install(
    environment: &Environment,
    piece: &Piece,
    state: &State,
    force: bool,
    bytes: Option<Vec<u8>>,
) -> Outcome {
    let path = piece.path();
    let keeps_newer = matches!(state, State::Newer { .. }) && !force;
    if *state == State::Current || keeps_newer {
        let text = format!("{}: {}; nothing to do", path.display(), piece.says(state));
        output::answer(environment, &report(piece, state, "none"), &text);
        return Ok(0);
    }
    refuse_link_out(path)?;
    let is_new_file = bytes.is_none();
    let whole = piece.with(&bytes.unwrap_or_default());
    whole_file::replace(path, &whole)
        .map_err(|error| whole_file::failure("write", path, &error))?;
    let (action, text) = match state {
        State::Absent if is_new_file => ("created", "created"),
        State::Absent => ("added", "block added"),
        _ => ("updated", "brought up to date"),
    };
    let text = format!("{}: {text}", path.display());
    output::answer(environment, &report(piece, &State::Current, action), &text);
    Ok(0)
}

fn remove(environment: &Environment, piece: &Piece, state: &State, bytes: &[u8]) -> Outcome {
    let path = piece.path();
    if *state == State::Absent {
        let text = format!("{}: nothing of ours is there", path.display());
        output::answer(environment, &report(piece, state, "none"), &text);
        return Ok(0);
    }
    refuse_link_out(path)?;
    let rest = piece.without(bytes);
    let is_only_ours = rest.is_empty() && !path.is_symlink();
    let done = if is_only_ours {
        whole_file::remove(path).map(|_| piece.remove_folder())
    } else {
        whole_file::replace(path, &rest)
    };
    done.map_err(|error| whole_file::failure("write", path, &error))?;
    let what = if is_only_ours {
        "removed"
    } else {
        "block removed, the rest is as it was"
    };
    let text = format!("{}: {what}", path.display());
    output::answer(
        environment,
        &report(piece, &State::Absent, "removed"),
        &text,
    );
    Ok(0)
}

fn report(piece: &Piece, state: &State, action: &str) -> serde_json::Value {
    json!({"file": piece.path(), "state": state.as_str(), "action": action})
}

fn broken(piece: &Piece, state: &State) -> Failure {
    let text = format!("{}: {}", piece.path().display(), piece.says(state));
    let hint = format!(
        "remove its relight: marker lines by hand, then {}",
        piece.command()
    );
    Failure::new(Exit::Data, text).hint(hint)
}
