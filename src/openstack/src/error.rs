//! The error type of every call.

use std::time::Duration;

use capo_core::FailureClass;

use crate::service::Service;

/// A failed call. Its text is stable: it has no connection ports, request ids, times or counters, so that two failures
/// of the same kind have the same text.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}: {}", .0.request, .0.message)]
pub struct Error(Box<Content>);

#[derive(Debug, Clone)]
struct Content {
    request: &'static str,
    service: Service,
    class: FailureClass,
    message: String,
    status: Option<u16>,
    retry_after: Option<Duration>,
    request_id: Option<String>,
    maybe_done: bool,
    too_large: bool,
}

impl Error {
    /// An error of `request` to `service`. `message` must be stable.
    pub fn new(
        service: Service,
        request: &'static str,
        class: FailureClass,
        message: impl Into<String>,
    ) -> Self {
        Self(Box::new(Content {
            request,
            service,
            class,
            message: message.into(),
            status: None,
            retry_after: None,
            request_id: None,
            maybe_done: false,
            too_large: false,
        }))
    }

    pub(crate) fn with_status(mut self, status: u16) -> Self {
        self.0.status = Some(status);
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

    pub(crate) fn with_too_large(mut self, too_large: bool) -> Self {
        self.0.too_large = too_large;
        self
    }

    /// This failure as that of another request, for callers that share one failed attempt.
    pub(crate) fn of_request(mut self, service: Service, request: &'static str) -> Self {
        self.0.request = request;
        self.0.service = service;
        self
    }

    /// The class of the failure.
    pub fn class(&self) -> FailureClass {
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

    /// The HTTP status, if there was an answer.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// How long this process sends no request to the service, or how long the service requested in Retry-After.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// The id that the service gave the request. It differs every time, so only logs may show it.
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    /// Whether the change may have been made although the call failed. The caller has to look the object up before it
    /// repeats the call.
    pub fn maybe_done(&self) -> bool {
        self.0.maybe_done
    }

    /// Whether the service answered, and its answer was larger than the limit.
    pub(crate) fn is_too_large(&self) -> bool {
        self.0.too_large
    }

    /// The failure without the request's name. The text is stable.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.0.class == FailureClass::NotFound
    }

    /// Whether the failure is of this class.
    pub fn is(&self, class: FailureClass) -> bool {
        self.0.class == class
    }
}
