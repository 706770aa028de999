//! What happens to members and gates, counted.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec, Registry};

use super::{
    Metrics,
    catalogue::{HOLD_BUCKETS, Result, SETTLING_BUCKETS, WAIT_BUCKETS, counters, histograms},
};
use crate::{
    membership::{Decision, GateName, Observer, Operation, OperationOutcome},
    status::Reason,
};

pub(super) struct Families {
    transitions: IntCounterVec,
    operations: IntCounterVec,
    decisions: IntCounterVec,
    holds: HistogramVec,
    time_to_active: HistogramVec,
    time_to_removed: HistogramVec,
    reads: IntCounterVec,
    read_durations: HistogramVec,
}

impl Families {
    pub(super) fn new(registry: &Registry) -> Result<Self> {
        Ok(Self {
            transitions: counters(
                registry,
                "capo_lb_member_transitions_total",
                "Changes of members' provisioning status between two reads.",
                &["from", "to", "provider"],
            )?,
            operations: counters(
                registry,
                "capo_lb_member_operations_total",
                "Operations on members by how Octavia answered.",
                &["operation", "outcome"],
            )?,
            decisions: counters(
                registry,
                "capo_gate_decisions_total",
                "Answers of the gates that changed.",
                &["gate", "decision", "reason"],
            )?,
            holds: histograms(
                registry,
                "capo_gate_hold_duration_seconds",
                "How long gates were held.",
                &["gate", "reason"],
                HOLD_BUCKETS,
            )?,
            time_to_active: histograms(
                registry,
                "capo_lb_member_time_to_active_seconds",
                "From the request to the first read in which the member was ACTIVE.",
                &["provider", "operation"],
                SETTLING_BUCKETS,
            )?,
            time_to_removed: histograms(
                registry,
                "capo_lb_member_time_to_removed_seconds",
                "From the request to the read that confirmed the member's absence.",
                &["provider"],
                SETTLING_BUCKETS,
            )?,
            reads: counters(
                registry,
                "capo_poll_cycles_total",
                "Reads of what changes by itself in OpenStack.",
                &["kind", "outcome"],
            )?,
            read_durations: histograms(
                registry,
                "capo_poll_duration_seconds",
                "Duration of reads of what changes by itself in OpenStack.",
                &["kind"],
                WAIT_BUCKETS,
            )?,
        })
    }
}

impl Observer for Metrics {
    fn transition(&self, provider: &'static str, from: &str, to: &str) {
        self.0
            .members
            .transitions
            .with_label_values(&[
                super::states::provisioning(from),
                super::states::provisioning(to),
                provider,
            ])
            .inc();
    }

    fn operation(&self, operation: Operation, outcome: OperationOutcome) {
        self.0
            .members
            .operations
            .with_label_values(&[operation.as_str(), outcome.as_str()])
            .inc();
    }

    fn decision(&self, gate: GateName, decision: Decision, reason: Reason) {
        self.0
            .members
            .decisions
            .with_label_values(&[gate.as_str(), decision.as_str(), reason.as_str()])
            .inc();
    }

    fn hold_ended(&self, gate: GateName, reason: Reason, held: Duration) {
        self.0
            .members
            .holds
            .with_label_values(&[gate.as_str(), reason.as_str()])
            .observe(held.as_secs_f64());
    }

    fn time_to_active(&self, provider: &'static str, operation: Operation, took: Duration) {
        self.0
            .members
            .time_to_active
            .with_label_values(&[provider, operation.as_str()])
            .observe(took.as_secs_f64());
    }

    fn time_to_removed(&self, provider: &'static str, took: Duration) {
        self.0
            .members
            .time_to_removed
            .with_label_values(&[provider])
            .observe(took.as_secs_f64());
    }

    fn read(&self, succeeded: bool, took: Duration) {
        let outcome = if succeeded { "success" } else { "error" };
        let members = &self.0.members;
        members
            .reads
            .with_label_values(&["load-balancer", outcome])
            .inc();
        members
            .read_durations
            .with_label_values(&["load-balancer"])
            .observe(took.as_secs_f64());
    }
}
