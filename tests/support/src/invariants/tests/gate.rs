//! Tests of the rules about admission and removal.

use serde_json::json;

use super::*;

#[test]
fn a_good_rollout_breaks_nothing() {
    assert_eq!(rolled().broken(&Promises::default()), []);
}

#[test]
fn admission_before_the_member_was_read_active() {
    let early = joined().without(|what| {
        matches!(what, What::Member(member) if member.key.machine == "b" && member.provisioning == "ACTIVE")
    });
    let broken = early
        .at(64, What::Member(member("b", "ACTIVE")))
        .broken(&Promises::default());
    assert_eq!(
        broken[0].how,
        "b was provisioned although its member on port 6443 was never read ACTIVE at 10.0.0.98; \
         it is PENDING_CREATE at 10.0.0.98"
    );
    // The member is ACTIVE by then, but it was not read since.
    let unread = joined().without(|what| *what == look()).at(40, look());
    assert_eq!(unread.rules(), [Rule::Admission]);
    let without_a_look = joined().without(|what| *what == look());
    assert_eq!(without_a_look.rules(), [Rule::Admission]);
}

#[test]
fn admission_on_a_member_at_another_address() {
    let foreign = joined()
        .without(|what| matches!(what, What::Member(member) if member.key.machine == "b"))
        .at(
            50,
            What::Member(Member {
                address: "10.0.0.9".to_owned(),
                ..member("b", "ACTIVE")
            }),
        );
    assert_eq!(foreign.rules(), [Rule::Admission]);
}

#[test]
fn admission_without_the_member_of_every_port() {
    let What::Cluster(two_ports) = cluster() else {
        unreachable!()
    };
    let two_ports = Cluster {
        ports: vec![PORT, 9345],
        ..two_ports
    };
    assert_eq!(
        joined().at(5, What::Cluster(two_ports)).rules(),
        [Rule::Admission]
    );
}

#[test]
fn admission_of_a_machine_that_was_admitted_is_not_checked_again() {
    let wiped = joined()
        .at(250, What::Member(member("b", "ERROR")))
        .at(260, What::OpenStackMachine(infrastructure("b", false)))
        .at(261, What::OpenStackMachine(infrastructure("b", true)));
    assert_eq!(wiped.rules(), []);
}

#[test]
fn a_hook_that_goes_before_the_member() {
    let early = joined()
        .at(100, What::Machine(deleting("a")))
        .at(150, unhooked("a"));
    let broken = early.broken(&Promises::default());
    assert_eq!(
        broken[0].how,
        "the hook of a went while its member on port 6443 was ACTIVE"
    );
}

#[test]
fn a_hook_that_goes_while_no_other_serves() {
    for (at, what) in [
        (140, What::Member(member("b", "ERROR"))),
        (
            140,
            What::Member(Member {
                weight: 0,
                ..member("b", "ACTIVE")
            }),
        ),
        (
            140,
            What::Member(Member {
                enabled: false,
                ..member("b", "ACTIVE")
            }),
        ),
        (140, What::ApiServer("b".to_owned(), ApiServer::Killed)),
        (140, What::MemberGone(key("b"))),
    ] {
        assert_eq!(
            rolled().at(at, what.clone()).rules(),
            [Rule::Release],
            "{what:?}"
        );
    }
}

#[test]
fn a_release_breaks_no_rule_when_the_cluster_goes_or_an_operator_decided() {
    let early = || {
        calm()
            .at(100, What::Machine(deleting("a")))
            .at(120, remove("a"))
            .at(150, unhooked("a"))
    };
    assert_eq!(early().rules(), [Rule::LastMember, Rule::Release]);
    let excused = Promises {
        excused: vec!["a".to_owned()],
        ..Promises::default()
    };
    assert_eq!(early().rules_of(&excused), []);
    let going = What::Cluster(Cluster {
        going: true,
        ..Cluster::default()
    });
    assert_eq!(early().at(99, going).rules(), []);
    let off = Promises {
        gate: false,
        ..Promises::default()
    };
    assert_eq!(early().rules_of(&off), []);
}

#[test]
fn the_last_member_is_taken_away() {
    for take in [drain("a"), remove("a")] {
        assert_eq!(calm().at(100, take).rules(), [Rule::LastMember]);
    }
    // A member in ERROR may still serve.
    let in_error = calm().at(50, What::Member(member("a", "ERROR")));
    assert_eq!(in_error.at(100, remove("a")).rules(), [Rule::LastMember]);
    // A machine that never joined serves no client.
    let newcomer = calm()
        .at(
            10,
            What::Machine(Machine {
                admitted: false,
                ..machine("b")
            }),
        )
        .at(20, What::Member(member("b", "ERROR")))
        .at(30, remove("b"));
    assert_eq!(newcomer.rules(), []);
}

#[test]
fn the_load_balancer_is_deleted_under_its_machines() {
    let gone = call(
        "loadbalancer_delete",
        "DELETE",
        "/lbaas/loadbalancers/lb",
        json!(null),
    );
    assert_eq!(calm().at(100, gone).rules(), [Rule::LastMember]);
}

#[test]
fn two_leave_at_once() {
    let two = || {
        joined()
            .at(91, What::Machine(machine("c")))
            .at(91, What::Member(member("c", "ACTIVE")))
            .at(91, What::ApiServer("c".to_owned(), ApiServer::Ready))
            .at(100, What::Machine(deleting("a")))
            .at(100, What::Machine(deleting("b")))
            .at(110, drain("a"))
    };
    assert_eq!(two().at(120, drain("b")).rules(), [Rule::OneAtATime]);
    // A member that was enabled again is not being removed any more.
    let restored = call(
        "loadbalancer_member_update",
        "PUT",
        "/lbaas/pools/p/members/id-a",
        json!({"member": {"weight": 1}}),
    );
    assert_eq!(two().at(115, restored).at(120, drain("b")).rules(), []);
}
