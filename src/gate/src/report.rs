//! Puts the state into words: findings for controllers, metrics and the command line. Texts are stable while
//! nothing changes: no counters, no ages.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    classify::{self, Class},
    findings::{Findings, Gate, MachineFinding, MemberFinding},
    gate::{self, Ground, Ruling},
    serves,
    state::{Machine, Member, Now, Owner, Port, Stamp, State},
    words,
};
use capo_core::{ConditionState, ConditionStatus, GateMode, GateOverride, ProvisioningStatus};
use capo_core::{ObjectName, Reason};

/// Everything known, in words.
pub fn report(state: &State, now: &Now) -> Findings {
    let observed = state.reads.tree.map(|read| read.wall);
    let mut members = Vec::new();
    for (index, port) in state.ports.iter().enumerate() {
        for (name, machine) in state.machines.iter() {
            members.push(expected_member(state, name, machine, (index, port), now));
        }
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
    // A stable sort: a machine's own member stays before another one of its name.
    members.sort_by(|a, b| (&a.machine, a.port).cmp(&(&b.machine, b.port)));
    let machines = state
        .machines
        .iter()
        .map(|(name, machine)| (name.clone(), machine_finding(state, name, machine, now)))
        .collect();
    Findings {
        observed,
        interval_seconds: state.reads.interval.as_secs_f64(),
        provisioning_status: state
            .balancer
            .provisioning
            .as_ref()
            .map(|status| status.as_str().to_owned()),
        operating_status: state
            .balancer
            .operating
            .as_ref()
            .map(|status| status.as_str().to_owned()),
        absent: state.balancer.is_absent(),
        infrastructure_ready: state.shown.ready,
        settled_generation: state
            .desired
            .as_ref()
            .filter(|_| state.shown.settled)
            .map(|desired| desired.generation),
        never_initialised: state.shown.never_initialised,
        provider: state.provider.label(),
        verdict: cluster_verdict(state, now),
        counts_in_ready: state.shown.counts,
        members,
        machines,
    }
}

fn cluster_verdict(state: &State, now: &Now) -> ConditionState {
    let enabled = state.desired.as_ref().is_none_or(|desired| desired.enabled);
    if !enabled {
        return ConditionState {
            status: ConditionStatus::True,
            reason: Reason::LoadBalancerDisabled,
            message: "The cluster has no managed load balancer".to_owned(),
        };
    }
    let word = words::operator(state, None, now);
    let dark: Vec<String> = state
        .ports
        .iter()
        .skip(1)
        .filter(|port| serves::is_dark(state, port))
        .map(|port| port.number.to_string())
        .collect();
    let dark = if dark.is_empty() {
        String::new()
    } else {
        let ports = dark.join(", ");
        format!("; no member of port {ports} is ONLINE, so their health holds nothing")
    };
    match state.shown.ground {
        Some(ground) => ConditionState {
            status: tristate(ground),
            reason: ground.reason(),
            message: format!(
                "{}{}{word}",
                words::ground(state, None, ground),
                words::delay(state)
            ),
        },
        None => ConditionState {
            status: ConditionStatus::True,
            reason: if state.shown.bypassed {
                Reason::OperatorBypass
            } else {
                Reason::MembersActive
            },
            message: format!(
                "Load balancer, listeners, pools and every expected member are ACTIVE (provider profile {}){dark}{word}",
                state.provider.label()
            ),
        },
    }
}

fn tristate(ground: Ground) -> ConditionStatus {
    match ground {
        Ground::NotObserved | Ground::Stale | Ground::Trouble(_) | Ground::NotFresh => {
            ConditionStatus::Unknown
        }
        _ => ConditionStatus::False,
    }
}

fn machine_finding(
    state: &State,
    name: &ObjectName,
    machine: &Machine,
    now: &Now,
) -> MachineFinding {
    let rulings = &machine.rulings;
    let say = |ruling: Ruling, since: Option<Stamp>| match ruling {
        Ruling::NotAsked => Gate::NotAsked,
        Ruling::Open(ground) => Gate::Open {
            reason: ground.reason(),
            message: words::ground(state, Some((name, machine)), ground),
        },
        Ruling::Observed(ground) => Gate::Open {
            reason: ground.reason(),
            message: words::observed(state, name, machine)
                .trim_start_matches("; ")
                .to_owned(),
        },
        Ruling::Bypassed => Gate::Bypassed {
            message: words::operator(state, Some(machine), now)
                .trim_start_matches("; ")
                .to_owned(),
        },
        Ruling::Held(ground) => Gate::Held {
            reason: ground.reason(),
            message: words::ground(state, Some((name, machine)), ground),
            since: since.map_or(now.wall, |since| since.wall),
        },
    };
    let release = match say(rulings.release, rulings.release_since) {
        Gate::Held {
            reason,
            message,
            since,
        } => Gate::Held {
            reason,
            message: message + &words::frozen(state),
            since,
        },
        gate => gate,
    };
    MachineFinding {
        verdict: machine_verdict(state, name, machine, now),
        admission: say(rulings.admission, rulings.admission_since),
        release,
        finalizer: say(rulings.finalizer, rulings.finalizer_since),
        server_wanted: machine.server_wanted,
    }
}

/// The condition of one machine: its own members, and why it is held if it is.
fn machine_verdict(
    state: &State,
    name: &ObjectName,
    machine: &Machine,
    now: &Now,
) -> ConditionState {
    let word = words::operator(state, Some(machine), now) + &words::observed(state, name, machine);
    if state
        .desired
        .as_ref()
        .is_some_and(|desired| !desired.enabled)
    {
        return ConditionState {
            status: ConditionStatus::True,
            reason: Reason::LoadBalancerDisabled,
            message: "The cluster has no managed load balancer".to_owned(),
        };
    }
    let rulings = &machine.rulings;
    let held = [rulings.release, rulings.finalizer, rulings.admission]
        .into_iter()
        .find_map(|ruling| match ruling {
            Ruling::Held(ground) => Some(ground),
            _ => None,
        });
    let blind = gate::blind(state, now).filter(|ground| {
        tristate(*ground) == ConditionStatus::Unknown
            || matches!(
                ground,
                Ground::Ambiguous | Ground::LoadBalancerAbsent | Ground::LoadBalancerNotMade
            )
    });
    let leaving = serves::is_leaving(machine).then_some(Ground::Removing);
    let ground = held
        .or(blind)
        .or_else(|| gate::members_lack(state, machine).map(|lack| leaving.unwrap_or(lack)));
    // Who reads the condition of a machine that waits must learn what it holds up, and the way out.
    let frozen = match rulings.release {
        Ruling::Held(ground) if ground != Ground::Paused => words::frozen(state),
        _ => String::new(),
    };
    match ground {
        Some(ground) => ConditionState {
            status: tristate(ground),
            reason: ground.reason(),
            message: format!(
                "{}{frozen}{word}",
                words::ground(state, Some((name, machine)), ground)
            ),
        },
        None => ConditionState {
            status: ConditionStatus::True,
            reason: if gate::bypass(state, Some(machine), now).is_some() {
                Reason::OperatorBypass
            } else {
                Reason::MembersActive
            },
            message: format!(
                "Its member is ACTIVE on every port (provider profile {}){word}",
                state.provider.label()
            ),
        },
    }
}

fn expected_member(
    state: &State,
    name: &ObjectName,
    machine: &Machine,
    (index, port): (usize, &Port),
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
    let leaving = serves::is_leaving(machine);
    let message = match class {
        _ if leaving || machine.want.address.is_none() => String::new(),
        Class::Foreign => words::member_class(port.number, class),
        _ => slot.and_then(|slot| slot.refusal.as_ref()).map_or_else(
            || "It is not there yet".to_owned(),
            |refusal| format!("It can't be made: {}", refusal.message),
        ),
    };
    MemberFinding {
        machine: name.name.clone(),
        port: port.number,
        id: None,
        pool_id: port.pool.as_ref().map(|pool| pool.id.clone()),
        address: machine.want.address,
        provisioning_status: "Missing".to_owned(),
        operating_status: "Unknown".to_owned(),
        since: state.reads.tree.map_or(now.wall, |read| read.wall),
        last_observed: state.reads.tree.map_or(now.wall, |read| read.wall),
        message,
        stuck: false,
    }
}

fn other_member(state: &State, port: &Port, member: &Member, now: &Now) -> MemberFinding {
    let message = match member.owner {
        Owner::NameOnly => "It has the name of a machine at another address; it is left alone",
        Owner::AddressOnly => {
            "It has the address of a machine under another name; it is left alone"
        }
        Owner::Gone => {
            "Its machine is not known; it is removed once Kubernetes confirms that the machine is absent"
        }
        Owner::Ours | Owner::Stranger => "It is not ours; it is left alone",
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
        provisioning_status: match &member.provisioning {
            ProvisioningStatus::Unknown(_) => "Unknown".to_owned(),
            known => known.as_str().to_owned(),
        },
        operating_status: match &member.operating {
            capo_core::OperatingStatus::Unknown(_) => "Unknown".to_owned(),
            known => known.as_str().to_owned(),
        },
        since: member.since.wall,
        last_observed: observed(state, now),
        message: String::new(),
        stuck: pending && lasts(member, state.settings.alert_after, now),
    }
}

fn observed(state: &State, now: &Now) -> Timestamp {
    state.reads.tree.map_or(now.wall, |read| read.wall)
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
    let leaving = serves::is_leaving(machine);
    let tracked = match class {
        Class::Active if leaving => "It is being removed".to_owned(),
        Class::Active if member.is_joining() => {
            "It joins admin-down, and gets traffic once its API server is known to serve".to_owned()
        }
        Class::Active if member.admin_up() == Some(false) => {
            "It is admin-down, not by us".to_owned()
        }
        Class::Active if member.weight() == Some(0) => "It has weight 0".to_owned(),
        Class::Active => String::new(),
        Class::Error if leaving => "Its deletion failed and is repeated".to_owned(),
        Class::Error if machine.may_be_admitted() => {
            "Octavia failed to apply it; it is pushed again, with growing pauses".to_owned()
        }
        Class::Error => "Octavia failed to apply it; it is made anew".to_owned(),
        Class::Orphaned => {
            "It is PENDING under an ACTIVE load balancer: the operation was lost; it is repeated"
                .to_owned()
        }
        Class::PendingCreate | Class::PendingUpdate | Class::PendingDelete => {
            if lasts(member, state.settings.stuck_after, now) {
                "It is stuck: nothing but Octavia's operator can free a PENDING load balancer"
                    .to_owned()
            } else if lasts(member, state.settings.alert_after, now) {
                "It is PENDING for far longer than Octavia takes as a rule".to_owned()
            } else {
                "Octavia is working on it".to_owned()
            }
        }
        Class::Foreign => "More than one member answers to its name".to_owned(),
        Class::Missing => "It is gone".to_owned(),
        Class::Unknown => format!(
            "Octavia shows the unknown status {}",
            member.provisioning.as_str()
        ),
    };
    if state.settings.mode == GateMode::Observe && class != Class::Active {
        return format!("{tracked}; nothing is held in mode observe");
    }
    tracked
}

/// For messages: which word of the operator is refused.
pub(super) fn refused(state: &State, machine: Option<&Machine>) -> Option<String> {
    gate::words(state, machine).find_map(|word| match word {
        GateOverride::Refused { message } => Some(message.clone()),
        _ => None,
    })
}
