//! Which listener, pool or monitor is created, repaired, replaced or changed next.

use std::time::Duration;

use crate::{
    decide::desired_settings::is_as_desired,
    model::{
        attempts::Attempts,
        call::Write,
        clock::Now,
        desired::Deletion,
        octavia::Change,
        part::{ConsecutiveReads, PartKind},
        port::LastPut,
        state::State,
    },
    plan::{
        listeners::{create_or_repair, update_settings},
        todo::Todo,
    },
    tests::pair::{STEP, ago, machine, state},
};
use capo_core::{MonitorType, ProvisioningStatus, octavia::MonitorParameters};

/// What is done about the second port.
#[derive(Debug, PartialEq, Eq)]
enum Done {
    Nothing,
    /// The lists of listeners and pools come first.
    Lists,
    /// A newer read comes first.
    Read,
    Write(Write),
}

fn done(todo: Option<Todo>) -> Done {
    match todo {
        None => Done::Nothing,
        Some(Todo::ListenersAndPools) => Done::Lists,
        Some(Todo::Tree) => Done::Read,
        Some(Todo::Write(write, _)) => Done::Write(write),
    }
}

fn prepared(change: impl FnOnce(&mut State, &Now)) -> (State, Now) {
    let (mut state, now) = state();
    state.reads.listeners_and_pools_due = false;
    change(&mut state, &now);
    (state, now)
}

fn chosen(change: impl FnOnce(&mut State, &Now)) -> Done {
    let (state, now) = prepared(change);
    let desired = state.desired.clone().unwrap();
    done(create_or_repair(&state, &desired, &now))
}

fn make(part: PartKind) -> Done {
    Done::Write(Write::CreatePart { port: 8132, part })
}

fn without(state: &mut State, kind: PartKind) {
    let port = &mut state.ports[1];
    match kind {
        PartKind::Listener => port.listener = None,
        PartKind::Pool => port.pool = None,
        PartKind::Monitor => port.monitor = None,
    }
}

#[test]
fn a_missing_part_is_made_after_a_list() {
    assert_eq!(chosen(|_, _| ()), Done::Nothing);
    for kind in PartKind::ALL {
        assert_eq!(chosen(|state, _| without(state, kind)), make(kind));
        let listed = chosen(|state, _| {
            without(state, kind);
            state.reads.listeners_and_pools_due = true;
        });
        assert_eq!(listed, Done::Lists, "{kind:?}");
        let kept: [fn(&mut State, &Now); 2] = [
            |state, _| state.ports[1].ambiguous = Some(String::new()),
            |state, now| state.ports[1].attempts.record(now.instant),
        ];
        for change in kept {
            let found = chosen(|state, now| {
                without(state, kind);
                change(state, now);
            });
            assert_eq!(found, Done::Nothing, "{kind:?}");
        }
    }
    let all = chosen(|state, _| {
        for kind in PartKind::ALL {
            without(state, kind);
        }
    });
    assert_eq!(all, make(PartKind::Listener));
    let refused = chosen(|state, _| {
        without(state, PartKind::Monitor);
        state.ports[1].monitor_refused = true;
    });
    assert_eq!(refused, Done::Nothing);
    let locked = chosen(|state, _| {
        without(state, PartKind::Monitor);
        let pool = state.ports[1].pool.as_mut().unwrap();
        pool.state.provisioning = ProvisioningStatus::PendingUpdate;
    });
    assert_eq!(locked, Done::Nothing);
    let stray = chosen(|state, _| {
        without(state, PartKind::Pool);
        state.ports[1].stray_pool = Some("stray".into());
    });
    assert_eq!(stray, Done::Write(Write::Attach { port: 8132 }));
}

#[test]
fn what_the_list_showed_is_not_made_again_and_listed_once_more_if_a_newer_tree_lacks_it() {
    for (list_is_older, expected) in [(true, Done::Lists), (false, Done::Nothing)] {
        let found = chosen(|state, now| {
            without(state, PartKind::Listener);
            state.ports[1].unseen = Some(PartKind::Listener);
            let age = if list_is_older { STEP } else { Duration::ZERO };
            state.reads.listeners_and_pools_read_at = Some(ago(now, age));
        });
        assert_eq!(found, expected);
    }
}

#[test]
fn a_monitor_has_the_desired_type_where_the_provider_can_and_the_port_is_the_endpoints() {
    let chosen = |port: usize, change: fn(&mut State)| {
        let (state, now) = prepared(|state, _| {
            state.ports[port].monitor = None;
            state.desired.as_mut().unwrap().monitor_type = Some(MonitorType::Https);
            change(state);
        });
        let desired = state.desired.clone().unwrap();
        match create_or_repair(&state, &desired, &now) {
            Some(Todo::Write(_, Change::CreateMonitor(new))) => (new.monitor_type, new.url_path),
            other => panic!("{other:?}"),
        }
    };
    let (https, tcp) = (
        (MonitorType::Https, Some("/readyz".to_owned())),
        (MonitorType::Tcp, None),
    );
    assert_eq!(chosen(0, |_| ()), https);
    assert_eq!(chosen(1, |_| ()), tcp);
    assert_eq!(chosen(0, |state| state.ports[0].type_refused = true), tcp);
    let unset = |state: &mut State| state.desired.as_mut().unwrap().monitor_type = None;
    assert_eq!(chosen(0, unset), tcp);
}

fn break_part(state: &mut State, kind: PartKind) {
    let port = &mut state.ports[1];
    let broken = match kind {
        PartKind::Listener => &mut port.listener.as_mut().unwrap().state,
        PartKind::Pool => &mut port.pool.as_mut().unwrap().state,
        PartKind::Monitor => &mut port.monitor.as_mut().unwrap().state,
    };
    broken.provisioning = ProvisioningStatus::Error;
}

/// Makes the second port's pool PENDING under an ACTIVE load balancer for so long that its operation counts as lost.
fn lose_pool(state: &mut State, now: &Now) {
    let span = state.orphan_span();
    let pool = state.ports[1].pool.as_mut().unwrap();
    pool.state.provisioning = ProvisioningStatus::PendingUpdate;
    pool.state.pending_reads = ConsecutiveReads {
        first: Some(ago(now, span)),
        last: Some(now.instant),
        reads: 3,
    };
}

fn put_of(part: PartKind) -> Done {
    Done::Write(Write::RepairPart { port: 8132, part })
}

fn replacement_of(part: PartKind) -> Done {
    Done::Write(Write::ReplacePart { port: 8132, part })
}

#[test]
fn a_broken_part_gets_a_put_the_pool_first() {
    for kind in PartKind::ALL {
        assert_eq!(chosen(|state, _| break_part(state, kind)), put_of(kind));
        let stale = chosen(|state, now| {
            break_part(state, kind);
            state.last_write = Some(now.instant + STEP);
        });
        assert_eq!(stale, Done::Read);
        let with_pool = chosen(|state, _| {
            break_part(state, kind);
            break_part(state, PartKind::Pool);
        });
        assert_eq!(with_pool, put_of(PartKind::Pool));
    }
    // A monitor takes no PUT while its pool is locked.
    let locked = chosen(|state, _| {
        break_part(state, PartKind::Monitor);
        let pool = state.ports[1].pool.as_mut().unwrap();
        pool.state.provisioning = ProvisioningStatus::PendingUpdate;
    });
    assert_eq!(locked, Done::Nothing);
    let is_orphaned = chosen(|state, now| {
        lose_pool(state, now);
    });
    assert_eq!(is_orphaned, put_of(PartKind::Pool));
}

#[test]
fn a_part_that_stays_in_error_after_a_put_is_replaced_where_nothing_is_lost() {
    let after_put = |kind: PartKind, change: fn(&mut State, &Now)| {
        chosen(move |state, now| {
            break_part(state, kind);
            let id = state.ports[1].part_id(kind).unwrap();
            state.ports[1].last_put = Some(LastPut {
                id,
                at: ago(now, Duration::from_secs(60)),
            });
            change(state, now);
        })
    };
    let empty = |state: &mut State, _: &Now| state.ports[1].members.clear();
    for kind in [PartKind::Listener, PartKind::Pool] {
        assert_eq!(after_put(kind, |_, _| ()), put_of(kind));
        assert_eq!(after_put(kind, empty), replacement_of(kind));
    }
    let monitor = PartKind::Monitor;
    assert_eq!(after_put(monitor, |_, _| ()), replacement_of(monitor));
    let not: [fn(&mut State, &Now); 3] = [
        |state, _| {
            machine(state, 1).want.deletion = Deletion::AtHook {
                since: jiff::Timestamp::UNIX_EPOCH,
            };
        },
        |state, now| {
            let at = ago(now, Duration::from_hours(1));
            state.ports[1].last_put.as_mut().unwrap().at = at;
        },
        |state, _| {
            let id = state.ports[1].part_id(PartKind::Pool).unwrap();
            state.ports[1].last_put.as_mut().unwrap().id = id;
        },
    ];
    for (case, change) in not.into_iter().enumerate() {
        assert_eq!(after_put(monitor, change), put_of(monitor), "case {case}");
    }
    let just_in_time = |state: &mut State, now: &Now| {
        let at = ago(now, Duration::from_hours(1)) + STEP;
        state.ports[1].last_put.as_mut().unwrap().at = at;
    };
    assert_eq!(after_put(monitor, just_in_time), replacement_of(monitor));
    // A part that stays PENDING gets a PUT of its own values and is never replaced.
    let is_orphaned = chosen(|state, now| {
        state.ports[1].members.clear();
        let id = state.ports[1].part_id(PartKind::Pool).unwrap();
        state.ports[1].last_put = Some(LastPut {
            id,
            at: now.instant,
        });
        lose_pool(state, now);
    });
    assert_eq!(is_orphaned, put_of(PartKind::Pool));
}

const OTHER: MonitorParameters = MonitorParameters {
    delay: 1,
    timeout: 1,
    max_retries: 1,
    max_retries_down: 1,
};

/// What is done to keep the settings as desired, and whether all of them are.
fn kept(change: impl FnOnce(&mut State, &Now)) -> (Done, bool) {
    let (state, now) = prepared(change);
    let desired = state.desired.clone().unwrap();
    (
        done(update_settings(&state, &desired, &now)),
        is_as_desired(&state),
    )
}

#[test]
fn parameters_and_ranges_are_kept_as_desired() {
    assert_eq!(kept(|_, _| ()), (Done::Nothing, true));
    let parameters = Done::Write(Write::MonitorParameters { port: 8132 });
    let other = |state: &mut State, _: &Now| state.ports[1].monitor_parameters = Some(OTHER);
    assert_eq!(kept(other), (parameters, false));
    let unread = |state: &mut State, _: &Now| {
        state.ports[1].monitor_parameters = None;
        state.ports[1].monitor_parameters_due = true;
    };
    assert_eq!(kept(unread), (Done::Nothing, false));
    let unreadable = |state: &mut State, _: &Now| {
        state.ports[1].monitor_parameters = None;
        state.ports[1].monitor_parameters_due = false;
    };
    assert_eq!(kept(unreadable), (Done::Nothing, true));
    let range = |text: &str| text.parse::<ipnet::IpNet>().unwrap();
    let (one, two) = (range("10.1.0.0/16"), range("10.2.0.0/16"));
    let wanted = |listed: Option<Vec<ipnet::IpNet>>, due: bool| {
        kept(move |state, _| {
            state.desired.as_mut().unwrap().allowed_cidrs = Some(vec![one, two]);
            state.reads.listeners_and_pools_due = due;
            for port in &mut state.ports {
                port.cidrs = Some(vec![two, one]);
            }
            state.ports[1].cidrs = listed;
        })
    };
    let cidrs = || Done::Write(Write::Cidrs { port: 8132 });
    assert_eq!(wanted(Some(vec![two, one]), false), (Done::Nothing, true));
    assert_eq!(wanted(Some(vec![one]), false), (cidrs(), false));
    assert_eq!(
        wanted(Some(vec![one, range("10.3.0.0/16")]), false),
        (cidrs(), false)
    );
    assert_eq!(wanted(Some(Vec::new()), false), (cidrs(), false));
    assert_eq!(wanted(None, true), (Done::Nothing, false));
    assert_eq!(wanted(None, false), (Done::Nothing, true));
    let waits: [fn(&mut State, &Now); 2] = [
        |state, now| state.ports[1].attempts.record(now.instant),
        |state, _| break_part(state, PartKind::Listener),
    ];
    for change in waits {
        let found = kept(|state, now| {
            other(state, now);
            change(state, now);
        });
        assert_eq!(found, (Done::Nothing, false));
    }
    let unlisted = kept(|state, _| state.reads.listeners_and_pools_read_at = None);
    assert_eq!(unlisted, (Done::Nothing, false));
}

#[test]
fn a_monitor_of_another_type_is_deleted_while_no_machine_leaves() {
    let retyped = |change: fn(&mut State, &Now)| {
        kept(move |state, now| {
            state.desired.as_mut().unwrap().monitor_type = Some(MonitorType::Https);
            for port in &mut state.ports {
                port.monitor_type = MonitorType::Tcp;
            }
            change(state, now);
        })
    };
    let retype = Done::Write(Write::Retype { port: 6443 });
    assert_eq!(retyped(|_, _| ()), (retype, false));
    let waits: [fn(&mut State, &Now); 2] = [
        |state, _| {
            machine(state, 1).want.deletion = Deletion::AtHook {
                since: jiff::Timestamp::UNIX_EPOCH,
            };
        },
        |state, now| state.ports[0].retypes = Attempts::inherited(now.instant),
    ];
    for change in waits {
        assert_eq!(retyped(change), (Done::Nothing, false));
    }
    let right: [fn(&mut State, &Now); 3] = [
        |state, _| state.ports[0].monitor_type = MonitorType::Https,
        |state, _| state.ports[0].type_refused = true,
        |state, _| state.ports[0].monitor_type = MonitorType::default(),
    ];
    for change in right {
        assert_eq!(retyped(change), (Done::Nothing, true));
    }
    let stale = retyped(|state, now| state.last_write = Some(now.instant + STEP));
    assert_eq!(stale, (Done::Read, false));
}
