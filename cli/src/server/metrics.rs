//! The text format of `/metrics` for Prometheus. Hand-written: the crates for it bring a registry, macros
//! and a dozen dependencies for one page of text.

use std::fmt::{Display, Write as _};
use std::time::Duration;

/// Content type of Prometheus's text format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper bounds of the buckets, in milliseconds.
const BUCKETS: [u64; 13] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000];

/// A histogram of durations.
#[derive(Debug, Clone, Default)]
pub(super) struct Histogram {
    counts: [u64; BUCKETS.len()],
    count: u64,
    sum: Duration,
}

impl Histogram {
    /// Adds a duration.
    pub(super) fn observe(&mut self, took: Duration) {
        for (count, _) in
            self.counts.iter_mut().zip(BUCKETS).filter(|(_, most)| took <= Duration::from_millis(*most))
        {
            *count += 1;
        }
        self.count += 1;
        self.sum += took;
    }

    /// Number of observations.
    pub(super) fn count(&self) -> u64 {
        self.count
    }
}

/// The metrics page, family by family.
#[derive(Debug, Default)]
pub(super) struct Page(String);

impl Page {
    /// Starts a metric family; its samples follow.
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.0 += &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// Writes a sample.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{name}{} {value}", shown(labels));
    }

    /// Writes a histogram.
    pub(super) fn histogram(&mut self, name: &str, labels: &[(&str, &str)], histogram: &Histogram) {
        for (most, count) in BUCKETS.iter().zip(histogram.counts) {
            let le = Duration::from_millis(*most).as_secs_f64().to_string();
            self.sample(&format!("{name}_bucket"), &[labels, &[("le", &le)]].concat(), count);
        }
        self.sample(&format!("{name}_bucket"), &[labels, &[("le", "+Inf")]].concat(), histogram.count);
        self.sample(&format!("{name}_sum"), labels, histogram.sum.as_secs_f64());
        self.sample(&format!("{name}_count"), labels, histogram.count);
    }

    /// The page as text.
    pub(super) fn text(self) -> String {
        self.0
    }
}

fn shown(labels: &[(&str, &str)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", labels.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_as_prometheus_reads_it() {
        let mut histogram = Histogram::default();
        for took in [Duration::from_micros(900), Duration::from_millis(30), Duration::from_secs(60)] {
            histogram.observe(took);
        }
        let mut page = Page::default();
        page.family("x_total", "counter", "What.");
        page.sample("x_total", &[], 3);
        page.sample("x_total", &[("a", "b\"\\\n"), ("c", "d")], 4);
        page.histogram("y_seconds", &[("route", "/")], &histogram);
        let text = page.text();
        for line in [
            "# HELP x_total What.\n# TYPE x_total counter\nx_total 3\n",
            "x_total{a=\"b\\\"\\\\\\n\",c=\"d\"} 4\n",
            "y_seconds_bucket{route=\"/\",le=\"0.001\"} 1\n",
            "y_seconds_bucket{route=\"/\",le=\"0.02\"} 1\n",
            "y_seconds_bucket{route=\"/\",le=\"0.05\"} 2\n",
            "y_seconds_bucket{route=\"/\",le=\"10\"} 2\n",
            "y_seconds_bucket{route=\"/\",le=\"+Inf\"} 3\n",
            "y_seconds_sum{route=\"/\"} 60.0309\n",
            "y_seconds_count{route=\"/\"} 3\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in {text}");
        }
    }
}
