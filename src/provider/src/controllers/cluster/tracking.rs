//! What a pass publishes to the load balancer's tracker.

use ipnet::IpNet;
use jiff::Timestamp;
use kube::{ResourceExt, runtime::reflector::ObjectRef};

use super::{
    bastion::addresses::{self as bastion, addresses as bastion_addresses},
    cache::CachedCluster,
    desired::{DesiredCluster, DesiredLoadBalancer},
    load_balancer::allowed_cidrs::{self, is_same_family},
    observation::KnownLoadBalancer,
    pass::{Pass, PublishedFacts},
    validate::problems::Problem,
};
use crate::tracker::OctaviaClient;
use capo_core::{
    GateOverride, Lookup, ObjectName, Provider, gate_override, ids::SubnetId,
    octavia::MonitorParameters,
};
use capo_gate::desired::{ClusterFacts, LoadBalancerSpec};
use capo_openstack::{ApiVersion, load_balancer::ALLOWED_CIDRS};

/// Whether everything that the tracker needs is known: which load balancer it is, if any, and the subnet of the members
/// if they are in another network. That subnet can't be added to a member later.
pub(crate) fn is_load_balancer_known(
    cached: &CachedCluster,
    desired: &DesiredLoadBalancer,
) -> bool {
    let networking = &cached.networking;
    match cached.load_balancer {
        Lookup::Unknown => false,
        Lookup::Found(_) if desired.has_own_network() => {
            networking.load_balancer_network.is_known()
                && networking.network.is_known()
                && networking.primary_subnet.is_known()
        }
        Lookup::Found(_) | Lookup::Absent => true,
    }
}

/// Whether a provider of Octavia can restrict which addresses may connect. A version of the API that could not be read
/// counts as new enough.
pub(crate) fn supports_allowed_cidrs(provider: &str, version: Option<ApiVersion>) -> bool {
    Provider::of(provider).supports_allowed_cidrs() && !is_too_old(version)
}

fn is_too_old(version: Option<ApiVersion>) -> bool {
    version.is_some_and(|version| version < ALLOWED_CIDRS)
}

/// The parts of the spec that this load balancer does not support. Each is a sentence that begins with the name of the
/// field.
pub(crate) fn unsupported(
    desired: &DesiredLoadBalancer,
    found: &KnownLoadBalancer,
    version: Option<ApiVersion>,
) -> Vec<String> {
    let provider = found.provider.as_str();
    let mut sentences = Vec::new();
    if desired.allowed_cidrs.is_some() && !supports_allowed_cidrs(provider, version) {
        let cause = match version {
            Some(version) if is_too_old(Some(version)) => {
                format!("this cloud has Octavia {version}, and {ALLOWED_CIDRS} is needed")
            }
            _ => format!("Octavia's provider {provider} does not support it"),
        };
        sentences.push(format!(
            "allowedCIDRs has no effect, because {cause}: every address may connect"
        ));
    } else if let Some(vip) = found.vip {
        let others = desired.allowed_cidrs.iter().flatten();
        for range in others.filter(|range| !is_same_family(**range, vip)) {
            sentences.push(format!(
                "allowedCIDRs has {range}, which has no effect, because the load balancer has the address {vip} of the other \
                 family"
            ));
        }
    }
    if let Some(wanted) = &desired.monitor_type
        && !Provider::of(provider).supports_monitor_type(wanted)
    {
        sentences.push(format!(
            "monitor.type {wanted} has no effect, because Octavia's provider {provider} does not support it: TCP is used \
             instead"
        ));
    }
    sentences
}

/// The inputs of what is published about the load balancer.
pub(crate) struct DesiredTracking<'a> {
    /// The generation of the cluster.
    pub generation: i64,
    /// What was read of the cluster.
    pub cached: &'a CachedCluster,
    /// The desired state, from the spec.
    pub desired: &'a DesiredCluster,
    /// The address ranges that may connect; `None` while they are unknown.
    pub allowed_cidrs: Option<Vec<IpNet>>,
}

impl DesiredTracking<'_> {
    /// Returns what is published, together with the facts on which gates depend.
    pub(crate) fn for_tracker(self, facts: ClusterFacts) -> LoadBalancerSpec {
        let known = self.cached.load_balancer.found();
        let provider = known.map(|lb| lb.provider.clone()).unwrap_or_default();
        let load_balancer = self.desired.load_balancer.as_ref();
        LoadBalancerSpec {
            generation: self.generation,
            enabled: load_balancer.is_some(),
            id: self.cached.load_balancer.clone().map(|lb| lb.id),
            name: self.desired.names.load_balancer(),
            allowed_cidrs: self.allowed_cidrs.filter(|_| {
                let version = self.cached.octavia_version;
                load_balancer.is_some() && supports_allowed_cidrs(&provider, version)
            }),
            ports: self.desired.ports(),
            monitor: load_balancer.map_or(MonitorParameters::CAPO_DEFAULTS, |spec| spec.monitor),
            monitor_type: load_balancer
                .and_then(|spec| spec.monitor_type.clone())
                .filter(|wanted| Provider::of(&provider).supports_monitor_type(wanted)),
            provider,
            tags: self.desired.tags.clone(),
            member_subnet: member_subnet(self.cached),
            cluster: facts,
        }
    }
}

/// The subnet of the members, if the load balancer is in another network than the members.
fn member_subnet(cached: &CachedCluster) -> Option<SubnetId> {
    let networking = &cached.networking;
    let own = networking.load_balancer_network.found()?;
    let cluster = networking.network.found()?;
    let primary = networking.primary_subnet.found()?;
    (own.network.id != cluster.network.id).then(|| primary.clone())
}

impl Pass<'_> {
    /// The address ranges that may connect to the load balancer. `None` means that an address of the cluster itself is
    /// not known yet.
    fn allowed_cidrs(&self, allowed: Option<&[IpNet]>) -> Option<Vec<IpNet>> {
        let key = ObjectRef::new(&bastion::server_name(&self.related.cluster_name))
            .within(&self.name.namespace);
        let server = self.context.stores.openstack_servers.get(&key);
        let status = self.object.status.as_ref();
        let bastion_status = self.cached.bastion.as_ref().map(|seen| &seen.status);
        let bastion_status = bastion_status.or(status.and_then(|status| status.bastion.as_ref()));
        let bastion = bastion_addresses(&self.object.spec, bastion_status, server.as_deref());
        let vip = self
            .cached
            .load_balancer
            .found()
            .and_then(|found| found.vip);
        allowed_cidrs::ranges(allowed, &self.cached.networking, bastion.as_deref(), vip)
    }

    /// Publishes the load balancer and the facts about its cluster to the tracker. While it is unknown whether there is
    /// a load balancer, only the facts are published. If the facts alone open a gate and the load balancer has no
    /// worker yet, one is started without credentials.
    pub(crate) fn publish(
        &self,
        desired: &DesiredCluster,
        problems: &[Problem],
        published: &PublishedFacts,
    ) {
        let facts = &published.facts;
        let tracker = &self.context.tracker;
        let is_known = desired.is_port_known(problems)
            && match &desired.load_balancer {
                None => true,
                Some(load_balancer) => is_load_balancer_known(&self.cached, load_balancer),
            };
        if !is_known && (tracker.set_facts(&self.name, facts) || !self.opens_a_gate(facts)) {
            return;
        }
        let spec = desired.load_balancer.as_ref();
        let restriction = spec.and_then(|spec| spec.allowed_cidrs.as_deref());
        let load_balancer = DesiredTracking {
            generation: self.generation(),
            cached: &self.cached,
            desired,
            allowed_cidrs: self.allowed_cidrs(restriction),
        };
        let cloud = published
            .cloud
            .clone()
            .filter(|cloud| is_known && self.cached.is_verified(cloud));
        let load_balancer = load_balancer.for_tracker(facts.clone());
        tracker.set_load_balancer(&self.name, cloud.map(OctaviaClient), load_balancer);
        // The object may have vanished during the pass. The store is checked after publishing, so that either this
        // check or the watch stops the worker.
        let key = ObjectRef::new(&self.name.name).within(&self.name.namespace);
        if self.context.stores.openstack_clusters.get(&key).is_none() {
            tracker.forget_load_balancer(&self.name);
        }
    }

    /// Whether a gate opens regardless of the load balancer's state: the cluster is being deleted, or an operator
    /// bypasses a gate.
    fn opens_a_gate(&self, facts: &ClusterFacts) -> bool {
        let machines = &self.context.stores.openstack_machines;
        let is_bypassed = |name: &ObjectName| {
            let machine = machines.get(&ObjectRef::new(&name.name).within(&name.namespace));
            machine.is_some_and(|machine| {
                let annotation = machine.annotations().get(gate_override::KEY);
                let annotation = annotation.map(String::as_str);
                is_bypass(&gate_override::parse_optional(annotation, Timestamp::now()))
            })
        };
        facts.cluster_deleting
            || is_bypass(&facts.gate_override)
            || facts.machines.iter().any(is_bypassed)
    }
}

fn is_bypass(gate_override: &GateOverride) -> bool {
    matches!(gate_override, GateOverride::Bypass { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::cluster::{desired::Reference, observation::NetworkState};
    use serde_json::{from_value, json};

    fn network(id: &str) -> NetworkState {
        NetworkState {
            network: from_value(json!({ "id": id })).unwrap(),
            subnets: Vec::new(),
        }
    }

    #[test]
    fn a_load_balancer_of_another_network_is_not_handed_over_without_the_subnet_of_its_members() {
        let desired = DesiredLoadBalancer {
            provider: None,
            flavor: None,
            availability_zone: None,
            network: Some(Reference::Id("b".into())),
            subnets: Vec::new(),
            additional_ports: Vec::new(),
            allowed_cidrs: None,
            monitor: MonitorParameters::CAPO_DEFAULTS,
            monitor_type: None,
        };
        let mut cached = CachedCluster {
            load_balancer: Lookup::Found(KnownLoadBalancer {
                id: "lb".into(),
                name: "lb".to_owned(),
                provider: Provider::Amphora.label().to_owned(),
                vip: None,
                vip_port: None,
                tags: Vec::new(),
            }),
            ..CachedCluster::default()
        };
        assert!(!is_load_balancer_known(&cached, &desired));
        cached.networking.network = Lookup::Found(network("a"));
        cached.networking.load_balancer_network = Lookup::Found(network("b"));
        assert!(!is_load_balancer_known(&cached, &desired));
        cached.networking.primary_subnet = Lookup::Found("s".into());
        assert!(is_load_balancer_known(&cached, &desired));
        assert_eq!(member_subnet(&cached), Some("s".into()));
        // A load balancer that was not looked up counts as unknown, and not as absent.
        cached.load_balancer = Lookup::Unknown;
        assert!(!is_load_balancer_known(&cached, &desired));
    }
}
