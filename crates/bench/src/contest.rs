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

    /// One round to warm up, which does not count, then `rounds` that do, each in an
    /// order of its own: whoever runs in a heavy one's wake finds the caches cold.
    pub(crate) fn run(mut self, rounds: usize) -> anyhow::Result<Results> {
        let mut figures: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for round in 0..=rounds {
            shuffle(&mut self.contestants, round);
            for (name, run) in &mut self.contestants {
                let figure = run(round).with_context(|| format!("{name}, round {round}"))?;
                if round > 0 {
                    figures.entry(name.clone()).or_default().push(figure);
                }
            }
        }
        let samples = figures
            .into_iter()
            .map(|(name, all)| (name, Samples::new(all)));
        Ok(Results(samples.collect()))
    }
}

/// Another order for each round, and the same in each run.
fn shuffle<T>(all: &mut [T], round: usize) {
    let mut random = round as u64;
    for last in (1..all.len()).rev() {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        all.swap(last, (random >> 33) as usize % (last + 1));
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
    fn the_first_round_does_not_count() {
        let mut contest = Contest::default();
        contest.enter("a", |round| Ok(round as f64));
        assert_eq!(contest.run(1).unwrap().get("a").unwrap().p50(), 1.0);
    }

    #[test]
    fn everyone_runs_once_a_round_and_sooner_or_later_after_everyone_else() {
        let rounds = RefCell::new(vec![String::new(); 31]);
        let mut contest = Contest::default();
        for name in ["a", "b", "c"] {
            let rounds = &rounds;
            contest.enter(name, move |round| {
                rounds.borrow_mut()[round].push_str(name);
                Ok(0.0)
            });
        }
        contest.run(30).unwrap();
        let rounds = rounds.into_inner();
        assert!(rounds.iter().all(|round| round.len() == 3));
        for pair in ["ab", "ba", "bc", "cb", "ac", "ca"] {
            assert!(rounds.iter().any(|round| round.contains(pair)), "{pair}");
        }
    }
}
