//! Admission and conversion requests, and the serving certificate.

use std::time::Duration;

use jiff::Timestamp;
use prometheus::{Gauge, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Registry};

use super::{
    Metrics, catalogue,
    families::{Result, counter, counters, gauge, histograms, seconds, whole_gauges},
};
use crate::{http::CertificateObserver, webhooks::server::WebhookObserver};

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
            requests: counters(registry, &catalogue::WEBHOOK_REQUESTS)?,
            durations: histograms(registry, &catalogue::WEBHOOK_DURATION)?,
            in_flight: whole_gauges(registry, &catalogue::WEBHOOK_IN_FLIGHT)?,
            reads: counter(registry, &catalogue::CERTIFICATE_READS)?,
            failed_reads: counter(registry, &catalogue::CERTIFICATE_ERRORS)?,
            not_after: gauge(registry, &catalogue::CERTIFICATE_END)?,
        })
    }
}

impl CertificateObserver for Metrics {
    fn certificate_read(&self) {
        self.0.webhooks.reads.inc();
    }

    fn certificate_failed(&self) {
        self.0.webhooks.failed_reads.inc();
    }

    fn certificate_expires(&self, not_after: Timestamp) {
        self.0.webhooks.not_after.set(seconds(not_after));
    }
}

impl WebhookObserver for Metrics {
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
