//! One line of a table: a figure, its floor, and whether its target is met.

use serde::Serialize;

use crate::samples::Samples;

/// What a figure has to reach.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    /// At least so many times the floor (more is better).
    TimesFloorMin(f64),
    /// At most so many times the floor (less is better).
    TimesFloorMax(f64),
    /// At least so many times faster than the floor, where both are times.
    TimesFasterMin(f64),
    /// At least this figure.
    ValueMin(f64),
    /// At most this figure.
    ValueMax(f64),
}

/// The answer to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Met,
    Missed,
    /// The middle ratio and the one at best disagree: the machine was too busy to tell.
    Unclear,
    /// The figure could not be taken; `Row::note` says why.
    NotMeasured,
    NoTarget,
}

/// Which way a row's ratio is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RatioOf {
    FigureToFloor,
    FloorToFigure,
}

/// A figure (the middle of its samples) with its spread.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    pub(crate) value: f64,
    pub(crate) p10: f64,
    pub(crate) p90: f64,
}

/// What the figure is compared with.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Floor {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) figure: Figure,
}

/// One line of a report.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    pub(crate) figure: Option<Figure>,
    pub(crate) floor: Option<Floor>,
    pub(crate) ratio: Option<f64>,
    pub(crate) ratio_of: RatioOf,
    /// The same ratio between the best tenth of both: noise only ever slows things down.
    pub(crate) ratio_at_best: Option<f64>,
    pub(crate) target: Option<String>,
    pub(crate) verdict: Verdict,
    pub(crate) note: Option<String>,
}

impl Row {
    /// A line without a figure yet: what it stays when nothing could be measured.
    pub(crate) fn new(what: impl Into<String>, unit: &'static str) -> Row {
        Row {
            what: what.into(),
            unit,
            figure: None,
            floor: None,
            ratio: None,
            ratio_of: RatioOf::FigureToFloor,
            ratio_at_best: None,
            target: None,
            verdict: Verdict::NoTarget,
            note: None,
        }
    }

    pub(crate) fn figure(mut self, samples: Option<&Samples>) -> Row {
        self.figure = samples.map(Figure::of);
        self
    }

    pub(crate) fn beside(mut self, name: impl Into<String>, samples: Option<&Samples>) -> Row {
        self.floor = samples.map(|some| Floor {
            name: name.into(),
            figure: Figure::of(some),
        });
        self.ratio = self.figure_to_floor(|figure| figure.value);
        let is_rate = self.unit.ends_with("/s");
        let best = |figure: &Figure| if is_rate { figure.p90 } else { figure.p10 };
        self.ratio_at_best = self.figure_to_floor(best);
        self
    }

    /// As `beside`, for times: the ratio says how often the figure goes into the floor.
    pub(crate) fn faster_than(mut self, name: &str, samples: Option<&Samples>) -> Row {
        self = self.beside(name, samples);
        self.ratio = self.ratio.map(f64::recip);
        self.ratio_at_best = self.ratio_at_best.map(f64::recip);
        self.ratio_of = RatioOf::FloorToFigure;
        self
    }

    pub(crate) fn note(mut self, note: Option<impl Into<String>>) -> Row {
        self.note = note.map(Into::into);
        self
    }

    /// Comes last: judges the figure and the floor that are there.
    pub(crate) fn target(mut self, target: Target) -> Row {
        let is_faster = matches!(target, Target::TimesFasterMin(_));
        let is_fitting = is_faster == (self.ratio_of == RatioOf::FloorToFigure);
        assert!(
            is_fitting || self.floor.is_none(),
            "`faster_than` goes with `TimesFasterMin`"
        );
        let value = self.figure.as_ref().map(|figure| figure.value);
        let (middle, best) = match target {
            Target::TimesFloorMin(_) | Target::TimesFloorMax(_) | Target::TimesFasterMin(_) => {
                (self.ratio, self.ratio_at_best)
            }
            Target::ValueMin(_) | Target::ValueMax(_) => (value, value),
        };
        self.verdict = match (
            middle.map(|one| target.is_met(one)),
            best.map(|one| target.is_met(one)),
        ) {
            (Some(true), Some(true)) => Verdict::Met,
            (Some(false), Some(false)) => Verdict::Missed,
            (Some(_), Some(_)) => Verdict::Unclear,
            (None, _) | (_, None) => Verdict::NotMeasured,
        };
        self.target = Some(target.text(self.unit));
        self
    }

    fn figure_to_floor(&self, of: impl Fn(&Figure) -> f64) -> Option<f64> {
        Some(of(self.figure.as_ref()?) / of(&self.floor.as_ref()?.figure))
    }
}

impl Figure {
    fn of(samples: &Samples) -> Figure {
        Figure {
            value: samples.p50(),
            p10: samples.p10(),
            p90: samples.p90(),
        }
    }

    /// The width of the middle four fifths, as a share of the middle.
    pub(crate) fn spread(&self) -> f64 {
        (self.p90 - self.p10) / self.value
    }
}

impl Target {
    fn is_met(self, reached: f64) -> bool {
        match self {
            Target::TimesFloorMin(least)
            | Target::TimesFasterMin(least)
            | Target::ValueMin(least) => reached >= least,
            Target::TimesFloorMax(most) | Target::ValueMax(most) => reached <= most,
        }
    }

    fn text(self, unit: &str) -> String {
        match self {
            Target::TimesFloorMin(least) => format!("≥ {least} × floor"),
            Target::TimesFloorMax(most) => format!("≤ {most} × floor"),
            Target::TimesFasterMin(least) => format!("≥ {least} × faster"),
            Target::ValueMin(least) => format!("≥ {least} {unit}"),
            Target::ValueMax(most) => format!("≤ {most} {unit}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Row, Target, Verdict};
    use crate::samples::Samples;

    fn judged(figure: Option<f64>, floor: f64, target: Target) -> Verdict {
        let figure = figure.map(|one| Samples::new(vec![one]));
        let floor = Samples::new(vec![floor]);
        let row = Row::new("x", "ms").figure(figure.as_ref());
        match target {
            Target::TimesFasterMin(_) => row.faster_than("y", Some(&floor)),
            _ => row.beside("y", Some(&floor)),
        }
        .target(target)
        .verdict
    }

    #[test]
    fn a_target_is_held_against_the_ratio_in_its_own_direction() {
        assert_eq!(
            judged(Some(7.0), 10.0, Target::TimesFloorMin(0.7)),
            Verdict::Met
        );
        assert_eq!(
            judged(Some(6.9), 10.0, Target::TimesFloorMin(0.7)),
            Verdict::Missed
        );
        assert_eq!(
            judged(Some(16.0), 10.0, Target::TimesFloorMax(1.5)),
            Verdict::Missed
        );
        assert_eq!(
            judged(Some(1.0), 8.0, Target::TimesFasterMin(8.0)),
            Verdict::Met
        );
    }

    #[test]
    fn noise_that_hides_a_miss_does_not_make_it_met() {
        let figure = Samples::new(vec![5.0, 23.0, 33.0]);
        let floor = Samples::new(vec![2.5, 20.0, 30.0]);
        let row = Row::new("x", "ms")
            .figure(Some(&figure))
            .beside("y", Some(&floor));
        assert_eq!(
            row.target(Target::TimesFloorMax(1.5)).verdict,
            Verdict::Unclear
        );
    }

    #[test]
    fn what_was_not_measured_is_never_met() {
        assert_eq!(
            judged(None, 10.0, Target::TimesFloorMin(0.7)),
            Verdict::NotMeasured
        );
    }
}
