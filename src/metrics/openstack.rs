//! Calls to OpenStack.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use prometheus::{GaugeVec, HistogramVec, IntCounterVec, IntGaugeVec, Registry};

use super::{
    Metrics,
    catalogue::{
        DEFAULT_BUCKETS, Result, WAIT_BUCKETS, counters, gauges, histograms, seconds, whole_gauges,
    },
};
use crate::openstack::{CallObserver, CallOutcome, CallRecord, Service, SignInOutcome};

/// Clouds beyond this many share the label value `other`: their names come from users.
const CLOUDS: usize = 50;

pub(super) struct Families {
    requests: IntCounterVec,
    errors: IntCounterVec,
    durations: HistogramVec,
    responses: IntCounterVec,
    in_flight: IntGaugeVec,
    retries: IntCounterVec,
    refused: IntCounterVec,
    limiter_wait: HistogramVec,
    throttled: IntCounterVec,
    throttled_until: GaugeVec,
    retry_after: HistogramVec,
    token_requests: IntCounterVec,
    token_expiry: GaugeVec,
    clouds: Mutex<HashSet<String>>,
}

impl Families {
    pub(super) fn new(registry: &Registry) -> Result<Self> {
        let families = Self {
            requests: counters(
                registry,
                "capo_openstack_api_requests_total",
                "Requests to OpenStack.",
                &["request"],
            )?,
            errors: counters(
                registry,
                "capo_openstack_api_request_errors_total",
                "Requests to OpenStack that failed; an object that is not there or locked is no failure.",
                &["request"],
            )?,
            durations: histograms(
                registry,
                "capo_openstack_api_request_duration_seconds",
                "Duration of requests to OpenStack.",
                &["request"],
                DEFAULT_BUCKETS,
            )?,
            responses: counters(
                registry,
                "capo_openstack_api_responses_total",
                "Answers of OpenStack by HTTP status, or timeout, transport, parse.",
                &["cloud", "api", "method", "code"],
            )?,
            in_flight: whole_gauges(
                registry,
                "capo_openstack_api_inflight_requests",
                "Requests to OpenStack under way.",
                &["api"],
            )?,
            retries: counters(
                registry,
                "capo_openstack_api_retries_total",
                "Requests that were made once more at once.",
                &["api", "cause"],
            )?,
            refused: counters(
                registry,
                "capo_openstack_api_refused_total",
                "Requests that were not sent because the service is paused or does not answer.",
                &["cloud", "api"],
            )?,
            limiter_wait: histograms(
                registry,
                "capo_openstack_ratelimiter_wait_seconds",
                "How long requests waited for the budget.",
                &["cloud", "api"],
                WAIT_BUCKETS,
            )?,
            throttled: counters(
                registry,
                "capo_openstack_throttled_total",
                "Answers that asked for fewer requests.",
                &["cloud", "api"],
            )?,
            throttled_until: gauges(
                registry,
                "capo_openstack_throttled_until_timestamp_seconds",
                "When the last pause that a service asked for ends.",
                &["cloud", "api"],
            )?,
            retry_after: histograms(
                registry,
                "capo_openstack_retry_after_seconds",
                "Values of Retry-After.",
                &["api"],
                &[1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0],
            )?,
            token_requests: counters(
                registry,
                "capo_openstack_token_requests_total",
                "Sign-ins.",
                &["cloud", "outcome"],
            )?,
            token_expiry: gauges(
                registry,
                "capo_openstack_token_expiry_timestamp_seconds",
                "When the newest token of a cloud expires.",
                &["cloud"],
            )?,
            clouds: Mutex::default(),
        };
        for service in Service::ALL {
            families
                .in_flight
                .with_label_values(&[service.name()])
                .set(0);
        }
        Ok(families)
    }

    fn cloud<'a>(&self, cloud: &'a str) -> &'a str {
        let mut clouds = self.clouds.lock().unwrap_or_else(PoisonError::into_inner);
        if clouds.contains(cloud) {
            return cloud;
        }
        if clouds.len() < CLOUDS {
            clouds.insert(cloud.to_owned());
            return cloud;
        }
        "other"
    }
}

impl CallObserver for Metrics {
    fn call(&self, record: &CallRecord<'_>) {
        let families = &self.0.openstack;
        let request = &[record.request];
        families.requests.with_label_values(request).inc();
        let failed = families.errors.with_label_values(request);
        let code = match record.outcome {
            CallOutcome::Status(status) => {
                if status >= 400 && status != 404 && status != 409 {
                    failed.inc();
                }
                status.to_string()
            }
            CallOutcome::TimedOut => {
                failed.inc();
                "timeout".to_owned()
            }
            CallOutcome::Transport => {
                failed.inc();
                "transport".to_owned()
            }
            CallOutcome::Unreadable => {
                failed.inc();
                "parse".to_owned()
            }
        };
        families
            .durations
            .with_label_values(request)
            .observe(record.duration.as_secs_f64());
        let cloud = families.cloud(record.cloud);
        let api = record.service.name();
        families
            .responses
            .with_label_values(&[cloud, api, record.method, &code])
            .inc();
        families
            .limiter_wait
            .with_label_values(&[cloud, api])
            .observe(record.limiter_wait.as_secs_f64());
    }

    fn in_flight(&self, service: Service, change: i64) {
        let api = &[service.name()];
        self.0
            .openstack
            .in_flight
            .with_label_values(api)
            .add(change);
    }

    fn refused(&self, cloud: &str, service: Service, _request: &'static str) {
        let families = &self.0.openstack;
        families
            .refused
            .with_label_values(&[families.cloud(cloud), service.name()])
            .inc();
    }

    fn throttled(&self, cloud: &str, service: Service, pause: Duration, header: Option<Duration>) {
        let families = &self.0.openstack;
        let labels = &[families.cloud(cloud), service.name()];
        families.throttled.with_label_values(labels).inc();
        families
            .throttled_until
            .with_label_values(labels)
            .set(seconds(Timestamp::now()) + pause.as_secs_f64());
        if let Some(header) = header {
            families
                .retry_after
                .with_label_values(&[service.name()])
                .observe(header.as_secs_f64());
        }
    }

    fn reauthenticated(&self, _cloud: &str, service: Service) {
        self.0
            .openstack
            .retries
            .with_label_values(&[service.name(), "reauth"])
            .inc();
    }

    fn signed_in(&self, cloud: &str, outcome: SignInOutcome, life: Option<Duration>) {
        let families = &self.0.openstack;
        let cloud = families.cloud(cloud);
        let outcome = match outcome {
            SignInOutcome::Success => "success",
            SignInOutcome::Unauthorized => "unauthorized",
            SignInOutcome::NotFound => "not_found",
            SignInOutcome::Error => "error",
        };
        families
            .token_requests
            .with_label_values(&[cloud, outcome])
            .inc();
        if let Some(life) = life {
            families
                .token_expiry
                .with_label_values(&[cloud])
                .set(seconds(Timestamp::now()) + life.as_secs_f64());
        }
    }
}
