//! What was read of the API server's floating IP and of the port that it is on.

use std::sync::Arc;

use super::proof::Proof;
use crate::reconcile::ReadAt;
use capo_core::{
    Lookup,
    ids::{PortId, ServerId},
};
use capo_gate::findings::Findings;

/// What this process knows of the floating IP and of the machines that it depends on.
#[derive(Debug, Clone, Default)]
pub(crate) struct SeenCarriers {
    /// The gates of the control-plane machines. Absent where the endpoint is not a floating IP that capo-rs moves.
    pub gates: Lookup<Arc<Findings>>,
    /// The port that the floating IP was on, and Nova's id of its server where it belongs to this cluster.
    pub(super) port: Option<(PortId, PortOwner)>,
    /// The requests through the endpoint for the machine that is released next.
    pub(super) proof: Option<Proof>,
    /// The host of an endpoint that was found to be the user's.
    pub(super) foreign: Option<ReadAt<String>>,
}

/// What a port belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PortOwner {
    /// A server of this cluster, by Nova's id; empty where that is gone.
    Server(ServerId),
    /// Something else.
    Other,
}
