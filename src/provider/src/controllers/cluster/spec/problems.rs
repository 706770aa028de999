//! Values of the spec that can't be used, with messages that name object, field, what was found and what is allowed.

use std::{fmt::Display, str::FromStr};

use capo_core::Reason;

/// Something in the spec that can't be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The condition that tells.
    pub condition: &'static str,
    /// Why.
    pub reason: Reason,
    /// Object, field, what was found, what would be right.
    pub message: String,
}

/// Collects problems, all of one object.
#[derive(Debug)]
pub(crate) struct Problems<'a> {
    object: &'a str,
    found: Vec<Problem>,
}

impl<'a> Problems<'a> {
    /// No problems yet, all of them to be about `object`.
    pub(crate) fn new(object: &'a str) -> Self {
        Self {
            object,
            found: Vec::new(),
        }
    }

    /// What was collected.
    pub(crate) fn found(self) -> Vec<Problem> {
        self.found
    }

    /// `field` has a value that can't be.
    pub(crate) fn invalid(
        &mut self,
        condition: &'static str,
        field: &str,
        found: impl Display,
        right: &str,
    ) {
        self.found.push(Problem {
            condition,
            reason: Reason::InvalidSpec,
            message: format!(
                "OpenStackCluster {}: {field} is \"{found}\"; {right} is needed",
                self.object
            ),
        });
    }

    /// `text` as a `T`; nothing and a problem if it is none.
    pub(crate) fn parsed<T: FromStr>(
        &mut self,
        condition: &'static str,
        field: &str,
        text: &str,
        right: &str,
    ) -> Option<T> {
        let parsed = text.parse().ok();
        if parsed.is_none() {
            self.invalid(condition, field, text, right);
        }
        parsed
    }
}

/// What is right for an address.
pub(crate) const AN_ADDRESS: &str = "an IP address such as 10.6.0.5";
/// What is right for a range.
pub(crate) const A_RANGE: &str = "an address range such as 10.6.0.0/24";
/// What is right for a port.
pub(crate) const A_PORT: &str = "a TCP port from 1 to 65535";
