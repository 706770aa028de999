//! Chooses the most urgent write of a member. Every write that removes a member is checked by [`may_remove`].

use crate::{
    decide::{proof, serving},
    model::{
        call::Operation,
        clock::{Now, Stamp},
        decision::GateDecision,
        desired::{Deletion, LoadBalancerSpec, ObservedCondition, ServerState},
        evidence::Others,
        machine::{Machine, Stage},
        member::{JOINING, Member, before_release},
        octavia::Change,
        proof::Reach,
        state::State,
    },
    plan::{
        removal_guard::may_remove,
        todo::{MemberPlace, Todo, delete, on_fresh, places, update},
    },
};
use capo_core::{
    GateMode, ObjectName, OperatingStatus, ProvisioningStatus,
    octavia::{MemberUpdate, NewMember},
};

/// Puts a drained member of a machine back in service if its release was called off.
pub(crate) fn restore(state: &State, now: &Now) -> Option<Todo> {
    places(state).find_map(|(place, pool)| {
        let MemberPlace { name, machine, .. } = place;
        let is_held = machine.waiting_since.is_some()
            && machine.stage == Stage::Serving
            && !serving::is_leaving(machine);
        // The release was called off or began in an earlier process, and Cluster API drains the Node once more.
        let is_missed = matches!(machine.want.deletion, Deletion::BeforeHook { .. })
            && !serving::is_leaving(machine)
            && (machine.restoring || others_in_service(state, place) == InService::None);
        // The member was drained for the release of an earlier machine of that name, or of a machine whose deletion was
        // undone by hand.
        let stays = machine.want.deletion == Deletion::No;
        if !is_held && !is_missed && !stays && !serving::is_last_api_server(state, machine) {
            return None;
        }
        let member = place.member()?;
        if !member.is_drained_by_us() {
            return None;
        }
        // The leaving machine still gets connections, so no client fails while the restore waits until no worker of
        // Octavia can resume the drain and undo the restore.
        let waits = machine.answered_itself && !matches!(machine.others, Some(Others::None(..)));
        let is_orphaned = if waits {
            member.pending_reads.spans(3, state.orphan_span())
        } else {
            member.pending_reads.reads >= 3
        };
        if member.provisioning.is_pending() && !is_orphaned {
            return None;
        }
        // An attempt to put the member back has failed in Octavia. It is repeated after the pauses of a repair.
        if member.provisioning == ProvisioningStatus::Error
            && !place.slot.attempts.is_due(now.instant)
        {
            return None;
        }
        // An earlier process drained the member. It goes back into service only if it is needed.
        let is_needed = state.releasing.as_ref() != Some(name) || is_needed(state, machine, now);
        if !machine.restoring && !is_needed {
            return None;
        }
        if place.slot.is_backing_off(now.instant) {
            return None;
        }
        let detail = member.detail.as_ref()?;
        let by_weight = detail.weight == 0;
        let (weight, tags) = before_release(&detail.tags);
        let restored = MemberUpdate {
            weight: by_weight.then_some(weight),
            admin_state_up: (!by_weight).then_some(true),
            tags: Some(tags),
            ..MemberUpdate::default()
        };
        Some(place.write(Operation::Restore, update(pool, member, restored)))
    })
}

/// Whether the members of the machine that waits for its release are needed: no other machine serves, it is still
/// unknown whether one does although the machine has waited for `warn_after`, or the endpoint does not answer.
fn is_needed(state: &State, machine: &Machine, now: &Now) -> bool {
    let has_waited = |since: Stamp| now.since(since.instant) >= state.settings.warn_after;
    match machine.others {
        Some(Others::Serve) => is_unanswered(state, machine, now),
        Some(Others::NotYet(..)) => machine.waiting_since.is_some_and(has_waited),
        Some(Others::None(..)) | None => true,
    }
}

/// Whether no reply that counts comes through the endpoint while the machine is in service.
fn is_unanswered(state: &State, machine: &Machine, now: &Now) -> bool {
    matches!(
        proof::current_reach(state, machine, now),
        Some(Reach::Unreachable(_) | Reach::Wrong(_))
    )
}

/// Enables a member that was created disabled.
pub(crate) fn enable(state: &State, now: &Now) -> Option<Todo> {
    places(state).find_map(|(place, pool)| {
        let member = place.member().filter(|member| member.is_joining())?;
        if member.provisioning.is_pending() || serving::is_leaving(place.machine) {
            return None;
        }
        if place.slot.is_backing_off(now.instant) {
            return None;
        }
        if !may_enable(state, place, now) {
            return None;
        }
        let detail = member.detail.as_ref();
        let enabled = MemberUpdate {
            admin_state_up: Some(true),
            tags: detail.map(|detail| without_joining(&detail.tags)),
            ..MemberUpdate::default()
        };
        Some(place.write(Operation::Enable, update(pool, member, enabled)))
    })
}

/// Whether a member that was created disabled may get clients: the gates are not enforced, its API server is up, or no
/// other member gets them.
pub(crate) fn may_enable(state: &State, place: MemberPlace<'_>, now: &Now) -> bool {
    state.settings.mode != GateMode::Enforce
        || serving::is_known_to_be_up(state, place.machine, now)
        || serving::any_release_is_open(state)
        || others_in_service(state, place) == InService::None
        || serving::no_machine_is_reached(state, place.port)
        || is_enabled_elsewhere(state, place)
}

/// Whether no monitor shows if the machine serves this port, but its Node has joined and its member of another port is
/// enabled.
fn is_enabled_elsewhere(state: &State, place: MemberPlace<'_>) -> bool {
    let machine = place.machine;
    let mut members = machine.slots.iter().zip(&state.ports).enumerate();
    machine.want.has_node
        && !place.port.monitor_is_usable()
        && members.any(|(index, (slot, port))| {
            let member = slot.member.and_then(|member| port.members.get(member));
            index != place.index
                && member.is_some_and(|member| {
                    member.provisioning == ProvisioningStatus::Active
                        && member.admin_up() == Some(true)
                })
        })
}

/// Whether another member of a port gets clients, according to the last reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InService {
    /// Another member gets clients.
    Some,
    /// The list that shows which members are disabled was not read yet.
    Unread,
    /// No other member gets clients.
    None,
}

fn others_in_service(state: &State, place: MemberPlace<'_>) -> InService {
    let monitored = place.port.monitor_is_usable();
    others_enabled(state, place, |machine, member| {
        let is_down = matches!(
            machine.want.server.state,
            ServerState::Shutoff | ServerState::Absent
        );
        let is_up = if monitored {
            member.operating == OperatingStatus::Online
        } else {
            // Nothing but the Node distinguishes the machine from one whose API server never started.
            let has_started = machine.want.has_node || !machine.want.admitted;
            has_started && machine.want.node != ObservedCondition::False
        };
        is_up && !is_down && !serving::is_leaving(machine) && !serving::is_unhealthy(machine)
    })
}

/// Whether another machine for which `counts` holds has a member in the data path of the port that was neither disabled
/// nor drained when it was read.
fn others_enabled(
    state: &State,
    place: MemberPlace<'_>,
    counts: impl Fn(&Machine, &Member) -> bool,
) -> InService {
    let mut found = InService::None;
    for (name, machine) in &state.machines {
        let slot = machine.slots.get(place.index);
        let member = slot.and_then(|slot| place.port.members.get(slot.at_address()?));
        let Some(member) = member.filter(|member| {
            name != place.name
                && serving::is_in_data_path(place.port, member)
                && member.admin_up() != Some(false)
                && member.weight() != Some(0)
                && counts(machine, member)
        }) else {
            continue;
        };
        if member.detail.is_some() {
            return InService::Some;
        }
        found = InService::Unread;
    }
    found
}

fn without_joining(tags: &[String]) -> Vec<String> {
    let kept = tags.iter().filter(|tag| *tag != JOINING);
    kept.cloned().collect()
}

/// Drains and deletes the members of machines that leave.
pub(crate) fn remove(state: &State, now: &Now) -> Option<Todo> {
    places(state)
        .filter(|(place, _)| serving::is_leaving(place.machine))
        .find_map(|(place, pool)| {
            let MemberPlace {
                machine,
                slot,
                port,
                ..
            } = place;
            if matches!(machine.gates.finalizer, GateDecision::Held(cause) if cause.forbids_writes())
                || matches!(machine.gates.release, GateDecision::Held(cause) if cause.forbids_writes())
            {
                return None;
            }
            let member = place.member()?;
            let is_orphaned = member.pending_reads.spans(3, state.orphan_span());
            if member.provisioning.is_pending() && !is_orphaned {
                return None;
            }
            let others = matches!(machine.others, Some(Others::Serve));
            let needs_no_proof = match machine.want.deletion {
                Deletion::Unhooked { .. } => true,
                Deletion::AfterHook { .. } => others || state.is_cluster_deleting(),
                _ => machine.gates.release.is_open(),
            };
            if !needs_no_proof && !others {
                return None;
            }
            if !needs_no_proof && matches!(machine.stage, Stage::Proving | Stage::Confirming) {
                return None;
            }
            if !needs_no_proof && machine.stage == Stage::Draining {
                let takes_traffic = member.provisioning == ProvisioningStatus::Active
                    && member.gets_connections(state.provider) != Some(false);
                if !takes_traffic || slot.is_backing_off(now.instant) {
                    return None;
                }
                return on_fresh(state, now, || {
                    let by_weight = state.provider.drains();
                    let drained = MemberUpdate {
                        weight: by_weight.then_some(0),
                        admin_state_up: (!by_weight).then_some(false),
                        tags: Some(member.detail.as_ref()?.tags_of_release()),
                        ..MemberUpdate::default()
                    };
                    Some(place.write(Operation::Drain, update(pool, member, drained)))
                });
            }
            let again = slot.deleted.is_some() || slot.refusal.is_some();
            if again && !slot.attempts.is_due(now.instant) {
                return None;
            }
            on_fresh(state, now, || {
                may_remove(state, Some(machine), port, member, now)
                    .then(|| delete(&place, pool, member))
            })
        })
}

/// Creates members that are expected and missing.
pub(crate) fn create(state: &State, desired: &LoadBalancerSpec, now: &Now) -> Option<Todo> {
    places(state).find_map(|(place, pool)| {
        let MemberPlace {
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
            || slot.is_backing_off(now.instant)
            || serving::is_not_needed(state, machine)
            || is_being_released(state, name, machine, now)
        {
            return None;
        }
        let others = match others_in_service(state, place) {
            // The other members may have come up since the last read, which is minutes old as a rule. If they have not,
            // the new member is enabled after the next read.
            InService::None if !state.is_fresh(now) => others_enabled(state, place, |_, _| true),
            others => others,
        };
        let down = match others {
            _ if state.settings.mode != GateMode::Enforce => false,
            // Octavia may go on showing a member ONLINE for a while although its server is known to be down.
            _ if serving::is_last_api_server(state, machine) => false,
            // The machine is no newcomer: it served until its member was removed for a release that was called off.
            _ if machine.restoring && !serving::is_unhealthy(machine) => false,
            InService::Unread => return None,
            InService::Some => true,
            InService::None => false,
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
                pool: pool.clone(),
                new: NewMember {
                    name: format!("{}{}", port.prefix, name.name),
                    address,
                    protocol_port: port.number,
                    subnet_id: desired.member_subnet.clone(),
                    weight: None,
                    admin_state_up: !down,
                    tags,
                },
            },
        ))
    })
}

/// Whether the machine's member may be absent because an earlier process removed it for a release that continues,
/// although the machine is held. The member comes back if no other machine serves, or if that stays unknown for long.
fn is_being_released(state: &State, name: &ObjectName, machine: &Machine, now: &Now) -> bool {
    machine.waiting_since.is_some()
        && !machine.restoring
        && state.releasing.as_ref() == Some(name)
        && !is_needed(state, machine, now)
}
