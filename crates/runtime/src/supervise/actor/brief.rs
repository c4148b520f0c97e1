//! What the next attempt is told: the brief, and `active_state.json`.

use std::path::PathBuf;

use relight_core::agent::AttemptTag;
use relight_core::agent::active_state::{self, ActiveState};
use relight_core::agent::brief::{BriefFacts, GitFacts, Interrupted, brief};
use relight_core::ids::TaskId;
use relight_core::time::Span;

use super::Actor;
use crate::doors::clock;
use crate::engine::TaskView;
use crate::supervise::notice::What;
use crate::supervise::successor;

/// How long git may take to say what changed.
const GIT_WAIT: Span = Span::from_secs(1);

impl Actor {
    /// The folder it works in.
    pub(super) fn workspace(&self) -> PathBuf {
        PathBuf::from(&self.spec.plan.folder)
    }

    /// What a resumed attempt is told; none for a first one.
    pub(super) async fn brief(&self, number: u32, task: Option<&TaskId>) -> Option<String> {
        if !self.is_resumed() {
            return None;
        }
        let last = self.last.as_ref()?;
        let (ended, post_mortem) = (last.ended.as_ref()?, last.post_mortem.as_ref()?);
        let held = post_mortem.task.as_deref().and_then(|task| TaskId::new(task).ok());
        let view = self.view_of(task.or(held.as_ref())).await;
        let workspace = match view.as_ref().and_then(|view| view.task.context.get("workspace")) {
            Some(workspace) => PathBuf::from(workspace),
            None => self.workspace(),
        };
        let place = workspace.to_string_lossy().into_owned();
        let git = git_facts(workspace).await;
        let head_at_begin = self.head.as_deref();
        let facts = BriefFacts {
            agent: &self.spec.name,
            attempt_number: number,
            before: Some(Interrupted { number: last.number, ended, post_mortem, head_at_begin }),
            task: view.as_ref().map(|view| (&view.task, view.steps.as_slice())),
            git: git.as_ref().map(|git| (place.as_str(), git)),
            host: None,
        };
        let text = brief(&facts)?;
        Some(self.desk.engine.redactor().text(&text).into_owned())
    }

    async fn view_of(&self, task: Option<&TaskId>) -> Option<TaskView> {
        self.desk.engine.view(task?).await.ok()
    }

    /// Both files are on disk before the attempt begins.
    pub(super) async fn write_for_successor(
        &self,
        tag: &AttemptTag,
        brief: Option<&str>,
        task: Option<&TaskId>,
    ) {
        let view = self.view_of(task).await;
        let ended = self.last.as_ref().and_then(|last| last.ended.as_ref());
        let reason = ended.filter(|_| self.is_resumed()).map(active_state::reason);
        let state = ActiveState::new(
            &self.spec.name,
            tag,
            self.agent.session.as_deref(),
            view.as_ref().map(|view| &view.task),
            reason,
            clock::now(),
        );
        let written = successor::write_anew(&self.folder, brief, &state);
        if let Err(error) = written {
            self.tell(What::Trouble(format!("its successor's files cannot be written: {error}")));
        }
    }
}

/// Git may take its time, and is asked outside of this task; where there is no repository it is not
/// asked at all.
async fn git_facts(workspace: PathBuf) -> Option<GitFacts> {
    successor::git_head(&workspace)?;
    let ask = move || successor::git_facts(&workspace, GIT_WAIT);
    tokio::task::spawn_blocking(ask).await.ok().flatten()
}
