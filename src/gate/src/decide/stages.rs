//! Carries a release by the rules through its stages: drain, remove, confirm; or calls it off.

use crate::{
    decide::{
        evaluation::{Evaluation, Needs},
        freshness::lists_are_fresh,
        precedence, serving,
    },
    model::{
        clock::Now,
        evidence::Others,
        machine::{Asked, Machine, Stage},
        port::Port,
        state::State,
    },
};
use capo_core::{ObjectName, ProvisioningStatus};

/// One release at a time, oldest deletion first; one that has begun goes on.
pub(crate) fn carry_release(
    state: &mut State,
    evaluations: &[Evaluation],
    now: &Now,
    needs: &mut Needs,
) {
    if !evaluations.iter().any(|evaluation| evaluation.ruled) {
        state.releasing = None;
        return;
    }
    let ruled = |state: &State, wanted: &ObjectName| {
        state
            .machines
            .iter()
            .zip(evaluations)
            .any(|((name, _), evaluation)| name == wanted && evaluation.ruled)
    };
    let current = state.releasing.take().filter(|name| ruled(state, name));
    let chosen = current.or_else(|| {
        state
            .machines
            .iter()
            .zip(evaluations)
            .filter(|(_, evaluation)| evaluation.ruled)
            .min_by_key(|((name, machine), _)| {
                // After a pause the one that had begun goes on.
                let waits = machine.stage == Stage::Serving;
                (waits, machine.want.deletion.since(), *name)
            })
            .map(|((name, _), _)| name.clone())
    });
    let Some(name) = chosen else { return };
    let held = state
        .machines
        .get(&name)
        .and_then(|machine| machine.asked)
        .map(|asked| asked.since.instant);
    let others = serving::others_serve(state, &name, held, now);
    let fresh = state.is_fresh(now) && precedence::blind(state, now).is_none();
    let listed = lists_are_fresh(state, now);
    let grace = state.settings.drain_grace;
    let patience = state.settings.warn_after;
    let drains = state.provider.drains();
    let mut dirty = false;
    if let Some(machine) = state.machines.get_mut(&name) {
        machine.others = Some(others);
        let before = machine.stage;
        if before == Stage::Serving {
            if matches!(others, Others::Serve(_)) {
                needs.tree |= !fresh;
                needs.lists |= !listed;
                if fresh && listed {
                    machine.stage = Stage::Draining;
                    machine.drained = None;
                    machine.restoring = false;
                }
            }
            machine.unclear = None;
        } else {
            carry_on(machine, others, fresh, patience, now);
            if machine.stage == Stage::Draining && is_drained(machine, &state.ports, drains) {
                let drained = *machine.drained.get_or_insert(now.instant);
                if now.since(drained) >= grace {
                    machine.stage = Stage::Removing;
                }
            }
            let gone = machine
                .slots
                .iter()
                .all(|slot| slot.member.is_none() && slot.absent_reads >= 2);
            if machine.stage == Stage::Removing && gone && matches!(others, Others::Serve(_)) {
                if fresh {
                    machine.stage = Stage::Released;
                } else {
                    needs.tree = true;
                }
            }
        }
        dirty = machine.stage != before;
    }
    state.dirty |= dirty;
    state.releasing = Some(name);
}

/// A release that has begun is called off when no other one serves any more.
fn carry_on(
    machine: &mut Machine,
    others: Others,
    fresh: bool,
    patience: std::time::Duration,
    now: &Now,
) {
    let off = match others {
        Others::Serve(_) => {
            machine.unclear = None;
            false
        }
        Others::None(..) if fresh => true,
        Others::None(..) | Others::NotYet(..) => {
            let since = *machine.unclear.get_or_insert(now.instant);
            fresh && now.since(since) >= patience
        }
    };
    if off {
        machine.stage = Stage::Serving;
        machine.restoring = true;
        machine.unclear = None;
        machine.drained = None;
        machine.asked = Some(Asked { since: now.stamp() });
        for slot in &mut machine.slots {
            slot.deleted = None;
        }
    }
}

/// No new connections for any member of it, or none that could be kept away.
fn is_drained(machine: &Machine, ports: &[Port], drains: bool) -> bool {
    machine.slots.iter().zip(ports).all(|(slot, port)| {
        let Some(member) = slot.member.and_then(|index| port.members.get(index)) else {
            return true;
        };
        !drains
            || match member.provisioning {
                ProvisioningStatus::Active => {
                    member.weight() == Some(0) || member.admin_up() == Some(false)
                }
                ProvisioningStatus::Error => true,
                _ => member.lost.reads >= 3,
            }
    })
}
