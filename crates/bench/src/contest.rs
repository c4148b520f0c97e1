//! Runs contestants in turn, round after round, so that a noisy machine hurts all alike.

use std::collections::BTreeMap;

use anyhow::Context as _;

use crate::samples::Samples;

type Run<'a> = Box<dyn FnMut(usize) -> anyhow::Result<f64> + 'a>;

/// What is compared: each contestant answers one figure a round.
#[derive(Default)]
pub(crate) struct Contest<'a> {
    contestants: Vec<(String, Run<'a>)>,
}

impl<'a> Contest<'a> {
    /// Adds a contestant; it is given the round's number, which never repeats.
    pub(crate) fn enter(
        &mut self,
        name: impl Into<String>,
        run: impl FnMut(usize) -> anyhow::Result<f64> + 'a,
    ) {
        self.contestants.push((name.into(), Box::new(run)));
    }

    /// One round to warm up, which does not count, then `rounds` that do. Each round
    /// starts with another contestant: nobody always runs in another's wake.
    pub(crate) fn run(mut self, rounds: usize) -> anyhow::Result<Results> {
        let mut figures: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let count = self.contestants.len();
        for round in 0..=rounds {
            for turn in 0..count {
                let (name, run) = &mut self.contestants[(round + turn) % count];
                let figure = run(round).with_context(|| format!("{name}, round {round}"))?;
                if round > 0 {
                    figures.entry(name.clone()).or_default().push(figure);
                }
            }
        }
        let samples = figures.into_iter().map(|(name, all)| (name, Samples::new(all)));
        Ok(Results(samples.collect()))
    }
}

/// Each contestant's figures, by name.
pub(crate) struct Results(BTreeMap<String, Samples>);

impl Results {
    /// None when nobody entered under this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Samples> {
        self.0.get(name)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::Contest;

    #[test]
    fn rounds_are_interleaved_and_the_first_does_not_count() {
        let order = RefCell::new(String::new());
        let mut contest = Contest::default();
        for name in ["a", "b"] {
            let order = &order;
            contest.enter(name, move |round| {
                order.borrow_mut().push_str(name);
                Ok(round as f64)
            });
        }
        let results = contest.run(2).unwrap();
        assert_eq!(order.borrow().as_str(), "abbaab");
        assert_eq!(results.get("a").unwrap().p10(), 1.0);
    }
}
