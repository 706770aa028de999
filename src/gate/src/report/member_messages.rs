//! The sentences about members: which member has a machine's address, which machine does not serve, and why.

use crate::{
    decide::{classify, serving},
    model::{
        evidence::{Evidence, Lack, Serving, Want},
        machine::{Machine, Slot},
        member::Class,
        state::State,
    },
};
use capo_core::{ObjectName, Provider};

/// A member's class as a sentence. While Octavia works on the member, the sentence names the provider, because the
/// provider decides how long capo-rs waits for an operation.
pub(crate) fn member_class(port: u16, class: Class, provider: Provider) -> String {
    let text = match class {
        Class::Missing => "does not exist yet",
        Class::PendingCreate => "is PENDING_CREATE",
        Class::PendingUpdate => "is PENDING_UPDATE",
        Class::PendingDelete => "is PENDING_DELETE",
        Class::Active => "is ACTIVE",
        Class::Error => "is in ERROR; capo-rs repairs it",
        Class::Orphaned => "is PENDING though the load balancer is ACTIVE; capo-rs repairs it",
        Class::Foreign => "is ambiguous: a member of another name has its address",
        Class::Unknown => "has a status that capo-rs does not know",
    };
    let profile = match class {
        Class::PendingCreate | Class::PendingUpdate | Class::PendingDelete | Class::Orphaned => {
            format!(" (provider profile {})", provider.label())
        }
        _ => String::new(),
    };
    format!("Its member on port {port} {text}{profile}")
}

fn is_ambiguous(slot: &Slot) -> bool {
    slot.has_duplicates || slot.foreign.is_some()
}

/// Which other member has the machine's address, or its name and address, as a sentence.
pub(crate) fn foreign(state: &State, machine: &Machine, number: u16) -> String {
    let found = state
        .ports
        .iter()
        .zip(&machine.slots)
        .find(|(port, _)| port.number == number)
        .filter(|(_, slot)| is_ambiguous(slot));
    if found.is_some_and(|(_, slot)| slot.has_duplicates) {
        return format!(
            "More than one member of port {number} has the machine's name and address, so capo-rs writes nothing"
        );
    }
    let Some((port, member)) =
        found.and_then(|(port, slot)| Some((port, port.members.get(slot.foreign?)?)))
    else {
        return member_class(number, Class::Foreign, state.provider);
    };
    let at = member
        .address
        .map_or_else(|| "no address".to_owned(), |address| address.to_string());
    if let Some(before) = member.name.strip_prefix(&port.prefix) {
        return format!(
            "On port {number} member {} of machine {before} still has its address {at}. That member is removed once \
             Kubernetes confirms that machine {before} is absent",
            member.id
        );
    }
    format!(
        "On port {number} member {} is called {:?} and has its address {at}. capo-rs did not create it and does not change it: delete it, \
         or give it another address",
        member.id, member.name
    )
}

/// Which machines' members are in this class, for the cluster.
pub(crate) fn machines_in(state: &State, port: u16, class: Class) -> String {
    if class == Class::Foreign
        && let Some((name, machine)) = state.machines.iter().find(|(_, machine)| {
            let mut slots = machine.slots.iter().zip(&state.ports);
            slots.any(|(slot, known)| known.number == port && is_ambiguous(slot))
        })
    {
        return format!("{}: {}", name.name, foreign(state, machine, port));
    }
    let Some(index) = state.port_index(port) else {
        return String::new();
    };
    let names: Vec<&str> = state
        .machines
        .iter()
        .filter(|(_, machine)| {
            machine
                .slots
                .get(index)
                .zip(state.ports.get(index))
                .is_some_and(|(slot, port)| {
                    classify::slot(slot, port, state.orphan_span()) == class
                })
        })
        .map(|(name, _)| name.name.as_str())
        .collect();
    let text = member_class(port, class, state.provider);
    format!("{}: {text}", names.join(", "))
}

/// What Octavia has refused about the members of a port.
pub(crate) fn refusals(state: &State, machine: Option<&ObjectName>, port: u16) -> String {
    let index = state.port_index(port);
    let refusal = state
        .machines
        .iter()
        .filter(|(name, _)| machine.is_none_or(|wanted| wanted == *name))
        .find_map(|(name, machine)| {
            let refusal = machine.slots.get(index?)?.refusal.as_ref()?;
            Some(format!("{} on port {port}: {}", name.name, refusal.message))
        });
    format!(
        "Octavia did not create the member: {}",
        refusal.unwrap_or_default()
    )
}

/// Each other machine, and why it does not serve the port, or not yet.
pub(crate) fn others(state: &State, leaving: &ObjectName, number: u16) -> String {
    let Some(port) = state
        .indexed_ports()
        .find(|indexed| indexed.port.number == number)
    else {
        return String::new();
    };
    let Some(now) = state.last_step else {
        return String::new();
    };
    let each: Vec<String> = state
        .machines
        .iter()
        .filter(|(name, _)| *name != leaving)
        .map(|(name, machine)| {
            let serving = serving::serves(state, machine, port, &now);
            format!("{}: {}", name.name, serving_text(serving))
        })
        .collect();
    if each.is_empty() {
        format!("It is the only member of port {number}")
    } else {
        format!(
            "No other member is known to serve port {number} ({})",
            each.join("; ")
        )
    }
}

fn serving_text(serving: Serving) -> &'static str {
    match serving {
        Serving::Yes(evidence) => evidence_text(evidence),
        Serving::NotYet(Want::Server) => "its server is being read again",
        Serving::NotYet(Want::Detail) => "its member's weight is being read",
        Serving::NotYet(Want::OnlineSpan) => "its member is ONLINE, but not for long enough yet",
        Serving::No(Lack::NoMember) => "it has no member",
        Serving::No(Lack::NotActive) => "its member is not ACTIVE",
        Serving::No(Lack::AdminDown) => "its member is disabled",
        Serving::No(Lack::Drained) => "its member has weight 0",
        Serving::No(Lack::Server) => "its server is not ACTIVE",
        Serving::No(Lack::Leaving) => "its Machine is being deleted",
        Serving::No(Lack::Unhealthy) => "APIServerPodHealthy is False",
        Serving::No(Lack::NotOnline) => "its member is not ONLINE",
        Serving::No(Lack::NoEvidence) => {
            "its health is unknown: no health monitor, and no healthy Node"
        }
    }
}

fn evidence_text(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Online => "its member has been ONLINE for long enough",
        Evidence::Conditions => {
            "its member is in service, and Cluster API's conditions show no problem"
        }
    }
}
