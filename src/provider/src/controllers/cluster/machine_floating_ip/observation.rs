//! What passes have read of the API server's floating IP and of the port that has it.

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
pub(crate) struct SeenMachineFloatingIp {
    /// The gates of the control-plane machines. Absent if the endpoint is not a floating IP that capo-rs moves.
    pub gates: Lookup<Arc<Findings>>,
    /// The last known port of the floating IP, and the owner of that port.
    pub(super) port: Option<(PortId, PortOwner)>,
    /// The requests through the endpoint for the machine that is released next.
    pub(super) proof: Option<Proof>,
    /// The host of an endpoint that was found to be managed by the user.
    pub(super) foreign: Option<ReadAt<String>>,
}

/// The owner of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PortOwner {
    /// A server of this cluster, by its id in Nova. The id is empty if the port does not exist any more.
    Server(ServerId),
    /// Anything else.
    Other,
}
