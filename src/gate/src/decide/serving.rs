//! Does a machine's API server serve, and how do we know?

use std::time::{Duration, Instant};

use crate::{
    decide::serving,
    model::{
        clock::Now,
        desired::{Deletion, Health, ServerState},
        event::ProbeOutcome,
        evidence::{Against, Evidence, Lack, Others, Serving, Want},
        machine::{Machine, Stage},
        member::Member,
        port::Port,
        state::{FRESH, State},
    },
};
use capo_core::{ObjectName, ProvisioningStatus};

/// How old a read of a server may be.
const SERVER_AGE: Duration = Duration::from_mins(1);
/// How long a probe's answer counts as evidence against.
const AGAINST_AGE: Duration = Duration::from_mins(1);
/// How long Cluster API's conditions must hold.
const CONDITIONS: Duration = Duration::from_secs(90);

/// A newer read of this machine's server is needed for evidence.
pub(crate) fn wants_server(machine: &Machine, now: &Now) -> bool {
    machine.want.server.is_due(now.instant)
}

/// Whether a read of its server is recent enough to decide on.
pub(crate) fn server_is_recent(machine: &Machine, now: &Now) -> bool {
    machine
        .want
        .server
        .read_at
        .is_some_and(|read| now.since(read) <= SERVER_AGE)
}

/// Evidence against an API server, which voids all evidence for it.
pub(crate) fn against(
    state: &State,
    name: &ObjectName,
    machine: &Machine,
    now: &Now,
) -> Option<Against> {
    if machine.want.api_server_pod == Health::Bad {
        return Some(Against::Pod);
    }
    let (_, outcome) = machine
        .probe
        .seen
        .filter(|(began, _)| now.since(*began) <= AGAINST_AGE)?;
    match outcome {
        ProbeOutcome::NotReady => Some(Against::NotReady),
        ProbeOutcome::WrongCertificate => Some(Against::Certificate),
        ProbeOutcome::Refused => state
            .machines
            .iter()
            .any(|(other, machine)| {
                other != name
                    && machine.probe.seen.is_some_and(|(began, outcome)| {
                        outcome.connected() && now.since(began) <= AGAINST_AGE
                    })
            })
            .then_some(Against::Refused),
        ProbeOutcome::Ready | ProbeOutcome::Answered | ProbeOutcome::NoConnection => None,
    }
}

/// The machine is on its way out: its member gets no more traffic, or will not for long.
pub(crate) fn is_leaving(machine: &Machine) -> bool {
    match machine.want.deletion {
        Deletion::No | Deletion::BeforeHook { .. } => false,
        Deletion::Unhooked { .. } => true,
        Deletion::AtHook { .. } | Deletion::OutOfBand { .. } => {
            machine.stage > Stage::Serving || machine.gates.release.is_open()
        }
    }
}

/// The member may serve: nothing we know keeps traffic away from it, whatever its provisioning status.
pub(crate) fn may_serve(
    state: &State,
    name: &ObjectName,
    machine: &Machine,
    member: &Member,
    now: &Now,
) -> bool {
    member.admin_up().unwrap_or(true)
        && member.weight().unwrap_or(1) > 0
        && member.provisioning != ProvisioningStatus::PendingDelete
        && against(state, name, machine, now).is_none()
}

/// Asks of one machine and one port. `held_since` is when the hold began that asks, and
/// `ignore_deletion` leaves out the clause on its own deletion.
pub(crate) fn serves(
    state: &State,
    (name, machine): (&ObjectName, &Machine),
    (index, port): (usize, &Port),
    held_since: Option<Instant>,
    ignore_deletion: bool,
    now: &Now,
) -> Serving {
    let member = match in_service(machine, (index, port), ignore_deletion) {
        Ok(member) => member,
        Err(lack) => return Serving::No(lack),
    };
    if let Some(against) = against(state, name, machine, now) {
        return Serving::No(Lack::Against(against));
    }
    if !server_is_recent(machine, now) {
        return Serving::NotYet(Want::Server);
    }
    if machine.want.server.state != ServerState::Active {
        return Serving::No(Lack::Server);
    }
    if member.detail.is_none() {
        return Serving::NotYet(Want::Detail);
    }
    if let Some(run) = member.online {
        return if run.reads >= 2 && run.span() >= state.online_span() {
            Serving::Yes(Evidence::Online)
        } else {
            Serving::NotYet(Want::OnlineSpan)
        };
    }
    if State::monitor_is_usable(port) {
        return Serving::No(Lack::NotOnline);
    }
    answers(state, machine, held_since, now)
}

/// The machine's member of this port, if Octavia sends it clients and will go on doing so, as far as was read.
fn in_service<'a>(
    machine: &Machine,
    (index, port): (usize, &'a Port),
    ignore_deletion: bool,
) -> Result<&'a Member, Lack> {
    let member = machine
        .slots
        .get(index)
        .filter(|slot| !slot.twins && machine.want.address.is_some())
        .and_then(|slot| port.members.get(slot.member?))
        .ok_or(Lack::NoMember)?;
    if member.provisioning != ProvisioningStatus::Active {
        return Err(Lack::NotActive);
    }
    if !ignore_deletion && is_leaving(machine) {
        return Err(Lack::Leaving);
    }
    if member.admin_up() == Some(false) {
        return Err(Lack::AdminDown);
    }
    if member.weight() == Some(0) {
        return Err(Lack::Drained);
    }
    Ok(member)
}

/// Evidence (b) and (c): facts about a machine, whatever the port.
pub(crate) fn answers(
    state: &State,
    machine: &Machine,
    held_since: Option<Instant>,
    now: &Now,
) -> Serving {
    if let Some((began, ProbeOutcome::Ready)) = machine.probe.seen
        && now.since(began) <= FRESH
    {
        return Serving::Yes(Evidence::Ready);
    }
    let conditions = conditions_since(state, machine).map(|since| {
        let since = held_since.map_or(since, |held| held.max(since));
        now.since(since) >= CONDITIONS
    });
    if conditions == Some(true) {
        return Serving::Yes(Evidence::Conditions);
    }
    let probed = machine
        .probe
        .seen
        .is_some_and(|(began, _)| now.since(began) <= FRESH);
    if !probed && can_probe(state, machine) {
        return Serving::NotYet(Want::Probe);
    }
    if conditions == Some(false) {
        return Serving::NotYet(Want::Conditions);
    }
    Serving::No(Lack::NoEvidence)
}

/// There is an address and a CA to ask with.
pub(crate) fn can_probe(state: &State, machine: &Machine) -> bool {
    machine.want.address.is_some()
        && state
            .desired
            .as_ref()
            .is_some_and(|desired| desired.cluster.ca_pem.is_some())
}

/// Since when all of Cluster API's conditions about this machine are True.
fn conditions_since(state: &State, machine: &Machine) -> Option<Instant> {
    let facts = &state.desired.as_ref()?.cluster;
    let connection = facts.remote_connection_since?;
    let Health::Good(node) = machine.want.node else {
        return None;
    };
    let since = connection.max(node);
    if !facts.kubeadm_control_plane {
        return Some(since);
    }
    match machine.want.api_server_pod {
        Health::Good(pod) => Some(since.max(pod)),
        Health::Bad | Health::Unknown => None,
    }
}

/// Asks of every machine but `leaving`, on every port. Where a port is dark nobody's health holds anything, but
/// another one's member must be in service all the same: its monitor says nothing of members that failed.
pub(crate) fn others_serve(
    state: &State,
    leaving: &ObjectName,
    held_since: Option<Instant>,
    now: &Now,
) -> Others {
    let mut answer = Others::None(state.endpoint_port().unwrap_or_default(), Lack::NoMember);
    for (index, port) in state.ports.iter().enumerate() {
        let others = state.machines.iter().filter(|(name, _)| *name != leaving);
        let best = if index > 0 && is_dark(state, port) {
            best_of(port, others, |_, machine| stands(machine, (index, port)))
        } else {
            best_of(port, others, |name, machine| {
                let machine = (name, machine);
                serves(state, machine, (index, port), held_since, false, now)
            })
        };
        answer = match (answer, best) {
            (_, Others::None(..)) => return best,
            // A port before a dark one tells more than that.
            (Others::NotYet(..), _) | (_, Others::Serve(Evidence::InService)) => answer,
            _ => best,
        };
    }
    answer
}

/// The first that serves, or else why none does.
fn best_of<'a>(
    port: &Port,
    machines: impl Iterator<Item = (&'a ObjectName, &'a Machine)>,
    asks: impl Fn(&'a ObjectName, &'a Machine) -> Serving,
) -> Others {
    let mut best = Others::None(port.number, Lack::NoMember);
    for (name, machine) in machines {
        match asks(name, machine) {
            Serving::Yes(evidence) => return Others::Serve(evidence),
            Serving::NotYet(want) => best = Others::NotYet(port.number, want),
            Serving::No(lack) => {
                if matches!(best, Others::None(_, Lack::NoMember)) {
                    best = Others::None(port.number, lack);
                }
            }
        }
    }
    best
}

/// Asks of one machine on a dark port.
fn stands(machine: &Machine, port: (usize, &Port)) -> Serving {
    match in_service(machine, port, false) {
        Ok(member) if member.detail.is_none() => Serving::NotYet(Want::Detail),
        Ok(_) => Serving::Yes(Evidence::InService),
        Err(lack) => Serving::No(lack),
    }
}

/// No member was ONLINE on this port for so long that its monitor tells nothing. Where there is no usable monitor
/// the evidence about the machines counts.
pub(crate) fn is_dark(state: &State, port: &Port) -> bool {
    match (port.dark.first, port.dark.last) {
        (Some(first), Some(last)) => {
            port.dark.reads >= 2 && last.saturating_duration_since(first) >= state.online_span()
        }
        _ => false,
    }
}

/// Whether any machine's release is open by the list or the bypass: those that join are let in first.
pub(crate) fn any_release_is_open(state: &State) -> bool {
    state.machines.values().any(|machine| {
        machine.gates.release.is_open()
            && machine.stage == Stage::Serving
            && serving::is_leaving(machine)
    })
}
