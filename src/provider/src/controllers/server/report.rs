//! What is told of a server: in its status, and to those who share a look at it. Plain functions.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::{Progress, sight::SeenAddress};
use crate::{
    controllers::Outcome,
    kubernetes::conditions::{Conditions, kind},
};
use capo_api::{
    v1alpha1::{OpenStackServer, OpenStackServerSpec, OpenStackServerStatus},
    v1beta2::{MachineResources, NodeAddress, PortStatus},
};
use capo_core::FailureClass;
use capo_core::{ConditionState, ConditionStatus, Reason};
use capo_gate::desired::ServerState;
use capo_openstack::compute::{Server, ServerStatus};

/// How one pass ended, as far as users are told.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Report<'a> {
    /// The object is paused.
    pub paused: bool,
    /// Whether OpenStack takes the credentials, where that was found out.
    pub authentication: Option<ConditionState>,
    /// How the pass ended.
    pub outcome: &'a Outcome,
    /// What is known of its OpenStack objects.
    pub progress: &'a Progress,
    /// The server as read in this pass.
    pub server: Option<&'a Server>,
    /// The server known by its id is not there.
    pub lost: bool,
}

/// The server state that the gates tell apart.
pub(super) fn state(server: &Server) -> ServerState {
    match server.status {
        ServerStatus::Active => ServerState::Active,
        ServerStatus::Shutoff => ServerState::Shutoff,
        ServerStatus::Deleted | ServerStatus::SoftDeleted => ServerState::Absent,
        _ => ServerState::Other,
    }
}

/// Its addresses: networks in order of their names, IPv4 before IPv6.
pub(super) fn addresses(server: &Server) -> Vec<SeenAddress> {
    let mut seen: Vec<SeenAddress> = server
        .addresses
        .iter()
        .flat_map(|(network, addresses)| {
            addresses.iter().filter_map(|address| {
                Some(SeenAddress {
                    network: network.clone(),
                    address: address.address?,
                    floating: address.kind == "floating",
                })
            })
        })
        .collect();
    seen.sort_by(|a, b| (&a.network, a.address.is_ipv6()).cmp(&(&b.network, b.address.is_ipv6())));
    seen
}

/// How a pass ends that saw the server.
pub(super) fn outcome(server: &Server) -> Outcome {
    match &server.status {
        ServerStatus::Active => Outcome::Done,
        ServerStatus::Build => Outcome::wait(
            Reason::InstanceNotReady,
            "The server is being built",
            Duration::from_secs(2),
        ),
        ServerStatus::Error => {
            let fault = server.fault.as_ref().map(|fault| fault.message.as_str());
            Outcome::wait(
                Reason::InstanceStateError,
                match fault.filter(|text| !text.is_empty()) {
                    Some(fault) => format!("The server is in ERROR: {fault}"),
                    None => "The server is in ERROR".to_owned(),
                },
                Duration::from_mins(1),
            )
        }
        ServerStatus::Deleted | ServerStatus::SoftDeleted => Outcome::wait(
            Reason::InstanceDeleted,
            "The server was deleted; it is not made again under the same name",
            Duration::from_mins(5),
        ),
        other => Outcome::wait(
            Reason::InstanceNotReady,
            format!("The server is {other}"),
            Duration::from_secs(30),
        ),
    }
}

/// How a pass ends whose server is gone though its id is known.
pub(super) fn lost(id: &str) -> Outcome {
    Outcome::wait(
        Reason::InstanceNotFound,
        format!(
            "The server {id} does not exist any more; it is not made again, delete its Machine to replace it"
        ),
        Duration::from_mins(1),
    )
}

/// The status after a pass.
pub(super) fn status(object: &OpenStackServer, report: &Report<'_>, now: Timestamp) -> Value {
    let generation = object.metadata.generation.unwrap_or_default();
    let mut status = object.status.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&status.conditions, generation, now);
    if report.paused {
        conditions.set(kind::PAUSED, &ConditionState::met(Reason::Paused));
    } else {
        conditions.set(kind::PAUSED, &ConditionState::unmet(Reason::NotPaused, ""));
        write(&mut status, &mut conditions, report);
    }
    let unseen = |what: &str| ConditionState::unknown(Reason::NotYetObserved, what);
    conditions.set_if_absent(
        kind::OPENSTACK_AUTHENTICATION_SUCCEEDED,
        &unseen("OpenStack was not asked yet"),
    );
    conditions.set_if_absent(kind::INSTANCE_READY, &unseen("The server was not read yet"));
    let mut counted = vec![
        kind::OPENSTACK_AUTHENTICATION_SUCCEEDED,
        kind::INSTANCE_READY,
    ];
    if let Some(refused) = pool_not_supported(&object.spec) {
        conditions.set(
            kind::FLOATING_ADDRESS_FROM_POOL_READY,
            &ConditionState::unmet(Reason::NotSupported, refused),
        );
        counted.push(kind::FLOATING_ADDRESS_FROM_POOL_READY);
    }
    conditions.sum_up(&counted);
    // Until then Ready may be True of what was there before.
    if !report.paused && *report.outcome == Outcome::Done {
        status.observed_generation = Some(generation);
    }
    status.conditions = conditions.into_list();
    serde_json::to_value(&status).unwrap_or_default()
}

/// What is said of a field that this version does not honour.
pub(super) fn pool_not_supported(spec: &OpenStackServerSpec) -> Option<String> {
    let pool = spec.floating_ip_pool_ref.as_ref()?;
    Some(format!(
        "spec.floatingIPPoolRef is {} \"{}\": floating IPs from pools are not supported by this version; leave the \
         field out",
        pool.kind, pool.name
    ))
}

fn write(status: &mut OpenStackServerStatus, conditions: &mut Conditions, report: &Report<'_>) {
    if let Some(verdict) = &report.authentication {
        conditions.set(kind::OPENSTACK_AUTHENTICATION_SUCCEEDED, verdict);
    }
    let known = conditions.get(kind::INSTANCE_READY).is_some();
    if let Some(verdict) = instance(report, known) {
        conditions.set(kind::INSTANCE_READY, &verdict);
        status.ready = verdict.status == ConditionStatus::True;
    }
    status.resolved.clone_from(&report.progress.resolved);
    status.instance_id.clone_from(&report.progress.instance_id);
    status.resources = (!report.progress.port_ids.is_empty()).then(|| MachineResources {
        ports: report
            .progress
            .port_ids
            .iter()
            .map(|id| PortStatus { id: id.clone() })
            .collect(),
    });
    if let Some(server) = report.server {
        status.instance_state = Some(server.status.as_str().to_owned());
        status.addresses = node_addresses(server);
    } else if report.lost {
        status.instance_state = Some(ServerStatus::Deleted.as_str().to_owned());
    }
}

/// `InstanceReady`; `None` leaves it as it is. That OpenStack does not answer says nothing about a
/// server that was seen before.
fn instance(report: &Report<'_>, known: bool) -> Option<ConditionState> {
    match report.outcome {
        Outcome::Done => Some(ConditionState::met(Reason::Ready)),
        Outcome::Wait {
            reason, message, ..
        } => {
            let uncertain = report.server.is_some_and(|server| {
                !matches!(
                    server.status,
                    ServerStatus::Build
                        | ServerStatus::Error
                        | ServerStatus::Shutoff
                        | ServerStatus::Deleted
                        | ServerStatus::SoftDeleted
                        | ServerStatus::Active
                )
            });
            Some(if uncertain {
                ConditionState::unknown(*reason, message.clone())
            } else {
                ConditionState::unmet(*reason, message.clone())
            })
        }
        Outcome::Failed {
            class,
            reason,
            message,
            ..
        } => match class {
            FailureClass::LeaseLost => None,
            FailureClass::Transient
            | FailureClass::Throttled
            | FailureClass::Auth
            | FailureClass::NoService
                if known =>
            {
                None
            }
            _ => Some(ConditionState::unmet(*reason, message.clone())),
        },
    }
}

/// As the contract spells addresses; the server's name comes last.
fn node_addresses(server: &Server) -> Vec<NodeAddress> {
    addresses(server)
        .into_iter()
        .map(|seen| NodeAddress {
            type_: if seen.floating {
                "ExternalIP"
            } else {
                "InternalIP"
            }
            .to_owned(),
            address: seen.address.to_string(),
        })
        .chain([NodeAddress {
            type_: "InternalDNS".to_owned(),
            address: server.name.clone(),
        }])
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn server(status: &str) -> Server {
        serde_json::from_value(json!({"id": "42", "name": "m1", "status": status,
            "fault": {"code": 500, "message": "No valid host was found."},
            "addresses": {
                "b": [{"addr": "10.0.0.5", "version": 4, "OS-EXT-IPS:type": "fixed"}],
                "a": [{"addr": "fd00::5", "version": 6, "OS-EXT-IPS:type": "fixed"},
                    {"addr": "10.1.0.5", "version": 4, "OS-EXT-IPS:type": "fixed"},
                    {"addr": "203.0.113.7", "version": 4, "OS-EXT-IPS:type": "floating"}]}}))
        .unwrap()
    }

    fn object(status: &Value) -> OpenStackServer {
        serde_json::from_value(json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackServer",
            "metadata": {"name": "m1", "namespace": "default", "generation": 3},
            "spec": {"identityRef": {"name": "c", "cloudName": "c"}, "image": {"id": "i"}, "flavorID": "f",
                "ports": [], "sshKeyName": ""},
            "status": status}))
        .unwrap()
    }

    fn condition(status: &Value, kind: &str) -> (String, String) {
        let found = status["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .find(|condition| condition["type"] == kind)
            .unwrap_or_else(|| panic!("no {kind} in {status}"));
        (
            found["status"].as_str().unwrap().to_owned(),
            found["reason"].as_str().unwrap().to_owned(),
        )
    }

    fn told(object: &OpenStackServer, outcome: &Outcome, server: Option<&Server>) -> Value {
        let progress = Progress {
            instance_id: server.map(|server| server.id.clone()).map(Into::into),
            ..Progress::default()
        };
        let report = Report {
            paused: false,
            authentication: Some(ConditionState::met(Reason::Ready)),
            outcome,
            progress: &progress,
            server,
            lost: false,
        };
        status(object, &report, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn every_condition_is_there_from_the_first_visit() {
        let wait = Outcome::wait(Reason::DependencyFailed, "soon", Duration::from_secs(1));
        let status = told(&object(&json!(null)), &wait, None);
        assert_eq!(condition(&status, "InstanceReady").1, "DependencyFailed");
        assert_eq!(
            condition(&status, "Ready"),
            ("False".to_owned(), "NotReady".to_owned())
        );
        assert_eq!(
            condition(&status, "Paused"),
            ("False".to_owned(), "NotPaused".to_owned())
        );
        assert_eq!(status["ready"], json!(false));
    }

    #[test]
    fn a_generation_counts_as_observed_once_nothing_is_waited_for() {
        let before = json!({"observedGeneration": 2, "ready": true});
        let wait = Outcome::wait(Reason::DependencyFailed, "soon", Duration::from_secs(1));
        let failed = Outcome::failed(
            FailureClass::Transient,
            Reason::OpenStackUnavailable,
            "down",
        );
        for (outcome, expected) in [(wait, 2), (failed, 2), (Outcome::Done, 3)] {
            let status = told(&object(&before), &outcome, None);
            assert_eq!(status["observedGeneration"], expected, "{outcome:?}");
        }
    }

    #[test]
    fn states_of_nova() {
        for (state, expected, ready) in [
            ("ACTIVE", ("True", "Ready"), true),
            ("BUILD", ("False", "InstanceNotReady"), false),
            ("ERROR", ("False", "InstanceStateError"), false),
            ("SHUTOFF", ("False", "InstanceNotReady"), false),
            ("REBOOT", ("Unknown", "InstanceNotReady"), false),
            ("SOFT_DELETED", ("False", "InstanceDeleted"), false),
            ("VERIFY_RESIZE", ("Unknown", "InstanceNotReady"), false),
        ] {
            let server = server(state);
            let status = told(&object(&json!(null)), &outcome(&server), Some(&server));
            let found = condition(&status, "InstanceReady");
            assert_eq!((found.0.as_str(), found.1.as_str()), expected, "{state}");
            assert_eq!(status["ready"], json!(ready), "{state}");
            assert_eq!(status["instanceState"], json!(state));
        }
    }

    #[test]
    fn openstack_falling_silent_does_not_unmake_a_server() {
        let server = server("ACTIVE");
        let before = told(&object(&json!(null)), &Outcome::Done, Some(&server));
        let silent = Outcome::failed(
            FailureClass::Transient,
            Reason::OpenStackUnavailable,
            "server_get: timed out",
        );
        let mut object = object(&before);
        let after = told(&object, &silent, None);
        assert_eq!(condition(&after, "InstanceReady").0, "True");
        assert_eq!(after["ready"], json!(true));
        object.status = None;
        let after = told(&object, &silent, None);
        assert_eq!(condition(&after, "InstanceReady").1, "OpenStackUnavailable");
    }

    #[test]
    fn addresses_by_network_and_family_and_the_name_last() {
        let list = serde_json::to_value(node_addresses(&server("ACTIVE"))).unwrap();
        assert_eq!(
            list,
            json!([
                {"type": "InternalIP", "address": "10.1.0.5"},
                {"type": "ExternalIP", "address": "203.0.113.7"},
                {"type": "InternalIP", "address": "fd00::5"},
                {"type": "InternalIP", "address": "10.0.0.5"},
                {"type": "InternalDNS", "address": "m1"},
            ])
        );
    }

    #[test]
    fn a_paused_object_changes_in_nothing_else() {
        let before = told(
            &object(&json!(null)),
            &Outcome::Done,
            Some(&server("ACTIVE")),
        );
        let object = object(&before);
        let progress = Progress::default();
        let report = Report {
            paused: true,
            authentication: None,
            outcome: &Outcome::Done,
            progress: &progress,
            server: None,
            lost: false,
        };
        let after = status(&object, &report, Timestamp::UNIX_EPOCH);
        assert_eq!(
            condition(&after, "Paused"),
            ("True".to_owned(), "Paused".to_owned())
        );
        assert_eq!(after["instanceState"], before["instanceState"]);
        assert_eq!(
            condition(&after, "InstanceReady"),
            condition(&before, "InstanceReady")
        );
    }
}
