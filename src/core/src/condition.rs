//! A condition's content, without its type and its times.

use serde::Deserialize;

use crate::{Reason, label_enum};

/// Status, reason and message of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionState {
    /// True, False or Unknown.
    pub status: ConditionStatus,
    /// The reason of the status.
    pub reason: Reason,
    /// What was observed, since when, and what ends it. The text stays the same while nothing changes: it has no
    /// counters and no ages.
    pub message: String,
}

impl Default for ConditionState {
    fn default() -> Self {
        Self {
            status: ConditionStatus::Unknown,
            reason: Reason::NotYetObserved,
            message: "The load balancer has not been read yet".to_owned(),
        }
    }
}

impl ConditionState {
    /// The condition is True.
    pub fn met(reason: Reason) -> Self {
        Self {
            status: ConditionStatus::True,
            reason,
            message: String::new(),
        }
    }

    /// The condition is False; the message says what is wrong and what is allowed.
    pub fn unmet(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            status: ConditionStatus::False,
            reason,
            message: message.into(),
        }
    }

    /// The condition is Unknown; the message says what is missing to know it.
    pub fn unknown(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            status: ConditionStatus::Unknown,
            reason,
            message: message.into(),
        }
    }
}

label_enum! {
    /// The status of a condition, as Kubernetes writes it.
    #[derive(Default, Deserialize)]
    pub enum ConditionStatus {
        /// `True`
        True = "True",
        /// `False`
        False = "False",
        /// `Unknown`
        #[default]
        Unknown = "Unknown",
    }
}

impl From<&str> for ConditionStatus {
    /// A text that is no status of a condition counts as Unknown.
    fn from(text: &str) -> Self {
        match text {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }
}
