//! The router: gateway to the external network, interface to every subnet.

use super::{
    desired::{DesiredNetwork, Reference},
    halt::{Halt, Step},
    network::{NetworkState, subnet_by},
    resolve::resolve,
    step_context::StepContext,
};
use crate::kubernetes::conditions::kind::ROUTER_READY;
use capo_core::Priority;
use capo_core::Reason;
use capo_openstack::{
    Error,
    network::{
        ExternalGateway, FixedIp, Network, NewRouter, Port, PortFilter, Router, RouterFilter,
        RouterInterface, RouterUpdate, Tagged,
    },
};

fn failed(ordinary: Reason, doing: &str, error: &Error) -> Halt {
    Halt::cloud(ROUTER_READY, ordinary, doing, error)
}

/// The router; `None` where none is needed: without an external network, or with a network of the
/// user's and no router named.
pub(crate) async fn router(
    context: &StepContext<'_>,
    network: &NetworkState,
    external: Option<&Network>,
) -> Step<Option<Router>> {
    let desired = &context.desired.router;
    let managed_network = matches!(context.desired.network, DesiredNetwork::Managed(_));
    if let Some(lookup) = &desired.existing {
        let router = router_by(context, lookup).await?;
        if managed_network {
            join(context, &router, network).await?;
        }
        return Ok(Some(router));
    }
    let Some(external) = external.filter(|_| managed_network) else {
        return Ok(None);
    };
    let gateway = gateway(context, external).await?;
    let router = match find_managed(context).await? {
        Some(router) => apply_gateway(context, router, &gateway).await?,
        None => create(context, gateway).await?,
    };
    context
        .tag(ROUTER_READY, Tagged::Router(&router.id), &router.tags)
        .await?;
    join(context, &router, network).await?;
    Ok(Some(router))
}

/// The managed router as it is; `None` where there is none.
pub(crate) async fn find_managed(context: &StepContext<'_>) -> Step<Option<Router>> {
    let name = context.desired.names.network();
    let filter = RouterFilter {
        name: Some(name.clone()),
        project_id: Some(context.project.clone()),
        ..RouterFilter::default()
    };
    let found = context
        .cloud
        .routers(&filter, Priority::Settling)
        .await
        .map_err(|e| {
            failed(
                Reason::OpenStackError,
                &format!("Looking for router {name}"),
                &e,
            )
        })?;
    resolve(found, context.known.router.as_deref(), |r| &r.id)
        .at_most_one(ROUTER_READY, &format!("Router name \"{name}\""))
}

async fn router_by(context: &StepContext<'_>, lookup: &Reference<RouterFilter>) -> Step<Router> {
    let object = &context.desired.object;
    let doing = "Looking for spec.router";
    match lookup {
        Reference::Id(id) => match context
            .cloud
            .router(&id.as_str().into(), Priority::Settling)
            .await
        {
            Ok(router) => Ok(router),
            Err(error) if error.is_not_found() => Err(Halt::refused(
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

async fn gateway(context: &StepContext<'_>, external: &Network) -> Step<ExternalGateway> {
    let mut external_fixed_ips = Vec::new();
    for (at, (lookup, address)) in context.desired.router.external_ips.iter().enumerate() {
        let field = format!("spec.managedRouter.externalIPs[{at}].subnet");
        let subnet = subnet_by(context, lookup, Some(&external.id), &field).await?;
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

async fn create(context: &StepContext<'_>, gateway: ExternalGateway) -> Step<Router> {
    let new = NewRouter {
        name: context.desired.names.network(),
        description: context.desired.names.description(),
        external_gateway_info: Some(gateway),
    };
    let router = context
        .cloud
        .create_router(&new, Priority::Settling)
        .await
        .map_err(|e| {
            failed(
                Reason::RouterCreateFailed,
                &format!("Creating router {}", new.name),
                &e,
            )
        })?;
    context.created("router", &router.name, &router.id);
    Ok(router)
}

async fn apply_gateway(
    context: &StepContext<'_>,
    router: Router,
    desired: &ExternalGateway,
) -> Step<Router> {
    if router
        .external_gateway_info
        .as_ref()
        .is_some_and(|present| suffices(present, desired))
    {
        return Ok(router);
    }
    let update = RouterUpdate {
        external_gateway_info: Some(desired.clone()),
    };
    let doing = format!("Setting the gateway of router {}", router.name);
    context
        .cloud
        .update_router(&router.id, &update, Priority::Settling)
        .await
        .map_err(|e| failed(Reason::OpenStackError, &doing, &e))
}

/// Whether a gateway is in the right network and has every address it should.
fn suffices(present: &ExternalGateway, desired: &ExternalGateway) -> bool {
    present.network_id == desired.network_id
        && desired.external_fixed_ips.iter().all(|ip| {
            present.external_fixed_ips.iter().any(|there| {
                there.subnet_id == ip.subnet_id
                    && (ip.ip_address.is_none() || ip.ip_address == there.ip_address)
            })
        })
}

/// The router's own ports that join it to subnets.
pub(crate) async fn interfaces(context: &StepContext<'_>, router: &str) -> Step<Vec<Port>> {
    let filter = PortFilter {
        device_id: Some(router.to_owned()),
        ..PortFilter::default()
    };
    let ports = context
        .cloud
        .ports(&filter, Priority::Settling)
        .await
        .map_err(|e| {
            failed(
                Reason::OpenStackError,
                "Listing the router's interfaces",
                &e,
            )
        })?;
    Ok(ports
        .into_iter()
        .filter(|port| is_interface(&port.device_owner))
        .collect())
}

/// A port that joins a router to a subnet, by its owner.
pub(crate) fn is_interface(device_owner: &str) -> bool {
    matches!(
        device_owner,
        "network:router_interface"
            | "network:router_interface_distributed"
            | "network:ha_router_replicated_interface"
    )
}

async fn join(context: &StepContext<'_>, router: &Router, network: &NetworkState) -> Step<()> {
    let there = interfaces(context, &router.id).await?;
    for subnet in &network.subnets {
        let joined = there
            .iter()
            .flat_map(|port| &port.fixed_ips)
            .any(|ip| ip.subnet_id.as_ref() == Some(&subnet.id));
        if joined {
            continue;
        }
        let doing = format!("Joining router {} to subnet {}", router.name, subnet.name);
        context
            .cloud
            .add_router_interface(
                &router.id,
                RouterInterface::Subnet(&subnet.id),
                Priority::Settling,
            )
            .await
            .map_err(|e| failed(Reason::OpenStackError, &doing, &e))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateway(network: &str, ips: &[(&str, Option<&str>)]) -> ExternalGateway {
        ExternalGateway {
            network_id: network.into(),
            external_fixed_ips: ips
                .iter()
                .map(|(subnet, ip)| FixedIp {
                    subnet_id: Some((*subnet).into()),
                    ip_address: ip.map(|ip| ip.parse().unwrap()),
                })
                .collect(),
        }
    }

    #[test]
    fn a_gateway_is_left_alone_while_it_has_what_is_asked_for() {
        let present = gateway("ext", &[("s", Some("203.0.113.5"))]);
        assert!(suffices(&present, &gateway("ext", &[])));
        assert!(suffices(&present, &gateway("ext", &[("s", None)])));
        assert!(suffices(
            &present,
            &gateway("ext", &[("s", Some("203.0.113.5"))])
        ));
        assert!(!suffices(
            &present,
            &gateway("ext", &[("s", Some("203.0.113.6"))])
        ));
        assert!(!suffices(&present, &gateway("other", &[])));
    }
}
