//! Creates the families of the catalogue and registers them in one step.

use std::fmt::Write as _;

use jiff::Timestamp;
use prometheus::{
    Counter, Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, TextEncoder, core::Collector, proto::MetricFamily,
};

use super::catalogue::{Kind, Metric};

pub(super) type Result<T> = std::result::Result<T, prometheus::Error>;

fn registered<C: Collector + Clone + 'static>(registry: &Registry, collector: C) -> Result<C> {
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}

fn options(metric: &Metric) -> Opts {
    Opts::new(metric.name, metric.help)
}

pub(super) fn counter(registry: &Registry, metric: &Metric) -> Result<IntCounter> {
    registered(registry, IntCounter::with_opts(options(metric))?)
}

/// A counter of seconds.
pub(super) fn seconds_counter(registry: &Registry, metric: &Metric) -> Result<Counter> {
    registered(registry, Counter::with_opts(options(metric))?)
}

pub(super) fn counters(registry: &Registry, metric: &Metric) -> Result<IntCounterVec> {
    registered(
        registry,
        IntCounterVec::new(options(metric), metric.labels)?,
    )
}

pub(super) fn gauges(registry: &Registry, metric: &Metric) -> Result<GaugeVec> {
    registered(registry, GaugeVec::new(options(metric), metric.labels)?)
}

pub(super) fn whole_gauges(registry: &Registry, metric: &Metric) -> Result<IntGaugeVec> {
    registered(registry, IntGaugeVec::new(options(metric), metric.labels)?)
}

pub(super) fn gauge(registry: &Registry, metric: &Metric) -> Result<Gauge> {
    registered(registry, Gauge::with_opts(options(metric))?)
}

pub(super) fn whole_gauge(registry: &Registry, metric: &Metric) -> Result<IntGauge> {
    registered(registry, IntGauge::with_opts(options(metric))?)
}

pub(super) fn histograms(registry: &Registry, metric: &Metric) -> Result<HistogramVec> {
    let mut options = HistogramOpts::new(metric.name, metric.help);
    if let Kind::Histogram(buckets) = metric.kind {
        options = options.buckets(buckets.to_vec());
    }
    registered(registry, HistogramVec::new(options, metric.labels)?)
}

/// A family as the text of one scrape.
pub(super) struct FamilyText {
    pub(super) name: String,
    pub(super) text: String,
}

impl FamilyText {
    /// The text of a family of the library.
    pub(super) fn of(family: &MetricFamily) -> Result<Self> {
        Ok(Self {
            name: family.name().to_owned(),
            text: TextEncoder::new().encode_to_string(std::slice::from_ref(family))?,
        })
    }
}

/// A gauge's samples for one scrape, written as text at once: the library's samples take five times the memory, which
/// with hundreds of clusters is more than the rest of the process needs.
pub(super) struct Samples {
    metric: &'static Metric,
    /// The positions of the labels in the order of their names, in which the library writes them too.
    order: Vec<usize>,
    lines: String,
}

impl Samples {
    pub(super) fn of(metric: &'static Metric) -> Self {
        let mut order: Vec<usize> = (0..metric.labels.len()).collect();
        order.sort_unstable_by_key(|index| metric.labels.get(*index));
        Self {
            metric,
            order,
            lines: String::new(),
        }
    }

    /// Adds a series with these label values, which must not exist yet.
    pub(super) fn add(&mut self, labels: &[&str], value: f64) {
        self.lines.push_str(self.metric.name);
        let mut separator = '{';
        for index in &self.order {
            let (Some(name), Some(value)) = (self.metric.labels.get(*index), labels.get(*index))
            else {
                continue;
            };
            self.lines.push(separator);
            self.lines.push_str(name);
            self.lines.push_str("=\"");
            escape(value, &mut self.lines);
            self.lines.push('"');
            separator = ',';
        }
        if separator == ',' {
            self.lines.push('}');
        }
        // Writing to a `String` can't fail.
        let _ = writeln!(self.lines, " {value}");
    }

    /// A series for each of `states`, the last label: 1 for the current one and 0 for the others.
    pub(super) fn add_states(&mut self, labels: &[&str], states: &[&str], current: &str) {
        let mut labels = labels.to_vec();
        for state in states {
            labels.push(state);
            self.add(&labels, truth(*state == current));
            labels.pop();
        }
    }

    /// The family; `None` without a sample, because the text format then has no lines for it.
    pub(super) fn family(self) -> Option<FamilyText> {
        if self.lines.is_empty() {
            return None;
        }
        let Metric { name, help, .. } = *self.metric;
        Some(FamilyText {
            name: name.to_owned(),
            text: format!("# HELP {name} {help}\n# TYPE {name} gauge\n{}", self.lines),
        })
    }
}

/// Appends a label value in the text format's spelling.
fn escape(value: &str, out: &mut String) {
    for character in value.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

/// A time as Prometheus writes it.
#[expect(
    clippy::cast_precision_loss,
    reason = "milliseconds since 1970 fit a double for 280,000 years"
)]
pub(super) fn seconds(time: Timestamp) -> f64 {
    time.as_millisecond() as f64 / 1000.0
}

/// Yes or no as Prometheus writes it.
pub(super) fn truth(yes: bool) -> f64 {
    f64::from(u8::from(yes))
}

/// A count as Prometheus writes it.
pub(super) fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Converts a count into the value of an integer gauge.
pub(super) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use prometheus::{GaugeVec, core::Collector as _};

    use super::{FamilyText, Samples, options};
    use crate::metrics::catalogue::MEMBER_INFO;

    #[test]
    fn the_text_is_the_one_that_the_library_writes() {
        let labels = ["ns", "c\\1", "m\n\"1\"", "6443", "", "pool", "10.6.0.5"];
        let mut samples = Samples::of(&MEMBER_INFO);
        let gauges = GaugeVec::new(options(&MEMBER_INFO), MEMBER_INFO.labels).unwrap();
        for value in [1.0, 0.25, 1_767_225_600.5] {
            let text = value.to_string();
            let mut labels = labels;
            labels[4] = &text;
            samples.add(&labels, value);
            gauges.with_label_values(&labels).set(value);
        }
        let expected = FamilyText::of(&gauges.collect()[0]).unwrap();
        let mut lines: Vec<&str> = expected.text.lines().collect();
        let found = samples.family().unwrap();
        let mut found_lines: Vec<&str> = found.text.lines().collect();
        lines.sort_unstable();
        found_lines.sort_unstable();
        assert_eq!(found_lines, lines);
        assert!(found.text.starts_with("# HELP capo_lb_member_info "));
        assert_eq!(found.name, expected.name);
        assert!(Samples::of(&MEMBER_INFO).family().is_none());
    }
}
