//! Ports that servers of the cluster left in its network.

use super::waiting::in_use;
use crate::controllers::cluster::{names::port_description, step_context::StepContext};
use crate::kubernetes::conditions::kind::NETWORK_READY;
use crate::reconcile::{StepError, StepResult};
use capo_core::{Priority, Reason};
use capo_openstack::{
    Error,
    network::{Network, Port, PortFilter},
};

/// Every port in a network.
pub(super) async fn all(context: &StepContext<'_>, network: &Network) -> StepResult<Vec<Port>> {
    let filter = PortFilter {
        network_id: Some(network.id.clone()),
        ..PortFilter::default()
    };
    context
        .cloud
        .ports(&filter, Priority::Settling)
        .await
        .map_err(|e| failed("Listing the network's ports", &e))
}

fn failed(doing: &str, error: &Error) -> StepError {
    StepError::cloud(NETWORK_READY, Reason::OpenStackError, doing, error)
}

/// Deletes the ports that servers of ours left, with their trunks: in our network, with exactly our description, on no
/// device or on a server that does not exist any more. Names are no evidence: those of one cluster can begin like those
/// of another. Returns the ports that stay.
pub(super) async fn delete_leftover(
    context: &StepContext<'_>,
    network: &Network,
    cluster: &str,
) -> StepResult<Vec<Port>> {
    let description = port_description(cluster);
    let mut left = Vec::new();
    for port in all(context, network).await? {
        if port.description == description && is_unused(context, &port).await? {
            delete(context, &port).await?;
        } else {
            left.push(port);
        }
    }
    Ok(left)
}

/// Whether no server uses a port. Nova does not clear the port of a server whose deletion was cut off.
async fn is_unused(context: &StepContext<'_>, port: &Port) -> StepResult<bool> {
    if port.device_id.is_empty() {
        return Ok(true);
    }
    if !port.device_owner.starts_with("compute:") {
        return Ok(false);
    }
    let server = port.device_id.as_str().into();
    match context.cloud.server(&server, Priority::Settling).await {
        Ok(_) => Ok(false),
        Err(error) if error.is_not_found() => Ok(true),
        Err(error) => {
            let doing = format!("Looking for the server of port {}", port.name);
            Err(failed(&doing, &error))
        }
    }
}

async fn delete(context: &StepContext<'_>, port: &Port) -> StepResult<()> {
    let doing = format!("Deleting port {}", port.name);
    let mut deleted = context
        .cloud
        .delete_port(&port.id, Priority::Settling)
        .await;
    if deleted
        .as_ref()
        .is_err_and(|error| error.class().is_conflict())
    {
        delete_trunks(context, port).await?;
        deleted = context
            .cloud
            .delete_port(&port.id, Priority::Settling)
            .await;
    }
    match deleted {
        Ok(()) => {
            context.deleted("port", &port.name, &port.id);
            Ok(())
        }
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(in_use(NETWORK_READY, &doing, &error)),
    }
}

/// Deletes the trunks that a port is the parent of, with their subports: it can't be deleted before.
async fn delete_trunks(context: &StepContext<'_>, port: &Port) -> StepResult<()> {
    let doing = format!("Deleting the trunk of port {}", port.name);
    let gone = |result: Result<(), Error>| match result {
        Err(error) if !error.is_not_found() => Err(in_use(NETWORK_READY, &doing, &error)),
        _ => Ok(()),
    };
    let trunks = match context.cloud.trunks(&port.id, Priority::Settling).await {
        Ok(trunks) => trunks,
        Err(error) if error.is_not_found() => Vec::new(),
        Err(error) => return Err(failed(&doing, &error)),
    };
    for trunk in trunks {
        if !trunk.sub_ports.is_empty() {
            let removed = context
                .cloud
                .remove_sub_ports(&trunk.id, &trunk.sub_ports, Priority::Settling)
                .await;
            gone(removed)?;
        }
        for sub_port in &trunk.sub_ports {
            let deleted = context
                .cloud
                .delete_port(&sub_port.port_id, Priority::Settling)
                .await;
            gone(deleted)?;
        }
        let deleted = context
            .cloud
            .delete_trunk(&trunk.id, Priority::Settling)
            .await;
        gone(deleted)?;
        context.deleted("trunk", &trunk.name, &trunk.id);
    }
    Ok(())
}
