//! Deletes everything that was created for a cluster, in CAPO's order: load balancer with its floating IP, load
//! balancers of Services if the user wants that, router, leftover ports, network, security groups. Every step looks for
//! the object, deletes it, and looks again. A later pass does not repeat the load balancer's and the router's step once
//! they have ended.

use super::{
    plan::{
        LoadBalancerRemoval, Managed, Removal, RouterInputs, RouterRemoval, load_balancer_removal,
        removals, router_removal,
    },
    ports,
    progress::DeletionProgress,
    services,
};
use crate::controllers::cluster::{
    desired::DesiredNetwork,
    floating_ip::{self, Purpose},
    load_balancer, network, router, security_groups,
    step_context::StepContext,
};
use crate::kubernetes::conditions::kind::{
    API_ENDPOINT_READY, API_SERVER_LOAD_BALANCER_READY, NETWORK_READY, ROUTER_READY,
};
use crate::kubernetes::events::{CloudObject, Verb};
use crate::reconcile::{StepError, StepResult};
use capo_core::Reason;
use capo_core::ids::LoadBalancerId;
use capo_core::{FailureClass, Priority};
use capo_openstack::{
    Error,
    load_balancer::LoadBalancer,
    network::{Network, Port, Router, RouterInterface},
};

/// The cluster whose objects are deleted.
pub(super) struct DeletedCluster<'a> {
    /// The id of the load balancer, where it is known.
    pub load_balancer: Option<&'a LoadBalancerId>,
    /// The name of the Cluster, which is part of the description of its ports.
    pub name: &'a str,
    /// Whether the load balancers of Services are deleted too.
    pub with_services: bool,
}

/// Deletes everything that was created for the cluster.
pub(super) async fn delete_all(
    context: &StepContext<'_>,
    cluster: &DeletedCluster<'_>,
    progress: &mut DeletionProgress,
) -> StepResult<()> {
    let managed = Managed {
        network: matches!(context.desired.network, DesiredNetwork::Managed(_)),
        security_groups: context.desired.security.is_some(),
        services: cluster.with_services,
    };
    for removal in removals(managed, progress) {
        match removal {
            Removal::LoadBalancer => {
                balancer(context, cluster.load_balancer).await?;
                progress.is_load_balancer_gone = true;
            }
            Removal::Network { services, router } => {
                let network = network::find_managed(context).await?;
                let (kind, name) = (CloudObject::Network, context.desired.names.network());
                match &network {
                    Some(_) => context.creations.found(kind, &name),
                    None => context.creations.check(NETWORK_READY, kind, &name)?,
                }
                if let Some(network) = network.as_ref().filter(|_| services) {
                    services::delete(context, network, cluster.name).await?;
                }
                if router {
                    remove_router(context, network.as_ref(), cluster.name).await?;
                    progress.is_router_gone = true;
                }
                if let Some(network) = network {
                    let left = ports::delete_leftover(context, &network, cluster.name).await?;
                    remove_network(context, &network, &left, cluster.name).await?;
                }
            }
            Removal::SecurityGroups => security_groups::delete::all(context).await?,
        }
    }
    Ok(())
}

async fn balancer(context: &StepContext<'_>, known: Option<&LoadBalancerId>) -> StepResult<()> {
    let name = context.desired.names.load_balancer();
    let (condition, kind) = (API_SERVER_LOAD_BALANCER_READY, CloudObject::LoadBalancer);
    let certain = context.creations.check(condition, kind, &name);
    if context.desired.load_balancer.is_none() && known.is_none() && certain.is_ok() {
        return release_floating_ips(context).await;
    }
    let found = match load_balancer::find(context, known).await {
        Ok(found) => found,
        // The cloud has no load balancing and the id of a load balancer is not known, so none was ever created.
        Err(step_error) if known.is_none() && is_no_service(&step_error) => Vec::new(),
        Err(step_error) => return Err(step_error),
    };
    if !found.is_empty() {
        context.creations.found(kind, &name);
    }
    let lb = match load_balancer_removal(&found) {
        LoadBalancerRemoval::Gone => {
            certain?;
            return release_floating_ips(context).await;
        }
        LoadBalancerRemoval::Await(lb) => lb,
        LoadBalancerRemoval::Delete(lb) => {
            delete_balancer(context, lb).await?;
            lb
        }
        LoadBalancerRemoval::Ambiguous(ids) => {
            return Err(StepError::refused(
                API_SERVER_LOAD_BALANCER_READY,
                Reason::AmbiguousMatch,
                format!(
                    "Load balancer name \"{name}\" matches {} objects ({}); remove or rename those that are not this \
                     cluster's",
                    ids.len(),
                    ids.join(", ")
                ),
            ));
        }
    };
    Err(context.still_deleting(API_SERVER_LOAD_BALANCER_READY, "Load balancer", &lb.name))
}

/// Releases the API server's floating IPs once the load balancer is gone. A floating IP whose creation may still be
/// carried out counts as existing.
async fn release_floating_ips(context: &StepContext<'_>) -> StepResult<()> {
    let name = Purpose::LoadBalancer.recorded_name();
    let (condition, kind) = (API_ENDPOINT_READY, CloudObject::FloatingIp);
    floating_ip::remove(context, None).await?;
    context.creations.check(condition, kind, &name)
}

fn is_no_service(step_error: &StepError) -> bool {
    matches!(
        step_error.outcome,
        crate::controllers::Outcome::Failed {
            class: FailureClass::NoService,
            ..
        }
    )
}

async fn delete_balancer(context: &StepContext<'_>, lb: &LoadBalancer) -> StepResult<()> {
    floating_ip::remove(context, lb.vip_port_id.as_ref()).await?;
    if load_balancer::delete(context, &lb.name, &lb.id).await? {
        return Ok(());
    }
    Err(StepError::wait(
        API_SERVER_LOAD_BALANCER_READY,
        Reason::LoadBalancerPending,
        format!(
            "Load balancer {} is {} and can't be deleted before that ends",
            lb.name, lb.provisioning_status
        ),
        context.pause,
    ))
}

async fn remove_router(
    context: &StepContext<'_>,
    network: Option<&Network>,
    cluster: &str,
) -> StepResult<()> {
    let existing = context.desired.router.existing.as_ref();
    let managed = if existing.is_some() {
        None
    } else {
        let found = router::find_managed(context).await?;
        let (kind, name) = (CloudObject::Router, context.desired.names.network());
        match &found {
            Some(_) => context.creations.found(kind, &name),
            None => context.creations.check(ROUTER_READY, kind, &name)?,
        }
        found
    };
    let ports = match (&managed, network) {
        (Some(router), _) => router::list_interfaces(context, &router.id).await?,
        (None, Some(network)) if existing.is_some() => ports::all(context, network).await?,
        (None, _) => Vec::new(),
    };
    let inputs = RouterInputs {
        existing,
        known: context.known.router.as_ref(),
        managed: managed.as_ref(),
        network: network.map(|network| &network.id),
    };
    match router_removal(inputs, ports) {
        RouterRemoval::Gone => Ok(()),
        RouterRemoval::Detach(interfaces) => {
            remove_interfaces(context, &interfaces, network, cluster).await
        }
        RouterRemoval::Delete(router, interfaces) => {
            remove_interfaces(context, &interfaces, network, cluster).await?;
            delete_router(context, router).await
        }
    }
}

async fn remove_interfaces(
    context: &StepContext<'_>,
    interfaces: &[Port],
    network: Option<&Network>,
    cluster: &str,
) -> StepResult<()> {
    let doing = "Removing the router's interface from the network";
    let name = context.desired.names.network();
    for port in interfaces {
        let removed = context
            .cloud
            .remove_router_interface(
                &port.device_id.as_str().into(),
                RouterInterface::Port(&port.id),
                Priority::Settling,
            )
            .await;
        match removed {
            Ok(()) => {
                let change = "interface removed";
                context.updated(CloudObject::Router, &name, &port.device_id, change);
            }
            Err(error) if error.is_not_found() => {}
            Err(error) if error.class().is_conflict() => {
                let waits = context.in_use(ROUTER_READY, Reason::OpenStackError, doing, &error);
                return Err(with_services_named(context, network, cluster, waits).await);
            }
            Err(error) => {
                context.failed(Verb::Update, CloudObject::Router, &name, &error);
                let ordinary = Reason::OpenStackError;
                return Err(StepError::cloud(ROUTER_READY, ordinary, doing, &error));
            }
        }
    }
    Ok(())
}

async fn delete_router(context: &StepContext<'_>, router: &Router) -> StepResult<()> {
    let answer = context
        .cloud
        .delete_router(&router.id, Priority::Settling)
        .await;
    context
        .deleted(
            CloudObject::Router,
            &router.name,
            router.id.as_str(),
            answer,
        )
        .map_err(|error| {
            let doing = format!("Deleting router {}", router.name);
            context.in_use(ROUTER_READY, Reason::OpenStackError, &doing, &error)
        })?;
    match router::find_managed(context).await? {
        None => Ok(()),
        Some(router) => Err(context.still_deleting(ROUTER_READY, "Router", &router.name)),
    }
}

/// Adds the load balancers of Services in the network to the message of a wait, because their floating IPs need the
/// router and their ports are in the network.
async fn with_services_named(
    context: &StepContext<'_>,
    network: Option<&Network>,
    cluster: &str,
    waits: StepError,
) -> StepError {
    let Some(network) = network else { return waits };
    match services::of_services(context, network).await {
        Ok(left) if left.is_empty() => waits,
        Ok(left) => {
            let advice = services::advice(&left, cluster);
            context.await_deletion(waits.condition, format!("{}{advice}", waits.state.message))
        }
        Err(error) => error,
    }
}

async fn remove_network(
    context: &StepContext<'_>,
    network: &Network,
    left: &[Port],
    cluster: &str,
) -> StepResult<()> {
    let answer = context
        .cloud
        .delete_network(&network.id, Priority::Settling)
        .await;
    match context.deleted(
        CloudObject::Network,
        &network.name,
        network.id.as_str(),
        answer,
    ) {
        Ok(()) => {}
        Err(error) if error.class().is_conflict() => {
            let waits = still_used(context, network, left, &error);
            return Err(with_services_named(context, Some(network), cluster, waits).await);
        }
        Err(error) => {
            return Err(StepError::cloud(
                NETWORK_READY,
                Reason::OpenStackError,
                &format!("Deleting network {}", network.name),
                &error,
            ));
        }
    }
    match network::find_managed(context).await? {
        None => Ok(()),
        Some(network) => Err(context.still_deleting(NETWORK_READY, "Network", &network.name)),
    }
}

/// Reports the ports that keep a network from being deleted.
fn still_used(
    context: &StepContext<'_>,
    network: &Network,
    ports: &[Port],
    error: &Error,
) -> StepError {
    let mut names: Vec<String> = ports
        .iter()
        .filter(|port| {
            port.device_owner != "network:dhcp" && port.device_owner != "network:distributed"
        })
        .map(|port| {
            let name = if port.name.is_empty() {
                port.id.to_string()
            } else {
                port.name.clone()
            };
            if port.device_owner.is_empty() {
                name
            } else {
                format!("{name} ({})", port.device_owner)
            }
        })
        .collect();
    if names.is_empty() {
        return context.in_use(
            NETWORK_READY,
            Reason::OpenStackError,
            &format!("Deleting network {}", network.name),
            error,
        );
    }
    names.sort();
    names.truncate(10);
    context.await_deletion(
        NETWORK_READY,
        format!(
            "Network {} can't be deleted while these ports are on it: {}",
            network.name,
            names.join(", ")
        ),
    )
}
