//! Repairs broken members, one at a time.

use crate::{
    decide::{classify, serving},
    model::{
        call::Operation, clock::Now, desired::ServerState, evidence::Serving, machine::Machine,
        member::Class, state::State,
    },
    plan::{
        removal_guard::may_remove,
        todo::{MemberPlace, Todo, delete, on_fresh, places, update},
    },
};
use capo_core::{ProvisioningStatus, octavia::MemberUpdate};

/// Repairs members that are in ERROR or stay PENDING, one at a time.
pub(crate) fn repair(state: &State, now: &Now) -> Option<Todo> {
    let is_replacing = |machine: &Machine| {
        let mut slots = machine.slots.iter();
        slots.any(|slot| {
            slot.member.is_none() && slot.deleted.is_some() && !slot.is_backing_off(now.instant)
        })
    };
    // A replacement that can't be completed at the moment does not hold up another one.
    let replacing = state.machines.values().any(|machine| {
        !serving::is_not_needed(state, machine)
            && !machine.want.paused
            && machine.want.server.state != ServerState::Absent
            && is_replacing(machine)
    });
    if replacing {
        return None;
    }
    places(state).find_map(|(place, pool)| {
        let MemberPlace {
            machine,
            slot,
            port,
            ..
        } = place;
        let class = classify::slot(slot, port, state.orphan_span());
        if !matches!(class, Class::Error | Class::Orphaned)
            || serving::is_not_needed(state, machine)
            || !slot.attempts.is_due(now.instant)
        {
            return None;
        }
        let member = place.member()?;
        on_fresh(state, now, || {
            let recreate = member.provisioning == ProvisioningStatus::PendingDelete
                || should_replace(state, place, now);
            if recreate && may_remove(state, Some(machine), port, member, now) {
                return Some(delete(&place, pool, member));
            }
            Some(place.write(
                Operation::Repair,
                update(pool, member, MemberUpdate::default()),
            ))
        })
    })
}

/// Whether a broken member is deleted and created again instead of getting a PUT of its own values.
fn should_replace(state: &State, place: MemberPlace<'_>, now: &Now) -> bool {
    if place.machine.may_be_admitted() {
        return place.slot.put_tried
            && state.machines.iter().any(|(name, machine)| {
                name != place.name
                    && matches!(
                        serving::serves(state, machine, place.indexed_port(), now),
                        Serving::Yes(_)
                    )
            });
    }
    let other_may_serve = state.machines.iter().any(|(name, machine)| {
        let slot = machine.slots.get(place.index);
        let member = slot.and_then(|slot| place.port.members.get(slot.member?));
        name != place.name
            && !serving::is_leaving(machine)
            && member.is_some_and(|member| serving::may_serve(machine, member))
    });
    let other_admitted = state
        .machines
        .iter()
        .any(|(name, machine)| name != place.name && machine.may_be_admitted());
    other_may_serve || place.slot.put_tried && !other_admitted
}
