//! The load balancer members in the status, as the worker found them. They are written only when they changed.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use capo_api::v1beta2::LoadBalancerMemberStatus;
use capo_core::{MemberStatus, ObjectName};
use capo_gate::findings::{Findings, MemberFinding};

/// The maximum number of members that the CRD's schema accepts.
const MAX_MEMBERS: usize = 1024;

/// Returns the members for the status. If nothing of a member changed except the time of its last read, the former
/// entry stays; otherwise every pass would write the status because of the new time.
pub(crate) fn list(
    findings: &Findings,
    before: &[LoadBalancerMemberStatus],
) -> Vec<LoadBalancerMemberStatus> {
    let mut keys = BTreeSet::new();
    findings
        .members
        .iter()
        .filter(|member| !member.machine.is_empty() && member.port > 0)
        .filter(|member| keys.insert((member.machine.clone(), member.port)))
        .take(MAX_MEMBERS)
        .map(|member| {
            let now = member_status(member);
            before
                .iter()
                .find(|old| has_same_content(old, &now))
                .cloned()
                .unwrap_or(now)
        })
        .collect()
}

fn member_status(member: &MemberFinding) -> LoadBalancerMemberStatus {
    let exists = member.id.is_some();
    LoadBalancerMemberStatus {
        machine: member.machine.clone(),
        port: member.port.into(),
        id: member.id.clone().map(Into::into),
        address: member.address.map(|address| address.to_string()),
        provisioning_status: exists.then(|| member.provisioning_status.to_string()),
        operating_status: exists.then(|| member.operating_status.label().to_owned()),
        since: Some(Time(whole_second(member.since))),
        last_observed: Some(Time(whole_second(member.last_observed))),
        message: Some(member.message.clone()).filter(|text| !text.is_empty()),
    }
}

fn has_same_content(old: &LoadBalancerMemberStatus, new: &LoadBalancerMemberStatus) -> bool {
    // The two times are not compared. This process knows the state only since its first read, so an earlier time that
    // the status has for the same state is kept.
    let LoadBalancerMemberStatus {
        machine,
        port,
        id,
        address,
        provisioning_status,
        operating_status,
        since: _,
        last_observed: _,
        message,
    } = old;
    *machine == new.machine
        && *port == new.port
        && *id == new.id
        && *address == new.address
        && *provisioning_status == new.provisioning_status
        && *operating_status == new.operating_status
        && *message == new.message
}

fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// How many of the members of existing machines are ACTIVE, such as `2/3`.
pub(crate) fn active(findings: &Findings, namespace: &str) -> String {
    let expected = |member: &&MemberFinding| {
        findings
            .machines
            .contains_key(&ObjectName::new(namespace, &member.machine))
    };
    let all = findings.members.iter().filter(expected);
    let (mut active, mut total) = (0, 0);
    for member in all {
        total += 1;
        active +=
            i32::from(member.id.is_some() && member.provisioning_status == MemberStatus::Active);
    }
    format!("{active}/{total}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use capo_core::{OperatingStatus, ProvisioningStatus};

    fn member(status: &str, second: i64) -> MemberFinding {
        let time = Timestamp::from_second(second).unwrap();
        MemberFinding {
            machine: "m".to_owned(),
            port: 6443,
            id: Some("1".into()),
            address: None,
            provisioning_status: MemberStatus::from(&ProvisioningStatus::from(status)),
            operating_status: OperatingStatus::Online,
            since: time,
            last_observed: time,
            message: String::new(),
            stuck: false,
            pool_id: None,
        }
    }

    fn findings(members: Vec<MemberFinding>) -> Findings {
        Findings {
            members,
            ..Findings::default()
        }
    }

    #[test]
    fn another_look_at_the_same_is_no_change() {
        let first = list(&findings(vec![member("ACTIVE", 10)]), &[]);
        let again = list(&findings(vec![member("ACTIVE", 500)]), &first);
        assert_eq!(first, again);
        let changed = list(&findings(vec![member("ERROR", 900)]), &first);
        assert_ne!(first, changed);
        assert_eq!(
            changed
                .first()
                .unwrap()
                .last_observed
                .as_ref()
                .unwrap()
                .0
                .as_second(),
            900
        );
    }

    #[test]
    fn two_members_of_one_name_and_port_are_shown_once() {
        let twice = findings(vec![member("ACTIVE", 1), member("ERROR", 1)]);
        assert_eq!(list(&twice, &[]).len(), 1);
    }
}
