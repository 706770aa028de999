//! Decides what to do about the API server's floating IP. The functions are pure.

use std::net::IpAddr;

use capo_core::ids::PortId;
use capo_openstack::network::FloatingIp;

/// What to do about the floating IP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FloatingIpPlan {
    /// The floating IP is on the right port.
    Use(FloatingIp),
    /// The floating IP is on no port.
    Associate {
        /// The floating IP.
        fip: FloatingIp,
        /// The port on which it is put.
        port: PortId,
    },
    /// The floating IP is on another port, whose owner may need it.
    Occupied {
        /// The floating IP.
        fip: FloatingIp,
        /// The port that it is on.
        port: PortId,
    },
    /// There is no floating IP.
    Create,
}

/// Decides what to do about the floating IP that was found for `port`. Without a port the floating IP only has to
/// exist.
pub(crate) fn plan(found: Option<FloatingIp>, port: Option<&PortId>) -> FloatingIpPlan {
    let Some(fip) = found else {
        return FloatingIpPlan::Create;
    };
    match (port, fip.port_id.clone()) {
        (None, _) => FloatingIpPlan::Use(fip),
        (Some(port), Some(there)) if there == *port => FloatingIpPlan::Use(fip),
        (Some(_), Some(other)) => FloatingIpPlan::Occupied { fip, port: other },
        (Some(port), None) => FloatingIpPlan::Associate {
            fip,
            port: port.clone(),
        },
    }
}

/// Whether a floating IP has the address that the spec gives, if it gives one.
pub(crate) fn fits(fip: &FloatingIp, given: Option<IpAddr>) -> bool {
    given.is_none() || fip.floating_ip_address == given
}

/// Whether a floating IP was created for this cluster. One that the user created has another description.
pub(crate) fn is_ours(fip: &FloatingIp, given: Option<IpAddr>, description: &str) -> bool {
    let is_given = given.is_some() && fip.floating_ip_address == given;
    !is_given && fip.description == description
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn fip(port: Option<&str>) -> FloatingIp {
        from_value(
            json!({"id": "f", "floating_ip_address": "203.0.113.9", "port_id": port,
            "floating_network_id": "ext", "status": "DOWN", "description": "ours"}),
        )
        .unwrap()
    }

    #[test]
    fn a_floating_ip_is_never_taken_from_another_port() {
        let cases = [
            (None, Some("p"), FloatingIpPlan::Create),
            (Some(fip(None)), None, FloatingIpPlan::Use(fip(None))),
            (
                Some(fip(Some("p"))),
                Some("p"),
                FloatingIpPlan::Use(fip(Some("p"))),
            ),
            (
                Some(fip(None)),
                Some("p"),
                FloatingIpPlan::Associate {
                    fip: fip(None),
                    port: "p".into(),
                },
            ),
            (
                Some(fip(Some("q"))),
                Some("p"),
                FloatingIpPlan::Occupied {
                    fip: fip(Some("q")),
                    port: "q".into(),
                },
            ),
        ];
        for (found, port, expected) in cases {
            let port = port.map(PortId::from);
            assert_eq!(plan(found, port.as_ref()), expected);
        }
    }

    #[test]
    fn what_the_user_brought_along_is_not_ours() {
        let address = "203.0.113.9".parse().ok();
        assert!(is_ours(&fip(None), None, "ours"));
        assert!(!is_ours(&fip(None), address, "ours"));
        assert!(!is_ours(&fip(None), None, "another cluster's"));
    }
}
