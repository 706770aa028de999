//! Counters and histograms of members and gates.

use std::time::Duration;

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, Registry};

use super::{
    Metrics, catalogue,
    families::{Result, counters, histograms},
};
use capo_gate::{GateObserver, MetricEvent, Operation, OperationOutcome};

/// The kinds of OpenStack objects that are read regularly, because they change by themselves.
pub(super) const POLLED: [&str; 3] = ["load-balancer", "server", "floating-ip"];

pub(super) struct Families {
    transitions: IntCounterVec,
    operations: IntCounterVec,
    decisions: IntCounterVec,
    holds: HistogramVec,
    time_to_active: HistogramVec,
    time_to_removed: HistogramVec,
    polled: [Reads; 3],
}

/// Reads of one kind of [`POLLED`]. They are counted more often than anything else, so their series are looked up once.
struct Reads {
    succeeded: IntCounter,
    failed: IntCounter,
    durations: Histogram,
}

impl Families {
    pub(super) fn new(registry: &Registry) -> Result<Self> {
        let reads = counters(registry, &catalogue::POLL_CYCLES)?;
        let durations = histograms(registry, &catalogue::POLL_DURATION)?;
        let families = Self {
            transitions: counters(registry, &catalogue::TRANSITIONS)?,
            operations: counters(registry, &catalogue::OPERATIONS)?,
            decisions: counters(registry, &catalogue::DECISIONS)?,
            holds: histograms(registry, &catalogue::HOLD_DURATION)?,
            time_to_active: histograms(registry, &catalogue::TIME_TO_ACTIVE)?,
            time_to_removed: histograms(registry, &catalogue::TIME_TO_REMOVED)?,
            polled: POLLED.map(|kind| Reads {
                succeeded: reads.with_label_values(&[kind, "success"]),
                failed: reads.with_label_values(&[kind, "error"]),
                durations: durations.with_label_values(&[kind]),
            }),
        };
        for operation in Operation::ALL {
            for outcome in OperationOutcome::ALL {
                families
                    .operations
                    .with_label_values(&[operation.as_str(), outcome.as_str()]);
            }
        }
        Ok(families)
    }

    /// An object that changes by itself was read, or the read failed. `kind` is one of [`POLLED`].
    pub(super) fn polled(&self, kind: &str, succeeded: bool, took: Duration) {
        let mut all = POLLED.iter().zip(&self.polled);
        let Some((_, reads)) = all.find(|(known, _)| **known == kind) else {
            return;
        };
        let counter = if succeeded {
            &reads.succeeded
        } else {
            &reads.failed
        };
        counter.inc();
        reads.durations.observe(took.as_secs_f64());
    }
}

impl GateObserver for Metrics {
    fn record(&self, event: &MetricEvent) {
        let families = &self.0.members;
        match event {
            MetricEvent::Transition { provider, from, to } => families
                .transitions
                .with_label_values(&[from.as_str(), to.as_str(), provider.label()])
                .inc(),
            MetricEvent::Operation(operation, outcome) => families
                .operations
                .with_label_values(&[operation.as_str(), outcome.as_str()])
                .inc(),
            MetricEvent::Decision(gate, state, reason) => families
                .decisions
                .with_label_values(&[gate.as_str(), state.as_str(), reason.as_str()])
                .inc(),
            MetricEvent::HoldEnded(gate, reason, held) => families
                .holds
                .with_label_values(&[gate.as_str(), reason.as_str()])
                .observe(held.as_secs_f64()),
            MetricEvent::TimeToActive(provider, operation, took) => families
                .time_to_active
                .with_label_values(&[provider.label(), operation.as_str()])
                .observe(took.as_secs_f64()),
            MetricEvent::TimeToRemoved(provider, took) => families
                .time_to_removed
                .with_label_values(&[provider.label()])
                .observe(took.as_secs_f64()),
            MetricEvent::Read(succeeded, took) => {
                families.polled("load-balancer", *succeeded, *took);
            }
        }
    }
}
