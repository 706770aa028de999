//! What a pass reports of the load balancer, mostly from what its worker has found.

use std::{sync::Arc, time::Duration};

use crate::{
    controllers::{
        Outcome,
        cluster::{
            desired::DesiredCluster,
            endpoint::plan::takes_floating_ip,
            pass::Pass,
            report::{LoadBalancerReport, LoadBalancerState, in_closed_set},
        },
    },
    kubernetes::conditions::kind,
};
use capo_core::{ConditionState, ConditionStatus, Lookup, Reason};
use capo_gate::findings::Findings;

const CONDITION: &str = kind::API_SERVER_LOAD_BALANCER_READY;

/// Sets what the conditions and the status show of the load balancer. `pause` is the time until the next pass while the
/// load balancer is not ready.
pub(crate) fn report(
    pass: &mut Pass<'_>,
    desired: &DesiredCluster,
    findings: Option<&Arc<Findings>>,
    pause: Duration,
) {
    if desired.load_balancer.is_none() {
        let verdict = ConditionState {
            message: "spec.apiServer.managedLoadBalancer is not enabled".to_owned(),
            ..ConditionState::met(Reason::LoadBalancerDisabled)
        };
        pass.report.set_condition(CONDITION, verdict);
        return;
    }
    if let Some(known) = pass.cached.load_balancer.found().cloned() {
        let wants_floating_ip = desired.endpoint.wants_floating_ip()
            && takes_floating_ip(desired.floating_ip, known.vip)
            && pass.cached.networking.external != Lookup::Absent;
        let floating_ip = match &pass.cached.floating_ip {
            Some(read) => read.value.floating_ip_address.into(),
            None if wants_floating_ip => Lookup::Unknown,
            None => Lookup::Absent,
        };
        let state = LoadBalancerState {
            floating_ip,
            known,
            findings: findings.cloned(),
        };
        pass.report.load_balancer = LoadBalancerReport::Known(Box::new(state));
    }
    report_condition(pass, findings.map(Arc::as_ref), pause);
}

/// Sets the condition of the load balancer. A step that failed in this pass takes precedence over what the worker
/// found.
fn report_condition(pass: &mut Pass<'_>, findings: Option<&Findings>, pause: Duration) {
    if let Some(own) = pass.report.condition(CONDITION).cloned() {
        if pass.object.spec.control_plane_endpoint.is_none() {
            pass.report
                .set_condition_if_unset(kind::API_ENDPOINT_READY, own.clone());
        }
        pass.report.balancer_counts = own.status != ConditionStatus::Unknown;
        let reason = in_closed_set(own.reason);
        pass.report
            .set_condition(CONDITION, ConditionState { reason, ..own });
        return;
    }
    if let Some(findings) = findings {
        pass.report
            .set_condition(CONDITION, findings.verdict.clone());
        pass.report.balancer_counts = findings.counts_in_ready;
    } else {
        pass.report.balancer_counts = false;
        // After a start, the condition in the status stays until the worker's first read. Without working credentials
        // there is no such read.
        let signed_in = pass
            .report
            .condition(kind::OPENSTACK_AUTHENTICATION_SUCCEEDED);
        if signed_in.is_some_and(|state| state.status != ConditionStatus::True) {
            let unread = ConditionState::unknown(
                Reason::NotYetObserved,
                "The manager has not read the load balancer since its start, because the credentials do not work; see \
                 the condition OpenStackAuthenticationSucceeded",
            );
            pass.report.set_condition(CONDITION, unread);
        }
    }
    if !findings.is_some_and(|findings| findings.infrastructure_ready) {
        pass.record_wait(Outcome::wait(
            Reason::LoadBalancerPending,
            "The load balancer, its listeners, pools and monitors are not all ACTIVE yet",
            pause,
        ));
    }
}

/// Waits until the worker has seen the load balancer as this generation specifies it; until then the generation does
/// not count as observed. The worker enqueues the cluster at that point.
pub(crate) fn await_generation(pass: &mut Pass<'_>, findings: Option<&Findings>, pause: Duration) {
    let generation = Some(pass.generation());
    let status = pass.object.status.as_ref();
    let is_observed = status.and_then(|status| status.observed_generation) == generation;
    let settled = findings.and_then(|findings| findings.settled_generation);
    if !is_observed && settled != generation {
        pass.record_wait(Outcome::wait(
            Reason::LoadBalancerPending,
            "No read has shown the load balancer as this generation of the OpenStackCluster specifies it yet",
            pause,
        ));
    }
}
