//! `relight ps --all`: agents of every project of this user. One home that cannot be read hides no other.

use relight_runtime::engine::ActError;
use relight_runtime::operations::agent::AgentView;
use relight_runtime::operations::live_signs::LiveSigns;
use relight_runtime::os::clock;
use serde_json::{Value, json};

use super::super::operate;
use super::{is_wanted, painted, query, remedies, rows};
use crate::arguments::agent::PsArguments;
use crate::environment::{DEFAULT_PROJECT, Environment};
use crate::exit::{Failure, Outcome};
use crate::{block_on, output};

pub(super) fn run(environment: &Environment, arguments: &PsArguments) -> Outcome {
    let mut found: Vec<(String, AgentView)> = Vec::new();
    let mut problems: Vec<(String, Failure)> = Vec::new();
    for (project, of_project) in environment.of_every_project()? {
        match agents(&of_project, arguments) {
            Ok(agents) => found.extend(agents.into_iter().map(|it| (project.clone(), it))),
            Err(failure) => problems.push((project, failure)),
        }
    }
    if let Some(name) = &arguments.name {
        found.retain(|(_, agent)| agent.name == name.as_str());
        if found.is_empty() && problems.is_empty() {
            return Err(ActError::NoSuchAgent(name.clone()).into());
        }
    }
    let code = problems.last().map_or(0, |(_, failure)| failure.exit as u8);
    if environment.json {
        let items: Vec<Value> = found
            .iter()
            .map(|(project, agent)| {
                let mut item = json!(agent);
                item["project"] = json!(project);
                item
            })
            .collect();
        let problems: Vec<Value> = problems
            .iter()
            .map(|(project, failure)| json!({"project": project, "error": failure.json()}))
            .collect();
        output::json(&json!({"items": items, "next": null, "problems": problems}));
        return Ok(code);
    }
    if !environment.quiet {
        print(environment, found);
    }
    for (project, failure) in problems {
        let message = format!("project {project}: {}", failure.message);
        output::failure(false, &Failure { message, ..failure });
    }
    Ok(code)
}

fn agents(environment: &Environment, arguments: &PsArguments) -> Result<Vec<AgentView>, Failure> {
    let context = operate::context(environment)?;
    let (mut signs, here) = (LiveSigns::default(), output::here());
    let listed = context.list_agents(query(arguments), &mut signs, here.as_deref());
    let mut agents = block_on(listed)?.items;
    agents.retain(|agent| is_wanted(arguments, agent));
    Ok(agents)
}

fn print(environment: &Environment, found: Vec<(String, AgentView)>) {
    if found.is_empty() {
        return output::line("no agents in any project; relight project list shows the projects");
    }
    let is_verbose = environment.verbose > 0;
    let (projects, agents): (Vec<String>, Vec<AgentView>) = found.into_iter().unzip();
    let now = clock::now();
    let mut rows = rows(&agents, is_verbose, now);
    let titles = std::iter::once("project".to_owned()).chain(projects.iter().cloned());
    for (row, project) in rows.iter_mut().zip(titles) {
        row.insert(0, project);
    }
    let width = output::terminal_size()
        .map(|(columns, _)| columns)
        .filter(|_| !is_verbose);
    let shown: Vec<&AgentView> = agents.iter().collect();
    let has_colours = output::has_colours(environment);
    output::line(&painted(&rows, &shown, now, width, has_colours));
    for (project, agent) in projects.iter().zip(&agents) {
        for remedy in remedies(std::slice::from_ref(agent)) {
            output::line(&in_project(project, &remedy));
        }
    }
}

/// The same with the project named, in front and in what to type: it is typed anywhere. Projects that share
/// a home share its agents, so that the first of them will do; without a project there is none to name.
fn in_project(project: &str, remedy: &str) -> String {
    let line = format!("{project}: {remedy}");
    let name = project.split(", ").next().unwrap_or(project);
    if name == DEFAULT_PROJECT {
        return line;
    }
    let command = format!("relight --project {} ", output::shell_word(name));
    line.replace("relight ", &command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_type_names_the_project() {
        let remedy =
            "broken: terminated: used up; relight deaths broken, then relight start broken";
        assert_eq!(
            in_project("lab", remedy),
            "lab: broken: terminated: used up; relight --project lab deaths broken, then relight \
             --project lab start broken"
        );
        assert_eq!(
            in_project("a, b", "x: relight start x"),
            "a, b: x: relight --project a start x"
        );
        assert_eq!(
            in_project(DEFAULT_PROJECT, "x: relight start x"),
            "(default): x: relight start x"
        );
    }
}
