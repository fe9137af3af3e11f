//! Prometheus' text format, version 0.0.4.

use std::fmt::{Display, Write as _};

use restante_store::meter::Histogram;

/// What the whole numbers of a histogram are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Microseconds, shown as seconds.
    Microseconds,
    /// Things, shown as they are.
    Items,
}

/// A page in the making. Label values are words of ours: nothing has to be escaped.
#[derive(Default)]
pub(super) struct Page {
    text: String,
}

impl Page {
    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// A counter without labels.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, "counter", help);
        self.sample(name, "", value);
    }

    /// A gauge without labels.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "gauge", help);
        self.sample(name, "", value);
    }

    pub(super) fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// `labels`: as they stand between the braces.
    pub(super) fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = match labels {
            "" => writeln!(self.text, "{name} {value}"),
            labels => writeln!(self.text, "{name}{{{labels}}} {value}"),
        };
    }

    /// The series of one histogram, below its head.
    pub(super) fn histogram(&mut self, name: &str, labels: &str, unit: Unit, histogram: &Histogram) {
        let comma = if labels.is_empty() { "" } else { "," };
        let shown = |value: u64| match unit {
            Unit::Microseconds => value as f64 / 1e6,
            Unit::Items => value as f64,
        };
        let (mut count, bucket) = (0, format!("{name}_bucket"));
        for (bound, below) in histogram.cumulative() {
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| shown(bound).to_string());
            self.sample(&bucket, &format!("{labels}{comma}le=\"{bound}\""), below);
            count = below;
        }
        self.sample(&format!("{name}_sum"), labels, shown(histogram.sum()));
        self.sample(&format!("{name}_count"), labels, count);
    }
}
