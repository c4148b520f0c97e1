//! What is in the folder and what the store knows of it.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use relight_core::checkpoint::Checkpoint;
use relight_core::ids::TaskId;
use relight_core::task::Task;
use relight_core::time::Time;
use relight_store::TaskQuery;

use super::copy::is_from_elsewhere;
use super::{Dialect, SetAside};
use crate::checkpoint_files::{FileDamage, QUARANTINE, ScannedFile};
use crate::engine::ActError;

/// Workflows, strange files and what was set aside earlier.
#[derive(Debug, Default)]
pub struct Survey {
    /// Workflows of the store that belong to this folder, oldest first, and whether their file is damaged.
    pub workflows: Vec<(Task, bool)>,
    /// Good files that the store does not know.
    pub unknown: Vec<(PathBuf, Checkpoint)>,
    /// Workflows whose file another tool or another store wrote.
    pub written_elsewhere: Vec<TaskId>,
    /// Files of another tool whose id is that of a task that has nothing to do with them.
    pub of_others: Vec<(PathBuf, TaskId)>,
    /// Workflows whose file is behind the store: it was cut off before the file was written.
    pub behind: Vec<TaskId>,
    /// Damaged files.
    pub damaged: Vec<(PathBuf, FileDamage)>,
    /// What was set aside earlier, with its reason.
    pub quarantined: Vec<(PathBuf, String)>,
}

impl Dialect {
    /// The same after the store has taken in what other tools wrote.
    pub async fn reconciled_survey(&self, every_folder: bool) -> Result<Survey, ActError> {
        let survey = self.survey(every_folder).await?;
        if survey.written_elsewhere.is_empty() {
            return Ok(survey);
        }
        for id in &survey.written_elsewhere {
            if let Some(seen) = self.reconcile(id).await? {
                self.save_over(id, Some(&seen)).await?;
            }
        }
        self.survey(every_folder).await
    }

    /// Looks at everything, changes nothing.
    pub async fn survey(&self, every_folder: bool) -> Result<Survey, ActError> {
        let folder = (!every_folder).then(|| self.folder_text());
        let query = TaskQuery {
            checkpoint_folder: folder,
            ..TaskQuery::default()
        };
        let mut tasks = self.engine.store().tasks(query).await?;
        tasks.retain(|task| task.checkpoint.is_some());
        tasks.sort_by_key(|task| task.created_at);
        let known: HashMap<&str, &Task> =
            tasks.iter().map(|task| (task.id.as_str(), task)).collect();
        let mut survey = Survey::default();
        for found in self.scan()? {
            match found {
                ScannedFile::Damaged { path, reason } => survey.damaged.push((path, reason)),
                ScannedFile::Good { path, checkpoint } => {
                    match self.known(&checkpoint, &known).await? {
                        None => survey.unknown.push((path, *checkpoint)),
                        Some(task) if self.is_here(&task) => {
                            let view = self.view(&task.id).await?;
                            if is_from_elsewhere(&checkpoint, &view, self.engine.redactor()) {
                                survey.written_elsewhere.push(task.id);
                            } else if checkpoint.seq < task.seq {
                                survey.behind.push(task.id);
                            }
                        }
                        Some(task) if checkpoint.foreign => survey.of_others.push((path, task.id)),
                        // A later state that came here with its folder.
                        Some(task)
                            if checkpoint.seq > task.seq
                                && Time::from(checkpoint.updated_at) > task.updated_at =>
                        {
                            survey.unknown.push((path, *checkpoint));
                        }
                        Some(_) => {}
                    }
                }
            }
        }
        let damaged: HashSet<&PathBuf> = survey.damaged.iter().map(|(path, _)| path).collect();
        let is_damaged = |task: &Task| damaged.contains(&self.folder.path_of(task.id.as_str()));
        let is_damaged: Vec<bool> = tasks.iter().map(is_damaged).collect();
        survey.workflows = tasks.into_iter().zip(is_damaged).collect();
        survey.quarantined = self.quarantined();
        Ok(survey)
    }

    /// The task of a file.
    async fn known(
        &self,
        checkpoint: &Checkpoint,
        known: &HashMap<&str, &Task>,
    ) -> Result<Option<Task>, ActError> {
        if let Some(task) = known.get(checkpoint.workflow_id.as_str()) {
            return Ok(Some((*task).clone()));
        }
        let Ok(id) = TaskId::new(checkpoint.workflow_id.as_str()) else {
            return Ok(None);
        };
        Ok(self.engine.store().task(&id).await?)
    }

    /// Whether this is the folder of a task's file.
    fn is_here(&self, task: &Task) -> bool {
        task.checkpoint
            .as_ref()
            .is_some_and(|settings| settings.folder == self.folder_text())
    }

    /// Sets damaged files aside that the store can write anew; the others stay where they are.
    pub(super) async fn mend_all(&self) -> Result<Vec<SetAside>, ActError> {
        let survey = self.survey(false).await?;
        let mut report = Vec::new();
        for (file, reason) in survey.damaged {
            let mut tasks = survey.workflows.iter().map(|(task, _)| task);
            match tasks.find(|task| self.folder.path_of(task.id.as_str()) == file) {
                Some(task) => report.extend(self.save(&task.id).await?.set_aside),
                None => {
                    let reason = reason.to_string();
                    report.push(SetAside {
                        file,
                        reason,
                        is_damaged: true,
                        now_at: None,
                    });
                }
            }
        }
        for id in survey.behind {
            self.save(&id).await?;
        }
        for id in survey.written_elsewhere {
            let (seen, refused) = match self.reconcile(&id).await {
                Ok(seen) => (seen, None),
                Err(error) => (None, Some(error.to_string())),
            };
            let mut set_aside = self.save_over(&id, seen.as_ref()).await?.set_aside;
            // Why it could not be taken in says more than that the store does not have it.
            if let (Some(first), Some(reason)) = (set_aside.first_mut(), refused) {
                first.reason = format!("{}: {reason}", first.reason);
            }
            report.extend(set_aside);
        }
        for (file, id) in survey.of_others {
            let reason = format!("the store has another task {id}, not of this folder");
            report.push(SetAside {
                file,
                reason,
                is_damaged: false,
                now_at: None,
            });
        }
        for (file, checkpoint) in survey.unknown {
            if let Err(error) = self.take_in(&file, &checkpoint, false).await {
                let reason = error.to_string();
                report.push(SetAside {
                    file,
                    reason,
                    is_damaged: false,
                    now_at: None,
                });
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
            std::fs::read_to_string(name)
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        files
            .into_iter()
            .map(|path| (path.clone(), reason(&path)))
            .collect()
    }
}
