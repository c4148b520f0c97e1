//! Checkpoint files: whole, hashed right, and never behind what was acknowledged.

use relight_core::checkpoint::Checkpoint;
use serde_json::Value;

use crate::world::ledger::Entry;
use crate::world::stage::Stage;
use crate::world::tally::{Promise, Violation};

/// Every file that bears a checkpoint's name is a whole checkpoint.
pub fn check_files_whole(stage: &Stage) -> anyhow::Result<Vec<Violation>> {
    let mut found = Vec::new();
    let Ok(folder) = std::fs::read_dir(&stage.checkpoints) else {
        return Ok(found);
    };
    for file in folder {
        let path = file?.path();
        if path.extension().is_none_or(|ending| ending != "json") {
            continue;
        }
        if let Err(damage) = Checkpoint::open(&std::fs::read(&path)?) {
            let text = format!("{}: {damage}", path.display());
            found.push(Violation::new(Promise::Damage, text));
        }
    }
    Ok(found)
}

/// The file has every step whose end was acknowledged.
pub(super) fn check_acks(stage: &Stage, entries: &[Entry]) -> anyhow::Result<Vec<Violation>> {
    let mut found = check_files_whole(stage)?;
    if entries.is_empty() || !found.is_empty() {
        return Ok(found);
    }
    let Some(file) = read(stage)? else {
        found.push(Violation::new(
            Promise::Lost,
            "the acknowledged checkpoint file is not there",
        ));
        return Ok(found);
    };
    for entry in entries {
        match entry {
            Entry::Ack { step, .. } if !file.completed_steps.contains(step) => {
                let text = format!("{step} was acknowledged and is not in the file");
                found.push(Violation::new(Promise::Lost, text));
            }
            Entry::Done if file.current_step.is_some() => {
                found.push(Violation::new(
                    Promise::Lost,
                    "the file of a done workflow is not done",
                ));
            }
            _ => {}
        }
    }
    Ok(found)
}

/// A workflow whose end was not acknowledged may have an older file until the verb is repeated.
pub(super) fn check_end(stage: &Stage, entries: &[Entry]) -> anyhow::Result<Vec<Violation>> {
    let mut found = Vec::new();
    if !entries.contains(&Entry::Done) {
        let folder = stage.checkpoints.display().to_string();
        let words = [
            "checkpoint",
            "complete",
            "--workflow",
            &stage.task,
            "--dir",
            &folder,
        ];
        let answer = stage.product.call(&stage.home, &words)?;
        if answer.code != 0 {
            let text = format!(
                "complete again: exit {}: {}",
                answer.code,
                answer.stderr.trim()
            );
            found.push(Violation::new(Promise::Answer, text));
        }
    }
    found.extend(check_file(stage)?);
    Ok(found)
}

/// After the next write the file says what the store says.
pub fn check_file(stage: &Stage) -> anyhow::Result<Vec<Violation>> {
    let folder = stage.checkpoints.display().to_string();
    let words = [
        "checkpoint",
        "show",
        "--workflow",
        &stage.task,
        "--dir",
        &folder,
    ];
    let answer = stage.product.call(&stage.home, &words)?;
    let bytes = std::fs::read(path_of(stage)).unwrap_or_default();
    let mut file: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if let Some(fields) = file.as_object_mut() {
        fields.remove("checkpointHash");
    }
    let mut found = check_files_whole(stage)?;
    if answer.json().ok().as_ref() != Some(&file) {
        let text = format!("the store has {}, the file {file}", answer.stdout.trim());
        found.push(Violation::new(Promise::Lost, text));
    }
    Ok(found)
}

fn read(stage: &Stage) -> anyhow::Result<Option<Checkpoint>> {
    match std::fs::read(path_of(stage)) {
        Ok(bytes) => Ok(Some(Checkpoint::open(&bytes)?)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The ids of trials need no encoding.
fn path_of(stage: &Stage) -> std::path::PathBuf {
    stage.checkpoints.join(format!("{}.json", stage.task))
}
