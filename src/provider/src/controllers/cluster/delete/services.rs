//! Deletes the load balancers that the cloud controller manager of the workload cluster created for Services.

use crate::controllers::cluster::{floating_ip, load_balancer, step_context::StepContext};
use crate::kubernetes::conditions::kind::NETWORK_READY;
use crate::kubernetes::events::CloudObject;
use crate::reconcile::{StepError, StepResult};
use capo_core::ids::PortId;
use capo_core::{FailureClass, Priority, ProvisioningStatus, Reason};
use capo_openstack::{
    load_balancer::{LoadBalancer, LoadBalancerFilter},
    network::Network,
};

/// Annotation: with the value `true`, the cluster's deletion also deletes the load balancers of its Services.
pub(crate) const DELETE_ANNOTATION: &str =
    "infrastructure.cluster.x-k8s.io/delete-service-load-balancers";

/// The prefix of the names of these load balancers. It is followed by the cluster name that the cloud controller
/// manager uses.
const PREFIX: &str = "kube_service_";

/// Lists the load balancers of Services with their VIP in `network`.
pub(super) async fn of_services(
    context: &StepContext<'_>,
    network: &Network,
) -> StepResult<Vec<LoadBalancer>> {
    let filter = LoadBalancerFilter {
        project_id: Some(context.project.clone()),
        vip_network_id: Some(network.id.clone()),
        ..LoadBalancerFilter::default()
    };
    match context
        .cloud
        .load_balancers(&filter, Priority::Settling)
        .await
    {
        Ok(mut found) => {
            found.retain(|lb| lb.name.starts_with(PREFIX));
            found.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(found)
        }
        Err(error) if error.class() == FailureClass::NoService => Ok(Vec::new()),
        Err(error) => Err(StepError::cloud(
            NETWORK_READY,
            Reason::OpenStackError,
            "Listing load balancers of Services",
            &error,
        )),
    }
}

/// Deletes the load balancers of Services whose names begin with `kube_service_<name of the Cluster>_`, with the
/// floating IPs that were created for them. Returns `Ok` when none of them is left.
pub(super) async fn delete(
    context: &StepContext<'_>,
    network: &Network,
    cluster: &str,
) -> StepResult<()> {
    let own = format!("{PREFIX}{cluster}_");
    let mut names = Vec::new();
    for lb in of_services(context, network).await? {
        if !lb.name.starts_with(&own) {
            continue;
        }
        if lb.provisioning_status == ProvisioningStatus::PendingDelete {
            names.push(lb.name);
            continue;
        }
        if let Some(port) = &lb.vip_port_id {
            delete_floating_ip(context, port, cluster).await?;
        }
        load_balancer::delete(context, &lb.name, &lb.id)
            .await
            .map_err(|error| error.shown_by(NETWORK_READY))?;
        names.push(lb.name);
    }
    if names.is_empty() {
        return Ok(());
    }
    let names = names.join(", ");
    Err(context.await_deletion(
        NETWORK_READY,
        format!("Load balancers of Services are being deleted: {names}"),
    ))
}

/// Deletes the floating IP on a port if its description says that the cloud controller manager created it for this
/// cluster.
async fn delete_floating_ip(
    context: &StepContext<'_>,
    port: &PortId,
    cluster: &str,
) -> StepResult<()> {
    let found = floating_ip::on_port(context, port)
        .await
        .map_err(|error| error.shown_by(NETWORK_READY))?;
    let is_created = |description: &str| {
        description.starts_with("Floating IP for Kubernetes external service ")
            && description.ends_with(&format!(" from cluster {cluster}"))
    };
    let Some(fip) = found.filter(|fip| is_created(&fip.description)) else {
        return Ok(());
    };
    let answer = context
        .cloud
        .delete_floating_ip(&fip.id, Priority::Settling)
        .await;
    let address = fip.address_or_id();
    context
        .deleted(CloudObject::FloatingIp, &address, fip.id.as_str(), answer)
        .map_err(|error| {
            let doing = "Deleting the floating IP of a Service";
            floating_ip::failed(doing, &error).shown_by(NETWORK_READY)
        })
}

/// What a user can do about the load balancers of Services that are left, as a part of a condition's message.
pub(super) fn advice(left: &[LoadBalancer], cluster: &str) -> String {
    let own = format!("{PREFIX}{cluster}_");
    let mut names: Vec<&str> = left.iter().map(|lb| lb.name.as_str()).collect();
    names.truncate(10);
    let names = names.join(", ");
    if left.iter().any(|lb| lb.name.starts_with(&own)) {
        format!(
            "; load balancers of Services are {names}: to delete those named {own}*, set the annotation \
             {DELETE_ANNOTATION}: \"true\" on the OpenStackCluster"
        )
    } else {
        format!("; load balancers of Services are {names}")
    }
}
