//! The endpoint proof: requests through the endpoint of the control plane for the machine that is being released.

use std::{net::IpAddr, time::Instant};

use capo_core::{Endpoint, EndpointAnswer, EndpointFailure, ObjectName};

/// What to request through the endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndpointRequest {
    /// `GET /readyz` over a new TLS connection, verified against the cluster's CA.
    Readyz {
        /// Where.
        endpoint: Endpoint,
        /// The addresses of the control-plane machines, to find in the serving certificate which one answered.
        addresses: Vec<IpAddr>,
    },
    /// A TCP connection to an additional port.
    Connect {
        /// Where.
        endpoint: Endpoint,
    },
}

impl std::fmt::Display for EndpointRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Readyz { endpoint, .. } => write!(f, "GET https://{endpoint}/readyz"),
            Self::Connect { endpoint } => write!(f, "TCP connection to {endpoint}"),
        }
    }
}

/// What came back through the endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndpointReply {
    /// An HTTP answer.
    Answer(EndpointAnswer),
    /// The TCP connection was opened and stayed open.
    Connected,
}

/// A reply, or why none came.
pub type EndpointResult = Result<EndpointReply, EndpointFailure>;

/// One row of requests for one machine.
#[derive(Debug, Clone)]
pub(crate) struct Proof {
    pub(crate) machine: ObjectName,
    pub(crate) round: Round,
    pub(crate) began: Instant,
    /// In the order of the ports.
    pub(crate) ports: Vec<PortProof>,
}

/// What the members of the machine are like while the requests are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    /// In service: this shows whether the manager reaches the endpoint at all.
    InService,
    /// Without new connections.
    Drained,
    /// Deleted.
    Removed,
}

/// The requests to one port.
#[derive(Debug, Clone, Default)]
pub(crate) struct PortProof {
    /// Requests are made to this port.
    pub(crate) required: bool,
    /// The request under way.
    pub(crate) request: Option<u64>,
    /// The last request.
    pub(crate) last_request: String,
    /// When the last request was sent.
    pub(crate) sent: Option<Instant>,
    /// Answers in a row that count.
    pub(crate) answers: u32,
    /// Requests in a row without an answer that counts.
    pub(crate) failures: u32,
    /// Something answered, right or wrong.
    pub(crate) reached: bool,
    /// The last request that failed, and its reply.
    pub(crate) failure: Option<String>,
}

/// What the requests have shown while the machine was in service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The endpoint answers. The additional ports that answered too have to go on doing so.
    Ports(Vec<bool>),
    /// The manager does not reach the endpoint at all.
    Unreachable(String),
    /// Something answers, but no API server of this cluster.
    Wrong(String),
}

/// What a row of requests has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProofOutcome {
    /// More requests are needed.
    Pending,
    /// Enough answers came.
    Answered,
    /// Too many requests failed, or the time is over.
    Failed,
}

impl Proof {
    pub(crate) fn new(
        machine: ObjectName,
        round: Round,
        began: Instant,
        required: Vec<bool>,
    ) -> Self {
        let port = |required| PortProof {
            required,
            ..PortProof::default()
        };
        Self {
            machine,
            round,
            began,
            ports: required.into_iter().map(port).collect(),
        }
    }
}
