//! `relight service`: lets the host run `relight check` now and then, so that watching for forgotten
//! work needs neither a model nor a daemon, and `relight up` always.
//!
//! Chooses the scheduler and tells people; each scheduler's file knows its format and its commands.

mod cron;
mod launchd;
mod plan;
mod systemd;

use serde_json::{Value, json};

use self::plan::{Plan, ServiceJob};
use crate::arguments::other::{
    InstallCommand, PlacementArguments, RemoveArguments, Scheduled, SchedulerChoice, ServiceCommand,
};
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

pub(crate) fn run(environment: &Environment, command: &ServiceCommand) -> Outcome {
    match command {
        ServiceCommand::Install(InstallCommand::Check(arguments)) => {
            let plan = Plan::check(environment, arguments)?;
            install(environment, &plan, &arguments.placement)
        }
        ServiceCommand::Install(InstallCommand::Daemon(arguments)) => {
            let plan = Plan::daemon(environment, arguments)?;
            install(environment, &plan, &arguments.placement)
        }
        ServiceCommand::Remove(arguments) => remove(environment, arguments),
    }
}

/// Who runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheduler {
    Systemd,
    Cron,
    Launchd,
}

impl Scheduler {
    const ALL: [Self; 3] = [Self::Systemd, Self::Cron, Self::Launchd];

    fn chosen(choice: SchedulerChoice) -> Option<Self> {
        match choice {
            SchedulerChoice { systemd: true, .. } => Some(Self::Systemd),
            SchedulerChoice { cron: true, .. } => Some(Self::Cron),
            SchedulerChoice { launchd: true, .. } => Some(Self::Launchd),
            SchedulerChoice { .. } => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Systemd => "systemd",
            Self::Cron => "cron",
            Self::Launchd => "launchd",
        }
    }
}

/// What it is called in marks, labels and names of units.
fn name(what: Scheduled) -> &'static str {
    match what {
        Scheduled::Check => "check",
        Scheduled::Daemon => "daemon",
    }
}

/// One text at one place: a unit's file, or a line of the crontab.
struct ServicePart {
    place: String,
    text: String,
}

/// What became of it.
struct ServiceReport {
    scheduler: Scheduler,
    parts: Vec<ServicePart>,
    changed: bool,
    /// What the person has to type so that it runs.
    type_next: Vec<String>,
    /// What else is good to know.
    notes: Vec<String>,
}

fn install(environment: &Environment, plan: &Plan, placement: &PlacementArguments) -> Outcome {
    let scheduler = match Scheduler::chosen(placement.scheduler) {
        Some(scheduler) => scheduler,
        None if systemd::answers() => Scheduler::Systemd,
        None => Scheduler::Cron,
    };
    let parts = match scheduler {
        Scheduler::Systemd => systemd::parts(environment, plan)?,
        Scheduler::Cron => cron::parts(plan)?,
        Scheduler::Launchd => launchd::parts(environment, plan)?,
    };
    if placement.print {
        print_parts(environment, scheduler, &parts);
        return Ok(0);
    }
    let report = match scheduler {
        Scheduler::Systemd => systemd::install(environment, plan.what(), parts)?,
        Scheduler::Cron => cron::install(plan, parts)?,
        Scheduler::Launchd => launchd::install(parts)?,
    };
    let deed = if report.changed {
        "installed"
    } else {
        "was installed already"
    };
    let (name, when) = match &plan.job {
        ServiceJob::Check { every, .. } => ("check", format!("every {every}")),
        ServiceJob::Daemon { .. } => ("up", "from the host's start on".to_owned()),
    };
    let mut text = format!("relight {name} {deed}: {}, {when}", scheduler.as_str());
    for part in &report.parts {
        text += &format!("\n  {}", part.place);
    }
    if let ServiceJob::Check { log, .. } = &plan.job {
        text += &format!("\n  what it finds goes to {log}");
    }
    tell(environment, &[report], &text);
    Ok(0)
}

fn remove(environment: &Environment, arguments: &RemoveArguments) -> Outcome {
    let what = arguments.what;
    let chosen = Scheduler::chosen(arguments.scheduler);
    let mut reports = Vec::new();
    for scheduler in Scheduler::ALL {
        if chosen.is_some_and(|chosen| chosen != scheduler) {
            continue;
        }
        let report = match scheduler {
            Scheduler::Systemd => systemd::remove(environment, what, arguments.print)?,
            Scheduler::Launchd => launchd::remove(environment, what, arguments.print)?,
            Scheduler::Cron => match cron::remove(what, arguments.print) {
                // Without crontab there is no line of ours either, unless it was asked for.
                Err(failure) if failure.exit == Exit::Unreachable && chosen.is_none() => continue,
                other => other?,
            },
        };
        reports.push(report);
    }
    let found: Vec<ServiceReport> = reports
        .into_iter()
        .filter(|r| !r.parts.is_empty())
        .collect();
    let verb = if arguments.print {
        "would be removed"
    } else {
        "removed"
    };
    let lines: Vec<String> = found
        .iter()
        .flat_map(|report| {
            report
                .parts
                .iter()
                .map(|part| format!("{verb}: {}", part.place))
        })
        .collect();
    let text = if lines.is_empty() {
        "nothing of ours is there".into()
    } else {
        lines.join("\n")
    };
    tell(environment, &found, &text);
    Ok(0)
}

fn print_parts(environment: &Environment, scheduler: Scheduler, parts: &[ServicePart]) {
    if environment.json {
        let parts: Vec<Value> = parts.iter().map(part_json).collect();
        output::json(&json!({"scheduler": scheduler.as_str(), "parts": parts}));
        return;
    }
    for part in parts {
        // One alone can be sent straight into a file; several need telling apart.
        if parts.len() > 1 {
            output::line(&format!("# {}", part.place));
        }
        output::line(part.text.trim_end());
    }
}

fn tell(environment: &Environment, reports: &[ServiceReport], text: &str) {
    let items: Vec<Value> = reports.iter().map(report_json).collect();
    output::list(environment, items, text);
    for report in reports {
        for note in &report.notes {
            output::note(environment, note);
        }
        for line in &report.type_next {
            output::note(environment, &format!("type: {line}"));
        }
    }
}

fn part_json(part: &ServicePart) -> Value {
    json!({"place": part.place, "text": part.text})
}

fn report_json(report: &ServiceReport) -> Value {
    json!({
        "scheduler": report.scheduler.as_str(),
        "parts": report.parts.iter().map(part_json).collect::<Vec<_>>(),
        "changed": report.changed,
        "type_next": report.type_next,
        "notes": report.notes,
    })
}

/// The program is missing, or does not answer.
fn unreachable(program: &str, why: &str) -> Failure {
    Failure::new(Exit::Unreachable, format!("{program}: {why}"))
}
