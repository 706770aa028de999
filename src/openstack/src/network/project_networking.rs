//! The networking of a whole project as hashes. One list of each kind shows for many clusters whether any of their
//! objects have changed.

use std::{
    collections::HashMap,
    fmt::Debug,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use capo_core::{Priority, ids::ProjectId};

use super::{
    FloatingIp, FloatingIpFilter, Network, NetworkFilter, Port, PortFilter, Router, RouterFilter,
    SecurityGroup, SecurityGroupFilter, Subnet, SubnetFilter,
};
use crate::{Cloud, Error};

/// The kinds of ports that join a router to a subnet: those of plain, distributed and highly available routers.
pub const ROUTER_INTERFACE_OWNERS: [&str; 3] = [
    "network:router_interface",
    "network:router_interface_distributed",
    "network:ha_router_replicated_interface",
];

/// One hash for each network, subnet, router (with its interfaces), security group (with its rules) and floating IP of
/// a project, by id. The hashes of two reads are equal if no field of the object that this client knows has changed.
#[derive(Debug, Default)]
pub struct ProjectNetworking(HashMap<String, u64>);

impl ProjectNetworking {
    /// Reads the lists: six calls, and more where a list has several pages.
    pub(crate) async fn read(cloud: &Cloud, priority: Priority) -> Result<Self, Error> {
        let project = cloud.project_id().await?;
        let project_id = || Some(ProjectId::clone(&project));
        let networks = NetworkFilter {
            project_id: project_id(),
            ..NetworkFilter::default()
        };
        let subnets = SubnetFilter {
            project_id: project_id(),
            ..SubnetFilter::default()
        };
        let routers = RouterFilter {
            project_id: project_id(),
            ..RouterFilter::default()
        };
        let interfaces = PortFilter {
            project_id: project_id(),
            device_owners: ROUTER_INTERFACE_OWNERS.map(str::to_owned).to_vec(),
            ..PortFilter::default()
        };
        let groups = SecurityGroupFilter {
            project_id: project_id(),
            ..SecurityGroupFilter::default()
        };
        let floating_ips = FloatingIpFilter {
            project_id: project_id(),
            ..FloatingIpFilter::default()
        };
        Ok(Self::of(
            cloud.networks(&networks, priority).await?,
            cloud.subnets(&subnets, priority).await?,
            cloud.routers(&routers, priority).await?,
            cloud.ports(&interfaces, priority).await?,
            cloud.security_groups(&groups, priority).await?,
            cloud.floating_ips(&floating_ips, priority).await?,
        ))
    }

    fn of(
        networks: Vec<Network>,
        subnets: Vec<Subnet>,
        routers: Vec<Router>,
        interfaces: Vec<Port>,
        groups: Vec<SecurityGroup>,
        floating_ips: Vec<FloatingIp>,
    ) -> Self {
        let mut hashes = HashMap::new();
        // Neutron promises no order of the entries within an object.
        for mut network in networks {
            network.subnets.sort();
            network.tags.sort();
            hashes.insert(network.id.to_string(), hash(&network));
        }
        for mut subnet in subnets {
            subnet.tags.sort();
            hashes.insert(subnet.id.to_string(), hash(&subnet));
        }
        for mut router in routers {
            router.tags.sort();
            hashes.insert(router.id.to_string(), hash(&router));
        }
        let mut joined: Vec<(String, String)> = interfaces
            .into_iter()
            .map(|port| (port.device_id, format!("{:?}", port.fixed_ips)))
            .collect();
        joined.sort();
        for (router, addresses) in joined {
            if let Some(known) = hashes.get_mut(&router) {
                *known = hash(&(*known, addresses));
            }
        }
        for mut group in groups {
            group.tags.sort();
            group.rules.sort_by(|a, b| a.id.cmp(&b.id));
            hashes.insert(group.id.to_string(), hash(&group));
        }
        for mut floating_ip in floating_ips {
            floating_ip.tags.sort();
            hashes.insert(floating_ip.id.to_string(), hash(&floating_ip));
        }
        Self(hashes)
    }

    /// One hash over the objects with these ids, in this order; `None` where one of them is not in the project.
    pub fn hash_of<'a>(&self, ids: impl IntoIterator<Item = &'a str>) -> Option<u64> {
        let known: Option<Vec<u64>> = ids.into_iter().map(|id| self.0.get(id).copied()).collect();
        Some(hash(&known?))
    }
}

fn hash(value: &impl Debug) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{value:?}").hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn all<T: DeserializeOwned>(values: &[Value]) -> Vec<T> {
        let values = values.iter().cloned();
        values
            .map(|value| serde_json::from_value(value).unwrap())
            .collect()
    }

    /// A network with its router, and a group with these rules, in this order.
    fn project(rules: &[&str], joined: bool) -> ProjectNetworking {
        let rules: Vec<Value> = rules
            .iter()
            .map(|id| json!({"id": id, "security_group_id": "g", "direction": "ingress"}))
            .collect();
        let interface = json!({"id": "p", "network_id": "n", "device_id": "r",
            "device_owner": ROUTER_INTERFACE_OWNERS[0], "fixed_ips": [{"subnet_id": "s", "ip_address": "10.0.0.1"}]});
        ProjectNetworking::of(
            all(&[json!({"id": "n", "subnets": ["s"]})]),
            all(&[json!({"id": "s", "network_id": "n", "cidr": "10.0.0.0/24"})]),
            all(&[json!({"id": "r"})]),
            if joined {
                all(&[interface])
            } else {
                Vec::new()
            },
            all(&[json!({"id": "g", "security_group_rules": rules})]),
            all(&[json!({"id": "f", "floating_network_id": "e"})]),
        )
    }

    #[test]
    fn equal_objects_have_equal_hashes_in_whatever_order_neutron_lists_rules() {
        let ids = ["n", "s", "r", "g", "f"];
        let first = project(&["1", "2"], true).hash_of(ids);
        assert!(first.is_some());
        assert_eq!(first, project(&["2", "1"], true).hash_of(ids));
    }

    #[test]
    fn a_missing_rule_or_interface_changes_the_hash_of_what_it_belongs_to_alone() {
        let before = project(&["1", "2"], true);
        let without_rule = project(&["1"], true);
        let without_interface = project(&["1", "2"], false);
        assert_ne!(before.hash_of(["g"]), without_rule.hash_of(["g"]));
        assert_eq!(before.hash_of(["r"]), without_rule.hash_of(["r"]));
        assert_ne!(before.hash_of(["r"]), without_interface.hash_of(["r"]));
        assert_eq!(before.hash_of(["g"]), without_interface.hash_of(["g"]));
    }

    #[test]
    fn an_object_that_the_project_lacks_has_no_hash() {
        assert_eq!(project(&[], true).hash_of(["n", "brought-along"]), None);
    }
}
