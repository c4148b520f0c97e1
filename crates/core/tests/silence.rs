//! When an agent is called hung, and when it is not.

use proptest::prelude::*;
use relight_core::agent::silence::{
    AttemptPhase, CONFIRM_MS, LATE_MS, OpenWork, SignSource, Silence, SilenceCheck, WAITING_MS_MAX,
};
use relight_core::time::Span;

const MAX_MS: u64 = 10_000;

use SignSource::{Beat, Hook, Output, Steps};
use SilenceCheck::{Again, Fine, Hung};

fn judged_by(sources: &[SignSource]) -> Silence {
    Silence::new(Some(Span::from_ms(MAX_MS)), sources.to_vec(), 0)
}

/// What two looks find at the limit, on time.
fn looks_at_the_limit(silence: &mut Silence) -> (u64, SilenceCheck) {
    let first_ms = silence.next_look_ms().expect("it is judged");
    let Again { at_ms } = silence.look(first_ms) else {
        return (first_ms, Fine);
    };
    (at_ms, silence.look(at_ms))
}

#[test]
fn silence_is_judged_at_the_limit_and_confirmed() {
    let mut silence = judged_by(&[Output]);
    assert_eq!(silence.next_look_ms(), Some(10_000));
    assert_eq!(silence.look(9_999), Fine);
    assert_eq!(silence.look(10_000), Again { at_ms: 10_050 });
    assert_eq!(silence.next_look_ms(), Some(10_050));
    assert_eq!(silence.look(10_049), Again { at_ms: 10_050 });
    assert_eq!(silence.look(10_050), Hung { silent_ms: 10_050 });
}

#[test]
fn without_limit_or_sources_nothing_is_judged() {
    for mut silence in [
        Silence::new(None, vec![Output], 0),
        Silence::new(Some(Span::ZERO), vec![Output], 0),
        Silence::new(Some(Span::from_ms(1)), Vec::new(), 0),
    ] {
        assert_eq!(silence.next_look_ms(), None);
        assert_eq!(silence.look(u64::MAX), Fine);
    }
}

#[test]
fn one_source_that_speaks_is_enough() {
    for source in [Output, Beat, Steps, Hook] {
        let mut silence = judged_by(&[Output, Beat, Steps, Hook]);
        silence.sign(source, 9_000);
        assert_eq!(
            looks_at_the_limit(&mut silence),
            (19_050, Hung { silent_ms: 10_050 })
        );
    }
}

#[test]
fn open_work_explains_silence_for_as_long_as_it_may() {
    let of = |deadline_ms| OpenWork {
        deadline_ms,
        active_ms: 1_000,
    };
    let limit = Some(Span::from_secs(60));
    assert_eq!(of(Some(5_000)).explains_until_ms(limit), 5_000);
    assert_eq!(of(None).explains_until_ms(limit), 61_000);
    assert_eq!(of(None).explains_until_ms(None), u64::MAX);
}

#[test]
fn a_silence_that_open_work_explains_is_judged_a_window_after_the_work() {
    let mut silence = judged_by(&[Output]);
    for look_ms in [10_000, 20_000, 30_000] {
        silence.explained(25_000, look_ms);
        assert_eq!(silence.look(look_ms), Fine);
    }
    assert_eq!(silence.next_look_ms(), Some(35_000));
    assert_eq!(
        looks_at_the_limit(&mut silence),
        (35_050, Hung { silent_ms: 35_050 })
    );
}

#[test]
fn a_verb_that_waits_is_a_sign_whatever_is_declared_and_ends_no_waiting() {
    let mut silence = judged_by(&[Beat]);
    silence.waiting(50_000, 1_000);
    silence.verb(2_000);
    assert_eq!(silence.phase(3_000), AttemptPhase::Waiting);
    assert_eq!(silence.last_sign_ms(), 2_000);
}

#[test]
fn a_loud_agent_that_is_judged_by_beats_hangs_all_the_same() {
    let mut silence = judged_by(&[Beat]);
    silence.sign(Output, 9_000);
    assert_eq!(silence.last_sign_ms(), 0);
    assert_eq!(
        looks_at_the_limit(&mut silence),
        (10_050, Hung { silent_ms: 10_050 })
    );
}

#[test]
fn a_sign_between_the_looks_clears_the_doubt() {
    let mut silence = judged_by(&[Output]);
    assert_eq!(silence.look(10_000), Again { at_ms: 10_050 });
    silence.sign(Output, 10_049);
    assert_eq!(silence.look(10_050), Fine);
    assert_eq!(silence.next_look_ms(), Some(20_049));
}

#[test]
fn a_late_look_begins_the_window_anew() {
    let (limit_ms, late_ms) = (MAX_MS, MAX_MS + LATE_MS);
    let mut on_time = judged_by(&[Output]);
    assert_eq!(
        on_time.look(late_ms),
        Again {
            at_ms: late_ms + CONFIRM_MS
        }
    );
    let mut frozen_before_the_first = judged_by(&[Output]);
    assert_eq!(frozen_before_the_first.look(late_ms + 1), Fine);
    assert_eq!(
        frozen_before_the_first.next_look_ms(),
        Some(late_ms + 1 + MAX_MS)
    );
    let mut frozen_between = judged_by(&[Output]);
    assert_eq!(
        frozen_between.look(limit_ms),
        Again {
            at_ms: limit_ms + CONFIRM_MS
        }
    );
    assert_eq!(
        frozen_between.look(limit_ms + CONFIRM_MS + LATE_MS + 1),
        Fine
    );
    assert_eq!(frozen_between.last_sign_ms(), 0);
}

#[test]
fn who_waits_is_not_judged_and_has_a_window_afterwards() {
    let mut silence = judged_by(&[Output, Beat]);
    silence.waiting(60_000, 1_000);
    assert_eq!(silence.look(59_999), Fine);
    assert_eq!(silence.next_look_ms(), Some(70_000));
    assert_eq!(
        looks_at_the_limit(&mut silence),
        (70_050, Hung { silent_ms: 69_050 })
    );
}

#[test]
fn output_does_not_end_waiting_but_a_word_does() {
    let waits_on = |say: fn(&mut Silence)| {
        let mut silence = judged_by(&[Output, Beat, Steps]);
        silence.waiting(60_000, 1_000);
        say(&mut silence);
        (silence.phase(2_000), silence.next_look_ms())
    };
    let still_waiting = (AttemptPhase::Waiting, Some(70_000));
    let at_work = (AttemptPhase::Working, Some(12_000));
    assert_eq!(
        waits_on(|silence| silence.sign(Output, 2_000)),
        still_waiting
    );
    assert_eq!(
        waits_on(|silence| silence.sign(Steps, 2_000)),
        still_waiting
    );
    assert_eq!(waits_on(|silence| silence.sign(Hook, 2_000)), still_waiting);
    assert_eq!(waits_on(|silence| silence.sign(Beat, 2_000)), at_work);
    assert_eq!(waits_on(|silence| silence.ready(2_000)), at_work);
    assert_eq!(waits_on(|silence| silence.waiting(0, 2_000)), at_work);
    let longer = (AttemptPhase::Waiting, Some(100_000));
    assert_eq!(waits_on(|silence| silence.waiting(90_000, 2_000)), longer);
}

#[test]
fn waiting_and_more_time_are_bounded() {
    let mut waiting = judged_by(&[Output]);
    waiting.waiting(u64::MAX, 5);
    assert_eq!(waiting.next_look_ms(), Some(5 + WAITING_MS_MAX + MAX_MS));
    let mut extended = judged_by(&[Output]);
    extended.extend(Span::from_ms(u64::MAX), 5);
    assert_eq!(extended.next_look_ms(), Some(5 + WAITING_MS_MAX));
}

#[test]
fn more_time_is_not_shortened_by_later_signs() {
    let mut silence = judged_by(&[Output, Beat]);
    silence.sign(Beat, 1_000);
    silence.extend(Span::from_secs(60), 1_000);
    silence.sign(Output, 2_000);
    silence.extend(Span::from_secs(1), 3_000);
    assert_eq!(silence.next_look_ms(), Some(61_000));
    silence.sign(Output, 58_000);
    assert_eq!(silence.next_look_ms(), Some(68_000));
}

#[test]
fn more_time_asked_for_between_the_looks_is_given() {
    let mut silence = judged_by(&[Output]);
    assert_eq!(silence.look(10_000), Again { at_ms: 10_050 });
    silence.extend(Span::from_secs(5), 10_020);
    assert_eq!(silence.look(10_050), Fine);
    assert_eq!(silence.next_look_ms(), Some(15_020));
}

#[test]
fn phases_follow_what_was_heard() {
    let mut silence = judged_by(&[Beat]);
    silence.sign(Output, 1);
    assert_eq!(silence.phase(1), AttemptPhase::Starting);
    silence.sign(Beat, 2);
    assert_eq!(silence.phase(2), AttemptPhase::Working);
    silence.waiting(100, 3);
    assert_eq!(
        (silence.phase(99), silence.phase(100)),
        (AttemptPhase::Waiting, AttemptPhase::Working)
    );
}

/// Looks as a supervisor does, each time as late as said, until it calls the agent hung or the time is
/// over. Signs are heard lazily, at the look after them.
fn supervise(signs_ms: &[u64], lateness_ms: &[u64], until_ms: u64) -> Option<(u64, u64)> {
    let mut silence = judged_by(&[Output, Steps]);
    let mut heard = 0;
    for late_ms in lateness_ms.iter().cycle() {
        let now_ms = silence.next_look_ms().expect("it is judged") + late_ms;
        if now_ms > until_ms {
            break;
        }
        while let Some(sign_ms) = signs_ms.get(heard).filter(|sign_ms| **sign_ms <= now_ms) {
            silence.sign(Output, *sign_ms);
            heard += 1;
        }
        if let Hung { silent_ms } = silence.look(now_ms) {
            return Some((now_ms, silent_ms));
        }
    }
    None
}

fn moments(gaps_ms: &[u64]) -> Vec<u64> {
    let sum = |sum: &mut u64, gap: &u64| {
        *sum += gap;
        Some(*sum)
    };
    gaps_ms.iter().scan(0, sum).collect()
}

proptest! {
    #[test]
    fn signs_closer_together_than_the_limit_are_never_hung(
        gaps_ms in prop::collection::vec(1..MAX_MS, 1..50),
        lateness_ms in prop::collection::vec(0..5_000_u64, 1..20),
    ) {
        let signs_ms = moments(&gaps_ms);
        let last_ms = *signs_ms.last().unwrap();
        prop_assert_eq!(supervise(&signs_ms, &lateness_ms, last_ms), None);
    }

    #[test]
    fn silence_is_found_at_the_limit_and_never_before(
        gaps_ms in prop::collection::vec(1..MAX_MS, 0..50),
        lateness_ms in prop::collection::vec(0..=20_u64, 1..20),
    ) {
        let signs_ms = moments(&gaps_ms);
        let last_ms = signs_ms.last().copied().unwrap_or(0);
        let (at_ms, silent_ms) = supervise(&signs_ms, &lateness_ms, u64::MAX).unwrap();
        prop_assert_eq!(at_ms - last_ms, silent_ms);
        prop_assert!(silent_ms >= MAX_MS + CONFIRM_MS);
        prop_assert!(silent_ms <= MAX_MS + CONFIRM_MS + 2 * 20);
    }

    /// Whatever is said, in any order, with looks at any time.
    #[test]
    fn nobody_is_hung_who_spoke_waits_or_has_more_time(
        acts in prop::collection::vec((0..7_u8, 0..4_000_u64, 0..40_000_u64), 1..200),
    ) {
        let mut silence = judged_by(&[Output, Beat]);
        let (mut now_ms, mut spoke_ms, mut waits_ms, mut extended_ms) = (0, 0, 0, 0);
        for (act, gap_ms, span_ms) in acts {
            now_ms += gap_ms;
            match act {
                0 => silence.sign(Output, now_ms),
                1 => silence.sign(Beat, now_ms),
                2 => silence.ready(now_ms),
                3 => silence.waiting(now_ms + span_ms, now_ms),
                4 => silence.extend(Span::from_ms(span_ms), now_ms),
                on_time_or_not => {
                    let due_ms = silence.next_look_ms().unwrap();
                    now_ms = if on_time_or_not == 5 { now_ms.max(due_ms) } else { now_ms };
                    if let Hung { .. } = silence.look(now_ms) {
                        prop_assert!(now_ms >= spoke_ms + MAX_MS + CONFIRM_MS);
                        prop_assert!(now_ms >= waits_ms + MAX_MS && now_ms >= extended_ms);
                    }
                }
            }
            if act <= 3 {
                spoke_ms = now_ms;
            }
            match act {
                1 | 2 => waits_ms = 0,
                3 => waits_ms = now_ms + span_ms,
                4 => extended_ms = extended_ms.max(now_ms + span_ms),
                _ => {}
            }
        }
    }
}
