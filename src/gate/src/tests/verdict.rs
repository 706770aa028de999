//! The cluster's verdict: its cause, what makes the cluster not Ready, what is ready and settled.

use std::time::Duration;

use crate::{
    decide::cluster::summarize,
    model::{
        call::{InFlight, Operation, Purpose, Write},
        clock::{Now, Stamp},
        decision::GateCause,
        desired::ObservedCondition,
        member::Class,
        part::{Part, PartKind},
        state::State,
        summary::Summary,
        trouble::Trouble,
    },
    tests::{
        pair::{STEP, ago, machine, member, state},
        world::machine_name,
    },
};
use capo_core::{FailureClass, GateOverride, Lookup, OperatingStatus, ProvisioningStatus};

pub(crate) fn shown(change: impl FnOnce(&mut State, &Now)) -> Summary {
    let (mut state, now) = state();
    change(&mut state, &now);
    summarize(&state, &now)
}

fn part(state: &mut State, port: usize, kind: PartKind, to: Option<ProvisioningStatus>) {
    let port = &mut state.ports[port];
    match kind {
        PartKind::Listener => set(&mut port.listener, to),
        PartKind::Pool => set(&mut port.pool, to),
        PartKind::Monitor => set(&mut port.monitor, to),
    }
}

fn set<Id>(part: &mut Option<Part<Id>>, to: Option<ProvisioningStatus>) {
    match to {
        Some(status) => part.as_mut().unwrap().state.provisioning = status,
        None => *part = None,
    }
}

#[test]
fn nothing_is_wrong_with_two_that_serve() {
    let found = shown(|_, _| ());
    let expected = Summary {
        initialised: true,
        ready: true,
        settled: true,
        ..Summary::default()
    };
    assert_eq!(found, expected);
}

#[test]
fn the_most_telling_ground_comes_first() {
    use ProvisioningStatus::{Error, PendingUpdate};
    let kinds = [PartKind::Listener, PartKind::Pool, PartKind::Monitor];
    for kind in kinds {
        // Parts of the second port count as much as parts of the first.
        for (port, number) in [(0, 6443), (1, 8132)] {
            let status = |to: Option<ProvisioningStatus>| {
                shown(|state, _| part(state, port, kind, to)).cause
            };
            assert_eq!(
                status(Some(Error)),
                Some(GateCause::PartError(number, kind))
            );
            assert_eq!(status(None), Some(GateCause::PartMissing(number, kind)));
            assert_eq!(
                status(Some(PendingUpdate)),
                Some(GateCause::LoadBalancerPending)
            );
        }
    }
    let table: [(fn(&mut State, &Now), Option<GateCause>); 11] = [
        (
            |state, _| state.desired = None,
            Some(GateCause::NotObserved),
        ),
        (
            |state, _| {
                state.desired.as_mut().unwrap().enabled = false;
                state.reads.tree_read_at = None;
            },
            None,
        ),
        (
            |state, now| {
                state.trouble = Some(Trouble {
                    class: FailureClass::Transient,
                    message: "down".to_owned(),
                    since: now.stamp(),
                    failures: 2,
                    until: now.instant,
                });
                part(state, 0, PartKind::Pool, Some(Error));
            },
            Some(GateCause::Trouble(FailureClass::Transient)),
        ),
        (
            |state, _| {
                state.ports[1].monitor_refused = true;
                part(state, 1, PartKind::Monitor, None);
            },
            None,
        ),
        (
            |state, _| state.balancer.provisioning = Some(PendingUpdate),
            Some(GateCause::LoadBalancerPending),
        ),
        // A member's status takes precedence over a general PENDING, and a part's status over a member's.
        (
            |state, _| {
                state.balancer.provisioning = Some(PendingUpdate);
                member(state, 2, 1).provisioning = Error;
            },
            Some(GateCause::Member(8132, Class::Error)),
        ),
        (
            |state, _| {
                part(state, 1, PartKind::Pool, Some(Error));
                member(state, 2, 0).provisioning = Error;
            },
            Some(GateCause::PartError(8132, PartKind::Pool)),
        ),
        (
            |state, _| {
                for index in [1, 2] {
                    member(state, index, 0).operating = OperatingStatus::Error;
                }
                state.ports[0].none_online.reads = 2;
            },
            Some(GateCause::NoneServes),
        ),
        // In a cluster that waits for its first machine, no machine should serve yet.
        (
            |state, _| {
                state.desired.as_mut().unwrap().cluster.initialised = false;
                for index in [1, 2] {
                    machine(state, index).want.address = None;
                    member(state, index, 0).provisioning = Error;
                }
            },
            None,
        ),
        (
            |state, _| {
                for index in [1, 2] {
                    machine(state, index).want.address = None;
                    member(state, index, 0).provisioning = Error;
                    member(state, index, 0).operating = OperatingStatus::Error;
                }
            },
            Some(GateCause::NoneServes),
        ),
        (
            |state, _| {
                state.ports.clear();
                state.balancer.provisioning = Some(PendingUpdate);
            },
            Some(GateCause::NoneServes),
        ),
    ];
    for (case, (change, expected)) in table.into_iter().enumerate() {
        assert_eq!(shown(change).cause, expected, "case {case}");
    }
}

#[test]
fn some_grounds_count_at_once_and_others_after_a_while() {
    let settings = state().0.settings;
    let warn = settings.warn_after;
    let counts = |age: Option<Duration>, change: &dyn Fn(&mut State)| {
        let found = shown(|state, now| {
            state.balancer.unsettled_since = age.map(|age| ago(now, age));
            change(state);
        });
        assert!(found.cause.is_some());
        found.counts
    };
    let at_once: [&dyn Fn(&mut State); 8] = [
        &|state| state.balancer.not_found = 2,
        &|state| state.desired.as_mut().unwrap().id = capo_core::Lookup::Absent,
        &|state| state.balancer.provisioning = Some(ProvisioningStatus::Error),
        &|state| part(state, 0, PartKind::Listener, None),
        &|state| {
            part(
                state,
                0,
                PartKind::Listener,
                Some(ProvisioningStatus::Error),
            );
        },
        &|state| part(state, 1, PartKind::Pool, None),
        &|state| part(state, 1, PartKind::Pool, Some(ProvisioningStatus::Error)),
        &|state| {
            for index in [1, 2] {
                member(state, index, 0).operating = OperatingStatus::Error;
            }
            state.ports[0].none_online.reads = 2;
        },
    ];
    for (case, change) in at_once.iter().enumerate() {
        assert!(counts(None, change), "case {case}");
    }
    let never: [&dyn Fn(&mut State); 5] = [
        &|state| part(state, 0, PartKind::Monitor, Some(ProvisioningStatus::Error)),
        &|state| part(state, 0, PartKind::Monitor, None),
        &|state| member(state, 1, 0).provisioning = ProvisioningStatus::Error,
        &|state| member(state, 1, 0).provisioning = ProvisioningStatus::PendingCreate,
        &|state| member(state, 1, 1).provisioning = ProvisioningStatus::PendingDelete,
    ];
    for (case, change) in never.iter().enumerate() {
        for since in [warn, settings.alert_after, settings.stuck_after] {
            assert!(!counts(Some(since), change), "case {case}");
        }
    }
    let later: [&dyn Fn(&mut State); 3] = [
        &|state| {
            part(
                state,
                0,
                PartKind::Pool,
                Some(ProvisioningStatus::PendingUpdate),
            );
        },
        // Members that stay PENDING do not hide that the load balancer stays PENDING.
        &|state| {
            state.balancer.provisioning = Some(ProvisioningStatus::PendingUpdate);
            member(state, 1, 0).provisioning = ProvisioningStatus::PendingCreate;
        },
        &|state| state.balancer.provisioning = Some(ProvisioningStatus::PendingUpdate),
    ];
    for (case, change) in later.iter().enumerate() {
        assert!(!counts(None, change), "case {case}");
        assert!(
            !counts(Some(warn.saturating_sub(STEP)), change),
            "case {case}"
        );
        assert!(counts(Some(warn), change), "case {case}");
    }
    let fine = shown(|state, now| state.balancer.unsettled_since = Some(ago(now, warn)));
    assert!(!fine.counts);
}

#[test]
fn members_that_are_pending_too_long_are_counted() {
    let settings = state().0.settings;
    let pending = |age: Duration, status: ProvisioningStatus| {
        let found = shown(|state, now| {
            for port in [0, 1] {
                let wall = now.wall;
                let member = member(state, 1, port);
                member.provisioning = status.clone();
                member.since = Stamp {
                    instant: ago(now, age),
                    wall,
                };
            }
        });
        (found.alerted, found.stuck)
    };
    let (alert, stuck) = (settings.alert_after, settings.stuck_after);
    for (age, expected) in [
        (alert.saturating_sub(STEP), (0, 0)),
        (alert, (2, 0)),
        (stuck.saturating_sub(STEP), (2, 0)),
        (stuck, (2, 2)),
    ] {
        // The world is younger than that: let it be in the past as far as it goes.
        assert_eq!(pending(age, ProvisioningStatus::PendingCreate), expected);
        assert_eq!(pending(age, ProvisioningStatus::Error), (0, 0));
    }
}

#[test]
fn bypasses_are_shown_until_they_run_out() {
    let bypass = |until: jiff::Timestamp| GateOverride::Bypass {
        until,
        reason: "a test".to_owned(),
    };
    for (after, expected) in [(0, (false, 0)), (1, (true, 2))] {
        let found = shown(|state, now| {
            let until = now.wall + Duration::from_nanos(after);
            state.desired.as_mut().unwrap().cluster.gate_override = bypass(until);
            for index in [1, 2] {
                machine(state, index).want.gate_override = bypass(until);
            }
        });
        assert_eq!((found.bypassed, found.bypassed_machines), expected);
    }
    let one = shown(|state, now| {
        machine(state, 2).want.gate_override = bypass(now.wall + STEP);
    });
    assert_eq!((one.bypassed, one.bypassed_machines), (false, 1));
}

#[test]
fn a_control_plane_counts_as_initialised_once_something_has_shown_it() {
    let initialised = |change: fn(&mut State)| {
        shown(|state, now| {
            state.desired.as_mut().unwrap().cluster.initialised = false;
            state.desired.as_mut().unwrap().cluster.ca_pem = Lookup::Absent;
            state.answered = false;
            state.watched_since = Some(ago(now, state.online_span()));
            for machine in state.machines.values_mut() {
                machine.want.node = ObservedCondition::Unknown;
            }
            change(state);
        })
        .initialised
    };
    assert!(!initialised(|_| ()));
    assert!(initialised(|state| state.answered = true));
    // That is not known yet.
    assert!(!initialised(|state| state.watched_since = None));
}

#[test]
fn ready_is_every_part_and_settled_is_all_as_it_is_wanted() {
    let summary = |change: &dyn Fn(&mut State, &Now)| {
        let found = shown(change);
        (found.ready, found.settled)
    };
    let call = |state: &mut State, now: &Now, purpose: Purpose| {
        state.call = Some(InFlight {
            id: 1,
            began: now.stamp(),
            purpose,
            outdated: false,
            sets: None,
        });
    };
    let table: [(&dyn Fn(&mut State, &Now), (bool, bool)); 9] = [
        (&|_, _| (), (true, true)),
        (
            &|state, _| state.balancer.provisioning = Some(ProvisioningStatus::PendingUpdate),
            (false, false),
        ),
        (&|state, _| state.ports.clear(), (false, false)),
        (
            &|state, _| part(state, 1, PartKind::Monitor, Some(ProvisioningStatus::Error)),
            (false, false),
        ),
        (
            &|state, _| member(state, 1, 0).provisioning = ProvisioningStatus::Error,
            (true, false),
        ),
        (
            &|state, now| {
                let machine = machine_name(1);
                let operation = Operation::Repair;
                let write = Write::Member {
                    machine,
                    port: 6443,
                    operation,
                };
                call(state, now, Purpose::Write(write));
            },
            (true, false),
        ),
        (&|state, now| call(state, now, Purpose::Tree), (true, true)),
        (
            &|state, now| state.last_write = Some(now.instant + STEP),
            (true, false),
        ),
        (
            &|state, _| state.desired.as_mut().unwrap().monitor.delay += 1,
            (true, false),
        ),
    ];
    for (case, (change, expected)) in table.into_iter().enumerate() {
        assert_eq!(summary(change), expected, "case {case}");
    }
}
