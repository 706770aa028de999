//! The state of a cluster's load balancer, its machines and their gates, as data. `-o json` and `-o yaml` print it, and
//! the tables are drawn from it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{api::events::v1::Event, apimachinery::pkg::apis::meta::v1::Condition};
use kube::ResourceExt;
use serde::Serialize;

use super::{
    gates::{self, GateView},
    snapshot::{Direct, Snapshot, is_about},
};
use crate::{
    kubernetes::conditions::{kind, status_of},
    reconcile::capi::{self, Machine},
};
use capo_api::v1beta2::{LoadBalancerMemberStatus, OpenStackCluster, OpenStackMachine};
use capo_core::{ConditionStatus, MemberStatus, OperatingStatus, gate_override};

/// How many of the newest events are shown.
const EVENTS: usize = 12;

/// The state of one cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct View {
    pub(super) namespace: String,
    pub(super) cluster: String,
    /// The OpenStackCluster's name.
    pub(super) openstack_cluster: String,
    pub(super) paused: bool,
    pub(super) deleting: bool,
    /// `host:port` of the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) load_balancer: Option<LoadBalancerView>,
    pub(super) gate: GateView,
    /// The annotation by which the operator holds or bypasses the gates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) operator: Option<String>,
    pub(super) machines: Vec<MachineView>,
    /// Members that belong to no machine of the cluster.
    pub(super) other_members: Vec<MemberView>,
    pub(super) conditions: Vec<ConditionView>,
    /// The newest event is the last.
    pub(super) events: Vec<EventView>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LoadBalancerView {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    /// ACTIVE members of those expected, as `2/3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) active_members: Option<String>,
    /// What Octavia answered, if the command reads it directly (`--direct`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) octavia: Option<Direct>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MachineView {
    /// The OpenStackMachine's name.
    pub(super) name: String,
    /// The Machine's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) machine: Option<String>,
    pub(super) control_plane: bool,
    pub(super) deleting: bool,
    /// Nova's status of its server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<String>,
    pub(super) ready: &'static str,
    /// The gate that the machine is at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gate: Option<GateView>,
    /// The reason of the condition, even if the machine is at no gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    /// Its members by port.
    pub(super) members: BTreeMap<i32, MemberView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) operator: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MemberView {
    pub(super) machine: String,
    pub(super) port: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) address: Option<String>,
    pub(super) provisioning_status: String,
    pub(super) operating_status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConditionView {
    pub(super) r#type: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) since: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventView {
    /// When the event was reported last.
    pub(super) time: Timestamp,
    /// How often the event was reported.
    pub(super) count: i32,
    pub(super) r#type: String,
    pub(super) reason: String,
    /// The kind and name of the object that the event is about.
    pub(super) object: String,
    pub(super) note: String,
}

impl View {
    /// The state that the objects of `snapshot` show.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let object = snapshot.openstack_cluster.as_ref();
        let status = object.and_then(|object| object.status.as_ref());
        let balancer = status.and_then(|status| status.api_server_managed_load_balancer.as_ref());
        let listed = balancer.map_or(&[][..], |balancer| &balancer.members);
        let mut machines: Vec<MachineView> = snapshot
            .openstack_machines
            .iter()
            .map(|object| machine(object, &snapshot.machines, listed))
            .collect();
        machines.sort_by(|a, b| (!a.control_plane, &a.name).cmp(&(!b.control_plane, &b.name)));
        let known: Vec<&str> = machines.iter().map(|m| m.name.as_str()).collect();
        let other_members = listed
            .iter()
            .filter(|member| !known.contains(&member.machine.as_str()))
            .map(member)
            .collect();
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        let at_gates: Vec<(&str, &GateView)> = machines
            .iter()
            .filter_map(|machine| Some((machine.name.as_str(), machine.gate.as_ref()?)))
            .collect();
        Self {
            namespace: snapshot.cluster.namespace().unwrap_or_default(),
            cluster: snapshot.cluster.name_any(),
            openstack_cluster: object.map(ResourceExt::name_any).unwrap_or_default(),
            paused: snapshot.cluster.spec.paused
                || object
                    .is_some_and(|o| capi::has_annotation(&o.metadata, capi::PAUSED_ANNOTATION)),
            deleting: snapshot.cluster.is_deleting(),
            endpoint: object.and_then(endpoint),
            load_balancer: balancer.map(|balancer| LoadBalancerView {
                name: balancer.name.clone(),
                id: balancer.id.clone(),
                active_members: balancer.active_members.clone(),
                octavia: snapshot.direct.clone(),
            }),
            gate: gates::of_cluster(conditions, &at_gates),
            operator: object.and_then(operator),
            machines,
            other_members,
            conditions: conditions.iter().map(shown_condition).collect(),
            events: events(snapshot),
        }
    }
}

fn operator<K: kube::Resource>(object: &K) -> Option<String> {
    object
        .meta()
        .annotations
        .as_ref()?
        .get(gate_override::KEY)
        .cloned()
}

fn endpoint(object: &OpenStackCluster) -> Option<String> {
    let endpoint = object.spec.control_plane_endpoint.as_ref()?;
    let (host, port) = (endpoint.host.as_ref()?, endpoint.port?);
    Some(if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    })
}

fn machine(
    object: &OpenStackMachine,
    machines: &[Machine],
    members: &[LoadBalancerMemberStatus],
) -> MachineView {
    let name = object.name_any();
    let owner = capi::owner(&object.metadata, "Machine").map(|owner| owner.name.clone());
    let machine = machines
        .iter()
        .find(|machine| Some(machine.name_any()) == owner);
    let status = object.status.as_ref();
    let conditions = status.map_or(&[][..], |status| &status.conditions);
    let condition = gates::condition(conditions);
    let ready = conditions
        .iter()
        .find(|condition| condition.type_ == kind::READY)
        .map_or(ConditionStatus::Unknown, status_of);
    MachineView {
        control_plane: machine.is_some_and(|machine| machine.is_control_plane(None))
            || condition.is_some(),
        deleting: object.metadata.deletion_timestamp.is_some()
            || machine.is_some_and(Machine::is_deleting),
        server: status.and_then(|status| status.instance_state.clone()),
        ready: ready.as_str(),
        gate: gates::of_machine(object, machine),
        reason: condition.map(|condition| condition.reason.clone()),
        message: condition
            .map(|condition| condition.message.clone())
            .filter(|text| !text.is_empty()),
        members: members
            .iter()
            .filter(|member| member.machine == name)
            .map(|found| (found.port, member(found)))
            .collect(),
        operator: operator(object),
        machine: owner,
        name,
    }
}

fn member(status: &LoadBalancerMemberStatus) -> MemberView {
    let text =
        |text: &Option<String>, absent: &str| text.clone().unwrap_or_else(|| absent.to_owned());
    MemberView {
        machine: status.machine.clone(),
        port: status.port,
        id: status.id.clone(),
        address: status.address.clone(),
        provisioning_status: text(&status.provisioning_status, MemberStatus::Missing.as_str()),
        operating_status: text(&status.operating_status, OperatingStatus::UNKNOWN_LABEL),
        since: status.since.as_ref().map(|time| time.0),
        message: status.message.clone(),
    }
}

fn shown_condition(condition: &Condition) -> ConditionView {
    ConditionView {
        r#type: condition.type_.clone(),
        status: condition.status.clone(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        since: condition.last_transition_time.0,
    }
}

fn events(snapshot: &Snapshot) -> Vec<EventView> {
    let ours = |event: &&Event| {
        is_about(
            event,
            snapshot.openstack_cluster.as_ref(),
            &snapshot.openstack_machines,
        )
    };
    let mut events: Vec<EventView> = snapshot.events.iter().filter(ours).map(event).collect();
    events.sort_by(|a, b| (a.time, &a.object, &a.reason).cmp(&(b.time, &b.object, &b.reason)));
    let first = events.len().saturating_sub(EVENTS);
    events.split_off(first)
}

fn event(event: &Event) -> EventView {
    let about = event.regarding.clone().unwrap_or_default();
    let first = event
        .event_time
        .as_ref()
        .map(|time| time.0)
        .or_else(|| Some(event.metadata.creation_timestamp.as_ref()?.0));
    let series = event.series.as_ref();
    EventView {
        time: series
            .map(|series| series.last_observed_time.0)
            .or(first)
            .unwrap_or_default(),
        count: series.map_or(1, |series| series.count),
        r#type: event.type_.clone().unwrap_or_default(),
        reason: event.reason.clone().unwrap_or_default(),
        object: format!(
            "{}/{}",
            about.kind.unwrap_or_default(),
            about.name.unwrap_or_default()
        ),
        note: event.note.clone().unwrap_or_default(),
    }
}
