//! The errors of steps that work for a server, as its condition `InstanceReady` shows them.

use std::time::Duration;

use super::{Outcome, StepError, reason_of};
use crate::kubernetes::conditions::kind;
use capo_core::{FailureClass, Reason};
use capo_openstack::Error;

/// A call that failed. Trouble with the cloud as a whole has a reason of its own, wherever it comes from;
/// `refused` is the reason for everything else.
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

/// Something is wrong that is not a single call's error.
pub(crate) fn failure(
    class: FailureClass,
    reason: Reason,
    message: impl Into<String>,
) -> StepError {
    StepError::failed(kind::INSTANCE_READY, class, reason, message)
}

/// Something takes time; the next pass starts after `after`.
pub(crate) fn wait(reason: Reason, message: impl Into<String>, after: Duration) -> StepError {
    StepError::wait(kind::INSTANCE_READY, reason, message, after)
}

/// A spec leaves open what it has to say.
pub(crate) fn missing(field: &str, wanted: &str) -> StepError {
    failure(
        FailureClass::Invalid,
        Reason::InvalidSpec,
        format!("{field}: needs {wanted}"),
    )
}

/// Several objects match, or the one that matches belongs to another object.
pub(crate) fn ambiguous(message: impl Into<String>) -> StepError {
    failure(FailureClass::Invalid, Reason::AmbiguousMatch, message)
}

/// A call of the Kubernetes API failed.
pub(crate) fn kubernetes_failed(doing: &str, error: &kube::Error) -> StepError {
    StepError::kubernetes(kind::INSTANCE_READY, doing, error)
}
