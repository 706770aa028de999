//! Decides what a pass does about the floating IP that a server gets from a pool. The functions are pure.

use std::net::IpAddr;

use crate::reconcile::ipam::{IPAddress, IPAddressClaim};
use capo_core::ids::{FloatingIpId, PortId, ProjectId};
use capo_openstack::{compute::Server, network::FloatingIp};

/// What to do about the claim of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ClaimPlan {
    /// There is no claim.
    Create,
    /// The pool has not answered the claim yet.
    Wait,
    /// The pool has given this address.
    Use(IpAddr),
    /// The claim names an `IPAddress` that does not exist.
    NoAddress { answer: String },
    /// The claim names an `IPAddress` whose address can't be read.
    UnusableAddress { answer: String, text: String },
}

/// Decides what to do about the claim of the server and the `IPAddress` that it names.
pub(super) fn claim_plan(claim: Option<&IPAddressClaim>, address: Option<&IPAddress>) -> ClaimPlan {
    let Some(claim) = claim else {
        return ClaimPlan::Create;
    };
    let answer = claim.status.address_ref.name.clone();
    match address.map(|address| &address.spec.address) {
        _ if answer.is_empty() => ClaimPlan::Wait,
        None => ClaimPlan::NoAddress { answer },
        Some(text) => match text.parse() {
            Ok(ip) => ClaimPlan::Use(ip),
            Err(_) => ClaimPlan::UnusableAddress {
                answer,
                text: text.clone(),
            },
        },
    }
}

/// Whether Nova shows the address on the server, so no request is needed.
pub(super) fn is_shown(server: &Server, ip: IpAddr) -> bool {
    let mut shown = server.addresses.values().flatten();
    shown.any(|seen| seen.address == Some(ip))
}

/// What to do about a floating IP that should be on one of the ports of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AttachmentPlan {
    /// No floating IP has the address.
    Gone,
    /// The floating IP is on one of the ports already.
    Attached,
    /// The floating IP is on this port, which does not belong to the server.
    OnAnotherPort(PortId),
    /// This floating IP is on no port. It is put on one of the server's ports.
    Attach(FloatingIpId),
}

/// Decides what to do about the floating IPs `found` by their address. One in the credentials' project takes
/// precedence.
pub(super) fn attachment_plan(
    found: Vec<FloatingIp>,
    project: &ProjectId,
    ports: &[PortId],
) -> AttachmentPlan {
    let is_foreign = |fip: &FloatingIp| fip.project_id.as_ref() != Some(project);
    let Some(fip) = found.into_iter().min_by_key(is_foreign) else {
        return AttachmentPlan::Gone;
    };
    match fip.port_id {
        None => AttachmentPlan::Attach(fip.id),
        Some(there) if ports.contains(&there) => AttachmentPlan::Attached,
        Some(there) => AttachmentPlan::OnAnotherPort(there),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_is_created_once_and_then_its_answer_is_awaited() {
        let claim = |answer: &str| -> IPAddressClaim {
            serde_json::from_value(json!({
                "metadata": {"name": "m1-floating-ip-address"},
                "status": {"addressRef": {"name": answer}},
            }))
            .unwrap()
        };
        let address = |text: &str| -> IPAddress {
            let spec = json!({"address": text});
            serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap()
        };
        let unusable = |text: &str| ClaimPlan::UnusableAddress {
            answer: "a".to_owned(),
            text: text.to_owned(),
        };
        for (claim, address, expected) in [
            (None, None, ClaimPlan::Create),
            (Some(claim("")), None, ClaimPlan::Wait),
            (
                Some(claim("a")),
                None,
                ClaimPlan::NoAddress {
                    answer: "a".to_owned(),
                },
            ),
            (
                Some(claim("a")),
                Some(address("192.0.2.1")),
                ClaimPlan::Use("192.0.2.1".parse().unwrap()),
            ),
            (Some(claim("a")), Some(address("")), unusable("")),
            (Some(claim("a")), Some(address("x")), unusable("x")),
        ] {
            let plan = claim_plan(claim.as_ref(), address.as_ref());
            assert_eq!(plan, expected, "{claim:?} {address:?}");
        }
    }

    #[test]
    fn a_floating_ip_is_put_on_a_server_only_from_no_port() {
        let fip = |id: &str, project: &str, port: Option<&str>| -> FloatingIp {
            serde_json::from_value(json!({"id": id, "project_id": project, "port_id": port}))
                .unwrap()
        };
        let ports = ["p0".into(), "p1".into()];
        for (found, expected) in [
            (vec![], AttachmentPlan::Gone),
            (
                vec![fip("f", "own", None)],
                AttachmentPlan::Attach("f".into()),
            ),
            (
                vec![fip("f", "other", None)],
                AttachmentPlan::Attach("f".into()),
            ),
            (
                vec![fip("f", "other", None), fip("g", "own", None)],
                AttachmentPlan::Attach("g".into()),
            ),
            (
                vec![fip("f", "own", None), fip("g", "own", None)],
                AttachmentPlan::Attach("f".into()),
            ),
            (vec![fip("f", "own", Some("p1"))], AttachmentPlan::Attached),
            (
                vec![fip("f", "own", Some("p2"))],
                AttachmentPlan::OnAnotherPort("p2".into()),
            ),
        ] {
            let plan = attachment_plan(found.clone(), &"own".into(), &ports);
            assert_eq!(plan, expected, "{found:?}");
        }
    }
}
