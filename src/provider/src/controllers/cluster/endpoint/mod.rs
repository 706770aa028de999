//! Determines the endpoint of the API server in a pass.

pub(crate) mod name;
pub(crate) mod plan;

use self::plan::EndpointPlan;
use super::{
    desired::DesiredCluster, floating_ip, load_balancer::reconcile as load_balancer_step,
    machine_floating_ip, observation::KnownLoadBalancer, reconcile::Reconcile,
    step_context::StepContext,
};
use crate::kubernetes::conditions::kind;
use crate::reconcile::{StepError, StepResult};
use capo_core::{ConditionState, Reason};
use capo_gate::desired::ClusterFacts;

/// Whether a floating IP can be put on the load balancer. Floating IPs are IPv4 only. If the spec names one, it is
/// tried even so, because then Neutron's refusal is reported.
pub(crate) fn takes_floating_ip(desired: &DesiredCluster, balancer: &KnownLoadBalancer) -> bool {
    desired.floating_ip.is_some() || balancer.vip.is_none_or(|vip| vip.is_ipv4())
}

/// Determines where clients reach the API server, writes that into the spec, and puts the floating IP in place if one
/// is needed.
pub(crate) async fn endpoint(
    pass: &mut Reconcile<'_>,
    context: &StepContext<'_>,
    facts: &ClusterFacts,
) -> StepResult<()> {
    let mut inputs = context.desired.endpoint.clone();
    let external = pass.seen.networking.external.clone();
    if !external.is_known() && inputs.floating_ip && inputs.external_network {
        // The condition NetworkReady shows why the network is unknown. An endpoint that exists stays as it is.
        return Ok(());
    }
    inputs.external_network = external.found().is_some();
    if inputs.floating_ip && inputs.external_network && !pass.seen.networking.router.is_known() {
        // A floating IP works only through the router. The condition RouterReady shows why the router is unknown.
        return Ok(());
    }
    let external = external.found().map(|network| network.id.clone());
    let wants_floating_ip = context.desired.wants_floating_ip();
    let floating = match (&external, pass.seen.load_balancer.found().cloned()) {
        (Some(external), Some(balancer))
            if wants_floating_ip && takes_floating_ip(context.desired, &balancer) =>
        {
            load_balancer_step::floating_ip(pass, context, external, &balancer).await?
        }
        _ => None,
    };
    let is_on_machine =
        context.desired.load_balancer.is_none() && external.is_some() && wants_floating_ip;
    let mut of_machine = None;
    let host = match inputs.plan() {
        EndpointPlan::Given { host, .. } => {
            if is_on_machine {
                of_machine = machine_floating_ip::of_endpoint(pass, context, &host).await?;
            }
            None
        }
        EndpointPlan::LoadBalancer { .. } => {
            let vip = pass.seen.load_balancer.found().and_then(|lb| lb.vip);
            let Some(address) = floating.or(vip) else {
                // If something keeps the load balancer from being created, another condition shows it.
                let reported = pass.report.condition(kind::API_SERVER_LOAD_BALANCER_READY);
                if reported.is_none() && pass.seen.networking.network.is_known() {
                    let text = "The load balancer has no address yet";
                    let verdict = ConditionState::unmet(Reason::APIEndpointConfigFailed, text);
                    pass.report.set_condition(kind::API_ENDPOINT_READY, verdict);
                }
                return Ok(());
            };
            Some(address.to_string())
        }
        EndpointPlan::FloatingIp { .. } => {
            let fip = {
                let external = external.unwrap_or_default();
                let name = &mut pass.seen.endpoint_name;
                floating_ip::ensure(context, &external, None, name).await?
            };
            let host = fip.floating_ip_address.map(|address| address.to_string());
            of_machine = Some(fip);
            host
        }
        EndpointPlan::FixedIp { host, .. } => Some(host),
        EndpointPlan::Nowhere => {
            return Err(StepError::refused(
                kind::API_ENDPOINT_READY,
                Reason::APIEndpointConfigFailed,
                format!(
                    "OpenStackCluster {}: nothing says where the API server is reached; one of \
                     spec.controlPlaneEndpoint, spec.apiServer.managedLoadBalancer, a floating IP (with an external \
                     network), or spec.apiServer.fixedIP with enableFloatingIP false is needed",
                    context.desired.object
                ),
            ));
        }
    };
    if let Some(host) = host {
        pass.write_endpoint(&host, inputs.port()).await?;
    } else if pass
        .object
        .spec
        .control_plane_endpoint
        .as_ref()
        .is_some_and(|e| e.port.is_none())
        && let Some(given) = inputs.given_host.clone()
    {
        pass.write_endpoint(&given, inputs.port()).await?;
    }
    if let Some(fip) = of_machine
        && let Err(error) = machine_floating_ip::reconcile(pass, context, facts, fip).await
    {
        // The error does not keep the cluster from being provisioned, because machines are created only after that.
        pass.note_optional(error);
    }
    if pass.report.condition(kind::API_ENDPOINT_READY).is_none() {
        pass.good(kind::API_ENDPOINT_READY);
    }
    Ok(())
}
