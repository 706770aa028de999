//! The external network, the cluster's network and its subnets.

mod plan;
mod references;

pub(crate) use self::references::{find_for_load_balancer, find_subnet};
use self::{
    plan::{NetworkPlan, SubnetPlan},
    references::{Fields, find_existing, find_network, list_external_networks},
};
use super::{
    desired::{DesiredExternalNetwork, DesiredNetwork, ManagedNetwork},
    observation::NetworkState,
    step_context::{NewObject, StepContext},
};
use crate::kubernetes::conditions::kind::NETWORK_READY;
use crate::kubernetes::events::{CloudObject, Verb};
use crate::reconcile::{StepError, StepResult, matching::resolve};
use capo_core::ids::NetworkId;
use capo_core::{FailureClass, Priority, Reason};
use capo_openstack::{
    Error,
    network::{
        AllocationPool, Ipv6Mode, Network, NetworkFilter, NewNetwork, NewSubnet, Subnet,
        SubnetFilter, SubnetUpdate, Tagged,
    },
};

fn failed(ordinary: Reason, doing: &str, error: &Error) -> StepError {
    StepError::cloud(NETWORK_READY, ordinary, doing, error)
}

/// The external network that the spec names, or the only one of the cloud.
pub(crate) async fn find_external(
    context: &StepContext<'_>,
    desired: &DesiredExternalNetwork,
) -> StepResult<Option<Network>> {
    match desired {
        DesiredExternalNetwork::Off => Ok(None),
        DesiredExternalNetwork::Given(lookup) => {
            let network = find_network(context, lookup, Some(true), "spec.externalNetwork").await?;
            Ok(Some(network))
        }
        DesiredExternalNetwork::Sole => {
            let filter = NetworkFilter {
                external: Some(true),
                ..NetworkFilter::default()
            };
            let doing = "Looking for the external network";
            let found = list_external_networks(context, &filter)
                .await
                .map_err(|e| failed(Reason::OpenStackError, doing, &e))?;
            let what = format!(
                "OpenStackCluster {}: spec.externalNetwork is not set and \"any external network\"",
                context.desired.object
            );
            resolve(found, context.known.external_network.as_ref(), |n| &n.id)
                .at_most_one(NETWORK_READY, &what)
        }
    }
}

/// The cluster's network and subnets. A managed network and its subnet are created if they are missing. The network
/// itself is not read if `kept` has it from an earlier read and its subnets still exist.
pub(crate) async fn ensure(
    context: &StepContext<'_>,
    kept: Option<&NetworkState>,
) -> StepResult<NetworkState> {
    match &context.desired.network {
        DesiredNetwork::Managed(desired) => {
            if let Some(kept) = kept {
                let network = &kept.network;
                let all = list_subnets(context, &network.id).await?;
                if let Some(found) = of_range(context, desired, network, all)? {
                    let subnet =
                        ensure_managed_subnet(context, desired, network, Some(found)).await?;
                    return Ok(NetworkState {
                        network: network.clone(),
                        subnets: vec![subnet],
                    });
                }
            }
            let network = ensure_managed_network(context, desired).await?;
            // The answer to the creation of a network shows that it has no subnets.
            let all = if network.subnets.is_empty() {
                Vec::new()
            } else {
                list_subnets(context, &network.id).await?
            };
            let found = of_range(context, desired, &network, all)?;
            let subnet = ensure_managed_subnet(context, desired, &network, found).await?;
            Ok(NetworkState {
                network,
                subnets: vec![subnet],
            })
        }
        DesiredNetwork::Existing { network, subnets } => {
            let fields = Fields {
                network: "spec.network",
                subnets: "spec.subnets",
            };
            find_existing(context, network.as_ref(), subnets, fields, kept).await
        }
    }
}

/// The managed network and its subnets as they are. It is used while a value of the spec can't be used. `None` means
/// that there is no such network, or that the spec does not say for certain which network is meant.
pub(crate) async fn find(context: &StepContext<'_>) -> StepResult<Option<NetworkState>> {
    if !matches!(context.desired.network, DesiredNetwork::Managed(_)) {
        return Ok(None);
    }
    let Some(network) = find_managed(context).await? else {
        return Ok(None);
    };
    let subnets = list_subnets(context, &network.id).await?;
    Ok((!subnets.is_empty()).then_some(NetworkState { network, subnets }))
}

/// The managed network as it is, found by the id in the status or else by its name; `None` if it does not exist. A user
/// may have renamed the network and given its name to another one, so the id goes before the name. It counts while the
/// network is in the cluster's project.
pub(crate) async fn find_managed(context: &StepContext<'_>) -> StepResult<Option<Network>> {
    let name = context.desired.names.network();
    let doing = format!("Looking for network {name}");
    if let Some(id) = &context.known.network {
        match context.cloud.network(id, Priority::Settling).await {
            Ok(network) if network.project_id.as_ref() == Some(&context.project) => {
                return Ok(Some(network));
            }
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(failed(Reason::OpenStackError, &doing, &error)),
        }
    }
    let filter = NetworkFilter {
        name: Some(name.clone()),
        project_id: Some(context.project.clone()),
        ..NetworkFilter::default()
    };
    let found = context
        .cloud
        .networks(&filter, Priority::Settling)
        .await
        .map_err(|e| failed(Reason::OpenStackError, &doing, &e))?;
    resolve(found, None, |n| &n.id).at_most_one(NETWORK_READY, &format!("Network name \"{name}\""))
}

async fn ensure_managed_network(
    context: &StepContext<'_>,
    desired: &ManagedNetwork,
) -> StepResult<Network> {
    let found = find_managed(context).await?;
    let network = match plan::network(found, context.machine_admitted) {
        NetworkPlan::Use(network) => {
            let name = context.desired.names.network();
            context.creations.found(CloudObject::Network, &name);
            network
        }
        NetworkPlan::Withhold => {
            let name = context.desired.names.network();
            return Err(StepError::failed(
                NETWORK_READY,
                FailureClass::Conflict,
                Reason::DependencyNotFound,
                format!(
                    "OpenStackCluster {}: network {name} does not exist in project {}, but machines of this cluster do. \
                     Nothing is created, because the credentials of spec.identityRef may belong to another project \
                     than before",
                    context.desired.object, context.project
                ),
            ));
        }
        NetworkPlan::Create => create_network(context, desired).await?,
    };
    context
        .tag(NETWORK_READY, Tagged::Network(&network.id), &network.tags)
        .await?;
    Ok(network)
}

async fn create_network(
    context: &StepContext<'_>,
    desired: &ManagedNetwork,
) -> StepResult<Network> {
    let new = NewNetwork {
        name: context.desired.names.network(),
        description: String::new(),
        mtu: desired.mtu,
        port_security_enabled: (!desired.port_security).then_some(false),
    };
    let request = context.cloud.create_network(&new, Priority::Settling);
    let object = NewObject {
        condition: NETWORK_READY,
        kind: CloudObject::Network,
        name: &new.name,
    };
    let doing = format!("Creating network {}", new.name);
    let failed = |e: &Error| failed(Reason::NetworkCreateFailed, &doing, e);
    context
        .create(object, request, |n| n.id.as_str(), failed)
        .await
}

/// The subnet with the address range of the spec.
fn of_range(
    context: &StepContext<'_>,
    desired: &ManagedNetwork,
    network: &Network,
    all: Vec<Subnet>,
) -> StepResult<Option<Subnet>> {
    let found: Vec<Subnet> = all
        .into_iter()
        .filter(|subnet| subnet.cidr.map(|range| range.trunc()) == Some(desired.range))
        .collect();
    let what = format!("Subnet {} of network {}", desired.range, network.name);
    let known = context.known.subnet.as_ref();
    resolve(found, known, |s| &s.id).at_most_one(NETWORK_READY, &what)
}

async fn ensure_managed_subnet(
    context: &StepContext<'_>,
    desired: &ManagedNetwork,
    network: &Network,
    found: Option<Subnet>,
) -> StepResult<Subnet> {
    if found.is_some() {
        let name = context.desired.names.network();
        context.creations.found(CloudObject::Subnet, &name);
    }
    let subnet = match plan::subnet(found, desired) {
        SubnetPlan::Use(subnet) => subnet,
        SubnetPlan::SetNameServers(subnet) => set_name_servers(context, desired, &subnet).await?,
        SubnetPlan::Create => create_subnet(context, desired, network).await?,
    };
    context
        .tag(NETWORK_READY, Tagged::Subnet(&subnet.id), &subnet.tags)
        .await?;
    Ok(subnet)
}

async fn create_subnet(
    context: &StepContext<'_>,
    desired: &ManagedNetwork,
    network: &Network,
) -> StepResult<Subnet> {
    let is_ipv6 = desired.range.addr().is_ipv6();
    // A port's address is chosen by Neutron, and a load balancer's address may be given. Only DHCPv6 gives such
    // addresses to machines.
    let mode = is_ipv6.then_some(Ipv6Mode::Dhcpv6Stateful);
    let new = NewSubnet {
        network_id: network.id.clone(),
        name: context.desired.names.network(),
        description: context.desired.names.description(),
        cidr: desired.range,
        ip_version: if is_ipv6 { 6 } else { 4 },
        dns_nameservers: name_servers(desired),
        allocation_pools: desired.pools.clone(),
        ipv6_address_mode: mode,
        ipv6_ra_mode: mode,
    };
    let request = context.cloud.create_subnet(&new, Priority::Settling);
    let object = NewObject {
        condition: NETWORK_READY,
        kind: CloudObject::Subnet,
        name: &new.name,
    };
    let doing = format!("Creating subnet {} ({})", new.name, desired.range);
    let failed = |e: &Error| failed(Reason::SubnetCreateFailed, &doing, e);
    context
        .create(object, request, |s| s.id.as_str(), failed)
        .await
}

async fn set_name_servers(
    context: &StepContext<'_>,
    desired: &ManagedNetwork,
    subnet: &Subnet,
) -> StepResult<Subnet> {
    let servers = name_servers(desired);
    let update = SubnetUpdate {
        dns_nameservers: Some(servers.clone()),
    };
    let answer = context
        .cloud
        .update_subnet(&subnet.id, &update, Priority::Settling)
        .await;
    let about = (CloudObject::Subnet, &*subnet.name, subnet.id.as_str());
    let change = format!("name servers {}", servers.join(", "));
    let doing = format!("Setting the name servers of subnet {}", subnet.name);
    context
        .answered(Verb::Update, about, &change, answer)
        .map_err(|e| failed(Reason::OpenStackError, &doing, &e))
}

fn name_servers(desired: &ManagedNetwork) -> Vec<String> {
    desired
        .name_servers
        .iter()
        .map(ToString::to_string)
        .collect()
}

async fn list_subnets(context: &StepContext<'_>, network: &NetworkId) -> StepResult<Vec<Subnet>> {
    let filter = SubnetFilter {
        network_id: Some(network.clone()),
        ..SubnetFilter::default()
    };
    context
        .cloud
        .subnets(&filter, Priority::Settling)
        .await
        .map_err(|e| failed(Reason::OpenStackError, "Listing the network's subnets", &e))
}

/// An allocation pool in the form of Neutron's API.
pub(crate) fn pool(start: String, end: String) -> AllocationPool {
    AllocationPool { start, end }
}
