//! What is in the folder and what the store knows of it.

use std::collections::HashSet;
use std::path::PathBuf;

use relight_core::checkpoint::Checkpoint;
use relight_core::ids::TaskId;
use relight_core::task::Task;
use relight_store::TaskQuery;

use super::{Dialect, DialectError, SetAside};
use crate::checkpoint_files::{FileDamage, Found, QUARANTINE};
use crate::engine::ActError;

/// Workflows, strange files and what was set aside earlier.
#[derive(Debug, Default)]
pub struct Survey {
    /// Workflows of the store that belong to this folder, oldest first.
    pub workflows: Vec<Workflow>,
    /// Good files that the store does not know.
    pub unknown: Vec<(PathBuf, Checkpoint)>,
    /// Damaged files.
    pub damaged: Vec<(PathBuf, FileDamage)>,
    /// What was set aside earlier, with its reason.
    pub quarantined: Vec<(PathBuf, String)>,
}

/// A workflow of the store.
#[derive(Debug)]
pub struct Workflow {
    /// The task.
    pub task: Task,
    /// Whether its file is damaged.
    pub damaged: bool,
}

impl Dialect {
    /// Looks at everything, changes nothing.
    pub async fn survey(&self, every_folder: bool) -> Result<Survey, DialectError> {
        let folder = (!every_folder).then(|| self.folder_text());
        let query = TaskQuery { checkpoint_folder: folder, ..TaskQuery::default() };
        let mut tasks = self.engine.store().tasks(query).await.map_err(ActError::from)?;
        tasks.retain(|task| task.checkpoint.is_some());
        tasks.sort_by_key(|task| task.created_at);
        let ids: HashSet<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
        let mut survey = Survey::default();
        for found in self.folder.scan().map_err(|error| self.io_error(error))? {
            match found {
                Found::Damaged { path, reason } => survey.damaged.push((path, reason)),
                Found::Good { path, checkpoint } => {
                    if !self.knows(&checkpoint, &ids).await? {
                        survey.unknown.push((path, *checkpoint));
                    }
                }
            }
        }
        let damaged: HashSet<&PathBuf> = survey.damaged.iter().map(|(path, _)| path).collect();
        let is_damaged = |task: &Task| damaged.contains(&self.folder.path_of(task.id.as_str()));
        survey.workflows =
            tasks.into_iter().map(|task| Workflow { damaged: is_damaged(&task), task }).collect();
        survey.quarantined = self.quarantined();
        Ok(survey)
    }

    async fn knows(
        &self,
        checkpoint: &Checkpoint,
        ids: &HashSet<&str>,
    ) -> Result<bool, DialectError> {
        if ids.contains(checkpoint.workflow_id.as_str()) {
            return Ok(true);
        }
        let Ok(id) = TaskId::new(checkpoint.workflow_id.as_str()) else { return Ok(false) };
        Ok(self.engine.store().task(&id).await.map_err(ActError::from)?.is_some())
    }

    /// Sets damaged files aside that the store can write anew; the others stay where they are.
    pub(super) async fn mend_all(&self) -> Result<Vec<SetAside>, DialectError> {
        let survey = self.survey(false).await?;
        let mut report = Vec::new();
        for (file, reason) in survey.damaged {
            let of_file = |w: &&Workflow| self.folder.path_of(w.task.id.as_str()) == file;
            match survey.workflows.iter().find(of_file) {
                Some(workflow) => report.extend(self.save(&workflow.task.id).await?.set_aside),
                None => {
                    let reason = reason.to_string();
                    report.push(SetAside { file, reason, now_at: None });
                }
            }
        }
        for (file, checkpoint) in survey.unknown {
            if let Err(error) = self.take_in(&file, &checkpoint, false).await {
                report.push(SetAside { file, reason: error.to_string(), now_at: None });
            }
        }
        Ok(report)
    }

    fn quarantined(&self) -> Vec<(PathBuf, String)> {
        let Ok(entries) = std::fs::read_dir(self.folder.path().join(QUARANTINE)) else {
            return Vec::new();
        };
        let is_reason = |path: &PathBuf| path.to_string_lossy().ends_with(".reason.txt");
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|path| !is_reason(path));
        files.sort();
        let reason = |path: &PathBuf| {
            let mut name = path.as_os_str().to_owned();
            name.push(".reason.txt");
            std::fs::read_to_string(name).unwrap_or_default().trim().to_owned()
        };
        files.into_iter().map(|path| (path.clone(), reason(&path))).collect()
    }
}
