//! The one error of every call.

use std::{fmt, time::Duration};

use super::service::Service;

/// What an error means for whoever made the call: it decides the retry, the condition's reason and the
/// metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// Connection trouble, a time-out, a 5xx, an answer that can't be read: goes away by itself.
    Transient,
    /// The service asks us to slow down (429, 503 with Retry-After, an old 413).
    Throttled,
    /// The credential is fine but may not do this (403 by policy).
    Denied,
    /// The credential is refused: sign-in fails, or two 401 in a row.
    Auth,
    /// A quota is used up.
    Quota,
    /// The object's state does not allow it now; see [`ConflictKind`].
    Conflict,
    /// No such object.
    NotFound,
    /// The request can't work as it is: bad value, unknown provider, feature not offered.
    Invalid,
    /// The catalogue has no such service for this region and interface, or it is too old.
    Unavailable,
    /// Not sent: this process does not hold the leader lease (any more).
    Fenced,
}

/// The kinds of 409, told apart by the words of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConflictKind {
    /// Octavia: the load balancer or pool is locked by another operation. Read until it is free.
    Immutable,
    /// The object is in a state that does not allow it (Octavia "Invalid state", Nova "while it is in").
    InvalidState,
    /// The same thing exists already (member address and port, listener port, security group rule).
    Duplicate,
    /// Something else still uses it.
    InUse,
    /// A 409 that says none of this.
    Other,
}

/// A failed call. Its text is stable: it has no ports of connections, request ids, times or
/// counters of ours, so that two failures alike read alike.
#[derive(Debug, Clone)]
pub struct Error(Box<Content>);

#[derive(Debug, Clone)]
struct Content {
    request: &'static str,
    service: Service,
    class: ErrorClass,
    message: String,
    conflict: Option<ConflictKind>,
    status: Option<u16>,
    retry_after: Option<Duration>,
    request_id: Option<String>,
    maybe_done: bool,
}

impl Error {
    /// An error of `request` to `service`. `message` must be stable.
    pub(crate) fn new(
        service: Service,
        request: &'static str,
        class: ErrorClass,
        message: impl Into<String>,
    ) -> Self {
        Self(Box::new(Content {
            request,
            service,
            class,
            message: message.into(),
            conflict: None,
            status: None,
            retry_after: None,
            request_id: None,
            maybe_done: false,
        }))
    }

    pub(crate) fn with_status(mut self, status: u16) -> Self {
        self.0.status = Some(status);
        self
    }

    pub(crate) fn with_conflict(mut self, kind: Option<ConflictKind>) -> Self {
        self.0.conflict = kind;
        self
    }

    pub(crate) fn with_retry_after(mut self, retry_after: Option<Duration>) -> Self {
        self.0.retry_after = retry_after;
        self
    }

    pub(crate) fn with_request_id(mut self, id: Option<String>) -> Self {
        self.0.request_id = id;
        self
    }

    pub(crate) fn with_maybe_done(mut self, maybe_done: bool) -> Self {
        self.0.maybe_done = maybe_done;
        self
    }

    /// The same failure, told of another request: for callers that share one failed attempt.
    pub(crate) fn retold_for(mut self, service: Service, request: &'static str) -> Self {
        self.0.request = request;
        self.0.service = service;
        self
    }

    /// What the error means.
    pub fn class(&self) -> ErrorClass {
        self.0.class
    }

    /// The name of the call, as in the metric label `request`.
    pub fn request(&self) -> &'static str {
        self.0.request
    }

    /// The service that was called.
    pub fn service(&self) -> Service {
        self.0.service
    }

    /// Which kind of 409 it was.
    pub fn conflict(&self) -> Option<ConflictKind> {
        self.0.conflict
    }

    /// The HTTP status, where there was an answer.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// How long calls to this service are refused by ourselves or unwelcome there; try no earlier.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// The service's id of the request, for logs only: it differs every time.
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    /// A change that failed this way may have been made all the same: look it up before repeating it.
    pub fn maybe_done(&self) -> bool {
        self.0.maybe_done
    }

    /// What went wrong, without the request's name. Stable.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// No such object.
    pub fn is_not_found(&self) -> bool {
        self.0.class == ErrorClass::NotFound
    }

    /// A 409 of this kind.
    pub fn is_conflict(&self, kind: ConflictKind) -> bool {
        self.0.conflict == Some(kind)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.request, self.0.message)
    }
}

impl std::error::Error for Error {}
