//! Why a step did not come to its end: a condition, and when the pass comes back.

use std::time::Duration;

use crate::{
    controllers::Outcome,
    membership::findings::Verdict,
    openstack::{Error, ErrorClass},
    status::Reason,
};

/// Why a step did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Halt {
    /// The condition that tells.
    pub condition: &'static str,
    /// What it tells.
    pub verdict: Verdict,
    /// When the pass comes back.
    pub outcome: Outcome,
}

/// The end of a step.
pub(crate) type Step<T> = Result<T, Halt>;

impl Halt {
    /// The object asks for something that can't be. `message` names object, field, what was found and
    /// what would be right.
    pub fn refused(condition: &'static str, reason: Reason, message: impl Into<String>) -> Self {
        Self::failed(condition, ErrorClass::Invalid, reason, message)
    }

    /// Something is wrong that is not a single call's error.
    pub fn failed(
        condition: &'static str,
        class: ErrorClass,
        reason: Reason,
        message: impl Into<String>,
    ) -> Self {
        let message = message.into();
        Self {
            condition,
            verdict: Verdict::bad(reason, message.clone()),
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
            verdict: Verdict::bad(reason, message.clone()),
            outcome: Outcome::wait(reason, message, after),
        }
    }

    /// A call failed. `ordinary` is the reason for a plain refusal; trouble with the service as a
    /// whole has reasons of its own. Trouble that goes away by itself tells nothing about what
    /// exists, so it makes the condition Unknown.
    pub fn cloud(condition: &'static str, ordinary: Reason, doing: &str, error: &Error) -> Self {
        let reason = reason_of(error.class()).unwrap_or(ordinary);
        let message = format!("{doing}: {error}");
        let verdict = match error.class() {
            ErrorClass::Transient | ErrorClass::Throttled | ErrorClass::Fenced => {
                Verdict::unknown(reason, message.clone())
            }
            _ => Verdict::bad(reason, message.clone()),
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
            kube::Error::Api(status) if status.code == 403 => ErrorClass::Denied,
            kube::Error::Api(status) if status.code == 409 => ErrorClass::Conflict,
            kube::Error::Api(status) if status.code == 422 => ErrorClass::Invalid,
            _ => ErrorClass::Transient,
        };
        let message = format!("{doing}: {}", kubernetes_text(error));
        Self {
            condition,
            verdict: Verdict::unknown(Reason::DependencyFailed, message.clone()),
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
pub(crate) fn reason_of(class: ErrorClass) -> Option<Reason> {
    match class {
        ErrorClass::Transient | ErrorClass::Unavailable | ErrorClass::Fenced => {
            Some(Reason::OpenStackUnavailable)
        }
        ErrorClass::Throttled => Some(Reason::Throttled),
        ErrorClass::Auth => Some(Reason::AuthFailed),
        ErrorClass::Quota => Some(Reason::QuotaExceeded),
        ErrorClass::Denied | ErrorClass::Conflict | ErrorClass::NotFound | ErrorClass::Invalid => {
            None
        }
    }
}
