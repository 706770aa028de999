//! Whether what was read is new enough to decide on.

use crate::model::{clock::Now, port::Port, state::State};

/// The pools' member lists began after our last write, a moment ago.
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
