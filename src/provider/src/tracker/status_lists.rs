//! The statuses inside a load balancer whose status tree Octavia does not return, because the policy denies it or the
//! service does not have it. Lists show the same statuses, with more calls and not as of one moment.

use futures::future::try_join_all;

use super::failure::failure;
use capo_core::{FailureClass, Priority, ids::LoadBalancerId};
use capo_gate::octavia::{Answer, Failure};
use capo_openstack::{
    Cloud, Error,
    load_balancer::{
        Listener, LoadBalancer, Member, Pool, StatusTree, TreeListener, TreeMember, TreeMonitor,
        TreePool,
    },
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
/// could change the statuses which the later lists show. Only the load balancer's own 404 means that it is absent: a
/// pool may be deleted between two lists.
pub(super) async fn read(
    cloud: &Cloud,
    id: &LoadBalancerId,
    priority: Priority,
) -> Answer<StatusTree> {
    let balancer = cloud.load_balancer(id, priority).await;
    let balancer = balancer.map_err(|error| failure(&error))?;
    read_below(cloud, balancer, priority)
        .await
        .map_err(|error| {
            let failure = failure(&error);
            let class = match failure.class {
                FailureClass::NotFound => FailureClass::Transient,
                class => class,
            };
            Failure { class, ..failure }
        })
}

async fn read_below(
    cloud: &Cloud,
    balancer: LoadBalancer,
    priority: Priority,
) -> Result<StatusTree, Error> {
    let id = &balancer.id;
    let listeners = cloud.listeners(id, priority).await?;
    let pools = cloud.pools(id, priority).await?;
    let uses = |listener: &Listener, pool: &Pool| {
        listener.default_pool_id.as_ref() == Some(&pool.id)
            || pool.listeners.iter().any(|used| used.id == listener.id)
    };
    let attached = pools
        .iter()
        .filter(|pool| listeners.iter().any(|listener| uses(listener, pool)));
    let read = try_join_all(attached.map(|pool| read_pool(cloud, pool, priority))).await?;
    let listeners = listeners.iter().map(|listener| TreeListener {
        id: listener.id.clone(),
        name: listener.name.clone(),
        provisioning_status: listener.provisioning_status.clone(),
        operating_status: listener.operating_status.clone(),
        pools: pools
            .iter()
            .filter(|pool| uses(listener, pool))
            .map(|pool| pool.id.clone())
            .collect(),
    });
    Ok(StatusTree {
        id: balancer.id,
        name: balancer.name,
        provisioning_status: balancer.provisioning_status,
        operating_status: balancer.operating_status,
        listeners: listeners.collect(),
        pools: read,
    })
}

async fn read_pool(cloud: &Cloud, pool: &Pool, priority: Priority) -> Result<TreePool, Error> {
    let monitor = match &pool.healthmonitor_id {
        Some(id) => match cloud.health_monitor(id, priority).await {
            Ok(monitor) => Some(TreeMonitor {
                id: monitor.id,
                name: monitor.name,
                monitor_type: monitor.monitor_type,
                provisioning_status: monitor.provisioning_status,
                operating_status: monitor.operating_status,
            }),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        },
        None => None,
    };
    let members = cloud.members(&pool.id, priority).await?;
    Ok(TreePool {
        id: pool.id.clone(),
        name: pool.name.clone(),
        provisioning_status: pool.provisioning_status.clone(),
        operating_status: pool.operating_status.clone(),
        health_monitor: monitor,
        members: members.into_iter().map(member).collect(),
    })
}

fn member(member: Member) -> TreeMember {
    TreeMember {
        id: member.id,
        name: member.name,
        address: member.address,
        protocol_port: member.protocol_port,
        provisioning_status: member.provisioning_status,
        operating_status: member.operating_status,
    }
}
