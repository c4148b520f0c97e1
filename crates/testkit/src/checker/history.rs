//! What the ledger alone shows.

use std::collections::{BTreeMap, BTreeSet};

use relight_core::step::RepeatRule;

use crate::world::ledger::Entry;
use crate::world::plan;
use crate::world::tally::{Promise, Violation};

/// Reads the lines of one task in order.
pub(super) fn check(entries: &[Entry]) -> Vec<Violation> {
    let mut history = History::default();
    for entry in entries {
        match entry {
            Entry::Effect { step, key, .. } => history.effect(step, key),
            Entry::Ack { step, output } => history.ack(step, output),
            Entry::Started { fence } => history.started(*fence),
            Entry::Done => {}
        }
    }
    history.found
}

/// What each effect of a step gave.
pub(super) fn effects_of<'a>(entries: &'a [Entry], step: &'a str) -> impl Iterator<Item = &'a str> {
    entries.iter().filter_map(move |entry| match entry {
        Entry::Effect {
            step: found, token, ..
        } if found == step => Some(token.as_str()),
        _ => None,
    })
}

#[derive(Debug, Default)]
struct History<'a> {
    acked: BTreeMap<&'a str, &'a str>,
    keys: BTreeMap<&'a str, &'a str>,
    acted: BTreeSet<&'a str>,
    fence: u64,
    found: Vec<Violation>,
}

impl<'a> History<'a> {
    fn effect(&mut self, step: &'a str, key: &'a str) {
        if self.acked.contains_key(step) {
            let text = format!("{step} acted after its end was acknowledged");
            self.found.push(Violation::new(Promise::Repeated, text));
        }
        if *self.keys.entry(step).or_insert(key) != key || key.is_empty() {
            self.found.push(Violation::new(
                Promise::Rule,
                format!("{step} got another key"),
            ));
        }
        let single = matches!(plan::rule_of(step), RepeatRule::Once | RepeatRule::Verify);
        if !self.acted.insert(step) && single {
            self.found
                .push(Violation::new(Promise::Rule, format!("{step} acted twice")));
        }
    }

    fn ack(&mut self, step: &'a str, output: &'a str) {
        if *self.acked.entry(step).or_insert(output) != output {
            let text = format!("{step} gave another output when it was asked again");
            self.found.push(Violation::new(Promise::Lost, text));
        }
    }

    fn started(&mut self, fence: u64) {
        if fence <= self.fence {
            let text = format!("fence {fence} was given after {}", self.fence);
            self.found.push(Violation::new(Promise::Fence, text));
        }
        self.fence = fence;
    }
}
