//! The figures of one contestant, and what is said of them: middle and spread.

/// Measured figures in ascending order; never empty.
#[derive(Debug, Clone)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn new(mut figures: Vec<f64>) -> Samples {
        assert!(!figures.is_empty(), "a contestant ran at least once");
        figures.sort_by(f64::total_cmp);
        Samples(figures)
    }

    /// The middle figure: what every table shows and every target is held against.
    pub(crate) fn p50(&self) -> f64 {
        self.at(0.5)
    }

    pub(crate) fn p10(&self) -> f64 {
        self.at(0.1)
    }

    pub(crate) fn p90(&self) -> f64 {
        self.at(0.9)
    }

    /// The bad luck of one in a hundred; needs a few hundred figures to mean anything.
    pub(crate) fn p99(&self) -> f64 {
        self.at(0.99)
    }

    fn at(&self, share: f64) -> f64 {
        let last = (self.0.len() - 1) as f64;
        self.0[(last * share).round() as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::Samples;

    #[test]
    fn one_outlier_moves_the_spread_and_not_the_middle() {
        let samples = Samples::new(vec![3.0, 1.0, 2.0, 90.0, 4.0]);
        assert_eq!(
            (samples.p10(), samples.p50(), samples.p90()),
            (1.0, 3.0, 90.0)
        );
    }
}
