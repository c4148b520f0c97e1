//! What is remembered of a task's steps.

use relight_core::change::{Change, StepMark};
use relight_core::claimant::Claimant;
use relight_core::lease::Fence;
use relight_core::step::{
    Call, Cut, Output, RepeatRule, Step, StepKey, StepOutcome, StepState, WrittenFile,
};

use super::Harness;
use super::given::{
    FREE, add, add_held, all_events, all_of, begun, commit_of, done, ended, events, failed, fenced,
    id, later, mark, noon, output, put, read, step, step_key, steps,
};
use relight_store::CommitError;

/// By their first record, whatever was recorded later.
pub async fn steps_keep_their_order(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    for name in ["c", "a", "b"] {
        done(&*store, "t", FREE, vec![begun(name)]).await;
    }
    for name in ["b", "c"] {
        done(&*store, "t", FREE, vec![ended(name, "x")]).await;
    }
    assert_eq!(steps(&*store, "t").await, ["c", "a", "b"]);
}

/// As each of them alone; none where there is none.
pub async fn a_task_is_read_with_its_step(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    done(&*store, "t", FREE, vec![begun("s")]).await;
    let alone = (
        store.task(&id("t")).await.expect("a read"),
        step(&*store, "t", "s").await,
    );
    assert!(alone.0.is_some() && alone.1.is_some());
    let read = |task: &'static str, name: &'static str| {
        let store = &store;
        async move {
            store
                .task_with_step(&id(task), &step_key(name))
                .await
                .expect("a read")
        }
    };
    assert_eq!(read("t", "s").await, alone);
    assert_eq!(read("t", "other").await, (alone.0, None));
    assert_eq!(read("nothing", "s").await, (None, None));
}

/// Also under a good lease: the second was decided upon a state that is no more.
pub async fn of_two_ends_of_one_step_one_counts(harness: &dyn Harness) {
    let store = harness.open().await;
    let fence = add_held(&*store, "t").await;
    done(&*store, "t", fenced(fence), vec![begun("s")]).await;
    done(&*store, "t", fenced(fence), vec![ended("s", "x")]).await;
    let before = all_of(&*store, "t").await;
    for second in [ended("s", "y"), failed("s", 1, "z")] {
        let refused = put(&*store, "t", fenced(fence), vec![second]).await;
        assert!(matches!(refused, Err(CommitError::Moved(_))), "{refused:?}");
    }
    assert_eq!(all_of(&*store, "t").await, before);
}

/// Whatever the right and the mark say.
pub async fn nothing_follows_a_finished_step(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    done(&*store, "t", FREE, vec![begun("s"), ended("s", "x")]).await;
    for was_open in [false, true] {
        let mark = mark("s", 2, was_open);
        for change in [
            Change::StepBegun(mark.clone()),
            Change::StepResolved {
                mark: mark.clone(),
                happened: false,
            },
            Change::StepEnded {
                mark,
                outcome: StepOutcome::Failed,
                output: None,
            },
        ] {
            let refused = put(&*store, "t", FREE, vec![change]).await;
            assert!(matches!(refused, Err(CommitError::Moved(_))), "{refused:?}");
        }
    }
    assert_eq!(
        step(&*store, "t", "s").await.map(|step| step.state),
        Some(StepState::Done)
    );
}

/// State, tries, time and rule of the newest; nothing of the older ones.
pub async fn a_step_shows_its_newest_record(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    let record = |rule, tries, was_open| StepMark {
        rule,
        fingerprint: Some(u64::MAX - 1),
        ..mark("s", tries, was_open)
    };
    let (keyed, verify) = (RepeatRule::Keyed, RepeatRule::Verify);
    let cases = [
        (
            Change::StepBegun(record(keyed, 1, false)),
            StepState::Begun,
            keyed,
            1,
            None,
        ),
        (
            Change::StepEnded {
                mark: record(keyed, 1, true),
                outcome: StepOutcome::Failed,
                output: Some(Output::keep(-9, Vec::new())),
            },
            StepState::Failed,
            keyed,
            1,
            Some(-9),
        ),
        (
            Change::StepBegun(record(verify, 2, false)),
            StepState::Begun,
            verify,
            2,
            None,
        ),
        (
            Change::StepResolved {
                mark: record(verify, 2, true),
                happened: false,
            },
            StepState::Failed,
            verify,
            2,
            None,
        ),
        (
            Change::StepBegun(record(verify, 3, false)),
            StepState::Begun,
            verify,
            3,
            None,
        ),
        (
            Change::StepEnded {
                mark: record(verify, 3, true),
                outcome: StepOutcome::Done,
                output: None,
            },
            StepState::Done,
            verify,
            3,
            None,
        ),
    ];
    for (count, (change, state, rule, tries, exit_code)) in cases.into_iter().enumerate() {
        let at = later(count as u64);
        let commit = commit_of(&id("t"), FREE, vec![change]);
        store
            .commit(relight_store::Commit { at, ..commit })
            .await
            .expect("a free commit is taken");
        let fence = Fence(0);
        let fingerprint = Some(u64::MAX - 1);
        let key = step_key("s");
        let call = None;
        let expected = Step {
            key,
            state,
            rule,
            tries,
            fence,
            at,
            exit_code,
            fingerprint,
            call,
        };
        assert_eq!(step(&*store, "t", "s").await, Some(expected.clone()));
        assert_eq!(
            store
                .steps(&id("t"))
                .await
                .expect("a store that can be read"),
            [expected]
        );
    }
}

/// What it does is kept until it ends; that it is a call, for ever. It counts, but is no progress.
pub async fn an_observed_call_is_kept_while_it_is_open(harness: &dyn Harness) {
    let store = harness.open().await;
    let fence = add_held(&*store, "t").await;
    let file = WrittenFile {
        path: "/p".to_owned(),
        before: None,
        after: Some("b".to_owned()),
    };
    let call = Call {
        tool: "Bash".to_owned(),
        arguments: "{\"x\": 1}".to_owned(),
        file: Some(file),
    };
    let of = |was_open| StepMark {
        call: Some(call.clone()),
        ..mark("s", 1, was_open)
    };
    done(
        &*store,
        "t",
        fenced(fence),
        vec![Change::StepBegun(of(false))],
    )
    .await;
    let open = step(&*store, "t", "s").await.expect("it was begun");
    assert_eq!(
        (open.call, open.rule),
        (Some(call.clone()), mark("s", 1, false).rule)
    );
    let ended = Change::StepEnded {
        mark: of(true),
        outcome: StepOutcome::Done,
        output: None,
    };
    done(&*store, "t", fenced(fence), vec![ended]).await;
    let ended = step(&*store, "t", "s").await.expect("it has ended");
    assert_eq!(
        (ended.state, ended.call),
        (StepState::Done, Some(Call::default()))
    );
    let task = read(&*store, "t").await;
    assert_eq!(
        (task.steps_open, task.steps_done, task.tally.progress_at),
        (0, 1, None)
    );
}

/// It is closed: counted, shown, and nothing follows it.
pub async fn a_skipped_step_is_closed(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    let skip = |name| Change::StepSkipped {
        mark: mark(name, 0, false),
        reason: "not needed".to_owned(),
    };
    done(&*store, "t", FREE, vec![skip("s")]).await;
    assert_eq!(
        step(&*store, "t", "s").await.map(|step| step.state),
        Some(StepState::Skipped)
    );
    let task = read(&*store, "t").await;
    assert_eq!((task.steps_done, task.steps_open), (1, 0));
    for change in [skip("s"), Change::StepBegun(mark("s", 1, false))] {
        let refused = store.commit(commit_of(&id("t"), FREE, vec![change])).await;
        assert!(matches!(refused, Err(CommitError::Moved(_))), "{refused:?}");
    }
    let output = store
        .output(&id("t"), &step_key("s"))
        .await
        .expect("a store that can be read");
    assert_eq!(output, None);
}

/// The fence that the writer showed; 0 for one that showed none.
pub async fn a_step_says_under_which_lease_it_was_written(harness: &dyn Harness) {
    let store = harness.open().await;
    let fence = add_held(&*store, "t").await;
    done(&*store, "t", FREE, vec![begun("unfenced")]).await;
    done(&*store, "t", fenced(fence), vec![begun("fenced")]).await;
    assert_eq!(
        step(&*store, "t", "unfenced").await.map(|step| step.fence),
        Some(Fence(0))
    );
    assert_eq!(
        step(&*store, "t", "fenced").await.map(|step| step.fence),
        Some(fence)
    );
}

/// In doubt is in doubt, whatever the try before gave.
pub async fn a_new_try_has_no_exit_code_of_the_old_one(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    done(&*store, "t", FREE, vec![begun("s"), failed("s", 3, "no")]).await;
    assert_eq!(
        step(&*store, "t", "s")
            .await
            .and_then(|step| step.exit_code),
        Some(3)
    );
    done(
        &*store,
        "t",
        FREE,
        vec![Change::StepBegun(mark("s", 2, false))],
    )
    .await;
    assert_eq!(
        step(&*store, "t", "s")
            .await
            .and_then(|step| step.exit_code),
        None
    );
}

/// What the failed try said can be read while the next one runs.
pub async fn the_output_of_the_newest_end_is_kept_through_a_new_begin(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    done(&*store, "t", FREE, vec![begun("s")]).await;
    assert_eq!(output(&*store, "t", "s").await, None);
    done(&*store, "t", FREE, vec![failed("s", 3, "no")]).await;
    done(
        &*store,
        "t",
        FREE,
        vec![Change::StepBegun(mark("s", 2, false))],
    )
    .await;
    assert_eq!(
        output(&*store, "t", "s").await,
        Some(Output::keep(3, b"no".to_vec()))
    );
    done(&*store, "t", FREE, vec![ended("s", "yes")]).await;
    assert_eq!(
        output(&*store, "t", "s").await,
        Some(Output::keep(0, b"yes".to_vec()))
    );
}

/// A person's word has no output, and the failed try's is not it.
pub async fn a_resolved_step_gave_nothing(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    done(&*store, "t", FREE, vec![begun("s"), failed("s", 3, "no")]).await;
    done(
        &*store,
        "t",
        FREE,
        vec![Change::StepBegun(mark("s", 2, false))],
    )
    .await;
    let resolved = Change::StepResolved {
        mark: mark("s", 2, true),
        happened: true,
    };
    done(&*store, "t", FREE, vec![resolved]).await;
    let step = step(&*store, "t", "s").await.expect("the step is there");
    assert_eq!((step.state, step.exit_code), (StepState::Done, None));
    assert_eq!(output(&*store, "t", "s").await, None);
}

/// The newest end speaks, also when it says nothing.
pub async fn an_end_without_output_hides_the_one_before(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    done(&*store, "t", FREE, vec![begun("s"), failed("s", 3, "no")]).await;
    let (mark_begun, mark_ended) = (mark("s", 2, false), mark("s", 2, true));
    let without = Change::StepEnded {
        mark: mark_ended,
        outcome: StepOutcome::Done,
        output: None,
    };
    done(
        &*store,
        "t",
        FREE,
        vec![Change::StepBegun(mark_begun), without],
    )
    .await;
    assert_eq!(
        step(&*store, "t", "s")
            .await
            .and_then(|step| step.exit_code),
        None
    );
    assert_eq!(output(&*store, "t", "s").await, None);
}

/// Its events still tell of them.
pub async fn a_cleared_task_has_no_steps_but_its_history(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    done(
        &*store,
        "t",
        FREE,
        vec![begun("a"), ended("a", "x"), begun("b")],
    )
    .await;
    done(&*store, "t", FREE, vec![Change::StepsCleared]).await;
    assert_eq!(steps(&*store, "t").await, [""; 0]);
    assert_eq!(step(&*store, "t", "a").await, None);
    assert_eq!(output(&*store, "t", "a").await, None);
    let task = read(&*store, "t").await;
    assert_eq!((task.steps_done, task.steps_open), (0, 0));
    let kinds: Vec<_> = events(&*store, all_events())
        .await
        .iter()
        .map(|e| e.kind.as_str())
        .collect();
    assert_eq!(
        kinds,
        [
            "task.created",
            "step.begun",
            "step.done",
            "step.begun",
            "step.cleared"
        ]
    );
}

/// In the same commit too.
pub async fn a_step_begun_after_clearing_is_new(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    done(
        &*store,
        "t",
        FREE,
        vec![begun("a"), ended("a", "old"), begun("b")],
    )
    .await;
    done(
        &*store,
        "t",
        FREE,
        vec![begun("c"), Change::StepsCleared, begun("b"), begun("a")],
    )
    .await;
    assert_eq!(steps(&*store, "t").await, ["b", "a"]);
    assert_eq!(output(&*store, "t", "a").await, None);
    done(&*store, "t", FREE, vec![ended("a", "new")]).await;
    assert_eq!(
        output(&*store, "t", "a").await,
        Some(Output::keep(0, b"new".to_vec()))
    );
    let task = read(&*store, "t").await;
    assert_eq!((task.steps_done, task.steps_open), (1, 1));
}

/// The second time a name comes up is another step.
pub async fn occurrences_are_steps_of_their_own(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    let nth = |occurrence| StepMark {
        key: StepKey {
            occurrence,
            ..step_key("s")
        },
        ..mark("s", 1, false)
    };
    let occurrences = [2, u32::MAX, 1];
    let changes = occurrences.map(|n| Change::StepBegun(nth(n))).into();
    done(&*store, "t", FREE, changes).await;
    assert_eq!(steps(&*store, "t").await, ["s#2", "s#4294967295", "s"]);
    done(&*store, "t", FREE, vec![ended("s", "first")]).await;
    let second = StepKey {
        occurrence: 2,
        ..step_key("s")
    };
    let open = store
        .step(&id("t"), &second)
        .await
        .expect("a store that can be read");
    assert_eq!(open.map(|step| step.state), Some(StepState::Begun));
    assert_eq!(
        store
            .output(&id("t"), &second)
            .await
            .expect("a store that can be read"),
        None
    );
}

/// The same name in two tasks is two steps.
pub async fn tasks_do_not_share_steps(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    add(&*store, "u").await;
    done(&*store, "t", FREE, vec![begun("s"), ended("s", "of t")]).await;
    assert_eq!(step(&*store, "u", "s").await, None);
    done(&*store, "u", FREE, vec![begun("s")]).await;
    done(&*store, "u", FREE, vec![Change::StepsCleared]).await;
    assert_eq!(
        output(&*store, "t", "s").await,
        Some(Output::keep(0, b"of t".to_vec()))
    );
    assert_eq!(steps(&*store, "u").await, [""; 0]);
}

/// Up to the limit, every byte value.
pub async fn large_outputs_come_back_whole(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    let body: Vec<u8> = (0..relight_core::step::OUTPUT_BYTES_MAX)
        .map(|n| (n % 251) as u8)
        .collect();
    let given = Output::keep(0, body);
    assert_eq!(given.cut, None);
    let end = Change::StepEnded {
        mark: mark("s", 1, true),
        outcome: StepOutcome::Done,
        output: Some(given.clone()),
    };
    done(&*store, "t", FREE, vec![begun("s"), end]).await;
    let kept = output(&*store, "t", "s").await;
    assert!(kept == Some(given), "the body came back changed");
}

/// Also what was cut, redacted, and said beside.
pub async fn every_field_of_an_output_comes_back(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    let given = Output {
        exit_code: i32::MIN,
        body: (0..=255).collect(),
        stderr: "warning: schräg\n".to_owned(),
        cut: Some(Cut {
            bytes: 1 << 40,
            hash: "ab".repeat(32),
            head_bytes: 128,
        }),
        redacted: true,
    };
    let end = Change::StepEnded {
        mark: mark("s", 1, true),
        outcome: StepOutcome::Done,
        output: Some(given.clone()),
    };
    done(&*store, "t", FREE, vec![begun("s"), end]).await;
    assert_eq!(output(&*store, "t", "s").await, Some(given));
    assert_eq!(
        step(&*store, "t", "s")
            .await
            .and_then(|step| step.exit_code),
        Some(i32::MIN)
    );
}

/// Nothing printed is something known.
pub async fn an_empty_output_is_not_no_output(harness: &dyn Harness) {
    let store = harness.open().await;
    add(&*store, "t").await;
    let without = Change::StepEnded {
        mark: mark("none", 1, true),
        outcome: StepOutcome::Done,
        output: None,
    };
    done(
        &*store,
        "t",
        FREE,
        vec![begun("empty"), ended("empty", ""), begun("none"), without],
    )
    .await;
    assert_eq!(output(&*store, "t", "empty").await, Some(Output::default()));
    assert_eq!(
        step(&*store, "t", "empty")
            .await
            .and_then(|step| step.exit_code),
        Some(0)
    );
    assert_eq!(output(&*store, "t", "none").await, None);
    assert_eq!(
        step(&*store, "t", "none")
            .await
            .and_then(|step| step.exit_code),
        None
    );
}

/// In order, with their counts.
pub async fn a_thousand_steps_are_all_there(harness: &dyn Harness) {
    let store = harness.open().await;
    let fence = add_held(&*store, "t").await;
    let names: Vec<String> = (0..1_000).map(|number| format!("step {number}")).collect();
    for hundred in names.chunks(100) {
        let changes = hundred
            .iter()
            .flat_map(|name| [begun(name), ended(name, name)])
            .collect();
        done(&*store, "t", fenced(fence), changes).await;
    }
    assert_eq!(steps(&*store, "t").await, names);
    let task = read(&*store, "t").await;
    assert_eq!((task.steps_done, task.steps_open, task.seq), (1_000, 0, 12));
    let last = output(&*store, "t", "step 999").await;
    assert_eq!(last, Some(Output::keep(0, b"step 999".to_vec())));
}

/// Writers that show the same fence need not wait for one another.
pub async fn steps_of_one_holder_go_side_by_side(harness: &dyn Harness) {
    let stores = [harness.open().await, harness.open().await];
    let fence = add_held(&*stores[0], "t").await;
    let all: Vec<_> = (0..40)
        .map(|number| {
            let store = stores[number % 2].clone();
            let name = format!("s{number}");
            let commit = commit_of(
                &id("t"),
                fenced(fence),
                vec![begun(&name), ended(&name, &name)],
            );
            tokio::spawn(async move { store.commit(commit).await })
        })
        .collect();
    let mut seqs = Vec::new();
    for result in all {
        seqs.push(
            result
                .await
                .expect("no panic")
                .expect("the holder writes")
                .seq,
        );
    }
    seqs.sort_unstable();
    assert_eq!(seqs, (3..43).collect::<Vec<u64>>());
    let task = read(&*stores[1], "t").await;
    assert_eq!((task.seq, task.steps_done, task.steps_open), (42, 40, 0));
    assert_eq!(steps(&*stores[1], "t").await.len(), 40);
}

/// Reads about what nobody wrote answer plainly.
pub async fn what_is_not_there_is_nothing(harness: &dyn Harness) {
    let store = harness.open().await;
    assert_eq!(
        store
            .task(&id("t"))
            .await
            .expect("a store that can be read"),
        None
    );
    assert_eq!(step(&*store, "t", "s").await, None);
    assert_eq!(output(&*store, "t", "s").await, None);
    assert_eq!(steps(&*store, "t").await, [""; 0]);
    let agent = super::given::agent("a");
    assert_eq!(
        store
            .claimable(&Claimant::new(agent), noon(), 9)
            .await
            .expect("a store that can be read"),
        []
    );
    assert_eq!(
        store
            .newest_event()
            .await
            .expect("a store that can be read"),
        0
    );
    assert_eq!(events(&*store, all_events()).await, []);
}
