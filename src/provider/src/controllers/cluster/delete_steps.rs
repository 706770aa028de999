//! Complete deletion, in CAPO's order: load balancer with its floating IP, router, leftover ports,
//! network, security groups. Every step looks for what is there, removes it, and looks again.

use std::time::Duration;

use super::{
    desired::DesiredNetwork,
    floating_ip,
    load_balancer::{self, plan::FoundLoadBalancer},
    names::Role,
    network, router, security_groups,
    step_context::StepContext,
};
use crate::kubernetes::conditions::kind::{
    API_SERVER_LOAD_BALANCER_READY, NETWORK_READY, ROUTER_READY, SECURITY_GROUPS_READY,
};
use crate::reconcile::{StepError, StepResult};
use capo_core::Reason;
use capo_core::{FailureClass, Priority, ProvisioningStatus};
use capo_openstack::{
    Error,
    load_balancer::LoadBalancer,
    network::{Network, Port, PortFilter, RouterInterface},
};

/// How soon to look again for what is being deleted.
const SOON: Duration = Duration::from_secs(2);

/// Removes everything that is ours. `cluster` is the name of the Cluster, which ports carry in their description.
pub(crate) async fn delete_all(
    context: &StepContext<'_>,
    known_lb: Option<&str>,
    cluster: &str,
) -> StepResult<()> {
    balancer(context, known_lb).await?;
    if matches!(context.desired.network, DesiredNetwork::Managed(_)) {
        let network = network::find_managed(context).await?;
        remove_router(context, network.as_ref()).await?;
        if let Some(network) = network {
            leftover_ports(context, &network, cluster).await?;
            remove_network(context, &network).await?;
        }
    }
    for role in [Role::ControlPlane, Role::Worker, Role::Bastion] {
        if context.desired.security.is_some() {
            remove_group(context, role).await?;
        }
    }
    Ok(())
}

async fn balancer(context: &StepContext<'_>, known: Option<&str>) -> StepResult<()> {
    if context.desired.load_balancer.is_none() && known.is_none() {
        return floating_ip::remove(context, None).await;
    }
    let found = match load_balancer::find(context, known).await {
        Ok(found) => found,
        // A cloud without load balancing never gave us one.
        Err(step_error) if known.is_none() && is_no_service(&step_error) => Vec::new(),
        Err(step_error) => return Err(step_error),
    };
    match found.as_slice() {
        [] => floating_ip::remove(context, None).await,
        [one] => remove_balancer(context, one).await,
        several => {
            let ids: Vec<&str> = several.iter().map(|lb| lb.id.as_str()).collect();
            Err(StepError::refused(
                API_SERVER_LOAD_BALANCER_READY,
                Reason::AmbiguousMatch,
                format!(
                    "Load balancer name \"{}\" matches {} objects ({}); remove or rename those that are not this \
                     cluster's",
                    context.desired.names.load_balancer(),
                    ids.len(),
                    ids.join(", ")
                ),
            ))
        }
    }
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

async fn remove_balancer(context: &StepContext<'_>, lb: &LoadBalancer) -> StepResult<()> {
    let seen = FoundLoadBalancer::from(lb);
    if seen.provisioning_status != ProvisioningStatus::PendingDelete {
        floating_ip::remove(context, lb.vip_port_id.as_deref()).await?;
        if !load_balancer::delete(context, &lb.id).await? {
            return Err(StepError::wait(
                API_SERVER_LOAD_BALANCER_READY,
                Reason::LoadBalancerPending,
                format!(
                    "Load balancer {} is {} and can't be deleted before that ends",
                    lb.name, seen.provisioning_status
                ),
                SOON,
            ));
        }
        context.deleted("load balancer", &lb.name, &lb.id);
    }
    Err(StepError::wait(
        API_SERVER_LOAD_BALANCER_READY,
        Reason::Deleting,
        format!("Load balancer {} is being deleted", lb.name),
        SOON,
    ))
}

async fn remove_router(context: &StepContext<'_>, network: Option<&Network>) -> StepResult<()> {
    let failed = |doing: &str, error: &Error| {
        StepError::cloud(ROUTER_READY, Reason::OpenStackError, doing, error)
    };
    let given = context.desired.router.existing.is_some();
    // A router of the user's loses our interfaces only; they are found through our network.
    let (router, owners) = if given {
        (None, network)
    } else {
        (router::find_managed(context).await?, None)
    };
    let interfaces = match (&router, owners) {
        // Interfaces to networks that are not the cluster's were put there by somebody else.
        (Some(router), _) => router::interfaces(context, &router.id)
            .await?
            .into_iter()
            .filter(|port| network.is_some_and(|network| network.id == port.network_id))
            .collect(),
        (None, Some(network)) => ports_of(context, network)
            .await?
            .into_iter()
            .filter(|port| router::is_interface(&port.device_owner))
            .collect(),
        (None, None) => Vec::new(),
    };
    for port in interfaces {
        match context
            .cloud
            .remove_router_interface(
                &port.device_id.as_str().into(),
                RouterInterface::Port(&port.id),
                Priority::Settling,
            )
            .await
        {
            Ok(()) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(failed("Taking the router off the network", &error)),
        }
    }
    let Some(router) = router else { return Ok(()) };
    match context
        .cloud
        .delete_router(&router.id, Priority::Settling)
        .await
    {
        Ok(()) => {}
        Err(error) if error.is_not_found() => {}
        Err(error) => {
            let doing = format!("Deleting router {}", router.name);
            return Err(in_use(ROUTER_READY, &doing, &error));
        }
    }
    context.deleted("router", &router.name, &router.id);
    match router::find_managed(context).await? {
        None => Ok(()),
        Some(router) => Err(going(ROUTER_READY, "Router", &router.name)),
    }
}

async fn ports_of(context: &StepContext<'_>, network: &Network) -> StepResult<Vec<Port>> {
    let filter = PortFilter {
        network_id: Some(network.id.clone()),
        ..PortFilter::default()
    };
    context
        .cloud
        .ports(&filter, Priority::Settling)
        .await
        .map_err(|e| {
            StepError::cloud(
                NETWORK_READY,
                Reason::OpenStackError,
                "Listing the network's ports",
                &e,
            )
        })
}

/// Ports that servers of ours left: on our network, with exactly our description, on no device. Names
/// are no evidence: those of one cluster can begin like those of another.
async fn leftover_ports(
    context: &StepContext<'_>,
    network: &Network,
    cluster: &str,
) -> StepResult<()> {
    let description = format!("Created by cluster-api-provider-openstack cluster {cluster}");
    for port in ports_of(context, network).await? {
        if port.description != description || !port.device_id.is_empty() {
            continue;
        }
        match context
            .cloud
            .delete_port(&port.id, Priority::Settling)
            .await
        {
            Ok(()) => context.deleted("port", &port.name, &port.id),
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                let doing = format!("Deleting port {}", port.name);
                return Err(in_use(NETWORK_READY, &doing, &error));
            }
        }
    }
    Ok(())
}

async fn remove_network(context: &StepContext<'_>, network: &Network) -> StepResult<()> {
    match context
        .cloud
        .delete_network(&network.id, Priority::Settling)
        .await
    {
        Ok(()) => {}
        Err(error) if error.is_not_found() => {}
        Err(error) if error.class().is_conflict() => {
            return Err(still_used(context, network, &error).await);
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
    context.deleted("network", &network.name, &network.id);
    match network::find_managed(context).await? {
        None => Ok(()),
        Some(network) => Err(going(NETWORK_READY, "Network", &network.name)),
    }
}

/// Says which ports hold a network.
async fn still_used(context: &StepContext<'_>, network: &Network, error: &Error) -> StepError {
    let ports = match ports_of(context, network).await {
        Ok(ports) => ports,
        Err(step_error) => return step_error,
    };
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
        return in_use(
            NETWORK_READY,
            &format!("Deleting network {}", network.name),
            error,
        );
    }
    names.sort();
    names.truncate(10);
    StepError::wait(
        NETWORK_READY,
        Reason::Deleting,
        format!(
            "Network {} can't be deleted while these ports are on it: {}",
            network.name,
            names.join(", ")
        ),
        SOON,
    )
}

async fn remove_group(context: &StepContext<'_>, role: Role) -> StepResult<()> {
    let Some(group) = security_groups::find(context, role).await? else {
        return Ok(());
    };
    match context
        .cloud
        .delete_security_group(&group.id, Priority::Settling)
        .await
    {
        Ok(()) => {}
        Err(error) if error.is_not_found() => {}
        Err(error) => {
            let doing = format!("Deleting security group {}", group.name);
            return Err(in_use(SECURITY_GROUPS_READY, &doing, &error));
        }
    }
    context.deleted("security group", &group.name, &group.id);
    match security_groups::find(context, role).await? {
        None => Ok(()),
        Some(group) => Err(going(SECURITY_GROUPS_READY, "Security group", &group.name)),
    }
}

/// What is still used is waited for; anything else is failed.
fn in_use(condition: &'static str, doing: &str, error: &Error) -> StepError {
    if error.class().is_conflict() {
        return StepError::wait(
            condition,
            Reason::Deleting,
            format!("{doing} waits for what uses it: {error}"),
            SOON,
        );
    }
    StepError::cloud(condition, Reason::OpenStackError, doing, error)
}

fn going(condition: &'static str, what: &str, name: &str) -> StepError {
    StepError::wait(
        condition,
        Reason::Deleting,
        format!("{what} {name} is being deleted"),
        SOON,
    )
}
