//! States of load balancers, members and gates, collected at every scrape.

use super::{
    Settings, catalogue,
    families::{FamilyText, Samples, number, seconds, truth},
    findings::{All, operating, operating_labels, provisioning_labels},
    label, member_states,
    members::Polled,
};
use capo_core::{GateState, MemberStatus, OperatingStatus};
use capo_gate::{
    GateName,
    findings::{Gate, MachineFinding},
};

/// The families of every tracked load balancer, and the numbers of servers and floating IPs.
pub(super) fn families(
    settings: &Settings,
    all: All<'_>,
    servers: usize,
    floating_ips: usize,
) -> Vec<FamilyText> {
    let polled = polled(settings, all, [all.len(), servers, floating_ips]);
    polled
        .into_iter()
        .chain(load_balancers(all))
        .chain(member_states::counts(all))
        .chain(member_states::one_by_one(settings, all))
        .chain(gates(all))
        .filter_map(Samples::family)
        .collect()
}

fn polled(settings: &Settings, all: All<'_>, numbers: [usize; Polled::ALL.len()]) -> [Samples; 2] {
    let mut targets = Samples::of(&catalogue::POLL_TARGETS);
    let mut interval = Samples::of(&catalogue::POLL_INTERVAL);
    let of_load_balancers = all.iter().map(|(_, findings)| findings.interval_seconds);
    let longest = settings.sync_period.as_secs_f64();
    let intervals = [of_load_balancers.fold(0.0, f64::max), longest, longest];
    for ((kind, polled), longest) in Polled::ALL.into_iter().zip(numbers).zip(intervals) {
        targets.add(&[kind.as_str()], number(polled));
        interval.add(&[kind.as_str()], longest);
    }
    [targets, interval]
}

fn load_balancers(all: All<'_>) -> [Samples; 5] {
    let mut status = Samples::of(&catalogue::LB_PROVISIONING);
    let mut health = Samples::of(&catalogue::LB_OPERATING);
    let mut observed = Samples::of(&catalogue::LB_OBSERVED);
    let mut interval = Samples::of(&catalogue::LB_INTERVAL);
    let mut initialized = Samples::of(&catalogue::LB_INITIALIZED);
    let (provisioning, operating_statuses) = (provisioning_labels(), operating_labels());
    for (cluster, findings) in all {
        let cluster = [cluster.namespace.as_str(), cluster.name.as_str()];
        let current = match &findings.provisioning_status {
            Some(status) => MemberStatus::from(status),
            None if findings.observed.is_some() => MemberStatus::Missing,
            None => MemberStatus::Unknown,
        };
        status.add_states(&cluster, &provisioning, current.as_str());
        let current = findings
            .operating_status
            .as_ref()
            .map_or(OperatingStatus::UNKNOWN_LABEL, operating);
        health.add_states(&cluster, &operating_statuses, current);
        if let Some(time) = findings.observed {
            observed.add(&cluster, seconds(time));
        }
        interval.add(&cluster, findings.interval_seconds);
        initialized.add(&cluster, truth(findings.initialised));
    }
    [status, health, observed, interval, initialized]
}

fn gates(all: All<'_>) -> [Samples; 3] {
    let mut state = Samples::of(&catalogue::GATE_STATE);
    let mut reason = Samples::of(&catalogue::GATE_REASON);
    let mut since = Samples::of(&catalogue::GATE_SINCE);
    let states = GateState::ALL.map(GateState::as_str);
    for (cluster, findings) in all {
        let (namespace, name) = (cluster.namespace.as_str(), cluster.name.as_str());
        for (gate, of) in GATES {
            let of_machines: Vec<&Gate> = findings.machines.values().map(of).collect();
            let current = overall(&of_machines, findings.observed.is_some());
            let gate = gate.as_str();
            state.add_states(&[namespace, name, gate], &states, current.as_str());
            for (machine, finding) in &findings.machines {
                let held = of(finding);
                if let Some(begun) = held.since {
                    let machine = label(&machine.name);
                    since.add(&[namespace, name, machine, gate], seconds(begun));
                    reason.add(&[namespace, name, machine, gate, held.reason.as_str()], 1.0);
                }
            }
        }
    }
    [state, reason, since]
}

/// Selects a gate in the findings of a machine.
type StateOf = fn(&MachineFinding) -> &Gate;

const GATES: [(GateName, StateOf); 3] = [
    (GateName::Admission, |machine| &machine.admission),
    (GateName::Release, |machine| &machine.release),
    (GateName::Finalizer, |machine| &machine.finalizer),
];

/// The most restrictive state of any machine. The state is open if no machine is at the gate.
fn overall(gates: &[&Gate], observed: bool) -> GateState {
    let any = |state| gates.iter().any(|gate| gate.state == state);
    if any(GateState::Held) {
        GateState::Held
    } else if any(GateState::Bypassed) {
        GateState::Bypassed
    } else if observed {
        GateState::Open
    } else {
        GateState::Unknown
    }
}
