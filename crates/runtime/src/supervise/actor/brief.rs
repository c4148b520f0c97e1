//! What the next attempt is told: the brief, and `active_state.json`.
//!
//! Which files are changed only git itself can tell, and that takes longer than all the rest of a
//! restart. An attempt that gets the brief's text with its command waits for that; any other is started
//! with a brief that has all the rest, and its file is completed while it runs.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use relight_core::agent::active_state::{self, ActiveState};
use relight_core::agent::brief::{BriefFacts, DirtyFiles, GitFacts, Interrupted, brief};
use relight_core::agent::{Attempt, AttemptTag};
use relight_core::ids::TaskId;
use relight_core::step::Call;
use relight_core::time::Span;
use tokio::task::JoinSet;

use super::Actor;
use crate::engine::TaskSnapshot;
use crate::git_state;
use crate::handover;
use crate::hooks::{self, Settled};
use crate::os::{clock, threads};
use crate::supervise::folder::AgentFolder;
use crate::supervise::notices::What;
use crate::supervise::successor::{self, Asker};

/// How long git may take to say what changed, while the start waits for it.
const GIT_WAIT: Span = Span::from_secs(1);
/// The same, while nobody does.
const GIT_WAIT_BESIDE: Span = Span::from_secs(10);

/// A brief, and what it stands on.
pub(super) struct Brief {
    pub(super) text: String,
    number: u32,
    /// The attempt that worked on the task last, where that was not this agent's last one.
    former: Option<Attempt>,
    view: Option<TaskSnapshot>,
    settled: Vec<Settled>,
    /// Calls that only the transcript tells of.
    calls: Vec<Call>,
    workspace: PathBuf,
    git: Option<GitFacts>,
}

impl Brief {
    /// Whether git has not said what changed.
    pub(super) fn lacks_changes(&self) -> bool {
        self.git.as_ref().is_some_and(|git| git.dirty.is_none())
    }
}

/// The brief of the live attempt before git has said what changed; one that is dropped is not completed.
pub(super) struct OpenBrief {
    brief: Brief,
    /// Empty until the attempt has begun.
    looking: JoinSet<Option<DirtyFiles>>,
}

impl OpenBrief {
    /// None when there is nothing to complete.
    pub(super) fn of(brief: Option<Brief>) -> Option<Self> {
        let brief = brief.filter(Brief::lacks_changes)?;
        Some(Self {
            brief,
            looking: JoinSet::new(),
        })
    }
}

impl Actor {
    /// The folder it works in.
    pub(super) fn workspace(&self) -> PathBuf {
        PathBuf::from(&self.spec.plan.folder)
    }

    /// What a resumed attempt is told, as far as it is known at once; none for a first one.
    pub(super) async fn brief(&self, number: u32, task: Option<&TaskId>) -> Option<Brief> {
        if !self.is_resumed() && !self.takes_over {
            return None;
        }
        let held = self.task_before();
        let (view, settled) = self.settled_view(task.or(held.as_ref())).await;
        let workspace = match view
            .as_ref()
            .and_then(|view| view.task.context.get("workspace"))
        {
            Some(workspace) => PathBuf::from(workspace),
            None => self.workspace(),
        };
        let git = git_state::git_facts(&workspace);
        let calls = self.calls_in_doubt(view.as_ref().map_or(&[], |view| &view.steps));
        let mut brief = Brief {
            text: String::new(),
            number,
            former: self.former(task).await,
            view,
            settled,
            calls,
            workspace,
            git,
        };
        brief.text = self.text_of(&brief)?;
        Some(brief)
    }

    /// The attempt that worked on a task that this agent takes over.
    async fn former(&self, task: Option<&TaskId>) -> Option<Attempt> {
        let task = task.filter(|_| self.last.is_none())?;
        let store = self.context.engine.store().as_ref();
        let found = handover::last_attempt_at(store, task, Some(&self.spec.name)).await;
        found.ok().flatten()
    }

    /// What the attempt before worked on, by its own choice too.
    fn task_before(&self) -> Option<TaskId> {
        let post_mortem = self
            .last
            .as_ref()
            .and_then(|last| last.post_mortem.as_ref())?;
        TaskId::new(post_mortem.task.as_deref()?).ok()
    }

    fn text_of(&self, about: &Brief) -> Option<String> {
        let own = self.last.as_ref().and_then(Interrupted::of);
        let own = own.map(|own| Interrupted {
            head_at_begin: self.head.as_deref(),
            ..own
        });
        let former = about.former.as_ref();
        let worker = former.map(|former| &former.agent);
        let settled: Vec<_> = about
            .settled
            .iter()
            .map(|it| (&it.call, it.happened))
            .collect();
        let place = about.workspace.to_string_lossy();
        let host = self.moved();
        let facts = BriefFacts {
            agent: Some(&self.spec.name),
            attempt_number: about.number,
            before: own.or_else(|| former.and_then(Interrupted::of)),
            worker: worker.filter(|worker| **worker != self.spec.name),
            task: about
                .view
                .as_ref()
                .map(|view| (&view.task, view.steps.as_slice())),
            settled: &settled,
            open_calls: &about.calls,
            handed_over: self.handed_over.as_deref(),
            git: about.git.as_ref().map(|git| (&*place, git)),
            host: host.as_deref(),
        };
        let text = brief(&facts)?;
        Some(self.context.engine.redactor().text(&text).into_owned())
    }

    /// Where it runs, and where it ran before; none where it is alone, or still there.
    fn moved(&self) -> Option<String> {
        let own = self.context.owner.node.as_ref()?;
        let last = self.last.as_ref()?;
        let before = last
            .process
            .as_ref()
            .or(last.shim.as_ref())?
            .node
            .as_ref()?;
        (before != own).then(|| {
            format!("node {own}; the work so far was on node {before}, and files may be there only")
        })
    }

    /// Waits for git to say what changed.
    pub(super) async fn await_changes(&self, tag: &AttemptTag, brief: Brief) -> Brief {
        let (workspace, asker) = (brief.workspace.clone(), self.asker(tag));
        let ask = move || successor::dirty_files(&workspace, GIT_WAIT, &asker());
        let dirty = threads::run(ask).await.flatten();
        self.with_changes(brief, dirty)
    }

    /// For whom git is asked; to be called where nothing waits, for it may make a cgroup.
    fn asker(&self, tag: &AttemptTag) -> impl FnOnce() -> Asker + Send + 'static {
        let (name, tag, user) = (self.spec.name.clone(), tag.clone(), self.spec.user);
        let (cgroups, folder) = (self.context.cgroups.clone(), self.folder.clone());
        move || {
            let cgroup = cgroups.and_then(|cgroups| cgroups.for_attempt(&name, &tag).ok());
            Asker {
                folder,
                user,
                tag,
                cgroup,
            }
        }
    }

    /// Has git asked beside the attempt, now that it has begun. Only so many at once: many that died
    /// together are brought back together, and that comes first.
    pub(super) fn look_for_changes(&mut self) {
        let Some(asker) = self.life.as_ref().map(|life| self.asker(&life.tag)) else {
            return;
        };
        let Some(open) = &mut self.open_brief else {
            return;
        };
        let workspace = open.brief.workspace.clone();
        let places = Arc::clone(&self.context.git_places);
        open.looking.spawn(async move {
            let place = places.acquire_owned().await.ok()?;
            let ask = move || {
                let dirty = successor::dirty_files(&workspace, GIT_WAIT_BESIDE, &asker());
                drop(place);
                dirty
            };
            threads::run(ask).await.flatten()
        });
    }

    /// Completes the brief of the live attempt.
    pub(super) fn complete_brief(&mut self, dirty: Option<DirtyFiles>) {
        let Some(OpenBrief { brief, .. }) = self.open_brief.take() else {
            return;
        };
        let there = brief.text.clone();
        let brief = self.with_changes(brief, dirty);
        let completed = successor::complete_brief(&self.folder, &there, &brief.text);
        if let Err(error) = completed.and_then(|_| self.copy_for_user()) {
            self.tell(What::Trouble(format!(
                "its brief cannot be completed: {error}"
            )));
        }
    }

    /// An agent with a user of its own reads copies: the home is closed to it.
    fn copy_for_user(&self) -> io::Result<()> {
        let user = self.spec.user.map(|(uid, _)| uid);
        user.map_or(Ok(()), |uid| successor::copy_for_user(&self.folder, uid))
    }

    /// Where the attempt finds brief and state.
    pub(super) fn readable_folder(&self) -> AgentFolder {
        match self.spec.user {
            Some(_) => successor::user_folder(&self.folder),
            None => self.folder.clone(),
        }
    }

    fn with_changes(&self, mut brief: Brief, dirty: Option<DirtyFiles>) -> Brief {
        if let Some(git) = &mut brief.git {
            git.dirty = dirty;
        }
        brief.text = self.text_of(&brief).unwrap_or(brief.text);
        brief
    }

    /// The task, after the edits in doubt that their files can tell about were settled.
    async fn settled_view(&self, task: Option<&TaskId>) -> (Option<TaskSnapshot>, Vec<Settled>) {
        let Some(view) = self.view_of(task).await else {
            return (None, Vec::new());
        };
        match hooks::settle_edits(&self.context.engine, &view).await {
            Ok(settled) if settled.is_empty() => (Some(view), settled),
            Ok(settled) => (self.view_of(task).await, settled),
            Err(error) => {
                self.tell(What::Trouble(format!(
                    "edits in doubt cannot be settled: {error}"
                )));
                (Some(view), Vec::new())
            }
        }
    }

    async fn view_of(&self, task: Option<&TaskId>) -> Option<TaskSnapshot> {
        self.context.engine.view(task?).await.ok()
    }

    /// Both files are on disk before the attempt begins.
    pub(super) async fn write_for_successor(
        &self,
        tag: &AttemptTag,
        brief: Option<&str>,
        task: Option<&TaskId>,
    ) {
        let before = self.task_before().filter(|_| self.is_resumed());
        let view = self.view_of(task.or(before.as_ref())).await;
        let is_work =
            |view: &TaskSnapshot| !view.task.status.is_terminal() && !view.task.spec.observed;
        let view = view.filter(is_work);
        let ended = self.last.as_ref().and_then(|last| last.ended.as_ref());
        let reason = ended
            .filter(|_| self.is_resumed())
            .map(active_state::reason);
        let state = ActiveState::new(
            Some(&self.spec.name),
            Some(tag),
            self.agent.session.as_deref(),
            view.as_ref().map(|view| &view.task),
            reason,
            clock::now(),
        );
        let written = successor::write_anew(&self.folder, brief, &state);
        if let Err(error) = written.and_then(|()| self.copy_for_user()) {
            self.tell(What::Trouble(format!(
                "its successor's files cannot be written: {error}"
            )));
        }
    }
}

/// What git says for a brief that is being completed; never, while it is not asked.
pub(super) async fn changes(open: Option<&mut OpenBrief>) -> Option<DirtyFiles> {
    let answer = match open {
        Some(open) => open.looking.join_next().await,
        None => None,
    };
    match answer {
        // A question that broke off found nothing.
        Some(answer) => answer.ok().flatten(),
        None => std::future::pending().await,
    }
}
