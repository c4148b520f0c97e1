//! The daemon of this home: whether it answers, which version it is, and who may use it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use relight_core::time::Span;
use relight_runtime::supervise::control::{AskError, SupervisorStatus, daemon_socket, holder};
use relight_server::{client, tokens};

use super::super::overview;
use super::finding::DoctorFinding;
use super::machine::quoted;
use crate::environment::Environment;

/// Longer than a daemon that is well takes.
const PATIENCE: Span = Span::from_secs(3);

pub(super) fn look(environment: &Environment) -> Vec<DoctorFinding> {
    let Ok(home) = environment.state_folder() else {
        return Vec::new();
    };
    let socket = daemon_socket(&home);
    let mut findings = vec![daemon(&home, &socket)];
    findings.extend(rights_of(&socket));
    findings.extend(
        [tokens::FILE_NAME, tokens::RECORDS_NAME]
            .into_iter()
            .filter_map(|name| secret(&home.join(name))),
    );
    findings
}

fn daemon(home: &Path, socket: &Path) -> DoctorFinding {
    let topic = "daemon";
    let answered = client::send(socket, "GET", "/api/health", None, PATIENCE);
    if answered.is_err()
        && let Some(process) = holder(socket)
    {
        let (text, hint) = overview::silent(home, &process);
        return DoctorFinding::problem(topic, text).hint(hint);
    }
    let health = match answered {
        Ok(health) => health.body,
        Err(AskError::Nobody(_)) if socket.exists() => {
            let text = "it left its socket behind, and nobody answers";
            return DoctorFinding::warning(topic, text).hint("relight up");
        }
        Err(AskError::Nobody(_)) => {
            return DoctorFinding::ok(topic, "none runs here; only relight up needs one");
        }
        Err(AskError::TooSlow(_)) => {
            let text = format!("it does not answer within {PATIENCE}");
            return DoctorFinding::problem(topic, text).hint("relight up --take-over");
        }
        Err(AskError::Broken(error)) => {
            let text = format!(
                "whoever listens at {} is not a daemon: {error}",
                socket.display()
            );
            return DoctorFinding::problem(topic, text).hint("relight up --take-over");
        }
    };
    let version = health["version"].as_str().unwrap_or("unknown").to_owned();
    let status = client::send(socket, "GET", "/api/status", None, PATIENCE).ok();
    let status =
        status.and_then(|status| serde_json::from_value::<SupervisorStatus>(status.body).ok());
    let who = status
        .map(|status| format!(" (pid {})", status.pid))
        .unwrap_or_default();
    let own = env!("CARGO_PKG_VERSION");
    if version != own {
        let text = format!("version {version} answers{who}, and this is {own}");
        return DoctorFinding::warning(topic, text)
            .hint("relight down --keep-agents, then relight up: agents keep running");
    }
    DoctorFinding::ok(topic, format!("version {version} answers{who}"))
}

fn rights_of(socket: &Path) -> Option<DoctorFinding> {
    let found = fs::symlink_metadata(socket).ok()?;
    let mode = found.mode() & 0o777;
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    let text = format!(
        "{} (mode {mode:04o}, uid {})",
        socket.display(),
        found.uid()
    );
    if mode & 0o077 != 0 {
        return Some(
            DoctorFinding::problem("socket", format!("{text} is open to others"))
                .hint(format!("chmod 600 {}", quoted(socket))),
        );
    }
    if !is_ours {
        return Some(
            DoctorFinding::warning("socket", format!("{text} is another user's"))
                .hint("set RELIGHT_HOME to a folder of your own"),
        );
    }
    Some(DoctorFinding::ok("socket", text))
}

/// A file of tokens, where there is one.
fn secret(path: &Path) -> Option<DoctorFinding> {
    let found = fs::symlink_metadata(path).ok()?;
    let mode = found.mode() & 0o777;
    let text = format!("{} (mode {mode:04o})", path.display());
    if mode & 0o077 != 0 {
        let text = format!("{text} can be read by others: whoever did may do everything");
        let hint = format!("chmod 600 {}, then relight token rotate", quoted(path));
        return Some(DoctorFinding::problem("token", text).hint(hint));
    }
    Some(DoctorFinding::ok("token", text))
}
