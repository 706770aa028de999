//! States of members, computed for every scrape.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashSet},
};

use super::{
    MemberDetail, Settings, catalogue,
    families::{Samples, number, seconds, truth},
    findings::{All, operating, operating_labels, provisioning_labels},
    label,
};
use capo_core::ids::{MemberId, PoolId};
use capo_core::{MemberStatus, ObjectName, OperatingStatus};
use capo_gate::findings::MemberFinding;

/// The number of members in each state. It includes members without series of their own.
pub(super) fn counts(all: All<'_>) -> [Samples; 2] {
    let mut counts = Samples::of(&catalogue::MEMBERS);
    let mut stuck = Samples::of(&catalogue::MEMBERS_STUCK);
    for (cluster, findings) in all {
        let mut ports: BTreeMap<u16, Vec<&MemberFinding>> = BTreeMap::new();
        for member in &findings.members {
            ports.entry(member.port).or_default().push(member);
        }
        for (port, members) in ports {
            let port = port.to_string();
            let (namespace, name) = (cluster.namespace.as_str(), cluster.name.as_str());
            for status in MemberStatus::ALL {
                let in_it = how_many(&members, |member| member.provisioning_status == status);
                counts.add(&[namespace, name, &port, status.as_str()], in_it);
            }
            let late = how_many(&members, |member| member.stuck);
            stuck.add(&[namespace, name, &port], late);
        }
    }
    [counts, stuck]
}

fn how_many(members: &[&MemberFinding], wanted: impl Fn(&MemberFinding) -> bool) -> f64 {
    number(members.iter().filter(|member| wanted(member)).count())
}

/// The series of single members, up to the limit.
pub(super) fn one_by_one(settings: &Settings, all: All<'_>) -> [Samples; 5] {
    let mut status = Samples::of(&catalogue::MEMBER_PROVISIONING);
    let mut health = Samples::of(&catalogue::MEMBER_OPERATING);
    let mut since = Samples::of(&catalogue::MEMBER_SINCE);
    let mut info = Samples::of(&catalogue::MEMBER_INFO);
    let (provisioning, operating_statuses) = (provisioning_labels(), operating_labels());
    let mut are_suppressed = Samples::of(&catalogue::SUPPRESSED);
    let (members, suppressed) = members_with_series(settings, all);
    are_suppressed.add(&[], truth(suppressed));
    for (cluster, member) in members {
        let port = member.port.to_string();
        let (namespace, name) = (cluster.namespace.as_str(), cluster.name.as_str());
        let labels = [namespace, name, label(&member.machine), &port];
        let current = member.provisioning_status.as_str();
        status.add_states(&labels, &provisioning, current);
        let healthy = operating(&member.operating_status);
        health.add_states(&labels, &operating_statuses, healthy);
        since.add(&labels, seconds(member.since));
        let address = member.address.map(|address| address.to_string());
        let id = member.id.as_ref().map(MemberId::as_str);
        let pool = member.pool_id.as_ref().map(PoolId::as_str);
        let [id, pool, address] = [id, pool, address.as_deref()].map(|text| text.map_or("", label));
        let [namespace, name, machine, port] = labels;
        info.add(&[namespace, name, machine, port, id, pool, address], 1.0);
    }
    [status, health, since, info, are_suppressed]
}

/// The members with series of their own, and whether there are further members. If several members have one machine's
/// name on one port, the machine's own member is chosen, which comes first, because a series can't have two values.
fn members_with_series<'a>(
    settings: &Settings,
    all: All<'a>,
) -> (Vec<(&'a ObjectName, &'a MemberFinding)>, bool) {
    let mut members: Vec<_> = all
        .iter()
        .flat_map(|(cluster, findings)| findings.members.iter().map(move |one| (cluster, one)))
        .collect();
    let total = members.len();
    let mut named = HashSet::new();
    members
        .retain(|(cluster, member)| named.insert((*cluster, label(&member.machine), member.port)));
    match settings.member_detail {
        MemberDetail::Full => {}
        MemberDetail::Off => members.clear(),
        MemberDetail::Auto if total <= settings.max_members => {}
        MemberDetail::Auto => {
            members.retain(|(_, member)| !is_fine(member));
            // The sort is stable: members that are pending or in ERROR come before those that only lack a monitor.
            members.sort_by(|(_, one), (_, other)| rank(one, other));
            members.truncate(settings.max_members);
        }
    }
    let suppressed = members.len() < total;
    (members, suppressed)
}

fn is_active(member: &MemberFinding) -> bool {
    member.provisioning_status == MemberStatus::Active
}

fn is_fine(member: &MemberFinding) -> bool {
    is_active(member) && member.operating_status == OperatingStatus::Online
}

fn rank(one: &MemberFinding, other: &MemberFinding) -> Ordering {
    is_active(one).cmp(&is_active(other))
}
