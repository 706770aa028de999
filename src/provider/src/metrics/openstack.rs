//! Calls to OpenStack.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use parking_lot::Mutex;
use prometheus::{
    GaugeVec, HistogramVec, IntCounterVec, IntGaugeVec, Registry, proto::MetricFamily,
};

use super::{
    Metrics, catalogue,
    families::{Result, count, counters, gauges, histograms, whole_gauges},
    label,
    members::Polled,
};
use capo_core::label_enum;
use capo_openstack::{CallObserver, CallOutcome, CallRecord, Level, Service, SignInOutcome};

/// The number of clouds with label values of their own; all others share `other`. The names come from users, so their
/// number must be limited.
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
    /// The failure of the last request of each name to each cloud. The labels bound its size.
    failed: Mutex<HashMap<(String, &'static str), RetryCause>>,
}

label_enum! {
    /// Why a request is repeated, as metrics name it.
    enum RetryCause, all {
        /// The service throttles requests (status 429).
        Throttled = "throttled",
        /// The service failed (status 500 or higher), or its answer could not be read.
        ServerError = "5xx",
        /// The answer was not complete in time.
        Timeout = "timeout",
        /// There was no connection, or it broke.
        Transport = "transport",
        /// The object was locked or had changed (status 409).
        Conflict = "conflict",
        /// The service refused the token.
        Reauthentication = "reauth",
    }
}

impl RetryCause {
    /// The cause for which a request is repeated after an answer with this HTTP status.
    fn of_status(status: u16) -> Option<Self> {
        match status {
            409 => Some(Self::Conflict),
            429 => Some(Self::Throttled),
            500.. => Some(Self::ServerError),
            _ => None,
        }
    }
}

/// Every outcome of a sign-in.
const SIGN_IN_OUTCOMES: [SignInOutcome; 4] = [
    SignInOutcome::Success,
    SignInOutcome::Unauthorized,
    SignInOutcome::NotFound,
    SignInOutcome::Error,
];

/// The label of a sign-in's outcome.
fn sign_in_label(outcome: SignInOutcome) -> &'static str {
    match outcome {
        SignInOutcome::Success => "success",
        SignInOutcome::Unauthorized => "unauthorized",
        SignInOutcome::NotFound => "not_found",
        SignInOutcome::Error => "error",
    }
}

impl Families {
    pub(super) fn new(registry: &Registry) -> Result<Self> {
        let families = Self {
            requests: counters(registry, &catalogue::REQUESTS)?,
            errors: counters(registry, &catalogue::REQUEST_ERRORS)?,
            durations: histograms(registry, &catalogue::REQUEST_DURATION)?,
            responses: counters(registry, &catalogue::RESPONSES)?,
            in_flight: whole_gauges(registry, &catalogue::IN_FLIGHT)?,
            retries: counters(registry, &catalogue::RETRIES)?,
            refused: counters(registry, &catalogue::REFUSED)?,
            limiter_wait: histograms(registry, &catalogue::LIMITER_WAIT)?,
            throttled: counters(registry, &catalogue::THROTTLED)?,
            throttled_until: gauges(registry, &catalogue::THROTTLED_UNTIL)?,
            retry_after: histograms(registry, &catalogue::RETRY_AFTER)?,
            token_requests: counters(registry, &catalogue::TOKEN_REQUESTS)?,
            token_expiry: gauges(registry, &catalogue::TOKEN_EXPIRY)?,
            clouds: Mutex::default(),
            failed: Mutex::default(),
        };
        for service in Service::ALL {
            families
                .in_flight
                .with_label_values(&[service.name()])
                .set(0);
            for cause in RetryCause::ALL {
                families
                    .retries
                    .with_label_values(&[service.name(), cause.as_str()]);
            }
        }
        Ok(families)
    }

    /// Renders the levels of the budgets, added up by cloud.
    pub(super) fn levels(&self, levels: &[(String, Service, Level)]) -> Result<Vec<MetricFamily>> {
        let registry = Registry::new();
        let queue = whole_gauges(&registry, &catalogue::LIMITER_QUEUE)?;
        let limit = gauges(&registry, &catalogue::LIMITER_LIMIT)?;
        let tokens = gauges(&registry, &catalogue::LIMITER_TOKENS)?;
        for (cloud, service, level) in levels {
            let of = &[self.cloud(cloud), service.name()];
            queue.with_label_values(of).add(count(level.waiting));
            limit.with_label_values(of).add(level.per_second);
            tokens.with_label_values(of).add(level.tokens);
        }
        Ok(registry.gather())
    }

    /// Counts this request as a retry if the previous one of the same name to this cloud failed. That is an
    /// approximation: the two may be about different objects.
    fn count_retry(
        &self,
        cloud: &str,
        api: &str,
        request: &'static str,
        failure: Option<RetryCause>,
    ) {
        let mut failed = self.failed.lock();
        let key = (cloud.to_owned(), request);
        let before = match failure {
            Some(cause) => failed.insert(key, cause),
            None => failed.remove(&key),
        };
        if let Some(cause) = before {
            self.retries.with_label_values(&[api, cause.as_str()]).inc();
        }
    }

    fn cloud<'a>(&self, cloud: &'a str) -> &'a str {
        let cloud = label(cloud);
        let mut clouds = self.clouds.lock();
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
        let errors = families.errors.with_label_values(request);
        let (code, cause) = match record.outcome {
            CallOutcome::Status(status) => (status.to_string(), RetryCause::of_status(status)),
            CallOutcome::TimedOut => ("timeout".to_owned(), Some(RetryCause::Timeout)),
            CallOutcome::Transport => ("transport".to_owned(), Some(RetryCause::Transport)),
            CallOutcome::Unreadable => ("parse".to_owned(), Some(RetryCause::ServerError)),
        };
        let failed = match record.outcome {
            CallOutcome::Status(status) => status >= 400 && status != 404 && status != 409,
            _ => true,
        };
        errors.inc_by(u64::from(failed));
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
        // These two counters appear with 0 as soon as a cloud is called, so that a rate shows their first increase.
        families.throttled.with_label_values(&[cloud, api]);
        families.refused.with_label_values(&[cloud, api]);
        families.count_retry(cloud, api, record.request, cause);
        let polled = match record.request {
            "server_get" | "server_list" => Polled::Server,
            "floating_ip_get" | "floating_ip_list" => Polled::FloatingIp,
            _ => return,
        };
        self.0.members.polled(polled, !failed, record.duration);
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
            .set(super::now() + pause.as_secs_f64());
        if let Some(header) = header {
            families
                .retry_after
                .with_label_values(&[service.name()])
                .observe(header.as_secs_f64());
        }
    }

    fn reauthenticated(&self, _cloud: &str, service: Service) {
        let cause = RetryCause::Reauthentication.as_str();
        self.0
            .openstack
            .retries
            .with_label_values(&[service.name(), cause])
            .inc();
    }

    fn signed_in(&self, cloud: &str, outcome: SignInOutcome, life: Option<Duration>) {
        let families = &self.0.openstack;
        let cloud = families.cloud(cloud);
        for known in SIGN_IN_OUTCOMES {
            families
                .token_requests
                .with_label_values(&[cloud, sign_in_label(known)]);
        }
        families
            .token_requests
            .with_label_values(&[cloud, sign_in_label(outcome)])
            .inc();
        if let Some(life) = life {
            families
                .token_expiry
                .with_label_values(&[cloud])
                .set(super::now() + life.as_secs_f64());
        }
    }
}
