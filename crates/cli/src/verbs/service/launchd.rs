//! As a launchd agent. Written by the book and untested: the project has no such machine.

use std::path::{Path, PathBuf};

use super::plan::{Plan, ServiceJob};
use super::{Scheduler, ServicePart, ServiceReport, name};
use crate::arguments::other::Scheduled;
use crate::environment::Environment;
use crate::exit::{Exit, Failure};
use crate::output::shell_quote;
use crate::whole_file;

pub(super) fn parts(environment: &Environment, plan: &Plan) -> Result<Vec<ServicePart>, Failure> {
    let place = path(environment, plan.what())?.display().to_string();
    Ok(vec![ServicePart {
        place,
        text: plist(plan),
    }])
}

pub(super) fn install(parts: Vec<ServicePart>) -> Result<ServiceReport, Failure> {
    let path = Path::new(&parts[0].place);
    let text = parts[0].text.as_bytes();
    let old = whole_file::read(path).map_err(|e| whole_file::failure("read", path, &e))?;
    let changed = old.as_deref() != Some(text);
    if changed {
        whole_file::replace(path, text).map_err(|e| whole_file::failure("write", path, &e))?;
    }
    let type_next = vec![format!(
        "launchctl bootstrap gui/$(id -u) {}",
        shell_quote(&parts[0].place)
    )];
    let notes = vec!["launchd is untested; see that it runs".to_owned()];
    Ok(ServiceReport {
        scheduler: Scheduler::Launchd,
        parts,
        changed,
        type_next,
        notes,
    })
}

pub(super) fn remove(
    environment: &Environment,
    what: Scheduled,
    only_look: bool,
) -> Result<ServiceReport, Failure> {
    let mut report = ServiceReport {
        scheduler: Scheduler::Launchd,
        parts: vec![],
        changed: false,
        type_next: vec![],
        notes: vec![],
    };
    let path = path(environment, what)?;
    let old = whole_file::read(&path).map_err(|e| whole_file::failure("read", &path, &e))?;
    let Some(text) = old else { return Ok(report) };
    let text = String::from_utf8_lossy(&text).into_owned();
    report.parts.push(ServicePart {
        place: path.display().to_string(),
        text,
    });
    if !only_look {
        whole_file::remove(&path).map_err(|e| whole_file::failure("remove", &path, &e))?;
        report.changed = true;
        report
            .type_next
            .push(format!("launchctl bootout gui/$(id -u)/{}", label(what)));
    }
    Ok(report)
}

fn plist(plan: &Plan) -> String {
    let mut words = String::new();
    for word in plan.words() {
        words += &format!("    <string>{}</string>\n", xml(word));
    }
    let mut variables = String::new();
    for (name, value) in &plan.variables {
        variables += &format!(
            "    <key>{name}</key>\n    <string>{}</string>\n",
            xml(value)
        );
    }
    let when = match &plan.job {
        ServiceJob::Check { every, .. } => now_and_then(every.as_ms() / 1_000),
        ServiceJob::Daemon { folder, .. } => always(folder.as_deref()),
    };
    let (label, name) = (label(plan.what()), name(plan.what()));
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- Written by `relight service install {name}`. Untested. -->
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>{label}</string>
  <key>ProgramArguments</key>
  <array>
{words}  </array>
  <key>EnvironmentVariables</key>
  <dict>
{variables}  </dict>
  <key>RunAtLoad</key>
  <true/>
{when}  <key>Umask</key>
  <integer>63</integer>
  <key>StandardOutPath</key>
  <string>/dev/null</string>
</dict>
</plist>
"#
    )
}

fn now_and_then(seconds: u64) -> String {
    format!(
        "  <key>StartInterval</key>
  <integer>{seconds}</integer>
  <key>ProcessType</key>
  <string>Background</string>
"
    )
}

fn always(folder: Option<&str>) -> String {
    let folder = folder
        .map(xml)
        .map(|folder| format!("  <key>WorkingDirectory</key>\n  <string>{folder}</string>\n"));
    format!(
        "{}  <key>KeepAlive</key>
  <true/>
  <!-- Agents live on when the daemon dies; its successor adopts them. -->
  <key>AbandonProcessGroup</key>
  <true/>
  <!-- Told to stop, it gives its agents their grace. -->
  <key>ExitTimeOut</key>
  <integer>120</integer>
",
        folder.unwrap_or_default()
    )
}

fn label(what: Scheduled) -> String {
    format!("relight.{}", name(what))
}

fn path(environment: &Environment, what: Scheduled) -> Result<PathBuf, Failure> {
    let home = environment.get("HOME").ok_or_else(|| {
        Failure::new(
            Exit::Config,
            "there is no folder for launchd agents: HOME is not set",
        )
        .hint("set HOME")
    })?;
    Ok(Path::new(home)
        .join("Library/LaunchAgents")
        .join(format!("{}.plist", label(what))))
}

fn xml(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
