//! Releases the API server's floating IPs when a cluster is deleted.

use super::{Purpose, described_as_ours, failed, on_port, plan};
use crate::controllers::cluster::step_context::StepContext;
use crate::kubernetes::events::{CloudObject, Verb};
use crate::reconcile::StepResult;
use capo_core::{Priority, ids::PortId};
use capo_openstack::network::FloatingIp;

/// Releases the API server's floating IPs: the one on `port`, and those that were created for this cluster and are on
/// no port. Without a load balancer, also those that are still on the port of a machine. A floating IP that the user
/// named or created is only taken off the port.
pub(crate) async fn remove(context: &StepContext<'_>, port: Option<&PortId>) -> StepResult<()> {
    let mut ours = match port {
        Some(port) => on_port(context, port).await?.into_iter().collect(),
        None => Vec::new(),
    };
    for fip in described_as_ours(context).await? {
        let is_unused = fip.port_id.is_none() || context.desired.load_balancer.is_none();
        if is_unused && !ours.iter().any(|known: &FloatingIp| known.id == fip.id) {
            ours.push(fip);
        }
    }
    if !ours.is_empty() {
        let name = Purpose::LoadBalancer.recorded_name();
        context.creations.found(CloudObject::FloatingIp, &name);
    }
    for fip in ours {
        let description = context.desired.names.description();
        let given = !plan::is_ours(&fip, context.desired.floating_ip, &description);
        let address = fip.address_or_id();
        let done = if given && fip.port_id.is_none() {
            continue;
        } else if given {
            context
                .cloud
                .associate_floating_ip(&fip.id, None, Priority::Settling)
                .await
                .map(drop)
        } else {
            context
                .cloud
                .delete_floating_ip(&fip.id, Priority::Settling)
                .await
        };
        let verb = if given {
            Verb::Disassociate
        } else {
            Verb::Delete
        };
        context
            .removed(
                verb,
                CloudObject::FloatingIp,
                &address,
                fip.id.as_str(),
                done,
            )
            .map_err(|error| failed(&format!("Releasing floating IP {address}"), &error))?;
    }
    Ok(())
}
