//! Why a step did not come to its end: a condition, and when the pass comes back.

use std::time::Duration;

use crate::controllers::Outcome;
use capo_core::FailureClass;
use capo_core::{ConditionState, Reason};
use capo_openstack::Error;

/// Why a step did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Halt {
    /// The condition that tells.
    pub condition: &'static str,
    /// What it tells.
    pub verdict: ConditionState,
    /// When the pass comes back.
    pub outcome: Outcome,
}

/// The end of a step.
pub(crate) type Step<T> = Result<T, Halt>;

impl Halt {
    /// The object asks for something that can't be. `message` names object, field, what was found and
    /// what would be right.
    pub fn refused(condition: &'static str, reason: Reason, message: impl Into<String>) -> Self {
        Self::failed(condition, FailureClass::Invalid, reason, message)
    }

    /// Something is wrong that is not a single call's error.
    pub fn failed(
        condition: &'static str,
        class: FailureClass,
        reason: Reason,
        message: impl Into<String>,
    ) -> Self {
        let message = message.into();
        Self {
            condition,
            verdict: ConditionState::unmet(reason, message.clone()),
            outcome: Outcome::failed(class, reason, message),
        }
    }

    /// Something takes its time.
    pub fn wait(
        condition: &'static str,
        reason: Reason,
        message: impl Into<String>,
        after: Duration,
    ) -> Self {
        let message = message.into();
        Self {
            condition,
            verdict: ConditionState::unmet(reason, message.clone()),
            outcome: Outcome::wait(reason, message, after),
        }
    }

    /// A call failed. `ordinary` is the reason for a plain refusal; failed with the service as a
    /// whole has reasons of its own. Trouble that goes away by itself tells nothing about what
    /// exists, so it makes the condition Unknown.
    pub fn cloud(condition: &'static str, ordinary: Reason, doing: &str, error: &Error) -> Self {
        let reason = reason_of(error.class()).unwrap_or(ordinary);
        let message = format!("{doing}: {error}");
        let verdict = match error.class() {
            FailureClass::Transient | FailureClass::Throttled | FailureClass::LeaseLost => {
                ConditionState::unknown(reason, message.clone())
            }
            _ => ConditionState::unmet(reason, message.clone()),
        };
        Self {
            condition,
            verdict,
            outcome: Outcome::Failed {
                class: error.class(),
                reason,
                message,
                retry_after: error.retry_after(),
            },
        }
    }

    /// Kubernetes did not answer as it should.
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
            verdict: ConditionState::unknown(Reason::DependencyFailed, message.clone()),
            outcome: Outcome::failed(class, Reason::DependencyFailed, message),
        }
    }
}

/// A stable text: transport errors hold addresses and ports that differ every time.
pub(crate) fn kubernetes_text(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => {
            format!("Kubernetes answered {}: {}", status.code, status.message)
        }
        _ => "Kubernetes did not answer".to_owned(),
    }
}

/// The reason that a class has wherever it comes from.
pub(crate) fn reason_of(class: FailureClass) -> Option<Reason> {
    match class {
        FailureClass::Transient | FailureClass::NoService | FailureClass::LeaseLost => {
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
