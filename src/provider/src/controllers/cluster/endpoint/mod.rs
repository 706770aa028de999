//! Determines the endpoint of the API server in a pass.

pub(crate) mod name;
pub(crate) mod plan;

use self::plan::{EndpointObjects, HostSource};
use super::{
    floating_ip, load_balancer::reconcile as load_balancer_step, machine_floating_ip, pass::Pass,
    step_context::StepContext,
};
use crate::kubernetes::conditions::kind;
use crate::reconcile::{StepError, StepResult};
use capo_core::{ConditionState, Reason};
use capo_gate::desired::ClusterFacts;

/// Determines where clients reach the API server, writes that into the spec, and puts the floating IP in place if one
/// is needed.
pub(crate) async fn reconcile(
    pass: &mut Pass<'_>,
    context: &StepContext<'_>,
    facts: &ClusterFacts,
) -> StepResult<()> {
    let networking = &pass.cached.networking;
    let external = networking.external.clone().map(|network| network.id);
    let load_balancer = pass.cached.load_balancer.found().cloned();
    let objects = EndpointObjects {
        external: &external,
        is_router_known: networking.router.is_known(),
        load_balancer: load_balancer.as_ref(),
        given_floating_ip: context.desired.floating_ip,
    };
    let inputs = &context.desired.endpoint;
    let Some(plan) = inputs.plan(&objects) else {
        // The condition NetworkReady or RouterReady shows what is unknown. An endpoint that exists stays as it is.
        return Ok(());
    };
    let floating = match plan.load_balancer {
        Some((external, found)) => {
            load_balancer_step::ensure_floating_ip(pass, context, external, found).await?
        }
        None => None,
    };
    let (host, of_machine) = match plan.host {
        HostSource::Given { host, on_machine } => {
            let fip = if on_machine {
                machine_floating_ip::find_for_endpoint(pass, context, host).await?
            } else {
                None
            };
            let endpoint = pass.object.spec.control_plane_endpoint.as_ref();
            let has_no_port = endpoint.is_some_and(|endpoint| endpoint.port.is_none());
            (has_no_port.then(|| host.to_owned()), fip)
        }
        HostSource::LoadBalancer => {
            let vip = load_balancer.as_ref().and_then(|found| found.vip);
            let Some(address) = floating.or(vip) else {
                // If something keeps the load balancer from being created, another condition shows it.
                let reported = pass.report.condition(kind::API_SERVER_LOAD_BALANCER_READY);
                if reported.is_none() && pass.cached.networking.network.is_known() {
                    let text = "The load balancer has no address yet";
                    let verdict = ConditionState::unmet(Reason::APIEndpointConfigFailed, text);
                    pass.report.set_condition(kind::API_ENDPOINT_READY, verdict);
                }
                return Ok(());
            };
            (Some(address.to_string()), None)
        }
        HostSource::FloatingIp { external } => {
            let name = &mut pass.cached.endpoint_name;
            let fip = floating_ip::ensure(context, external, None, name).await?;
            let address = fip.floating_ip_address;
            (address.map(|address| address.to_string()), Some(fip))
        }
        HostSource::FixedIp { host } => (Some(host.to_owned()), None),
        HostSource::Nowhere => {
            return Err(StepError::refused(
                kind::API_ENDPOINT_READY,
                Reason::APIEndpointConfigFailed,
                format!(
                    "OpenStackCluster {}: no endpoint of the API server can be determined; set one of \
                     spec.controlPlaneEndpoint, spec.apiServer.managedLoadBalancer, a floating IP (with an external \
                     network), or spec.apiServer.fixedIP with enableFloatingIP false",
                    context.desired.object
                ),
            ));
        }
    };
    if let Some(host) = host {
        pass.write_endpoint(&host, inputs.port()).await?;
    }
    if let Some(fip) = of_machine
        && let Err(error) = machine_floating_ip::reconcile(pass, context, facts, fip).await
    {
        // The error does not keep the cluster from being provisioned, because machines are created only after that.
        pass.record_optional(error);
    }
    if pass.report.condition(kind::API_ENDPOINT_READY).is_none() {
        pass.set_true(kind::API_ENDPOINT_READY);
    }
    Ok(())
}
