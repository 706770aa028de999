//! What the load balancer's task is told about a control-plane machine. Plain functions.

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{
    controllers::{capi::Machine, server::sight::SeenAddress},
    membership::desired::Deletion,
};

/// How far the deletion of a machine is, from its `OpenStackMachine`, its `OpenStackServer` and its
/// Machine. A server's object that is deleted alone takes the API server down all the same.
pub(super) fn deletion(
    ours: &ObjectMeta,
    server: Option<&ObjectMeta>,
    machine: Option<&Machine>,
) -> Deletion {
    let out_of_band = deleted_at(ours)
        .or_else(|| deleted_at(server?))
        .map(|since| Deletion::OutOfBand { since });
    let Some((machine, since)) =
        machine.and_then(|machine| Some((machine, deleted_at(&machine.metadata)?)))
    else {
        return out_of_band.unwrap_or(Deletion::No);
    };
    if !machine.has_our_hook() {
        Deletion::Unhooked { since }
    } else if machine.waits_for_pre_terminate_hook() {
        Deletion::AtHook { since }
    } else {
        out_of_band.unwrap_or(Deletion::Coming { since })
    }
}

fn deleted_at(metadata: &ObjectMeta) -> Option<Timestamp> {
    metadata.deletion_timestamp.as_ref().map(|time| time.0)
}

/// The address on which the machine's API server listens: the first fixed IPv4 address on the
/// cluster's network, or the first fixed one there where it has no IPv4.
pub(super) fn member_address(addresses: &[SeenAddress], network: &str) -> Option<IpAddr> {
    let fixed = || {
        addresses
            .iter()
            .filter(|seen| !seen.floating && seen.network == network)
            .map(|seen| seen.address)
    };
    fixed().find(IpAddr::is_ipv4).or_else(|| fixed().next())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::controllers::capi::HOOK_ANNOTATION;

    fn machine(deleting: bool, hooked: bool, at_hook: bool) -> Machine {
        let mut value = json!({"metadata": {"name": "m", "annotations": {}}, "status": {}});
        if deleting {
            value["metadata"]["deletionTimestamp"] = json!("2026-11-21T10:00:00Z");
        }
        if hooked {
            value["metadata"]["annotations"][HOOK_ANNOTATION] = json!("capo-rs");
        }
        if at_hook {
            value["status"]["conditions"] = json!([{"type": "Deleting", "status": "True",
                "reason": "WaitingForPreTerminateHook", "message": "", "lastTransitionTime": "2026-11-21T10:01:00Z"}]);
        }
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn deletion_step_by_step() {
        let alive = ObjectMeta::default();
        let gone: ObjectMeta =
            serde_json::from_value(json!({"deletionTimestamp": "2026-11-21T11:00:00Z"})).unwrap();
        let since: Timestamp = "2026-11-21T10:00:00Z".parse().unwrap();
        let ours: Timestamp = "2026-11-21T11:00:00Z".parse().unwrap();
        let cases = [
            (&alive, Some(machine(false, true, false)), Deletion::No),
            (&alive, None, Deletion::No),
            (
                &alive,
                Some(machine(true, true, false)),
                Deletion::Coming { since },
            ),
            (
                &alive,
                Some(machine(true, true, true)),
                Deletion::AtHook { since },
            ),
            (
                &alive,
                Some(machine(true, false, true)),
                Deletion::Unhooked { since },
            ),
            (
                &gone,
                Some(machine(true, false, false)),
                Deletion::Unhooked { since },
            ),
            (
                &gone,
                Some(machine(true, true, true)),
                Deletion::AtHook { since },
            ),
            (
                &gone,
                Some(machine(true, true, false)),
                Deletion::OutOfBand { since: ours },
            ),
            (
                &gone,
                Some(machine(false, true, false)),
                Deletion::OutOfBand { since: ours },
            ),
            (&gone, None, Deletion::OutOfBand { since: ours }),
        ];
        for (metadata, machine, expected) in cases {
            assert_eq!(
                deletion(metadata, None, machine.as_ref()),
                expected,
                "{machine:?}"
            );
        }
    }

    #[test]
    fn a_servers_object_deleted_alone_is_out_of_band() {
        let gone: ObjectMeta =
            serde_json::from_value(json!({"deletionTimestamp": "2026-11-21T11:00:00Z"})).unwrap();
        let since: Timestamp = "2026-11-21T11:00:00Z".parse().unwrap();
        let machine = machine(false, true, false);
        assert_eq!(
            deletion(&ObjectMeta::default(), Some(&gone), Some(&machine)),
            Deletion::OutOfBand { since }
        );
    }

    #[test]
    fn the_member_listens_on_the_clusters_network() {
        let seen = |network: &str, address: &str, floating| SeenAddress {
            network: network.to_owned(),
            address: address.parse().unwrap(),
            floating,
        };
        let addresses = [
            seen("other", "192.168.0.1", false),
            seen("cluster", "fd00::5", false),
            seen("cluster", "203.0.113.9", true),
            seen("cluster", "10.6.0.5", false),
            seen("cluster", "10.6.0.6", false),
        ];
        let expected: IpAddr = "10.6.0.5".parse().unwrap();
        assert_eq!(member_address(&addresses, "cluster"), Some(expected));
        assert_eq!(
            member_address(&addresses[..3], "cluster"),
            Some("fd00::5".parse().unwrap())
        );
        assert_eq!(member_address(&addresses, "none"), None);
    }
}
