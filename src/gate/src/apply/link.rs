//! Links each machine to its members, and finds the owner of every other member.

use crate::model::{
    attempts::Attempts,
    clock::Stamp,
    effect::Effect,
    member::{Member, Owner},
    metric_event::MetricEvent,
    state::State,
};
use capo_core::ProvisioningStatus;

pub(crate) fn count_linked(state: &State) -> usize {
    state
        .machines
        .values()
        .flat_map(|machine| &machine.slots)
        .filter(|slot| slot.member.is_some())
        .count()
}

/// Finds each machine's member in each pool, and the owners of the other members.
pub(crate) fn link(state: &mut State) {
    for (index, port) in state.ports.iter_mut().enumerate() {
        for member in &mut port.members {
            member.owner = if member.name.starts_with(&port.prefix) {
                Owner::NotHandedOver
            } else {
                Owner::Unrelated
            };
        }
        for (name, machine) in &mut state.machines {
            let address = machine.want.address;
            let named = |member: &Member| {
                member.name.strip_prefix(&port.prefix) == Some(name.name.as_str())
            };
            let placed = |member: &Member| {
                member.port == port.number
                    && address.is_none_or(|address| member.address == Some(address))
            };
            let mut found = None;
            let mut foreign = None;
            let mut matches = 0_u32;
            for (position, member) in port.members.iter_mut().enumerate() {
                let named = named(member);
                if named && placed(member) {
                    member.owner = Owner::Ours;
                    matches += 1;
                    found.get_or_insert(position);
                } else if named {
                    // The member has an address that its machine no longer has. It blocks no other member.
                    member.owner = Owner::NameOnly;
                } else if address.is_some() && placed(member) {
                    // A name that capo-rs gives decides before the address does: such a member belongs to a machine
                    // that had the address before.
                    if member.owner == Owner::Unrelated {
                        member.owner = Owner::AddressOnly;
                    }
                    foreign.get_or_insert(position);
                }
            }
            if let Some(slot) = machine.slots.get_mut(index) {
                if slot.member.is_none() && found.is_some() {
                    // The member exists, so an earlier refusal of its creation no longer counts.
                    slot.refusal = None;
                }
                slot.member = found;
                slot.was_seen |= found.is_some();
                slot.foreign = foreign;
                slot.has_duplicates = matches > 1;
            }
        }
    }
}

/// Counts the reads without a member, and records how long a creation or a removal took.
pub(crate) fn count_absences(state: &mut State, began: Stamp, effects: &mut Vec<Effect>) {
    let provider = state.provider;
    let suspect = state.reads.suspect;
    for machine in state.machines.values_mut() {
        for (slot, port) in machine.slots.iter_mut().zip(&state.ports) {
            let member = slot.member.and_then(|index| port.members.get(index));
            let Some(member) = member else {
                if suspect {
                    continue;
                }
                slot.absent_reads = slot.absent_reads.saturating_add(1);
                if let Some(sent) = slot.deleted.filter(|_| slot.absent_reads == 2) {
                    effects.push(Effect::Record(MetricEvent::TimeToRemoved(
                        provider,
                        began.instant.saturating_duration_since(sent),
                    )));
                }
                continue;
            };
            slot.absent_reads = 0;
            if member.provisioning == ProvisioningStatus::Active {
                if let Some((sent, operation)) = slot.posted.take() {
                    effects.push(Effect::Record(MetricEvent::TimeToActive(
                        provider,
                        operation,
                        began.instant.saturating_duration_since(sent),
                    )));
                }
                if slot.deleted.is_none() {
                    slot.put_tried = false;
                    let calm = began
                        .instant
                        .saturating_duration_since(member.since.instant);
                    if calm >= state.settings.warn_after && slot.refusal.is_none() {
                        slot.attempts = Attempts::default();
                    }
                    // A refusal is forgotten once no attempt is due any more.
                    slot.attempts.forget_if_old(began.instant);
                    slot.refusal.take_if(|_| slot.attempts.next.is_none());
                }
            }
        }
    }
}
