//! Mends broken members, prunes those of machines that are gone, and guards every removal.

use super::members::{Place, delete, places};
use super::{
    classify::{self, Class},
    desired::Deletion,
    event::Write,
    observer::Operation,
    octavia::Change,
    plan::{self, Todo, on_fresh},
    serves::{self, Serving},
    state::{Machine, Member, Now, Owner, Port, Stage, State},
};
use capo_core::ObjectName;
use capo_core::ProvisioningStatus;

/// Repairs members in ERROR or PENDING for ever, one at a time.
pub(super) fn repair(state: &State, now: &Now) -> Option<Todo> {
    let replacing = state
        .machines
        .values()
        .filter(|machine| !serves::is_leaving(machine))
        .flat_map(|machine| &machine.slots)
        .any(|slot| slot.member.is_none() && slot.deleted.is_some());
    if replacing {
        return None;
    }
    places(state).find_map(|(place, pool)| {
        let Place {
            name,
            machine,
            slot,
            port,
            ..
        } = place;
        let class = classify::slot(slot, port, state.orphan_span());
        if !matches!(class, Class::Error | Class::Orphaned)
            || serves::is_leaving(machine)
            || !slot.attempts.may(now.instant)
        {
            return None;
        }
        let member = place.member()?;
        on_fresh(state, now, || {
            let anew = member.provisioning == ProvisioningStatus::PendingDelete
                || should_replace(state, place, now);
            if anew && may_remove(state, Some((name, machine)), port, member, now) {
                return Some(delete(&place, pool, member));
            }
            Some(place.write(Operation::Repair, place.update(pool, member)))
        })
    })
}

/// Whether to delete and create a broken member anew instead of pushing it again.
fn should_replace(state: &State, place: Place<'_>, now: &Now) -> bool {
    if place.machine.may_be_admitted() {
        return place.slot.put_tried
            && state.machines.iter().any(|(name, machine)| {
                name != place.name
                    && matches!(
                        serves::serves(
                            state,
                            (name, machine),
                            (place.index, place.port),
                            None,
                            false,
                            now
                        ),
                        Serving::Yes(_)
                    )
            });
    }
    let other_may_serve = state.machines.iter().any(|(name, machine)| {
        let slot = machine.slots.get(place.index);
        let member = slot.and_then(|slot| place.port.members.get(slot.member?));
        name != place.name
            && !serves::is_leaving(machine)
            && member.is_some_and(|member| serves::may_serve(state, name, machine, member, now))
    });
    let other_admitted = state
        .machines
        .iter()
        .any(|(name, machine)| name != place.name && machine.may_be_admitted());
    other_may_serve || place.slot.put_tried && !other_admitted
}

/// Removes members whose machines are confirmed gone.
pub(super) fn prune(state: &State, now: &Now) -> Option<Todo> {
    state.ports.iter().find_map(|port| {
        let pool = port.pool.as_ref()?;
        if port.ambiguous.is_some() || pool.provisioning != ProvisioningStatus::Active {
            return None;
        }
        port.members.iter().find_map(|member| {
            let machine = member.name.strip_prefix(&port.prefix)?;
            let lost = member.lost.spans(state.orphan_span());
            if member.owner != Owner::Gone
                || member.provisioning.is_pending() && !lost
                || !plan::is_confirmed_gone(state, machine, now)
            {
                return None;
            }
            on_fresh(state, now, || {
                may_remove(state, None, port, member, now).then(|| {
                    Todo::Write(
                        Write::Prune {
                            port: port.number,
                            machine: machine.to_owned(),
                        },
                        Change::DeleteMember {
                            pool: pool.id.clone(),
                            id: member.id.clone(),
                        },
                    )
                })
            })
        })
    })
}

/// I2: a member that is ACTIVE or may serve is removed beside another one that may; the last of its port only where
/// its gate is open by the list or the bypass, or its Machine is deleting without our hook.
pub(super) fn may_remove(
    state: &State,
    owner: Option<(&ObjectName, &Machine)>,
    port: &Port,
    victim: &Member,
    now: &Now,
) -> bool {
    let serving = victim.provisioning == ProvisioningStatus::Active
        || match owner {
            Some((name, machine)) => serves::may_serve(state, name, machine, victim, now),
            None => {
                victim.admin_up().unwrap_or(true)
                    && victim.weight().unwrap_or(1) > 0
                    && victim.provisioning != ProvisioningStatus::PendingDelete
            }
        };
    if !serving {
        return true;
    }
    let Some(index) = state
        .ports
        .iter()
        .position(|other| other.number == port.number)
    else {
        return false;
    };
    let another = state.machines.iter().any(|(name, machine)| {
        let slot = machine.slots.get(index);
        let member = slot.and_then(|slot| port.members.get(slot.member?));
        !serves::is_leaving(machine)
            && member.is_some_and(|member| {
                // One that was never applied serves nobody yet; one whose details are not read yet may be disabled.
                member.id != victim.id
                    && member.provisioning != ProvisioningStatus::PendingCreate
                    && member.detail.is_some()
                    && serves::may_serve(state, name, machine, member, now)
            })
    });
    if another || state.is_going() {
        return true;
    }
    let Some((name, machine)) = owner else {
        return false;
    };
    match machine.want.deletion {
        Deletion::Unhooked { .. } => true,
        Deletion::AtHook { .. } | Deletion::OutOfBand { .. } => {
            machine.rulings.release.is_open() && machine.stage == Stage::Serving
        }
        // A repair: as the list has it, never admitted and serving nothing.
        Deletion::No | Deletion::Coming { .. } => {
            !machine.may_be_admitted()
                && matches!(
                    serves::serves(state, (name, machine), (index, port), None, true, now),
                    Serving::No(_)
                )
        }
    }
}
