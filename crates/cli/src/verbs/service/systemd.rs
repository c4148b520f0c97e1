//! As a systemd user timer with its service.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use relight::doors::process;

use super::plan::Plan;
use super::{Part, Report, Scheduler, unreachable};
use crate::environment::Environment;
use crate::exit::{Exit, Failure};
use crate::whole_file;

const SERVICE: &str = "relight-check.service";
const TIMER: &str = "relight-check.timer";
/// The first line of each file of ours; another file of that name is somebody else's.
const HEAD: &str = "# Written by `relight service install check`.";

/// Whether there is a user manager to talk to.
pub(super) fn answers() -> bool {
    systemctl(&["show-environment"]).is_ok()
}

pub(super) fn parts(environment: &Environment, plan: &Plan) -> Result<Vec<Part>, Failure> {
    let folder = folder(environment)?;
    let place = |name: &str| folder.join(name).display().to_string();
    Ok(vec![
        Part { place: place(SERVICE), text: service(plan) },
        Part { place: place(TIMER), text: timer(plan) },
    ])
}

pub(super) fn install(environment: &Environment, parts: Vec<Part>) -> Result<Report, Failure> {
    let mut changed = false;
    for part in &parts {
        let path = Path::new(&part.place);
        if ours(path)?.as_deref() != Some(part.text.as_bytes()) {
            whole_file::replace(path, part.text.as_bytes())
                .map_err(|error| whole_file::failure("write", path, &error))?;
            changed = true;
        }
    }
    let mut report =
        Report { scheduler: Scheduler::Systemd, parts, changed, type_next: vec![], notes: vec![] };
    if !answers() {
        report.notes.push("systemctl --user does not answer here; the units are written".into());
        report.type_next.push("systemctl --user daemon-reload".into());
        report.type_next.push(format!("systemctl --user enable --now {TIMER}"));
        return Ok(report);
    }
    let enabled = systemctl(&["daemon-reload"])
        .and_then(|()| systemctl(&["enable", TIMER]))
        // A running timer goes on by its old times until it is started anew.
        .and_then(|()| systemctl(&["restart", TIMER]));
    enabled.map_err(|why| {
        unreachable("systemctl --user", &why)
            .hint(format!("the units are written; systemctl --user status {TIMER}"))
    })?;
    if !lingers(environment) {
        let text =
            "the timer runs while you are logged in; loginctl enable-linger makes it run always";
        report.notes.push(text.into());
    }
    Ok(report)
}

pub(super) fn remove(environment: &Environment, only_look: bool) -> Result<Report, Failure> {
    let folder = folder(environment)?;
    let mut parts = Vec::new();
    for name in [TIMER, SERVICE] {
        let path = folder.join(name);
        if let Some(text) = ours(&path)? {
            let text = String::from_utf8_lossy(&text).into_owned();
            parts.push(Part { place: path.display().to_string(), text });
        }
    }
    let mut report = Report {
        scheduler: Scheduler::Systemd,
        changed: !parts.is_empty() && !only_look,
        parts,
        type_next: vec![],
        notes: vec![],
    };
    if !report.changed {
        return Ok(report);
    }
    let manager_answers = answers();
    if manager_answers {
        systemctl(&["disable", "--now", TIMER])
            .map_err(|why| unreachable("systemctl --user", &why))?;
    }
    for part in &report.parts {
        let path = Path::new(&part.place);
        whole_file::remove(path).map_err(|error| whole_file::failure("remove", path, &error))?;
    }
    if manager_answers {
        systemctl(&["daemon-reload"]).map_err(|why| unreachable("systemctl --user", &why))?;
    } else {
        // Without the manager nobody takes out the link that enabled it.
        let link = folder.join("timers.target.wants").join(TIMER);
        whole_file::remove(&link).map_err(|error| whole_file::failure("remove", &link, &error))?;
        report.type_next.push("systemctl --user daemon-reload".into());
    }
    Ok(report)
}

/// Everything that needs a mount namespace is left out: user managers may not be allowed one, and
/// a check that does not start protects nobody.
fn service(plan: &Plan) -> String {
    let mut words: Vec<String> = plan.words().map(argument).collect();
    words[0] = quoted(&plan.program);
    let mut variables = String::new();
    for (name, value) in &plan.variables {
        variables += &format!("Environment={}\n", quoted(&format!("{name}={value}")));
    }
    format!(
        "{HEAD}
[Unit]
Description=Relight: find unfinished work that nobody touches
Documentation=man:relight-check(1)

[Service]
Type=oneshot
ExecStart={}
{variables}TimeoutStartSec=5min
# Findings are in the log; a failed unit (exit 1 or 65) says that there are some.
StandardOutput=null
SyslogLevel=notice
LogLevelMax=notice
UMask=0077
Nice=10
IOSchedulingClass=idle
NoNewPrivileges=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictAddressFamilies=AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
",
        words.join(" ")
    )
}

fn timer(plan: &Plan) -> String {
    let seconds = plan.every.as_ms() / 1_000;
    format!(
        "{HEAD}
[Unit]
Description=Relight: find unfinished work that nobody touches, now and then
Documentation=man:relight-check(1)

[Timer]
OnStartupSec=1min
OnUnitActiveSec={seconds}s
AccuracySec=10s

[Install]
WantedBy=timers.target
"
    )
}

/// A word of a command line: besides quoting, a dollar sign would be a variable.
fn argument(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    quoted(&word.replace('$', "$$"))
}

/// One word in a unit: quoted, and a percent sign stands for itself.
fn quoted(word: &str) -> String {
    let escaped = word.replace('\\', r"\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{escaped}\"")
}

fn folder(environment: &Environment) -> Result<PathBuf, Failure> {
    let given = environment.get("XDG_CONFIG_HOME").map(PathBuf::from);
    // A relative one is to be ignored, says its specification.
    let config = given.filter(|path| path.is_absolute()).or_else(|| {
        let home = environment.get("HOME")?;
        Some(Path::new(home).join(".config"))
    });
    let config = config.ok_or_else(|| {
        Failure::new(Exit::Config, "there is no folder for units: HOME is not set")
            .hint("set HOME or XDG_CONFIG_HOME")
    })?;
    Ok(config.join("systemd/user"))
}

/// The content of a file of ours; none when there is none.
fn ours(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    let found = whole_file::read(path).map_err(|e| whole_file::failure("read", path, &e))?;
    match found {
        Some(bytes) if !bytes.starts_with(HEAD.as_bytes()) => {
            let text = format!("{} is there and was not written by relight", path.display());
            Err(Failure::new(Exit::No, text).hint("move it away first"))
        }
        other => Ok(other),
    }
}

fn lingers(environment: &Environment) -> bool {
    let user = environment.get("USER").or_else(|| environment.get("LOGNAME"));
    user.is_some_and(|user| Path::new("/var/lib/systemd/linger").join(user).exists())
}

/// Answers what it said when it did not work.
fn systemctl(arguments: &[&str]) -> Result<(), String> {
    let words: Vec<String> =
        ["--user"].iter().chain(arguments).map(|word| (*word).to_owned()).collect();
    let mut command = process::command("systemctl", &words);
    let done = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if done.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&done.stderr).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_the_program_as_they_are() {
        assert_eq!(argument("--stale"), "--stale");
        assert_eq!(argument("/a b/100%/$x/\"q\"/c\\d"), r#""/a b/100%%/$$x/\"q\"/c\\d""#);
        assert_eq!(argument(""), r#""""#);
        assert_eq!(quoted("RELIGHT_HOME=/a $b"), r#""RELIGHT_HOME=/a $b""#);
    }
}
