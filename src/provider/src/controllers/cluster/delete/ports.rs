//! Deletes the ports that servers and load balancers of the cluster have left in its network.

use std::collections::BTreeSet;

use crate::kubernetes::conditions::kind::NETWORK_READY;
use crate::kubernetes::events::{CloudObject, Verb};
use crate::reconcile::{StepError, StepResult};
use crate::{
    controllers::cluster::step_context::StepContext, reconcile::server_names::port_description,
};
use capo_core::ids::LoadBalancerId;
use capo_core::{FailureClass, Priority, ProvisioningStatus, Reason};
use capo_openstack::{
    Error,
    load_balancer::LoadBalancerFilter,
    network::{Network, Port, PortFilter},
};

/// Lists every port in a network.
pub(super) async fn all(context: &StepContext<'_>, network: &Network) -> StepResult<Vec<Port>> {
    let filter = PortFilter {
        network_id: Some(network.id.clone()),
        ..PortFilter::default()
    };
    context
        .cloud
        .ports(&filter, Priority::Settling)
        .await
        .map_err(|e| failed("Listing the network's ports", &e))
}

fn failed(doing: &str, error: &Error) -> StepError {
    StepError::cloud(NETWORK_READY, Reason::OpenStackError, doing, error)
}

/// Deletes the ports in the cluster's network that belong to the cluster and are not used any more. These are the ports
/// with exactly the description of this cluster that are on no device or on a server that does not exist any more, with
/// their trunks, and the VIP ports of load balancers that do not exist any more. Names are not compared, because the
/// names of one cluster can begin like those of another. Returns the ports that stay.
pub(super) async fn delete_leftover(
    context: &StepContext<'_>,
    network: &Network,
    cluster: &str,
) -> StepResult<Vec<Port>> {
    let description = port_description(cluster);
    let mut left = Vec::new();
    let ports = all(context, network).await?;
    let present = if ports.iter().any(|port| load_balancer_of(port).is_some()) {
        load_balancers_in(context, network).await?
    } else {
        BTreeSet::new()
    };
    for port in ports {
        if port.description == description && is_unused(context, &port).await? {
            delete(context, &port).await?;
        } else if let Some(load_balancer) = load_balancer_of(&port)
            && !present.contains(&load_balancer)
            && is_gone(context, &load_balancer).await?
        {
            // Octavia deletes this port with its load balancer, but leaves it behind if that deletion fails.
            delete(context, &port).await?;
        } else {
            left.push(port);
        }
    }
    Ok(left)
}

/// Whether no server uses a port. Nova leaves `device_id` set on the port if the deletion of its server was
/// interrupted.
async fn is_unused(context: &StepContext<'_>, port: &Port) -> StepResult<bool> {
    if port.device_id.is_empty() {
        return Ok(true);
    }
    if !port.device_owner.starts_with("compute:") {
        return Ok(false);
    }
    let server = port.device_id.as_str().into();
    match context.cloud.server(&server, Priority::Settling).await {
        Ok(_) => Ok(false),
        Err(error) if error.is_not_found() => Ok(true),
        Err(error) => {
            let doing = format!("Looking for the server of port {}", port.name);
            Err(failed(&doing, &error))
        }
    }
}

/// The id of the load balancer to which a VIP port belongs, from the name that Octavia or its OVN provider gives such a
/// port.
fn load_balancer_of(port: &Port) -> Option<LoadBalancerId> {
    let name = port.name.as_str();
    let id = name
        .strip_prefix("octavia-lb-")
        .or_else(|| name.strip_prefix("ovn-lb-vip-"))?;
    let is_hexadecimal = |part: &str| part.chars().all(|char| char.is_ascii_hexdigit());
    let lengths = id.split('-').map(str::len);
    (lengths.eq([8_usize, 4, 4, 4, 12]) && id.split('-').all(is_hexadecimal)).then(|| id.into())
}

/// The ids of the load balancers with their VIP in a network, from one request. Load balancers of other projects are
/// not included.
async fn load_balancers_in(
    context: &StepContext<'_>,
    network: &Network,
) -> StepResult<BTreeSet<LoadBalancerId>> {
    let filter = LoadBalancerFilter {
        vip_network_id: Some(network.id.clone()),
        ..LoadBalancerFilter::default()
    };
    let found = context
        .cloud
        .load_balancers(&filter, Priority::Settling)
        .await;
    match found {
        Ok(found) => Ok(found
            .into_iter()
            .filter(|found| found.provisioning_status != ProvisioningStatus::Deleted)
            .map(|found| found.id)
            .collect()),
        Err(error) if is_unknown(&error) => Ok(BTreeSet::new()),
        Err(error) => {
            let doing = format!("Listing the load balancers in network {}", network.name);
            Err(failed(&doing, &error))
        }
    }
}

fn is_unknown(error: &Error) -> bool {
    matches!(
        error.class(),
        FailureClass::Denied | FailureClass::NoService
    )
}

/// Whether Octavia has no load balancer with this id. If the cloud refuses the request or has no load balancing, the
/// answer is `false`, so the port stays.
async fn is_gone(context: &StepContext<'_>, load_balancer: &LoadBalancerId) -> StepResult<bool> {
    let read = context
        .cloud
        .load_balancer(load_balancer, Priority::Settling)
        .await;
    match read {
        Ok(found) => Ok(found.provisioning_status == ProvisioningStatus::Deleted),
        Err(error) if error.is_not_found() => Ok(true),
        Err(error) if is_unknown(&error) => Ok(false),
        Err(error) => {
            let doing = format!("Looking for load balancer {load_balancer}");
            Err(failed(&doing, &error))
        }
    }
}

async fn delete(context: &StepContext<'_>, port: &Port) -> StepResult<()> {
    let doing = format!("Deleting port {}", port.name);
    let mut deleted = context
        .cloud
        .delete_abandoned_port(port, Priority::Settling)
        .await;
    if deleted
        .as_ref()
        .is_err_and(|error| error.class().is_conflict())
    {
        delete_trunks(context, port).await?;
        deleted = context
            .cloud
            .delete_abandoned_port(port, Priority::Settling)
            .await;
    }
    context
        .deleted(CloudObject::Port, &port.name, port.id.as_str(), deleted)
        .map_err(|error| context.in_use(NETWORK_READY, Reason::OpenStackError, &doing, &error))
}

/// Deletes the trunks of which a port is the parent, with their subports, because Neutron refuses to delete such a port
/// before its trunk.
async fn delete_trunks(context: &StepContext<'_>, port: &Port) -> StepResult<()> {
    let doing = format!("Deleting the trunk of port {}", port.name);
    let waits = |error| context.in_use(NETWORK_READY, Reason::OpenStackError, &doing, &error);
    let trunks = match context.cloud.trunks(&port.id, Priority::Settling).await {
        Ok(trunks) => trunks,
        Err(error) if error.is_not_found() => Vec::new(),
        Err(error) => return Err(failed(&doing, &error)),
    };
    for trunk in trunks {
        if !trunk.sub_ports.is_empty() {
            let removed = context
                .cloud
                .remove_sub_ports(&trunk.id, &trunk.sub_ports, Priority::Settling)
                .await;
            context
                .removed(
                    Verb::Update,
                    CloudObject::Trunk,
                    &trunk.name,
                    trunk.id.as_str(),
                    removed,
                )
                .map_err(waits)?;
        }
        for sub_port in &trunk.sub_ports {
            let id = &sub_port.port_id;
            let deleted = context.cloud.delete_port(id, Priority::Settling).await;
            context
                .deleted(CloudObject::Port, "", id.as_str(), deleted)
                .map_err(waits)?;
        }
        let deleted = context
            .cloud
            .delete_trunk(&trunk.id, Priority::Settling)
            .await;
        context
            .deleted(CloudObject::Trunk, &trunk.name, trunk.id.as_str(), deleted)
            .map_err(waits)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn the_address_of_a_load_balancer_is_known_by_its_name() {
        const ID: &str = "0a1b2c3d-0000-4000-8000-00000000abcd";
        let cases = [
            (format!("octavia-lb-{ID}"), Some(ID)),
            (format!("ovn-lb-vip-{ID}"), Some(ID)),
            (format!("octavia-lb-vrrp-{ID}"), None),
            ("octavia-lb-mine".to_owned(), None),
            (ID.to_owned(), None),
        ];
        for (name, expected) in cases {
            let port: Port =
                from_value(json!({"id": "p", "name": name, "network_id": "n"})).unwrap();
            assert_eq!(load_balancer_of(&port), expected.map(Into::into), "{name}");
        }
    }
}
