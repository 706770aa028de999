//! Deletes members that are left over: those of machines that are gone, and those at addresses that their machines no
//! longer have.

use std::time::Duration;

use crate::{
    decide::serving,
    model::{
        call::Write,
        clock::Now,
        effect::Effect,
        member::{Member, Owner},
        octavia::Change,
        port::Port,
        state::{FRESH, MachineLookup, State},
    },
    plan::{
        removal_guard::may_remove,
        todo::{Todo, on_fresh},
    },
};
use capo_core::ProvisioningStatus;

/// Deletes members whose machines are confirmed gone.
pub(crate) fn prune(state: &State, now: &Now) -> Option<Todo> {
    state.ports.iter().find_map(|port| {
        let pool = port.pool.as_ref()?;
        if port.ambiguous.is_some() || pool.state.provisioning != ProvisioningStatus::Active {
            return None;
        }
        port.members.iter().find_map(|member| {
            let machine = member.name.strip_prefix(&port.prefix)?;
            let is_orphaned = member.pending_reads.spans(3, state.orphan_span());
            let is_left_over = match member.owner {
                Owner::NotHandedOver => is_confirmed_gone(state, machine, now),
                Owner::NameOnly => is_replaced(state, machine, member, port),
                Owner::Ours | Owner::AddressOnly | Owner::Unrelated => false,
            };
            if !is_left_over
                || !member.prunes.is_due(now.instant)
                || member.provisioning.is_pending() && !is_orphaned
            {
                return None;
            }
            on_fresh(state, now, || {
                may_remove(state, None, port, member, now).then(|| {
                    Todo::Write(
                        Write::Prune {
                            port: port.number,
                            member: member.id.clone(),
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

/// Whether two reads have shown the member at an address that its machine does not have, and the machine has an ACTIVE
/// member at its own address or is leaving.
fn is_replaced(state: &State, machine: &str, left_over: &Member, port: &Port) -> bool {
    let owner = state
        .machines
        .iter()
        .find(|(name, _)| name.name == machine)
        .map(|(_, machine)| machine);
    let (Some(owner), Some(index)) = (owner, state.port_index(port.number)) else {
        return false;
    };
    let own = owner
        .slots
        .get(index)
        .and_then(|slot| port.members.get(slot.member?));
    let is_active = own.is_some_and(|own| own.provisioning == ProvisioningStatus::Active);
    left_over.ownerless_reads >= 2
        && !owner.want.paused
        && (is_active || serving::is_leaving(owner))
}

/// After how long a machine that is absent is looked up again.
pub(crate) const LOOKUP_AGAIN: Duration = Duration::from_mins(1);

/// Looks up the machines of members whose names have our prefix but whose machine was not handed over.
pub(crate) fn look_up(state: &mut State, now: &Now, effects: &mut Vec<Effect>) {
    let mut gone = state
        .ports
        .iter()
        .flat_map(|port| port.members.iter().map(move |member| (port, member)))
        .filter(|(_, member)| member.owner == Owner::NotHandedOver)
        .peekable();
    if gone.peek().is_none() {
        state.lookups.clear();
        return;
    }
    let mut known = std::mem::take(&mut state.lookups);
    let paused = state.is_paused() || state.claimed_by.is_some();
    let mut lookups = std::collections::BTreeMap::new();
    for (port, member) in gone {
        let Some(machine) = member.name.strip_prefix(&port.prefix) else {
            continue;
        };
        let known = known.remove(machine).or_else(|| lookups.remove(machine));
        let due = known.is_none_or(|lookup: MachineLookup| {
            !lookup.under_way && now.since(lookup.changed_at) >= LOOKUP_AGAIN
        });
        let lookup = if due && !paused && member.ownerless_reads >= 2 && !machine.is_empty() {
            effects.push(Effect::LookUp {
                machine: machine.to_owned(),
            });
            Some(MachineLookup {
                changed_at: now.instant,
                under_way: true,
                absent: false,
            })
        } else {
            known
        };
        if let Some(lookup) = lookup {
            lookups.insert(machine.to_owned(), lookup);
        }
    }
    state.lookups = lookups;
}

/// Whether a lookup has shown that no such machine exists. The result counts for [`LOOKUP_AGAIN`] and [`FRESH`], which
/// is until the next lookup has ended.
pub(crate) fn is_confirmed_gone(state: &State, machine: &str, now: &Now) -> bool {
    state.lookups.get(machine).is_some_and(|lookup| {
        lookup.absent && !lookup.under_way && now.since(lookup.changed_at) <= LOOKUP_AGAIN + FRESH
    })
}
