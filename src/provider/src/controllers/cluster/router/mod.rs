//! The router, with its gateway to the external network and an interface in every subnet.

mod plan;

use self::plan::{RouterPlan, subnets_to_join};
use super::{
    desired::{DesiredNetwork, Reference, RouterReference},
    network::find_subnet,
    observation::NetworkState,
    step_context::{NewObject, StepContext},
};
use crate::kubernetes::conditions::kind::ROUTER_READY;
use crate::kubernetes::events::{CloudObject, Verb};
use crate::reconcile::{StepError, StepResult, matching::resolve};
use capo_core::Priority;
use capo_core::Reason;
use capo_core::ids::RouterId;
use capo_openstack::{
    Error,
    network::{
        ExternalGateway, FixedIp, Network, NewRouter, Port, PortFilter, ROUTER_INTERFACE_OWNERS,
        Router, RouterFilter, RouterInterface, RouterUpdate, Tagged,
    },
};

fn failed(ordinary: Reason, doing: &str, error: &Error) -> StepError {
    StepError::cloud(ROUTER_READY, ordinary, doing, error)
}

/// Returns the router, after creating or changing it if necessary. `None` means that no router is needed: there is no
/// external network, or the network is the user's and the spec names no router. The router itself is not read if `kept`
/// has it from an earlier read and its interfaces still exist.
pub(crate) async fn ensure(
    context: &StepContext<'_>,
    network: &NetworkState,
    external: Option<&Network>,
    kept: Option<&Router>,
) -> StepResult<Option<Router>> {
    let managed_network = matches!(context.desired.network, DesiredNetwork::Managed(_));
    if let Some(kept) = kept.filter(|_| managed_network && external.is_some()) {
        let there = list_interfaces(context, &kept.id).await?;
        if subnets_to_join(&network.subnets, &there).is_empty() {
            return Ok(Some(kept.clone()));
        }
    }
    if let Some(reference) = &context.desired.router.existing {
        // As in CAPO, a managed network without an external network gets no router.
        if managed_network && external.is_none() {
            return Ok(None);
        }
        let router = find_router(context, reference).await?;
        if managed_network {
            let there = list_interfaces(context, &router.id).await?;
            join(context, &router, network, &there).await?;
        }
        return Ok(Some(router));
    }
    let Some(external) = external.filter(|_| managed_network) else {
        return Ok(None);
    };
    let gateway = gateway(context, external).await?;
    let found = find_managed(context).await?;
    // A router that is created in this pass has no interfaces yet.
    let is_new = found.is_none();
    if !is_new {
        let name = context.desired.names.network();
        context.creations.found(CloudObject::Router, &name);
    }
    let router = match plan::plan(found, &gateway) {
        RouterPlan::Use(router) => router,
        RouterPlan::Create { with_gateway } => {
            let router = create(context, with_gateway.then(|| gateway.clone())).await?;
            if with_gateway {
                router
            } else {
                set_gateway(context, &router, &gateway).await?
            }
        }
        RouterPlan::SetGateway(router) => set_gateway(context, &router, &gateway).await?,
        RouterPlan::LeaveGateway(router) => {
            warn_gateway(context, &router, external);
            router
        }
    };
    context
        .tag(ROUTER_READY, Tagged::Router(&router.id), &router.tags)
        .await?;
    let there = if is_new {
        Vec::new()
    } else {
        list_interfaces(context, &router.id).await?
    };
    join(context, &router, network, &there).await?;
    Ok(Some(router))
}

/// The router as it is, without any change to it.
pub(crate) async fn find(context: &StepContext<'_>) -> StepResult<Option<Router>> {
    match &context.desired.router.existing {
        Some(reference) => find_router(context, reference).await.map(Some),
        None if matches!(context.desired.network, DesiredNetwork::Managed(_)) => {
            find_managed(context).await
        }
        None => Ok(None),
    }
}

/// The managed router as it is, found by the id in the status or else by its name; `None` if it does not exist.
pub(crate) async fn find_managed(context: &StepContext<'_>) -> StepResult<Option<Router>> {
    let name = context.desired.names.network();
    let doing = format!("Looking for router {name}");
    if let Some(id) = &context.known.router {
        match context.cloud.router(id, Priority::Settling).await {
            Ok(router) if router.project_id.as_ref() == Some(&context.project) => {
                return Ok(Some(router));
            }
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(failed(Reason::OpenStackError, &doing, &error)),
        }
    }
    let filter = RouterFilter {
        name: Some(name.clone()),
        project_id: Some(context.project.clone()),
        ..RouterFilter::default()
    };
    let found = context
        .cloud
        .routers(&filter, Priority::Settling)
        .await
        .map_err(|e| failed(Reason::OpenStackError, &doing, &e))?;
    resolve(found, None, |r| &r.id).at_most_one(ROUTER_READY, &format!("Router name \"{name}\""))
}

async fn find_router(context: &StepContext<'_>, lookup: &RouterReference) -> StepResult<Router> {
    let object = &context.desired.object;
    let doing = "Looking for spec.router";
    match lookup {
        Reference::Id(id) => match context.cloud.router(id, Priority::Settling).await {
            Ok(router) => Ok(router),
            Err(error) if error.is_not_found() => Err(StepError::refused(
                ROUTER_READY,
                Reason::DependencyNotFound,
                format!(
                    "OpenStackCluster {object}: spec.router.id is {id}, but there is no router with this id; the id of an existing one is needed"
                ),
            )),
            Err(error) => Err(failed(Reason::OpenStackError, doing, &error)),
        },
        Reference::Filter(filter) => {
            let found = context
                .cloud
                .routers(filter, Priority::Settling)
                .await
                .map_err(|e| failed(Reason::OpenStackError, doing, &e))?;
            let what = format!("OpenStackCluster {object}: spec.router.filter");
            resolve(found, None, |r: &Router| &r.id).exactly_one(ROUTER_READY, &what)
        }
    }
}

async fn gateway(context: &StepContext<'_>, external: &Network) -> StepResult<ExternalGateway> {
    let mut external_fixed_ips = Vec::new();
    for (at, (lookup, address)) in context.desired.router.external_ips.iter().enumerate() {
        let field = format!("spec.managedRouter.externalIPs[{at}].subnet");
        let subnet = find_subnet(context, lookup, Some(&external.id), &field).await?;
        external_fixed_ips.push(FixedIp {
            subnet_id: Some(subnet.id),
            ip_address: *address,
        });
    }
    Ok(ExternalGateway {
        network_id: external.id.clone(),
        external_fixed_ips,
    })
}

async fn create(context: &StepContext<'_>, gateway: Option<ExternalGateway>) -> StepResult<Router> {
    let new = NewRouter {
        name: context.desired.names.network(),
        description: context.desired.names.description(),
        external_gateway_info: gateway,
    };
    let request = context.cloud.create_router(&new, Priority::Settling);
    let object = NewObject {
        condition: ROUTER_READY,
        kind: CloudObject::Router,
        name: &new.name,
    };
    let doing = format!("Creating router {}", new.name);
    let failed = |e: &Error| failed(Reason::RouterCreateFailed, &doing, e);
    context
        .create(object, request, |r| r.id.as_str(), failed)
        .await
}

async fn set_gateway(
    context: &StepContext<'_>,
    router: &Router,
    desired: &ExternalGateway,
) -> StepResult<Router> {
    let update = RouterUpdate {
        external_gateway_info: Some(desired.clone()),
    };
    let answer = context
        .cloud
        .update_router(&router.id, &update, Priority::Settling)
        .await;
    let about = (CloudObject::Router, &*router.name, router.id.as_str());
    let change = format!("gateway in network {}", desired.network_id);
    let doing = format!("Setting the gateway of router {}", router.name);
    context
        .answered(Verb::Update, about, &change, answer)
        .map_err(|e| failed(Reason::OpenStackError, &doing, &e))
}

fn warn_gateway(context: &StepContext<'_>, router: &Router, external: &Network) {
    let there = router.external_gateway_info.as_ref();
    let note = format!(
        "OpenStackCluster {}: the gateway of router {} is in network {}, not in the external network {} of the cluster. It \
         is left there, because floating IPs may depend on it; move it back if that was not intended",
        context.desired.object,
        router.name,
        there.map_or("unknown", |gateway| gateway.network_id.as_str()),
        external.id
    );
    context
        .events
        .warning(&context.object, Reason::OpenStackError, "Reconcile", &note);
}

/// The ports by which the router is connected to subnets.
pub(crate) async fn list_interfaces(
    context: &StepContext<'_>,
    router: &RouterId,
) -> StepResult<Vec<Port>> {
    let filter = PortFilter {
        device_id: Some(router.to_string()),
        ..PortFilter::default()
    };
    let doing = "Listing the router's interfaces";
    let ports = context
        .cloud
        .ports(&filter, Priority::Settling)
        .await
        .map_err(|e| failed(Reason::OpenStackError, doing, &e))?;
    Ok(ports
        .into_iter()
        .filter(|port| is_interface(&port.device_owner))
        .collect())
}

/// Whether a port with this `device_owner` connects a router to a subnet.
pub(crate) fn is_interface(device_owner: &str) -> bool {
    ROUTER_INTERFACE_OWNERS.contains(&device_owner)
}

async fn join(
    context: &StepContext<'_>,
    router: &Router,
    network: &NetworkState,
    there: &[Port],
) -> StepResult<()> {
    let about = (CloudObject::Router, &*router.name, router.id.as_str());
    for subnet in subnets_to_join(&network.subnets, there) {
        let interface = RouterInterface::Subnet(&subnet.id);
        let answer = context
            .cloud
            .add_router_interface(&router.id, interface, Priority::Settling)
            .await;
        let change = format!("interface to subnet {}", subnet.name);
        let doing = format!("Joining router {} to subnet {}", router.name, subnet.name);
        context
            .answered(Verb::Update, about, &change, answer)
            .map_err(|e| failed(Reason::OpenStackError, &doing, &e))?;
    }
    Ok(())
}
