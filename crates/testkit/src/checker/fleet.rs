//! A fleet whose nodes were killed, frozen and cut off: nothing ran twice at once, nothing that was
//! acknowledged is lost or was done again.
//!
//! A copy is alive when it can act. A machine that is frozen whole has processes that cannot, and nobody
//! else can end them; their locks, and what they do in the moment between waking up and being killed, are
//! excused. What they try to write in that moment is not: the store has to refuse it.

use std::collections::{BTreeMap, BTreeSet};

use relight_core::event::{Event, EventKind};
use relight_core::status::TaskStatus;
use relight_core::task::Task;

use super::queue::check_writes;
use crate::world::fleet_log::{Deed, Line};
use crate::world::tally::{Promise, Violation};

/// By then whatever woke up with its machine is dead.
const WAKE_NS: u64 = 1_000_000_000;

/// A machine was frozen whole.
#[derive(Debug, Clone)]
pub struct Freeze {
    /// Which.
    pub node: String,
    /// From when on.
    pub from_ns: u64,
    /// When it was let go on.
    pub until_ns: u64,
}

/// What is wrong with what the agents did.
pub fn check_lines(lines: &[Line], freezes: &[Freeze]) -> Vec<Violation> {
    let agents: BTreeSet<&str> = lines.iter().map(|line| line.agent.as_str()).collect();
    let of_agent = |agent: &str| {
        let mut seen = Seen {
            freezes,
            ..Seen::default()
        };
        let own = lines.iter().filter(|line| line.agent == agent);
        own.for_each(|line| seen.take(line));
        let named = |(promise, text)| Violation::new(promise, format!("{agent}: {text}"));
        seen.found.into_iter().map(named).collect::<Vec<_>>()
    };
    agents.into_iter().flat_map(of_agent).collect()
}

/// What was seen of one agent so far.
#[derive(Debug, Default)]
struct Seen<'a> {
    freezes: &'a [Freeze],
    /// Each attempt's node.
    nodes: BTreeMap<u32, &'a str>,
    newest: u32,
    fence: u64,
    acknowledged: BTreeSet<&'a str>,
    keys: BTreeMap<&'a str, &'a str>,
    found: Vec<(Promise, String)>,
}

impl<'a> Seen<'a> {
    fn take(&mut self, line: &'a Line) {
        let Line {
            at_ns,
            attempt,
            deed,
            ..
        } = line;
        match deed {
            Deed::Born { node, fence } => return self.born(*attempt, node, *fence),
            Deed::Doubled { holder } if !self.is_excused(*holder, *at_ns) => {
                let place = self.nodes.get(holder).unwrap_or(&"?");
                let text =
                    format!("attempt {attempt} began while attempt {holder} lived on {place}");
                self.found.push((Promise::Doubled, text));
            }
            Deed::Effect { step, key } => self.acted(line, step, key),
            Deed::Ack { step } => drop(self.acknowledged.insert(step)),
            Deed::Odd { what } => self.found.push((Promise::Answer, what.clone())),
            Deed::Doubled { .. } | Deed::Fenced | Deed::Done => {}
        }
        if *attempt < self.newest && !self.is_excused(*attempt, *at_ns) {
            let text = format!(
                "attempt {attempt} told {deed:?} after attempt {} was born",
                self.newest
            );
            self.found.push((Promise::Doubled, text));
        }
    }

    fn born(&mut self, attempt: u32, node: &'a str, fence: u64) {
        if attempt <= self.newest || fence <= self.fence {
            let (newest, known) = (self.newest, self.fence);
            let text = format!(
                "attempt {attempt} with fence {fence} was born on {node} after attempt {newest} with {known}"
            );
            self.found.push((Promise::Doubled, text));
        }
        self.nodes.insert(attempt, node);
        self.newest = self.newest.max(attempt);
        self.fence = self.fence.max(fence);
    }

    fn acted(&mut self, line: &Line, step: &'a str, key: &'a str) {
        if self.acknowledged.contains(step) && !self.is_excused(line.attempt, line.at_ns) {
            let text = format!(
                "attempt {} did {step} again, which was acknowledged",
                line.attempt
            );
            self.found.push((Promise::Repeated, text));
        }
        let first = *self.keys.entry(step).or_insert(key);
        if first != key {
            let text = format!("{step} was given the keys {first} and {key}");
            self.found.push((Promise::Rule, text));
        }
    }

    /// Whether that attempt could not act at this moment, or had woken up just before.
    fn is_excused(&self, attempt: u32, at_ns: u64) -> bool {
        let Some(node) = self.nodes.get(&attempt) else {
            return false;
        };
        let within =
            |freeze: &&Freeze| (freeze.from_ns..freeze.until_ns + WAKE_NS).contains(&at_ns);
        self.freezes
            .iter()
            .filter(within)
            .any(|freeze| freeze.node == *node)
    }
}

/// What is wrong with what the store has of one task, held against what its agent was told.
pub fn check_task(task: &Task, events: &[Event], lines: &[Line]) -> Vec<Violation> {
    let id = task.id.as_str();
    let mut found = check_writes(events);
    let done: BTreeSet<String> = events
        .iter()
        .filter(|event| event.kind == EventKind::StepDone)
        .filter_map(|event| event.step.as_ref().map(ToString::to_string))
        .collect();
    for line in lines.iter().filter(|line| line.agent == id) {
        match &line.deed {
            Deed::Ack { step } if !done.contains(step) => {
                let text = format!("{step} was acknowledged and is not there");
                found.push(Violation::new(Promise::Lost, text));
            }
            _ => {}
        }
    }
    if task.status != TaskStatus::Completed {
        found.push(Violation::new(
            Promise::Lost,
            format!("it is {}", task.status),
        ));
    }
    if let Some(held) = task
        .lease
        .held
        .as_ref()
        .filter(|_| task.status == TaskStatus::Completed)
    {
        found.push(Violation::new(
            Promise::Record,
            format!("it is over and held by {}", held.holder),
        ));
    }
    for violation in &mut found {
        violation.text = format!("{id}: {}", violation.text);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn line(at_s: u64, attempt: u32, deed: Deed) -> Line {
        Line {
            at_ns: at_s * SECOND,
            agent: "a".into(),
            attempt,
            deed,
        }
    }

    fn born(at_s: u64, attempt: u32, node: &str) -> Line {
        line(
            at_s,
            attempt,
            Deed::Born {
                node: node.into(),
                fence: attempt.into(),
            },
        )
    }

    fn effect(at_s: u64, attempt: u32) -> Line {
        line(
            at_s,
            attempt,
            Deed::Effect {
                step: "s1".into(),
                key: "k".into(),
            },
        )
    }

    fn ack(at_s: u64, attempt: u32) -> Line {
        line(at_s, attempt, Deed::Ack { step: "s1".into() })
    }

    fn found(lines: &[Line], freezes: &[Freeze]) -> String {
        check_lines(lines, freezes)
            .iter()
            .map(|violation| format!("{violation}\n"))
            .collect()
    }

    /// The machine `n1` was frozen from the second 3 to the second 8.
    fn frozen() -> [Freeze; 1] {
        [Freeze {
            node: "n1".into(),
            from_ns: 3 * SECOND,
            until_ns: 8 * SECOND,
        }]
    }

    #[test]
    fn a_life_after_the_other_passes_and_a_step_in_doubt_may_be_done_again() {
        let lines = [
            born(1, 1, "n1"),
            effect(2, 1),
            born(6, 2, "n2"),
            effect(7, 2),
            ack(8, 2),
        ];
        assert_eq!(found(&lines, &[]), "");
    }

    #[test]
    fn whoever_acts_after_its_successor_was_born_is_a_double() {
        let lines = [born(1, 1, "n1"), born(6, 2, "n2"), effect(7, 1)];
        assert!(found(&lines, &[]).starts_with("Doubled: a: attempt 1 told"));
    }

    #[test]
    fn a_lock_that_is_taken_is_a_double_unless_its_machine_is_frozen() {
        let lines = [
            born(1, 1, "n1"),
            born(6, 2, "n2"),
            line(6, 2, Deed::Doubled { holder: 1 }),
        ];
        assert!(found(&lines, &[]).contains("while attempt 1 lived on n1"));
        assert_eq!(found(&lines, &frozen()), "");
    }

    #[test]
    fn a_machine_that_woke_up_is_excused_for_a_moment_only() {
        let at = |at_s: u64| [born(1, 1, "n1"), born(6, 2, "n2"), effect(at_s, 1)];
        assert_eq!(found(&at(8), &frozen()), "");
        assert!(found(&at(9), &frozen()).contains("Doubled"));
    }

    #[test]
    fn what_was_acknowledged_is_not_done_again() {
        let lines = [
            born(1, 1, "n1"),
            effect(2, 1),
            ack(3, 1),
            born(6, 2, "n2"),
            effect(7, 2),
        ];
        assert!(found(&lines, &[]).contains("Repeated: a: attempt 2 did s1 again"));
    }

    #[test]
    fn an_attempt_that_is_born_twice_is_a_double() {
        let lines = [born(1, 1, "n1"), born(2, 1, "n2")];
        assert!(found(&lines, &[]).contains("Doubled"));
    }
}
