//! Decides what to do about the managed router. The functions are pure.

use capo_core::ids::SubnetId;
use capo_openstack::network::{ExternalGateway, Port, Router, Subnet};

/// What to do about the managed router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RouterPlan {
    /// There is no router, so it is created. If the spec names addresses for its gateway, the gateway is set in an
    /// update after the creation, because many clouds allow these addresses only in an update.
    Create {
        /// Whether the request that creates the router contains the gateway.
        with_gateway: bool,
    },
    /// The router has no gateway, or its gateway lacks an address of the spec.
    SetGateway(Router),
    /// The gateway of the router is in another network and stays there. An operator moved it, and floating IPs may
    /// depend on it.
    LeaveGateway(Router),
    /// The router is as the spec describes it.
    Use(Router),
}

/// Decides what to do about the router that was found.
pub(crate) fn plan(found: Option<Router>, desired: &ExternalGateway) -> RouterPlan {
    let Some(router) = found else {
        return RouterPlan::Create {
            with_gateway: desired.external_fixed_ips.is_empty(),
        };
    };
    match &router.external_gateway_info {
        Some(present) if present.network_id != desired.network_id => {
            RouterPlan::LeaveGateway(router)
        }
        Some(present) if has_every_address(present, desired) => RouterPlan::Use(router),
        _ => RouterPlan::SetGateway(router),
    }
}

/// The subnets to which the router has no interface yet, in the order of the network.
pub(crate) fn subnets_to_join<'a>(subnets: &'a [Subnet], interfaces: &[Port]) -> Vec<&'a Subnet> {
    let joined: Vec<&SubnetId> = interfaces
        .iter()
        .flat_map(|port| &port.fixed_ips)
        .filter_map(|address| address.subnet_id.as_ref())
        .collect();
    let is_missing = |subnet: &&Subnet| !joined.contains(&&subnet.id);
    subnets.iter().filter(is_missing).collect()
}

fn has_every_address(present: &ExternalGateway, desired: &ExternalGateway) -> bool {
    desired.external_fixed_ips.iter().all(|ip| {
        present.external_fixed_ips.iter().any(|there| {
            there.subnet_id == ip.subnet_id
                && (ip.ip_address.is_none() || ip.ip_address == there.ip_address)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use capo_openstack::network::FixedIp;
    use serde_json::{from_value, json};

    fn gateway(network: &str, ips: &[(&str, Option<&str>)]) -> ExternalGateway {
        let ips = ips.iter().map(|(subnet, ip)| FixedIp {
            subnet_id: Some((*subnet).into()),
            ip_address: ip.map(|ip| ip.parse().unwrap()),
        });
        ExternalGateway {
            network_id: network.into(),
            external_fixed_ips: ips.collect(),
        }
    }

    fn router(gateway: Option<ExternalGateway>) -> Router {
        let router: Router = from_value(json!({"id": "r"})).unwrap();
        Router {
            external_gateway_info: gateway,
            ..router
        }
    }

    #[test]
    fn a_subnet_without_an_interface_is_joined() {
        let subnets: Vec<Subnet> = ["a", "b"]
            .map(|id| {
                from_value(json!({"id": id, "network_id": "n", "cidr": "10.0.0.0/24"})).unwrap()
            })
            .into();
        let interface = |subnet: &str| -> Port {
            let port = json!({"id": "p", "network_id": "n", "fixed_ips": [{"subnet_id": subnet}]});
            from_value(port).unwrap()
        };
        let cases: [(&[&str], &[&str]); 5] = [
            (&[], &["a", "b"]),
            (&["a"], &["b"]),
            (&["b"], &["a"]),
            (&["b", "a"], &[]),
            (&["other"], &["a", "b"]),
        ];
        for (joined, expected) in cases {
            let there: Vec<Port> = joined.iter().map(|subnet| interface(subnet)).collect();
            let missing = subnets_to_join(&subnets, &there);
            let missing: Vec<&str> = missing.iter().map(|subnet| subnet.id.as_str()).collect();
            assert_eq!(missing, expected, "{joined:?}");
        }
    }

    #[test]
    fn a_gateway_is_left_alone_unless_it_lacks_what_the_spec_names() {
        let present = router(Some(gateway("ext", &[("s", Some("203.0.113.5"))])));
        let bare = router(None);
        let cases = [
            (
                None,
                gateway("ext", &[]),
                RouterPlan::Create { with_gateway: true },
            ),
            (
                None,
                gateway("ext", &[("s", None)]),
                RouterPlan::Create {
                    with_gateway: false,
                },
            ),
            (
                Some(bare.clone()),
                gateway("ext", &[]),
                RouterPlan::SetGateway(bare),
            ),
            (
                Some(present.clone()),
                gateway("ext", &[]),
                RouterPlan::Use(present.clone()),
            ),
            (
                Some(present.clone()),
                gateway("ext", &[("s", Some("203.0.113.5"))]),
                RouterPlan::Use(present.clone()),
            ),
            (
                Some(present.clone()),
                gateway("ext", &[("s", Some("203.0.113.6"))]),
                RouterPlan::SetGateway(present.clone()),
            ),
            (
                Some(present.clone()),
                gateway("other", &[]),
                RouterPlan::LeaveGateway(present),
            ),
        ];
        for (found, desired, expected) in cases {
            assert_eq!(plan(found, &desired), expected, "{desired:?}");
        }
    }
}
