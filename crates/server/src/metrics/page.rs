//! The page of numbers, in the text form that Prometheus reads.

use std::fmt::{Display, Write as _};

use super::Metric;

/// The page so far.
#[derive(Debug, Default)]
pub(crate) struct MetricsPage(String);

/// The bounds of a histogram in seconds with how many were within each, then all and their sum.
pub(crate) struct Buckets {
    pub(crate) within: Vec<(String, u64)>,
    pub(crate) count: u64,
    pub(crate) sum: String,
}

impl MetricsPage {
    pub(crate) fn text(self) -> String {
        self.0
    }

    /// A number that stands alone.
    pub(crate) fn one(&mut self, metric: &Metric, value: impl Display) {
        self.head(metric);
        self.line(metric.name, "", &value);
    }

    /// A number for each value of the metric's one label.
    pub(crate) fn each<L: AsRef<str>, V: Display>(
        &mut self,
        metric: &Metric,
        values: impl IntoIterator<Item = (L, V)>,
    ) {
        self.head(metric);
        let [label] = metric.labels else {
            panic!("{} has one label", metric.name)
        };
        for (word, value) in values {
            let labels = format!("{{{label}=\"{}\"}}", escaped(word.as_ref()));
            self.line(metric.name, &labels, &value);
        }
    }

    pub(crate) fn histogram(&mut self, metric: &Metric, buckets: &Buckets) {
        self.head(metric);
        let name = metric.name;
        let bucket = format!("{name}_bucket");
        for (bound, count) in &buckets.within {
            self.line(&bucket, &format!("{{le=\"{bound}\"}}"), count);
        }
        self.line(&bucket, "{le=\"+Inf\"}", &buckets.count);
        self.line(&format!("{name}_sum"), "", &buckets.sum);
        self.line(&format!("{name}_count"), "", &buckets.count);
    }

    fn head(&mut self, metric: &Metric) {
        let (name, kind, help) = (metric.name, metric.kind.as_str(), metric.help);
        let _ = writeln!(
            self.0,
            "# HELP relight_{name} {help}\n# TYPE relight_{name} {kind}"
        );
    }

    fn line(&mut self, name: &str, labels: &str, value: &dyn Display) {
        let _ = writeln!(self.0, "relight_{name}{labels} {value}");
    }
}

/// A label's value, with nothing in it that ends it.
fn escaped(value: &str) -> String {
    value
        .replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// Milliseconds as seconds.
pub(crate) fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1_000, ms % 1_000)
}

/// Microseconds as seconds.
pub(crate) fn seconds_of_us(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_label_ends_it() {
        assert_eq!(escaped("a\\b\"c\nd"), r#"a\\b\"c\nd"#);
    }

    #[test]
    fn times_are_written_in_seconds() {
        assert_eq!(
            (seconds(1_050), seconds_of_us(250)),
            ("1.050".into(), "0.000250".into())
        );
    }
}
