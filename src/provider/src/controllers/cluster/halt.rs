//! The errors of steps under the names that this controller still has for them.

pub(crate) use crate::reconcile::{StepError as Halt, StepResult as Step, kubernetes_text};
