//! Attempts and deaths of one agent: numbered without gaps, each with its cause, each charged once.

use std::collections::BTreeSet;

use crate::agent::Birth;
use crate::world::shown::ShownDeath;
use crate::world::tally::{Promise, Violation};

/// Every cause that there is.
const CAUSES: [&str; 9] = [
    "completed",
    "failed",
    "signal",
    "oom",
    "hung",
    "timeout",
    "stopped",
    "lost",
    "deferred",
];
/// Causes that no budget is charged for: a success that is to be repeated is progress.
const FREE: [&str; 3] = ["completed", "stopped", "deferred"];

/// All that is known of one agent's lives.
#[derive(Debug, Clone, Default)]
pub struct Lives {
    /// Its name.
    pub name: String,
    /// As it told them itself.
    pub births: Vec<Birth>,
    /// As the product tells them.
    pub deaths: Vec<ShownDeath>,
    /// Number of the newest attempt by the product.
    pub attempt_number: u32,
    /// Whether that one still lives.
    pub is_running: bool,
    /// Restarts charged by the product; not judged when it does not tell.
    pub restarts: Option<u32>,
    /// Causes that its flags lead to.
    pub own_causes: Vec<&'static str>,
    /// Attempts whose leader was killed.
    pub killed: BTreeSet<u32>,
    /// Attempts near which its shim was killed: nobody may know how they ended.
    pub shim_killed: BTreeSet<u32>,
    /// Attempts near which somebody told it to end.
    pub told_to_end: BTreeSet<u32>,
    /// `RELIGHT_DEATH_CAUSE` as attempts were given it.
    pub causes_told: Vec<(u32, String)>,
}

/// What is wrong with them.
pub fn check_lives(lives: &Lives) -> Vec<Violation> {
    let mut found = check_numbers(lives);
    found.extend(check_births(lives));
    found.extend(
        lives
            .deaths
            .iter()
            .filter_map(|death| check_cause(lives, death)),
    );
    found.extend(check_charges(lives));
    found.extend(check_told(lives));
    found
}

/// Ended attempts are 1, 2, 3 … up to the newest, or the one before it while that lives.
fn check_numbers(lives: &Lives) -> Vec<Violation> {
    let ended: Vec<u32> = lives.deaths.iter().map(|death| death.number).collect();
    let newest = lives.attempt_number - u32::from(lives.is_running && lives.attempt_number > 0);
    let mut found = Vec::new();
    for pair in ended.windows(2).filter(|pair| pair[0] == pair[1]) {
        found.push(record(lives, &format!("attempt {} ended twice", pair[0])));
    }
    let known: BTreeSet<u32> = ended.into_iter().collect();
    for number in (1..=newest).filter(|number| !known.contains(number)) {
        found.push(record(lives, &format!("attempt {number} has no death")));
    }
    for number in known.range(newest + 1..) {
        found.push(record(
            lives,
            &format!("attempt {number} ended and the newest is {newest}"),
        ));
    }
    found
}

/// Each attempt is born once at most, and none that the product does not know.
fn check_births(lives: &Lives) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut last = 0;
    for birth in &lives.births {
        let Birth { number, pid, .. } = birth;
        if *number <= last {
            let text = format!(
                "{}: attempt {number} (pid {pid}) was started after {last}",
                lives.name
            );
            found.push(Violation::new(Promise::Doubled, text));
        }
        if *number > lives.attempt_number {
            let text = format!(
                "attempt {number} lived and the product knows {}",
                lives.attempt_number
            );
            found.push(record(lives, &text));
        }
        last = last.max(*number);
    }
    found
}

fn check_cause(lives: &Lives, death: &ShownDeath) -> Option<Violation> {
    let ShownDeath { number, cause } = death;
    if !CAUSES.contains(&cause.as_str()) {
        return Some(record(
            lives,
            &format!("attempt {number} died of {cause:?}"),
        ));
    }
    // What the prover saw when it struck may be two lives old.
    let near = |attempts: &BTreeSet<u32>| {
        attempts
            .range(number.saturating_sub(2)..=number + 2)
            .count()
            > 0
    };
    let was_born = lives.births.iter().any(|birth| birth.number == *number);
    let is_possible = match cause.as_str() {
        // Sent by nobody but the prover, or by whoever swept what its shim left.
        "signal" => lives.killed.contains(number) || near(&lives.shim_killed) || !was_born,
        "stopped" => near(&lives.told_to_end),
        "lost" => near(&lives.shim_killed) || !was_born,
        own => lives.own_causes.contains(&own),
    };
    let text = format!("attempt {number} is said to have died of {cause}");
    (!is_possible).then(|| record(lives, &text))
}

/// Every death that was not asked for is charged once.
fn check_charges(lives: &Lives) -> Option<Violation> {
    let charged = lives.restarts?;
    let is_charged = |death: &&ShownDeath| !FREE.contains(&death.cause.as_str());
    let expected = lives.deaths.iter().filter(is_charged).count();
    let text = format!("{charged} restarts are charged for {expected} deaths");
    (charged as usize != expected).then(|| record(lives, &text))
}

/// A successor is told the very cause that is on record.
fn check_told(lives: &Lives) -> Vec<Violation> {
    let cause_of = |number: u32| lives.deaths.iter().find(|death| death.number == number);
    let wrong = |(number, told): &(u32, String)| {
        let death = cause_of(number.checked_sub(1)?)?;
        let text = format!(
            "attempt {number} was told {told:?}, on record is {:?}",
            death.cause
        );
        (death.cause != *told).then(|| record(lives, &text))
    };
    lives.causes_told.iter().filter_map(wrong).collect()
}

fn record(lives: &Lives, text: &str) -> Violation {
    Violation::new(Promise::Record, format!("{}: {text}", lives.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn birth(number: u32) -> Birth {
        Birth {
            number,
            pid: 100 + number,
            at_ns: 0,
            tag: format!("a.{number}.ff"),
        }
    }

    fn death(number: u32, cause: &str) -> ShownDeath {
        ShownDeath {
            number,
            cause: cause.to_owned(),
        }
    }

    /// Killed twice, then told to end.
    fn true_lives() -> Lives {
        Lives {
            name: "a".into(),
            births: vec![birth(1), birth(2), birth(3)],
            deaths: vec![death(1, "signal"), death(2, "signal"), death(3, "stopped")],
            attempt_number: 3,
            restarts: Some(2),
            killed: [1, 2].into(),
            told_to_end: [3].into(),
            causes_told: vec![(2, "signal".into()), (3, "signal".into())],
            ..Lives::default()
        }
    }

    fn found(change: impl Fn(&mut Lives)) -> String {
        let mut lives = true_lives();
        change(&mut lives);
        check_lives(&lives)
            .iter()
            .map(|violation| format!("{violation}\n"))
            .collect()
    }

    #[test]
    fn true_lives_pass() {
        assert_eq!(found(|_| {}), "");
    }

    #[test]
    fn an_attempt_that_was_begun_and_never_born_passes_with_its_death() {
        let change = |lives: &mut Lives| {
            lives.births.remove(1);
            lives.deaths[1] = death(2, "lost");
            lives.causes_told[1].1 = "lost".into();
        };
        assert_eq!(found(change), "");
    }

    #[test]
    fn a_number_born_twice_is_a_double() {
        let found = found(|lives| lives.births.insert(2, birth(2)));
        assert_eq!(
            found,
            "Doubled: a: attempt 2 (pid 102) was started after 2\n"
        );
    }

    #[test]
    fn a_death_that_is_not_on_record_is_found() {
        let found = found(|lives| drop(lives.deaths.remove(1)));
        assert!(
            found.contains("Record: a: attempt 2 has no death"),
            "{found}"
        );
    }

    #[test]
    fn a_live_attempt_needs_no_death() {
        let change = |lives: &mut Lives| {
            lives.deaths.pop();
            lives.is_running = true;
        };
        assert_eq!(found(change), "");
    }

    #[test]
    fn a_cause_that_nothing_led_to_is_found() {
        let found = found(|lives| lives.deaths[0].cause = "hung".into());
        assert!(
            found.contains("attempt 1 is said to have died of hung"),
            "{found}"
        );
        assert!(
            found.contains("attempt 2 was told \"signal\", on record is \"hung\""),
            "{found}"
        );
    }

    #[test]
    fn lost_is_believed_only_where_a_shim_was_killed() {
        let lost = |lives: &mut Lives| {
            lives.deaths[0].cause = "lost".into();
            lives.causes_told[0].1 = "lost".into();
        };
        assert!(found(lost).contains("attempt 1 is said to have died of lost"));
        let with_shim = |lives: &mut Lives| {
            lost(lives);
            lives.shim_killed = [1].into();
        };
        assert_eq!(found(with_shim), "");
    }

    #[test]
    fn a_restart_charged_twice_or_never_is_found() {
        for charged in [1, 3] {
            let found = found(|lives| lives.restarts = Some(charged));
            assert_eq!(
                found,
                format!("Record: a: {charged} restarts are charged for 2 deaths\n")
            );
        }
    }
}
