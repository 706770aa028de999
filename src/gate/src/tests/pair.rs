//! Two machines that serve two ports, and ways to change what is known of them.

use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

use crate::{
    model::{
        clock::Now,
        desired::Deletion,
        machine::Machine,
        member::{LEAVING, Member},
        part::ConsecutiveReads,
        state::State,
    },
    tests::world::{World, machine_name},
};
use capo_core::{OperatingStatus, ProvisioningStatus};

/// The smallest step of time in these tests.
pub(crate) const STEP: Duration = Duration::from_millis(1);

/// The deletion of a machine that our hook holds.
pub(crate) const AT_HOOK: Deletion = Deletion::AtHook {
    since: jiff::Timestamp::UNIX_EPOCH,
};
/// The deletion of a machine whose hook capo-rs has removed.
pub(crate) const AFTER_HOOK: Deletion = Deletion::AfterHook {
    since: jiff::Timestamp::UNIX_EPOCH,
};
/// The deletion of a machine without our hook.
pub(crate) const UNHOOKED: Deletion = Deletion::Unhooked {
    since: jiff::Timestamp::UNIX_EPOCH,
};

/// Two machines that serve two ports, read at this moment.
pub(crate) fn state() -> (State, Now) {
    /// Hundreds of rows begin with it, so it is made once.
    static MADE: LazyLock<(State, Now)> = LazyLock::new(make_state);
    MADE.clone()
}

fn make_state() -> (State, Now) {
    let mut world = World::new(&[6443, 8132], Duration::from_secs(1));
    world.controllers = false;
    world.add_serving(1);
    world.add_serving(2);
    world.run(Duration::from_secs(600));
    let now = world.present();
    let mut state = world.state;
    state.reads.tree_read_at = Some(now.stamp());
    for machine in state.machines.values_mut() {
        machine.want.server.read_at = Some(now.instant);
    }
    (state, now)
}

pub(crate) fn machine(state: &mut State, index: u8) -> &mut Machine {
    state.machines.get_mut(&machine_name(index)).unwrap()
}

/// The member of a machine on the first or second port.
pub(crate) fn member(state: &mut State, index: u8, port: usize) -> &mut Member {
    let slot = machine(state, index).slots[port].member.unwrap();
    &mut state.ports[port].members[slot]
}

pub(crate) fn weigh(state: &mut State, index: u8, port: usize, weight: u32, admin_up: bool) {
    let detail = member(state, index, port).detail.as_mut().unwrap();
    (detail.weight, detail.admin_up) = (weight, admin_up);
}

/// Drains the member of a machine for a release, by its weight or by its admin state.
pub(crate) fn drain(state: &mut State, index: u8, port: usize, by_weight: bool) {
    weigh(state, index, port, u32::from(!by_weight), by_weight);
    let detail = member(state, index, port).detail.as_mut().unwrap();
    detail.tags.push(LEAVING.to_owned());
}

pub(crate) fn ago(now: &Now, age: Duration) -> Instant {
    now.instant.checked_sub(age).unwrap()
}

/// Makes every member of this port not ONLINE in `reads` reads over `span`.
pub(crate) fn darken(state: &mut State, now: &Now, port: usize, reads: u32, span: Duration) {
    for member in &mut state.ports[port].members {
        member.operating = OperatingStatus::Error;
        member.online = ConsecutiveReads::default();
    }
    let dark = &mut state.ports[port].none_online;
    (dark.first, dark.last) = (Some(ago(now, span)), Some(now.instant));
    dark.reads = reads;
}

/// Makes the first machine's member of this port PENDING under an ACTIVE load balancer for so long that its operation
/// counts as lost.
pub(crate) fn lose(state: &mut State, now: &Now, port: usize, provisioning: ProvisioningStatus) {
    let span = state.orphan_span();
    let member = member(state, 1, port);
    member.provisioning = provisioning;
    member.pending_reads = ConsecutiveReads {
        first: Some(ago(now, span)),
        last: Some(now.instant),
        reads: 3,
    };
}
