//! `relight project`: which projects there are, and where their state is.

use relight_core::agent::AgentStateKind;
use relight_core::error_code::ErrorCode;
use relight_runtime::project::Project;
use relight_runtime::supervise::control::SupervisorStatus;
use relight_runtime::supervise::daemon_client::DaemonState;
use relight_store::AgentQuery;
use serde_json::{Value, json};

use super::overview;
use crate::arguments::other::ProjectCommand;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome, cannot_use};
use crate::{block_on, output};

pub(crate) fn run(environment: &Environment, command: &ProjectCommand) -> Outcome {
    match command {
        ProjectCommand::List => list(environment),
        ProjectCommand::Separate => settle(environment, false),
        ProjectCommand::Share => settle(environment, true),
        ProjectCommand::Remove { name } => remove(environment, name),
    }
}

fn list(environment: &Environment) -> Outcome {
    let projects = Project::all(&environment.usual_home()?)?;
    let mut rows = vec![
        ["project", "folder", "daemon", "home"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let mut items: Vec<Value> = Vec::new();
    for project in &projects {
        let daemon = overview::daemon(&project.home);
        let is_there = project.missing().is_none();
        let gone = if is_there { "" } else { " (gone)" };
        let (folder, home) = (project.folder.display(), project.home.display());
        rows.push(vec![
            project.name.clone(),
            format!("{folder}{gone}"),
            daemon_text(&daemon),
            home.to_string(),
        ]);
        items.push(json!({
            "name": project.name, "id": project.id(), "folder": project.folder, "home": project.home,
            "separate": project.is_separate(), "exists": is_there,
            "daemon": daemon_json(&daemon),
        }));
    }
    let text = match projects.is_empty() {
        true => "no projects; relight init makes one of this folder".to_owned(),
        false => output::table(&rows),
    };
    output::answer(environment, &json!({"items": items, "next": null}), &text);
    Ok(0)
}

fn daemon_json(daemon: &DaemonState) -> Value {
    match daemon {
        DaemonState::NotRunning => Value::Null,
        DaemonState::Silent(process) => json!({"pid": process.pid, "url": null}),
        DaemonState::Answers(status) => json!({"pid": status.pid, "url": status.url}),
    }
}

fn daemon_text(daemon: &DaemonState) -> String {
    match daemon {
        DaemonState::NotRunning => "–".to_owned(),
        DaemonState::Silent(process) => format!("pid {}, silent", process.pid),
        DaemonState::Answers(SupervisorStatus { url: Some(url), .. }) => url.clone(),
        DaemonState::Answers(SupervisorStatus { pid, .. }) => format!("pid {pid}"),
    }
}

/// Chooses the home of this folder's project.
fn settle(environment: &Environment, is_shared: bool) -> Outcome {
    let project = environment.project()?.ok_or_else(|| {
        let text = "no relight.toml is here or above, or a home is named";
        Failure::of(ErrorCode::NOT_FOUND, text)
            .hint("relight init makes a project of this folder; unset RELIGHT_HOME if it is set")
    })?;
    let base = environment.usual_home()?;
    let wanted = project.clone().in_home(is_shared.then_some(base.as_path()));
    if wanted.home != project.home {
        refuse_running(environment, project)?;
    }
    wanted
        .record()
        .map_err(|error| cannot_use(&wanted.home, &error))?;
    let text = match wanted.home == project.home {
        true => format!(
            "project {} has its state in {} already",
            wanted.name,
            wanted.home.display()
        ),
        false => format!(
            "project {} has its state in {} from now on; what was recorded before is in {2}: relight \
             --home {2} ps",
            wanted.name,
            wanted.home.display(),
            project.home.display()
        ),
    };
    let value = json!({"name": wanted.name, "folder": wanted.folder, "home": wanted.home});
    output::answer(environment, &value, &text);
    Ok(0)
}

/// Forgets a project whose folder is gone. Its state stays.
fn remove(environment: &Environment, name: &str) -> Outcome {
    let environment = &environment.in_project(name);
    let project = environment.project()?.expect("it was named");
    if project.missing().is_none() {
        let text = format!("project {name} is in {}", project.folder.display());
        return Err(Failure::new(Exit::No, text).hint(
            "remove its relight.toml first: the next command there would make it a project again",
        ));
    }
    let has_daemon = overview::daemon(&project.home) != DaemonState::NotRunning;
    if project.is_separate() && has_daemon {
        let text = format!("the daemon of project {name} runs");
        let hint = format!("relight --project {} down, first", project.id());
        return Err(Failure::new(Exit::Busy, text).hint(hint));
    }
    refuse_running(environment, project)?;
    project
        .forget()
        .map_err(|error| cannot_use(&project.home, &error))?;
    let text = format!(
        "project {} is forgotten; what was recorded stays in {1}: relight --home {1} ps",
        project.name,
        project.home.display()
    );
    let value = json!({"name": project.name, "folder": project.folder, "home": project.home});
    output::answer(environment, &value, &text);
    Ok(0)
}

/// Agents that run would have two homes.
fn refuse_running(environment: &Environment, project: &Project) -> Result<(), Failure> {
    if !project.home.join("relight.db").exists() {
        return Ok(());
    }
    let engine = environment.engine()?;
    let query = AgentQuery {
        states: vec![AgentStateKind::Running],
        ..AgentQuery::default()
    };
    let agents = block_on(engine.store().agents(query))?;
    let is_of_it = |folder: &str| std::path::Path::new(folder).starts_with(&project.folder);
    let Some(agent) = agents.iter().find(|agent| is_of_it(&agent.plan.folder)) else {
        return Ok(());
    };
    let text = format!("agent {} of project {} runs", agent.name, project.name);
    let hint = format!(
        "relight --project {0} down, or relight --project {0} stop {1}, first",
        project.id(),
        agent.name
    );
    Err(Failure::new(Exit::Busy, text).hint(hint))
}
