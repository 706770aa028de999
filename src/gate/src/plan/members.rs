//! The one member write that matters most. Everything that removes a member passes [`may_remove`].

use crate::{
    decide::serving,
    model::{
        call::Operation,
        clock::Now,
        decision::GateDecision,
        desired::{Deletion, DesiredLoadBalancer, ServerState},
        evidence::{Others, Serving, Want},
        machine::{Machine, Stage},
        member::JOINING,
        octavia::Change,
        state::State,
    },
    plan::{
        removal_guard::may_remove,
        todo::{Place, Todo, delete, on_fresh, places},
    },
};
use capo_core::{GateMode, ObjectName, ProvisioningStatus};

/// Puts a drained member back in service whose release was called off.
pub(crate) fn restore(state: &State, now: &Now) -> Option<Todo> {
    places(state).find_map(|(place, pool)| {
        let Place { name, machine, .. } = place;
        if machine.asked.is_none()
            || machine.stage != Stage::Serving
            || serving::is_leaving(machine)
        {
            return None;
        }
        let member = place.member()?;
        if member.weight() != Some(0) || member.provisioning.is_pending() && member.lost.reads < 3 {
            return None;
        }
        // Found drained by a process that is gone: back only if it is needed.
        let needed = state.releasing.as_ref() != Some(name)
            || matches!(machine.others, Some(Others::None(..)));
        if !machine.restoring && !needed {
            return None;
        }
        if place.slot.refusal.is_some() && !place.slot.attempts.may(now.instant) {
            return None;
        }
        let mut change = place.update(pool, member);
        if let Change::UpdateMember { weight, .. } = &mut change {
            *weight = Some(1);
        }
        Some(place.write(Operation::Restore, change))
    })
}

/// Lets in a member that joined admin-down.
pub(crate) fn enable(state: &State, now: &Now) -> Option<Todo> {
    places(state).find_map(|(place, pool)| {
        let member = place.member().filter(|member| member.is_joining())?;
        if member.provisioning.is_pending() || serving::is_leaving(place.machine) {
            return None;
        }
        if place.slot.refusal.is_some() && !place.slot.attempts.may(now.instant) {
            return None;
        }
        let against = serving::against(state, place.name, place.machine, now).is_some();
        let up = !against
            && matches!(
                serving::answers(state, place.machine, None, now),
                Serving::Yes(_)
            );
        let may = state.settings.mode != GateMode::Enforce
            || up
            || state.is_guarded(place.port)
            || serving::any_release_is_open(state)
            || others_answer(state, place, now) == Answers::None;
        if !may {
            return None;
        }
        let mut change = place.update(pool, member);
        if let Change::UpdateMember { admin_up, tags, .. } = &mut change {
            *admin_up = Some(true);
            let kept = member.detail.as_ref().map(|detail| {
                let kept = detail.tags.iter().filter(|tag| *tag != JOINING);
                kept.cloned().collect()
            });
            *tags = kept;
        }
        Some(place.write(Operation::Enable, change))
    })
}

/// Whether another member of a port serves, as far as can be told without a monitor's help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answers {
    /// One does, or Cluster API says so and is believed in a moment.
    Some,
    /// Probes, or the list that tells who is disabled, are still out.
    Asked,
    /// None is known to.
    None,
}

fn others_answer(state: &State, place: Place<'_>, now: &Now) -> Answers {
    let mut answers = Answers::None;
    for (name, machine) in &state.machines {
        if name == place.name || serving::is_leaving(machine) {
            continue;
        }
        let member = machine
            .slots
            .get(place.index)
            .and_then(|slot| place.port.members.get(slot.member?));
        let in_service = member.is_some_and(|member| {
            member.provisioning == ProvisioningStatus::Active
                && member.admin_up() != Some(false)
                && member.weight() != Some(0)
        });
        if in_service && member.is_some_and(|member| member.detail.is_none()) {
            answers = Answers::Asked;
            continue;
        }
        if !in_service || serving::against(state, name, machine, now).is_some() {
            continue;
        }
        match serving::answers(state, machine, None, now) {
            Serving::Yes(_) | Serving::NotYet(Want::Conditions) => return Answers::Some,
            Serving::NotYet(Want::Probe) => answers = Answers::Asked,
            Serving::NotYet(_) | Serving::No(_) => {}
        }
    }
    answers
}

/// Drains and removes the members of machines that leave.
pub(crate) fn remove(state: &State, now: &Now) -> Option<Todo> {
    places(state)
        .filter(|(place, _)| serving::is_leaving(place.machine))
        .find_map(|(place, pool)| {
            let Place {
                machine,
                slot,
                port,
                ..
            } = place;
            if matches!(machine.gates.finalizer, GateDecision::Held(cause) if cause.is_a_stop())
                || matches!(machine.gates.release, GateDecision::Held(cause) if cause.is_a_stop())
            {
                return None;
            }
            let member = place.member()?;
            let lost = member.lost.spans(state.orphan_span());
            if member.provisioning.is_pending() && !lost {
                return None;
            }
            let unasked = matches!(machine.want.deletion, Deletion::Unhooked { .. })
                || machine.gates.release.is_open();
            let others = matches!(machine.others, Some(Others::Serve(_)));
            if !unasked && !others {
                return None;
            }
            if !unasked && machine.stage == Stage::Draining {
                let takes_traffic = state.provider.drains()
                    && member.provisioning == ProvisioningStatus::Active
                    && member.weight() != Some(0)
                    && member.admin_up() != Some(false);
                if !takes_traffic || slot.refusal.is_some() && !slot.attempts.may(now.instant) {
                    return None;
                }
                return on_fresh(state, now, || {
                    let mut change = place.update(pool, member);
                    if let Change::UpdateMember { weight, .. } = &mut change {
                        *weight = Some(0);
                    }
                    Some(place.write(Operation::Drain, change))
                });
            }
            let again = slot.deleted.is_some() || slot.refusal.is_some();
            if again && !slot.attempts.may(now.instant) {
                return None;
            }
            on_fresh(state, now, || {
                may_remove(state, Some((place.name, machine)), port, member, now)
                    .then(|| delete(&place, pool, member))
            })
        })
}

/// Makes members that are expected and missing.
pub(crate) fn create(state: &State, desired: &DesiredLoadBalancer, now: &Now) -> Option<Todo> {
    places(state).find_map(|(place, pool)| {
        let Place {
            name,
            machine,
            slot,
            port,
            ..
        } = place;
        let address = machine.want.address?;
        let known_absent = slot.absent_reads >= if slot.deleted.is_some() { 2 } else { 1 };
        if slot.member.is_some()
            || slot.foreign.is_some()
            || !known_absent
            || machine.want.server.state == ServerState::Absent
            || slot.refusal.is_some() && !slot.attempts.may(now.instant)
            || serving::is_leaving(machine)
            || is_being_released(state, name, machine, now)
        {
            return None;
        }
        let guarded = state.settings.mode != GateMode::Enforce || state.is_guarded(port);
        let down = match others_answer(state, place, now) {
            _ if guarded => false,
            Answers::Asked => return None,
            Answers::Some => true,
            Answers::None => false,
        };
        let mut tags = desired.tags.clone();
        if down {
            tags.push(JOINING.to_owned());
        }
        let operation = if slot.deleted.is_some() {
            Operation::Replace
        } else {
            Operation::Create
        };
        Some(place.write(
            operation,
            Change::CreateMember {
                pool: pool.to_owned(),
                name: format!("{}{}", port.prefix, name.name),
                address,
                port: port.number,
                subnet: desired.member_subnet.clone(),
                admin_up: !down,
                tags,
            },
        ))
    })
}

/// Its member is absent although it is held: perhaps removed by a process that is gone, for a release that
/// goes on. It comes back if none other serves, or if that can't be told for long.
fn is_being_released(state: &State, name: &ObjectName, machine: &Machine, now: &Now) -> bool {
    let Some(asked) = machine.asked else {
        return false;
    };
    if machine.restoring || state.releasing.as_ref() != Some(name) {
        return false;
    }
    match machine.others {
        Some(Others::Serve(_)) => true,
        Some(Others::NotYet(..)) => now.since(asked.since.instant) < state.settings.warn_after,
        Some(Others::None(..)) | None => false,
    }
}
