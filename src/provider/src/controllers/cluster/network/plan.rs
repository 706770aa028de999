//! Decides what to do about the managed network and its subnet. The functions are pure.

use crate::controllers::cluster::desired::ManagedNetwork;
use capo_openstack::network::{Network, Subnet};

/// What to do about the managed network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NetworkPlan {
    /// This network is the cluster's.
    Use(Network),
    /// There is no network, so it is created.
    Create,
    /// There is no network, but machines exist that must be in it, so it is not created: the credentials may lead to
    /// another project.
    Withhold,
}

/// Decides what to do about the managed network, depending on what was found.
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
    /// This subnet matches the spec.
    Use(Subnet),
    /// The DNS servers of this subnet differ from the spec. They are the only property of a subnet that may change in
    /// the spec.
    SetNameServers(Subnet),
    /// There is no subnet, so it is created.
    Create,
}

/// Decides what to do about the subnet that was found with the address range of the spec.
pub(crate) fn subnet(found: Option<Subnet>, desired: &ManagedNetwork) -> SubnetPlan {
    match found {
        None => SubnetPlan::Create,
        // The order is compared too, because machines use the DNS servers in this order.
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
