//! The endpoint proof: requests through the endpoint of the control plane for the machine that is being released.

use std::{net::IpAddr, time::Instant};

use capo_core::{Endpoint, EndpointAnswer, EndpointFailure, ObjectName};

/// What to request through the endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndpointRequest {
    /// `GET /readyz` over a new TLS connection, verified against the cluster's CA.
    Readyz {
        /// The endpoint to connect to.
        endpoint: Endpoint,
        /// The addresses of the control-plane machines. They are compared with the names in the serving certificate to
        /// find which machine answered.
        addresses: Vec<IpAddr>,
    },
    /// A TCP connection to an additional port.
    Connect {
        /// The endpoint with the additional port.
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

/// A reply that came back through the endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndpointReply {
    /// An HTTP answer.
    Answer(EndpointAnswer),
    /// The TCP connection was opened and stayed open.
    Connected,
}

/// A reply, or why none came.
pub type EndpointResult = Result<EndpointReply, EndpointFailure>;

/// One series of requests for one machine.
#[derive(Debug, Clone)]
pub(crate) struct Proof {
    pub(crate) machine: ObjectName,
    pub(crate) round: Round,
    pub(crate) began: Instant,
    /// The requests to each port, in the order of the ports.
    pub(crate) ports: Vec<PortProof>,
}

/// The state of the machine's members while the requests are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    /// The members are in service. These requests show whether the manager reaches the endpoint at all.
    InService,
    /// The members get no new connections.
    Drained,
    /// The members are deleted.
    Removed,
}

/// The requests to one port.
#[derive(Debug, Clone, Default)]
pub(crate) struct PortProof {
    /// Whether requests are made to this port.
    pub(crate) required: bool,
    /// The numbers of the requests under way.
    pub(crate) requests: Vec<u64>,
    /// The last request, as text for messages.
    pub(crate) last_request: String,
    /// When the last request was sent.
    pub(crate) sent: Option<Instant>,
    /// Answers in a row that count.
    pub(crate) answers: u32,
    /// Requests in a row without an answer that counts.
    pub(crate) failures: u32,
    /// Whether the leaving machine itself has given one of the answers.
    pub(crate) is_contradicted: bool,
    /// Whether any request was answered, by whatever.
    pub(crate) reached: bool,
    /// The last request that failed, and its reply.
    pub(crate) failure: Option<String>,
}

/// What the requests have shown while the machine was in service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The endpoint answers. For each port: whether it answered and must therefore go on answering.
    Ports(Vec<bool>),
    /// The manager does not reach the endpoint at all.
    Unreachable(String),
    /// Something answers, but no API server of this cluster.
    Wrong(String),
}

/// The outcome of a series of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProofOutcome {
    /// More requests are needed.
    Pending,
    /// Enough requests in a row were answered.
    Answered,
    /// Too many requests failed, or the time for them is over.
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
