//! Findings of many clusters, made without clusters.

use std::sync::Arc;

use capo_core::{
    ConditionState, MemberStatus, ObjectName, OperatingStatus, ProvisioningStatus, Reason,
};
use capo_gate::findings::{Findings, Gate, MachineFinding, MemberFinding};
use jiff::Timestamp;

/// A member in this provisioning status.
pub fn member(machine: &str, port: u16, status: &str) -> MemberFinding {
    MemberFinding {
        machine: machine.to_owned(),
        port,
        id: Some("4b4d6a52-8a4c-4d0e-9d1f-1f2e3d4c5b6a".into()),
        pool_id: Some("9d1f1f2e-8a4c-4d0e-9d1f-1f2e3d4c5b6a".into()),
        address: Some("10.6.0.5".parse().unwrap()),
        provisioning_status: MemberStatus::from(&ProvisioningStatus::from(status)),
        operating_status: OperatingStatus::Online,
        since: Timestamp::UNIX_EPOCH,
        last_observed: Timestamp::UNIX_EPOCH,
        message: String::new(),
        stuck: false,
    }
}

/// This many clusters with this many machines on these ports. In one of ten clusters the last machine waits for its
/// members.
pub fn clusters(number: usize, machines: usize, ports: &[u16]) -> Vec<(ObjectName, Arc<Findings>)> {
    (0..number)
        .map(|cluster| {
            let mut findings = Findings {
                observed: Some(Timestamp::now()),
                interval_seconds: 300.0,
                ..Findings::default()
            };
            for machine in 0..machines {
                let pending = cluster % 10 == 0 && machine + 1 == machines;
                let status = if pending { "PENDING_CREATE" } else { "ACTIVE" };
                let name = format!("cluster-{cluster}-control-plane-{machine}");
                let members = ports.iter().map(|port| member(&name, *port, status));
                findings.members.extend(members);
                findings
                    .machines
                    .insert(ObjectName::new("team", name), found(pending));
            }
            let name = ObjectName::new("team", format!("cluster-{cluster}"));
            (name, Arc::new(findings))
        })
        .collect()
}

fn found(pending: bool) -> MachineFinding {
    MachineFinding {
        verdict: ConditionState::default(),
        admission: if pending {
            Gate::held(Reason::MemberPending, "", Timestamp::UNIX_EPOCH)
        } else {
            Gate::NOT_EVALUATED
        },
        release: Gate::NOT_EVALUATED,
        finalizer: Gate::NOT_EVALUATED,
        needs_server_read: false,
    }
}
