//! The breaker of boot loops, and steps that die with their supervisor, as tables.

use insta::assert_snapshot;
use relight_core::agent::boots::{self, BootHistory, BootVerdict};
use relight_core::alert::Alert;
use relight_core::decide::TaskEvent;
use relight_core::decide::step_deaths::{self, StepFate};
use relight_core::event::{Event, EventKind};
use relight_core::ids::{StepName, TaskId};
use relight_core::step::StepKey;
use relight_core::time::Time;

/// Lives through boots, one word each: `crash`, `clean`, `stable` (then a power cut), `idle` (nothing to
/// resume, then a power cut). `again` is one more start of the daemon in the same boot, `person`
/// a person's word in it. What each start was answered.
fn lives(story: &str) -> String {
    let mut history = BootHistory::default();
    let mut answers = Vec::new();
    let mut number = 0;
    for word in story.split_whitespace() {
        number += u32::from(word != "again" && word != "person");
        let boot = format!("boot-{number}");
        if word == "person" {
            history = boots::forgive(history, &boot);
            continue;
        }
        let (kept, verdict) = boots::at_start(kept(&history), &boot, word != "idle");
        answers.push(match verdict {
            BootVerdict::Resume => "resume".to_owned(),
            BootVerdict::HoldBack { boots } => format!("hold back after {boots}"),
        });
        history = match word {
            "stable" => boots::stable(kept, &boot),
            "clean" => boots::clean_end(kept, &boot),
            _ => kept,
        };
    }
    assert!(history.boots.len() <= 16, "{history:?}");
    answers.join(", ")
}

/// As the store gives it back.
fn kept(history: &BootHistory) -> BootHistory {
    serde_json::from_value(serde_json::to_value(history).expect("it is plain data"))
        .expect("it was written by us")
}

#[test]
fn three_boots_in_a_row_that_went_down_soon_break_the_loop() {
    assert_snapshot!(lives("crash crash crash crash"), @"resume, resume, resume, hold back after 3");
}

#[test]
fn a_stable_or_clean_boot_between_breaks_the_row() {
    assert_snapshot!(lives("crash crash stable crash crash"), @"resume, resume, resume, resume, resume");
    assert_snapshot!(lives("crash crash clean crash crash"), @"resume, resume, resume, resume, resume");
}

#[test]
fn a_boot_without_work_to_resume_is_no_part_of_a_loop() {
    assert_snapshot!(lives("crash crash idle crash crash"), @"resume, resume, resume, resume, resume");
    assert_snapshot!(lives("idle idle idle idle"), @"resume, resume, resume, resume");
}

#[test]
fn deaths_of_the_daemon_within_one_boot_do_not_count() {
    assert_snapshot!(lives("crash again again again again"), @"resume, resume, resume, resume, resume");
}

#[test]
fn a_daemon_that_starts_again_after_a_clean_end_is_not_clean_any_more() {
    assert_snapshot!(
        lives("clean again crash crash crash"),
        @"resume, resume, resume, resume, hold back after 3"
    );
}

#[test]
fn only_a_person_ends_the_holding_back() {
    assert_snapshot!(
        lives("crash crash crash clean again stable clean"),
        @"resume, resume, resume, hold back after 3, hold back after 3, hold back after 3, hold back after 3"
    );
    assert_snapshot!(
        lives("crash crash crash crash person again crash crash crash"),
        @"resume, resume, resume, hold back after 3, resume, resume, resume, hold back after 3"
    );
}

#[test]
fn held_back_boots_never_push_out_their_reason() {
    let story = format!("crash crash crash {}", "clean ".repeat(50));
    assert!(lives(&story).ends_with("hold back after 3"));
    assert!(!lives(&"stable ".repeat(50)).contains("hold"));
}

fn task() -> TaskId {
    TaskId::new("t").expect("a good id")
}

fn step(name: &str) -> StepKey {
    StepKey::first(StepName::new(name).expect("a good name"))
}

fn event(kind: EventKind, step: Option<&str>, detail: serde_json::Value) -> Event {
    let step = step.map(self::step);
    let at = Time::from_ms(0);
    Event {
        id: 1,
        at,
        kind,
        agent: None,
        task: None,
        step,
        fence: None,
        detail,
    }
}

/// What a decision notes, as the store would tell it.
fn noted(decided: &[TaskEvent]) -> Event {
    let TaskEvent::Note(kind, detail) = &decided[0] else {
        panic!("{decided:?}")
    };
    event(*kind, None, detail.clone())
}

/// Steps `a` and `b` die with their supervisor (`a`, `b`), or are ended (`a done`); what became of each.
fn deaths(story: &[&str]) -> Vec<StepFate> {
    let mut events = Vec::new();
    let mut fates = Vec::new();
    for word in story {
        match word.split_once(' ') {
            Some((name, "done")) => events.push(event(EventKind::StepDone, Some(name), ().into())),
            Some((name, "resolved")) => {
                events.push(event(EventKind::StepResolved, Some(name), ().into()));
            }
            Some(_) => events.push(event(EventKind::StepsCleared, None, ().into())),
            None => {
                let decided = step_deaths::decide(&task(), &events, &step(word));
                events.push(noted(&decided));
                let is_parked = decided.iter().any(|e| matches!(e, TaskEvent::Block { .. }));
                fates.push(if is_parked {
                    StepFate::Parked
                } else {
                    StepFate::GoesOn
                });
            }
        }
    }
    fates
}

#[test]
fn a_step_that_died_with_its_supervisor_twice_is_parked() {
    use StepFate::{GoesOn, Parked};
    for (story, fates) in [
        (&["a", "a"][..], &[GoesOn, Parked][..]),
        (&["a", "b", "b"], &[GoesOn, GoesOn, Parked]),
        (&["a", "a done", "a"], &[GoesOn, GoesOn]),
        (&["a", "b done", "a"], &[GoesOn, Parked]),
        (&["a", "a", "a resolved", "a"], &[GoesOn, Parked, GoesOn]),
        (&["a", "all cleared", "a"], &[GoesOn, GoesOn]),
        (&["a", "a", "a"], &[GoesOn, Parked, Parked]),
    ] {
        assert_eq!(deaths(story), fates, "{story:?}");
    }
}

#[test]
fn a_parked_step_blocks_its_task_and_says_why() {
    let first = noted(&step_deaths::decide(&task(), &[], &step("deploy")));
    assert_eq!(first.kind, EventKind::Recovered);
    let second = step_deaths::decide(&task(), &[first], &step("deploy"));
    assert_eq!(noted(&second).kind, EventKind::StepParked);
    let TaskEvent::Block { reason, .. } = &second[2] else {
        panic!("{second:?}")
    };
    assert_snapshot!(reason, @"step deploy died together with its supervisor 2 times in a row");
    let TaskEvent::Note(EventKind::Alert, told) = &second[1] else {
        panic!("{second:?}")
    };
    assert_snapshot!(Alert::from_detail(told).expect("an alert").line(), @"task t is parked: step deploy died together with its supervisor 2 times in a row; see whether it happened, then relight step resolve deploy --task t --happened (or --did-not)");
}
