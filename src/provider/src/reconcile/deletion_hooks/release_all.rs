//! Removes the hooks of capo-rs from every Machine while no manager runs, and puts back in service the load balancer
//! members that capo-rs disabled or drained. A failure is reported and does not stop the rest.

use std::time::Duration;

use futures::TryStreamExt;
use kube::{Api, Client, ResourceExt, api::ListParams};
use tokio::time::Instant;

use super::{HookChange, Hooks, apply};
use crate::reconcile::{
    ClusterIdentityDefault, StepError, api_in,
    capi::{self, Machine},
    cluster_names::Names,
    identity, name_of,
};
use capo_api::v1beta2::OpenStackCluster;
use capo_core::{
    Priority, ProvisioningStatus,
    ids::{LoadBalancerId, PoolId},
};
use capo_gate::{JOINING, LEAVING, before_release};
use capo_openstack::{
    Cloud, Clouds,
    load_balancer::{LoadBalancerFilter, Member, MemberUpdate},
};

/// The number of Machines in one answer to a list.
const PAGE: u32 = 500;
/// The time limit for one change of a member.
const PATIENCE: Duration = Duration::from_mins(2);
/// The pause between two reads of a load balancer that is PENDING.
const PAUSE: Duration = Duration::from_secs(1);

/// The result of a release.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Released {
    /// The Machines from which hooks were removed.
    pub machines: Vec<String>,
    /// The members that were put back in service.
    pub members: Vec<String>,
    /// The failures, as messages.
    pub failed: Vec<String>,
}

/// The error that kept the members of a load balancer from being put back in service.
#[derive(Debug, thiserror::Error)]
enum MemberError {
    #[error(transparent)]
    Credentials(#[from] StepError),
    #[error(transparent)]
    OpenStack(#[from] capo_openstack::Error),
    #[error("{0} load balancers have its name")]
    AmbiguousName(usize),
    #[error("Octavia failed to enable it")]
    Failed,
    #[error("{status} after {} s", PATIENCE.as_secs())]
    NotInTime { status: ProvisioningStatus },
}

/// Releases everything in `namespace`, or in all namespaces if it is `None`.
pub async fn release_all(client: &Client, clouds: &Clouds, namespace: Option<&str>) -> Released {
    let mut released = Released::default();
    if let Err(error) = remove_hooks(client, namespace, &mut released).await {
        released.failed.push(format!("listing Machines: {error}"));
    }
    let clusters: Api<OpenStackCluster> = api_in(client, namespace);
    match pages(&clusters).await {
        Ok(clusters) => {
            for cluster in clusters {
                let name = name_of(&cluster);
                if let Err(error) = enable_members(client, clouds, &cluster, &mut released).await {
                    released.failed.push(format!(
                        "OpenStackCluster {name}: the load balancer members that wait for their API server can't be read: {error}"
                    ));
                }
            }
        }
        Err(error) => released
            .failed
            .push(format!("listing OpenStackClusters: {error}")),
    }
    released
}

async fn pages<K>(api: &Api<K>) -> Result<Vec<K>, kube::Error>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let pages = futures::stream::try_unfold(Some(String::new()), |next| async move {
        let Some(token) = next else { return Ok(None) };
        let mut params = ListParams::default().limit(PAGE);
        if !token.is_empty() {
            params = params.continue_token(&token);
        }
        let page = api.list(&params).await?;
        let next = page.metadata.continue_.filter(|token| !token.is_empty());
        Ok::<_, kube::Error>(Some((page.items, next)))
    });
    pages.try_concat().await
}

async fn remove_hooks(
    client: &Client,
    namespace: Option<&str>,
    released: &mut Released,
) -> Result<(), kube::Error> {
    let machines: Api<Machine> = api_in(client, namespace);
    for machine in pages(&machines).await? {
        let carried = Hooks::on(&machine.metadata);
        if !carried.any() {
            continue;
        }
        let name = name_of(&machine);
        let own: Api<Machine> = Api::namespaced(client.clone(), &name.namespace);
        match apply(&own, &machine, HookChange::Remove, || true).await {
            Ok(true) => released.machines.push(name.to_string()),
            Ok(false) => released.failed.push(format!(
                "Machine {name}: it changed at the same time; run the command again"
            )),
            Err(error) => released.failed.push(format!("Machine {name}: {error}")),
        }
    }
    Ok(())
}

/// Enables the members of one cluster's load balancer that capo-rs disabled or drained.
async fn enable_members(
    client: &Client,
    clouds: &Clouds,
    cluster: &OpenStackCluster,
    released: &mut Released,
) -> Result<(), MemberError> {
    let managed_elsewhere = capi::has_annotation(&cluster.metadata, capi::MANAGED_BY_ANNOTATION);
    if managed_elsewhere || cluster.spec.enabled_load_balancer().is_none() {
        return Ok(());
    }
    let namespace = cluster.namespace().unwrap_or_default();
    let cloud =
        identity::cloud_of_cluster(client, clouds, ClusterIdentityDefault::Allow, cluster).await?;
    let Some(id) = balancer_of(&cloud, cluster, &namespace).await? else {
        return Ok(());
    };
    for pool in cloud.pools(&id, Priority::Gate).await? {
        let members = cloud.members(&pool.id, Priority::Gate).await?;
        for member in members.into_iter().filter(is_out_by_us) {
            match enable(&cloud, &pool.id, &member).await {
                Ok(()) => released.members.push(member.name),
                Err(error) => released
                    .failed
                    .push(format!("load balancer member {}: {error}", member.name)),
            }
        }
    }
    Ok(())
}

/// Whether capo-rs keeps new connections away from the member, because its API server was not up yet or because of a
/// release.
fn is_out_by_us(member: &Member) -> bool {
    let is_ours = |tag: &String| tag == JOINING || tag == LEAVING;
    (!member.admin_state_up || member.weight == 0) && member.tags.iter().any(is_ours)
}

/// The change that puts the member back in service.
fn in_service(member: &Member) -> MemberUpdate {
    let (weight, tags) = before_release(&member.tags);
    let kept = tags.into_iter().filter(|tag| tag != JOINING);
    MemberUpdate {
        admin_state_up: (!member.admin_state_up).then_some(true),
        weight: (member.weight == 0).then_some(weight),
        tags: Some(kept.collect()),
        ..MemberUpdate::default()
    }
}

/// The id of the load balancer from the status, or else from a lookup by its name.
async fn balancer_of(
    cloud: &Cloud,
    cluster: &OpenStackCluster,
    namespace: &str,
) -> Result<Option<LoadBalancerId>, MemberError> {
    let status = cluster.status.as_ref();
    let known = status
        .and_then(|status| status.api_server_managed_load_balancer.as_ref())
        .and_then(|balancer| balancer.id.clone());
    if known.is_some() {
        return Ok(known.map(Into::into));
    }
    let Some(owner) = capi::owner(&cluster.metadata, "Cluster") else {
        return Ok(None);
    };
    let filter = LoadBalancerFilter {
        name: Some(Names::new(namespace, &owner.name).load_balancer()),
        ..LoadBalancerFilter::default()
    };
    let found = cloud.load_balancers(&filter, Priority::Gate).await?;
    match found.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one.id.clone())),
        several => Err(MemberError::AmbiguousName(several.len())),
    }
}

/// Enables one member and waits until Octavia has done so.
async fn enable(cloud: &Cloud, pool: &PoolId, member: &Member) -> Result<(), MemberError> {
    let update = in_service(member);
    let deadline = Instant::now() + PATIENCE;
    loop {
        match cloud
            .update_member(pool, &member.id, &update, Priority::Gate)
            .await
        {
            Ok(_) => break,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) if error.class().is_conflict() && Instant::now() < deadline => {
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    loop {
        let members = cloud.members(pool, Priority::Gate).await?;
        let Some(now) = members.into_iter().find(|now| now.id == member.id) else {
            return Ok(());
        };
        match now.provisioning_status {
            ProvisioningStatus::Active if now.admin_state_up => return Ok(()),
            ProvisioningStatus::Error => return Err(MemberError::Failed),
            status if Instant::now() >= deadline => return Err(MemberError::NotInTime { status }),
            _ => tokio::time::sleep(PAUSE).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{JOINING, LEAVING, Member, in_service, is_out_by_us};

    #[test]
    fn a_member_is_put_in_service_if_capo_rs_took_it_out_and_not_if_an_operator_did() {
        let table = [
            (1, false, JOINING, true),
            (1, false, LEAVING, true),
            (0, true, LEAVING, true),
            (1, true, LEAVING, false),
            (0, true, "t", false),
            (1, false, "t", false),
        ];
        for (weight, admin_state_up, tag, expected) in table {
            let member = Member {
                weight,
                admin_state_up,
                tags: vec![tag.to_owned()],
                ..Member::default()
            };
            assert_eq!(is_out_by_us(&member), expected, "{member:?}");
        }
    }

    #[test]
    fn a_member_gets_the_weight_back_that_it_had() {
        let table: [(u32, &[&str], Option<u32>); 4] = [
            (0, &["t", LEAVING, "capo-rs-weight-5"], Some(5)),
            (0, &["t", LEAVING], Some(1)),
            (0, &["t", JOINING, LEAVING, "capo-rs-weight-x"], Some(1)),
            (3, &["t", LEAVING], None),
        ];
        for (weight, tags, expected) in table {
            let member = Member {
                weight,
                admin_state_up: true,
                tags: tags.iter().map(ToString::to_string).collect(),
                ..Member::default()
            };
            let update = in_service(&member);
            let kept = update.tags.unwrap_or_default();
            assert_eq!((update.weight, kept), (expected, vec!["t".to_owned()]));
        }
    }
}
