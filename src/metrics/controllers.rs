//! Passes of the controllers, under controller-runtime's names.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec, Registry};

use super::{
    Metrics,
    catalogue::{Result, counters, histograms},
};

/// controller-runtime's buckets, in seconds.
const BUCKETS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
];

pub(super) struct Families {
    passes: IntCounterVec,
    errors: IntCounterVec,
    durations: HistogramVec,
}

impl Families {
    pub(super) fn new(registry: &Registry) -> Result<Self> {
        Ok(Self {
            passes: counters(
                registry,
                "controller_runtime_reconcile_total",
                "Passes by how they ended.",
                &["controller", "result"],
            )?,
            errors: counters(
                registry,
                "controller_runtime_reconcile_errors_total",
                "Passes that failed.",
                &["controller"],
            )?,
            durations: histograms(
                registry,
                "controller_runtime_reconcile_time_seconds",
                "Duration of passes.",
                &["controller"],
                BUCKETS,
            )?,
        })
    }
}

impl crate::controllers::PassObserver for Metrics {
    fn pass(&self, controller: &'static str, outcome: &'static str, duration: Duration) {
        let families = &self.0.controllers;
        let errors = families.errors.with_label_values(&[controller]);
        let result = match outcome {
            "done" => "success",
            "failed" => {
                errors.inc();
                "error"
            }
            _ => "requeue_after",
        };
        families
            .passes
            .with_label_values(&[controller, result])
            .inc();
        families
            .durations
            .with_label_values(&[controller])
            .observe(duration.as_secs_f64());
    }
}
