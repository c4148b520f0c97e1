//! As systemd user units: a timer with its service, or a service that is always there.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use relight_runtime::os::process;

use super::plan::{Plan, ServiceJob};
use super::{Scheduler, ServicePart, ServiceReport, name, unreachable};
use crate::arguments::other::Scheduled;
use crate::environment::Environment;
use crate::exit::{Exit, Failure};
use crate::whole_file;

/// The units of one thing.
struct Units {
    /// The one that is enabled comes first.
    names: &'static [&'static str],
    /// What wants it once it is enabled.
    wanted_by: &'static str,
}

fn units(what: Scheduled) -> Units {
    match what {
        Scheduled::Check => Units {
            names: &["relight-check.timer", "relight-check.service"],
            wanted_by: "timers.target",
        },
        Scheduled::Daemon => Units {
            names: &["relight.service"],
            wanted_by: "default.target",
        },
    }
}

/// The first line of each file of ours; another file of that name is somebody else's.
fn head(what: Scheduled) -> String {
    format!("# Written by `relight service install {}`.", name(what))
}

/// Whether there is a user manager to talk to.
pub(super) fn answers() -> bool {
    systemctl(&["show-environment"]).is_ok()
}

pub(super) fn parts(environment: &Environment, plan: &Plan) -> Result<Vec<ServicePart>, Failure> {
    let folder = folder(environment)?;
    let part = |name: &str, text| ServicePart {
        place: folder.join(name).display().to_string(),
        text,
    };
    Ok(match &plan.job {
        ServiceJob::Check { every, .. } => vec![
            part("relight-check.service", check(plan)),
            part("relight-check.timer", timer(every.as_ms() / 1_000)),
        ],
        ServiceJob::Daemon { folder, secrets } => {
            vec![part(
                "relight.service",
                daemon(plan, folder.as_deref(), secrets),
            )]
        }
    })
}

pub(super) fn install(
    environment: &Environment,
    what: Scheduled,
    parts: Vec<ServicePart>,
) -> Result<ServiceReport, Failure> {
    let unit = units(what).names[0];
    let mut changed = false;
    for part in &parts {
        let path = Path::new(&part.place);
        if ours(path, what)?.as_deref() != Some(part.text.as_bytes()) {
            whole_file::replace(path, part.text.as_bytes())
                .map_err(|error| whole_file::failure("write", path, &error))?;
            changed = true;
        }
    }
    let mut report = ServiceReport {
        scheduler: Scheduler::Systemd,
        parts,
        changed,
        type_next: vec![],
        notes: vec![],
    };
    if !answers() {
        report
            .notes
            .push("systemctl --user does not answer here; the units are written".into());
        report
            .type_next
            .push("systemctl --user daemon-reload".into());
        report
            .type_next
            .push(format!("systemctl --user enable --now {unit}"));
        return Ok(report);
    }
    // A timer goes on by its old times until it is started anew; a daemon that runs has agents.
    let verb = if what == Scheduled::Check {
        "restart"
    } else {
        "start"
    };
    let enabled = systemctl(&["daemon-reload"])
        .and_then(|()| systemctl(&["enable", unit]))
        .and_then(|()| systemctl(&[verb, unit]));
    enabled.map_err(|why| {
        unreachable("systemctl --user", &why).hint(format!(
            "the units are written; systemctl --user status {unit}"
        ))
    })?;
    if changed && what == Scheduled::Daemon {
        let text = "a daemon that ran before keeps its old unit until it is restarted";
        report.notes.push(text.into());
    }
    let user = environment
        .get("USER")
        .or_else(|| environment.get("LOGNAME"));
    let lingers = user.is_some_and(|user| Path::new("/var/lib/systemd/linger").join(user).exists());
    if !lingers {
        let text = "it runs while you are logged in; loginctl enable-linger makes it run always";
        report.notes.push(text.into());
    }
    Ok(report)
}

pub(super) fn remove(
    environment: &Environment,
    what: Scheduled,
    only_look: bool,
) -> Result<ServiceReport, Failure> {
    let folder = folder(environment)?;
    let units = units(what);
    let unit = units.names[0];
    let mut parts = Vec::new();
    for name in units.names {
        let path = folder.join(name);
        if let Some(text) = ours(&path, what)? {
            let text = String::from_utf8_lossy(&text).into_owned();
            parts.push(ServicePart {
                place: path.display().to_string(),
                text,
            });
        }
    }
    let mut report = ServiceReport {
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
        systemctl(&["disable", "--now", unit])
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
        let link = folder.join(format!("{}.wants", units.wanted_by)).join(unit);
        whole_file::remove(&link).map_err(|error| whole_file::failure("remove", &link, &error))?;
        report
            .type_next
            .push("systemctl --user daemon-reload".into());
    }
    Ok(report)
}

/// Everything that needs a mount namespace is left out: user managers may not be allowed one, and
/// a check that does not start protects nobody.
fn check(plan: &Plan) -> String {
    let (head, command, variables) = (head(Scheduled::Check), command(plan), variables(plan));
    format!(
        "{head}
[Unit]
Description=Relight: find unfinished work that nobody touches
Documentation=man:relight-check(1)

[Service]
Type=oneshot
ExecStart={command}
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
"
    )
}

fn timer(seconds: u64) -> String {
    let head = head(Scheduled::Check);
    format!(
        "{head}
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

/// Nothing is forbidden to it: what is, would be to its agents. The same text serves as a system unit.
fn daemon(plan: &Plan, folder: Option<&str>, secrets: &str) -> String {
    let (head, command, variables) = (head(Scheduled::Daemon), command(plan), variables(plan));
    let folder = folder.map(|folder| format!("WorkingDirectory={}\n", plain(folder)));
    let (folder, secrets) = (folder.unwrap_or_default(), plain(secrets));
    format!(
        "{head}
[Unit]
Description=Relight: brings agents back after any crash
Documentation=man:relight-up(1)
# Never gives up; by default five deaths within ten seconds would be the end.
StartLimitIntervalSec=0

[Service]
# It says by itself when it is ready, that it lives and when it stops.
Type=notify
ExecStart={command}
# Reads its configuration again.
ExecReload=/bin/kill -HUP $MAINPID
{folder}# PATH as it was when this was written: agents are looked for there.
{variables}# What agents need and nobody else may read, such as keys; a file of 0600, which need not be there.
EnvironmentFile=-{secrets}
# Whatever it died of. Wrong usage (2) and a bad configuration (78) do not mend themselves.
Restart=always
RestartSec=1
RestartPreventExitStatus=2 78
# Told to end by a signal, it ends in order and its exit code says which.
SuccessExitStatus=143 130
# One that hangs is ended, and started again.
WatchdogSec=30
# Starting adopts or starts many agents.
TimeoutStartSec=5min
# Only the daemon is ever signalled. Told to stop, it stops its agents by itself. When it dies, they live
# on, and the next one adopts them; with any other mode systemd would kill them.
KillMode=process
# It gives its agents their grace before they are killed.
TimeoutStopSec=2min
# It makes a cgroup for each attempt, so that one write ends all of its processes.
Delegate=yes
# An agent for which the memory did not suffice is that agent's death, not the daemon's.
OOMPolicy=continue
# All processes and threads of all agents are counted here.
TasksMax=infinity
UMask=0077

[Install]
WantedBy=default.target
"
    )
}

fn command(plan: &Plan) -> String {
    let mut words: Vec<String> = plan.words().map(argument).collect();
    words[0] = quoted(&plan.program);
    words.join(" ")
}

fn variables(plan: &Plan) -> String {
    let line = |(name, value)| format!("Environment={}\n", quoted(&format!("{name}={value}")));
    plan.variables
        .iter()
        .map(|(name, value)| (name, value))
        .map(line)
        .collect()
}

/// A path that is a whole line: taken as it is, but for percent signs.
fn plain(path: &str) -> String {
    path.replace('%', "%%")
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
    let escaped = word
        .replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('%', "%%");
    format!("\"{escaped}\"")
}

fn folder(environment: &Environment) -> Result<PathBuf, Failure> {
    Ok(environment.config_home()?.join("systemd/user"))
}

/// The content of a file of ours; none when there is none.
fn ours(path: &Path, what: Scheduled) -> Result<Option<Vec<u8>>, Failure> {
    let found = whole_file::read(path).map_err(|e| whole_file::failure("read", path, &e))?;
    match found {
        Some(bytes) if !bytes.starts_with(head(what).as_bytes()) => {
            let text = format!("{} is there and was not written by relight", path.display());
            Err(Failure::new(Exit::No, text).hint("move it away first"))
        }
        other => Ok(other),
    }
}

/// Answers what it said when it did not work.
fn systemctl(arguments: &[&str]) -> Result<(), String> {
    let words: Vec<String> = ["--user"]
        .iter()
        .chain(arguments)
        .map(|word| (*word).to_owned())
        .collect();
    let mut command = process::command("systemctl", &words);
    let done = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
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
        assert_eq!(
            argument("/a b/100%/$x/\"q\"/c\\d"),
            r#""/a b/100%%/$$x/\"q\"/c\\d""#
        );
        assert_eq!(argument(""), r#""""#);
        assert_eq!(quoted("RELIGHT_HOME=/a $b"), r#""RELIGHT_HOME=/a $b""#);
    }
}
