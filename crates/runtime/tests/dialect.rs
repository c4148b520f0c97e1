//! The checkpoint dialect as a library: one store, one folder.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use relight_redact::{MarkKey, Redactor};
use relight_runtime::core::checkpoint::Checkpoint;
use relight_runtime::core::decide::StartLimits;
use relight_runtime::core::event::{Event, EventKind};
use relight_runtime::core::ids::{AgentName, IdempotencyKey, StepName, TaskId};
use relight_runtime::core::lease::{Fence, Holder};
use relight_runtime::core::time::Span;
use relight_runtime::dialect::{Dialect, UpdateRequest, document, take_in_file};
use relight_runtime::engine::{ActError, Engine, WorkflowError};
use relight_runtime::operations::checkpoint::{
    CheckpointImport, CheckpointList, CheckpointResume, CheckpointStart, CheckpointUpdate,
};
use relight_runtime::store::{EventQuery, MemoryStore};
use tempfile::TempDir;

/// A store and a folder of files.
struct Place {
    folder: TempDir,
    engine: Engine,
    dialect: Dialect,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let redactor = Redactor::new(MarkKey::new([0; 32]));
        let engine =
            Engine::new(Arc::new(MemoryStore::new()), redactor).with_file_intake(take_in_file);
        let dialect = Dialect::new(engine.clone(), folder.path().to_path_buf());
        Self {
            folder,
            engine,
            dialect,
        }
    }

    /// The outcome of a start.
    async fn start(&self, workflow: &str, key: &str, force: bool) -> &'static str {
        let request = CheckpointStart {
            workflow: id(workflow),
            agent: AgentName::new("ops").expect("a name"),
            step: step("one"),
            remaining: vec![step("two")],
            idempotency: IdempotencyKey::new(key).expect("a key"),
            handoff: None,
            notes: None,
            ttl_days: 0,
            force,
        };
        request
            .run(&self.dialect)
            .await
            .expect("it starts")
            .answer
            .outcome
    }

    async fn complete(&self, name: &str, fence: Option<Fence>) -> Result<(), ActError> {
        let change = UpdateRequest {
            complete: vec![step(name)],
            ..UpdateRequest::default()
        };
        let request = CheckpointUpdate {
            workflow: id("w"),
            fence,
            change,
        };
        request.run(&self.dialect).await.map(|_| ())
    }

    /// The fence of a lease that was taken.
    async fn resume(&self, by: &str) -> Result<Fence, ActError> {
        let (workflow, lease) = (Some(id("w")), Some(Span::from_secs(3600)));
        let request = CheckpointResume {
            workflow,
            lease,
            ..CheckpointResume::default()
        };
        let holder = Holder::Time { by: by.to_owned() };
        let limits = StartLimits::OwnBudget;
        let resumed = request
            .run(&self.dialect, holder, limits, &mut Vec::new())
            .await?;
        Ok(resumed.answer.started.fence)
    }

    /// The outcome of an import.
    async fn import(&self, file: &std::path::Path, force: bool) -> &'static str {
        let request = CheckpointImport {
            file: file.to_path_buf(),
            force,
        };
        request
            .run(&self.dialect)
            .await
            .expect("it is taken in")
            .answer
            .outcome
    }

    async fn events(&self) -> Vec<Event> {
        let (after, task, kinds) = (0, Some(id("w")), Vec::new());
        let query = EventQuery {
            after,
            before: None,
            task,
            agent: None,
            kinds,
            limit: 1_000,
            newest: false,
        };
        self.engine
            .store()
            .events(query)
            .await
            .expect("the store has events")
    }

    async fn kinds(&self) -> Vec<EventKind> {
        self.events()
            .await
            .into_iter()
            .map(|event| event.kind)
            .collect()
    }

    fn set_aside(&self) -> usize {
        fs::read_dir(self.folder.path().join("quarantine")).map_or(0, Iterator::count)
    }
}

fn id(text: &str) -> TaskId {
    TaskId::new(text).expect("an id")
}

fn step(text: &str) -> StepName {
    StepName::new(text).expect("a name")
}

#[tokio::test]
async fn the_same_holder_text_does_not_make_the_same_holder() {
    let place = Place::new();
    place.start("w", "k", false).await;
    place.resume("somebody").await.unwrap();
    let refused = place.resume("somebody").await;
    assert!(
        matches!(refused, Err(ActError::Workflow(WorkflowError::Held { .. }))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_replaced_workflow_is_kept_in_the_events() {
    let place = Place::new();
    place.start("w", "k", false).await;
    place.complete("one", None).await.unwrap();
    place.start("w", "other", true).await;
    let kinds = place.kinds().await;
    for kind in [
        EventKind::StepDone,
        EventKind::StepsCleared,
        EventKind::FenceRaised,
    ] {
        assert!(kinds.contains(&kind), "{kind:?} is not in {kinds:?}");
    }
}

#[tokio::test]
async fn a_damaged_file_that_was_set_aside_is_an_event() {
    let place = Place::new();
    place.start("w", "k", false).await;
    fs::write(place.folder.path().join("w.json"), "{").unwrap();
    place.complete("one", None).await.unwrap();
    assert_eq!(place.set_aside(), 2);
    assert!(place.kinds().await.contains(&EventKind::CheckpointDamaged));
}

#[tokio::test]
async fn damage_again_and_again_overwrites_nothing_that_was_set_aside() {
    let place = Place::new();
    place.start("w", "k", false).await;
    for count in 1..=5 {
        fs::write(place.folder.path().join("w.json"), format!("torn {count}")).unwrap();
        place.complete("one", None).await.unwrap();
        assert_eq!(place.set_aside(), 2 * count);
    }
}

#[tokio::test]
async fn a_write_without_a_fence_is_marked_so() {
    let place = Place::new();
    place.start("w", "k", false).await;
    let fence = place.resume("me").await.unwrap();
    place.complete("one", None).await.unwrap();
    place.complete("two", Some(fence)).await.unwrap();
    let ends = place
        .events()
        .await
        .into_iter()
        .filter(|event| event.kind == EventKind::StepDone);
    let fences: Vec<Option<Fence>> = ends.map(|event| event.fence).collect();
    assert_eq!(fences, [None, Some(fence)]);
}

#[tokio::test]
async fn a_fenced_update_changes_neither_store_nor_file() {
    let place = Place::new();
    place.start("w", "k", false).await;
    let before = fs::read(place.folder.path().join("w.json")).unwrap();
    let error = place.complete("one", Some(Fence(9))).await.unwrap_err();
    assert!(matches!(error, ActError::Refused(_)), "{error}");
    assert_eq!(
        fs::read(place.folder.path().join("w.json")).unwrap(),
        before
    );
}

#[tokio::test]
async fn an_import_by_force_fences_whoever_holds_the_workflow() {
    let place = Place::new();
    place.start("w", "k", false).await;
    let file = place.folder.path().join("old");
    fs::copy(place.folder.path().join("w.json"), &file).unwrap();
    let held = place.resume("me").await.unwrap();
    assert_eq!(place.import(&file, true).await, "imported");
    assert!(place.complete("one", Some(held)).await.is_err());
}

#[tokio::test]
async fn the_document_is_what_the_file_says() {
    let place = Place::new();
    place.start("w", "k", false).await;
    place.complete("one", None).await.unwrap();
    let view = place.dialect.view(&id("w")).await.unwrap();
    assert_eq!(
        fs::read(place.folder.path().join("w.json")).unwrap(),
        document(&view).seal()
    );
}

#[tokio::test]
async fn a_good_file_that_is_newer_than_the_store_is_not_lost() {
    let (place, behind) = (Place::new(), Place::new());
    place.start("w", "k", false).await;
    let file = place.folder.path().join("w.json");
    behind.import(&file, false).await;
    // Times are in milliseconds: the file is newer only in a later one.
    let imported = relight_runtime::os::clock::now();
    while relight_runtime::os::clock::now() == imported {
        tokio::task::yield_now().await;
    }
    place.complete("one", None).await.unwrap();
    fs::copy(&file, behind.folder.path().join("w.json")).unwrap();
    behind.resume("me").await.unwrap();
    let resumed = behind.dialect.view(&id("w")).await.unwrap();
    assert_eq!(resumed.progress.done_steps, ["one"]);
}

#[tokio::test]
async fn starts_at_once_with_one_key_make_one_workflow() {
    let place = Place::new();
    let starts = [place.start("a", "k", false), place.start("b", "k", false)];
    let [one, two] = starts;
    let outcomes = tokio::join!(one, two);
    let started = |outcome: &str| outcome == "started";
    assert_ne!(started(outcomes.0), started(outcomes.1));
}

/// Processor time of this thread: what else the machine does is not counted.
fn used() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    used.try_into().expect("it is not negative")
}

/// What it costs to take in a file of the original script with so many finished steps, to take up as many
/// more that the script adds, and to look through the folder.
async fn cost_of(steps: usize) -> Duration {
    let place = Place::new();
    place.start("w", "k", false).await;
    let template = document(&place.dialect.view(&id("w")).await.expect("it was started"));
    let file = place.folder.path().join("big.json");
    let by_the_script = |steps: usize, later: u64| {
        let written_at = relight_runtime::os::clock::now().plus(Span::from_secs(later));
        let checkpoint = Checkpoint {
            workflow_id: "big".to_owned(),
            completed_steps: (0..steps).map(|n| format!("step {n}")).collect(),
            updated_at: written_at.as_timestamp(),
            idempotency_key: "big".to_owned(),
            ..template.clone()
        };
        let text = String::from_utf8(checkpoint.seal()).expect("it is text");
        fs::write(&file, text.replace("sha256:", "")).expect("it can be written");
    };
    by_the_script(steps, 0);
    let began = used();
    place.import(&file, false).await;
    by_the_script(2 * steps, 60);
    let listed = CheckpointList::read(&place.dialect, false)
        .await
        .expect("the folder is read");
    let cost = used() - began;
    let big = listed.items.iter().find(|item| item.workflow == id("big"));
    assert_eq!(big.map(|big| big.steps_done), Some(2 * steps as u64));
    cost
}

/// Eight times as many steps cost about eight times as much, not sixty-four times.
#[tokio::test]
async fn a_workflow_costs_in_proportion_to_its_steps() {
    let (few, many) = (cost_of(500).await, cost_of(4_000).await);
    assert!(many < few * 24, "{few:?} for 500, {many:?} for 4000");
}
