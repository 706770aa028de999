//! The sentences of conditions, events and gates.

use jiff::Timestamp;

use crate::{
    decide::{precedence, proof::WITHOUT_PROOF},
    model::{
        clock::Now,
        decision::{
            CLUSTER_DELETING, GateCause, GateDecision, GateName, NEVER_INITIALISED,
            NO_MANAGED_LOAD_BALANCER, PAUSED, ReleaseBasis, SERVER_DOWN,
        },
        machine::{Machine, NamedMachine},
        member::Class,
        proof::Reach,
        state::State,
    },
    report::member_messages::{foreign, machines_in, member_class, others, refusals},
};
use capo_core::GateOverride;

/// What else a held release stops, and how an operator ends the hold.
pub(crate) fn while_held(state: &State) -> String {
    let cluster = state.cluster();
    let others = if cluster.is_some_and(|cluster| cluster.kubeadm_control_plane) {
        "While this Machine waits, KubeadmControlPlane changes nothing else in this control plane. "
    } else {
        ""
    };
    format!(
        ". {others}To allow the deletion of this Machine anyway, annotate its OpenStackMachine with \
         infrastructure.cluster.x-k8s.io/load-balancer-gate: bypass until=<RFC 3339> reason=<text>"
    )
}

/// What the gates would hold if they were enforced, as a subordinate clause. Empty if they are enforced or would hold
/// nothing.
pub(crate) fn observed(state: &State, named: NamedMachine<'_>) -> String {
    let gates = &named.machine.gates;
    [
        (GateName::Release, gates.release),
        (GateName::Admission, gates.admission),
    ]
    .into_iter()
    .find_map(|(gate, decision)| match decision {
        GateDecision::Observed(held) => Some(format!(
            "; the {} gate only observes (--load-balancer-gate) and does not hold it: {}",
            gate.as_str(),
            cause(state, Some(named), held)
        )),
        _ => None,
    })
    .unwrap_or_default()
}

/// The operator's annotations, as a subordinate clause; empty if there are none.
pub(crate) fn override_clause(state: &State, machine: Option<&Machine>, now: &Now) -> String {
    override_text(precedence::overrides(state, machine), now.wall)
        .map(|text| format!("; {text}"))
        .unwrap_or_default()
}

/// The text of the first of these overrides that applies, as a clause for messages. If none applies, the text of one
/// that was refused or has ended.
pub(crate) fn override_text<'a>(
    overrides: impl Iterator<Item = &'a GateOverride> + Clone,
    now: Timestamp,
) -> Option<String> {
    if let Some(GateOverride::Bypass { until, reason }) =
        precedence::first_bypass(overrides.clone(), now)
    {
        return Some(format!("bypassed by the operator until {until}: {reason}"));
    }
    if let Some(GateOverride::Hold { reason }) = precedence::first_hold(overrides.clone()) {
        return Some(format!("held by the operator: {reason}"));
    }
    let refused = overrides.clone().find_map(|found| match found {
        GateOverride::Refused { message } => {
            Some(format!("the operator's annotation is refused: {message}"))
        }
        _ => None,
    });
    let mut ended = overrides.filter_map(|found| match found {
        GateOverride::Bypass { until, .. } => {
            Some(format!("the operator's bypass ended at {until}"))
        }
        _ => None,
    });
    refused.or_else(|| ended.next())
}

/// How long members have been PENDING, as a text that changes at the thresholds only.
pub(crate) fn delay(state: &State) -> &'static str {
    if state.summary.stuck > 0 {
        "; members are stuck in a PENDING status"
    } else if state.summary.alerted > 0 {
        "; members have been PENDING for far longer than Octavia usually takes"
    } else {
        ""
    }
}

/// A cause as a sentence, for a machine or for the cluster.
pub(crate) fn cause(state: &State, named: Option<NamedMachine<'_>>, cause: GateCause) -> String {
    let machine = named.map(|named| named.machine);
    match cause {
        GateCause::Admitted => "Cluster API has admitted the machine already".to_owned(),
        GateCause::MembersActive => format!(
            "Its member was read ACTIVE on every port (provider profile {})",
            state.provider.label()
        ),
        GateCause::NotEnforced => "The gates are not enforced (--load-balancer-gate)".to_owned(),
        GateCause::Disabled => NO_MANAGED_LOAD_BALANCER.to_owned(),
        GateCause::ClusterDeleting => CLUSTER_DELETING.to_owned(),
        GateCause::NeverInitialised => NEVER_INITIALISED.to_owned(),
        GateCause::NeverServed => "The machine was never admitted and does not serve".to_owned(),
        GateCause::ServerDown => SERVER_DOWN.to_owned(),
        GateCause::DoesNotServe => {
            "Its API server is down (APIServerPodHealthy is False) and gets no clients, so its deletion interrupts no client"
                .to_owned()
        }
        GateCause::Released(ReleaseBasis::Proof) => {
            "Its members are removed, and requests through the endpoint were answered without it".to_owned()
        }
        GateCause::Released(ReleaseBasis::OthersServedLongEnough) => format!(
            "Its members are removed. No proof was possible, because the manager does not reach the endpoint ({}); the other machines have served for {} s",
            endpoint_trouble(machine),
            WITHOUT_PROOF.as_secs()
        ),
        GateCause::MembersGone => "Its members are removed".to_owned(),
        GateCause::LoadBalancerUnusable => {
            "The load balancer accepts no change, so a member that is left in it can't be removed".to_owned()
        }
        GateCause::Paused => PAUSED.to_owned(),
        GateCause::OperatorHold => "An annotation by the operator holds it".to_owned(),
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
        GateCause::LoadBalancerNotCreated => "There is no load balancer yet".to_owned(),
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
            Some(machine) if class == Class::Foreign => foreign(state, machine, port),
            Some(_) => member_class(port, class, state.provider),
            None => machines_in(state, port, class),
        },
        GateCause::Refused(port, _) => refusals(state, named.map(|named| named.name), port),
        GateCause::WaitingForEvidence(port, _) | GateCause::NoOther(port, _) => match named {
            Some(named) => others(state, named.name, port),
            None => format!("No other member serves port {port}"),
        },
        GateCause::AnotherFirst => "Another machine is released first".to_owned(),
        GateCause::Requesting => "A request through the endpoint is under way".to_owned(),
        GateCause::WrongAnswer => format!(
            "Its member stays in service, because no API server of this cluster answers through the endpoint: {}",
            endpoint_trouble(machine)
        ),
        GateCause::Unreachable => format!(
            "No proof is possible, because the manager does not reach the endpoint ({}). The other machines must serve, and nothing must answer at the endpoint, for {} s without interruption",
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
                .and_then(|machine| machine.called_off_because.as_deref())
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

/// Why Octavia does not take the machine's members out of service, as a subordinate clause; empty if it does.
fn refusal_of(machine: Option<&Machine>) -> String {
    let slots = machine.into_iter().flat_map(|machine| &machine.slots);
    slots
        .filter_map(|slot| slot.refusal.as_ref())
        .map(|refusal| format!(", which Octavia refuses: {}", refusal.message))
        .next()
        .unwrap_or_default()
}

/// The request through the endpoint that failed, and its reply.
fn endpoint_trouble(machine: Option<&Machine>) -> &str {
    match machine.and_then(|machine| machine.reach.as_ref()) {
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
        port.map_or("two objects have the same name", String::as_str)
    )
}
