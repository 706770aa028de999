//! Which member is enabled or created, and what keeps each of these writes back.

use std::time::Duration;

use crate::{
    model::{
        call::Operation,
        clock::{Now, Stamp},
        desired::{ObservedCondition, ServerState},
        evidence::{Lack, Others, Want},
        member::JOINING,
        state::State,
    },
    plan::members,
    tests::{
        member_writes::{Done, NONE, done, refuse},
        pair::{AFTER_HOOK, STEP, UNHOOKED, ago, machine, member, state, weigh},
        world::machine_name,
    },
};
use capo_core::{GateMode, OperatingStatus, ProvisioningStatus};

/// What is done about the first machine's member of the first port, which was created disabled. The machine has no Node
/// yet.
fn enabled(change: impl FnOnce(&mut State, &Now)) -> Done {
    let (mut state, now) = state();
    machine(&mut state, 1).want.has_node = false;
    weigh(&mut state, 1, 0, 1, false);
    let detail = member(&mut state, 1, 0).detail.as_mut().unwrap();
    detail.tags.push(JOINING.to_owned());
    change(&mut state, &now);
    done(members::enable(&state, &now))
}

#[test]
fn a_member_that_joined_is_enabled_when_its_api_server_is_up_or_no_other_one_gets_clients() {
    let enable = || Done::Put {
        operation: Operation::Enable,
        weight: None,
        admin_up: Some(true),
        tags: Some(vec!["t".to_owned()]),
    };
    assert_eq!(enabled(|_, _| ()), Done::Nothing);
    let in_error =
        |state: &mut State, _: &Now| member(state, 2, 0).provisioning = ProvisioningStatus::Error;
    // Octavia has failed to change the member of the other machine, and the monitor finds that it still serves.
    assert_eq!(enabled(in_error), Done::Nothing);
    let yes: [fn(&mut State, &Now); 13] = [
        |state, now| {
            machine(state, 1).want.api_server_pod = ObservedCondition::TrueSince(now.instant);
        },
        |state, _| state.settings.mode = GateMode::Observe,
        |state, _| machine(state, 2).want.api_server_pod = ObservedCondition::False,
        |state, _| machine(state, 2).want.deletion = UNHOOKED,
        |state, _| machine(state, 2).want.server.state = ServerState::Shutoff,
        |state, _| machine(state, 2).want.server.state = ServerState::Absent,
        |state, _| {
            let other = member(state, 2, 0);
            other.provisioning = ProvisioningStatus::Error;
            other.operating = OperatingStatus::Offline;
        },
        // Without a monitor nothing shows whether the data path has the member.
        |state, _| {
            member(state, 2, 0).provisioning = ProvisioningStatus::Error;
            state.ports[0].monitor = None;
        },
        |state, _| member(state, 2, 0).provisioning = ProvisioningStatus::PendingDelete,
        |state, _| member(state, 2, 0).operating = OperatingStatus::Error,
        |state, _| weigh(state, 2, 0, 1, false),
        |state, _| weigh(state, 2, 0, 0, true),
        |state, _| machine(state, 2).slots[0].member = None,
    ];
    for (case, change) in yes.into_iter().enumerate() {
        assert_eq!(enabled(change), enable(), "case {case}");
    }
    // What the list of members would show is not known yet.
    let unread = |state: &mut State, _: &Now| member(state, 2, 0).detail = None;
    assert_eq!(enabled(unread), Done::Nothing);
    let not: [fn(&mut State, &Now); 4] = [
        |state, _| member(state, 1, 0).provisioning = ProvisioningStatus::PendingUpdate,
        |state, _| machine(state, 1).want.deletion = UNHOOKED,
        |state, now| refuse(state, now, 0, false),
        |state, _| {
            let detail = member(state, 1, 0).detail.as_mut().unwrap();
            detail.tags.retain(|tag| tag != JOINING);
        },
    ];
    for (case, change) in not.into_iter().enumerate() {
        let found = enabled(|state, now| {
            machine(state, 1).want.api_server_pod = ObservedCondition::TrueSince(now.instant);
            change(state, now);
        });
        assert_eq!(found, Done::Nothing, "case {case}");
    }
    let again = enabled(|state, now| {
        machine(state, 1).want.api_server_pod = ObservedCondition::TrueSince(now.instant);
        refuse(state, now, 0, true);
    });
    assert_eq!(again, enable());
}

/// An API server that never started would otherwise keep every other one out of service for ever.
#[test]
fn without_a_monitor_a_machine_that_has_no_node_or_an_unhealthy_one_keeps_no_other_one_waiting() {
    for (admitted, has_node, node, is_enabled) in [
        (true, true, ObservedCondition::Unknown, false),
        (true, true, ObservedCondition::False, true),
        (true, false, ObservedCondition::Unknown, true),
        // A Node joins only after the admission of its machine.
        (false, false, ObservedCondition::Unknown, false),
    ] {
        for monitored in [true, false] {
            let found = enabled(|state, _| {
                if !monitored {
                    state.ports[0].monitor = None;
                }
                let other = &mut machine(state, 2).want;
                (other.admitted, other.has_node, other.node) = (admitted, has_node, node);
            });
            let case = format!("{admitted} {has_node} {node:?} {monitored}");
            assert_eq!(found != Done::Nothing, is_enabled && !monitored, "{case}");
        }
    }
}

#[test]
fn without_a_monitor_members_are_enabled_when_cluster_api_has_lost_the_api_server() {
    for (connection, is_enabled) in [
        (ObservedCondition::False, true),
        (ObservedCondition::Unknown, false),
        (
            ObservedCondition::TrueSince(std::time::Instant::now()),
            false,
        ),
    ] {
        for monitored in [true, false] {
            let found = enabled(|state, _| {
                if !monitored {
                    state.ports[0].monitor = None;
                }
                state.desired.as_mut().unwrap().cluster.remote_connection = connection;
            });
            let case = format!("{connection:?} {monitored}");
            assert_eq!(found != Done::Nothing, is_enabled && !monitored, "{case}");
        }
    }
}

/// Cluster API may have its connection back as soon as the first port serves.
#[test]
fn without_a_monitor_the_members_of_a_machine_with_a_node_are_enabled_together() {
    let pending: fn(&mut State) =
        |state| member(state, 1, 1).provisioning = ProvisioningStatus::PendingUpdate;
    let cases: [(fn(&mut State), bool); 5] = [
        (|_| (), true),
        (|state| machine(state, 1).want.has_node = false, false),
        (|state| weigh(state, 1, 1, 1, false), false),
        (pending, false),
        (|state| machine(state, 1).slots[1].member = None, false),
    ];
    for (case, (change, is_enabled)) in cases.into_iter().enumerate() {
        for monitored in [true, false] {
            let found = enabled(|state, _| {
                if !monitored {
                    state.ports[0].monitor = None;
                }
                machine(state, 1).want.has_node = true;
                change(state);
            });
            let case = format!("case {case} {monitored}");
            assert_eq!(found != Done::Nothing, is_enabled && !monitored, "{case}");
        }
    }
}

/// What is done about the first machine, whose member of the first port was absent in two reads.
fn created(change: impl FnOnce(&mut State, &Now)) -> Done {
    let (mut state, now) = state();
    let slot = &mut machine(&mut state, 1).slots[0];
    slot.member = None;
    slot.absent_reads = 2;
    change(&mut state, &now);
    let desired = state.desired.clone().unwrap();
    done(members::create(&state, &desired, &now))
}

#[test]
fn a_member_joins_disabled_beside_one_that_gets_clients() {
    let create = |operation, admin_up: bool| Done::Create {
        operation,
        admin_up,
        tags: if admin_up {
            vec!["t".to_owned()]
        } else {
            vec!["t".to_owned(), JOINING.to_owned()]
        },
    };
    assert_eq!(created(|_, _| ()), create(Operation::Create, false));
    let enabled: [fn(&mut State, &Now); 5] = [
        |state, _| state.settings.mode = GateMode::Observe,
        |state, _| weigh(state, 2, 0, 0, true),
        |state, _| member(state, 2, 0).operating = OperatingStatus::Error,
        |state, _| machine(state, 2).want.api_server_pod = ObservedCondition::False,
        // The hook is gone and the API server runs on. Octavia still shows the other machine, which does not serve, as
        // ONLINE.
        |state, _| {
            machine(state, 1).want.deletion = AFTER_HOOK;
            machine(state, 1).others = Some(Others::None(6443, Lack::Drained));
        },
    ];
    for (case, change) in enabled.into_iter().enumerate() {
        assert_eq!(
            created(change),
            create(Operation::Create, true),
            "case {case}"
        );
    }
    // An old read shows the other member as down, but it may have come up since.
    let old = created(|state, now| {
        member(state, 2, 0).operating = OperatingStatus::Error;
        state.last_write = Some(now.instant + STEP);
    });
    assert_eq!(old, create(Operation::Create, false));
    let replaced = created(|state, now| machine(state, 1).slots[0].deleted = Some(now.instant));
    assert_eq!(replaced, create(Operation::Replace, false));
}

#[test]
fn a_member_is_created_only_where_it_is_known_to_be_missing_and_needed() {
    let not: [fn(&mut State, &Now); 11] = [
        // The other member may have come up since, and whether it is disabled was not read yet.
        |state, now| {
            member(state, 2, 0).operating = OperatingStatus::Error;
            member(state, 2, 0).detail = None;
            state.last_write = Some(now.instant + STEP);
        },
        |state, _| machine(state, 1).want.address = None,
        |state, _| machine(state, 1).slots[0].absent_reads = 0,
        |state, now| {
            machine(state, 1).slots[0].deleted = Some(now.instant);
            machine(state, 1).slots[0].absent_reads = 1;
        },
        |state, _| machine(state, 1).slots[0].foreign = Some(1),
        |state, _| machine(state, 1).want.server.state = ServerState::Absent,
        |state, now| refuse(state, now, 0, false),
        |state, _| machine(state, 1).want.deletion = UNHOOKED,
        |state, _| member(state, 2, 0).detail = None,
        |state, now| {
            // Perhaps an earlier process removed the member for a release that continues.
            machine(state, 1).waiting_since = Some(now.stamp());
            machine(state, 1).others = Some(Others::Serve);
            state.releasing = Some(machine_name(1));
        },
        |state, _| state.ports[0].ambiguous = Some(String::new()),
    ];
    for (case, change) in not.into_iter().enumerate() {
        assert_eq!(created(change), Done::Nothing, "case {case}");
    }
    let yes: [fn(&mut State, &Now); 4] = [
        |state, _| machine(state, 1).slots[0].absent_reads = 1,
        |state, now| refuse(state, now, 0, true),
        |state, now| {
            machine(state, 1).waiting_since = Some(now.stamp());
            machine(state, 1).others = Some(Others::Serve);
        },
        |state, now| {
            machine(state, 1).waiting_since = Some(now.stamp());
            machine(state, 1).others = Some(NONE);
            state.releasing = Some(machine_name(1));
        },
    ];
    for (case, change) in yes.into_iter().enumerate() {
        assert!(
            matches!(created(change), Done::Create { .. }),
            "case {case}"
        );
    }
}

#[test]
fn a_machine_whose_others_are_unclear_for_long_gets_its_member_back() {
    let waits = |so_long: fn(&State) -> Duration| {
        created(|state, now| {
            let since = ago(now, so_long(state));
            let stamp = Stamp {
                instant: since,
                wall: now.wall,
            };
            machine(state, 1).waiting_since = Some(stamp);
            machine(state, 1).others = Some(Others::NotYet(6443, Want::OnlineSpan));
            state.releasing = Some(machine_name(1));
        })
    };
    assert_eq!(
        waits(|state| state.settings.warn_after.checked_sub(STEP).unwrap()),
        Done::Nothing
    );
    assert!(matches!(
        waits(|state| state.settings.warn_after),
        Done::Create { .. }
    ));
}
