//! What a pass publishes to the load balancer's tracker.

use ipnet::IpNet;

use super::{
    cache::CachedCluster,
    desired::{DesiredCluster, DesiredLoadBalancer},
    load_balancer::allowed_cidrs::is_same_family,
    observation::KnownLoadBalancer,
};
use capo_core::{Lookup, Provider, ids::SubnetId, octavia::MonitorNumbers};
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
            monitor: load_balancer.map_or(MonitorNumbers::CAPO_DEFAULTS, |spec| spec.monitor),
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
            monitor: MonitorNumbers::CAPO_DEFAULTS,
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
