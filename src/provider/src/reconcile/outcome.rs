//! How a pass ended. Waiting is one way to end well.

use std::time::Duration;

use capo_core::FailureClass;
use capo_core::Reason;

/// How a pass over one object ended, and so when the next one comes by itself. A change of the
/// object, of its neighbours or of its load balancer wakes it earlier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All is as it should be. Looked at again after the sync period.
    Done,
    /// Nothing is wrong, something takes its time.
    Wait {
        /// What is waited for.
        reason: Reason,
        /// The same in words, as in the condition.
        message: String,
        /// When to look again; grows while the same thing is waited for, up to ten seconds or this
        /// value, whichever is longer.
        after: Duration,
    },
    /// Something is wrong. Tried again with back-off: no failure is final.
    Failed {
        /// What kind of trouble it is, which decides the back-off.
        class: FailureClass,
        /// Why.
        reason: Reason,
        /// The same in words, as in the condition.
        message: String,
        /// When OpenStack asked to be left alone until.
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

    /// A failure without a word from OpenStack on when to come back.
    pub fn failed(class: FailureClass, reason: Reason, message: impl Into<String>) -> Self {
        Self::Failed {
            class,
            reason,
            message: message.into(),
            retry_after: None,
        }
    }

    /// The label under which metrics and logs count it.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Wait { .. } => "wait",
            Self::Failed { .. } => "failed",
        }
    }
}
