//! The bastion's floating IP. It is kept when the server behind it is replaced, and released together with the bastion.

use std::net::IpAddr;

use crate::controllers::cluster::{
    floating_ip::{self as floating_ips, FloatingIpTarget, Purpose, plan::fits},
    step_context::StepContext,
};
use crate::kubernetes::conditions::kind::BASTION_READY;
use crate::kubernetes::events::{CloudObject, Verb};
use crate::reconcile::{StepError, StepResult};
use capo_core::{
    Priority, Reason,
    ids::{NetworkId, PortId},
};
use capo_openstack::network::FloatingIp;

/// Which floating IP the bastion should have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DesiredFloatingIp<'a> {
    /// The external network.
    pub external: &'a NetworkId,
    /// The bastion's port in the cluster's network.
    pub port: &'a PortId,
    /// `spec.bastion.floatingIP`.
    pub given: Option<IpAddr>,
    /// The address of the floating IP that the bastion had before.
    pub kept: Option<IpAddr>,
}

/// Returns the floating IP on the bastion's port, after putting it there if necessary. It is the one that is on the
/// port already; else the one of the spec; else the one that the bastion had before; else one that was created for this
/// cluster and is on no port; else a new one.
pub(crate) async fn ensure(
    context: &StepContext<'_>,
    desired: DesiredFloatingIp<'_>,
) -> StepResult<FloatingIp> {
    let on_bastion = |error: StepError| error.shown_by(BASTION_READY);
    let port = desired.port;
    let present = floating_ips::on_port(context, port)
        .await
        .map_err(on_bastion)?;
    let found = match present {
        Some(fip) if fits(&fip, desired.given) => Some(fip),
        present => {
            if let Some(other) = present {
                take_off(context, &other).await?;
            }
            find(context, desired).await.map_err(on_bastion)?
        }
    };
    let place = FloatingIpTarget {
        external: desired.external,
        address: desired.given,
        port: Some(port),
    };
    let fip =
        floating_ips::put_in_place(context, found, place, desired.given, Purpose::Bastion).await?;
    if desired.given.is_some() && desired.kept != desired.given {
        delete_former(context, desired.kept).await?;
    }
    Ok(fip)
}

/// Deletes the bastion's former floating IP, which was created for the bastion, once the bastion has the one that the
/// spec names.
async fn delete_former(context: &StepContext<'_>, former: Option<IpAddr>) -> StepResult<()> {
    let Some(former) = former else { return Ok(()) };
    let on_bastion = |error: StepError| error.shown_by(BASTION_READY);
    let found = floating_ips::by_address(context, former, false)
        .await
        .map_err(on_bastion)?;
    match found {
        Some(fip)
            if fip.port_id.is_none() && fip.description == context.desired.names.description() =>
        {
            delete(context, &fip).await
        }
        Some(_) | None => Ok(()),
    }
}

async fn find(
    context: &StepContext<'_>,
    desired: DesiredFloatingIp<'_>,
) -> StepResult<Option<FloatingIp>> {
    if let Some(given) = desired.given {
        return floating_ips::by_address(context, given, true).await;
    }
    if let Some(kept) = desired.kept
        && let Some(fip) = floating_ips::by_address(context, kept, false).await?
    {
        return Ok(Some(fip));
    }
    // Until the endpoint is known, a free floating IP may have been created for the endpoint.
    if context.desired.endpoint.given_host.is_none() {
        return Ok(None);
    }
    let of_api_server = floating_ips::desired_address(context);
    let mut free: Vec<FloatingIp> = floating_ips::described_as_ours(context)
        .await?
        .into_iter()
        .filter(|fip| fip.port_id.is_none() && fip.floating_network_id == *desired.external)
        .filter(|fip| of_api_server.is_none() || fip.floating_ip_address != of_api_server)
        .collect();
    free.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(free.into_iter().next())
}

/// Takes a floating IP off the bastion so that the one that the spec names can be put there. A floating IP that was
/// created for the bastion is deleted, because nothing else needs it.
async fn take_off(context: &StepContext<'_>, fip: &FloatingIp) -> StepResult<()> {
    if fip.description == context.desired.names.description() {
        return delete(context, fip).await;
    }
    let address = fip.address_or_id();
    let answer = context
        .cloud
        .associate_floating_ip(&fip.id, None, Priority::Settling)
        .await;
    let about = (CloudObject::FloatingIp, &*address, fip.id.as_str());
    let change = "removed from the bastion's port";
    let doing = format!("Removing floating IP {address} from the bastion's port");
    context
        .answered(Verb::Disassociate, about, change, answer)
        .map(drop)
        .map_err(|error| failed(&doing, &error))
}

/// Deletes the bastion's floating IP: the one on a port of its server, and the one that the status names. A floating IP
/// that the user named or created stays. One whose creation may still be carried out counts as existing.
pub(crate) async fn give_back(
    context: &StepContext<'_>,
    ports: &[PortId],
    given: Option<IpAddr>,
    kept: Option<IpAddr>,
) -> StepResult<()> {
    let (kind, name) = (CloudObject::FloatingIp, Purpose::Bastion.recorded_name());
    let certain = context.creations.check(BASTION_READY, kind, &name);
    if ports.is_empty() && kept.is_none() {
        return certain;
    }
    let mut is_any = false;
    let described = floating_ips::described(context)
        .await
        .map_err(|error| error.shown_by(BASTION_READY))?;
    for fip in described {
        let on_bastion = fip
            .port_id
            .as_ref()
            .is_some_and(|port| ports.contains(port));
        let was_bastions = kept.is_some() && fip.floating_ip_address == kept;
        let is_given = given.is_some() && fip.floating_ip_address == given;
        if (on_bastion || was_bastions) && !is_given {
            is_any = true;
            delete(context, &fip).await?;
        }
    }
    if is_any {
        context.creations.found(kind, &name);
        return Ok(());
    }
    certain
}

async fn delete(context: &StepContext<'_>, fip: &FloatingIp) -> StepResult<()> {
    let address = fip.address_or_id();
    let answer = context
        .cloud
        .delete_floating_ip(&fip.id, Priority::Settling)
        .await;
    context
        .deleted(CloudObject::FloatingIp, &address, fip.id.as_str(), answer)
        .map_err(|error| {
            let doing = format!("Releasing the bastion's floating IP {address}");
            failed(&doing, &error)
        })
}

fn failed(doing: &str, error: &capo_openstack::Error) -> StepError {
    StepError::cloud(BASTION_READY, Reason::FloatingIPError, doing, error)
}
