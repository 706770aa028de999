//! Applies the gates' decisions to one machine: whether it may count as provisioned (admission), which deletion hooks
//! its Machine carries (release), and whether its server may be deleted (finalizer). The functions are pure.
//! `capo-gate` makes the decisions; the inputs say which machines have no finding because no gate applies to them.

use crate::reconcile::deletion_hooks::{HeldAt, HookChange, Hooks};
use capo_core::{ConditionState, GateMode, Reason};
use capo_gate::findings::{Gate, MachineFinding};

/// What the decisions about one machine depend on.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, each named where it is read"
)]
pub(super) struct GateInputs<'a> {
    /// The mode of this machine's gates. It is `Off` for every machine to which no gate applies: only control-plane
    /// machines of a cluster with a managed load balancer or a floating IP that capo-rs moves have gates.
    pub mode: GateMode,
    /// Whether the machine is paused or clusterctl moves it.
    pub paused: bool,
    /// Whether the Cluster is being deleted, or was absent in an uncached read. `ClusterFacts::cluster_deleting`, on
    /// which the findings depend, is also true if only the control-plane object is being deleted or was deleted.
    pub cluster_deleting_or_absent: bool,
    /// Whether the Machine has copied the provider id, or `provisioned` was set before. Neither can be undone.
    pub admitted: bool,
    /// Whether the server was ACTIVE in the last read.
    pub server_active: bool,
    /// The owning Machine, if there is one.
    pub machine: Option<OwningMachine>,
    /// The finding about this machine, from the load balancer's worker or from the gates of the floating IP.
    pub finding: Option<&'a MachineFinding>,
}

/// The properties of the owning Machine that the decisions depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OwningMachine {
    /// Whether the Machine is being deleted.
    pub deleting: bool,
    /// The point of its deletion at which one of the deletion hooks holds the Machine.
    pub held_at: Option<HeldAt>,
    /// Whether its `OpenStackMachine` is being deleted.
    pub infrastructure_deleting: bool,
    /// The deletion hooks of capo-rs that the Machine carries.
    pub carried: Hooks,
    /// The deletion hooks of capo-rs that a Machine of its Kubernetes version needs.
    pub wanted: Hooks,
}

impl GateInputs<'_> {
    /// Whether the findings decide when the machine may be deleted. This also checks whether the Cluster is being
    /// deleted or absent, because no controller publishes the facts of a cluster whose Cluster is absent.
    fn is_release_gated(&self) -> bool {
        self.mode == GateMode::Enforce && !self.cluster_deleting_or_absent
    }
}

/// Decides whether `status.initialization.provisioned` may be set. The error is what the machine's condition shows.
///
/// The gate checks too whether the machine was admitted and whether its server is ACTIVE. Both are checked here for
/// every machine, because there is no finding about a machine to which no gate applies, such as a worker.
pub(super) fn admission(inputs: &GateInputs<'_>) -> Result<(), ConditionState> {
    if inputs.admitted {
        return Ok(());
    }
    if !inputs.server_active {
        return Err(ConditionState::unmet(
            Reason::InstanceNotReady,
            "The server is not ACTIVE yet",
        ));
    }
    if inputs.mode != GateMode::Enforce {
        return Ok(());
    }
    decided(inputs.finding.map(|finding| &finding.admission))
}

/// Decides how the deletion hooks on the Machine change. No hook is ever added to a Machine that is being deleted,
/// because a user who removes a hook there wants the Machine to be deleted.
///
/// The gate checks too whether the machine is paused, whether the mode is `Enforce` and whether the Cluster is being
/// deleted. They are checked here as well, because hooks are also removed from a Machine about which there is no
/// finding: no gate applies to it any more, or its Cluster is absent.
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

/// Decides which hooks a release removes. A release before the drain leaves the pre-terminate hook, because a drain may
/// take hours and the gate is decided again after it.
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

/// Decides whether the server may be deleted. The finalizer is removed after that.
///
/// The gate checks too whether the machine is paused and whether the Cluster is being deleted. Both are checked here
/// for every machine, because the server of a machine about which there is no finding, such as a worker, is deleted as
/// well, and not while the machine is paused.
pub(super) fn may_delete_server(inputs: &GateInputs<'_>) -> Result<(), ConditionState> {
    if inputs.paused {
        return Err(ConditionState::unmet(
            Reason::Paused,
            "The cluster or machine is paused or is being moved, so capo-rs changes nothing",
        ));
    }
    if !inputs.is_release_gated() {
        return Ok(());
    }
    // If a Machine is being deleted without a deletion hook, nothing holds its deletion. Its member is still removed
    // before its server; the tracker decides when that is done.
    decided(inputs.finding.map(|finding| &finding.finalizer))
}

fn decided(gate: Option<&Gate>) -> Result<(), ConditionState> {
    match gate {
        Some(gate) if gate.is_open() => Ok(()),
        Some(gate) if gate.is_held() => {
            Err(ConditionState::unmet(gate.reason, gate.message.clone()))
        }
        Some(_) | None => Err(ConditionState::unmet(
            Reason::NotYetObserved,
            "The machine's load balancer members were not read yet",
        )),
    }
}

#[cfg(test)]
mod tests;
