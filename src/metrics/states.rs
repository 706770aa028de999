//! States of load balancers, members and gates, made anew for every scrape.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use prometheus::{Registry, proto::MetricFamily};

use super::catalogue::{Result, gauges, seconds, whole_gauge, whole_gauges};
use crate::{
    membership::findings::{Findings, Gate, MemberFinding},
    names::ObjectName,
};

/// Above this many members only those that are not ACTIVE and ONLINE are shown one by one.
const MEMBERS_IN_DETAIL: usize = 500;

const PROVISIONING: [&str; 8] = [
    "ACTIVE",
    "PENDING_CREATE",
    "PENDING_UPDATE",
    "PENDING_DELETE",
    "ERROR",
    "DELETED",
    "Missing",
    "Unknown",
];
const OPERATING: [&str; 7] = [
    "ONLINE",
    "DRAINING",
    "OFFLINE",
    "DEGRADED",
    "ERROR",
    "NO_MONITOR",
    "Unknown",
];
const GATE_STATES: [&str; 4] = ["Open", "Held", "Bypassed", "Unknown"];

/// The provisioning status as a bounded label value.
pub(super) fn provisioning(status: &str) -> &'static str {
    bounded(&PROVISIONING, status)
}

fn bounded(known: &[&'static str], status: &str) -> &'static str {
    known
        .iter()
        .find(|known| **known == status)
        .copied()
        .unwrap_or("Unknown")
}

/// The families of every load balancer that is tracked.
pub(super) fn families(all: &[(ObjectName, Arc<Findings>)]) -> Result<Vec<MetricFamily>> {
    let registry = Registry::new();
    load_balancers(&registry, all)?;
    members(&registry, all)?;
    gates(&registry, all)?;
    Ok(registry.gather())
}

fn load_balancers(registry: &Registry, all: &[(ObjectName, Arc<Findings>)]) -> Result<()> {
    let status = whole_gauges(
        registry,
        "capo_lb_provisioning_status",
        "Provisioning status of the API server's load balancer: 1 for the one it is in.",
        &["cluster_namespace", "cluster_name", "status"],
    )?;
    let health = whole_gauges(
        registry,
        "capo_lb_operating_status",
        "Operating status of the API server's load balancer: 1 for the one it is in.",
        &["cluster_namespace", "cluster_name", "status"],
    )?;
    let observed = gauges(
        registry,
        "capo_lb_last_observation_timestamp_seconds",
        "When the load balancer was last read completely.",
        &["cluster_namespace", "cluster_name"],
    )?;
    let targets = whole_gauges(
        registry,
        "capo_poll_targets",
        "What is read again and again because it changes by itself.",
        &["kind"],
    )?;
    targets
        .with_label_values(&["load-balancer"])
        .set(i64::try_from(all.len()).unwrap_or(i64::MAX));
    for (cluster, findings) in all {
        let (namespace, name) = (cluster.namespace.as_str(), cluster.name.as_str());
        let current =
            findings
                .provisioning_status
                .as_deref()
                .unwrap_or(if findings.observed.is_some() {
                    "Missing"
                } else {
                    "Unknown"
                });
        let current = provisioning(current);
        for one in PROVISIONING {
            status
                .with_label_values(&[namespace, name, one])
                .set(i64::from(one == current));
        }
        let current = bounded(
            &OPERATING,
            findings.operating_status.as_deref().unwrap_or("Unknown"),
        );
        for one in OPERATING {
            health
                .with_label_values(&[namespace, name, one])
                .set(i64::from(one == current));
        }
        if let Some(time) = findings.observed {
            observed
                .with_label_values(&[namespace, name])
                .set(seconds(time));
        }
    }
    Ok(())
}

fn members(registry: &Registry, all: &[(ObjectName, Arc<Findings>)]) -> Result<()> {
    const MEMBER: [&str; 4] = ["cluster_namespace", "cluster_name", "machine", "port"];
    let with = |more: &[&'static str]| -> Vec<&'static str> {
        MEMBER.iter().copied().chain(more.iter().copied()).collect()
    };
    let status = whole_gauges(
        registry,
        "capo_lb_member_provisioning_status",
        "Provisioning status of a member: 1 for the one it is in.",
        &with(&["status"]),
    )?;
    let health = whole_gauges(
        registry,
        "capo_lb_member_operating_status",
        "Operating status of a member: 1 for the one it is in.",
        &with(&["status"]),
    )?;
    let since = gauges(
        registry,
        "capo_lb_member_state_since_timestamp_seconds",
        "Since when a member is in its provisioning status.",
        &MEMBER,
    )?;
    let info = whole_gauges(
        registry,
        "capo_lb_member_info",
        "What a member is; always 1.",
        &with(&["member_id", "pool_id", "address"]),
    )?;
    let counts = whole_gauges(
        registry,
        "capo_lb_members",
        "Members of a port by provisioning status.",
        &["cluster_namespace", "cluster_name", "port", "status"],
    )?;
    let stuck = whole_gauges(
        registry,
        "capo_lb_members_stuck",
        "Members of a port that have been pending for longer than the alert threshold.",
        &["cluster_namespace", "cluster_name", "port"],
    )?;
    let suppressed = whole_gauge(
        registry,
        "capo_metrics_member_detail_suppressed",
        "1 while there are too many members to show each of them.",
    )?;
    let total: usize = all.iter().map(|(_, findings)| findings.members.len()).sum();
    let everyone = total <= MEMBERS_IN_DETAIL;
    suppressed.set(i64::from(!everyone));
    let mut shown = 0;
    for (cluster, findings) in all {
        let (namespace, name) = (cluster.namespace.as_str(), cluster.name.as_str());
        for member in &findings.members {
            let port = member.port.to_string();
            let current = provisioning(&member.provisioning_status);
            for one in PROVISIONING {
                counts
                    .with_label_values(&[namespace, name, &port, one])
                    .add(i64::from(one == current));
            }
            stuck
                .with_label_values(&[namespace, name, &port])
                .add(i64::from(member.stuck));
            if shown >= MEMBERS_IN_DETAIL || !(everyone || is_remarkable(member)) {
                continue;
            }
            shown += 1;
            let of = [namespace, name, member.machine.as_str(), port.as_str()];
            for one in PROVISIONING {
                let labels: Vec<&str> = of.iter().copied().chain([one]).collect();
                status
                    .with_label_values(&labels)
                    .set(i64::from(one == current));
            }
            let healthy = bounded(&OPERATING, &member.operating_status);
            for one in OPERATING {
                let labels: Vec<&str> = of.iter().copied().chain([one]).collect();
                health
                    .with_label_values(&labels)
                    .set(i64::from(one == healthy));
            }
            since.with_label_values(&of).set(seconds(member.since));
            let address = member.address.map(|address| address.to_string());
            let what = [
                member.id.as_deref().unwrap_or(""),
                member.pool_id.as_deref().unwrap_or(""),
                address.as_deref().unwrap_or(""),
            ];
            let labels: Vec<&str> = of.iter().copied().chain(what).collect();
            info.with_label_values(&labels).set(1);
        }
    }
    Ok(())
}

fn is_remarkable(member: &MemberFinding) -> bool {
    member.provisioning_status != "ACTIVE" || member.operating_status != "ONLINE"
}

fn gates(registry: &Registry, all: &[(ObjectName, Arc<Findings>)]) -> Result<()> {
    let state = whole_gauges(
        registry,
        "capo_gate_state",
        "State of a gate over all machines of a cluster: 1 for the one it is in.",
        &["cluster_namespace", "cluster_name", "gate", "state"],
    )?;
    let reason = whole_gauges(
        registry,
        "capo_gate_held_reason",
        "Why a gate is held; absent while it is not.",
        &["cluster_namespace", "cluster_name", "gate", "reason"],
    )?;
    let since = gauges(
        registry,
        "capo_gate_held_since_timestamp_seconds",
        "Since when a gate is held; absent while it is not.",
        &["cluster_namespace", "cluster_name", "gate"],
    )?;
    for (cluster, findings) in all {
        let (namespace, name) = (cluster.namespace.as_str(), cluster.name.as_str());
        let mut gates: BTreeMap<&str, Vec<&Gate>> = BTreeMap::new();
        for gate in ["admission", "release", "finalizer"] {
            gates.insert(gate, Vec::new());
        }
        for machine in findings.machines.values() {
            for (gate, of_machine) in [
                ("admission", &machine.admission),
                ("release", &machine.release),
                ("finalizer", &machine.finalizer),
            ] {
                gates.entry(gate).or_default().push(of_machine);
            }
        }
        for (gate, of_machines) in gates {
            let current = overall(&of_machines, findings.observed.is_some());
            for one in GATE_STATES {
                state
                    .with_label_values(&[namespace, name, gate, one])
                    .set(i64::from(one == current));
            }
            let mut oldest: Option<Timestamp> = None;
            for one in of_machines {
                if let Gate::Held {
                    reason: why, since, ..
                } = one
                {
                    reason
                        .with_label_values(&[namespace, name, gate, why.as_str()])
                        .set(1);
                    oldest = Some(oldest.map_or(*since, |oldest| oldest.min(*since)));
                }
            }
            if let Some(oldest) = oldest {
                since
                    .with_label_values(&[namespace, name, gate])
                    .set(seconds(oldest));
            }
        }
    }
    Ok(())
}

/// The most restrictive state of any machine; nobody asking is open.
fn overall(gates: &[&Gate], observed: bool) -> &'static str {
    let any = |wanted: fn(&Gate) -> bool| gates.iter().any(|gate| wanted(gate));
    if any(|gate| matches!(gate, Gate::Held { .. })) {
        "Held"
    } else if any(|gate| matches!(gate, Gate::Bypassed { .. })) {
        "Bypassed"
    } else if observed {
        "Open"
    } else {
        "Unknown"
    }
}
