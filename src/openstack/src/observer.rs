//! The trait by which the client reports its calls.

use std::time::Duration;

use crate::service::Service;

/// How one attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// The service answered with this HTTP status.
    Status(u16),
    /// The answer was not complete in time.
    TimedOut,
    /// There was no connection, or it broke.
    Transport,
    /// The answer could not be read: it has another form than the API promises, or is larger than the limit.
    Unreadable,
}

/// One request that was sent.
#[derive(Debug)]
pub struct CallRecord<'a> {
    /// The cloud's name in its clouds.yaml.
    pub cloud: &'a str,
    /// The service.
    pub service: Service,
    /// The call's name, such as `loadbalancer_member_create`. It is the value of CAPO's metric label `request`.
    pub request: &'static str,
    /// GET, POST, PUT, PATCH or DELETE.
    pub method: &'static str,
    /// How it ended.
    pub outcome: CallOutcome,
    /// The time from sending the request to the end of the answer.
    pub duration: Duration,
    /// How long the request waited for the budget before it was sent.
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

/// One change that a dry run did not send.
#[derive(Debug)]
pub struct UnsentWrite<'a> {
    /// The service.
    pub service: Service,
    /// The call's name, such as `loadbalancer_member_create`. It is the value of CAPO's metric label `request`.
    pub request: &'static str,
    /// POST, PUT, PATCH or DELETE.
    pub method: &'static str,
    /// The path below the service's base address, without a leading slash.
    pub path: String,
    /// The JSON body. It may hold user data, which must not be shown.
    pub body: Option<&'a [u8]>,
}

/// Receives the events of the client. Every method has an empty body, so that an implementation defines only those it
/// needs.
pub trait CallObserver: Send + Sync + 'static {
    /// A request was sent and ended.
    fn call(&self, record: &CallRecord<'_>) {
        let _ = record;
    }

    /// The number of requests in flight to a service changed by `change` (1 or -1).
    fn in_flight(&self, service: Service, change: i64) {
        let _ = (service, change);
    }

    /// A call was not sent, because the service is paused or does not answer.
    fn refused(&self, cloud: &str, service: Service, request: &'static str) {
        let _ = (cloud, service, request);
    }

    /// A change was not sent, because the lease token is one of a dry run
    /// ([`LeaseToken::dry_run`](crate::LeaseToken::dry_run)).
    fn not_sent(&self, write: &UnsentWrite<'_>) {
        let _ = write;
    }

    /// A service is throttling requests. `pause` is the time without requests; `header` is the usable value of
    /// Retry-After, if there was one.
    fn throttled(&self, cloud: &str, service: Service, pause: Duration, header: Option<Duration>) {
        let _ = (cloud, service, pause, header);
    }

    /// A call is sent once more, because the service refused its token.
    fn reauthenticated(&self, cloud: &str, service: Service) {
        let _ = (cloud, service);
    }

    /// A sign-in ended; `life` is the lifetime of the new token.
    fn signed_in(&self, cloud: &str, outcome: SignInOutcome, life: Option<Duration>) {
        let _ = (cloud, outcome, life);
    }
}

/// An observer that ignores all events.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl CallObserver for NoObserver {}
