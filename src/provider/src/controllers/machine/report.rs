//! Builds the status of a machine after a pass. The functions are pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;

use crate::kubernetes::conditions::{Conditions, kind};
use capo_api::{
    v1alpha1::OpenStackServer,
    v1beta2::{Initialization, OpenStackMachine, OpenStackMachineStatus},
};
use capo_core::{ConditionState, ConditionStatus, MemberStatus, Reason};
use capo_gate::findings::{Findings, MemberFinding};

/// The result of one pass, from which the status is built.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Report<'a> {
    /// Whether the object is paused.
    pub paused: bool,
    /// The condition `InstanceReady`.
    pub instance: ConditionState,
    /// The condition `APIServerLoadBalancerReady`; only control-plane machines have it.
    pub load_balancer: Option<ConditionState>,
    /// The reason why clients can't reach the API server, for a cluster without a managed load balancer.
    pub unreachable: Option<ConditionState>,
    /// The number of ACTIVE load balancer members and of expected ones, such as `2/2`.
    pub active_members: Option<String>,
    /// Whether the machine may count as provisioned. This is never undone in the status.
    pub provisioned: bool,
    /// The machine's server.
    pub server: Option<&'a OpenStackServer>,
    /// The availability zone of the server.
    pub failure_domain: Option<String>,
    /// Why the pass failed. Ready shows this, regardless of the step.
    pub failure: Option<ConditionState>,
    /// Whether nothing failed and nothing is waited for, in this pass and at the server. Until then the status does not
    /// count as that of this generation, because Ready may still describe the former state.
    pub complete: bool,
}

/// Builds the status after a pass.
pub(super) fn status(object: &OpenStackMachine, report: &Report<'_>, now: Timestamp) -> Value {
    let generation = object.metadata.generation.unwrap_or_default();
    let mut status = object.status.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&status.conditions, generation, now);
    if report.paused {
        conditions.set(kind::PAUSED, &ConditionState::met(Reason::Paused));
        conditions.set_if_absent(kind::INSTANCE_READY, &report.instance);
    } else {
        conditions.set(kind::PAUSED, &ConditionState::unmet(Reason::NotPaused, ""));
        conditions.set(kind::INSTANCE_READY, &report.instance);
        write(&mut status, report);
    }
    let authentication = report
        .server
        .and_then(|server| copied(server, kind::OPENSTACK_AUTHENTICATION_SUCCEEDED));
    if let Some(verdict) = authentication {
        conditions.set(kind::OPENSTACK_AUTHENTICATION_SUCCEEDED, &verdict);
    }
    conditions.set_if_absent(
        kind::OPENSTACK_AUTHENTICATION_SUCCEEDED,
        &ConditionState::unknown(
            Reason::NotYetObserved,
            "No request to OpenStack has been made yet",
        ),
    );
    let mut counted = vec![
        kind::OPENSTACK_AUTHENTICATION_SUCCEEDED,
        kind::INSTANCE_READY,
    ];
    if let Some(verdict) = &report.load_balancer {
        counted.push(kind::API_SERVER_LOAD_BALANCER_READY);
        for (kind, verdict) in [
            (kind::API_SERVER_LOAD_BALANCER_READY, verdict),
            (
                kind::API_SERVER_INGRESS_READY,
                report.unreachable.as_ref().unwrap_or(&ingress(verdict)),
            ),
        ] {
            if report.paused {
                conditions.set_if_absent(kind, verdict);
            } else {
                conditions.set(kind, verdict);
            }
        }
    } else {
        conditions.remove(kind::API_SERVER_LOAD_BALANCER_READY);
        conditions.remove(kind::API_SERVER_INGRESS_READY);
    }
    if object.spec.floating_ip_pool_ref.is_some() {
        let verdict = report
            .server
            .and_then(|server| copied(server, kind::FLOATING_ADDRESS_FROM_POOL_READY))
            .unwrap_or_else(|| {
                ConditionState::unknown(Reason::NotYetObserved, "The server does not exist yet")
            });
        conditions.set(kind::FLOATING_ADDRESS_FROM_POOL_READY, &verdict);
        counted.push(kind::FLOATING_ADDRESS_FROM_POOL_READY);
    }
    match report
        .server
        .and_then(|server| copied(server, kind::PORTS_READY))
    {
        Some(verdict) => {
            conditions.set(kind::PORTS_READY, &verdict);
            counted.push(kind::PORTS_READY);
        }
        None => conditions.remove(kind::PORTS_READY),
    }
    conditions.sum_up_with(&counted, report.failure.as_ref());
    if !report.paused && report.complete {
        status.observed_generation = Some(generation);
    }
    status.conditions = conditions.into_list();
    serde_json::to_value(&status).unwrap_or_default()
}

fn write(status: &mut OpenStackMachineStatus, report: &Report<'_>) {
    let before = status
        .initialization
        .as_ref()
        .and_then(|initialization| initialization.provisioned);
    if report.provisioned || before == Some(true) {
        status.initialization = Some(Initialization {
            provisioned: Some(true),
        });
    }
    status.active_members.clone_from(&report.active_members);
    if let Some(zone) = &report.failure_domain {
        status.failure_domain = Some(zone.clone());
    }
    let Some(server) = report.server.and_then(|server| server.status.as_ref()) else {
        return;
    };
    if server.instance_id.is_some() {
        status.instance_id.clone_from(&server.instance_id);
    }
    if server.instance_state.is_some() {
        status.instance_state.clone_from(&server.instance_state);
    }
    if !server.addresses.is_empty() {
        status.addresses.clone_from(&server.addresses);
    }
}

/// The condition `APIServerIngressReady`, which is CAPO's name for the same thing. It is set for users of CAPO's
/// condition.
fn ingress(load_balancer: &ConditionState) -> ConditionState {
    match load_balancer.status {
        ConditionStatus::True => ConditionState::met(Reason::Ready),
        ConditionStatus::False | ConditionStatus::Unknown => load_balancer.clone(),
    }
}

/// The condition `InstanceReady` of the server.
pub(super) fn instance(server: &OpenStackServer) -> ConditionState {
    copied(server, kind::INSTANCE_READY).unwrap_or_else(|| {
        ConditionState::unknown(
            Reason::NotYetObserved,
            "The OpenStackServer has not been reconciled yet",
        )
    })
}

fn copied(server: &OpenStackServer, kind: &str) -> Option<ConditionState> {
    let conditions = &server.status.as_ref()?.conditions;
    let Condition {
        status,
        reason,
        message,
        ..
    } = conditions
        .iter()
        .find(|condition| condition.type_ == kind)?;
    Some(ConditionState {
        status: status.as_str().into(),
        reason: Reason::parse(reason).unwrap_or(Reason::InstanceNotReady),
        message: message.clone(),
    })
}

/// How many of a machine's members are ACTIVE in Octavia, of those expected, such as `2/2`.
pub(super) fn active_members(findings: &Findings, machine: &str) -> Option<String> {
    let members: Vec<&MemberFinding> = findings
        .members
        .iter()
        .filter(|member| member.machine == machine)
        .collect();
    let active = members
        .iter()
        .filter(|member| member.provisioning_status == MemberStatus::Active)
        .count();
    (!members.is_empty()).then(|| format!("{active}/{}", members.len()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(status: &Value) -> OpenStackMachine {
        serde_json::from_value(json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachine",
            "metadata": {"name": "m1", "namespace": "default", "generation": 2},
            "spec": {"image": {"id": "i"}, "flavor": {"id": "f"}}, "status": status}))
        .unwrap()
    }

    fn server(ready: &str) -> OpenStackServer {
        let condition = |kind: &str, status: &str, reason: &str| {
            json!({"type": kind, "status": status, "reason": reason, "message": "",
                "lastTransitionTime": "2026-11-21T10:00:00Z"})
        };
        serde_json::from_value(json!({"metadata": {"name": "m1"},
            "spec": {"identityRef": {"name": "c", "cloudName": "c"}, "image": {"id": "i"}, "ports": [], "sshKeyName": ""},
            "status": {"ready": ready == "True", "instanceID": "42", "instanceState": "ACTIVE",
                "addresses": [{"type": "InternalIP", "address": "10.0.0.5"}],
                "conditions": [condition("InstanceReady", ready, "Ready"),
                    condition("OpenStackAuthenticationSucceeded", "True", "Ready")]}}))
        .unwrap()
    }

    fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
        status["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .find(|condition| condition["type"] == kind)
    }

    fn report(
        server: Option<&OpenStackServer>,
        load_balancer: Option<ConditionState>,
    ) -> Report<'_> {
        Report {
            paused: false,
            instance: server.map_or(
                ConditionState::unmet(Reason::WaitingForBootstrapData, "waiting"),
                instance,
            ),
            load_balancer,
            unreachable: None,
            active_members: None,
            provisioned: false,
            server,
            failure_domain: None,
            failure: None,
            complete: true,
        }
    }

    #[test]
    fn a_new_control_plane_machine_has_all_its_conditions() {
        let verdict = ConditionState::unknown(Reason::NotYetObserved, "not yet");
        let status = status(
            &object(&json!({"observedGeneration": -1})),
            &report(None, Some(verdict)),
            Timestamp::UNIX_EPOCH,
        );
        for (kind, state) in [
            ("Ready", "False"),
            ("InstanceReady", "False"),
            ("APIServerLoadBalancerReady", "Unknown"),
            ("APIServerIngressReady", "Unknown"),
            ("OpenStackAuthenticationSucceeded", "Unknown"),
            ("Paused", "False"),
        ] {
            assert_eq!(condition(&status, kind).unwrap()["status"], state, "{kind}");
        }
        assert_eq!(status["observedGeneration"], json!(2));
        assert_eq!(status.get("initialization"), None);
    }

    #[test]
    fn a_pass_that_fails_makes_the_machine_not_ready_whatever_step_it_was() {
        let server = server("True");
        let refused = "Setting spec.providerID: Kubernetes answered 403: denied";
        for failure in [
            ConditionState::unmet(Reason::DependencyFailed, refused),
            ConditionState::unknown(Reason::DependencyFailed, refused),
        ] {
            let report = Report {
                failure: Some(failure.clone()),
                ..report(Some(&server), None)
            };
            let status = status(&object(&json!(null)), &report, Timestamp::UNIX_EPOCH);
            let ready = condition(&status, "Ready").unwrap();
            assert_eq!(ready["status"], failure.status.as_str());
            assert!(ready["message"].as_str().unwrap().contains(refused));
            assert_eq!(
                condition(&status, "InstanceReady").unwrap()["status"],
                "True"
            );
        }
    }

    #[test]
    fn a_member_that_is_not_active_makes_the_machine_not_ready() {
        let server = server("True");
        let held = ConditionState::unmet(Reason::MemberPending, "port 6443: PENDING_CREATE");
        let status = status(
            &object(&json!(null)),
            &report(Some(&server), Some(held)),
            Timestamp::UNIX_EPOCH,
        );
        let ready = condition(&status, "Ready").unwrap();
        assert_eq!(ready["status"], "False");
        assert!(
            ready["message"]
                .as_str()
                .unwrap()
                .contains("PENDING_CREATE")
        );
        assert_eq!(status["instanceID"], "42");
        assert_eq!(status["addresses"][0]["address"], "10.0.0.5");
    }

    #[test]
    fn a_worker_has_no_load_balancer_condition() {
        let server = server("True");
        let before = json!({"conditions": [{"type": "APIServerIngressReady", "status": "True", "reason": "Ready",
            "message": "", "lastTransitionTime": "2026-11-21T10:00:00Z"}]});
        let mut report = report(Some(&server), None);
        report.provisioned = true;
        let status = status(&object(&before), &report, Timestamp::UNIX_EPOCH);
        assert_eq!(condition(&status, "APIServerLoadBalancerReady"), None);
        assert_eq!(condition(&status, "APIServerIngressReady"), None);
        assert_eq!(condition(&status, "Ready").unwrap()["status"], "True");
        assert_eq!(status["initialization"]["provisioned"], json!(true));
    }

    #[test]
    fn provisioned_never_goes_back() {
        let status = status(
            &object(&json!({"initialization": {"provisioned": true}})),
            &report(None, None),
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(status["initialization"]["provisioned"], json!(true));
    }

    #[test]
    fn what_is_known_stays_while_the_server_object_is_empty() {
        let before = json!({"instanceID": "42", "addresses": [{"type": "InternalIP", "address": "10.0.0.5"}]});
        let mut empty = server("True");
        empty.status = None;
        let status = status(
            &object(&before),
            &report(Some(&empty), None),
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(status["instanceID"], "42");
        assert_eq!(status["addresses"][0]["address"], "10.0.0.5");
        assert_eq!(
            condition(&status, "InstanceReady").unwrap()["status"],
            "Unknown"
        );
    }
}
