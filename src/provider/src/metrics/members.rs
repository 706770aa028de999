//! Counters and histograms of members and gates.

use std::time::Duration;

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, Registry};

use super::{
    Metrics, catalogue,
    families::{Result, counters, histograms},
};
use capo_core::label_enum;
use capo_gate::{GateObserver, MetricEvent, Operation, OperationOutcome};

label_enum! {
    /// A kind of OpenStack objects that are read regularly, because they change by themselves, as metrics name it.
    pub(super) enum Polled, all {
        /// Load balancers with their members.
        LoadBalancer = "load-balancer",
        /// Servers.
        Server = "server",
        /// Floating IPs.
        FloatingIp = "floating-ip",
    }
}

pub(super) struct Families {
    transitions: IntCounterVec,
    operations: IntCounterVec,
    decisions: IntCounterVec,
    holds: HistogramVec,
    time_to_active: HistogramVec,
    time_to_removed: HistogramVec,
    /// The reads of every kind, in the order of [`Polled::ALL`].
    polled: [Reads; Polled::ALL.len()],
}

/// The reads of one kind of OpenStack objects. They are counted more often than anything else, so their series are
/// looked up once.
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
            polled: Polled::ALL.map(|kind| Reads {
                succeeded: reads.with_label_values(&[kind.as_str(), "success"]),
                failed: reads.with_label_values(&[kind.as_str(), "error"]),
                durations: durations.with_label_values(&[kind.as_str()]),
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

    /// Counts a read of an object of this kind, or an attempt to read it that failed.
    pub(super) fn polled(&self, kind: Polled, succeeded: bool, took: Duration) {
        let [load_balancers, servers, floating_ips] = &self.polled;
        let reads = match kind {
            Polled::LoadBalancer => load_balancers,
            Polled::Server => servers,
            Polled::FloatingIp => floating_ips,
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
                families.polled(Polled::LoadBalancer, *succeeded, *took);
            }
        }
    }
}
