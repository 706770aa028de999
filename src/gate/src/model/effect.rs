//! What a worker is to do.

use crate::model::proof::EndpointRequest;
use std::net::IpAddr;

use crate::model::{call::Call, metric_event::MetricEvent};
use capo_core::{ObjectName, Priority};

/// Something to do. At most one [`Effect::Call`] is under way at any time.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Ask Octavia and step with the answer.
    Call {
        /// Goes back with the answer.
        id: u64,
        /// What to ask.
        call: Call,
        /// Of which part of the budget.
        urgency: Priority,
    },
    /// Ask an API server for `/readyz` under the cluster's CA, and step with what came of it.
    Probe {
        /// The machine.
        machine: ObjectName,
        /// Its own address.
        address: IpAddr,
        /// The endpoint's port.
        port: u16,
    },
    /// Send a request through the endpoint, and step with what came back.
    Request {
        /// Goes back with the reply.
        id: u64,
        /// What to request.
        request: EndpointRequest,
    },
    /// Ask Kubernetes, uncached, whether a machine exists, and step with the answer.
    LookUp {
        /// Its name, in the cluster's namespace.
        machine: String,
    },
    /// Publish the findings.
    Publish,
    /// Count something.
    Record(MetricEvent),
}
