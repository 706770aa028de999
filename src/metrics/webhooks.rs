//! Admission and conversion requests, and the certificate they are served with.

use std::time::Duration;

use jiff::Timestamp;
use prometheus::{Gauge, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Registry};

use super::{
    Metrics,
    catalogue::{
        DEFAULT_BUCKETS, Result, counter, counters, gauge, histograms, seconds, whole_gauges,
    },
};

pub(super) struct Families {
    requests: IntCounterVec,
    durations: HistogramVec,
    in_flight: IntGaugeVec,
    reads: IntCounter,
    failed_reads: IntCounter,
    not_after: Gauge,
}

impl Families {
    pub(super) fn new(registry: &Registry) -> Result<Self> {
        Ok(Self {
            requests: counters(
                registry,
                "controller_runtime_webhook_requests_total",
                "Webhook requests by HTTP status.",
                &["webhook", "code"],
            )?,
            durations: histograms(
                registry,
                "controller_runtime_webhook_latency_seconds",
                "Duration of webhook requests.",
                &["webhook"],
                DEFAULT_BUCKETS,
            )?,
            in_flight: whole_gauges(
                registry,
                "controller_runtime_webhook_requests_in_flight",
                "Webhook requests under way.",
                &["webhook"],
            )?,
            reads: counter(
                registry,
                "certwatcher_read_certificate_total",
                "Certificates of the webhook server that were read.",
            )?,
            failed_reads: counter(
                registry,
                "certwatcher_read_certificate_errors_total",
                "Certificates of the webhook server that could not be used.",
            )?,
            not_after: gauge(
                registry,
                "capo_webhook_certificate_not_after_timestamp_seconds",
                "When the certificate of the webhook server ends.",
            )?,
        })
    }
}

impl crate::webhooks::server::Observer for Metrics {
    fn certificate_read(&self) {
        self.0.webhooks.reads.inc();
    }

    fn certificate_failed(&self) {
        self.0.webhooks.failed_reads.inc();
    }

    fn certificate_expires(&self, not_after: Timestamp) {
        self.0.webhooks.not_after.set(seconds(not_after));
    }

    fn request_began(&self, path: &'static str) {
        self.0.webhooks.in_flight.with_label_values(&[path]).inc();
    }

    fn request_ended(&self, path: &'static str, code: u16, took: Duration) {
        let webhooks = &self.0.webhooks;
        webhooks.in_flight.with_label_values(&[path]).dec();
        webhooks
            .requests
            .with_label_values(&[path, &code.to_string()])
            .inc();
        webhooks
            .durations
            .with_label_values(&[path])
            .observe(took.as_secs_f64());
    }
}
