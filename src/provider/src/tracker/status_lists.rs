//! The statuses inside a load balancer whose status tree Octavia does not return, because the policy denies it or the
//! service does not have it. Lists show the same statuses, with more calls and not as of one moment.

use futures::future::try_join_all;

use capo_core::{FailureClass, Priority, ids::LoadBalancerId};
use capo_gate::octavia::{ListenerRead, MemberRead, MonitorRead, PoolRead, Tree};
use capo_openstack::{
    Cloud, Error,
    load_balancer::{Member, Pool},
};

/// Whether the status tree itself may be missing. An absent load balancer is a 404 too; the lists detect that, because
/// they begin with the load balancer.
pub(super) fn is_without_tree(error: &Error) -> bool {
    error.is_not_found()
        || matches!(
            error.class(),
            FailureClass::Denied | FailureClass::NotImplemented
        )
}

/// The content of the status tree. The load balancer is read first: if it is ACTIVE, no operation is under way that
/// could change the statuses which the later lists show.
pub(super) async fn read(
    cloud: &Cloud,
    id: &LoadBalancerId,
    priority: Priority,
) -> Result<Tree, Error> {
    let balancer = cloud.load_balancer(id, priority).await?;
    let listeners = cloud.listeners(id, priority).await?;
    let pools = cloud.pools(id, priority).await?;
    let pools = pools
        .iter()
        .map(|pool| async move { Ok((pool, read_pool(cloud, pool, priority).await?)) });
    let pools: Vec<(&Pool, PoolRead)> = try_join_all(pools).await?;
    Ok(Tree {
        provisioning: balancer.provisioning_status,
        operating: balancer.operating_status,
        listeners: listeners
            .into_iter()
            .map(|listener| ListenerRead {
                pools: pools
                    .iter()
                    .filter(|(pool, _)| {
                        listener.default_pool_id.as_ref() == Some(&pool.id)
                            || pool.listeners.iter().any(|used| used.id == listener.id)
                    })
                    .map(|(_, read)| read.clone())
                    .collect(),
                id: listener.id,
                name: listener.name,
                provisioning: listener.provisioning_status,
            })
            .collect(),
    })
}

async fn read_pool(cloud: &Cloud, pool: &Pool, priority: Priority) -> Result<PoolRead, Error> {
    let monitor = match &pool.healthmonitor_id {
        Some(id) => match cloud.health_monitor(id, priority).await {
            Ok(monitor) => Some(MonitorRead {
                id: monitor.id,
                monitor_type: monitor.monitor_type,
                provisioning: monitor.provisioning_status,
            }),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        },
        None => None,
    };
    let members = cloud.members(&pool.id, priority).await?;
    Ok(PoolRead {
        id: pool.id.clone(),
        name: pool.name.clone(),
        provisioning: pool.provisioning_status.clone(),
        monitor,
        members: members.into_iter().map(member).collect(),
    })
}

fn member(member: Member) -> MemberRead {
    MemberRead {
        id: member.id,
        name: member.name,
        address: member.address,
        port: member.protocol_port,
        provisioning: member.provisioning_status,
        operating: member.operating_status,
    }
}
