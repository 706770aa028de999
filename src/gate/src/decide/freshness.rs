//! Whether what was read is new enough to decide on.

use std::time::Instant;

use crate::model::{clock::Now, port::Port, state::State};

/// Whether the member lists were requested after our last write and are still fresh.
pub(crate) fn lists_are_fresh(state: &State, now: &Now) -> bool {
    state
        .ports
        .iter()
        .all(|port| port_is_listed(state, port, now))
}

pub(crate) fn port_is_listed(state: &State, port: &Port, now: &Now) -> bool {
    port.pool.is_none()
        || port.listed.is_some_and(|listed| {
            now.since(listed) <= state.fresh_for()
                && state.last_write.is_none_or(|write| listed >= write)
        })
}

/// Whether the tree stays fresh until a call that is sent now is answered.
pub(crate) fn tree_lasts(state: &State, now: &Now) -> bool {
    state.is_fresh(now)
        && state
            .reads
            .tree_read_at
            .is_some_and(|read| lasts(state, read.instant, now))
}

/// Whether the list of a port's members stays fresh until a call that is sent now is answered. A list that does not is
/// read together with the tree. If they were read one after the other through a long queue, each of them would be out
/// of date when the other one arrives.
pub(crate) fn list_lasts(state: &State, port: &Port, now: &Now) -> bool {
    port_is_listed(state, port, now) && port.listed.is_none_or(|listed| lasts(state, listed, now))
}

fn lasts(state: &State, read: Instant, now: &Now) -> bool {
    now.since(read).saturating_add(state.reads.waited) <= state.fresh_for()
}
