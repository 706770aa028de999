//! Prevents the removal of the last member of a port that may serve while its gate is not open.

use crate::{
    decide::serving,
    model::{
        clock::Now,
        desired::Deletion,
        evidence::Serving,
        machine::{Machine, Stage},
        member::Member,
        port::{IndexedPort, Port},
        state::State,
    },
};
use capo_core::ProvisioningStatus;

/// Whether a member may be removed. A member that is ACTIVE or may serve needs another one on its port that may serve.
/// The last one is removed only if the cluster is being deleted, if a bypass or a case that needs no proof opened the
/// gate, if the Machine is being deleted without our hook, or if the machine was never admitted and does not serve the
/// port.
pub(crate) fn may_remove(
    state: &State,
    owner: Option<&Machine>,
    port: &Port,
    victim: &Member,
    now: &Now,
) -> bool {
    let serving = victim.provisioning == ProvisioningStatus::Active
        || match owner {
            Some(machine) => serving::may_serve(machine, victim),
            None => {
                victim.admin_up().unwrap_or(true)
                    && victim.weight().unwrap_or(1) > 0
                    && victim.provisioning != ProvisioningStatus::PendingDelete
            }
        };
    if !serving {
        return true;
    }
    let Some(index) = state.port_index(port.number) else {
        return false;
    };
    let another = state.machines.values().any(|machine| {
        let slot = machine.slots.get(index);
        let member = slot.and_then(|slot| port.members.get(slot.member?));
        !serving::is_leaving(machine)
            && member.is_some_and(|member| {
                // A member in PENDING_CREATE does not serve yet, and a member whose admin state is unread may be
                // disabled.
                member.id != victim.id
                    && member.provisioning != ProvisioningStatus::PendingCreate
                    && member.detail.is_some()
                    && serving::may_serve(machine, member)
            })
    });
    if another || state.is_cluster_deleting() {
        return true;
    }
    let Some(machine) = owner else {
        // The member's machine is gone. The last member may be removed if its address now belongs to a machine that was
        // never admitted, whose own member can't be created before that.
        return state.machines.values().any(|machine| {
            machine.want.address.is_some()
                && machine.want.address == victim.address
                && !machine.may_be_admitted()
        });
    };
    match machine.want.deletion {
        Deletion::Unhooked { .. } => true,
        Deletion::AtHook { .. } | Deletion::OutOfBand { .. } => {
            machine.gates.release.is_open() && machine.stage == Stage::Serving
        }
        // Otherwise the machine must never have been admitted and must not serve this port.
        Deletion::No | Deletion::BeforeHook { .. } | Deletion::AfterHook { .. } => {
            !machine.may_be_admitted()
                && matches!(
                    serving::serves_at_present(state, machine, IndexedPort { index, port }, now),
                    Serving::No(_)
                )
        }
    }
}
