//! Applies reads of a load balancer to the state.

use std::time::Instant;

use crate::{
    apply::link::{count_absences, count_linked, link},
    model::{
        attempts::Attempts,
        clock::Stamp,
        effect::Effect,
        machine::Machine,
        member::{Member, MemberDetail, Owner},
        metric_event::MetricEvent,
        part::{ConsecutiveReads, Part, PartState},
        port::Port,
        state::State,
    },
};
use capo_core::{
    MemberStatus, OperatingStatus, Provider, ProvisioningStatus,
    octavia::{StatusTree, TreeMember, TreePool},
};

/// How many answers to creations of members are kept until a read shows these members. A port has fewer under way at a
/// time.
const DETAILS_AHEAD: usize = 8;

/// Applies a status tree, which is one consistent snapshot. `began` is when the read of it began.
pub(crate) fn tree(state: &mut State, began: Stamp, tree: &StatusTree, effects: &mut Vec<Effect>) {
    let balancer_is_active = tree.provisioning_status == ProvisioningStatus::Active;
    let balancer = &mut state.balancer;
    if balancer.provisioning.as_ref() != Some(&tree.provisioning_status) {
        balancer.provisioning = Some(tree.provisioning_status.clone());
        balancer.since = Some(began);
    }
    balancer.operating = Some(tree.operating_status.clone());
    balancer.not_found = 0;

    let provider = state.provider;
    let mut relink = false;
    let mut vanished = false;
    for port in &mut state.ports {
        let before = port.parts().count();
        relink |= observe_port(port, tree, balancer_is_active, began, provider, effects);
        vanished |= port.parts().count() < before;
    }
    if vanished {
        state.reads.listeners_and_pools_due = true;
    }
    let all_vanished = relink && relink_finds_none(state);
    state.reads.suspect = all_vanished && !state.reads.suspect;
    if state.reads.tree_read_at.is_none() {
        for machine in state.machines.values_mut() {
            inherit_repairs(machine, &state.ports, balancer_is_active, began.instant);
        }
    }
    count_absences(state, began, effects);
    note_api_server_seen(state, began);
    state.reads.tree_read_at = Some(began);
}

/// Counts one attempt for a member that is broken at the first read, because an earlier process may have repaired it.
pub(crate) fn inherit_repairs(
    machine: &mut Machine,
    ports: &[Port],
    balancer_is_active: bool,
    now: Instant,
) {
    for (slot, port) in machine.slots.iter_mut().zip(ports) {
        let member = slot.member.and_then(|index| port.members.get(index));
        if member.is_some_and(|member| may_need_repair(member, balancer_is_active)) {
            slot.attempts = Attempts::inherited(now);
        }
    }
}

fn may_need_repair(member: &Member, balancer_is_active: bool) -> bool {
    member.provisioning == ProvisioningStatus::Error
        || balancer_is_active && member.provisioning.is_pending()
}

/// Links members to machines again. Returns whether every machine lost its member at once though none was to be
/// removed.
fn relink_finds_none(state: &mut State) -> bool {
    let before = count_linked(state);
    let expected = state
        .machines
        .values()
        .any(|machine| machine.slots.iter().any(|slot| slot.deleted.is_some()));
    link(state);
    before > 0 && count_linked(state) == 0 && !expected
}

/// Applies the status of a port. Returns whether its members are others than before.
fn observe_port(
    port: &mut Port,
    tree: &StatusTree,
    balancer_is_active: bool,
    began: Stamp,
    provider: Provider,
    effects: &mut Vec<Effect>,
) -> bool {
    let mut ambiguous = None;
    let mut named = tree
        .listeners
        .iter()
        .filter(|listener| listener.name == port.name);
    let listener = named.next();
    if named.next().is_some() {
        ambiguous = Some(format!("more than one listener is called {}", port.name));
    }
    let mut pool: Option<&TreePool> = None;
    for candidate in &tree.pools {
        let used = listener.is_some_and(|listener| listener.pools.contains(&candidate.id));
        if !used || candidate.name != port.name {
            continue;
        }
        if pool.is_some() {
            ambiguous = Some(format!("more than one pool is called {}", port.name));
        } else {
            pool = Some(candidate);
        }
    }
    if ambiguous.is_some() || port.listener.is_none() && listener.is_some() {
        port.ambiguous = ambiguous;
    }

    let read = listener.map(|listener| (&listener.id, &listener.provisioning_status));
    observe_part(&mut port.listener, read, balancer_is_active, began);
    let read = pool.map(|pool| (&pool.id, &pool.provisioning_status));
    if port.pool.as_ref().map(|part| &part.id) != read.map(|(id, _)| id) {
        port.members_due = true;
        port.list_trouble = None;
    }
    observe_part(&mut port.pool, read, balancer_is_active, began);
    let monitor = pool.and_then(|pool| pool.health_monitor.as_ref());
    port.monitor_type = monitor
        .map(|monitor| monitor.monitor_type.clone())
        .unwrap_or_default();
    let read = monitor.map(|monitor| (&monitor.id, &monitor.provisioning_status));
    if port.monitor.as_ref().map(|part| &part.id) != read.map(|(id, _)| id)
        && port.monitor.is_some()
    {
        port.monitor_parameters = None;
        port.monitor_parameters_due = true;
    }
    observe_part(&mut port.monitor, read, balancer_is_active, began);
    if port.is_ready() {
        port.attempts.forget_if_old(began.instant);
        port.retypes.forget_if_old(began.instant);
    }

    let parents_are_active = balancer_is_active
        && pool.is_some_and(|pool| pool.provisioning_status == ProvisioningStatus::Active);
    let members = pool.map_or(&[][..], |pool| &pool.members);
    observe_members(port, members, parents_are_active, began, provider, effects)
}

fn observe_part<Id: Clone + PartialEq>(
    part: &mut Option<Part<Id>>,
    read: Option<(&Id, &ProvisioningStatus)>,
    balancer_is_active: bool,
    began: Stamp,
) {
    let Some((id, provisioning)) = read else {
        *part = None;
        return;
    };
    match part {
        Some(known) if known.id == *id => {
            let state = &mut known.state;
            if state.provisioning != *provisioning {
                state.provisioning = provisioning.clone();
                state.since = began;
            }
        }
        _ => {
            *part = Some(Part {
                id: id.clone(),
                state: PartState {
                    provisioning: provisioning.clone(),
                    since: began,
                    pending_reads: ConsecutiveReads::default(),
                },
            });
        }
    }
    if let Some(known) = part {
        let state = &mut known.state;
        state.pending_reads.record(
            balancer_is_active && state.provisioning.is_pending(),
            began.instant,
        );
    }
}

/// Applies the status of a port's members. Returns whether they are others than before.
fn observe_members(
    port: &mut Port,
    read: &[TreeMember],
    parents_are_active: bool,
    began: Stamp,
    provider: Provider,
    effects: &mut Vec<Effect>,
) -> bool {
    let mut changed = replace_members(port, read, began, provider, effects);
    for (member, read) in port.members.iter_mut().zip(read) {
        if member.name != read.name
            || member.address != read.address
            || member.port != read.protocol_port
        {
            member.name.clone_from(&read.name);
            member.address = read.address;
            member.port = read.protocol_port;
            changed = true;
        }
        if member.provisioning != read.provisioning_status {
            transition(
                effects,
                provider,
                MemberStatus::from(&member.provisioning),
                MemberStatus::from(&read.provisioning_status),
            );
            member.provisioning = read.provisioning_status.clone();
            member.since = began;
        }
        member.operating = read.operating_status.clone();
        observe_member(member, parents_are_active, began);
        let is_left_over = matches!(member.owner, Owner::NotHandedOver | Owner::NameOnly);
        member.ownerless_reads = if is_left_over && !changed {
            member.ownerless_reads.saturating_add(1)
        } else {
            0
        };
        port.members_due |= member.detail.is_none();
    }
    let older = port.details_ahead.len().saturating_sub(DETAILS_AHEAD);
    port.details_ahead.drain(..older);
    let online = port
        .members
        .iter()
        .any(|member| member.operating == OperatingStatus::Online);
    let has_monitor = port.monitor_is_usable();
    port.none_online
        .record(!online && has_monitor, began.instant);
    for member in &mut port.members {
        // A member that gets no connections or is not checked is not down because of its API server.
        let is_checked = has_monitor && member.gets_connections(provider) == Some(true);
        let is_down = matches!(
            member.operating,
            OperatingStatus::Error | OperatingStatus::Offline
        );
        member.down.record(is_checked && is_down, began.instant);
    }
    changed
}

/// Keeps the members that were read again, adds new ones, and drops those that are gone. Returns whether any came, went
/// or changed its place.
fn replace_members(
    port: &mut Port,
    read: &[TreeMember],
    began: Stamp,
    provider: Provider,
    effects: &mut Vec<Effect>,
) -> bool {
    let before = port.members.iter().map(|member| &member.id);
    if before.eq(read.iter().map(|member| &member.id)) {
        return false;
    }
    let mut old = std::mem::take(&mut port.members);
    for read in read {
        let known = old.iter().position(|known| known.id == read.id);
        let member = if let Some(index) = known {
            old.swap_remove(index)
        } else {
            transition(
                effects,
                provider,
                MemberStatus::Missing,
                MemberStatus::from(&read.provisioning_status),
            );
            let ahead = port
                .details_ahead
                .iter()
                .position(|detail| detail.id == read.id);
            new_member(
                read,
                ahead.map(|index| port.details_ahead.swap_remove(index)),
                began,
            )
        };
        port.members.push(member);
    }
    for gone in old {
        transition(
            effects,
            provider,
            MemberStatus::from(&gone.provisioning),
            MemberStatus::Missing,
        );
    }
    true
}

/// Records for how long a member has been ACTIVE, PENDING or ONLINE, by what was just read of it.
fn observe_member(member: &mut Member, parents_are_active: bool, began: Stamp) {
    let is_active = member.provisioning == ProvisioningStatus::Active;
    member.active_reads = if is_active {
        member.active_reads.saturating_add(1).min(2)
    } else {
        0
    };
    member.pending_reads.record(
        parents_are_active && member.provisioning.is_pending(),
        began.instant,
    );
    // While an operation is under way, the read shows the state before it.
    let is_online = is_active && member.operating == OperatingStatus::Online;
    member.online.record(is_online, began.instant);
}

fn new_member(read: &TreeMember, detail: Option<MemberDetail>, began: Stamp) -> Member {
    Member {
        id: read.id.clone(),
        name: read.name.clone(),
        address: read.address,
        port: read.protocol_port,
        provisioning: read.provisioning_status.clone(),
        operating: read.operating_status.clone(),
        since: began,
        active_reads: 0,
        pending_reads: ConsecutiveReads::default(),
        online: ConsecutiveReads::default(),
        down: ConsecutiveReads::default(),
        detail,
        owner: Owner::Unrelated,
        ownerless_reads: 0,
        prunes: Attempts::default(),
        failures: 0,
    }
}

fn transition(effects: &mut Vec<Effect>, provider: Provider, from: MemberStatus, to: MemberStatus) {
    effects.push(Effect::Record(MetricEvent::Transition {
        provider,
        from,
        to,
    }));
}

/// Notes whether this process has ever seen an API server up.
fn note_api_server_seen(state: &mut State, began: Stamp) {
    state.watched_since.get_or_insert(began.instant);
    if !state.answered {
        let span = state.online_span();
        state.answered = state
            .ports
            .iter()
            .flat_map(|port| &port.members)
            .any(|member| member.online.spans(2, span));
    }
}

/// Notes that the load balancer was not found.
pub(crate) fn not_found(state: &mut State, began: Stamp) {
    state.balancer.not_found = state.balancer.not_found.saturating_add(1);
    if state.balancer.not_found < 2 {
        return;
    }
    state.watched_since.get_or_insert(began.instant);
    state.reads.tree_read_at = Some(began);
    state.reads.suspect = false;
    if state.balancer.not_found > 2 {
        return;
    }
    state.reads.listeners_and_pools_due = true;
    state.balancer.provisioning = None;
    state.balancer.operating = None;
    state.balancer.since = Some(began);
    for port in &mut state.ports {
        *port = Port::named(std::mem::take(&mut port.name), port.number);
    }
    link(state);
    for slot in state
        .machines
        .values_mut()
        .flat_map(|machine| &mut machine.slots)
    {
        slot.absent_reads = slot.absent_reads.max(2);
    }
}
