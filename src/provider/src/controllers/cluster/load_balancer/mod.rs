//! Finds, creates and replaces the load balancer itself. Its listeners, pools and members are changed only by its
//! worker.

pub(crate) mod allowed_cidrs;
pub(crate) mod plan;
pub(crate) mod reconcile;
pub(crate) mod report;

use std::net::IpAddr;

use self::plan::FoundLoadBalancer;
use super::{
    desired::DesiredLoadBalancer,
    observation::NetworkState,
    step_context::{NewObject, StepContext},
};
use crate::kubernetes::conditions::kind::API_SERVER_LOAD_BALANCER_READY;
use crate::kubernetes::events::CloudObject;
use crate::reconcile::{StepError, StepResult};
use capo_core::Reason;
use capo_core::{
    FailureClass, Priority, ProvisioningStatus,
    ids::{LoadBalancerFlavorId, LoadBalancerId, ProjectId, SubnetId},
};
use capo_openstack::{
    Error,
    load_balancer::{LoadBalancer, LoadBalancerFilter, NewLoadBalancer},
    network::Subnet,
};

impl From<&LoadBalancer> for FoundLoadBalancer {
    fn from(lb: &LoadBalancer) -> Self {
        Self {
            id: lb.id.clone(),
            name: lb.name.clone(),
            provisioning_status: lb.provisioning_status.clone(),
        }
    }
}

/// The error of a request about the load balancer.
pub(crate) fn failed(doing: &str, error: &Error) -> StepError {
    StepError::cloud(
        API_SERVER_LOAD_BALANCER_READY,
        Reason::LoadBalancerError,
        doing,
        error,
    )
}

/// Returns the load balancers that may be the cluster's: the one with the id `known` if it has the cluster's name and
/// project, else all load balancers of that name in the project.
pub(crate) async fn find(
    context: &StepContext<'_>,
    known: Option<&LoadBalancerId>,
) -> StepResult<Vec<LoadBalancer>> {
    let name = context.desired.names.load_balancer();
    let doing = format!("Looking for load balancer {name}");
    if let Some(id) = known {
        match context.cloud.load_balancer(id, Priority::Settling).await {
            Ok(lb) if is_ours(&lb, &name, &context.project) => return Ok(vec![lb]),
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(failed(&doing, &error)),
        }
    }
    let filter = LoadBalancerFilter {
        name: Some(name.clone()),
        project_id: Some(context.project.clone()),
        ..LoadBalancerFilter::default()
    };
    let found = context
        .cloud
        .load_balancers(&filter, Priority::Settling)
        .await
        .map_err(|e| failed(&doing, &e))?;
    Ok(found
        .into_iter()
        .filter(|lb| is_ours(lb, &name, &context.project))
        .collect())
}

fn is_ours(lb: &LoadBalancer, name: &str, project: &ProjectId) -> bool {
    lb.name == name
        && lb
            .project_id
            .as_ref()
            .is_none_or(|theirs| theirs == project)
        && lb.provisioning_status != ProvisioningStatus::Deleted
}

/// Creates a load balancer with its VIP in `network`. If no address is given, the VIP is in the subnet `primary`.
pub(crate) async fn create(
    context: &StepContext<'_>,
    desired: &DesiredLoadBalancer,
    network: &NetworkState,
    primary: Option<&SubnetId>,
) -> StepResult<LoadBalancer> {
    let name = context.desired.names.load_balancer();
    let (condition, kind) = (API_SERVER_LOAD_BALANCER_READY, CloudObject::LoadBalancer);
    // Provider and flavor are not looked up while an earlier creation is uncertain.
    context.creations.check(condition, kind, &name)?;
    let provider = match &desired.provider {
        Some(provider) => available_provider(context, provider).await?,
        None => None,
    };
    let flavor_id = match &desired.flavor {
        Some(name) => flavor_id(context, name).await?,
        None => None,
    };
    let address = vip_address(context)?;
    let subnet = vip_subnet(network, address, primary);
    let new = NewLoadBalancer {
        name: name.clone(),
        description: context.desired.names.description(),
        vip_address: address.filter(|address| {
            subnet.is_none_or(|subnet| subnet.cidr.is_some_and(|range| range.contains(address)))
        }),
        vip_network_id: Some(network.network.id.clone()),
        vip_subnet_id: subnet.map(|subnet| subnet.id.clone()),
        provider,
        flavor_id,
        availability_zone: desired.availability_zone.clone(),
        tags: context.desired.tags.clone(),
    };
    let request = context.cloud.create_load_balancer(&new, Priority::Settling);
    let object = NewObject {
        condition,
        kind,
        name: &name,
    };
    let doing = format!("Creating load balancer {name}");
    context
        .create(object, request, |lb| lb.id.as_str(), |e| failed(&doing, e))
        .await
}

/// The address that a new load balancer should have: the address of the spec, or else the one that the cluster's
/// previous load balancer had.
fn vip_address(context: &StepContext<'_>) -> StepResult<Option<IpAddr>> {
    let endpoint = &context.desired.endpoint;
    if let Some(text) = &endpoint.fixed_ip
        && text.parse::<IpAddr>().is_err()
    {
        return Err(StepError::refused(
            API_SERVER_LOAD_BALANCER_READY,
            Reason::InvalidSpec,
            format!(
                "OpenStackCluster {}: spec.apiServer.fixedIP is \"{text}\"; an IP address is needed to create a load \
                 balancer with it",
                context.desired.object
            ),
        ));
    }
    Ok(endpoint.desired_vip().or(context.known.vip))
}

/// The subnet of the VIP: the one that contains its address; else the primary one that the spec names; else the first
/// IPv4 subnet, because floating IPs and most nodes are IPv4. `None` leaves the choice to Octavia.
fn vip_subnet<'a>(
    network: &'a NetworkState,
    address: Option<IpAddr>,
    primary: Option<&SubnetId>,
) -> Option<&'a Subnet> {
    let subnets = &network.subnets;
    let holds = |subnet: &&Subnet| {
        address.is_some_and(|address| subnet.cidr.is_some_and(|range| range.contains(&address)))
    };
    let is_ipv4 = |subnet: &&Subnet| subnet.cidr.is_some_and(|range| range.addr().is_ipv4());
    let is_primary = |subnet: &&Subnet| Some(&subnet.id) == primary;
    subnets
        .iter()
        .find(holds)
        .or_else(|| subnets.iter().find(is_primary))
        .or_else(|| subnets.iter().find(is_ipv4))
        .or(subnets.first())
}

/// Returns the provider if the cloud has it. Otherwise the load balancer gets the cloud's default provider, as in CAPO.
async fn available_provider(
    context: &StepContext<'_>,
    provider: &str,
) -> StepResult<Option<String>> {
    match context
        .cloud
        .load_balancer_providers(Priority::Settling)
        .await
    {
        Ok(there) if there.iter().any(|one| one.name == provider) => Ok(Some(provider.to_owned())),
        Ok(there) => {
            let names: Vec<&str> = there.iter().map(|one| one.name.as_str()).collect();
            context.warn_default(
                "provider",
                provider,
                &format!("it has {}", names.join(", ")),
            );
            Ok(None)
        }
        // The providers can't be listed, so the name is used as it is. Octavia refuses an unknown provider when the
        // load balancer is created.
        Err(error) if error.class() == FailureClass::Denied => Ok(Some(provider.to_owned())),
        Err(error) => Err(failed("Listing load balancer providers", &error)),
    }
}

async fn flavor_id(
    context: &StepContext<'_>,
    name: &str,
) -> StepResult<Option<LoadBalancerFlavorId>> {
    let flavors = context
        .cloud
        .load_balancer_flavors(name, Priority::Settling)
        .await
        .map_err(|e| failed("Listing load balancer flavors", &e))?;
    let found = flavors
        .into_iter()
        .find(|flavor| flavor.name == name && flavor.enabled);
    if found.is_none() {
        context.warn_default("flavor", name, "the name of an existing one is needed");
    }
    Ok(found.map(|flavor| flavor.id))
}

/// Deletes a load balancer with everything in it. Returns `Ok(false)` if Octavia reports the load balancer as immutable
/// at the moment.
pub(crate) async fn delete(
    context: &StepContext<'_>,
    name: &str,
    id: &LoadBalancerId,
) -> StepResult<bool> {
    let answer = context
        .cloud
        .delete_load_balancer(id, Priority::Settling)
        .await;
    match context.deleted(CloudObject::LoadBalancer, name, id.as_str(), answer) {
        Ok(()) => Ok(true),
        Err(error) if error.is(FailureClass::Locked) => Ok(false),
        Err(error) => Err(failed(&format!("Deleting load balancer {id}"), &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn the_vip_is_of_ipv4_where_nothing_else_is_said() {
        let subnet = |id: &str, cidr: &str| json!({"id": id, "network_id": "n", "cidr": cidr});
        let (six, four) = (subnet("six", "fd00::/64"), subnet("four", "10.6.0.0/24"));
        let cases = [
            (vec![&six, &four], None, None, Some("four")),
            (vec![&six, &four], None, Some("six"), Some("six")),
            (vec![&six, &four], Some("fd00::9"), None, Some("six")),
            (
                vec![&six, &four],
                Some("10.6.0.9"),
                Some("six"),
                Some("four"),
            ),
            (vec![&six], None, None, Some("six")),
            (vec![], None, None, None),
        ];
        for (subnets, address, primary, expected) in cases {
            let network = NetworkState {
                network: from_value(json!({"id": "n"})).unwrap(),
                subnets: from_value(json!(subnets)).unwrap(),
            };
            let address = address.map(|address| address.parse().unwrap());
            let primary = primary.map(SubnetId::from);
            let chosen = vip_subnet(&network, address, primary.as_ref());
            let chosen = chosen.map(|subnet| subnet.id.as_str());
            assert_eq!(chosen, expected, "{subnets:?} {address:?} {primary:?}");
        }
    }
}
