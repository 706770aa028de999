//! Requests to the Kubernetes API, under client-go's names.

use std::time::Duration;

use http::Method;
use prometheus::{HistogramVec, IntCounterVec, Registry};

use super::{
    Metrics, catalogue,
    families::{Result, counters, histograms},
};
use crate::kubernetes::RequestObserver;

pub(super) struct Families {
    requests: IntCounterVec,
    durations: HistogramVec,
}

impl Families {
    pub(super) fn new(registry: &Registry) -> Result<Self> {
        Ok(Self {
            requests: counters(registry, &catalogue::KUBERNETES_REQUESTS)?,
            durations: histograms(registry, &catalogue::KUBERNETES_DURATION)?,
        })
    }
}

impl RequestObserver for Metrics {
    fn kubernetes_request(&self, host: &str, method: &Method, code: Option<u16>, took: Duration) {
        let families = &self.0.kubernetes;
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        families
            .requests
            .with_label_values(&[code.as_str(), method.as_str(), host])
            .inc();
        families
            .durations
            .with_label_values(&[method.as_str(), host])
            .observe(took.as_secs_f64());
    }
}
