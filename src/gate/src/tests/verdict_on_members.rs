//! The cluster's verdict on its members: the worst class among them, and whether any member serves.

use std::time::Instant;

use crate::{
    model::{
        attempts::Refusal,
        clock::Now,
        decision::GateCause,
        member::{Class, Owner},
        state::State,
    },
    tests::{
        pair::{UNHOOKED, lose, machine, member},
        verdict::shown,
    },
};
use capo_core::{FailureClass, OperatingStatus, ProvisioningStatus};

#[test]
fn no_machine_serves_when_a_monitor_says_so_of_each_one_twice() {
    let dark = |reads: u32, change: fn(&mut State)| {
        let found = shown(|state, _| {
            for index in [1, 2] {
                member(state, index, 0).operating = OperatingStatus::Error;
            }
            state.ports[0].none_online.reads = reads;
            change(state);
        });
        found.cause
    };
    let none = Some(GateCause::NoneServes);
    assert_eq!(dark(2, |_| ()), none);
    assert_eq!(dark(1, |_| ()), None);
    assert_eq!(
        dark(2, |state| member(state, 2, 0).operating =
            OperatingStatus::Online),
        None
    );
    assert_eq!(
        dark(2, |state| {
            for index in [1, 2] {
                member(state, index, 0).operating = OperatingStatus::NoMonitor;
            }
        }),
        None
    );
    // HAProxy goes on with members whose last change was rejected, as their monitor shows.
    let rejected = |online: bool| {
        let found = shown(|state, _| {
            for index in [1, 2] {
                let member = member(state, index, 0);
                member.provisioning = ProvisioningStatus::Error;
                if !online {
                    member.operating = OperatingStatus::NoMonitor;
                }
            }
        });
        found.cause
    };
    assert_eq!(rejected(true), Some(GateCause::Member(6443, Class::Error)));
    assert_eq!(rejected(false), none);
    // The monitor of the other port does not show whether the endpoint is served.
    assert_eq!(
        shown(|state, _| {
            for index in [1, 2] {
                member(state, index, 1).operating = OperatingStatus::Error;
            }
            state.ports[1].none_online.reads = 2;
        })
        .cause,
        None
    );
}

#[test]
fn the_worst_member_is_told_of() {
    let found = |change: fn(&mut State, &Now)| shown(change).cause;
    let is = |class| Some(GateCause::Member(6443, class));
    let status = |to: &'static str| {
        shown(|state, _| member(state, 1, 0).provisioning = ProvisioningStatus::from(to)).cause
    };
    for (to, class) in [
        ("ERROR", Class::Error),
        ("PENDING_CREATE", Class::PendingCreate),
        ("PENDING_UPDATE", Class::PendingUpdate),
        ("PENDING_DELETE", Class::PendingDelete),
        ("FROZEN", Class::Unknown),
    ] {
        assert_eq!(status(to), is(class));
    }
    assert_eq!(
        found(|state, now| lose(state, now, 0, ProvisioningStatus::PendingUpdate)),
        is(Class::Orphaned)
    );
    assert_eq!(
        found(|state, _| machine(state, 1).slots[0].member = None),
        is(Class::Missing)
    );
    let refused = |state: &mut State| {
        machine(state, 1).slots[0].refusal = Some(Refusal {
            class: FailureClass::Quota,
            message: "no more members".to_owned(),
            since: Instant::now(),
        });
    };
    assert_eq!(
        shown(|state, _| {
            refused(state);
            machine(state, 1).slots[0].member = None;
        })
        .cause,
        Some(GateCause::Refused(6443, FailureClass::Quota))
    );
    assert_eq!(
        shown(|state, _| {
            refused(state);
            member(state, 1, 0).provisioning = ProvisioningStatus::Error;
        })
        .cause,
        is(Class::Error)
    );
    assert_eq!(
        found(|state, _| {
            machine(state, 1).want.address = None;
            member(state, 1, 0).provisioning = ProvisioningStatus::Error;
        }),
        None
    );

    // The classes from the best to the worst. The member of the second port always has the next class.
    let worsening: [fn(&mut State, usize, &Now); 6] = [
        |state, port, _| member(state, 1, port).provisioning = ProvisioningStatus::PendingDelete,
        |state, port, _| member(state, 1, port).provisioning = ProvisioningStatus::PendingCreate,
        |state, port, now| lose(state, now, port, ProvisioningStatus::PendingUpdate),
        |state, port, _| member(state, 1, port).owner = Owner::NameOnly,
        |state, port, _| machine(state, 1).slots[port].member = None,
        |state, port, _| member(state, 1, port).provisioning = ProvisioningStatus::Error,
    ];
    for pair in worsening.windows(2) {
        for (first, second, worst) in [(0, 1, 6443), (1, 0, 8132)] {
            // The worse member is on the port `worst`, before or after the other one.
            let cause = shown(|state, now| {
                pair[1](state, first, now);
                pair[0](state, second, now);
            })
            .cause;
            let Some(GateCause::Member(port, _)) = cause else {
                panic!("{cause:?}");
            };
            assert_eq!(port, worst);
        }
    }
    // Of two members of one class, the first one is shown.
    assert_eq!(
        found(|state, _| {
            member(state, 1, 0).provisioning = ProvisioningStatus::Error;
            member(state, 1, 1).provisioning = ProvisioningStatus::Error;
        }),
        is(Class::Error)
    );
}

#[test]
fn what_leaves_is_told_of_while_something_of_it_is_left() {
    let leaving = |change: fn(&mut State)| {
        shown(|state, _| {
            machine(state, 1).want.deletion = UNHOOKED;
            change(state);
        })
        .cause
    };
    assert_eq!(leaving(|_| ()), None);
    assert_eq!(
        leaving(|state| machine(state, 1).slots[0].member = None),
        None
    );
    for status in ["ERROR", "PENDING_DELETE", "PENDING_UPDATE"] {
        let cause = shown(|state, _| {
            machine(state, 1).want.deletion = UNHOOKED;
            member(state, 1, 0).provisioning = ProvisioningStatus::from(status);
        })
        .cause;
        assert_eq!(cause, Some(GateCause::Removing), "{status}");
    }
    // A leaving member in ERROR neither hides a worse class nor yields to a better one.
    assert_eq!(
        leaving(|state| {
            member(state, 1, 0).provisioning = ProvisioningStatus::PendingDelete;
            machine(state, 2).slots[1].member = None;
        }),
        Some(GateCause::Member(8132, Class::Missing))
    );
}
