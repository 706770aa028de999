use std::time::Duration;

use serde_json::json;

use super::{super::observation::Found, *};
use crate::reconcile::uncertain_create::UNANSWERED;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn ip(last: u8) -> IpAddr {
    IpAddr::from([203, 0, 113, last])
}

fn claim(name: &str) -> IPAddressClaim {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

fn address(claim: &str, last: u8, deleting: bool) -> (String, Address) {
    let object = json!({"metadata": {"name": claim},
        "spec": {"address": ip(last).to_string(), "claimRef": {"name": claim}}});
    let address = Address {
        object: serde_json::from_value(object).unwrap(),
        ip: Some(ip(last)),
        deleting,
        has_finalizer: true,
    };
    (claim.to_owned(), address)
}

/// The claim `a` with this uid.
fn claim_with_uid(uid: &str) -> IPAddressClaim {
    let mut claim = claim("a");
    claim.metadata.uid = Some(uid.to_owned());
    claim
}

/// The address of the claim `a`, with an owner.
fn owned_address(kind: &str, uid: &str) -> (String, Address) {
    let mut address = address("a", 1, false);
    let owners = json!([{"apiVersion": "ipam.cluster.x-k8s.io/v1beta1", "kind": kind, "name": "a", "uid": uid}]);
    address.1.object.metadata.owner_references = serde_json::from_value(owners).unwrap();
    address
}

fn floating(last: u8, allocated_for_pool: bool, port: Option<&str>) -> (IpAddr, Found) {
    let fip = json!({"id": format!("f{last}"), "floating_ip_address": ip(last).to_string(), "port_id": port});
    let fip = serde_json::from_value(fip).unwrap();
    (
        ip(last),
        Found {
            fip,
            allocated_for_pool,
        },
    )
}

fn plan(observed: &Observed, desired: &Desired) -> PoolPlan {
    PoolPlan::of(observed, desired, NOW)
}

#[test]
fn what_the_user_brought_along_comes_first_then_what_is_there_then_something_new() {
    let observed = Observed {
        claims: ["a", "b", "c"].map(claim).into(),
        floating_ips: [floating(1, true, None), floating(9, false, None)].into(),
        ..Observed::default()
    };
    let desired = Desired {
        pre_allocated: vec![ip(9)],
        ..Desired::default()
    };
    let plan = plan(&observed, &desired);
    assert_eq!(
        plan.claims,
        [
            PoolClaimPlan::Give {
                claim: 0,
                ip: ip(9)
            },
            PoolClaimPlan::Give {
                claim: 1,
                ip: ip(1)
            },
            PoolClaimPlan::Allocate { claim: 2 },
        ]
    );
    assert_eq!(plan.shortage, None);
}

#[test]
fn an_address_is_never_given_twice() {
    let desired = Desired {
        pre_allocated: vec![ip(1), ip(2), ip(3), ip(4), ip(5)],
        max: Some(0),
        ..Desired::default()
    };
    let observed = Observed {
        claims: vec![claim("new")],
        addresses: [address("old", 1, false), address("leaving", 2, true)].into(),
        elsewhere: [ip(3)].into(),
        floating_ips: [
            floating(1, false, None),
            floating(2, false, None),
            floating(3, false, None),
            floating(4, false, Some("in-use")),
        ]
        .into(),
        ..Observed::default()
    };
    let plan = plan(&observed, &desired);
    assert_eq!(plan.claims, []);
    assert_eq!(
        plan.shortage,
        Some(Shortage::MaxReached { max: 0, waiting: 1 })
    );
    assert_eq!(failed(&observed, &desired), [ip(5)]);
}

#[test]
fn the_limit_counts_what_is_given_out_and_stops_allocations_alone() {
    let mut observed = Observed {
        claims: ["a", "b", "c"].map(claim).into(),
        addresses: [address("old", 1, false)].into(),
        ..Observed::default()
    };
    let desired = Desired {
        max: Some(2),
        ..Desired::default()
    };
    let short = plan(&observed, &desired);
    assert_eq!(short.claims, [PoolClaimPlan::Allocate { claim: 0 }]);
    assert_eq!(
        short.shortage,
        Some(Shortage::MaxReached { max: 2, waiting: 2 })
    );
    observed.floating_ips = [floating(2, true, None), floating(3, true, None)].into();
    let retained = plan(&observed, &desired);
    assert_eq!(retained.claims.len(), 2);
    assert_eq!(
        retained.shortage,
        Some(Shortage::MaxReached { max: 2, waiting: 1 })
    );
}

#[test]
fn a_creation_whose_answer_was_lost_is_waited_for_and_what_it_made_is_used() {
    let mut observed = Observed {
        claims: vec![claim("a"), claim("b")],
        floating_ips: [floating(1, true, None)].into(),
        creation_until: Some(NOW + UNANSWERED),
        ..Observed::default()
    };
    let desired = Desired::default();
    let waiting = plan(&observed, &desired);
    assert_eq!(
        waiting.claims,
        [PoolClaimPlan::Give {
            claim: 0,
            ip: ip(1)
        }]
    );
    assert!(matches!(waiting.shortage, Some(Shortage::InDoubt { .. })));
    // Neutron may carry the request out two minutes after it was sent.
    let soon = PoolPlan::of(&observed, &desired, NOW + Duration::from_mins(2));
    assert_eq!(soon, waiting);
    let later = NOW + UNANSWERED;
    let over = PoolPlan::of(&observed, &desired, later);
    assert_eq!(over.claims.len(), 2);
    // A pool that is being deleted waits for the creation too.
    observed.claims.clear();
    observed.deleting = true;
    assert_eq!(plan(&observed, &desired).end, PoolEnd::Waits(Vec::new()));
    let gone = PoolPlan::of(&observed, &desired, later).end;
    assert_eq!(gone, PoolEnd::Goes(vec![("f1".into(), ip(1))]));
}

#[test]
fn only_what_was_allocated_is_deleted_and_only_with_the_policy_delete() {
    let observed = Observed {
        addresses: [
            address("given", 1, true),
            address("made", 2, true),
            address("gone", 3, true),
        ]
        .into(),
        floating_ips: [floating(1, false, None), floating(2, true, None)].into(),
        ..Observed::default()
    };
    for delete_released in [true, false] {
        let desired = Desired {
            delete_released,
            ..Desired::default()
        };
        let deleted: Vec<_> = plan(&observed, &desired)
            .releases
            .into_iter()
            .map(|release| (release.address, release.delete.map(|(_, ip)| ip)))
            .collect();
        let made = delete_released.then_some(ip(2));
        assert_eq!(
            deleted,
            [
                ("given".to_owned(), None),
                ("gone".to_owned(), None),
                ("made".to_owned(), made)
            ]
        );
    }
}

#[test]
fn a_pool_waits_for_its_addresses_and_leaves_what_is_in_use() {
    let mut observed = Observed {
        addresses: [address("held", 1, false)].into(),
        floating_ips: [
            floating(1, true, None),
            floating(2, true, Some("port")),
            floating(3, false, None),
        ]
        .into(),
        deleting: true,
        ..Observed::default()
    };
    let desired = Desired::default();
    assert_eq!(
        plan(&observed, &desired).end,
        PoolEnd::Waits(vec!["held".to_owned()])
    );
    observed.addresses.clear();
    assert_eq!(
        plan(&observed, &desired).end,
        PoolEnd::Goes(vec![("f1".into(), ip(1))])
    );
}

#[test]
fn an_address_that_is_there_answers_its_claim_and_another_ones_blocks_it() {
    let mut stranger = address("b", 2, false);
    stranger.1.object.spec.claim_ref.name = "x".to_owned();
    let observed = Observed {
        claims: ["a", "b", "c", "d"].map(claim).into(),
        addresses: [address("a", 1, false), stranger, address("d", 3, true)].into(),
        foreign_names: ["c".to_owned()].into(),
        ..Observed::default()
    };
    assert_eq!(
        plan(&observed, &Desired::default()).claims,
        [
            PoolClaimPlan::Answer { claim: 0 },
            PoolClaimPlan::Blocked {
                claim: "b".to_owned()
            },
            PoolClaimPlan::Blocked {
                claim: "c".to_owned()
            },
            PoolClaimPlan::Waits {
                claim: "d".to_owned()
            },
        ]
    );
}

#[test]
fn an_address_of_an_earlier_claim_of_the_same_name_answers_no_claim() {
    let waits = PoolClaimPlan::Waits {
        claim: "a".to_owned(),
    };
    let answer = PoolClaimPlan::Answer { claim: 0 };
    for (address, expected) in [
        (owned_address("IPAddressClaim", "new"), &answer),
        (owned_address("IPAddressClaim", "old"), &waits),
        // Who made the address gave it no claim as its owner.
        (owned_address("OpenStackFloatingIPPool", "p"), &answer),
        (address("a", 1, false), &answer),
        (address("a", 1, true), &waits),
    ] {
        let observed = Observed {
            claims: vec![claim_with_uid("new")],
            addresses: [address].into(),
            floating_ips: [floating(1, true, None), floating(2, true, None)].into(),
            ..Observed::default()
        };
        let claims = plan(&observed, &Desired::default()).claims;
        assert_eq!(
            claims,
            std::slice::from_ref(expected),
            "{:?}",
            observed.addresses
        );
    }
}

#[test]
fn a_claim_is_answered_as_long_as_the_address_that_it_names_exists() {
    let mut observed = Observed {
        claims: vec![claim("a")],
        addresses: [address("a", 1, false)].into(),
        ..Observed::default()
    };
    observed.claims[0].status.address_ref.name = "a".to_owned();
    let claims = |observed: &Observed| plan(observed, &Desired::default()).claims;
    assert_eq!(claims(&observed), []);
    observed.addresses.clear();
    assert_eq!(claims(&observed), [PoolClaimPlan::Allocate { claim: 0 }]);
    // The claim may have been answered by something else.
    observed.foreign_names = ["a".to_owned()].into();
    assert_eq!(claims(&observed), []);
}

#[test]
fn a_floating_ip_in_use_is_deleted_once_it_is_free() {
    let other = |deleting| ("other".to_owned(), address("other", 3, deleting).1);
    let mut observed = Observed {
        addresses: [
            address("on-port", 1, true),
            address("elsewhere", 2, true),
            address("twice", 3, true),
            other(false),
        ]
        .into(),
        floating_ips: [
            floating(1, true, Some("port")),
            floating(2, true, None),
            floating(3, true, None),
        ]
        .into(),
        elsewhere: [ip(2)].into(),
        used_elsewhere: [ip(2)].into(),
        ..Observed::default()
    };
    let mut desired = Desired {
        delete_released: true,
        ..Desired::default()
    };
    let releases = |observed: &Observed, desired: &Desired| {
        let plan = plan(observed, desired);
        let releases = plan.releases.into_iter();
        let deleted: Vec<_> = releases
            .map(|release| release.delete.map(|(_, ip)| ip))
            .collect();
        (plan.held, deleted)
    };
    let all = ["elsewhere", "on-port", "twice"].map(str::to_owned);
    assert_eq!(releases(&observed, &desired), (all.into(), vec![]));
    observed.deleting = true;
    let end = plan(&observed, &desired).end;
    assert!(matches!(end, PoolEnd::Waits(_)), "{end:?}");
    // Nothing is deleted, so nothing is held.
    desired.delete_released = false;
    assert_eq!(releases(&observed, &desired), (vec![], vec![None; 3]));
    desired.delete_released = true;
    observed.floating_ips.extend([floating(1, true, None)]);
    // Two `IPAddress`es of one floating IP that are both being deleted do not wait for each other.
    observed.used_elsewhere.clear();
    observed.addresses.extend([other(true)]);
    let deleted = [2, 1, 3, 3].map(|last| Some(ip(last))).to_vec();
    assert_eq!(releases(&observed, &desired), (vec![], deleted));
}
