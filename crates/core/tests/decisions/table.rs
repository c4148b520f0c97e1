//! Every status and every event, in four situations.
//!
//! A cell is what is committed, after the guard it is committed under (`f` the fence is compared, `s`
//! the sequence number), or `-` and why nothing is.

use relight_core::agent::Cause;
use relight_core::change::Change;
use relight_core::claimant::Claimant;
use relight_core::decide::{
    Refusal, Right, StartLimits, Starter, TaskDecisionInput, TaskEvent, decide,
};
use relight_core::ids::TaskId;
use relight_core::lease::{Fence, Holder, HolderLife, ProcessIdentity};
use relight_core::recovery::{Decision, HolderDeath, RecoveryContext, RecoveryPlan, TaskPolicy};
use relight_core::status::TaskStatus;
use relight_core::step::{RepeatRule, Step, StepOutcome, StepState};
use relight_core::task::{CheckpointSettings, NewTask, Task, Usage};
use relight_core::time::Span;

use crate::given::{
    agent, begin, held_task, later, noon, person, replace, scene, step, step_key, task,
};

/// Nobody holds it; its holder writes; somebody else writes beside a live holder; somebody comes
/// after the holder's death.
const SITUATIONS: [&str; 4] = ["unheld", "holder", "beside", "after death"];

#[test]
fn every_event_in_every_status() {
    insta::assert_snapshot!(table());
}

#[test]
fn one_of_a_pool_starts_what_the_pool_was_given_and_has_it_then() {
    let pooled = Claimant {
        pool: Some(agent("crew")),
        ..Claimant::new(agent("bob"))
    };
    let task = Task {
        agent: Some(agent("crew")),
        ..task(TaskStatus::Assigned)
    };
    let start = TaskEvent::Start {
        holder: person("bob"),
        ttl: None,
        steal: false,
        starter: Some(Starter::Itself(pooled)),
        limits: StartLimits::Forced,
    };
    let scene = scene(&task, None, HolderLife::Gone, Right::Unfenced);
    let changes = decide(&scene, start).unwrap().changes;
    assert!(
        changes.contains(&Change::Assigned(Some(agent("bob")))),
        "{changes:?}"
    );
    assert!(changes.contains(&Change::Pinned(true)), "{changes:?}");
}

fn table() -> String {
    let blocks: Vec<String> = cases().iter().map(block).collect();
    blocks.join("\n")
}

/// Statuses that are answered alike share a row; an answer that is the same in every situation
/// stands once.
fn block(case: &Case) -> String {
    let mut rows: Vec<(Vec<&str>, [String; 4])> = Vec::new();
    for status in TaskStatus::ALL {
        let cells = situations(status).map(|(task, life, right)| case.decide(task, life, right));
        match rows.iter_mut().find(|(_, alike)| *alike == cells) {
            Some((statuses, _)) => statuses.push(status.as_str()),
            None => rows.push((vec![status.as_str()], cells)),
        }
    }
    let mut text = format!("## {}\n", case.name);
    for (statuses, [a, b, c, d]) in rows {
        text += &format!("{}\n", statuses.join(" "));
        let [unheld, holder, beside, after] = SITUATIONS;
        if a == b && b == c && c == d {
            text += &format!("    always       {a}\n");
            continue;
        }
        for (situation, cell) in [(unheld, a), (holder, b), (beside, c), (after, d)] {
            text += &format!("    {situation:13}{cell}\n");
        }
    }
    text
}

fn situations(status: TaskStatus) -> [(Task, HolderLife, Right); 4] {
    let (alive, gone) = (HolderLife::Alive, HolderLife::Gone);
    [
        (task(status), alive, Right::Unfenced),
        (held_task(status), alive, Right::Fence(Fence(3))),
        (held_task(status), alive, Right::Unfenced),
        (held_task(status), gone, Right::Unfenced),
    ]
}

struct Case {
    name: &'static str,
    event: TaskEvent,
    step: Option<Step>,
    prepare: fn(&mut Task),
}

impl Case {
    fn new(name: &'static str, event: TaskEvent) -> Self {
        Self {
            name,
            event,
            step: None,
            prepare: |_| {},
        }
    }

    fn with_step(self, state: StepState, rule: RepeatRule) -> Self {
        Self {
            step: Some(Step {
                rule,
                ..step(state)
            }),
            ..self
        }
    }

    fn prepared(self, prepare: fn(&mut Task)) -> Self {
        Self { prepare, ..self }
    }

    fn decide(&self, mut task: Task, life: HolderLife, right: Right) -> String {
        (self.prepare)(&mut task);
        let scene = TaskDecisionInput {
            steps: self.step.as_slice(),
            ..scene(&task, self.step.as_ref(), life, right)
        };
        match decide(&scene, self.event.clone()) {
            Err(refusal) => format!("-  {}", short_refusal(&refusal)),
            Ok(decision) => {
                let fence = if decision.guard.fence.is_some() {
                    "f"
                } else {
                    ""
                };
                let seq = if decision.guard.seq.is_some() {
                    "s"
                } else {
                    ""
                };
                let changes: Vec<String> = decision.changes.iter().map(short_change).collect();
                let changes = if changes.is_empty() {
                    "nothing".to_owned()
                } else {
                    changes.join(" ")
                };
                format!("{:3}{changes}", format!("{fence}{seq}"))
            }
        }
    }
}

fn cases() -> Vec<Case> {
    let (holder, ttl) = (person("bob"), Some(Span::from_secs(60)));
    let start = |steal, limits| TaskEvent::Start {
        holder: person("bob"),
        ttl: Some(Span::from_secs(60)),
        steal,
        starter: None,
        limits,
    };
    let limits = || StartLimits::Policy(TaskPolicy::default());
    let start_by = |starter| TaskEvent::Start {
        holder: person("bob"),
        ttl: None,
        steal: false,
        starter: Some(starter),
        limits: limits(),
    };
    let bob = || Starter::Itself(Claimant::new(agent("bob")));
    let is_anns = |task: &mut Task| task.agent = Some(agent("ann"));
    let claimant = Claimant::new(agent("bob"));
    let policy = TaskPolicy::default();
    let assign = TaskEvent::Assign {
        claimant: claimant.clone(),
        policy: policy.clone(),
    };
    let claim = TaskEvent::Claim {
        claimant,
        holder,
        ttl,
        policy,
    };
    let reason = || "why".to_owned();
    let defer = TaskEvent::Defer {
        until: later(),
        reason: None,
    };
    let retry = |force| TaskEvent::Retry { agent: None, force };
    let door = TaskEvent::SetCheckpoint(CheckpointSettings::default());
    let move_to = |to| TaskEvent::Move { to, reason: None };
    let blocks_itself = |task: &mut Task| {
        task.checkpoint = Some(CheckpointSettings {
            blocked: true,
            ..CheckpointSettings::default()
        });
    };
    let end = TaskEvent::StepEnd {
        key: step_key("s"),
        outcome: StepOutcome::Done,
        output: None,
    };
    let resolve = TaskEvent::StepResolve {
        key: step_key("s"),
        happened: true,
    };
    let (open, done, failed) = (StepState::Begun, StepState::Done, StepState::Failed);
    let keyed = RepeatRule::Keyed;
    let waits = |task: &mut Task| task.not_before = Some(later());
    let used_up = |task: &mut Task| task.retries = 1;
    let declares_s = |task: &mut Task| task.spec.steps = vec![step_key("s").name];
    let skip = TaskEvent::StepSkip {
        key: step_key("s"),
        reason: reason(),
    };
    vec![
        Case::new("start", start(false, limits())),
        Case::new("start, not before later", start(false, limits())).prepared(waits),
        Case::new("start, started 20 times", start(false, limits()))
            .prepared(|task| task.starts = 20),
        Case::new("start by a budget of its own, started 20 times", {
            start(false, StartLimits::OwnBudget)
        })
        .prepared(|task| task.starts = 20),
        Case::new("start and steal", start(true, limits())),
        Case::new(
            "start by force, started 20 times",
            start(false, StartLimits::Forced),
        )
        .prepared(|task| task.starts = 20),
        Case::new("start by bob", start_by(bob())),
        Case::new("start by bob of ann's", start_by(bob())).prepared(is_anns),
        Case::new(
            "start as planned for bob, ann's",
            start_by(Starter::Planned(agent("bob"))),
        )
        .prepared(is_anns),
        Case::new("start of ann's without a name", start(false, limits())).prepared(is_anns),
        Case::new("claim for bob", claim.clone()),
        Case::new("claim for bob of ann's", claim.clone())
            .prepared(|task| task.agent = Some(agent("ann"))),
        Case::new("claim, not before later", claim.clone()).prepared(waits),
        Case::new("claim, retries used up", claim.clone()).prepared(used_up),
        Case::new("claim, started 20 times", claim.clone()).prepared(|task| task.starts = 20),
        Case::new("claim, given up", claim.clone()).prepared(|task| task.tally.given_up = true),
        Case::new("claim, needs what bob cannot", claim)
            .prepared(|task| task.spec.needs = vec!["sql".to_owned()]),
        Case::new("assign to bob", assign.clone()),
        Case::new("assign to bob, ann's", assign).prepared(|task| task.agent = Some(agent("ann"))),
        Case::new("recover: resume", recover(Decision::Resume)),
        Case::new("recover: resume, tried often", recover(Decision::Resume))
            .prepared(|task| task.tally.recoveries = 3),
        Case::new(
            "recover: resume, started 20 times",
            recover(Decision::Resume),
        )
        .prepared(|task| task.starts = 20),
        Case::new(
            "recover: reassign",
            recover(Decision::Reassign {
                keep_progress: true,
            }),
        ),
        Case::new("recover: reassign, from scratch", {
            recover(Decision::Reassign {
                keep_progress: false,
            })
        })
        .prepared(|task| task.steps_done = 2),
        Case::new("recover: reassign, used up", {
            recover(Decision::Reassign {
                keep_progress: true,
            })
        })
        .prepared(used_up),
        Case::new("recover: suspend", recover(Decision::Suspend)),
        Case::new(
            "recover: defer",
            recover(Decision::Defer { until: later() }),
        ),
        Case::new("recover: give up", recover(Decision::GiveUp)),
        Case::new(
            "spend",
            TaskEvent::Spend(Usage {
                cost_micros: 1,
                turns: 1,
                ..Usage::default()
            }),
        ),
        Case::new(
            "set",
            TaskEvent::Set([("k".to_owned(), "v".to_owned())].into()),
        ),
        Case::new("door", door),
        Case::new("declare", TaskEvent::Declare(Vec::new())),
        Case::new("replace", replace()),
        Case::new("move to in_progress", move_to(TaskStatus::InProgress)),
        Case::new(
            "move to in_progress, blocked by the dialect",
            move_to(TaskStatus::InProgress),
        )
        .prepared(blocks_itself),
        Case::new("move to blocked", move_to(TaskStatus::Blocked)),
        Case::new("move to blocked, a workflow", move_to(TaskStatus::Blocked))
            .prepared(|task| task.checkpoint = Some(CheckpointSettings::default())),
        Case::new("move to completed", move_to(TaskStatus::Completed)),
        Case::new(
            "move to completed, blocked by the dialect",
            move_to(TaskStatus::Completed),
        )
        .prepared(blocks_itself),
        Case::new(
            "move to completed, a declared step open",
            move_to(TaskStatus::Completed),
        )
        .prepared(declares_s),
        Case::new("move to failed", move_to(TaskStatus::Failed)),
        Case::new("move to interrupted", move_to(TaskStatus::Interrupted)),
        Case::new("move to suspended", move_to(TaskStatus::Suspended)),
        Case::new("review", TaskEvent::Review),
        Case::new("done", TaskEvent::Done { force: false }),
        Case::new(
            "done, a declared step not begun",
            TaskEvent::Done { force: false },
        )
        .prepared(declares_s),
        Case::new(
            "done, a declared step failed",
            TaskEvent::Done { force: false },
        )
        .with_step(failed, keyed)
        .prepared(declares_s),
        Case::new(
            "done, the declared step skipped",
            TaskEvent::Done { force: false },
        )
        .with_step(StepState::Skipped, keyed)
        .prepared(declares_s),
        Case::new(
            "done by force, a declared step open",
            TaskEvent::Done { force: true },
        )
        .with_step(open, keyed)
        .prepared(declares_s),
        Case::new("fail", TaskEvent::Fail { reason: reason() }),
        Case::new(
            "block",
            TaskEvent::Block {
                reason: reason(),
                is_told: false,
            },
        ),
        Case::new("defer", defer),
        Case::new("cancel", TaskEvent::Cancel { reason: None }),
        Case::new("retry", retry(false)),
        Case::new(
            "retry for bob",
            TaskEvent::Retry {
                agent: Some(agent("bob")),
                force: false,
            },
        ),
        Case::new("restart", TaskEvent::Restart { agent: None }),
        Case::new("retry, used up", retry(false)).prepared(used_up),
        Case::new("retry by force, used up", retry(true)).prepared(used_up),
        Case::new("retry, a step of the rule once in doubt", retry(true))
            .with_step(open, RepeatRule::Once),
        Case::new("retry, given up", retry(false)).prepared(|task| task.tally.given_up = true),
        Case::new("interrupt", interrupt(false)),
        Case::new("interrupt a claimed task", interrupt(false)).prepared(|task| {
            task.agent = Some(agent("bob"));
        }),
        Case::new("interrupt a pinned task", interrupt(false)).prepared(|task| {
            (task.agent, task.pinned) = (Some(agent("bob")), true);
        }),
        Case::new(
            "interrupt a claimed task, its agent keeps it",
            interrupt(true),
        )
        .prepared(|task| {
            task.agent = Some(agent("bob"));
        }),
        Case::new("interrupt what an attempt holds", interrupt(false)).prepared(|task| {
            task.agent = Some(agent("bob"));
            if let Some(held) = &mut task.lease.held {
                held.holder = attempt_of_bob();
            }
        }),
        Case::new("release", TaskEvent::Release { force: false }),
        Case::new(
            "release a claimed task",
            TaskEvent::Release { force: false },
        )
        .prepared(|task| {
            task.agent = Some(agent("bob"));
        }),
        Case::new("release by force", TaskEvent::Release { force: true }),
        Case::new("begin a new step", begin()),
        Case::new("begin a failed step", begin()).with_step(failed, keyed),
        Case::new("begin a finished step", begin()).with_step(done, keyed),
        Case::new("begin in doubt, keyed", begin()).with_step(open, keyed),
        Case::new("begin in doubt, verify", begin()).with_step(open, RepeatRule::Verify),
        Case::new("begin in doubt, once", begin()).with_step(open, RepeatRule::Once),
        Case::new("end a begun step", end.clone()).with_step(open, keyed),
        Case::new("end a finished step", end.clone()).with_step(done, keyed),
        Case::new("end a step nobody began", end),
        Case::new("resolve a step in doubt", resolve.clone()).with_step(open, keyed),
        Case::new("resolve a finished step", resolve).with_step(done, keyed),
        Case::new("skip a declared step", skip.clone()).prepared(declares_s),
        Case::new("skip a failed step", skip.clone()).with_step(failed, keyed),
        Case::new("skip a step in doubt", skip.clone()).with_step(open, keyed),
        Case::new("skip a finished step", skip.clone()).with_step(done, keyed),
        Case::new("skip a skipped step", skip.clone()).with_step(StepState::Skipped, keyed),
        Case::new("skip a step nobody knows", skip),
        Case::new("begin a skipped step", begin()).with_step(StepState::Skipped, keyed),
    ]
}

fn interrupt(agent_keeps_it: bool) -> TaskEvent {
    TaskEvent::Interrupt {
        reason: "why".to_owned(),
        agent_keeps_it,
    }
}

fn attempt_of_bob() -> Holder {
    Holder::Attempt {
        attempt: "bob#1".to_owned(),
        shim: ProcessIdentity {
            pid: 1,
            start: 1,
            boot: "boot".to_owned(),
            node: None,
        },
        process: None,
    }
}

fn recover(decision: Decision) -> TaskEvent {
    let task = Change::first(
        &NewTask::bare(TaskId::new("t").expect("a valid id")),
        noon(),
    );
    let death = HolderDeath::of(&task, Cause::Signal, "why".to_owned(), noon());
    let policy = TaskPolicy::default();
    let context = RecoveryContext::of(&task, &death, &policy, false);
    TaskEvent::Recover(Box::new(RecoveryPlan {
        death,
        strategy: "test".to_owned(),
        decision,
        reason: None,
        trouble: None,
        context,
        policy,
        jitter: 0.5,
    }))
}

/// A failure that was reported.
pub(crate) fn fail() -> TaskEvent {
    let TaskEvent::Recover(mut plan) = recover(Decision::Resume) else {
        unreachable!()
    };
    plan.death.is_told = true;
    TaskEvent::Recover(plan)
}

fn short_change(change: &Change) -> String {
    match change {
        Change::Created(_) => "created".to_owned(),
        Change::Replaced(_) => "replaced".to_owned(),
        Change::Status { to, reason: None } => format!("→{to}"),
        Change::Status {
            to,
            reason: Some(_),
        } => format!("→{to}(why)"),
        Change::Assigned(Some(agent)) => format!("agent={agent}"),
        Change::Assigned(None) => "agent=".to_owned(),
        Change::Pinned(pinned) => if *pinned { "pinned" } else { "unpinned" }.to_owned(),
        Change::Retried => "retried".to_owned(),
        Change::Tally(tally) if tally.given_up => "given up".to_owned(),
        Change::Tally(tally) => format!("recoveries={}", tally.recoveries),
        Change::Spent(_) => "spent".to_owned(),
        Change::Metered { .. } => "metered".to_owned(),
        Change::LeaseTaken { .. } => "take".to_owned(),
        Change::LeaseEnded => "end".to_owned(),
        Change::FenceRaised => "raise".to_owned(),
        Change::ContextSet(_) => "set".to_owned(),
        Change::NotBefore(at) => if at.is_some() { "wait" } else { "due" }.to_owned(),
        Change::StepsDeclared(_) => "declared".to_owned(),
        Change::CheckpointSettings(_) => "door".to_owned(),
        Change::StepBegun(mark) => format!("begun#{}", mark.tries),
        Change::StepEnded { mark, .. } => format!("ended#{}", mark.tries),
        Change::StepResolved { mark, .. } => format!("resolved#{}", mark.tries),
        Change::StepSkipped { mark, .. } => format!("skipped#{}", mark.tries),
        Change::StepsCleared => "cleared".to_owned(),
        Change::Noted(kind, _) => format!("noted {}", kind.as_str()),
    }
}

fn short_refusal(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Illegal { to, .. } => format!("illegal →{to}"),
        Refusal::Held { .. } => "held".to_owned(),
        Refusal::Fenced { .. } => "fenced".to_owned(),
        Refusal::RetriesUsedUp { .. } => "retries used up".to_owned(),
        Refusal::GivenUp { .. } => "given up".to_owned(),
        Refusal::WaitsForPerson { .. } => "waits for a person".to_owned(),
        Refusal::UsedUp { why, .. } => format!("used up: {why}"),
        Refusal::NotBefore { at, .. } => format!("not before {}", at.since(noon())),
        Refusal::StepNotBegun { .. } => "not begun".to_owned(),
        Refusal::StepRunning { .. } => "running".to_owned(),
        Refusal::StepNotInDoubt { .. } => "not in doubt".to_owned(),
        Refusal::NoSuchStep { .. } => "no such step".to_owned(),
        Refusal::StepInDoubt { .. } => "in doubt".to_owned(),
        Refusal::StepUnresolved { .. } => "unresolved".to_owned(),
        Refusal::StepsLeftOpen { steps, .. } => format!("left open: {}", steps.len()),
        Refusal::StepFinished { .. } => "finished".to_owned(),
        Refusal::TooLarge(_) => "too large".to_owned(),
        Refusal::NoReason => "no reason".to_owned(),
        Refusal::OtherInput { .. } => "other input".to_owned(),
        Refusal::OtherAgent { .. } => "of another agent".to_owned(),
    }
}
