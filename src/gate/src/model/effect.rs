//! The effects of a step, which a worker executes.

use std::net::IpAddr;

use crate::model::{call::Call, metric_event::MetricEvent, proof::EndpointRequest};
use capo_core::{ObjectName, Priority};

/// Something to do. At most one [`Effect::Call`] is under way at any time.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Call Octavia, and step with the answer.
    Call {
        /// The number that the answer carries.
        id: u64,
        /// The call.
        call: Call,
        /// The priority in the request budget.
        priority: Priority,
    },
    /// Request `/readyz` from an API server, verified against the cluster's CA, and step with the outcome.
    Probe {
        /// The machine.
        machine: ObjectName,
        /// Its own address.
        address: IpAddr,
        /// The endpoint's port.
        port: u16,
    },
    /// Send a request through the endpoint, and step with the reply.
    Request {
        /// The number that the reply carries.
        id: u64,
        /// What to request.
        request: EndpointRequest,
    },
    /// Look up in Kubernetes, without a cache, whether a machine exists, and step with the answer.
    LookUp {
        /// Its name, in the cluster's namespace.
        machine: String,
    },
    /// Report an event for metrics.
    Record(MetricEvent),
}
