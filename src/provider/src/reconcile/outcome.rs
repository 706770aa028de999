//! The end of a pass. A wait is not a failure.

use std::time::Duration;

use capo_core::FailureClass;
use capo_core::Reason;

/// How a pass over one object ended, which decides when the next one starts by itself. A change of the object, of a
/// related object or of its load balancer starts it earlier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is as desired. The next pass starts after the sync period.
    Done,
    /// The object waits for an operation or another object. Nothing is wrong.
    Wait {
        /// The reason of the wait.
        reason: Reason,
        /// The message, as in the condition.
        message: String,
        /// The time until the next pass. It grows while the wait is the same, up to ten seconds or this value, whichever
        /// is longer.
        after: Duration,
    },
    /// Something failed. The pass is repeated with back-off: no failure is final.
    Failed {
        /// The class of the failure, which decides the back-off.
        class: FailureClass,
        /// The reason.
        reason: Reason,
        /// The message, as in the condition.
        message: String,
        /// How long OpenStack refuses requests, according to its Retry-After header.
        retry_after: Option<Duration>,
    },
}

impl Outcome {
    /// A wait of `after` for `reason`.
    pub fn wait(reason: Reason, message: impl Into<String>, after: Duration) -> Self {
        Self::Wait {
            reason,
            message: message.into(),
            after,
        }
    }

    /// A failure for which OpenStack sent no Retry-After.
    pub fn failed(class: FailureClass, reason: Reason, message: impl Into<String>) -> Self {
        Self::Failed {
            class,
            reason,
            message: message.into(),
            retry_after: None,
        }
    }

    /// The label of metrics and logs.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Wait { .. } => "wait",
            Self::Failed { .. } => "failed",
        }
    }
}
