//! `relight checkpoint`.

use relight_core::checkpoint::{Checkpoint, WorkflowStatus};
use relight_core::ids::TaskId;
use relight_core::time::Time;
use relight_runtime::dialect::{Dialect, SetAside, UpdateRequest, document};
use relight_runtime::engine::{ActError, WorkflowError};
use relight_runtime::operations::Written;
use relight_runtime::operations::checkpoint::{
    CheckpointImport, CheckpointList, CheckpointResume, CheckpointSaved, CheckpointStart,
    CheckpointUpdate, CheckpointVerified, VerifiedFile,
};

use super::operate::{not_copied, set_aside_text};
use crate::arguments::checkpoint::{
    CheckpointCommand, CheckpointImportArguments, CheckpointListArguments,
    CheckpointStartArguments, CompleteArguments, Folder, ResumeArguments, ShowArguments,
    UpdateArguments, VerifyArguments,
};
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::shell_word;
use crate::{block_on, output, work};

pub(crate) fn run(environment: &Environment, command: CheckpointCommand) -> Outcome {
    match command {
        CheckpointCommand::Start(given) => start(environment, given),
        CheckpointCommand::Update(given) => update(environment, given),
        CheckpointCommand::Complete(given) => complete(environment, given),
        CheckpointCommand::Resume(given) => resume(environment, given),
        CheckpointCommand::List(given) => list(environment, &given),
        CheckpointCommand::Show(given) => show(environment, &given),
        CheckpointCommand::Verify(given) => verify(environment, given),
        CheckpointCommand::Import(given) => import(environment, given),
    }
}

fn workflows(environment: &Environment, folder: &Folder) -> Result<Dialect, Failure> {
    let folder = environment.checkpoint_folder(folder.dir.as_deref())?;
    Ok(Dialect::new(environment.engine()?, folder))
}

fn start(environment: &Environment, given: CheckpointStartArguments) -> Outcome {
    let workflows = workflows(environment, &given.folder)?;
    let request = CheckpointStart {
        workflow: given.workflow,
        agent: given.agent,
        step: given.step,
        remaining: given.remaining,
        idempotency: given.idempotency,
        handoff: given.handoff,
        notes: given.notes,
        ttl_days: given.ttl_days,
        force: given.force,
    };
    saved_answer(environment, &block_on(request.run(&workflows))?)
}

fn update(environment: &Environment, given: UpdateArguments) -> Outcome {
    let change = UpdateRequest {
        complete: given.complete,
        step: given.step,
        status: given.status,
        notes: given.notes,
        ..UpdateRequest::default()
    };
    change_workflow(
        environment,
        &given.folder,
        given.workflow,
        given.fence,
        change,
    )
}

fn complete(environment: &Environment, given: CompleteArguments) -> Outcome {
    let change = UpdateRequest {
        status: Some(WorkflowStatus::Done),
        ..UpdateRequest::default()
    };
    change_workflow(
        environment,
        &given.folder,
        given.workflow,
        given.fence,
        change,
    )
}

fn change_workflow(
    environment: &Environment,
    folder: &Folder,
    workflow: TaskId,
    fence: Option<u64>,
    change: UpdateRequest,
) -> Outcome {
    let fence = environment.right(&workflow, fence)?.fence();
    let request = CheckpointUpdate {
        workflow,
        fence,
        change,
    };
    saved_answer(
        environment,
        &block_on(request.run(&workflows(environment, folder)?))?,
    )
}

fn import(environment: &Environment, given: CheckpointImportArguments) -> Outcome {
    let workflows = workflows(environment, &given.folder)?;
    let request = CheckpointImport {
        file: given.file,
        force: given.force,
    };
    saved_answer(environment, &block_on(request.run(&workflows))?)
}

/// What was committed; exit code 73 when its file could not be written.
fn saved_answer(environment: &Environment, written: &Written<CheckpointSaved>) -> Outcome {
    let CheckpointSaved {
        workflow,
        outcome,
        state,
    } = &written.answer;
    let mut text = match (*outcome, state) {
        ("started", Some(state)) if state.replaced.is_some() => {
            format!("workflow {workflow} started anew")
        }
        ("same", Some(_)) => format!("workflow {workflow} was started already"),
        ("same", None) => format!("the store has just this state of workflow {workflow}"),
        ("completed", _) => {
            format!("workflow {workflow} was completed with this key; nothing to do")
        }
        ("key_taken", _) => format!("workflow {workflow} has this key; nothing was started"),
        ("done", _) => format!("workflow {workflow} is done"),
        ("imported", _) => format!("workflow {workflow} imported"),
        (verb, _) => format!("workflow {workflow} {verb}"),
    };
    if let Some(state) = state {
        if let Some(status) = state.replaced {
            let note = format!(
                "this is a new run: the one before was {status}, and its steps count no more; \
                 relight events --task {} keeps its record",
                shell_word(workflow.as_str())
            );
            output::note(environment, &note);
        }
        if let Some(step) = &state.step {
            text += &format!("; step {step}");
        }
        tell_set_aside(environment, &written.set_aside);
        if !state.left_open.is_empty() {
            let names = state.left_open.join(", ");
            output::alert(&format!(
                "workflow {workflow} is done with steps left open: {names}"
            ));
        }
    }
    output::answer(environment, written, &text);
    copy_check(written)
}

fn copy_check<T>(written: &Written<T>) -> Outcome {
    written
        .file_error
        .as_ref()
        .map_or(Ok(0), |error| Err(not_copied(error)))
}

fn tell_set_aside(environment: &Environment, reports: &[SetAside]) {
    for report in reports {
        output::note(environment, &set_aside_text(report));
    }
}

fn resume(environment: &Environment, given: ResumeArguments) -> Outcome {
    let engine = environment.engine()?;
    let (holder, lease) =
        environment.holder(&given.holder, given.agent.as_ref(), engine.store().as_ref())?;
    let folder = environment.checkpoint_folder(given.folder.dir.as_deref())?;
    let any = given.workflow.is_none();
    let request = CheckpointResume {
        workflow: given.workflow,
        caller: environment.agent(None)?,
        agent: given.agent,
        fence: None,
        lease,
        steal_lock: given.steal_lock,
        force: given.force,
    };
    let limits = work::start_limits(environment, None, given.force)?;
    let (workflows, mut reports) = (Dialect::new(engine, folder), Vec::new());
    let resumed = block_on(request.run(&workflows, holder, limits, &mut reports));
    let is_nothing = matches!(
        resumed,
        Err(ActError::Workflow(WorkflowError::Nothing { .. }))
    );
    // An error is one line, as every front has it; the list names damaged files too.
    if !(environment.json && resumed.is_err()) {
        tell_set_aside(environment, &reports);
    }
    if any && !environment.json && is_nothing {
        // What the original script answers when there is nothing to continue.
        output::line("NO_CHECKPOINT");
    }
    let resumed = resumed?;
    output::json(&resumed);
    copy_check(&resumed)
}

fn list(environment: &Environment, given: &CheckpointListArguments) -> Outcome {
    let workflows = workflows(environment, &given.folder)?;
    let listed = block_on(CheckpointList::read(&workflows, given.all))?;
    if environment.json {
        output::json(&listed);
        return Ok(0);
    }
    let known = listed.items.iter().map(|item| &item.checkpoint);
    let unknown = listed.unknown.iter().map(|item| &item.checkpoint);
    let mut rows: Vec<[String; 4]> = known.chain(unknown).map(list_row).collect();
    rows.sort();
    for row in rows {
        output::line(&row.map(|text| output::one_line(&text)).join("\t"));
    }
    for bad in &listed.damaged {
        let name = bad.file.file_name().unwrap_or_default().to_string_lossy();
        output::line(&format!("{}\tINVALID", output::one_line(&name)));
    }
    list_notes(environment, &listed);
    Ok(0)
}

/// The columns of the original script: workflow, status, current step, time of the last change.
fn list_row(checkpoint: &Checkpoint) -> [String; 4] {
    let current = checkpoint
        .current_step
        .clone()
        .unwrap_or_else(|| "-".to_owned());
    let updated_at = Time::from(checkpoint.updated_at).to_string();
    [
        checkpoint.workflow_id.clone(),
        checkpoint.status.as_str().to_owned(),
        current,
        updated_at,
    ]
}

/// What the columns have no place for.
fn list_notes(environment: &Environment, listed: &CheckpointList) {
    let is_empty = listed.items.is_empty() && listed.unknown.is_empty();
    if is_empty && listed.damaged.is_empty() {
        output::note(
            environment,
            "no workflows here; relight checkpoint start begins one",
        );
    }
    for found in &listed.unknown {
        let text = format!(
            "not in the store: {} ({})",
            found.file.display(),
            found.workflow
        );
        output::note(environment, &text);
    }
    for (word, files) in [
        ("damaged", &listed.damaged),
        ("set aside", &listed.quarantined),
    ] {
        for bad in files {
            let text = format!("{word}: {}: {}", bad.file.display(), bad.reason);
            output::note(environment, &text);
        }
    }
}

fn show(environment: &Environment, given: &ShowArguments) -> Outcome {
    let workflows = workflows(environment, &given.folder)?;
    output::json(&document(&block_on(workflows.view(&given.workflow))?));
    Ok(0)
}

fn verify(environment: &Environment, given: VerifyArguments) -> Outcome {
    let verified = CheckpointVerified::read(&workflows(environment, &given.folder)?, given.files)?;
    let line = |item: &VerifiedFile| {
        let name = item.file.display();
        match &item.reason {
            None => format!("OK       {name}"),
            Some(reason) if item.is_missing => format!("MISSING  {name}: {reason}"),
            Some(reason) => format!("DAMAGED  {name}: {reason}"),
        }
    };
    let mut text: Vec<String> = verified.items.iter().map(line).collect();
    if text.is_empty() {
        text.push("no checkpoint files".to_owned());
    }
    output::answer(environment, &verified, &text.join("\n"));
    Ok(match (verified.damaged, verified.missing) {
        (0, 0) => 0,
        (0, _) => Exit::No as u8,
        _ => Exit::Data as u8,
    })
}
