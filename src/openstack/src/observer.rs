//! What the client tells the metrics.

use std::time::Duration;

use crate::service::Service;

/// How one attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// An HTTP answer with this status.
    Status(u16),
    /// No complete answer in time.
    TimedOut,
    /// No connection, or it broke.
    Transport,
    /// An answer that could not be read: not what the API promises, or larger than the cap.
    Unreadable,
}

/// One request that was sent.
#[derive(Debug)]
pub struct CallRecord<'a> {
    /// The cloud's name in its clouds.yaml.
    pub cloud: &'a str,
    /// The service.
    pub service: Service,
    /// The call's name, as CAPO's label `request`: `loadbalancer_member_create`.
    pub request: &'static str,
    /// GET, POST, PUT, PATCH or DELETE.
    pub method: &'static str,
    /// How it ended.
    pub outcome: CallOutcome,
    /// From sending to the end of the answer.
    pub duration: Duration,
    /// How long it had to wait for the budget before.
    pub limiter_wait: Duration,
}

/// How a sign-in ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignInOutcome {
    /// A token was issued.
    Success,
    /// 401 or 403.
    Unauthorized,
    /// 404: the application credential, user or project does not exist.
    NotFound,
    /// Anything else.
    Error,
}

/// Told of everything that the client does. Every method has an empty body, so that an
/// implementation names what it counts.
pub trait CallObserver: Send + Sync + 'static {
    /// A request was sent and ended.
    fn call(&self, record: &CallRecord<'_>) {
        let _ = record;
    }

    /// The number of requests in flight to a service changed by `change` (1 or -1).
    fn in_flight(&self, service: Service, change: i64) {
        let _ = (service, change);
    }

    /// A call was not sent: the service is paused or does not answer.
    fn refused(&self, cloud: &str, service: Service, request: &'static str) {
        let _ = (cloud, service, request);
    }

    /// A service asked for a pause. `header` is what its Retry-After said, if it had a usable one.
    fn throttled(&self, cloud: &str, service: Service, pause: Duration, header: Option<Duration>) {
        let _ = (cloud, service, pause, header);
    }

    /// A call is made once more because its token was refused.
    fn reauthenticated(&self, cloud: &str, service: Service) {
        let _ = (cloud, service);
    }

    /// A sign-in ended; `life` is how long the new token lives.
    fn signed_in(&self, cloud: &str, outcome: SignInOutcome, life: Option<Duration>) {
        let _ = (cloud, outcome, life);
    }
}

/// Counts nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl CallObserver for NoObserver {}
