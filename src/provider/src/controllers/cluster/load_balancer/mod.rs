//! The load balancer itself: found, made, replaced. What is inside it is the membership task's alone.

pub(crate) mod allowed_cidrs;
pub(crate) mod plan;
pub(crate) mod reconcile;

use std::{net::IpAddr, time::Instant};

use self::plan::FoundLoadBalancer;
use super::{
    desired::DesiredLoadBalancer,
    halt::{Halt, Step},
    network::NetworkState,
    step_context::StepContext,
};
use crate::kubernetes::conditions::kind::API_SERVER_LOAD_BALANCER_READY;
use capo_core::Reason;
use capo_core::{FailureClass, Priority, ProvisioningStatus};
use capo_openstack::{
    Error,
    load_balancer::{LoadBalancer, LoadBalancerFilter, NewLoadBalancer},
};

/// A load balancer that this process has read and found to be ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownLoadBalancer {
    /// Octavia's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its provider, empty where Octavia shows none.
    pub provider: String,
    /// Its address.
    pub vip: Option<IpAddr>,
    /// The port of its address.
    pub vip_port: Option<String>,
    /// Its tags.
    pub tags: Vec<String>,
}

impl From<&LoadBalancer> for KnownLoadBalancer {
    fn from(lb: &LoadBalancer) -> Self {
        Self {
            id: lb.id.to_string(),
            name: lb.name.clone(),
            provider: lb.provider.clone().unwrap_or_default(),
            vip: lb.vip_address,
            vip_port: lb.vip_port_id.clone().map(Into::into),
            tags: lb.tags.clone(),
        }
    }
}

impl From<&LoadBalancer> for FoundLoadBalancer {
    fn from(lb: &LoadBalancer) -> Self {
        Self {
            id: lb.id.to_string(),
            name: lb.name.clone(),
            provisioning_status: lb.provisioning_status.clone(),
        }
    }
}

/// How often this process replaced the load balancer, and when it did last.
pub(crate) type Replacements = Option<(u32, Instant)>;

/// An error about the load balancer.
pub(crate) fn failed(doing: &str, error: &Error) -> Halt {
    Halt::cloud(
        API_SERVER_LOAD_BALANCER_READY,
        Reason::LoadBalancerError,
        doing,
        error,
    )
}

/// The load balancers that may be ours: the one with the id we know if it has our name and project,
/// else all in our project with our name.
pub(crate) async fn find(
    context: &StepContext<'_>,
    known: Option<&str>,
) -> Step<Vec<LoadBalancer>> {
    let name = context.desired.names.load_balancer();
    let doing = format!("Looking for load balancer {name}");
    if let Some(id) = known {
        match context
            .cloud
            .load_balancer(&id.into(), Priority::Settling)
            .await
        {
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

fn is_ours(lb: &LoadBalancer, name: &str, project: &str) -> bool {
    lb.name == name
        && lb
            .project_id
            .as_deref()
            .is_none_or(|theirs| theirs == project)
        && lb.provisioning_status != ProvisioningStatus::Deleted
}

/// Asks for a load balancer with its address in `network`.
pub(crate) async fn create(
    context: &StepContext<'_>,
    desired: &DesiredLoadBalancer,
    network: &NetworkState,
) -> Step<LoadBalancer> {
    if let Some(provider) = &desired.provider {
        provider_exists(context, provider).await?;
    }
    let flavor_id = match &desired.flavor {
        Some(name) => Some(flavor_id(context, name).await?),
        None => None,
    };
    let vip_address = context.desired.endpoint.desired_vip();
    let subnet = vip_address
        .and_then(|address| {
            let holds = |subnet: &&capo_openstack::network::Subnet| {
                subnet.cidr.is_some_and(|range| range.contains(&address))
            };
            network.subnets.iter().find(holds)
        })
        .or(network.subnets.first());
    let new = NewLoadBalancer {
        name: context.desired.names.load_balancer(),
        description: context.desired.names.description(),
        vip_address: vip_address.filter(|address| {
            subnet
                .and_then(|subnet| subnet.cidr)
                .is_some_and(|range| range.contains(address))
        }),
        vip_network_id: Some(network.network.id.clone()),
        vip_subnet_id: subnet.map(|subnet| subnet.id.clone()),
        provider: desired.provider.clone(),
        flavor_id: flavor_id.map(Into::into),
        availability_zone: desired.availability_zone.clone(),
        tags: context.desired.tags.clone(),
    };
    let lb = context
        .cloud
        .create_load_balancer(&new, Priority::Settling)
        .await
        .map_err(|e| failed(&format!("Creating load balancer {}", new.name), &e))?;
    context.created("load balancer", &lb.name, &lb.id);
    Ok(lb)
}

async fn provider_exists(context: &StepContext<'_>, provider: &str) -> Step<()> {
    match context
        .cloud
        .load_balancer_providers(Priority::Settling)
        .await
    {
        Ok(there) if there.iter().any(|one| one.name == provider) => Ok(()),
        Ok(there) => {
            let names: Vec<&str> = there.iter().map(|one| one.name.as_str()).collect();
            Err(missing(context, "provider", provider, &names))
        }
        // Whoever may not list providers learns from the creation.
        Err(error) if error.class() == FailureClass::Denied => Ok(()),
        Err(error) => Err(failed("Listing load balancer providers", &error)),
    }
}

async fn flavor_id(context: &StepContext<'_>, name: &str) -> Step<String> {
    let flavors = context
        .cloud
        .load_balancer_flavors(name, Priority::Settling)
        .await
        .map_err(|e| failed("Listing load balancer flavors", &e))?;
    flavors
        .into_iter()
        .find(|flavor| flavor.name == name)
        .map(|flavor| flavor.id.into())
        .ok_or_else(|| missing(context, "flavor", name, &[]))
}

fn missing(context: &StepContext<'_>, field: &str, found: &str, there: &[&str]) -> Halt {
    let right = if there.is_empty() {
        "the name of an existing one is needed".to_owned()
    } else {
        format!("it has {}", there.join(", "))
    };
    Halt::refused(
        API_SERVER_LOAD_BALANCER_READY,
        Reason::DependencyNotFound,
        format!(
            "OpenStackCluster {}: spec.apiServer.managedLoadBalancer.{field} is \"{found}\", which this cloud's \
             load balancing does not have; {right}",
            context.desired.object
        ),
    )
}

/// Asks for the end of a load balancer with everything in it. `Ok(false)` where it is locked at the moment.
pub(crate) async fn delete(context: &StepContext<'_>, id: &str) -> Step<bool> {
    match context
        .cloud
        .delete_load_balancer(&id.into(), Priority::Settling)
        .await
    {
        Ok(()) => Ok(true),
        Err(error) if error.is_not_found() => Ok(true),
        Err(error) if error.is(FailureClass::Locked) || error.is(FailureClass::Locked) => Ok(false),
        Err(error) => Err(failed(&format!("Deleting load balancer {id}"), &error)),
    }
}
