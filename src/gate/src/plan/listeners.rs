//! Creates listeners, pools and monitors one after the other, repairs them, and keeps their settings as desired.

use std::time::Duration;

use crate::{
    decide::{
        classify,
        desired_settings::{desired_type, has_other_cidrs, has_other_parameters, has_other_type},
    },
    model::{
        call::Write,
        clock::Now,
        desired::{Deletion, LoadBalancerSpec},
        octavia::Change,
        part::{PartId, PartKind, PartState},
        port::Port,
        state::State,
        trouble::Trouble,
    },
    plan::todo::{Todo, on_fresh},
};
use capo_core::{
    MonitorType, ProvisioningStatus,
    octavia::{
        ListenerProtocol, ListenerUpdate, NewHealthMonitor, NewListener, NewPool, PoolProtocol,
    },
};

/// The path that health monitors request. An API server answers it with 200, which Octavia expects, once it is ready.
const READYZ: &str = "/readyz";

/// Creates what is missing, and sends a PUT of its own values to what is broken, port by port.
pub(crate) fn create_or_repair(
    state: &State,
    desired: &LoadBalancerSpec,
    now: &Now,
) -> Option<Todo> {
    state
        .ports
        .iter()
        .filter(|port| port.ambiguous.is_none() && port.attempts.is_due(now.instant))
        .find_map(|port| {
            create(state, desired, port, now).or_else(|| repair(state, desired, port, now))
        })
}

/// Creates a missing listener, pool or monitor. The lists are read before the first POST, because a reply may have been
/// lost, or another process may have created the part.
fn create(state: &State, desired: &LoadBalancerSpec, port: &Port, now: &Now) -> Option<Todo> {
    let missing = port.listener.is_none()
        || port.pool.is_none()
        || port.monitor.is_none() && !port.monitor_refused;
    if !missing {
        return None;
    }
    // Members are written during this pause.
    if Trouble::is_pausing(state.reads.listeners_and_pools_trouble.as_ref(), now) {
        return None;
    }
    if state.reads.listeners_and_pools_due {
        return Some(Todo::ListenersAndPools);
    }
    if port.unseen.is_some() {
        // The list has shown the part. If a newer tree still does not show it, the list is read again.
        let newer = state
            .reads
            .tree_read_at
            .zip(state.reads.listeners_and_pools_read_at)
            .is_some_and(|(tree, list)| tree.instant > list);
        return newer.then_some(Todo::ListenersAndPools);
    }
    let create = |part, change| {
        let port = port.number;
        Some(Todo::Write(Write::CreatePart { port, part }, change))
    };
    let Some(listener) = &port.listener else {
        return create(
            PartKind::Listener,
            Change::CreateListener(NewListener {
                loadbalancer_id: desired.id.found()?.clone(),
                name: port.name.clone(),
                protocol: ListenerProtocol::Tcp,
                protocol_port: port.number,
                allowed_cidrs: desired.allowed_cidrs.clone(),
                tags: desired.tags.clone(),
            }),
        );
    };
    let Some(pool) = &port.pool else {
        if let Some(stray) = &port.stray_pool {
            return Some(Todo::Write(
                Write::Attach { port: port.number },
                Change::UpdateListener {
                    id: listener.id.clone(),
                    name: port.name.clone(),
                    update: ListenerUpdate {
                        default_pool_id: Some(stray.clone()),
                        allowed_cidrs: None,
                    },
                },
            ));
        }
        return create(
            PartKind::Pool,
            Change::CreatePool(NewPool {
                name: port.name.clone(),
                protocol: PoolProtocol::Tcp,
                lb_algorithm: state.provider.algorithm(),
                listener_id: Some(listener.id.clone()),
                loadbalancer_id: None,
                tags: desired.tags.clone(),
            }),
        );
    };
    if pool.state.provisioning != ProvisioningStatus::Active {
        return None;
    }
    let monitor_type = desired_type(port, desired)
        .cloned()
        .unwrap_or(MonitorType::Tcp);
    create(
        PartKind::Monitor,
        Change::CreateMonitor(NewHealthMonitor {
            pool_id: pool.id.clone(),
            name: port.name.clone(),
            url_path: (monitor_type == MonitorType::Https).then(|| READYZ.to_owned()),
            monitor_type,
            parameters: desired.monitor,
        }),
    )
}

/// Sends one PUT of its own values to a part that is in ERROR, or that stays PENDING, under an ACTIVE load balancer. A
/// part that is still in ERROR afterwards is replaced if nothing is lost by that.
fn repair(state: &State, desired: &LoadBalancerSpec, port: &Port, now: &Now) -> Option<Todo> {
    // The pool comes first: while it is broken Octavia refuses every write of a member, and its PUT frees the listener
    // too.
    const ORDER: [PartKind; 3] = [PartKind::Pool, PartKind::Listener, PartKind::Monitor];
    let is_broken = |part: &&PartState| classify::part_is_broken(part, state.orphan_span());
    let kind = ORDER
        .into_iter()
        .find(|kind| port.part(*kind).as_ref().is_some_and(is_broken))?;
    let id = port.part_id(kind)?;
    if kind == PartKind::Monitor {
        // A monitor takes no PUT while its pool is locked.
        port.pool
            .as_ref()
            .filter(|pool| pool.state.provisioning == ProvisioningStatus::Active)?;
    }
    let number = port.number;
    let todo = if may_replace(state, port, &id, now) {
        Todo::Write(
            Write::ReplacePart {
                port: number,
                part: kind,
            },
            Change::DeletePart {
                id,
                name: port.name.clone(),
            },
        )
    } else {
        Todo::Write(
            Write::RepairPart {
                port: number,
                part: kind,
            },
            repair_put(desired, port, id),
        )
    };
    on_fresh(state, now, || Some(todo))
}

/// A PUT of a part's own values.
fn repair_put(desired: &LoadBalancerSpec, port: &Port, id: PartId) -> Change {
    let name = port.name.clone();
    match id {
        PartId::Pool(id) => Change::UpdatePool { id, name },
        PartId::Listener(id) => Change::UpdateListener {
            id,
            name,
            update: ListenerUpdate::default(),
        },
        PartId::Monitor(id) => Change::UpdateMonitor {
            id,
            name,
            parameters: desired.monitor,
        },
    }
}

/// How long a PUT of its own values counts for a part's present failure.
const PUT_COUNTS_FOR: Duration = Duration::from_hours(1);

/// Whether a part that is still in ERROR after a PUT of its own values may be deleted and created again. The deletion
/// of a pool also deletes its members, and the deletion of a listener ends its traffic, so the pool must be empty.
/// While there is no monitor, members get traffic whatever their health is, so no machine may be leaving.
fn may_replace(state: &State, port: &Port, id: &PartId, now: &Now) -> bool {
    let kind = id.kind();
    let was_put = port
        .part(kind)
        .zip(port.last_put.as_ref())
        .is_some_and(|(broken, last_put)| {
            broken.provisioning == ProvisioningStatus::Error
                && *id == last_put.id
                && now.since(last_put.at) < PUT_COUNTS_FOR
        });
    let loses_nothing = match kind {
        PartKind::Listener | PartKind::Pool => port.members.is_empty(),
        PartKind::Monitor => no_machine_leaves(state),
    };
    was_put && loses_nothing
}

/// Whether no machine is being deleted.
fn no_machine_leaves(state: &State) -> bool {
    let mut machines = state.machines.values();
    machines.all(|machine| machine.want.deletion == Deletion::No)
}

/// Deletes a monitor of another type than the desired one, which is then created again. While there is none, members
/// get traffic whatever their health is.
fn retype(state: &State, port: &Port, desired: &LoadBalancerSpec, now: &Now) -> Option<Todo> {
    let monitor = port.monitor.as_ref()?;
    let may = port.retypes.is_due(now.instant) && no_machine_leaves(state);
    if !may || !has_other_type(port, desired) {
        return None;
    }
    let todo = Todo::Write(
        Write::Retype { port: port.number },
        Change::DeletePart {
            id: PartId::Monitor(monitor.id.clone()),
            name: port.name.clone(),
        },
    );
    on_fresh(state, now, || Some(todo))
}

/// Keeps the type and the timing of monitors, and the source ranges of listeners, as desired.
pub(crate) fn update_settings(
    state: &State,
    desired: &LoadBalancerSpec,
    now: &Now,
) -> Option<Todo> {
    state
        .ports
        .iter()
        .filter(|port| port.is_ready() && port.attempts.is_due(now.instant))
        .find_map(|port| {
            retype(state, port, desired, now)
                .or_else(|| update_timing(port, desired))
                .or_else(|| update_cidrs(port, desired))
        })
}

fn update_timing(port: &Port, desired: &LoadBalancerSpec) -> Option<Todo> {
    let monitor = port.monitor.as_ref()?;
    has_other_parameters(port, desired).then(|| {
        Todo::Write(
            Write::MonitorParameters { port: port.number },
            Change::UpdateMonitor {
                id: monitor.id.clone(),
                name: port.name.clone(),
                parameters: desired.monitor,
            },
        )
    })
}

fn update_cidrs(port: &Port, desired: &LoadBalancerSpec) -> Option<Todo> {
    let listener = port.listener.as_ref()?;
    has_other_cidrs(port, desired).then(|| {
        Todo::Write(
            Write::Cidrs { port: port.number },
            Change::UpdateListener {
                id: listener.id.clone(),
                name: port.name.clone(),
                update: ListenerUpdate {
                    default_pool_id: None,
                    allowed_cidrs: desired.allowed_cidrs.clone(),
                },
            },
        )
    })
}
