//! Values of the spec that can't be used, with messages that contain the object, the field, the value found and the
//! values allowed.

use std::{fmt::Display, str::FromStr};

use crate::kubernetes::conditions::kind::{
    API_ENDPOINT_READY, API_SERVER_LOAD_BALANCER_READY, NETWORK_READY, ROUTER_READY,
    SECURITY_GROUPS_READY,
};

/// The part of the cluster that a value belongs to. A value that can't be used stops only the changes of this part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpecPart {
    /// The network and its subnets.
    Network,
    /// The router.
    Router,
    /// The rules of the security groups.
    SecurityGroupRules,
    /// The load balancer's own network.
    LoadBalancerNetwork,
    /// The load balancer's additional ports.
    AdditionalPorts,
    /// The address ranges that may connect to the load balancer.
    AllowedCidrs,
    /// The endpoint: its port and floating IP.
    Endpoint,
}

impl SpecPart {
    /// The condition that shows the problem.
    pub(crate) fn condition(self) -> &'static str {
        match self {
            Self::Network => NETWORK_READY,
            Self::Router => ROUTER_READY,
            Self::SecurityGroupRules => SECURITY_GROUPS_READY,
            Self::LoadBalancerNetwork | Self::AdditionalPorts | Self::AllowedCidrs => {
                API_SERVER_LOAD_BALANCER_READY
            }
            Self::Endpoint => API_ENDPOINT_READY,
        }
    }

    /// Whether the value is ignored with a warning, as in CAPO, and no condition becomes False, because the cluster is
    /// complete without it.
    pub(crate) fn is_optional(self) -> bool {
        self == Self::AllowedCidrs
    }
}

/// A value of the spec that can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The part that the value belongs to.
    pub part: SpecPart,
    /// The message: object, field, value found, values allowed.
    pub message: String,
}

/// Whether a part has a problem.
pub(crate) fn has_problem(problems: &[Problem], part: SpecPart) -> bool {
    problems.iter().any(|problem| problem.part == part)
}

/// Collects the problems of one object.
#[derive(Debug)]
pub(crate) struct Problems<'a> {
    object: &'a str,
    found: Vec<Problem>,
}

impl<'a> Problems<'a> {
    /// Creates an empty collection for `object`.
    pub(crate) fn new(object: &'a str) -> Self {
        Self {
            object,
            found: Vec::new(),
        }
    }

    /// Returns the problems that were collected.
    pub(crate) fn found(self) -> Vec<Problem> {
        self.found
    }

    /// Whether a part has a problem.
    pub(crate) fn affect(&self, part: SpecPart) -> bool {
        self.found.iter().any(|problem| problem.part == part)
    }

    /// Records that `field` has the value `found`, which can't be used; `right` describes the values allowed.
    pub(crate) fn invalid(
        &mut self,
        part: SpecPart,
        field: &str,
        found: impl Display,
        right: &str,
    ) {
        self.found.push(Problem {
            part,
            message: format!(
                "OpenStackCluster {}: {field} is \"{found}\"; {right} is needed",
                self.object
            ),
        });
    }

    /// Parses `text`. If that fails, records a problem and returns `None`.
    pub(crate) fn parsed<T: FromStr>(
        &mut self,
        part: SpecPart,
        field: &str,
        text: &str,
        right: &str,
    ) -> Option<T> {
        let parsed = text.parse().ok();
        if parsed.is_none() {
            self.invalid(part, field, text, right);
        }
        parsed
    }
}

/// The description of a valid address.
pub(crate) const AN_ADDRESS: &str = "an IP address such as 10.6.0.5";
/// The description of a valid address range.
pub(crate) const A_RANGE: &str = "an address range such as 10.6.0.0/24";
/// The description of a valid port.
pub(crate) const A_PORT: &str = "a TCP port from 1 to 65535";
