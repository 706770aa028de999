//! Creates the families of the catalogue and registers them in one step.

use jiff::Timestamp;
use prometheus::{
    Counter, Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
    core::Collector,
    proto::{self, LabelPair, MetricFamily, MetricType},
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

/// A gauge's samples for one scrape. A vector of gauges would hash, lock and sort samples that are discarded after the
/// scrape.
pub(super) struct Samples {
    metric: &'static Metric,
    samples: Vec<proto::Metric>,
}

impl Samples {
    pub(super) fn of(metric: &'static Metric) -> Self {
        Self {
            metric,
            samples: Vec::new(),
        }
    }

    /// Adds a series with these label values, which must not exist yet.
    pub(super) fn add(&mut self, labels: &[&str], value: f64) {
        let pairs = self.metric.labels.iter().zip(labels).map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value((*value).to_owned());
            pair
        });
        let mut pairs: Vec<_> = pairs.collect();
        // The library sorts labels in the same way.
        pairs.sort_unstable_by(|one, other| one.name().cmp(other.name()));
        let mut sample = proto::Metric::from_label(pairs);
        let mut gauge = proto::Gauge::default();
        gauge.set_value(value);
        sample.set_gauge(gauge);
        self.samples.push(sample);
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
    pub(super) fn family(self) -> Option<MetricFamily> {
        if self.samples.is_empty() {
            return None;
        }
        let mut family = MetricFamily::default();
        family.set_name(self.metric.name.to_owned());
        family.set_help(self.metric.help.to_owned());
        family.set_field_type(MetricType::GAUGE);
        family.set_metric(self.samples);
        Some(family)
    }
}

/// A time as Prometheus writes it.
#[allow(clippy::cast_precision_loss)] // Milliseconds since 1970 fit a double for 280,000 years.
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
