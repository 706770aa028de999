//! The errors of the steps of a server's pass. The condition `InstanceReady` of the server shows them.

use std::time::Duration;

use super::{Outcome, StepError, reason_of};
use crate::kubernetes::conditions::kind;
use capo_core::{FailureClass, Reason};
use capo_openstack::Error;

/// The error of a request. Failures of the whole cloud have reasons of their own; `refused` is the reason for every
/// other error.
pub(crate) fn failed(error: &Error, refused: Reason) -> StepError {
    StepError::of(
        kind::INSTANCE_READY,
        Outcome::Failed {
            class: error.class(),
            reason: reason_of(error.class()).unwrap_or(refused),
            message: error.to_string(),
            retry_after: error.retry_after(),
        },
    )
}

/// An error that is not that of a single request.
pub(crate) fn failure(
    class: FailureClass,
    reason: Reason,
    message: impl Into<String>,
) -> StepError {
    StepError::failed(kind::INSTANCE_READY, class, reason, message)
}

/// A wait. The next pass starts after `after`.
pub(crate) fn wait(reason: Reason, message: impl Into<String>, after: Duration) -> StepError {
    StepError::wait(kind::INSTANCE_READY, reason, message, after)
}

/// The error of a spec in which a field that is needed is not set.
pub(crate) fn missing(field: &str, wanted: &str) -> StepError {
    failure(
        FailureClass::Invalid,
        Reason::InvalidSpec,
        format!("{field}: needs {wanted}"),
    )
}

/// The error if several objects match, or if the one that matches belongs to another object.
pub(crate) fn ambiguous(message: impl Into<String>) -> StepError {
    failure(FailureClass::Invalid, Reason::AmbiguousMatch, message)
}

/// The error of a request to the Kubernetes API.
pub(crate) fn kubernetes_failed(doing: &str, error: &kube::Error) -> StepError {
    StepError::kubernetes(kind::INSTANCE_READY, doing, error)
}
