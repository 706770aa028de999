//! The sentences of conditions, events and gates.

use crate::{
    decide::{classify, precedence, proof::WITHOUT_PROOF, serving},
    model::{
        clock::Now,
        decision::{GateCause, GateDecision, GateName, Proven},
        evidence::{Evidence, Lack, Serving, Want},
        machine::Machine,
        member::Class,
        proof::Reach,
        state::State,
    },
};
use capo_core::{GateOverride, ObjectName};

/// What a held release stops besides, and how the operator ends it.
pub(crate) fn while_held(state: &State) -> String {
    let cluster = state.cluster();
    let others = if cluster.is_some_and(|cluster| cluster.kubeadm_control_plane) {
        "While this Machine waits, KubeadmControlPlane changes nothing else in this control plane. "
    } else {
        ""
    };
    format!(
        ". {others}To allow the deletion of this Machine all the same, annotate its OpenStackMachine with \
         infrastructure.cluster.x-k8s.io/load-balancer-gate: bypass until=<RFC 3339> reason=<text>"
    )
}

/// What the gates would hold if they were enforced, as a subordinate clause; empty where they are, or hold
/// nothing.
pub(crate) fn observed(state: &State, name: &ObjectName, machine: &Machine) -> String {
    [
        (GateName::Release, machine.gates.release),
        (GateName::Admission, machine.gates.admission),
    ]
    .into_iter()
    .find_map(|(gate, decision)| match decision {
        GateDecision::Observed(held) => Some(format!(
            "; the {} gate only observes (--load-balancer-gate) and does not hold it: {}",
            gate.as_str(),
            cause(state, Some((name, machine)), held)
        )),
        _ => None,
    })
    .unwrap_or_default()
}

/// What the operator wrote, as a subordinate clause; empty if nothing.
pub(crate) fn operator(state: &State, machine: Option<&Machine>, now: &Now) -> String {
    if let Some(GateOverride::Bypass { until, reason }) = precedence::bypass(state, machine, now) {
        return format!("; bypassed by the operator until {until}: {reason}");
    }
    if let Some(GateOverride::Hold { reason }) = precedence::hold(state, machine) {
        return format!("; held by the operator: {reason}");
    }
    if let Some(message) = refused(state, machine) {
        return format!("; the operator's annotation is refused: {message}");
    }
    precedence::overrides(state, machine)
        .find_map(|found| match found {
            GateOverride::Bypass { until, .. } => {
                Some(format!("; the operator's bypass has ended at {until}"))
            }
            _ => None,
        })
        .unwrap_or_default()
}

/// How long PENDING lasts, as a text that changes at the thresholds only.
pub(crate) fn delay(state: &State) -> &'static str {
    if state.summary.stuck > 0 {
        "; stuck"
    } else if state.summary.alerted > 0 {
        "; for far longer than Octavia usually takes"
    } else {
        ""
    }
}

/// A cause as a sentence, for a machine or for the cluster.
pub(crate) fn cause(
    state: &State,
    machine: Option<(&ObjectName, &Machine)>,
    cause: GateCause,
) -> String {
    match cause {
        GateCause::Admitted => "Cluster API has admitted the machine already".to_owned(),
        GateCause::MembersActive => format!(
            "Its member was read ACTIVE on every port (provider profile {})",
            state.provider.label()
        ),
        GateCause::NotEnforced => "The gates are not enforced (--load-balancer-gate)".to_owned(),
        GateCause::Disabled => "The cluster has no managed load balancer".to_owned(),
        GateCause::ClusterDeleting => "The Cluster or its control plane is being deleted, or was deleted".to_owned(),
        GateCause::NeverInitialised => "The control plane was never initialised".to_owned(),
        GateCause::NeverServed => "The machine was never admitted and does not serve".to_owned(),
        GateCause::ServerDown => "Its server is absent or SHUTOFF".to_owned(),
        GateCause::DoesNotServe => {
            "Its API server is down (APIServerPodHealthy is False) and gets no clients, so its deletion makes nothing worse"
                .to_owned()
        }
        GateCause::Released(Proven::ThroughTheEndpoint) => {
            "Its members are removed, and requests through the endpoint were answered without it".to_owned()
        }
        GateCause::Released(Proven::NotPossible) => format!(
            "Its members are removed. No proof was possible, because the manager does not reach the endpoint ({}); others have served for {} s",
            endpoint_trouble(machine),
            WITHOUT_PROOF.as_secs()
        ),
        GateCause::MembersGone => "Its members are removed".to_owned(),
        GateCause::LoadBalancerUnusable => {
            "The load balancer accepts no change, so a member that is left in it can't be removed".to_owned()
        }
        GateCause::Paused => "Paused, or being moved: nothing is touched".to_owned(),
        GateCause::OperatorHold => "The operator holds it".to_owned(),
        GateCause::ServerNotReady => "Its server is not ACTIVE yet, or has no address yet".to_owned(),
        GateCause::NotObserved => "The load balancer has not been read yet".to_owned(),
        GateCause::NotFresh => "The load balancer is being read again".to_owned(),
        GateCause::Stale => "The last read of the load balancer is too old".to_owned(),
        GateCause::Trouble(_) => {
            let of_all = state.trouble.as_ref().filter(|trouble| trouble.is_lasting());
            let trouble = of_all.or_else(|| state.list_trouble());
            let message = trouble.map(|trouble| trouble.message.as_str());
            format!("A request to OpenStack failed: {}", message.unwrap_or_default())
        }
        GateCause::Ambiguous => ambiguous(state),
        GateCause::LoadBalancerNotMade => "There is no load balancer yet".to_owned(),
        GateCause::LoadBalancerAbsent => {
            "The load balancer does not exist in OpenStack; it is being created again".to_owned()
        }
        GateCause::LoadBalancerError => {
            "The load balancer is in ERROR: ask the cloud's operator for a failover, or allow capo-rs to rebuild it with the annotation infrastructure.cluster.x-k8s.io/rebuild-load-balancer"
                .to_owned()
        }
        GateCause::LoadBalancerPending => format!(
            "The load balancer is {}",
            state
                .balancer
                .provisioning
                .as_ref()
                .filter(|_| !state.balancer.is_active())
                .map_or("being set up", |status| status.as_str())
        ),
        GateCause::PartError(port, kind) => format!(
            "The {} of port {port} is in ERROR under the load balancer; capo-rs sends its values to Octavia again",
            kind.as_str()
        ),
        GateCause::PartMissing(port, kind) => {
            let refusal = state
                .ports
                .iter()
                .find(|known| known.number == port)
                .and_then(|known| known.refusal.as_ref())
                .map(|refusal| format!(": {}", refusal.message));
            format!(
                "The {} of port {port} does not exist yet{}",
                kind.as_str(),
                refusal.unwrap_or_default()
            )
        }
        GateCause::NoneServes => "No member serves the endpoint's port".to_owned(),
        GateCause::Member(port, class) => match machine {
            Some((_, machine)) if class == Class::Foreign => foreign(state, machine, port),
            Some(_) => member_class(port, class),
            None => machines_in(state, port, class),
        },
        GateCause::Refused(port, _) => refusals(state, machine.map(|(name, _)| name), port),
        GateCause::WaitingForEvidence(port, _) | GateCause::NoOther(port, _) => match machine {
            Some((name, _)) => others(state, name, port),
            None => format!("No other member serves port {port}"),
        },
        GateCause::AnotherFirst => "Another machine is released first".to_owned(),
        GateCause::Requesting => "A request through the endpoint is under way".to_owned(),
        GateCause::NoAnswer => format!(
            "Its member stays in service, because no API server of this cluster answers through the endpoint: {}",
            endpoint_trouble(machine)
        ),
        GateCause::Unreachable => format!(
            "No proof is possible, because the manager does not reach the endpoint ({}). The others must serve, and nothing must answer there, for {} s without a break",
            endpoint_trouble(machine),
            WITHOUT_PROOF.as_secs()
        ),
        GateCause::UnreachableForAll => format!(
            "Neither the manager nor Cluster API (condition RemoteConnectionProbe of the Cluster) reaches the endpoint: {}",
            endpoint_trouble(machine)
        ),
        GateCause::Unproven => format!(
            "Its member was put back in service, because {}. The next attempt follows within minutes",
            machine
                .and_then(|(_, machine)| machine.unproven.as_deref())
                .unwrap_or_default()
        ),
        GateCause::Proving => "Requests through the endpoint are made without it".to_owned(),
        GateCause::Confirming => {
            "Its members are removed, and requests through the endpoint are made again".to_owned()
        }
        GateCause::Draining => format!("Its members are being drained{}", refusal_of(machine)),
        GateCause::Removing => format!("Its members are being removed{}", refusal_of(machine)),
    }
}

/// Why Octavia does not take the machine's members out of service, as a subordinate clause; empty where it does.
fn refusal_of(machine: Option<(&ObjectName, &Machine)>) -> String {
    let slots = machine.into_iter().flat_map(|(_, machine)| &machine.slots);
    slots
        .filter_map(|slot| slot.refusal.as_ref())
        .map(|refusal| format!(", which Octavia refuses: {}", refusal.message))
        .next()
        .unwrap_or_default()
}

/// The request through the endpoint that failed, and its reply.
fn endpoint_trouble<'a>(machine: Option<(&ObjectName, &'a Machine)>) -> &'a str {
    match machine.and_then(|(_, machine)| machine.reach.as_ref()) {
        Some((_, Reach::Unreachable(text) | Reach::Wrong(text))) => text,
        Some((_, Reach::Ports(_))) | None => "",
    }
}

fn ambiguous(state: &State) -> String {
    if let Some(other) = &state.claimed_by {
        return format!(
            "OpenStackCluster {other} claims the same load balancer; nothing is written"
        );
    }
    let port = state.ports.iter().find_map(|port| port.ambiguous.as_ref());
    format!(
        "In the load balancer {}; nothing is written",
        port.map_or("two objects have one name", String::as_str)
    )
}

/// A member's class as a sentence.
pub(crate) fn member_class(port: u16, class: Class) -> String {
    let text = match class {
        Class::Missing => "does not exist yet",
        Class::PendingCreate => "is PENDING_CREATE",
        Class::PendingUpdate => "is PENDING_UPDATE",
        Class::PendingDelete => "is PENDING_DELETE",
        Class::Active => "is ACTIVE",
        Class::Error => "is in ERROR; it is repaired",
        Class::Orphaned => "is PENDING though the load balancer is ACTIVE; it is repaired",
        Class::Foreign => "is ambiguous: a member of another name has its address",
        Class::Unknown => "has a status that capo-rs does not know",
    };
    format!("Its member on port {port} {text}")
}

/// Which member is in a machine's way, by name.
fn foreign(state: &State, machine: &Machine, number: u16) -> String {
    let found = state
        .ports
        .iter()
        .zip(&machine.slots)
        .find(|(port, _)| port.number == number)
        .and_then(|(port, slot)| {
            let member = port.members.get(slot.foreign?)?;
            Some((port, slot, member))
        });
    let Some((port, slot, member)) = found else {
        return member_class(number, Class::Foreign);
    };
    if slot.twins {
        return format!(
            "More than one member of port {number} has its name and address; nothing is written"
        );
    }
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
        "On port {number} member {} is called {:?} and has its address {at}. It is not ours and is left alone: delete it, \
         or give it another address",
        member.id, member.name
    )
}

/// Which machines' members are in this class, for the cluster.
fn machines_in(state: &State, port: u16, class: Class) -> String {
    if class == Class::Foreign
        && let Some((name, machine)) = state.machines.iter().find(|(_, machine)| {
            let mut slots = machine.slots.iter().zip(&state.ports);
            slots.any(|(slot, known)| known.number == port && slot.foreign.is_some())
        })
    {
        return format!("{}: {}", name.name, foreign(state, machine, port));
    }
    let Some(index) = state.ports.iter().position(|known| known.number == port) else {
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
    let text = member_class(port, class);
    format!("{}: {text}", names.join(", "))
}

fn refusals(state: &State, machine: Option<&ObjectName>, port: u16) -> String {
    let index = state.ports.iter().position(|known| known.number == port);
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

/// Each other machine, and why it does not serve, or not yet.
fn others(state: &State, leaving: &ObjectName, number: u16) -> String {
    let Some((index, port)) = state
        .ports
        .iter()
        .enumerate()
        .find(|(_, port)| port.number == number)
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
            let serving = serving::serves(state, machine, (index, port), &now);
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
        Serving::NotYet(Want::OnlineSpan) => "ONLINE, but not for long enough yet",
        Serving::No(Lack::NoMember) => "no member",
        Serving::No(Lack::NotActive) => "its member is not ACTIVE",
        Serving::No(Lack::AdminDown) => "its member is disabled",
        Serving::No(Lack::Drained) => "its member has weight 0",
        Serving::No(Lack::Server) => "its server is not ACTIVE",
        Serving::No(Lack::Leaving) => "its own Machine is being deleted",
        Serving::No(Lack::Unhealthy) => "APIServerPodHealthy is False",
        Serving::No(Lack::NotOnline) => "its member is not ONLINE",
        Serving::No(Lack::NoEvidence) => {
            "its health is unknown: no health monitor, and no healthy Node"
        }
    }
}

fn evidence_text(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Online => "its member is steadily ONLINE",
        Evidence::Conditions => {
            "its member is in service, and Cluster API finds nothing wrong with it"
        }
    }
}

/// Why the operator's annotation is refused.
fn refused(state: &State, machine: Option<&Machine>) -> Option<String> {
    precedence::overrides(state, machine).find_map(|found| match found {
        GateOverride::Refused { message } => Some(message.clone()),
        _ => None,
    })
}
