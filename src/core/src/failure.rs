//! Classes of failed OpenStack calls.

/// The class of a failed call. It decides the retry, the condition's reason and the metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureClass {
    /// The connection failed, the call timed out, or the answer was a 5xx or unreadable. A later attempt may succeed.
    Transient,
    /// The service is throttling requests (429, 503 with Retry-After, an old-style 413).
    Throttled,
    /// The credentials are valid, but a policy does not allow the call (403).
    Denied,
    /// The credentials are refused: signing in fails, or two answers in a row are 401.
    Auth,
    /// A quota is used up.
    Quota,
    /// The object is locked by another operation, or in a state that does not allow the change (409).
    Locked,
    /// The object exists already: member address and port, listener port, security group rule (409).
    Duplicate,
    /// Something else still uses the object (409).
    InUse,
    /// A 409 whose text names no known kind.
    Conflict,
    /// The object does not exist.
    NotFound,
    /// The request can't succeed unchanged: a bad value, an unknown provider, a feature that is not offered.
    Invalid,
    /// The provider does not implement the request (501).
    NotImplemented,
    /// The catalogue has no such service for this region and interface, or the service is too old.
    NoService,
    /// The request was not sent: this process does not hold the leader lease, the write was withdrawn while it waited,
    /// or this is a dry run.
    NotSent,
}

impl FailureClass {
    /// Whether the service answered 409 with a text other than a used-up quota.
    pub fn is_conflict(self) -> bool {
        matches!(
            self,
            Self::Locked | Self::Duplicate | Self::InUse | Self::Conflict
        )
    }
}
