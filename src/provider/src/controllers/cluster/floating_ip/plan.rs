//! Decides what to do about the API server's floating IP. The functions are pure.

use std::net::IpAddr;

use capo_core::{FailureClass, ids::PortId};
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

/// Whether a failure of this class shows that Neutron can't give a floating IP the chosen address, or does not allow
/// choosing one.
pub(crate) fn is_address_unavailable(class: FailureClass) -> bool {
    matches!(
        class,
        FailureClass::Denied | FailureClass::Invalid | FailureClass::InUse | FailureClass::Conflict
    )
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

    #[test]
    fn an_address_that_somebody_has_or_that_may_not_be_chosen_is_unavailable() {
        for (class, unavailable) in [
            // A policy reserves the choice of an address for administrators.
            (FailureClass::Denied, true),
            // The address is in no subnet of the external network.
            (FailureClass::Invalid, true),
            // "IP address … already allocated in subnet …"
            (FailureClass::InUse, true),
            (FailureClass::Conflict, true),
            // The port has another floating IP already, so another address does not help.
            (FailureClass::Duplicate, false),
            // There is no free address at all.
            (FailureClass::Quota, false),
            (FailureClass::Transient, false),
            (FailureClass::Throttled, false),
        ] {
            assert_eq!(is_address_unavailable(class), unavailable, "{class:?}");
        }
    }
}
