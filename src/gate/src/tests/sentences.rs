//! The sentences of conditions, by what they are about.

use crate::{
    model::{
        attempts::Refusal, decision::GateCause, desired::ServerState, machine::NamedMachine,
        member::Class, part::PartKind, state::State,
    },
    report::{
        member_messages::{foreign, machines_in, member_class, others, refusals},
        messages::{cause, delay, override_clause},
    },
    tests::{
        pair::{UNHOOKED, machine, member, state, weigh},
        reports::Change,
        world::machine_name,
    },
};
use capo_core::{FailureClass, GateOverride, Provider, ProvisioningStatus};

/// Providers differ in how long a lost operation is waited for.
#[test]
fn the_provider_is_named_while_octavia_works_on_a_member() {
    let cases = [
        (Class::Missing, "does not exist yet"),
        (
            Class::PendingCreate,
            "is PENDING_CREATE (provider profile amphorav2)",
        ),
        (
            Class::PendingUpdate,
            "is PENDING_UPDATE (provider profile amphorav2)",
        ),
        (
            Class::PendingDelete,
            "is PENDING_DELETE (provider profile amphorav2)",
        ),
        (Class::Active, "is ACTIVE"),
        (Class::Error, "is in ERROR; capo-rs repairs it"),
        (
            Class::Orphaned,
            "is PENDING though the load balancer is ACTIVE; capo-rs repairs it (provider profile amphorav2)",
        ),
        (
            Class::Foreign,
            "is ambiguous: a member of another name has its address",
        ),
        (Class::Unknown, "has a status that capo-rs does not know"),
    ];
    for (class, text) in cases {
        assert_eq!(
            member_class(8132, class, Provider::AmphoraV2),
            format!("Its member on port 8132 {text}")
        );
    }
}

#[test]
fn the_cluster_names_the_machines_whose_members_are_meant() {
    let (mut state, _) = state();
    let is_active = "Its member on port 8132 is ACTIVE";
    let text = machines_in(&state, 8132, Class::Active);
    assert_eq!(text, format!("cp-1, cp-2: {is_active}"));
    assert_eq!(machines_in(&state, 1, Class::Active), "");
    member(&mut state, 1, 1).provisioning = ProvisioningStatus::Error;
    let text = machines_in(&state, 8132, Class::Active);
    assert_eq!(text, format!("cp-2: {is_active}"));
    let text = machines_in(&state, 8132, Class::Error);
    let in_error = "Its member on port 8132 is in ERROR; capo-rs repairs it";
    assert_eq!(text, format!("cp-1: {in_error}"));

    // A member of another name at a machine's address is described.
    machine(&mut state, 2).slots[1].foreign = Some(0);
    let text = machines_in(&state, 8132, Class::Foreign);
    let described = foreign(&state, &state.machines[&machine_name(2)], 8132);
    assert_eq!(text, format!("cp-2: {described}"));
    let text = machines_in(&state, 8132, Class::Error);
    assert_eq!(text, format!("cp-1: {in_error}"));
}

#[test]
fn two_members_with_the_name_and_address_of_a_machine_are_described_as_such() {
    let (mut state, _) = state();
    machine(&mut state, 1).slots[1].has_duplicates = true;
    let described = "More than one member of port 8132 has the machine's name and address, so capo-rs writes nothing";
    let name = machine_name(1);
    assert_eq!(foreign(&state, &state.machines[&name], 8132), described);
    assert_eq!(
        machines_in(&state, 8132, Class::Foreign),
        format!("cp-1: {described}")
    );
}

#[test]
fn what_octavia_refuses_is_quoted_for_the_machine_and_the_port() {
    let (mut state, now) = state();
    let refusal = |message: &str| Refusal {
        class: FailureClass::Quota,
        message: message.to_owned(),
        since: now.instant,
    };
    machine(&mut state, 1).slots[1].refusal = Some(refusal("too many"));
    machine(&mut state, 2).slots[1].refusal = Some(refusal("far too many"));
    let text = |machine: Option<u8>, port| {
        let name = machine.map(machine_name);
        refusals(&state, name.as_ref(), port)
    };
    let refused = "Octavia did not create the member: ";
    for (machine, quoted) in [
        (None, "cp-1 on port 8132: too many"),
        (Some(1), "cp-1 on port 8132: too many"),
        (Some(2), "cp-2 on port 8132: far too many"),
    ] {
        assert_eq!(text(machine, 8132), format!("{refused}{quoted}"));
    }
    assert_eq!(text(None, 6443), refused);
}

#[test]
fn a_held_release_says_of_each_other_machine_why_it_does_not_serve() {
    let text = |change: Change| {
        let (mut state, now) = state();
        state.last_step = Some(now);
        change(&mut state, &now);
        others(&state, &machine_name(1), 8132)
    };
    let cases: [(Change, &str); 9] = [
        (|_, _| (), "its member has been ONLINE for long enough"),
        (
            |state, _| machine(state, 2).want.server.read_at = None,
            "its server is being read again",
        ),
        (
            |state, _| member(state, 2, 1).detail = None,
            "its member's weight is being read",
        ),
        (
            |state, _| machine(state, 2).slots[1].member = None,
            "it has no member",
        ),
        (
            |state, _| member(state, 2, 1).provisioning = ProvisioningStatus::Error,
            "its member is not ACTIVE",
        ),
        (
            |state, _| weigh(state, 2, 1, 1, false),
            "its member is disabled",
        ),
        (
            |state, _| weigh(state, 2, 1, 0, true),
            "its member has weight 0",
        ),
        (
            |state, _| machine(state, 2).want.deletion = UNHOOKED,
            "its Machine is being deleted",
        ),
        (
            |state, _| machine(state, 2).want.server.state = ServerState::Shutoff,
            "its server is not ACTIVE",
        ),
    ];
    for (change, why) in cases {
        let expected = format!("No other member is known to serve port 8132 (cp-2: {why})");
        assert_eq!(text(change), expected);
    }
    let alone = text(|state, _| {
        state.machines.remove(&machine_name(2));
    });
    assert_eq!(alone, "It is the only member of port 8132");
    assert_eq!(text(|state, _| state.last_step = None), "");
    let (mut state, now) = state();
    state.last_step = Some(now);
    assert_eq!(others(&state, &machine_name(1), 1), "");
}

#[test]
fn the_cluster_says_how_long_members_have_been_pending() {
    let (mut state, _) = state();
    let far_longer = "; members have been PENDING for far longer than Octavia usually takes";
    let stuck = "; members are stuck in a PENDING status";
    for (alerted, is_stuck, expected) in [
        (0, 0, ""),
        (1, 0, far_longer),
        (2, 0, far_longer),
        (1, 1, stuck),
        (2, 2, stuck),
    ] {
        (state.summary.alerted, state.summary.stuck) = (alerted, is_stuck);
        assert_eq!(delay(&state), expected, "{alerted} {is_stuck}");
    }
}

#[test]
fn a_cause_names_what_it_is_about() {
    let (mut state, now) = state();
    state.ports[1].refusal = Some(Refusal {
        class: FailureClass::Quota,
        message: "too many".to_owned(),
        since: now.instant,
    });
    let name = machine_name(1);
    let text = |state: &State, found| {
        let machine = &state.machines[&name];
        cause(
            state,
            Some(NamedMachine {
                name: &name,
                machine,
            }),
            found,
        )
    };
    let missing = |port| GateCause::PartMissing(port, PartKind::Pool);
    assert_eq!(
        text(&state, missing(8132)),
        "The pool of port 8132 does not exist yet: too many"
    );
    assert_eq!(
        text(&state, missing(6443)),
        "The pool of port 6443 does not exist yet"
    );
    // Only a member of another name is described; the class says enough of the machine's own one.
    machine(&mut state, 1).slots[1].foreign = Some(0);
    let described = foreign(&state, &state.machines[&name], 8132);
    let of_class = |class| text(&state, GateCause::Member(8132, class));
    assert_eq!(of_class(Class::Foreign), described);
    assert_eq!(of_class(Class::Active), "Its member on port 8132 is ACTIVE");

    assert_eq!(
        text(&state, GateCause::Ambiguous),
        "In the load balancer two objects have the same name; nothing is written"
    );
    state.ports[1].ambiguous = Some("two pools are called p".to_owned());
    assert_eq!(
        text(&state, GateCause::Ambiguous),
        "In the load balancer two pools are called p; nothing is written"
    );
    state.claimed_by = Some(machine_name(9));
    assert_eq!(
        text(&state, GateCause::Ambiguous),
        "OpenStackCluster n/cp-9 claims the same load balancer; nothing is written"
    );
}

#[test]
fn every_annotation_of_the_operator_is_named_and_one_in_force_before_others() {
    let (mut state, now) = state();
    let reason = || "r".to_owned();
    let bypass = |until| GateOverride::Bypass {
        until,
        reason: reason(),
    };
    let later = jiff::Timestamp::MAX;
    let ended = jiff::Timestamp::UNIX_EPOCH;
    let hold = || GateOverride::Hold { reason: reason() };
    let refused = GateOverride::Refused {
        message: "no reason".to_owned(),
    };
    for (of_machine, of_cluster, text) in [
        (GateOverride::None, GateOverride::None, String::new()),
        (
            hold(),
            bypass(later),
            format!("; bypassed by the operator until {later}: r"),
        ),
        (
            bypass(ended),
            hold(),
            "; held by the operator: r".to_owned(),
        ),
        (
            bypass(ended),
            refused,
            "; the operator's annotation is refused: no reason".to_owned(),
        ),
        (
            bypass(ended),
            GateOverride::None,
            format!("; the operator's bypass ended at {ended}"),
        ),
    ] {
        machine(&mut state, 1).want.gate_override = of_machine;
        state.desired.as_mut().unwrap().cluster.gate_override = of_cluster;
        let about = state.machines.get(&machine_name(1));
        assert_eq!(override_clause(&state, about, &now), text);
    }
}
