//! Makes the findings from a state, for controllers, metrics and the command line. Their texts contain no counters and
//! no ages, so that they do not change while nothing else changes.

pub(crate) mod floating_ip;
pub(crate) mod member_messages;
pub(crate) mod messages;

use std::time::Duration;

use ipnet::IpNet;
use jiff::Timestamp;

use crate::{
    decide::{admission, classify, precedence, serving},
    model::{
        clock::{Now, Stamp},
        decision::{GateCause, GateDecision, NO_MANAGED_LOAD_BALANCER},
        findings::{Findings, Gate, MachineFinding, MemberFinding},
        machine::{Machine, NamedMachine},
        member::{Class, Member, Owner},
        port::{IndexedPort, Port},
        state::State,
    },
};
use capo_core::{ConditionState, ConditionStatus, GateMode, MemberStatus, OperatingStatus, Reason};

/// The findings of a state.
pub fn report(state: &State, now: &Now) -> Findings {
    let mut members = Vec::new();
    for indexed_port in state.indexed_ports() {
        for (name, machine) in &state.machines {
            let named = NamedMachine { name, machine };
            members.push(expected_member(state, named, indexed_port, now));
        }
        let port = indexed_port.port;
        let others = port
            .members
            .iter()
            .filter(|member| member.owner != Owner::Ours);
        let mut others: Vec<_> = others
            .map(|member| other_member(state, port, member, now))
            .collect();
        others.sort_by(|a, b| a.id.cmp(&b.id));
        members.extend(others);
    }
    members.retain(|member| member.id.is_some() || !member.message.is_empty());
    // The sort is stable, so that a machine's own member stays before another member of the same name.
    members.sort_by(|a, b| (&a.machine, a.port).cmp(&(&b.machine, b.port)));
    let machines = state
        .machines
        .iter()
        .map(|(name, machine)| {
            let finding = machine_finding(state, NamedMachine { name, machine }, now);
            (name.clone(), finding)
        })
        .collect();
    Findings {
        observed: state.reads.tree_read_at.map(|read| read.wall),
        interval_seconds: state.reads.interval.as_secs_f64(),
        fresh_until: state.fresh_until(),
        provisioning_status: state.balancer.provisioning.clone(),
        operating_status: state.balancer.operating.clone(),
        absent: state.balancer.is_absent(),
        suspect: state.reads.suspect,
        infrastructure_ready: state.summary.ready,
        settled_generation: state
            .desired
            .as_ref()
            .filter(|_| state.summary.settled)
            .map(|desired| desired.generation),
        allowed_cidrs: allowed_cidrs(state),
        initialised: state.summary.initialised,
        provider: state.provider.label(),
        verdict: cluster_verdict(state, now),
        counts_in_ready: state.summary.counts,
        members,
        machines,
    }
}

fn allowed_cidrs(state: &State) -> Option<Vec<IpNet>> {
    let mut ports = state.ports.iter().filter(|_| state.summary.ranges_known);
    let ranges = ports.next()?.cidrs.as_ref()?;
    ports
        .all(|port| port.cidrs.as_ref() == Some(ranges))
        .then(|| ranges.clone())
}

/// The condition of a cluster without a managed load balancer, and of its machines.
fn disabled(state: &State) -> Option<ConditionState> {
    let desired = state.desired.as_ref().filter(|desired| !desired.enabled);
    desired.map(|_| ConditionState {
        status: ConditionStatus::True,
        reason: Reason::LoadBalancerDisabled,
        message: NO_MANAGED_LOAD_BALANCER.to_owned(),
    })
}

fn cluster_verdict(state: &State, now: &Now) -> ConditionState {
    if let Some(disabled) = disabled(state) {
        return disabled;
    }
    let overrides = messages::override_clause(state, None, now);
    match state.summary.cause {
        Some(cause) => ConditionState {
            status: tristate(cause),
            reason: cause.reason(),
            message: format!(
                "{}{}{overrides}",
                messages::cause(state, None, cause),
                messages::delay(state)
            ),
        },
        None => ConditionState {
            status: ConditionStatus::True,
            reason: if state.summary.bypassed {
                Reason::OperatorBypass
            } else {
                Reason::MembersActive
            },
            message: format!(
                "Load balancer, listeners, pools and every expected member are ACTIVE (provider profile {}){overrides}",
                state.provider.label()
            ),
        },
    }
}

fn tristate(cause: GateCause) -> ConditionStatus {
    match cause {
        GateCause::NotObserved | GateCause::Stale | GateCause::Trouble(_) | GateCause::NotFresh => {
            ConditionStatus::Unknown
        }
        _ => ConditionStatus::False,
    }
}

fn machine_finding(state: &State, named: NamedMachine<'_>, now: &Now) -> MachineFinding {
    let machine = named.machine;
    let gates = &machine.gates;
    let cause = |cause| messages::cause(state, Some(named), cause);
    let shown = |decision: GateDecision, since: Option<Stamp>, more: &str| {
        let message = match decision {
            GateDecision::NotEvaluated => return Gate::NOT_EVALUATED,
            GateDecision::Open(open) => cause(open),
            GateDecision::Observed(_) => without_semicolon(&messages::observed(state, named)),
            GateDecision::Bypassed => {
                without_semicolon(&messages::override_clause(state, Some(machine), now))
            }
            GateDecision::Held(held) => cause(held) + more,
        };
        let begun = || since.map_or(now.wall, |since| since.wall);
        Gate {
            state: decision.state(),
            reason: decision.reason().unwrap_or(Reason::NotYetObserved),
            message,
            since: matches!(decision, GateDecision::Held(_)).then(begun),
        }
    };
    MachineFinding {
        verdict: machine_verdict(state, named, now),
        admission: shown(gates.admission, gates.admission_since, ""),
        release: shown(
            gates.release,
            gates.release_since,
            &messages::while_held(state),
        ),
        finalizer: shown(gates.finalizer, gates.finalizer_since, ""),
        needs_server_read: machine.needs_server_read,
    }
}

/// A subordinate clause as a sentence of its own.
fn without_semicolon(clause: &str) -> String {
    clause.trim_start_matches("; ").to_owned()
}

/// The condition of one machine: its own members, and why it is held if it is.
fn machine_verdict(state: &State, named: NamedMachine<'_>, now: &Now) -> ConditionState {
    let machine = named.machine;
    let overrides =
        messages::override_clause(state, Some(machine), now) + &messages::observed(state, named);
    if let Some(disabled) = disabled(state) {
        return disabled;
    }
    let gates = &machine.gates;
    let held = [gates.release, gates.finalizer, gates.admission]
        .into_iter()
        .find_map(|decision| match decision {
            GateDecision::Held(cause) => Some(cause),
            _ => None,
        });
    let blind = precedence::blind(state, now).filter(|cause| {
        tristate(*cause) == ConditionStatus::Unknown
            || matches!(
                cause,
                GateCause::Ambiguous
                    | GateCause::LoadBalancerAbsent
                    | GateCause::LoadBalancerNotCreated
            )
    });
    let leaving = serving::is_leaving(machine).then_some(GateCause::Removing);
    let cause = held.or(blind).or_else(|| {
        admission::admission_obstacle(state, machine).map(|lack| leaving.unwrap_or(lack))
    });
    // The condition of a machine that waits has to show what else the hold stops, and how an operator ends it.
    let while_held = match gates.release {
        GateDecision::Held(cause) if cause != GateCause::Paused => messages::while_held(state),
        _ => String::new(),
    };
    match cause {
        Some(cause) => ConditionState {
            status: tristate(cause),
            reason: cause.reason(),
            message: format!(
                "{}{while_held}{overrides}",
                messages::cause(state, Some(named), cause)
            ),
        },
        None => ConditionState {
            status: ConditionStatus::True,
            reason: if precedence::bypass(state, Some(machine), now).is_some() {
                Reason::OperatorBypass
            } else {
                Reason::MembersActive
            },
            message: format!(
                "Its member is ACTIVE on every port (provider profile {}){overrides}",
                state.provider.label()
            ),
        },
    }
}

fn expected_member(
    state: &State,
    NamedMachine { name, machine }: NamedMachine<'_>,
    IndexedPort { index, port }: IndexedPort<'_>,
    now: &Now,
) -> MemberFinding {
    let slot = machine.slots.get(index);
    let found = slot.and_then(|slot| port.members.get(slot.member?));
    if let (Some(member), Some(slot)) = (found, slot) {
        let class = classify::slot(slot, port, state.orphan_span());
        return MemberFinding {
            machine: name.name.clone(),
            message: member_message(state, machine, member, class, now),
            ..described(state, port, member, now)
        };
    }
    let class = slot.map_or(Class::Missing, |slot| {
        classify::slot(slot, port, state.orphan_span())
    });
    let leaving = serving::is_leaving(machine);
    let message = match class {
        _ if leaving || machine.want.address.is_none() => String::new(),
        Class::Foreign => member_messages::member_class(port.number, class, state.provider),
        _ => slot.and_then(|slot| slot.refusal.as_ref()).map_or_else(
            || "It does not exist yet".to_owned(),
            |refusal| format!("Octavia did not create it: {}", refusal.message),
        ),
    };
    MemberFinding {
        machine: name.name.clone(),
        port: port.number,
        id: None,
        pool_id: port.pool.as_ref().map(|pool| pool.id.clone()),
        address: machine.want.address,
        provisioning_status: MemberStatus::Missing,
        operating_status: OperatingStatus::default(),
        since: observed(state, now),
        last_observed: observed(state, now),
        message,
        stuck: false,
    }
}

fn other_member(state: &State, port: &Port, member: &Member, now: &Now) -> MemberFinding {
    let message = match member.owner {
        Owner::NameOnly => {
            "Its machine now has another address; it is removed once the member at that address is ACTIVE"
        }
        Owner::AddressOnly => {
            "It has the address of a machine, but another name; capo-rs does not change it"
        }
        Owner::NotHandedOver => {
            "Its machine is not known; it is removed once Kubernetes confirms that the machine is absent"
        }
        Owner::Ours | Owner::Unrelated => "capo-rs did not create it and does not change it",
    };
    let machine = member
        .name
        .strip_prefix(&port.prefix)
        .unwrap_or(&member.name);
    MemberFinding {
        machine: machine.to_owned(),
        message: message.to_owned(),
        ..described(state, port, member, now)
    }
}

fn described(state: &State, port: &Port, member: &Member, now: &Now) -> MemberFinding {
    let pending = member.provisioning.is_pending();
    MemberFinding {
        machine: String::new(),
        port: port.number,
        id: Some(member.id.clone()),
        pool_id: port.pool.as_ref().map(|pool| pool.id.clone()),
        address: member.address,
        provisioning_status: MemberStatus::from(&member.provisioning),
        operating_status: member.operating.clone(),
        since: member.since.wall,
        last_observed: observed(state, now),
        message: String::new(),
        stuck: pending && lasts(member, state.settings.alert_after, now),
    }
}

fn observed(state: &State, now: &Now) -> Timestamp {
    state.reads.tree_read_at.map_or(now.wall, |read| read.wall)
}

fn lasts(member: &Member, threshold: Duration, now: &Now) -> bool {
    now.since(member.since.instant) >= threshold
}

fn member_message(
    state: &State,
    machine: &Machine,
    member: &Member,
    class: Class,
    now: &Now,
) -> String {
    let leaving = serving::is_leaving(machine);
    let tracked = match class {
        Class::Active if serving::is_last_api_server(state, machine) => {
            "Its Machine is being deleted; it stays in service as long as its API server runs and no other member serves"
                .to_owned()
        }
        Class::Active if leaving => "It is being removed".to_owned(),
        Class::Active if member.is_joining() => {
            "It is disabled until its API server is known to serve".to_owned()
        }
        Class::Active if member.admin_up() == Some(false) => {
            "It is disabled, but capo-rs did not disable it".to_owned()
        }
        Class::Active if member.weight() == Some(0) => "It has weight 0".to_owned(),
        Class::Active => String::new(),
        Class::Error if leaving => "Its deletion failed and is repeated".to_owned(),
        Class::Error if machine.may_be_admitted() => {
            "Octavia failed to apply it; capo-rs sends its values again, with growing pauses".to_owned()
        }
        Class::Error => "Octavia failed to apply it; it is being recreated".to_owned(),
        Class::Orphaned => {
            "It is PENDING under an ACTIVE load balancer: the operation was lost; it is repeated"
                .to_owned()
        }
        Class::PendingCreate | Class::PendingUpdate | Class::PendingDelete => {
            if lasts(member, state.settings.stuck_after, now) {
                "It is stuck: nothing but Octavia's operator can free a PENDING load balancer"
                    .to_owned()
            } else if lasts(member, state.settings.alert_after, now) {
                "It is PENDING for far longer than Octavia usually takes".to_owned()
            } else {
                "Octavia is working on it".to_owned()
            }
        }
        Class::Foreign => "More than one member has its name".to_owned(),
        Class::Missing => "It no longer exists".to_owned(),
        Class::Unknown => format!(
            "Octavia shows the unknown status {}",
            member.provisioning.as_str()
        ),
    };
    if state.settings.mode == GateMode::Observe && class != Class::Active {
        return format!("{tracked}; with --load-balancer-gate=observe nothing is held");
    }
    tracked
}
