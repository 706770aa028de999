//! Which member a machine needs, by what was read of it.

use serde_json::{Value, from_value, json};

use super::*;
use capo_core::GateOverride;
use capo_gate::desired::Deletion;

#[test]
fn the_member_listens_on_the_clusters_network() {
    let seen = |network: &str, address: &str, floating| ServerAddress {
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
    let of_ports: Vec<PortAddress> = addresses
        .iter()
        .filter(|seen| !seen.floating)
        .map(|seen| PortAddress {
            network: seen.network.as_str().into(),
            address: seen.address,
        })
        .collect();
    let of_port = |network| expected_address(&of_ports, network);
    assert_eq!(of_port("cluster"), Some(expected));
    assert_eq!(of_port("other"), Some("192.168.0.1".parse().unwrap()));
    assert_eq!(of_port("none"), None);
}

/// A control-plane machine of which nothing but its names has been read.
fn facts(object: &OpenStackMachine) -> MemberFacts<'_> {
    MemberFacts {
        cluster: ObjectName::new("ns", "c"),
        object,
        machine: None,
        server_object: None,
        network: None,
        seen_addresses: &[],
        expected_addresses: Vec::new(),
        admitted: false,
        paused: false,
        server: ObservedServer {
            state: ServerState::Other,
            read_at: None,
            down_since: None,
        },
        api_server_pod: ObservedCondition::Unknown,
        node: ObservedCondition::Unknown,
    }
}

fn object(metadata: &Value) -> OpenStackMachine {
    let spec = json!({"image": {"id": "i"}, "flavor": {"id": "f"}});
    from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

#[test]
fn the_address_of_the_server_goes_before_that_of_its_ports() {
    let object = object(&json!({"name": "m"}));
    let network: NetworkStatusWithSubnets =
        from_value(json!({"name": "cluster", "id": "n-1"})).unwrap();
    let seen = [ServerAddress {
        network: "cluster".to_owned(),
        address: "10.6.0.5".parse().unwrap(),
        floating: false,
    }];
    let expected = PortAddress {
        network: "n-1".into(),
        address: "10.6.0.7".parse().unwrap(),
    };
    let cases: [(_, &[ServerAddress], _, _); 5] = [
        (Some(&network), &seen, true, Some("10.6.0.5")),
        (Some(&network), &seen, false, Some("10.6.0.5")),
        (Some(&network), &[], true, Some("10.6.0.7")),
        (Some(&network), &[], false, None),
        (None, &seen, true, None),
    ];
    for (network, seen_addresses, is_being_built, address) in cases {
        let expected = is_being_built.then(|| expected.clone());
        let facts = MemberFacts {
            network,
            seen_addresses,
            expected_addresses: expected.into_iter().collect(),
            ..facts(&object)
        };
        let desired = desired_machine(&facts, Timestamp::UNIX_EPOCH);
        let address = address.map(|address| address.parse().unwrap());
        assert_eq!(desired.address, address, "{network:?} {seen_addresses:?}");
    }
}

#[test]
fn the_gates_see_the_objects_around_the_machine() {
    let at = "2026-11-21T10:00:00Z";
    let since: Timestamp = at.parse().unwrap();
    let (alive, deleting) = (json!({"name": "m"}), json!({"deletionTimestamp": at}));
    let held = json!({"annotations": {gate_override::KEY: "hold reason=test"}});
    let bypassed = json!({"annotations": {
        gate_override::KEY: format!("bypass until={at} reason=test"),
    }});
    let machine = |node: &Value| -> Machine {
        from_value(json!({"metadata": {"name": "owner"}, "status": {"nodeRef": node}})).unwrap()
    };
    let (with_node, without_node) = (machine(&json!({"name": "n"})), machine(&Value::Null));
    let server: OpenStackServer = from_value(json!({
        "metadata": {"name": "m", "deletionTimestamp": at},
        "spec": {
            "flavor": "f",
            "image": {"id": "i"},
            "ports": [],
            "sshKeyName": "",
            "identityRef": {"name": "n", "cloudName": "c"},
        },
    }))
    .unwrap();
    let out_of_band = Deletion::OutOfBand { since };
    for (metadata, machine, server_object, deletion, named, has_node) in [
        (&alive, None, None, Deletion::No, None, false),
        (
            &alive,
            Some(&with_node),
            None,
            Deletion::No,
            Some("owner"),
            true,
        ),
        (
            &alive,
            Some(&without_node),
            None,
            Deletion::No,
            Some("owner"),
            false,
        ),
        (&alive, None, Some(&server), out_of_band, None, false),
        (&deleting, None, None, out_of_band, None, false),
    ] {
        let object = object(metadata);
        let facts = MemberFacts {
            machine,
            server_object,
            ..facts(&object)
        };
        let desired = desired_machine(&facts, since);
        let shown = (
            desired.deletion,
            desired.machine.as_deref(),
            desired.has_node,
        );
        assert_eq!(shown, (deletion, named, has_node), "{metadata}");
    }
    let override_at = |metadata: &Value, now| {
        let object = object(metadata);
        desired_machine(&facts(&object), now).gate_override
    };
    assert_eq!(override_at(&alive, since), GateOverride::None);
    let held = override_at(&held, since);
    assert!(matches!(held, GateOverride::Hold { .. }), "{held:?}");
    let before = override_at(&bypassed, Timestamp::UNIX_EPOCH);
    assert!(matches!(before, GateOverride::Bypass { .. }), "{before:?}");
    let after = override_at(&bypassed, since);
    assert!(matches!(after, GateOverride::Refused { .. }), "{after:?}");
}
