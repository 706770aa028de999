//! Carries the gates' decisions over to one machine: whether it may count as provisioned (admission), which of our hooks its
//! Machine carries (release), and whether its server may be deleted (finalizer). The functions are pure. `capo-gate` decides;
//! the inputs say which machines have no finding because no gate concerns them.

use crate::reconcile::deletion_hooks::{HeldAt, HookChange, Hooks};
use capo_core::GateMode;
use capo_core::Reason;
use capo_gate::findings::{Gate, MachineFinding};

/// What the decisions about one machine depend on.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, each named where it is read"
)]
pub(super) struct GateInputs<'a> {
    /// The mode of this machine's gates. It is `Off` for every machine outside the control plane of a cluster with a load
    /// balancer or a floating IP of ours, because no gate is decided on for such a machine.
    pub mode: GateMode,
    /// The machine is paused, or clusterctl moves it.
    pub paused: bool,
    /// The Cluster is being deleted, or was absent in an uncached read.
    pub cluster_deleting: bool,
    /// The Machine has taken over the provider id, or `provisioned` was set before. Neither can be taken back.
    pub admitted: bool,
    /// The server was ACTIVE in the last read.
    pub server_active: bool,
    /// The owning Machine, if there is one.
    pub machine: Option<OwningMachine>,
    /// The finding of the load balancer's worker, or of the floating IP's gates.
    pub finding: Option<&'a MachineFinding>,
}

/// What the decisions depend on of the owning Machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OwningMachine {
    /// The Machine is being deleted.
    pub deleting: bool,
    /// The place at which one of our hooks holds the Machine.
    pub held_at: Option<HeldAt>,
    /// Its `OpenStackMachine` is being deleted.
    pub infrastructure_deleting: bool,
    /// Those of our hooks that it carries.
    pub carried: Hooks,
    /// Those that hold a Machine of its version.
    pub wanted: Hooks,
}

impl GateInputs<'_> {
    /// Whether the findings decide when the machine may leave. That the Cluster is being deleted or absent is checked here too,
    /// because no controller publishes the facts of a cluster without a Cluster.
    fn is_release_gated(&self) -> bool {
        self.mode == GateMode::Enforce && !self.cluster_deleting
    }
}

/// Why a gate does not open yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hold {
    /// The condition's reason.
    pub reason: Reason,
    /// What was seen, and what opens the gate.
    pub message: String,
}

impl Hold {
    fn new(reason: Reason, message: &str) -> Self {
        Self {
            reason,
            message: message.to_owned(),
        }
    }
}

/// Whether `status.initialization.provisioned` may be set.
pub(super) fn admission(inputs: &GateInputs<'_>) -> Result<(), Hold> {
    if inputs.admitted {
        return Ok(());
    }
    if !inputs.server_active {
        return Err(Hold::new(
            Reason::InstanceNotReady,
            "The server is not ACTIVE yet",
        ));
    }
    if inputs.mode != GateMode::Enforce {
        return Ok(());
    }
    decided(inputs.finding.map(|finding| &finding.admission))
}

/// The change of our hooks on the Machine. None is ever put on a Machine that is being deleted, because a user who removes
/// one there wants the Machine to go.
pub(super) fn hook(inputs: &GateInputs<'_>) -> HookChange {
    let Some(machine) = inputs.machine else {
        return HookChange::Keep;
    };
    if inputs.paused {
        return HookChange::Keep;
    }
    let holds = inputs.is_release_gated();
    let is_released = inputs
        .finding
        .is_some_and(|finding| finding.release.is_open());
    match (machine.carried.any(), machine.deleting) {
        (_, false) if holds && machine.carried != machine.wanted => HookChange::Put(machine.wanted),
        (true, false) if inputs.mode == GateMode::Off => HookChange::Remove,
        (true, true) if !holds => HookChange::Remove,
        (true, true) if is_released => release_hooks(machine),
        _ => HookChange::Keep,
    }
}

/// A release before the drain leaves the hook after it: a drain may take hours, and the gate is decided again after it.
fn release_hooks(machine: OwningMachine) -> HookChange {
    match machine.held_at {
        Some(HeldAt::PreDrain) => HookChange::Release(Hooks {
            pre_drain: false,
            ..machine.carried
        }),
        Some(HeldAt::PreTerminate) => HookChange::Release(Hooks::default()),
        None if machine.infrastructure_deleting => HookChange::Release(Hooks::default()),
        None => HookChange::Keep,
    }
}

/// Whether the server may be deleted, and the finalizer removed after it.
pub(super) fn may_delete_server(inputs: &GateInputs<'_>) -> Result<(), Hold> {
    if inputs.paused {
        return Err(Hold::new(
            Reason::Paused,
            "The cluster or machine is paused or is being moved, so capo-rs changes nothing",
        ));
    }
    if !inputs.is_release_gated() {
        return Ok(());
    }
    // A Machine that is being deleted without our hook is not held; its member goes before its server all the same, and
    // the tracker decides when.
    decided(inputs.finding.map(|finding| &finding.finalizer))
}

fn decided(gate: Option<&Gate>) -> Result<(), Hold> {
    match gate {
        Some(gate) if gate.is_open() => Ok(()),
        Some(gate) if gate.is_held() => Err(Hold::new(gate.reason, &gate.message)),
        Some(_) | None => Err(Hold::new(
            Reason::NotYetObserved,
            "The machine's load balancer members were not read yet",
        )),
    }
}

#[cfg(test)]
mod tests;
