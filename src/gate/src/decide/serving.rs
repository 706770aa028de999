//! Whether a machine's API server serves, as far as Octavia, Nova and Cluster API show it. An answer at the machine's
//! own address is no evidence against it, because another machine may have that address.

use std::time::Duration;

use crate::model::{
    clock::Now,
    desired::{Deletion, ObservedCondition, ServerState},
    event::ProbeOutcome,
    evidence::{Evidence, Lack, Others, Serving, Want},
    machine::{Machine, Stage},
    member::Member,
    port::{IndexedPort, Port},
    state::{FRESH, State},
};
use capo_core::{ObjectName, OperatingStatus, ProvisioningStatus};

/// The age up to which a read of a server counts.
const SERVER_AGE: Duration = Duration::from_mins(1);

/// Whether evidence needs a newer read of this machine's server.
pub(crate) fn needs_server_read(machine: &Machine, now: &Now) -> bool {
    machine.want.server.is_due(now.instant)
}

/// Whether a read of its server is recent enough to decide on.
pub(crate) fn server_is_recent(machine: &Machine, now: &Now) -> bool {
    machine
        .want
        .server
        .read_at
        .is_some_and(|read| now.since(read) <= SERVER_AGE)
}

/// Whether Cluster API found the API server's pod unhealthy.
pub(crate) fn is_unhealthy(machine: &Machine) -> bool {
    machine.want.api_server_pod == ObservedCondition::False
}

/// Whether the machine is being removed: its member gets no more traffic, or will get none soon.
pub(crate) fn is_leaving(machine: &Machine) -> bool {
    match machine.want.deletion {
        Deletion::No => false,
        Deletion::BeforeHook { .. } => machine.stage > Stage::Serving,
        Deletion::AfterHook { .. } | Deletion::Unhooked { .. } => true,
        Deletion::AtHook { .. } | Deletion::OutOfBand { .. } => {
            machine.stage > Stage::Serving || machine.gates.release.is_open()
        }
    }
}

/// Whether the machine leaves and no gate holds it any more, but its API server still runs and no other machine serves.
/// Its member then stays in service, or comes back.
pub(crate) fn is_last_api_server(state: &State, machine: &Machine) -> bool {
    matches!(machine.want.deletion, Deletion::AfterHook { .. })
        && matches!(machine.others, Some(Others::None(..)))
        && machine.want.server.state == ServerState::Active
        && !is_unhealthy(machine)
        && !state.is_cluster_deleting()
}

/// Whether the machine leaves and none of its members is needed any more.
pub(crate) fn is_not_needed(state: &State, machine: &Machine) -> bool {
    is_leaving(machine) && !is_last_api_server(state, machine)
}

/// Whether the member may serve: nothing that is known keeps traffic away from it, whatever its provisioning status.
pub(crate) fn may_serve(machine: &Machine, member: &Member) -> bool {
    member.admin_up().unwrap_or(true)
        && member.weight().unwrap_or(1) > 0
        && member.provisioning != ProvisioningStatus::PendingDelete
        && !is_unhealthy(machine)
}

/// Whether a machine serves a port and will go on serving it.
pub(crate) fn serves(
    state: &State,
    machine: &Machine,
    port: IndexedPort<'_>,
    now: &Now,
) -> Serving {
    if active_member(machine, port).is_ok() && is_leaving(machine) {
        return Serving::No(Lack::Leaving);
    }
    serves_at_present(state, machine, port, now)
}

/// Whether a machine serves a port at present, even if it is leaving.
pub(crate) fn serves_at_present(
    state: &State,
    machine: &Machine,
    port: IndexedPort<'_>,
    now: &Now,
) -> Serving {
    let member = match in_service(machine, port) {
        Ok(member) => member,
        Err(lack) => return Serving::No(lack),
    };
    if is_unhealthy(machine) {
        return Serving::No(Lack::Unhealthy);
    }
    let is_recent = server_is_recent(machine, now);
    if is_recent && machine.want.server.state != ServerState::Active {
        return Serving::No(Lack::Server);
    }
    if member.online.reads == 0 {
        if monitor_decides(port) {
            return Serving::No(Lack::NotOnline);
        }
        if machine.want.node == ObservedCondition::False || !machine.want.has_node {
            return Serving::No(Lack::NoEvidence);
        }
    }
    if !is_recent {
        return Serving::NotYet(Want::Server);
    }
    if member.detail.is_none() {
        return Serving::NotYet(Want::Detail);
    }
    if member.online.reads == 0 {
        Serving::Yes(Evidence::Conditions)
    } else if member.online.spans(2, state.online_span()) {
        Serving::Yes(Evidence::Online)
    } else {
        Serving::NotYet(Want::OnlineSpan)
    }
}

/// Whether the health monitor of a port shows which members are up. The monitor of an additional port counts only if a
/// member is ONLINE there, because perhaps nothing listens on that port.
fn monitor_decides(IndexedPort { index, port }: IndexedPort<'_>) -> bool {
    if index == 0 {
        return port.monitor_is_usable();
    }
    let online = |member: &Member| member.operating == OperatingStatus::Online;
    port.monitor_is_usable() && port.members.iter().any(online)
}

/// The machine's member of this port, if it is ACTIVE at the machine's address. Otherwise why it does not serve.
fn active_member<'a>(
    machine: &Machine,
    IndexedPort { index, port }: IndexedPort<'a>,
) -> Result<&'a Member, Lack> {
    let member = machine
        .slots
        .get(index)
        .filter(|slot| !slot.has_duplicates && machine.want.address.is_some())
        .and_then(|slot| port.members.get(slot.member?))
        .ok_or(Lack::NoMember)?;
    if member.provisioning != ProvisioningStatus::Active {
        return Err(Lack::NotActive);
    }
    Ok(member)
}

/// The machine's member of this port, if Octavia sends it clients according to the last reads. Otherwise why it does
/// not serve.
fn in_service<'a>(machine: &Machine, port: IndexedPort<'a>) -> Result<&'a Member, Lack> {
    let member = active_member(machine, port)?;
    if member.admin_up() == Some(false) {
        return Err(Lack::AdminDown);
    }
    if member.weight() == Some(0) {
        return Err(Lack::Drained);
    }
    Ok(member)
}

/// Whether the API server of a machine whose member was created disabled is known to be up.
pub(crate) fn is_known_to_be_up(state: &State, machine: &Machine, now: &Now) -> bool {
    if is_unhealthy(machine) {
        return false;
    }
    let cluster = state.cluster();
    let kubeadm = cluster.is_some_and(|cluster| cluster.kubeadm_control_plane);
    let by_cluster_api = match (machine.want.api_server_pod, machine.want.node) {
        (ObservedCondition::TrueSince(_), _) => true,
        (_, ObservedCondition::TrueSince(_)) => !kubeadm,
        _ => false,
    };
    by_cluster_api || is_ready(machine, now)
}

/// Whether its API server answered `/readyz` with 200 under the cluster's CA within the last [`FRESH`].
pub(crate) fn is_ready(machine: &Machine, now: &Now) -> bool {
    matches!(machine.probe.seen, Some((began, ProbeOutcome::Ready)) if now.since(began) <= FRESH)
}

/// Whether no monitor shows which members of a port are up, and Cluster API has lost its connection to the API server.
pub(crate) fn no_machine_is_reached(state: &State, port: &Port) -> bool {
    let connection = state.cluster().map(|cluster| cluster.remote_connection);
    connection == Some(ObservedCondition::False) && !port.monitor_is_usable()
}

/// Whether the machine's address is known and the cluster has a CA, or may have one that was not read yet.
pub(crate) fn may_be_probed(state: &State, machine: &Machine) -> bool {
    machine.want.address.is_some() && !state.ca().is_absent()
}

/// Whether on every port another machine serves in place of `leaving`.
pub(crate) fn others_serve(state: &State, leaving: &ObjectName, now: &Now) -> Others {
    let mut answer = Others::None(state.endpoint_port().unwrap_or_default(), Lack::NoMember);
    for port in state.indexed_ports() {
        let others = state.machines.iter().filter(|(name, _)| *name != leaving);
        let number = port.port.number;
        let mut best = Others::None(number, Lack::NoMember);
        for (_, machine) in others {
            match serves(state, machine, port, now) {
                Serving::Yes(_) => {
                    best = Others::Serve;
                    break;
                }
                Serving::NotYet(want) => best = Others::NotYet(number, want),
                Serving::No(lack) => {
                    if matches!(best, Others::None(_, Lack::NoMember)) {
                        best = Others::None(number, lack);
                    }
                }
            }
        }
        answer = match (answer, best) {
            (_, Others::None(..)) => return best,
            (Others::NotYet(..), _) => answer,
            _ => best,
        };
    }
    answer
}

/// Whether a bypass, or a case that needs no proof, opened any machine's release. If so, members that were created
/// disabled are enabled before the member of that machine is removed.
pub(crate) fn any_release_is_open(state: &State) -> bool {
    state.machines.values().any(|machine| {
        machine.gates.release.is_open() && machine.stage == Stage::Serving && is_leaving(machine)
    })
}

/// Whether the last change of the machine's member of this port has failed, and the monitor finds that the member
/// serves.
pub(crate) fn is_online_in_error(
    machine: &Machine,
    IndexedPort { index, port }: IndexedPort<'_>,
) -> bool {
    let slot = machine.slots.get(index);
    slot.and_then(|slot| port.members.get(slot.member?))
        .is_some_and(|member| {
            member.provisioning == ProvisioningStatus::Error && is_in_data_path(port, member)
        })
}

/// Whether the data path has the member: its last change succeeded, or the change failed and the monitor finds that it
/// serves.
pub(crate) fn is_in_data_path(port: &Port, member: &Member) -> bool {
    match member.provisioning {
        ProvisioningStatus::Active => true,
        ProvisioningStatus::Error => {
            port.monitor_is_usable() && member.operating == OperatingStatus::Online
        }
        _ => false,
    }
}
