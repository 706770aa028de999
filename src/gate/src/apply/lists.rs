//! Applies lists to the state: listeners and pools, including pools that no listener refers to, and the members of a
//! pool.

use crate::model::{clock::Stamp, octavia::ListenersAndPools, part::PartKind, state::State};
use capo_core::octavia::Member;

/// Applies the list of all listeners and pools of the load balancer.
pub(crate) fn listeners_and_pools(state: &mut State, began: Stamp, read: &ListenersAndPools) {
    for port in &mut state.ports {
        let mut ambiguous = None;
        let mut listeners = read
            .listeners
            .iter()
            .filter(|listener| listener.name == port.name);
        let listener = listeners.next();
        if listeners.next().is_some() {
            ambiguous = Some(format!("more than one listener is called {}", port.name));
        }
        if let Some(other) = read
            .listeners
            .iter()
            .find(|other| other.protocol_port == port.number && other.name != port.name)
        {
            ambiguous = Some(format!(
                "listener {} ({}) has port {}, which {} needs",
                other.name, other.id, port.number, port.name
            ));
        }
        let mut pools = read.pools.iter().filter(|pool| pool.name == port.name);
        let pool = pools.next();
        if pools.next().is_some() {
            ambiguous = Some(format!("more than one pool is called {}", port.name));
        }
        if let (Some(listener), Some(default)) = (
            listener,
            listener.and_then(|listener| listener.default_pool_id.as_ref()),
        ) && pool.is_none_or(|pool| pool.id != *default)
        {
            ambiguous = Some(format!(
                "listener {} ({}) has another default pool, {default}",
                listener.name, listener.id
            ));
        }
        port.ambiguous = ambiguous;
        port.stray_pool = match (&port.pool, pool) {
            (None, Some(pool)) => Some(pool.id.clone()),
            _ => None,
        };
        // The list is newer than the tree, whose next read will show the part.
        port.unseen = match (&port.listener, listener) {
            (None, Some(_)) => Some(PartKind::Listener),
            _ => match (&port.pool, &port.monitor, pool) {
                (Some(_), None, Some(pool)) if pool.healthmonitor_id.is_some() => {
                    Some(PartKind::Monitor)
                }
                _ => None,
            },
        };
        if let Some(listener) = listener {
            let mut cidrs = listener.allowed_cidrs.clone();
            cidrs.sort();
            port.cidrs = Some(cidrs);
        }
    }
    state.reads.listeners_and_pools_read_at = Some(began.instant);
    state.reads.listeners_and_pools_due = false;
    state.reads.listeners_and_pools_trouble = None;
}

/// Applies the list of one pool's members, with the weight, admin state and tags that the tree does not show.
pub(crate) fn members(state: &mut State, number: u16, began: Stamp, members: Vec<Member>) {
    let Some(port) = state.ports.iter_mut().find(|port| port.number == number) else {
        return;
    };
    port.listed = Some(began.instant);
    port.members_due = false;
    port.list_trouble = None;
    for read in members {
        let Some(member) = port.members.iter_mut().find(|member| member.id == read.id) else {
            continue;
        };
        member.detail = Some(read.into());
    }
}
