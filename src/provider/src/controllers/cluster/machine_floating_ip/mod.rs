//! The API server's floating IP of a cluster without a managed load balancer. It is on a control-plane machine, and is
//! moved to another one before that machine is deleted.

mod control_plane_machine;
mod gates;
pub(crate) mod observation;
mod plan;
mod proof;

use std::{net::IpAddr, time::Duration};

use self::{
    control_plane_machine::{ControlPlaneMachines, control_plane_machines},
    gates::{decide_gates, prove_next, set_gates},
    observation::PortOwner,
    plan::MovePlan,
};
use super::{
    floating_ip::{self as floating_ips, Purpose},
    pass::Pass,
    step_context::StepContext,
};
use crate::controllers::Outcome;
use crate::kubernetes::conditions::kind::API_ENDPOINT_READY;
use crate::reconcile::{ReadAt, StepError, StepResult, server_names::port_description};
use capo_core::{
    ConditionState, Lookup, ObjectName, Priority, Reason,
    ids::{PortId, ServerId},
};
use capo_gate::{
    ReleaseInputs,
    desired::ClusterFacts,
    floating_ip::{ControlPlaneMachine, Holder},
};
use capo_openstack::network::{FloatingIp, PortFilter};

/// How long the floating IP is used without a new read while no control-plane machine is being deleted.
const READ_AGE: Duration = Duration::from_mins(5);
/// How long it is used while a control-plane machine is being deleted, whose gate depends on it.
const READ_AGE_OF_RELEASE: Duration = Duration::from_secs(15);
/// The time until the cluster is reconciled again while no machine can take the floating IP. That pass sends no request
/// for it.
const SOON: Duration = Duration::from_secs(2);
/// The time until the cluster is reconciled again if a watch also reports the change.
const WATCHED: Duration = Duration::from_mins(1);

/// Puts the floating IP `fip` on a control-plane machine, or moves it, and decides on the gates of the machines.
pub(crate) async fn reconcile(
    pass: &mut Pass<'_>,
    context: &StepContext<'_>,
    facts: &ClusterFacts,
    fip: FloatingIp,
) -> StepResult<()> {
    let ControlPlaneMachines {
        all,
        awaiting_release,
    } = control_plane_machines(pass, &facts.machines);
    let address = fip.address_or_id();
    let Some(holder) = holder(pass, context, &fip, &all).await? else {
        return Err(StepError::wait(
            API_ENDPOINT_READY,
            Reason::ServerNotReady,
            format!("It is unknown which control-plane machine floating IP {address} is on"),
            SOON,
        ));
    };
    let plan = plan::plan(&holder, &all);
    let (holder, step) = match plan {
        MovePlan::LeaveAlone => {
            set_gates(pass, Lookup::Absent);
            return Ok(());
        }
        MovePlan::Stay => (holder, Ok(())),
        MovePlan::Put { on, server } => {
            associate_with(pass, context, &fip, &on, &server).await?;
            (Holder::Machine(on), Ok(()))
        }
        MovePlan::NoReceiver { on } => (holder, Err(no_receiver(&address, &on))),
        MovePlan::Await => (holder, Err(no_machine(&address, &all))),
    };
    let ingress = match &step {
        Ok(()) => ConditionState::met(Reason::Ready),
        Err(error) => error.state.clone(),
    };
    let mut inputs = ReleaseInputs {
        cluster: facts,
        address: &address,
        holder: &holder,
        asked: &awaiting_release,
        ingress: &ingress,
        proof: None,
        now: pass.now,
    };
    let proof = prove_next(pass, facts, &inputs, &all);
    inputs.proof = proof.as_ref();
    decide_gates(pass, &inputs, &all);
    if !awaiting_release.is_empty() {
        let text = "A control-plane machine is held until the API server answers without it";
        pass.record_optional_wait(Outcome::wait(Reason::FloatingIPError, text, SOON));
    } else if all.iter().any(ControlPlaneMachine::is_leaving) {
        let text = "A control-plane machine is being deleted";
        pass.record_optional_wait(Outcome::wait(Reason::Deleting, text, WATCHED));
    }
    step
}

/// The floating IP of this project to whose address the endpoint's host refers, directly or by a DNS name. `None` means
/// that the user manages the endpoint.
pub(crate) async fn find_for_endpoint(
    pass: &mut Pass<'_>,
    context: &StepContext<'_>,
    host: &str,
) -> StepResult<Option<FloatingIp>> {
    let given = context.desired.floating_ip;
    let address = host.parse::<IpAddr>().ok().or(given);
    let is_leaving = pass.related.is_machine_leaving();
    let age = if is_leaving {
        READ_AGE_OF_RELEASE
    } else {
        READ_AGE
    };
    if let Some(read) = &pass.cached.floating_ip
        && let fip = &read.value
        && (address.is_none() || fip.floating_ip_address == address)
        && read.age(pass.now) < age
    {
        return Ok(Some(fip.clone()));
    }
    if pass.cached.machine_floating_ip.gates.is_absent()
        && let Some(foreign) = &pass.cached.machine_floating_ip.foreign
        && foreign.value == host
        && foreign.age(pass.now) < READ_AGE
    {
        return Ok(None);
    }
    let addresses = match address {
        Some(address) => vec![address],
        None => match pass.cached.endpoint_name.addresses(host).await {
            Ok(addresses) => addresses,
            // The name of an endpoint that the user manages need not resolve here. Until that is certain, the gates
            // stay as they are.
            Err(unresolved) => {
                pass.record_optional_wait(unresolved.outcome);
                let known = pass.cached.floating_ip.as_ref();
                return Ok(known.map(|read| read.value.clone()));
            }
        },
    };
    let mut found = None;
    for address in addresses {
        let is_given = given == Some(address);
        found = floating_ips::by_address(context, address, is_given).await?;
        if found.is_some() {
            break;
        }
    }
    let Some(fip) = found else {
        pass.cached.floating_ip = None;
        pass.cached.machine_floating_ip.foreign = Some(ReadAt::new(host.to_owned(), pass.now));
        set_gates(pass, Lookup::Absent);
        return Ok(None);
    };
    pass.cached.floating_ip = Some(ReadAt::new(fip.clone(), pass.now));
    Ok(Some(fip))
}

/// Determines what has the floating IP. `None` means that this can't be decided yet: the floating IP is on a port of
/// this cluster, no known server has that port, and the server of a machine is not known.
async fn holder(
    pass: &mut Pass<'_>,
    context: &StepContext<'_>,
    fip: &FloatingIp,
    machines: &[ControlPlaneMachine],
) -> StepResult<Option<Holder>> {
    let Some(port) = &fip.port_id else {
        return Ok(Some(Holder::Free));
    };
    let known = pass.cached.machine_floating_ip.port.as_ref();
    let owner = match known.filter(|(known, _)| known == port) {
        Some((_, owner)) => owner.clone(),
        None => owner_of(pass, context, port, machines).await?,
    };
    pass.cached.machine_floating_ip.port = Some((port.clone(), owner.clone()));
    let PortOwner::Server(server) = owner else {
        return Ok(Some(Holder::Other));
    };
    let on = machines
        .iter()
        .find(|machine| machine.server.as_ref() == Some(&server));
    Ok(match on {
        Some(machine) => Some(Holder::Machine(machine.name.clone())),
        None if machines.iter().any(|machine| machine.server.is_none()) => None,
        None => Some(Holder::Free),
    })
}

async fn owner_of(
    pass: &Pass<'_>,
    context: &StepContext<'_>,
    port: &PortId,
    machines: &[ControlPlaneMachine],
) -> StepResult<PortOwner> {
    let found = match context.cloud.port(port, Priority::Settling).await {
        Ok(found) => found,
        Err(error) if error.is_not_found() => return Ok(PortOwner::Server(ServerId::default())),
        Err(error) => {
            let doing = format!("Reading port {port} of the API server's floating IP");
            return Err(floating_ips::failed(&doing, &error));
        }
    };
    let server = ServerId::from(found.device_id);
    let is_control_plane_machine = machines
        .iter()
        .any(|machine| machine.server.as_ref() == Some(&server));
    let description = port_description(&pass.related.cluster_name);
    Ok(
        if is_control_plane_machine || found.description == description {
            PortOwner::Server(server)
        } else {
            PortOwner::Other
        },
    )
}

/// Puts the floating IP on the port that a server has in the cluster's network.
async fn associate_with(
    pass: &mut Pass<'_>,
    context: &StepContext<'_>,
    fip: &FloatingIp,
    machine: &ObjectName,
    server: &ServerId,
) -> StepResult<()> {
    let Some(network) = pass.cached.networking.network.found() else {
        // The condition NetworkReady shows why the network is unknown.
        let text = "The cluster's network is unknown, so no floating IP is put on a machine";
        return Err(StepError::wait(
            API_ENDPOINT_READY,
            Reason::ServerNotReady,
            text,
            SOON,
        ));
    };
    let filter = PortFilter {
        device_id: Some(server.to_string()),
        network_id: Some(network.network.id.clone()),
        ..PortFilter::default()
    };
    let ports = context
        .cloud
        .ports(&filter, Priority::Settling)
        .await
        .map_err(|e| floating_ips::failed("Listing the ports of a control-plane machine", &e))?;
    // The first port by name is chosen, because Neutron lists ports in any order. CAPO takes the first one of that list
    // that has an address.
    let port = ports
        .into_iter()
        .filter(|port| !port.fixed_ips.is_empty())
        .min_by(|a, b| a.name.cmp(&b.name).then(a.id.cmp(&b.id)));
    let Some(port) = port else {
        return Err(StepError::wait(
            API_ENDPOINT_READY,
            Reason::FloatingIPError,
            format!(
                "Control-plane machine {} has no port with an address in network {}, so the API server's floating IP \
                 can't be put on it",
                machine.name, network.network.name
            ),
            WATCHED,
        ));
    };
    if !is_still_there(pass, context, fip).await? {
        return Err(StepError::wait(
            API_ENDPOINT_READY,
            Reason::FloatingIPError,
            format!(
                "Floating IP {} was moved by another client a moment ago",
                fip.address_or_id()
            ),
            SOON,
        ));
    }
    let put = floating_ips::associate(context, fip, &port.id, Purpose::Machine).await?;
    pass.cached.floating_ip = Some(ReadAt::new(put, pass.now));
    pass.cached.machine_floating_ip.port = Some((port.id, PortOwner::Server(server.to_owned())));
    Ok(())
}

/// Whether a floating IP that an earlier pass read is still on the same port, or still on none.
async fn is_still_there(
    pass: &mut Pass<'_>,
    context: &StepContext<'_>,
    fip: &FloatingIp,
) -> StepResult<bool> {
    let is_of_this_pass = pass
        .cached
        .floating_ip
        .as_ref()
        .is_some_and(|read| read.at == pass.now);
    let Some(address) = fip.floating_ip_address.filter(|_| !is_of_this_pass) else {
        return Ok(true);
    };
    let found = floating_ips::by_address(context, address, true).await?;
    let is_there = found
        .as_ref()
        .is_some_and(|found| found.id == fip.id && found.port_id == fip.port_id);
    pass.cached.floating_ip = found.map(|found| ReadAt::new(found, pass.now));
    Ok(is_there)
}

fn no_receiver(address: &str, on: &ObjectName) -> StepError {
    StepError::wait(
        API_ENDPOINT_READY,
        Reason::FloatingIPError,
        format!(
            "Floating IP {address} is on machine {}, which is being deleted or down, and no other control-plane machine \
             serves the API server yet",
            on.name
        ),
        SOON,
    )
}

fn no_machine(address: &str, machines: &[ControlPlaneMachine]) -> StepError {
    let message = format!(
        "Floating IP {address} is on no control-plane machine yet; it is put on the first one whose server is ACTIVE"
    );
    let pause = if machines.is_empty() { WATCHED } else { SOON };
    StepError::wait(API_ENDPOINT_READY, Reason::ServerNotReady, message, pause)
}
