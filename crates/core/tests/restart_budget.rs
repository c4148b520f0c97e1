//! Restart budgets: the lives of agents as tables, and what holds for every life.

use proptest::prelude::{Just, Strategy, prop, proptest};
use proptest::prop_oneof;
use relight_core::restart_budget::{
    HourCount, RestartPolicy, RestartVerdict, Tally, UsedUp, is_due, moved, next, progress,
};
use relight_core::time::{Span, Time};

const HOUR: Span = Span::from_secs(3_600);
const YEAR_MS: i64 = 365 * 86_400_000;

fn noon() -> Time {
    Time::from_ms(1_777_636_800_000)
}

/// Dies until it is terminated, always at noon; what was answered, as a person would say it.
fn deaths(policy: &RestartPolicy, jitter: f64) -> Vec<String> {
    let mut tally = Tally::default();
    let mut answers = Vec::new();
    loop {
        let (kept, verdict) = next(policy, tally, noon(), jitter);
        tally = kept;
        answers.push(match verdict {
            RestartVerdict::AtOnce => "at once".to_owned(),
            RestartVerdict::At(at) => format!("after {}", at.since(noon())),
            RestartVerdict::Terminate { why } => why.to_string(),
        });
        if let RestartVerdict::Terminate { .. } = verdict {
            return answers;
        }
    }
}

#[test]
fn what_was_lost_with_its_node_is_charged_to_the_total_alone() {
    let policy = RestartPolicy {
        total_max: 3,
        ..RestartPolicy::default()
    };
    let now = Time::from_ms(0);
    let mut tally = Tally::default();
    for restarts in 1..=3 {
        let (next, verdict) = moved(&policy, tally, now);
        assert_eq!(
            (next.in_a_row, next.total(), verdict),
            (0, restarts, RestartVerdict::AtOnce)
        );
        tally = next;
    }
    let (_, verdict) = moved(&policy, tally, now);
    assert!(matches!(
        verdict,
        RestartVerdict::Terminate {
            why: UsedUp::Total { restarts: 3, .. }
        }
    ));
}

#[test]
fn the_first_recovery_is_at_once_and_the_fourth_death_is_the_last() {
    insta::assert_snapshot!(deaths(&RestartPolicy::default(), 0.5).join("\n"), @r"
    at once
    after 1m
    after 2m
    recovered 3 times in a row without progress
    ");
}

#[test]
fn waits_grow_up_to_the_longest() {
    let policy = RestartPolicy {
        max_attempts: 10,
        ..RestartPolicy::default()
    };
    insta::assert_snapshot!(deaths(&policy, 0.5).join("\n"), @r"
    at once
    after 1m
    after 2m
    after 4m
    after 8m
    after 16m
    after 32m
    after 1h
    after 1h
    after 1h
    recovered 10 times in a row without progress
    ");
}

#[test]
fn chance_moves_a_wait_by_a_fifth_either_way() {
    let second = |jitter| deaths(&RestartPolicy::default(), jitter).swap_remove(1);
    assert_eq!(
        [0.0, 0.5, 1.0].map(second),
        ["after 48s", "after 1m", "after 1m 12s"]
    );
}

#[test]
fn without_attempts_the_first_death_is_the_last() {
    let policy = RestartPolicy {
        max_attempts: 0,
        ..RestartPolicy::default()
    };
    assert_eq!(deaths(&policy, 0.5), ["no recovery is allowed"]);
}

#[test]
fn a_limit_that_was_reached_is_told_in_plain_words() {
    let window = Span::from_secs(86_400);
    let told = [0, 1, 2].map(|count| {
        let row = UsedUp::Row { recoveries: count };
        let total = UsedUp::Total {
            restarts: count,
            window,
        };
        format!("{row} | {total}")
    });
    insta::assert_snapshot!(told.join("\n"), @r"
    no recovery is allowed | no restart is allowed
    recovered once without progress | restarted once within 1d
    recovered 2 times in a row without progress | restarted 2 times within 1d
    ");
}

#[test]
fn progress_resets_the_row_and_not_the_total() {
    let policy = RestartPolicy {
        total_max: 5,
        ..RestartPolicy::default()
    };
    let mut tally = Tally::default();
    for _ in 0..5 {
        let (kept, verdict) = next(&policy, tally, noon(), 0.5);
        assert_eq!(verdict, RestartVerdict::AtOnce);
        tally = progress(kept);
    }
    let (kept, verdict) = next(&policy, tally.clone(), noon(), 0.5);
    let why = UsedUp::Total {
        restarts: 5,
        window: policy.total_window,
    };
    assert_eq!((kept, verdict), (tally, RestartVerdict::Terminate { why }));
    assert_eq!(why.to_string(), "restarted 5 times within 1d");
}

#[test]
fn a_stable_life_counts_as_progress() {
    let policy = RestartPolicy::default();
    assert!(policy.is_stable(policy.stable_after));
    assert!(!policy.is_stable(Span::from_ms(policy.stable_after.as_ms() - 1)));
}

/// A total that is used up at noon, and what a death at another time is answered.
fn death_after_the_total_was_used_up(ms_later: i64) -> (Tally, RestartVerdict) {
    let policy = RestartPolicy::default();
    let hour = noon().as_ms() / HOUR.as_ms().cast_signed();
    let tally = Tally {
        in_a_row: 0,
        deferrals: 0,
        hours: vec![HourCount {
            hour,
            restarts: 200,
        }],
    };
    next(
        &policy,
        tally,
        Time::from_ms(noon().as_ms() + ms_later),
        0.5,
    )
}

#[test]
fn the_total_passes_with_the_window() {
    let hour_ms = HOUR.as_ms().cast_signed();
    let terminated = |ms| {
        matches!(
            death_after_the_total_was_used_up(ms).1,
            RestartVerdict::Terminate { .. }
        )
    };
    assert!(terminated(0) && terminated(23 * hour_ms) && terminated(24 * hour_ms));
    assert!(!terminated(25 * hour_ms));
}

#[test]
fn a_clock_set_back_a_year_forgives_nothing_and_waits_for_no_year() {
    let (tally, verdict) = death_after_the_total_was_used_up(-YEAR_MS);
    assert!(matches!(verdict, RestartVerdict::Terminate { .. }));
    let a_day_later = Time::from_ms(noon().as_ms() - YEAR_MS).plus(Span::from_secs(25 * 3_600));
    let (_, verdict) = next(&RestartPolicy::default(), tally, a_day_later, 0.5);
    assert_eq!(verdict, RestartVerdict::AtOnce);
}

#[test]
fn a_clock_set_forward_a_year_forgives_the_total_but_not_the_row() {
    let policy = RestartPolicy::default();
    let tally = Tally {
        in_a_row: 3,
        ..death_after_the_total_was_used_up(0).0
    };
    let a_year_later = Time::from_ms(noon().as_ms() + YEAR_MS);
    let (kept, verdict) = next(&policy, tally, a_year_later, 0.5);
    assert_eq!(
        verdict,
        RestartVerdict::Terminate {
            why: UsedUp::Row { recoveries: 3 }
        }
    );
    assert_eq!(kept.total(), 0);
}

#[test]
fn a_wait_is_over_at_its_time_or_when_the_clock_was_set_back() {
    let policy = RestartPolicy::default();
    let at = noon();
    let due = |ms: i64| is_due(&policy, at, Time::from_ms(at.as_ms() + ms));
    assert!(due(0) && due(1) && due(YEAR_MS));
    assert!(!due(-1) && !due(-3_600_000));
    assert!(due(-3_600_001) && due(-YEAR_MS));
}

#[test]
fn a_tally_on_disk_is_small_and_comes_back() {
    let tally = Tally {
        in_a_row: 2,
        deferrals: 0,
        hours: vec![HourCount {
            hour: 493_787,
            restarts: 4,
        }],
    };
    let text = serde_json::to_string(&tally).unwrap();
    insta::assert_snapshot!(text, @r#"{"in_a_row":2,"deferrals":0,"hours":[{"hour":493787,"restarts":4}]}"#);
    assert_eq!(serde_json::from_str::<Tally>(&text).unwrap(), tally);
}

/// A death after some time on a clock that may jump, by some chance, with or without progress first.
#[derive(Debug, Clone)]
struct Death {
    clock_moved_ms: i64,
    jitter: f64,
    progress_before: bool,
}

fn lives() -> impl Strategy<Value = Vec<Death>> {
    let moved = prop_oneof![
        6 => 0..7_200_000i64,
        1 => -7_200_000..0i64,
        1 => prop_oneof![Just(-YEAR_MS), Just(YEAR_MS), Just(i64::MIN / 4), Just(i64::MAX / 4)],
    ];
    let death =
        (moved, 0.0..=1.0f64, proptest::bool::ANY).prop_map(|(clock_moved_ms, jitter, p)| Death {
            clock_moved_ms,
            jitter,
            progress_before: p,
        });
    prop::collection::vec(death, 0..60)
}

fn policies() -> impl Strategy<Value = RestartPolicy> {
    (
        0..5u32,
        0..100_000u64,
        0.0..10.0f64,
        0..500_000u64,
        0..30u32,
        0..100_000_000u64,
    )
        .prop_map(
            |(max_attempts, cooldown, growth, cooldown_max, total_max, window)| RestartPolicy {
                max_attempts,
                cooldown: Span::from_ms(cooldown),
                growth,
                cooldown_max: Span::from_ms(cooldown_max),
                total_max,
                total_window: Span::from_ms(window),
                ..RestartPolicy::default()
            },
        )
}

/// Lives through all deaths; `see` is shown the tally before, the time, and the answer.
fn live(
    policy: &RestartPolicy,
    deaths: &[Death],
    mut see: impl FnMut(&Tally, Time, &(Tally, RestartVerdict)),
) {
    let (mut tally, mut now) = (Tally::default(), noon());
    for death in deaths {
        now = Time::from_ms(now.as_ms().saturating_add(death.clock_moved_ms));
        if death.progress_before {
            tally = progress(tally);
        }
        let answer = next(policy, tally.clone(), now, death.jitter);
        see(&tally, now, &answer);
        tally = answer.0;
    }
}

proptest! {
    #[test]
    fn no_wait_is_longer_than_the_longest(policy in policies(), deaths in lives()) {
        live(&policy, &deaths, |_, now, (_, verdict)| {
            if let RestartVerdict::At(at) = verdict {
                assert!(*at >= now && at.since(now) <= policy.cooldown_max);
            }
        });
    }

    #[test]
    fn no_limit_is_ever_passed(policy in policies(), deaths in lives()) {
        live(&policy, &deaths, |_, _, (kept, _)| {
            assert!(kept.in_a_row <= policy.max_attempts && kept.total() <= policy.total_max);
        });
    }

    #[test]
    fn a_recovery_is_charged_once_and_a_termination_not(policy in policies(), deaths in lives()) {
        live(&policy, &deaths, |before, _, (kept, verdict)| {
            let charged = u32::from(!matches!(verdict, RestartVerdict::Terminate { .. }));
            assert_eq!(kept.in_a_row, before.in_a_row + charged);
            assert!(kept.total() <= before.total() + charged && kept.total() >= charged);
        });
    }

    #[test]
    fn the_first_recovery_after_progress_is_at_once_or_never(policy in policies(), deaths in lives()) {
        live(&policy, &deaths, |before, _, (_, verdict)| {
            assert!(before.in_a_row > 0 || !matches!(verdict, RestartVerdict::At(_)));
        });
    }

    #[test]
    fn a_tally_stays_small_and_in_order(policy in policies(), deaths in lives()) {
        let hours_max = policy.total_window.as_ms().div_ceil(HOUR.as_ms()) as usize + 1;
        live(&policy, &deaths, |_, now, (kept, _)| {
            assert!(kept.hours.is_sorted_by(|a, b| a.hour < b.hour));
            assert!(kept.hours.len() <= hours_max.min(policy.total_max as usize));
            let hour = now.as_ms().div_euclid(HOUR.as_ms().cast_signed());
            assert!(kept.hours.iter().all(|count| count.hour <= hour));
        });
    }
}
