//! The error of a step of a pass: the condition that shows it, and the time of the next pass.

use std::time::Duration;

use super::Outcome;
use crate::kubernetes::conditions::kind;
use capo_core::FailureClass;
use capo_core::{ConditionState, Reason};
use capo_openstack::Error;

/// The error of a step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.state.message)]
pub struct StepError {
    /// The condition that shows the error. It is [`kind::READY`] where no other condition fits.
    pub condition: &'static str,
    /// The new state of that condition.
    pub state: ConditionState,
    /// The outcome of the pass, which decides when the next one starts.
    pub outcome: Outcome,
}

/// The result of a step.
pub type StepResult<T> = Result<T, StepError>;

impl StepError {
    /// The spec has a value that can't be applied. `message` names the object, the field, the value found and the
    /// values allowed.
    pub fn refused(condition: &'static str, reason: Reason, message: impl Into<String>) -> Self {
        Self::failed(condition, FailureClass::Invalid, reason, message)
    }

    /// A failure that is not the error of a single call.
    pub fn failed(
        condition: &'static str,
        class: FailureClass,
        reason: Reason,
        message: impl Into<String>,
    ) -> Self {
        Self::of(condition, Outcome::failed(class, reason, message))
    }

    /// The step waits for something.
    pub fn wait(
        condition: &'static str,
        reason: Reason,
        message: impl Into<String>,
        after: Duration,
    ) -> Self {
        Self::of(condition, Outcome::wait(reason, message, after))
    }

    /// A call failed. `ordinary` is the reason of an ordinary refusal; failures of the whole service have reasons of
    /// their own.
    pub fn cloud(condition: &'static str, ordinary: Reason, doing: &str, error: &Error) -> Self {
        Self::of(
            condition,
            Outcome::Failed {
                class: error.class(),
                reason: reason_of(error.class()).unwrap_or(ordinary),
                message: format!("{doing}: {error}"),
                retry_after: error.retry_after(),
            },
        )
    }

    /// A call of the Kubernetes API failed, which shows nothing about what exists.
    pub fn kubernetes(condition: &'static str, doing: &str, error: &kube::Error) -> Self {
        let class = match error {
            kube::Error::Api(status) if status.code == 403 => FailureClass::Denied,
            kube::Error::Api(status) if status.code == 409 => FailureClass::Conflict,
            kube::Error::Api(status) if status.code == 422 => FailureClass::Invalid,
            _ => FailureClass::Transient,
        };
        let message = format!("{doing}: {}", kubernetes_text(error));
        Self {
            condition,
            state: ConditionState::unknown(Reason::DependencyFailed, message.clone()),
            outcome: Outcome::failed(class, Reason::DependencyFailed, message),
        }
    }

    /// Builds the error of a step from the outcome of the pass. A failure that is probably temporary makes the
    /// condition Unknown, because it shows nothing about what exists.
    pub fn of(condition: &'static str, outcome: Outcome) -> Self {
        let state = match &outcome {
            Outcome::Done => ConditionState::met(Reason::Ready),
            Outcome::Failed {
                class: FailureClass::Transient | FailureClass::Throttled | FailureClass::NotSent,
                reason,
                message,
                ..
            } => ConditionState::unknown(*reason, message.clone()),
            Outcome::Wait {
                reason, message, ..
            }
            | Outcome::Failed {
                reason, message, ..
            } => ConditionState::unmet(*reason, message.clone()),
        };
        Self {
            condition,
            state,
            outcome,
        }
    }

    /// Returns the same error for another condition.
    #[must_use]
    pub fn shown_by(self, condition: &'static str) -> Self {
        Self { condition, ..self }
    }
}

impl Outcome {
    /// A call of the Kubernetes API failed, and no condition can show it.
    pub fn kubernetes(doing: &str, error: &kube::Error) -> Self {
        StepError::kubernetes(kind::READY, doing, error).outcome
    }

    /// The status could not be written.
    pub fn status_not_written(error: &kube::Error) -> Self {
        Self::kubernetes("Writing the status", error)
    }
}

/// A text that stays the same for the same error. The texts of transport errors contain addresses and ports that differ
/// every time.
pub fn kubernetes_text(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => {
            format!("Kubernetes answered {}: {}", status.code, status.message)
        }
        _ => "Kubernetes did not answer".to_owned(),
    }
}

/// The reason of a failure class that is independent of the step.
pub(crate) fn reason_of(class: FailureClass) -> Option<Reason> {
    match class {
        FailureClass::Transient | FailureClass::NoService | FailureClass::NotSent => {
            Some(Reason::OpenStackUnavailable)
        }
        FailureClass::Throttled => Some(Reason::Throttled),
        FailureClass::Auth => Some(Reason::AuthFailed),
        FailureClass::Quota => Some(Reason::QuotaExceeded),
        FailureClass::Denied
        | FailureClass::Locked
        | FailureClass::Duplicate
        | FailureClass::InUse
        | FailureClass::Conflict
        | FailureClass::NotImplemented
        | FailureClass::NotFound
        | FailureClass::Invalid => None,
    }
}
