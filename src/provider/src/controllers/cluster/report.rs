//! What a pass reports: conditions, status, events. The function that builds the status is pure.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::Value;

use super::{
    failure_domains::plan::Zone,
    observation::{KnownGroup, KnownLoadBalancer, NetworkState, Networking},
};
use crate::{
    controllers::cluster::members,
    kubernetes::{
        conditions::{Conditions, kind},
        events::Events,
    },
};
use capo_api::v1beta2::{
    BastionStatus, FailureDomain, Initialization, LoadBalancerStatus, NetworkStatus,
    NetworkStatusWithSubnets, OpenStackCluster, OpenStackClusterStatus, RouterStatus,
    SecurityGroupStatus, SubnetStatus,
};
use capo_core::{ConditionState, ConditionStatus, Lookup, Reason};
use capo_gate::findings::Findings;
use capo_openstack::network::{Network, Router};

/// The conditions that every object has from the first pass on.
const PERMANENT_CONDITIONS: [&str; 6] = [
    kind::OPENSTACK_AUTHENTICATION_SUCCEEDED,
    kind::NETWORK_READY,
    kind::ROUTER_READY,
    kind::SECURITY_GROUPS_READY,
    kind::API_ENDPOINT_READY,
    kind::API_SERVER_LOAD_BALANCER_READY,
];

/// The result of one pass, from which the status is built.
#[derive(Debug, Clone, Default)]
pub(crate) struct Report {
    /// The conditions that this pass evaluated; the others stay as they were.
    pub conditions: Vec<(&'static str, ConditionState)>,
    /// The condition Ready where it is not the summary of the other conditions.
    pub ready: Option<ConditionState>,
    /// What is known of the networking.
    pub networking: Networking,
    /// What is known of the load balancer.
    pub load_balancer: LoadBalancerReport,
    /// What is known of the bastion; unknown if this pass did not read it.
    pub bastion: Lookup<BastionStatus>,
    /// The failure domains; `None` if they were not read.
    pub zones: Option<Vec<Zone>>,
    /// Whether everything that machines need exists.
    pub provisioned: bool,
    /// Whether the load balancer's condition counts in Ready once the cluster is provisioned.
    pub balancer_counts: bool,
    /// Whether nothing failed and nothing is waited for. Until then the status does not count as that of this
    /// generation, because Ready may still describe the former state.
    pub complete: bool,
}

/// What a pass knows of the load balancer.
#[derive(Debug, Clone, Default)]
pub(crate) enum LoadBalancerReport {
    /// Nothing was read, so the status keeps what it has.
    #[default]
    Unchanged,
    /// The cluster has no managed load balancer.
    None,
    /// The load balancer that was read.
    Known(Box<LoadBalancerState>),
}

/// The load balancer's part of the status.
#[derive(Debug, Clone)]
pub(crate) struct LoadBalancerState {
    /// The load balancer.
    pub known: KnownLoadBalancer,
    /// The address of its floating IP; absent if no floating IP is desired.
    pub floating_ip: Lookup<std::net::IpAddr>,
    /// What its worker has found.
    pub findings: Option<std::sync::Arc<Findings>>,
}

impl Report {
    /// Records one condition.
    pub(crate) fn set_condition(&mut self, kind: &'static str, verdict: ConditionState) {
        self.conditions.retain(|(known, _)| *known != kind);
        self.conditions.push((kind, verdict));
    }

    /// Records one condition unless this pass has recorded it already.
    pub(crate) fn set_condition_if_unset(&mut self, kind: &'static str, verdict: ConditionState) {
        if self.condition(kind).is_none() {
            self.conditions.push((kind, verdict));
        }
    }

    /// The state of a condition that this pass has recorded.
    pub(crate) fn condition(&self, kind: &str) -> Option<&ConditionState> {
        self.conditions
            .iter()
            .find(|(known, _)| *known == kind)
            .map(|(_, verdict)| verdict)
    }

    /// Builds the status of `object` from this report.
    pub(crate) fn status(&self, object: &OpenStackCluster, now: Timestamp) -> Value {
        let mut status = object.status.clone().unwrap_or_default();
        let generation = object.metadata.generation.unwrap_or_default();
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        self.fill(&mut status, &namespace);
        let before = status
            .initialization
            .as_ref()
            .and_then(|initialization| initialization.provisioned);
        let provisioned = before == Some(true) || self.provisioned;
        if provisioned {
            status.initialization = Some(Initialization {
                provisioned: Some(true),
            });
        }
        status.conditions = self.condition_list(&status, generation, provisioned, now);
        if self.complete {
            status.observed_generation = Some(generation);
        }
        serde_json::to_value(&status).unwrap_or(Value::Null)
    }

    fn condition_list(
        &self,
        status: &OpenStackClusterStatus,
        generation: i64,
        provisioned: bool,
        now: Timestamp,
    ) -> Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition> {
        let mut conditions = Conditions::new(&status.conditions, generation, now);
        for (kind, verdict) in &self.conditions {
            conditions.set(kind, verdict);
        }
        let unseen = ConditionState::unknown(Reason::NotYetObserved, "Not observed yet");
        for kind in PERMANENT_CONDITIONS {
            conditions.set_if_absent(kind, &unseen);
        }
        conditions.set_if_absent(kind::PAUSED, &ConditionState::unmet(Reason::NotPaused, ""));
        // The condition exists only while there is a bastion.
        if self.bastion.is_absent() && self.condition(kind::BASTION_READY).is_none() {
            conditions.remove(kind::BASTION_READY);
        }
        match &self.ready {
            Some(verdict) => conditions.set(kind::READY, verdict),
            None => conditions.sum_up(&self.counted(provisioned)),
        }
        conditions.into_list()
    }

    /// The conditions that count in Ready. Until the cluster is provisioned, all of them count; after that an ordinary
    /// change in the load balancer does not. The bastion never counts, because no machine depends on it.
    fn counted(&self, provisioned: bool) -> Vec<&'static str> {
        let mut counted: Vec<&'static str> = PERMANENT_CONDITIONS
            .into_iter()
            .filter(|kind| *kind != kind::API_SERVER_LOAD_BALANCER_READY)
            .collect();
        if !provisioned || self.balancer_counts {
            counted.push(kind::API_SERVER_LOAD_BALANCER_READY);
        }
        counted
    }

    fn fill(&self, status: &mut OpenStackClusterStatus, namespace: &str) {
        let networking = &self.networking;
        set(&mut status.network, &networking.network, network_status);
        set(
            &mut status.external_network,
            &networking.external,
            external_status,
        );
        set(&mut status.router, &networking.router, router_status);
        if networking.groups.is_known() {
            let group = |group: &KnownGroup| SecurityGroupStatus {
                name: group.name.clone(),
                id: group.id.to_string(),
            };
            let groups = networking.groups.found();
            status.control_plane_security_group = groups.map(|g| group(&g.control_plane));
            status.worker_security_group = groups.map(|g| group(&g.worker));
            status.bastion_security_group = groups.and_then(|g| g.bastion.as_ref()).map(group);
        }
        set(&mut status.bastion, &self.bastion, BastionStatus::clone);
        if let Some(zones) = &self.zones {
            status.failure_domains = zones
                .iter()
                .map(|zone| FailureDomain {
                    name: zone.name.clone(),
                    control_plane: Some(zone.control_plane),
                    attributes: std::collections::BTreeMap::new(),
                })
                .collect();
        }
        if let LoadBalancerReport::None = &self.load_balancer {
            status.api_server_managed_load_balancer = None;
        }
        if let LoadBalancerReport::Known(balancer) = &self.load_balancer {
            let before = status
                .api_server_managed_load_balancer
                .take()
                .unwrap_or_default();
            let network = match &networking.load_balancer_network {
                Lookup::Unknown => None,
                // The load balancer is in the cluster's network, which CAPO shows here too.
                Lookup::Absent => networking.network.found().map(network_status),
                Lookup::Found(own) => Some(network_status(own)),
            };
            status.api_server_managed_load_balancer =
                Some(balancer.status(before, network, namespace));
        }
    }
}

impl LoadBalancerState {
    fn status(
        &self,
        before: LoadBalancerStatus,
        network: Option<NetworkStatusWithSubnets>,
        namespace: &str,
    ) -> LoadBalancerStatus {
        let known = &self.known;
        let internal = known.vip.map(|vip| vip.to_string());
        let ranges = self.findings.as_ref();
        let ranges = ranges.and_then(|findings| findings.allowed_cidrs.as_ref());
        let (list, active) = match &self.findings {
            Some(findings) if findings.observed.is_some() => (
                members::list(findings, &before.members),
                Some(members::active(findings, namespace)),
            ),
            // This process has not read anything yet, so the status keeps what it has.
            _ => (before.members, before.active_members),
        };
        LoadBalancerStatus {
            name: known.name.clone(),
            id: Some(known.id.to_string()),
            ip: match &self.floating_ip {
                Lookup::Found(ip) => Some(ip.to_string()),
                Lookup::Absent => internal.clone(),
                // The status does not show the VIP here, not even for a moment, because clients do not use that
                // address.
                Lookup::Unknown => before.ip,
            },
            internal_ip: internal,
            allowed_cidrs: match ranges {
                Some(ranges) => ranges.iter().map(ToString::to_string).collect(),
                None => before.allowed_cidrs,
            },
            tags: known
                .tags
                .iter()
                .cloned()
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
            load_balancer_network: network.or(before.load_balancer_network),
            active_members: active,
            members: list,
        }
    }
}

/// Sets a part of the status to the result of a lookup. If the result is unknown, the part stays as it was.
fn set<T, S>(part: &mut Option<S>, lookup: &Lookup<T>, status: impl Fn(&T) -> S) {
    match lookup {
        Lookup::Unknown => {}
        Lookup::Absent => *part = None,
        Lookup::Found(found) => *part = Some(status(found)),
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn network_status(state: &NetworkState) -> NetworkStatusWithSubnets {
    NetworkStatusWithSubnets {
        name: some(&state.network.name),
        id: Some(state.network.id.to_string()),
        tags: state.network.tags.clone(),
        subnets: state
            .subnets
            .iter()
            .map(|subnet| SubnetStatus {
                name: some(&subnet.name),
                id: subnet.id.to_string(),
                cidr: subnet
                    .cidr
                    .map(|range| range.to_string())
                    .unwrap_or_default(),
                tags: subnet.tags.clone(),
            })
            .collect(),
    }
}

fn external_status(network: &Network) -> NetworkStatus {
    NetworkStatus {
        name: some(&network.name),
        id: network.id.to_string(),
        tags: network.tags.clone(),
    }
}

fn router_status(router: &Router) -> RouterStatus {
    let gateway = router.external_gateway_info.iter();
    let ips = gateway.flat_map(|gateway| &gateway.external_fixed_ips);
    RouterStatus {
        name: some(&router.name),
        id: router.id.to_string(),
        tags: router.tags.clone(),
        ips: ips
            .filter_map(|ip| ip.ip_address.map(|address| address.to_string()))
            .collect(),
    }
}

/// Publishes an event for each condition that shows a problem, and each text only once. Ordinary progress is not
/// published.
pub(crate) fn publish_problems(events: &Events, about: &ObjectReference, report: &Report) {
    let mut published = BTreeSet::new();
    for (kind, verdict) in &report.conditions {
        let bad = match verdict.status {
            ConditionStatus::False => !is_progress(verdict.reason),
            ConditionStatus::Unknown => matches!(
                verdict.reason,
                Reason::OpenStackUnavailable
                    | Reason::Throttled
                    | Reason::AuthFailed
                    | Reason::QuotaExceeded
                    | Reason::ObservationStale
            ),
            ConditionStatus::True => false,
        };
        if bad && *kind != kind::PAUSED && published.insert(verdict.message.as_str()) {
            events.warning(about, verdict.reason, "Reconcile", &verdict.message);
        }
    }
}

fn is_progress(reason: Reason) -> bool {
    match reason {
        Reason::Deleting | Reason::WaitingForOwner | Reason::NotPaused => true,
        // Events remind the operator that the operator holds a gate.
        Reason::OperatorHold => false,
        reason => reason.is_step_of_change(),
    }
}

/// The load balancer's condition has a closed set of reasons. Other reasons that keep the load balancer from being
/// created are replaced by `LoadBalancerError`; another condition shows the specific reason.
pub(crate) fn in_closed_set(reason: Reason) -> Reason {
    match reason {
        Reason::InvalidSpec
        | Reason::NotSupported
        | Reason::DependencyNotFound
        | Reason::DependencyFailed
        | Reason::OpenStackError
        | Reason::FloatingIPError
        | Reason::APIEndpointConfigFailed => Reason::LoadBalancerError,
        Reason::Deleting => Reason::LoadBalancerPending,
        other => other,
    }
}
