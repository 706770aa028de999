//! `--direct`: reads the load balancer and its members from Octavia with the cluster's own credentials. Gates and
//! conditions are still those that the manager reported.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Client, ResourceExt};

use super::snapshot::{Direct, Snapshot};
use crate::reconcile::{ClusterIdentityDefault, identity, name_of};
use crate::subject::Subject;
use capo_api::v1beta2::{LoadBalancerMemberStatus, LoadBalancerStatus};
use capo_core::{Priority, ProvisioningStatus};
use capo_openstack::{
    ClientSettings, Clouds, LeaseToken, NoObserver,
    load_balancer::{StatusTree, TreeMember},
};

/// Reads the load balancer from Octavia, and replaces the members of the snapshot's status by those that Octavia has.
///
/// # Errors
/// The object that is missing or can't be read, or OpenStack's answer.
pub(super) async fn read(client: &Client, snapshot: &mut Snapshot) -> Result<(), String> {
    let Some(cluster) = &mut snapshot.openstack_cluster else {
        return Err("there is no OpenStackCluster yet whose credentials --direct could use".into());
    };
    let object = Subject::new("OpenStackCluster", &name_of(cluster));
    let status = cluster.status.as_ref();
    let balancer = status.and_then(|status| status.api_server_managed_load_balancer.as_ref());
    let Some(id) = balancer.and_then(|balancer| balancer.id.clone()) else {
        return Err(format!(
            "{object}: status.apiServerManagedLoadBalancer.id is empty: there is no load balancer that --direct could read"
        ));
    };
    // Without a lease the client sends no request that changes anything.
    let lease = LeaseToken::not_held();
    let clouds = Clouds::new(ClientSettings::default(), lease, Arc::new(NoObserver));
    let cloud = identity::cloud_of_cluster(client, &clouds, ClusterIdentityDefault::Allow, cluster)
        .await
        .map_err(|error| error.to_string())?;
    let now = Timestamp::now();
    let tree = cloud
        .status_tree(&id.as_str().into(), Priority::Gate)
        .await
        .map_err(|error| format!("{object}: reading load balancer {id}: {error}"))?;
    let machines: Vec<String> = snapshot
        .openstack_machines
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    let status = cluster.status.as_mut();
    if let Some(balancer) =
        status.and_then(|status| status.api_server_managed_load_balancer.as_mut())
    {
        take_over(balancer, &tree, &machines, now);
    }
    snapshot.direct = Some(Direct {
        provisioning_status: tree.provisioning_status.to_string(),
        operating_status: tree.operating_status.to_string(),
        time: now,
    });
    Ok(())
}

/// Replaces the members of the status by those of the tree. `machines` are the names of the cluster's machines.
pub(super) fn take_over(
    balancer: &mut LoadBalancerStatus,
    tree: &StatusTree,
    machines: &[String],
    now: Timestamp,
) {
    let mut found: Vec<&TreeMember> = tree.pools.iter().flat_map(|pool| &pool.members).collect();
    for listed in &mut balancer.members {
        let name = format!("{}-{}-{}", balancer.name, listed.port, listed.machine);
        let own = found.iter().position(|member| {
            listed.id.as_deref() == Some(member.id.as_str()) || member.name == name
        });
        let own = own.map(|index| found.swap_remove(index));
        write(listed, own, now);
    }
    // These members are not in the status: they belong to another owner, or are newer than the status.
    for member in found {
        let prefix = format!("{}-{}-", balancer.name, member.protocol_port);
        let machine = member.name.strip_prefix(&prefix).unwrap_or(&member.name);
        let mut listed = LoadBalancerMemberStatus {
            machine: machine.to_owned(),
            port: member.protocol_port.into(),
            ..LoadBalancerMemberStatus::default()
        };
        write(&mut listed, Some(member), now);
        balancer.members.push(listed);
    }
    let ours = balancer
        .members
        .iter()
        .filter(|member| machines.contains(&member.machine));
    let (mut active, mut total) = (0, 0);
    for member in ours {
        total += 1;
        active += i32::from(
            member
                .provisioning_status
                .as_deref()
                .map(ProvisioningStatus::from)
                == Some(ProvisioningStatus::Active),
        );
    }
    balancer.active_members = Some(format!("{active}/{total}"));
}

fn write(listed: &mut LoadBalancerMemberStatus, found: Option<&TreeMember>, now: Timestamp) {
    let provisioning = found.map(|member| member.provisioning_status.to_string());
    if listed.provisioning_status != provisioning {
        // The status changed after the manager wrote it, at a time that is unknown here.
        listed.since = None;
        listed.message = None;
    }
    listed.provisioning_status = provisioning;
    listed.id = found.map(|member| member.id.clone()).map(Into::into);
    listed.operating_status = found.map(|member| member.operating_status.to_string());
    listed.last_observed = Some(Time(now));
    if let Some(address) = found.and_then(|member| member.address) {
        listed.address = Some(address.to_string());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use capo_openstack::load_balancer::TreePool;

    fn tree(members: &[Value]) -> StatusTree {
        let pool = TreePool {
            id: "pool".into(),
            name: "lb-6443".to_owned(),
            provisioning_status: "ACTIVE".into(),
            operating_status: "ONLINE".into(),
            health_monitor: None,
            members: members
                .iter()
                .map(|member| serde_json::from_value(member.clone()).unwrap())
                .collect(),
        };
        StatusTree {
            id: "lb".into(),
            name: "lb".to_owned(),
            provisioning_status: "ACTIVE".into(),
            operating_status: "ONLINE".into(),
            listeners: Vec::new(),
            pools: vec![pool],
        }
    }

    #[test]
    fn what_octavia_reports_replaces_the_members_of_the_status() {
        let listed = |machine: &str, id: &str| {
            json!({"machine": machine, "port": 6443, "id": id, "provisioningStatus": "ACTIVE", "operatingStatus": "ONLINE",
                "since": "2026-11-21T11:57:00Z", "message": "fine"})
        };
        let mut balancer: LoadBalancerStatus =
            serde_json::from_value(json!({"name": "lb", "id": "lb", "activeMembers": "3/3",
            "members": [listed("cp-0", "0"), listed("cp-1", "1"), listed("cp-2", "2")]}))
            .unwrap();
        let member = |id: &str, name: &str, status: &str| {
            json!({"id": id, "name": name, "address": "10.6.0.7", "protocol_port": 6443,
                "provisioning_status": status, "operating_status": "OFFLINE"})
        };
        let tree = tree(&[
            member("0", "lb-6443-cp-0", "ACTIVE"),
            // This member was created again after the status was written.
            member("11", "lb-6443-cp-1", "PENDING_CREATE"),
            member("7", "foreign", "ERROR"),
        ]);
        let machines = ["cp-0", "cp-1", "cp-2"].map(str::to_owned);
        take_over(&mut balancer, &tree, &machines, Timestamp::UNIX_EPOCH);
        let shown: Vec<_> = balancer
            .members
            .iter()
            .map(|member| {
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                let since = member.since.is_some();
                (
                    member.machine.clone(),
                    text(&member.id),
                    text(&member.provisioning_status),
                    since,
                )
            })
            .collect();
        let expected = [
            ("cp-0", "0", "ACTIVE", true),
            ("cp-1", "11", "PENDING_CREATE", false),
            ("cp-2", "", "", false),
            ("foreign", "7", "ERROR", false),
        ];
        let expected = expected.map(|(machine, id, status, since)| {
            (machine.to_owned(), id.to_owned(), status.to_owned(), since)
        });
        assert_eq!(shown, expected);
        assert_eq!(balancer.active_members.as_deref(), Some("1/3"));
    }
}
