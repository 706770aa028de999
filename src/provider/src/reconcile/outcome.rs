//! The end of a pass. A wait is not a failure.

use std::time::Duration;

use kube::Resource;

use crate::kubernetes::events::Events;
use capo_core::{FailureClass, Reason, label_enum};

/// How a pass over one object ended, which decides when the next one starts by itself. A change of the object, of a
/// related object or of its load balancer starts it earlier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is as desired. The next pass starts after the sync period.
    Done,
    /// The object waits for an operation or another object. Nothing is wrong.
    Wait {
        /// The reason for the wait.
        reason: Reason,
        /// The message, as in the condition.
        message: String,
        /// The time until the next pass. It grows while the wait is the same, up to ten seconds or this value,
        /// whichever is longer.
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

    /// The outcome of a pass, from those of its steps: a failure takes precedence over a wait, and a shorter wait over
    /// a longer one.
    pub(crate) fn of_steps(steps: Vec<Self>) -> Self {
        let mut wait: Option<Self> = None;
        for step in steps {
            match (&step, &wait) {
                (Self::Failed { .. }, _) => return step,
                (Self::Wait { after, .. }, Some(Self::Wait { after: sooner, .. }))
                    if after >= sooner => {}
                (Self::Wait { .. }, _) => wait = Some(step),
                (Self::Done, _) => {}
            }
        }
        wait.unwrap_or(Self::Done)
    }

    /// Publishes a Warning event about `object` if the pass over it failed.
    pub(crate) fn publish_failure(
        &self,
        object: &impl Resource<DynamicType = ()>,
        events: &Events,
    ) {
        if let Self::Failed {
            reason, message, ..
        } = self
        {
            events.warning(&object.object_ref(&()), *reason, "Reconcile", message);
        }
    }

    /// The result of the pass, as metrics name it.
    pub fn result(&self) -> PassResult {
        match self {
            Self::Done => PassResult::Success,
            Self::Wait { .. } => PassResult::RequeueAfter,
            Self::Failed { .. } => PassResult::Error,
        }
    }
}

label_enum! {
    /// The result of a pass, as the metrics of controller-runtime name it.
    pub enum PassResult, all {
        /// Everything is as desired.
        Success = "success",
        /// The pass failed.
        Error = "error",
        /// Passes of capo-rs never have this result. Its series exists for boards that are made for controller-runtime.
        Requeue = "requeue",
        /// The object waits for an operation or another object.
        RequeueAfter = "requeue_after",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_goes_before_waits_and_the_sooner_wait_before_the_later() {
        let wait = |seconds| {
            let after = Duration::from_secs(seconds);
            Outcome::wait(Reason::LoadBalancerPending, "w", after)
        };
        let failed = Outcome::failed(FailureClass::Quota, Reason::QuotaExceeded, "q");
        assert_eq!(Outcome::of_steps(vec![]), Outcome::Done);
        let waits = vec![wait(5), Outcome::Done, wait(2), wait(9)];
        assert_eq!(Outcome::of_steps(waits), wait(2));
        let mixed = vec![wait(5), failed.clone(), wait(2)];
        assert_eq!(Outcome::of_steps(mixed), failed);
    }
}
