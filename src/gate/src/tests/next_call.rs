//! Which call is made next, and with which priority.

use std::time::{Duration, Instant};

use crate::{
    model::{
        call::{Call, Operation, Purpose, Write},
        clock::Now,
        decision::{GateCause, GateDecision},
        desired::Deletion,
        machine::Stage,
        member::Class,
        part::PartKind,
        state::{FRESH, SettlingReads, State},
        trouble::Trouble,
    },
    plan::{next_call, priority_of},
    tests::{
        pair::{STEP, ago, machine, member, state},
        world::machine_name,
    },
};
use capo_core::{FailureClass, Lookup, ObjectName, Priority, ProvisioningStatus};

/// The priority of a call in a state in which nothing is settling and no gate waits, except as `change` makes it.
fn priority(purpose: &Purpose, change: impl FnOnce(&mut State)) -> Priority {
    let (mut state, _) = state();
    change(&mut state);
    priority_of(&state, purpose)
}

const READS: [Purpose; 3] = [
    Purpose::Tree,
    Purpose::TreeAndMembers,
    Purpose::Members(6443),
];
const SLOW_READS: [Purpose; 2] = [Purpose::ListenersAndPools, Purpose::MonitorParameters(6443)];

#[test]
fn a_read_has_the_gates_priority_only_while_a_gate_is_short_of_it() {
    for purpose in READS.iter().chain(&SLOW_READS) {
        assert_eq!(priority(purpose, |_| ()), Priority::Steady, "{purpose:?}");
    }
    let short: [fn(&mut State); 2] = [
        |state| state.reads.wanted = true,
        |state| state.reads.lists_wanted = true,
    ];
    for change in short {
        for purpose in READS {
            assert_eq!(priority(&purpose, change), Priority::Gate, "{purpose:?}");
        }
        for purpose in SLOW_READS {
            assert_eq!(priority(&purpose, change), Priority::Steady, "{purpose:?}");
        }
    }
    let settles: [fn(&mut State); 2] = [
        |state| {
            state.reads.settling = Some(SettlingReads::from(Instant::now()));
        },
        |state| state.reads.health_wanted = true,
    ];
    for change in settles {
        for purpose in READS.iter().chain(&SLOW_READS) {
            assert_eq!(priority(purpose, change), Priority::Settling, "{purpose:?}");
        }
    }
}

#[test]
fn a_read_that_may_open_a_gate_has_its_priority() {
    use Class::{Active, Error, Missing, Orphaned, PendingCreate, PendingDelete, PendingUpdate};
    let member = |class| GateCause::Member(6443, class);
    let cases = [
        (member(Missing), Priority::Gate),
        (member(PendingCreate), Priority::Gate),
        (member(PendingUpdate), Priority::Gate),
        (member(PendingDelete), Priority::Gate),
        (GateCause::NotObserved, Priority::Gate),
        (GateCause::NotFresh, Priority::Gate),
        (GateCause::Draining, Priority::Gate),
        (GateCause::Removing, Priority::Gate),
        // A read does not end these causes. A repair, a proof or the operator does.
        (member(Active), Priority::Steady),
        (member(Error), Priority::Steady),
        (member(Orphaned), Priority::Steady),
        (GateCause::Proving, Priority::Steady),
        (GateCause::OperatorHold, Priority::Steady),
    ];
    for (cause, expected) in cases {
        for gate in 0..3 {
            let found = priority(&Purpose::Tree, |state| {
                let gates = &mut machine(state, 2).gates;
                let gates = [
                    &mut gates.admission,
                    &mut gates.release,
                    &mut gates.finalizer,
                ];
                for (index, decision) in gates.into_iter().enumerate() {
                    *decision = if index == gate {
                        GateDecision::Held(cause)
                    } else {
                        GateDecision::NotEvaluated
                    };
                }
            });
            assert_eq!(found, expected, "{cause:?}, gate {gate}");
        }
    }
}

#[test]
fn a_write_has_the_gates_priority_only_where_a_gate_waits_for_it() {
    let write = |write| Purpose::Write(write);
    let part = PartKind::Pool;
    for waited_for in [
        Write::CreatePart { port: 6443, part },
        Write::Attach { port: 6443 },
    ] {
        assert_eq!(priority(&write(waited_for), |_| ()), Priority::Gate);
    }
    for other in [
        Write::RepairPart { port: 6443, part },
        Write::ReplacePart { port: 6443, part },
        Write::Retype { port: 6443 },
        Write::MonitorParameters { port: 6443 },
        Write::Cidrs { port: 6443 },
        Write::Prune {
            port: 6443,
            member: "m".into(),
        },
    ] {
        assert_eq!(priority(&write(other), |_| ()), Priority::Settling);
    }
    let of = |index| {
        write(Write::Member {
            machine: machine_name(index),
            port: 6443,
            operation: Operation::Create,
        })
    };
    let cases: [(fn(&mut State), Priority); 4] = [
        (|_| (), Priority::Settling),
        (
            |state| machine(state, 1).want.admitted = false,
            Priority::Gate,
        ),
        (|state| machine(state, 1).restoring = true, Priority::Gate),
        (
            |state| {
                machine(state, 1).want.deletion = Deletion::AtHook {
                    since: jiff::Timestamp::UNIX_EPOCH,
                };
            },
            Priority::Gate,
        ),
    ];
    for (case, (change, expected)) in cases.into_iter().enumerate() {
        assert_eq!(priority(&of(1), change), expected, "case {case}");
        assert_eq!(priority(&of(2), change), Priority::Settling, "case {case}");
    }
    assert_eq!(priority(&of(9), |_| ()), Priority::Settling);
}

/// The next call if the next read is due in a minute.
fn call(change: impl FnOnce(&mut State, &Now)) -> Option<Purpose> {
    let (mut state, now) = state();
    for port in &mut state.ports {
        port.listed = Some(now.instant);
    }
    change(&mut state, &now);
    let due = now.instant + Duration::from_secs(60);
    next_call(&state, Some(due), &now).map(|(purpose, _)| purpose)
}

#[test]
fn nothing_is_called_while_nothing_is_due_wanted_or_known() {
    assert_eq!(call(|_, _| ()), None);
    let nothing: [fn(&mut State, &Now); 12] = [
        |state, _| state.desired.as_mut().unwrap().enabled = false,
        |state, _| state.credentials = false,
        |state, _| state.desired.as_mut().unwrap().id = Lookup::Absent,
        |state, _| state.desired.as_mut().unwrap().id = Lookup::Unknown,
        |state, now| {
            state.trouble = Some(Trouble {
                class: FailureClass::Transient,
                message: String::new(),
                since: now.stamp(),
                failures: 1,
                until: now.instant + STEP,
            });
        },
        |state, _| state.reads.tree_read_at = None,
        |state, _| state.reads.suspect = true,
        |state, _| state.balancer.not_found = 1,
        |state, _| state.balancer.provisioning = Some(ProvisioningStatus::PendingUpdate),
        |state, _| state.claimed_by = Some(ObjectName::new("n", "other")),
        |state, _| state.desired.as_mut().unwrap().cluster.paused = true,
        |state, now| state.last_write = Some(now.instant + STEP),
    ];
    for (case, change) in nothing.into_iter().enumerate() {
        // A member that was created disabled waits to be enabled, and nothing is read while it waits.
        let found = call(|state, now| {
            let detail = member(state, 1, 0).detail.as_mut().unwrap();
            detail.admin_up = false;
            detail.tags.push(crate::model::member::JOINING.to_owned());
            state.ports[0].members_due = false;
            machine(state, 1).want.api_server_pod =
                crate::model::desired::ObservedCondition::TrueSince(now.instant);
            change(state, now);
        });
        assert_eq!(found, None, "case {case}");
    }
    let enabled = call(|state, now| {
        let detail = member(state, 1, 0).detail.as_mut().unwrap();
        detail.admin_up = false;
        detail.tags.push(crate::model::member::JOINING.to_owned());
        machine(state, 1).want.api_server_pod =
            crate::model::desired::ObservedCondition::TrueSince(now.instant);
    });
    assert!(matches!(
        enabled,
        Some(Purpose::Write(Write::Member {
            operation: Operation::Enable,
            ..
        }))
    ));
}

#[test]
fn nothing_else_is_read_before_a_tree_that_is_believed() {
    let lists = |change: fn(&mut State)| {
        call(|state, _| {
            state.reads.listeners_and_pools_due = true;
            change(state);
        })
    };
    assert_eq!(lists(|_| ()), Some(Purpose::ListenersAndPools));
    assert_eq!(lists(|state| state.reads.tree_read_at = None), None);
    assert_eq!(lists(|state| state.reads.suspect = true), None);
    assert_eq!(lists(|state| state.balancer.not_found = 1), None);
}

#[test]
fn a_pause_of_the_calls_ends_at_its_time() {
    let paused = |until: fn(&Now) -> Instant| {
        call(|state, now| {
            state.reads.listeners_and_pools_due = true;
            state.trouble = Some(Trouble {
                class: FailureClass::Transient,
                message: String::new(),
                since: now.stamp(),
                failures: 1,
                until: until(now),
            });
        })
    };
    assert_eq!(paused(|now| now.instant + STEP), None);
    assert_eq!(paused(|now| now.instant), Some(Purpose::ListenersAndPools));
}

#[test]
fn what_the_tree_lacks_is_read_in_its_order_unless_the_cluster_is_deleted() {
    let all = |state: &mut State| {
        state.reads.listeners_and_pools_due = true;
        for port in &mut state.ports {
            port.members_due = true;
            port.monitor_parameters_due = true;
        }
    };
    assert_eq!(
        call(|state, _| all(state)),
        Some(Purpose::ListenersAndPools)
    );
    let lists = call(|state, _| {
        all(state);
        state.reads.listeners_and_pools_due = false;
    });
    assert_eq!(lists, Some(Purpose::Members(6443)));
    let second = call(|state, _| {
        all(state);
        state.reads.listeners_and_pools_due = false;
        state.ports[0].members_due = false;
    });
    assert_eq!(second, Some(Purpose::Members(8132)));
    let parameters = call(|state, _| state.ports[1].monitor_parameters_due = true);
    assert_eq!(parameters, Some(Purpose::MonitorParameters(8132)));
    let without_monitor = call(|state, _| {
        state.ports[1].monitor_parameters_due = true;
        state.ports[1].monitor = None;
        state.ports[1].monitor_refused = true;
    });
    assert_eq!(without_monitor, None);
    let deleting = call(|state, _| {
        all(state);
        state.desired.as_mut().unwrap().cluster.cluster_deleting = true;
    });
    assert_eq!(deleting, None);
}

#[test]
fn a_due_read_goes_first_and_has_the_lists_that_the_same_decision_waits_for() {
    let (mut state, now) = state();
    for due in [None, Some(now.instant)] {
        assert!(matches!(
            next_call(&state, due, &now),
            Some((Purpose::Tree, Call::Tree))
        ));
    }
    state.reads.lists_wanted = true;
    for port in &mut state.ports {
        port.listed = None;
    }
    state.ports[0].listed = Some(now.instant);
    let Some((Purpose::TreeAndMembers, Call::TreeAndMembers { pools })) =
        next_call(&state, None, &now)
    else {
        panic!("the lists come with the tree");
    };
    let ports: Vec<u16> = pools.iter().map(|(port, _)| *port).collect();
    assert_eq!(ports, [8132]);
}

#[test]
fn lists_that_a_gate_waits_for_are_read_while_the_tree_lasts() {
    let wanted = |tree: Duration, is_listed: bool| {
        call(|state, now| {
            state.reads.lists_wanted = true;
            state.reads.tree_read_at = Some(crate::model::clock::Stamp {
                instant: ago(now, tree),
                wall: now.wall,
            });
            state.last_write = Some(ago(now, FRESH * 4));
            state.ports[1].listed = is_listed.then_some(now.instant);
        })
    };
    assert_eq!(wanted(Duration::ZERO, true), None);
    assert_eq!(wanted(Duration::ZERO, false), Some(Purpose::Members(8132)));
    assert_eq!(wanted(FRESH, false), Some(Purpose::TreeAndMembers));
    assert_eq!(wanted(FRESH, true), Some(Purpose::Tree));
}

#[test]
fn a_read_for_a_write_follows_the_last_one_after_half_a_second() {
    let removed = |tried: Duration| {
        call(|state, now| {
            machine(state, 1).stage = Stage::Removing;
            machine(state, 1).want.deletion = Deletion::AtHook {
                since: jiff::Timestamp::UNIX_EPOCH,
            };
            machine(state, 1).others = Some(crate::model::evidence::Others::Serve);
            // The last read is too old for a removal, and the next one is not due yet.
            state.reads.tree_read_at = Some(crate::model::clock::Stamp {
                instant: ago(now, FRESH + STEP),
                wall: now.wall,
            });
            state.last_write = Some(ago(now, FRESH * 4));
            state.reads.tree_tried_at = Some(ago(now, tried));
        })
    };
    assert_eq!(removed(Duration::from_millis(499)), None);
    assert_eq!(removed(Duration::from_millis(500)), Some(Purpose::Tree));
}
