//! As one marked line of the user's crontab. All other lines stay as they are.

use std::io::Write;
use std::process::{Command, Stdio};

use relight_core::time::Span;
use relight_runtime::os::process;

use super::plan::{Plan, ServiceJob};
use super::{Scheduler, ServicePart, ServiceReport, name, unreachable};
use crate::arguments::other::Scheduled;
use crate::exit::{Exit, Failure};

/// Some crons take no longer line.
const LINE_BYTES_MAX: usize = 990;

pub(super) fn parts(plan: &Plan) -> Result<Vec<ServicePart>, Failure> {
    let times = match plan.job {
        ServiceJob::Check { every, .. } => times(every)?,
        ServiceJob::Daemon { .. } => "@reboot".to_owned(),
    };
    let line = format!("{times} {} {}", command_line(plan)?, mark(plan.what()));
    if line.len() > LINE_BYTES_MAX {
        return Err(Failure::new(Exit::Usage, "the line is too long for cron")
            .hint("use --systemd, or shorter paths (--root, --config, PATH)"));
    }
    Ok(vec![ServicePart {
        place: "crontab".to_owned(),
        text: line,
    }])
}

pub(super) fn install(plan: &Plan, parts: Vec<ServicePart>) -> Result<ServiceReport, Failure> {
    let old = read()?;
    let new = with_line(&old, &parts[0].text, plan.what());
    let changed = new != old;
    if changed {
        write(&new)?;
    }
    let mut report = report(parts, changed);
    if let ServiceJob::Daemon { .. } = plan.job {
        let note = "cron starts it when the host starts; a daemon that dies stays dead until then";
        report.notes.push(note.to_owned());
        // To a shell a percent sign is one without a backslash.
        report
            .type_next
            .push(format!("{} &", command_line(plan)?.replace(r"\%", "%")));
    }
    Ok(report)
}

pub(super) fn remove(what: Scheduled, only_look: bool) -> Result<ServiceReport, Failure> {
    let old = read()?;
    let parts: Vec<ServicePart> = old
        .lines()
        .filter(|line| is_ours(line, what))
        .map(|line| ServicePart {
            place: format!("crontab: {line}"),
            text: line.to_owned(),
        })
        .collect();
    let changed = !parts.is_empty() && !only_look;
    if changed {
        let rest: String = old
            .split_inclusive('\n')
            .filter(|line| !is_ours(line, what))
            .collect();
        write(&rest)?;
    }
    Ok(report(parts, changed))
}

fn report(parts: Vec<ServicePart>, changed: bool) -> ServiceReport {
    ServiceReport {
        scheduler: Scheduler::Cron,
        parts,
        changed,
        type_next: vec![],
        notes: vec![],
    }
}

/// What the shell is told; what it prints is of no use, what it complains of is mailed.
fn command_line(plan: &Plan) -> Result<String, Failure> {
    let mut words: Vec<String> = Vec::new();
    for (name, value) in &plan.variables {
        words.push(format!("{name}={}", word(value)?));
    }
    for text in plan.words() {
        words.push(word(text)?);
    }
    Ok(format!("{} >/dev/null", words.join(" ")))
}

/// Ends our line; to the shell it is a comment.
fn mark(what: Scheduled) -> String {
    format!("# relight:{}", name(what))
}

fn is_ours(line: &str, what: Scheduled) -> bool {
    line.trim_end().ends_with(&mark(what))
}

/// In the place of our first line, else at the end; further lines of ours go.
fn with_line(old: &str, ours: &str, what: Scheduled) -> String {
    let mut new = String::new();
    let mut placed = false;
    for line in old.split_inclusive('\n') {
        if !is_ours(line, what) {
            new += line;
        } else if !placed {
            new += &format!("{ours}\n");
            placed = true;
        }
    }
    if !placed {
        if !new.is_empty() && !new.ends_with('\n') {
            new.push('\n');
        }
        new += &format!("{ours}\n");
    }
    new
}

/// The five fields. Cron counts within the hour or the day, so only what divides them is even.
fn times(every: Span) -> Result<String, Failure> {
    let minutes = every.as_ms() / 60_000;
    let is_whole = every.as_ms().is_multiple_of(60_000);
    match (minutes, minutes / 60) {
        (1, _) if is_whole => Ok("* * * * *".to_owned()),
        (60, _) if is_whole => Ok("0 * * * *".to_owned()),
        (1_440, _) if is_whole => Ok("0 0 * * *".to_owned()),
        (2..60, _) if is_whole && 60_u64.is_multiple_of(minutes) => {
            Ok(format!("*/{minutes} * * * *"))
        }
        (61.., hours @ 2..24) if minutes.is_multiple_of(60) && is_whole && 24_u64.is_multiple_of(hours) => {
            Ok(format!("0 */{hours} * * *"))
        }
        _ => Err(Failure::new(Exit::Usage, format!("cron cannot run every {every} evenly")).hint(
            "take 1m, 2m, 3m, 4m, 5m, 6m, 10m, 12m, 15m, 20m, 30m, 1h, 2h, 3h, 4h, 6h, 8h, 12h or 1d, or --systemd",
        )),
    }
}

/// One word for the shell; a percent sign would be a line end to cron.
fn word(text: &str) -> Result<String, Failure> {
    if text.contains('\\') {
        let what = format!("{text} has a backslash, which crons read differently");
        return Err(Failure::new(Exit::Usage, what).hint("use --systemd, or another path"));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return Ok(text.to_owned());
    }
    Ok(format!(
        "'{}'",
        text.replace('\'', r"'\''").replace('%', r"\%")
    ))
}

/// The user's crontab; empty when there is none. Anything else that goes wrong ends it: what
/// cannot be read must not be replaced.
fn read() -> Result<String, Failure> {
    let done = crontab("-l").output().map_err(|error| no_crontab(&error))?;
    let said = String::from_utf8_lossy(&done.stderr);
    if done.status.success() {
        return String::from_utf8(done.stdout).map_err(|_| {
            Failure::new(Exit::Data, "the crontab is not UTF-8; nothing was changed")
        });
    }
    let is_absent = said.contains("no crontab") || said.contains("No such file");
    if is_absent && done.stdout.is_empty() {
        return Ok(String::new());
    }
    Err(unreachable("crontab -l", said.trim()))
}

fn write(text: &str) -> Result<(), Failure> {
    let mut command = crontab("-");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| no_crontab(&error))?;
    let mut input = child.stdin.take().expect("it was piped");
    // When it ended early, its exit code says why.
    let _ = input.write_all(text.as_bytes());
    drop(input);
    let done = child
        .wait_with_output()
        .map_err(|error| no_crontab(&error))?;
    if done.status.success() {
        return Ok(());
    }
    Err(unreachable(
        "crontab -",
        String::from_utf8_lossy(&done.stderr).trim(),
    ))
}

fn crontab(argument: &str) -> Command {
    let mut command = process::command("crontab", &[argument.to_owned()]);
    // Its messages are read above.
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command
}

fn no_crontab(error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::NotFound => unreachable("crontab", "there is no cron on this machine")
            .hint("install cron, or use --systemd"),
        _ => unreachable("crontab", &error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_even_intervals_are_taken() {
        let fields = |text: &str| times(text.parse().unwrap()).ok();
        for (every, expected) in [
            ("1m", "* * * * *"),
            ("10m", "*/10 * * * *"),
            ("60m", "0 * * * *"),
            ("2h", "0 */2 * * *"),
            ("12h", "0 */12 * * *"),
            ("1d", "0 0 * * *"),
        ] {
            assert_eq!(fields(every).as_deref(), Some(expected));
        }
        for uneven in ["90s", "7m", "45m", "90m", "5h", "25h", "2d"] {
            assert_eq!(fields(uneven), None, "{uneven}");
        }
    }

    #[test]
    fn words_survive_cron_and_the_shell() {
        assert_eq!(word("/a b/it's/100%").unwrap(), r"'/a b/it'\''s/100\%'");
        assert_eq!(word("--stale").unwrap(), "--stale");
        assert!(word(r"/a\b").is_err());
    }

    #[test]
    fn other_lines_stay_and_ours_is_there_once() {
        let ours = "* * * * * x # relight:check";
        let with_line = |old: &str| with_line(old, ours, Scheduled::Check);
        assert_eq!(with_line(""), format!("{ours}\n"));
        assert_eq!(with_line("a\nb"), format!("a\nb\n{ours}\n"));
        let twice = "a # relight:daemon\n1 # relight:check\nb\n2 # relight:check\n";
        assert_eq!(with_line(twice), format!("a # relight:daemon\n{ours}\nb\n"));
    }
}
