//! The load balancer itself: found, made, replaced. What is inside it is the membership task's alone.

use std::{net::IpAddr, time::Instant};

use super::{
    halt::{Halt, Step},
    load_balancer_plan::FoundLoadBalancer,
    network::NetworkState,
    shop::Shop,
    wanted::LoadBalancerWish,
};
use crate::status::conditions::kind::API_SERVER_LOAD_BALANCER_READY;
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
            id: lb.id.clone(),
            name: lb.name.clone(),
            provider: lb.provider.clone().unwrap_or_default(),
            vip: lb.vip_address,
            vip_port: lb.vip_port_id.clone(),
            tags: lb.tags.clone(),
        }
    }
}

impl From<&LoadBalancer> for FoundLoadBalancer {
    fn from(lb: &LoadBalancer) -> Self {
        Self {
            id: lb.id.clone(),
            name: lb.name.clone(),
            provisioning_status: lb.provisioning_status.as_str().to_owned(),
        }
    }
}

/// How often this process replaced the load balancer, and when it did last.
pub(crate) type Replacements = Option<(u32, Instant)>;

/// An error about the load balancer.
pub(crate) fn trouble(doing: &str, error: &Error) -> Halt {
    Halt::cloud(
        API_SERVER_LOAD_BALANCER_READY,
        Reason::LoadBalancerError,
        doing,
        error,
    )
}

/// The load balancers that may be ours: the one with the id we know if it has our name and project,
/// else all in our project with our name.
pub(crate) async fn find(shop: &Shop<'_>, known: Option<&str>) -> Step<Vec<LoadBalancer>> {
    let name = shop.wanted.names.load_balancer();
    let doing = format!("Looking for load balancer {name}");
    if let Some(id) = known {
        match shop.cloud.load_balancer(id, Priority::Settling).await {
            Ok(lb) if is_ours(&lb, &name, &shop.project) => return Ok(vec![lb]),
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(trouble(&doing, &error)),
        }
    }
    let filter = LoadBalancerFilter {
        name: Some(name.clone()),
        project_id: Some(shop.project.clone()),
        ..LoadBalancerFilter::default()
    };
    let found = shop
        .cloud
        .load_balancers(&filter, Priority::Settling)
        .await
        .map_err(|e| trouble(&doing, &e))?;
    Ok(found
        .into_iter()
        .filter(|lb| is_ours(lb, &name, &shop.project))
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
    shop: &Shop<'_>,
    wish: &LoadBalancerWish,
    network: &NetworkState,
) -> Step<LoadBalancer> {
    if let Some(provider) = &wish.provider {
        provider_exists(shop, provider).await?;
    }
    let flavor_id = match &wish.flavor {
        Some(name) => Some(flavor_id(shop, name).await?),
        None => None,
    };
    let vip_address = shop.wanted.endpoint.wanted_vip();
    let subnet = vip_address
        .and_then(|address| {
            let holds = |subnet: &&capo_openstack::network::Subnet| {
                subnet.cidr.is_some_and(|range| range.contains(&address))
            };
            network.subnets.iter().find(holds)
        })
        .or(network.subnets.first());
    let new = NewLoadBalancer {
        name: shop.wanted.names.load_balancer(),
        description: shop.wanted.names.description(),
        vip_address: vip_address.filter(|address| {
            subnet
                .and_then(|subnet| subnet.cidr)
                .is_some_and(|range| range.contains(address))
        }),
        vip_network_id: Some(network.network.id.clone()),
        vip_subnet_id: subnet.map(|subnet| subnet.id.clone()),
        provider: wish.provider.clone(),
        flavor_id,
        availability_zone: wish.availability_zone.clone(),
        tags: shop.wanted.tags.clone(),
    };
    let lb = shop
        .cloud
        .create_load_balancer(&new, Priority::Settling)
        .await
        .map_err(|e| trouble(&format!("Creating load balancer {}", new.name), &e))?;
    shop.created("load balancer", &lb.name, &lb.id);
    Ok(lb)
}

async fn provider_exists(shop: &Shop<'_>, provider: &str) -> Step<()> {
    match shop.cloud.load_balancer_providers(Priority::Settling).await {
        Ok(there) if there.iter().any(|one| one.name == provider) => Ok(()),
        Ok(there) => {
            let names: Vec<&str> = there.iter().map(|one| one.name.as_str()).collect();
            Err(missing(shop, "provider", provider, &names))
        }
        // Whoever may not list providers learns from the creation.
        Err(error) if error.class() == FailureClass::Denied => Ok(()),
        Err(error) => Err(trouble("Listing load balancer providers", &error)),
    }
}

async fn flavor_id(shop: &Shop<'_>, name: &str) -> Step<String> {
    let flavors = shop
        .cloud
        .load_balancer_flavors(name, Priority::Settling)
        .await
        .map_err(|e| trouble("Listing load balancer flavors", &e))?;
    flavors
        .into_iter()
        .find(|flavor| flavor.name == name)
        .map(|flavor| flavor.id)
        .ok_or_else(|| missing(shop, "flavor", name, &[]))
}

fn missing(shop: &Shop<'_>, field: &str, found: &str, there: &[&str]) -> Halt {
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
            shop.wanted.object
        ),
    )
}

/// Asks for the end of a load balancer with everything in it. `Ok(false)` where it is locked at the moment.
pub(crate) async fn delete(shop: &Shop<'_>, id: &str) -> Step<bool> {
    match shop
        .cloud
        .delete_load_balancer(id, Priority::Settling)
        .await
    {
        Ok(()) => Ok(true),
        Err(error) if error.is_not_found() => Ok(true),
        Err(error) if error.is(FailureClass::Locked) || error.is(FailureClass::Locked) => Ok(false),
        Err(error) => Err(trouble(&format!("Deleting load balancer {id}"), &error)),
    }
}
