//! What is to be done next inside a load balancer, and where.

use crate::model::{
    call::{Operation, Write},
    clock::Now,
    machine::{Machine, Slot},
    member::Member,
    octavia::Change,
    port::{IndexedPort, Port},
    state::State,
};
use capo_core::{ObjectName, ProvisioningStatus, ids::PoolId, octavia::MemberUpdate};

/// The next thing to do inside a load balancer.
#[derive(Debug)]
pub(crate) enum Todo {
    /// Make this write.
    Write(Write, Change),
    /// List listeners and pools, before one of them is created.
    ListenersAndPools,
    /// Read the tree again, before something is removed or repaired.
    Tree,
}

/// Returns what `todo` returns if the tree is fresh enough to remove or repair something, and a read of the tree
/// otherwise.
pub(crate) fn on_fresh(
    state: &State,
    now: &Now,
    todo: impl FnOnce() -> Option<Todo>,
) -> Option<Todo> {
    if state.is_fresh(now) {
        todo()
    } else {
        Some(Todo::Tree)
    }
}

/// A machine's place in a pool that accepts writes.
#[derive(Clone, Copy)]
pub(crate) struct MemberPlace<'a> {
    pub(crate) name: &'a ObjectName,
    pub(crate) machine: &'a Machine,
    pub(crate) index: usize,
    pub(crate) port: &'a Port,
    pub(crate) slot: &'a Slot,
}

impl<'a> MemberPlace<'a> {
    pub(crate) fn member(&self) -> Option<&'a Member> {
        self.port.members.get(self.slot.member?)
    }

    pub(crate) fn indexed_port(&self) -> IndexedPort<'a> {
        IndexedPort {
            index: self.index,
            port: self.port,
        }
    }

    pub(crate) fn write(&self, operation: Operation, change: Change) -> Todo {
        let write = Write::Member {
            machine: self.name.clone(),
            port: self.port.number,
            operation,
        };
        Todo::Write(write, change)
    }
}

/// The places of every machine, in pools that accept writes at the moment.
pub(crate) fn places(state: &State) -> impl Iterator<Item = (MemberPlace<'_>, &PoolId)> {
    state
        .machines
        .iter()
        .filter(|(_, machine)| !machine.want.paused)
        .flat_map(move |(name, machine)| {
            machine
                .slots
                .iter()
                .zip(&state.ports)
                .enumerate()
                .filter_map(move |(index, (slot, port))| {
                    let pool = port.pool.as_ref()?;
                    let place = MemberPlace {
                        name,
                        machine,
                        index,
                        port,
                        slot,
                    };
                    let accepts_writes = port.ambiguous.is_none()
                        && !slot.has_duplicates
                        && pool.state.provisioning == ProvisioningStatus::Active;
                    accepts_writes.then_some((place, &pool.id))
                })
        })
}

pub(crate) fn delete(place: &MemberPlace<'_>, pool: &PoolId, member: &Member) -> Todo {
    place.write(
        Operation::Delete,
        Change::DeleteMember {
            pool: pool.clone(),
            id: member.id.clone(),
        },
    )
}

/// A PUT of the member's own name and of the fields that are set in `update`.
pub(crate) fn update(pool: &PoolId, member: &Member, update: MemberUpdate) -> Change {
    Change::UpdateMember {
        pool: pool.clone(),
        id: member.id.clone(),
        update: MemberUpdate {
            name: Some(member.name.clone()),
            ..update
        },
    }
}
