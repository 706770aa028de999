//! What to do about the managed network and its subnet. Plain decisions on what was read.

use crate::controllers::cluster::desired::ManagedNetwork;
use capo_openstack::network::{Network, Subnet};

/// What to do about the managed network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NetworkPlan {
    /// This one is the cluster's.
    Use(Network),
    /// There is none: create it.
    Create,
    /// There is none, but there are machines that must be in it: the credentials may lead to another project.
    Withhold,
}

/// Decides on the managed network by what was found.
pub(crate) fn network(found: Option<Network>, machine_admitted: bool) -> NetworkPlan {
    match found {
        Some(network) => NetworkPlan::Use(network),
        None if machine_admitted => NetworkPlan::Withhold,
        None => NetworkPlan::Create,
    }
}

/// What to do about the managed subnet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SubnetPlan {
    /// This one is as it should be.
    Use(Subnet),
    /// Its name servers differ. They are the one thing of a subnet that the spec may change.
    SetNameServers(Subnet),
    /// There is none: create it.
    Create,
}

/// Decides on the subnet that was found with the range of the spec.
pub(crate) fn subnet(found: Option<Subnet>, desired: &ManagedNetwork) -> SubnetPlan {
    match found {
        None => SubnetPlan::Create,
        // Their order is the order in which machines use them.
        Some(subnet) if subnet.dns_nameservers == desired.name_servers => SubnetPlan::Use(subnet),
        Some(subnet) => SubnetPlan::SetNameServers(subnet),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn a_network_is_created_only_where_no_machine_must_be_in_it() {
        let found: Network = from_value(json!({"id": "n"})).unwrap();
        let cases = [
            (Some(found.clone()), false, NetworkPlan::Use(found.clone())),
            (Some(found.clone()), true, NetworkPlan::Use(found)),
            (None, false, NetworkPlan::Create),
            (None, true, NetworkPlan::Withhold),
        ];
        for (found, machine_admitted, expected) in cases {
            assert_eq!(network(found, machine_admitted), expected);
        }
    }

    #[test]
    fn name_servers_are_applied_in_their_order() {
        let of = |servers: &[&str]| -> Subnet {
            from_value(
                json!({"id": "s", "network_id": "n", "ip_version": 4, "cidr": "10.6.0.0/24",
                "dns_nameservers": servers}),
            )
            .unwrap()
        };
        let desired = ManagedNetwork {
            range: "10.6.0.0/24".parse().unwrap(),
            name_servers: vec!["9.9.9.9".parse().unwrap(), "1.1.1.1".parse().unwrap()],
            pools: Vec::new(),
            mtu: None,
            port_security: true,
        };
        let (same, turned) = (of(&["9.9.9.9", "1.1.1.1"]), of(&["1.1.1.1", "9.9.9.9"]));
        let cases = [
            (Some(same.clone()), SubnetPlan::Use(same)),
            (Some(turned.clone()), SubnetPlan::SetNameServers(turned)),
            (None, SubnetPlan::Create),
        ];
        for (found, expected) in cases {
            assert_eq!(subnet(found, &desired), expected);
        }
    }
}
