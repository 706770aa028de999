//! The OpenStack client with the types of the gate.

use std::any::Any;

use futures::{FutureExt, future::BoxFuture};

use super::status_lists;
use capo_core::{
    Priority,
    ids::{LoadBalancerId, MonitorId, PoolId},
};
use capo_gate::{
    PartId,
    desired::Monitor,
    octavia::{
        Answer, Change, Failure, ListenerDetail, ListenerRead, MemberDetail, MemberRead,
        MonitorRead, Octavia, PoolDetail, PoolRead, Structure, Tree, Written,
    },
};
use capo_openstack::{
    Cloud, Error,
    load_balancer::{
        HealthMonitorUpdate, LbAlgorithm, ListenerProtocol, ListenerUpdate, Member, MemberUpdate,
        MonitorType, NewHealthMonitor, NewListener, NewMember, NewPool, PoolProtocol, PoolUpdate,
        StatusTree,
    },
};

/// The page of an API server that answers 200, which is what Octavia expects, once the API server is ready.
const READYZ: &str = "/readyz";

/// The OpenStack client, as the gate's workers call it.
#[derive(Debug, Clone, PartialEq)]
pub struct OctaviaClient(pub Cloud);

impl Octavia for OctaviaClient {
    fn is_same(&self, other: &dyn Octavia) -> bool {
        other.as_any().downcast_ref::<Self>() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn status_tree(
        &self,
        load_balancer: &LoadBalancerId,
        urgency: Priority,
    ) -> BoxFuture<'static, Answer<Tree>> {
        let (cloud, id) = (self.0.clone(), load_balancer.clone());
        async move {
            let tree = match Cloud::status_tree(&cloud, &id, urgency).await {
                Err(error) if status_lists::is_without_tree(&error) => {
                    status_lists::read(&cloud, &id, urgency).await
                }
                tree => tree.map(|tree| tree_read(&tree)),
            };
            tree.map_err(|error| failure(&error))
        }
        .boxed()
    }

    fn structure(
        &self,
        load_balancer: &LoadBalancerId,
        urgency: Priority,
    ) -> BoxFuture<'static, Answer<Structure>> {
        let (cloud, id) = (self.0.clone(), load_balancer.clone());
        async move {
            let shared = cloud.shared_reads();
            let listeners = shared
                .listeners(&id, urgency)
                .await
                .map_err(|error| failure(&error))?;
            let pools = shared
                .pools(&id, urgency)
                .await
                .map_err(|error| failure(&error))?;
            Ok(Structure {
                listeners: listeners
                    .into_iter()
                    .map(|listener| ListenerDetail {
                        id: listener.id,
                        name: listener.name,
                        port: listener.protocol_port,
                        default_pool: listener.default_pool_id,
                        allowed_cidrs: Some(listener.allowed_cidrs),
                    })
                    .collect(),
                pools: pools
                    .into_iter()
                    .map(|pool| PoolDetail {
                        id: pool.id,
                        name: pool.name,
                        monitor: pool.healthmonitor_id,
                    })
                    .collect(),
            })
        }
        .boxed()
    }

    fn members(
        &self,
        pool: &PoolId,
        urgency: Priority,
    ) -> BoxFuture<'static, Answer<Vec<MemberDetail>>> {
        let (cloud, id) = (self.0.clone(), pool.clone());
        async move {
            let members = Cloud::members(&cloud, &id, urgency)
                .await
                .map_err(|error| failure(&error))?;
            Ok(members.into_iter().map(member_detail).collect())
        }
        .boxed()
    }

    fn monitor(
        &self,
        monitor: &MonitorId,
        urgency: Priority,
    ) -> BoxFuture<'static, Answer<Monitor>> {
        let (cloud, id) = (self.0.clone(), monitor.clone());
        async move {
            let monitor = cloud
                .shared_reads()
                .health_monitor(&id, urgency)
                .await
                .map_err(|error| failure(&error))?;
            Ok(Monitor {
                delay: monitor.delay,
                timeout: monitor.timeout,
                max_retries: monitor.max_retries,
                max_retries_down: monitor.max_retries_down,
            })
        }
        .boxed()
    }

    fn write(&self, change: &Change, urgency: Priority) -> BoxFuture<'static, Answer<Written>> {
        let (cloud, change) = (self.0.clone(), change.clone());
        async move {
            write(&cloud, change, urgency)
                .await
                .map_err(|error| failure(&error))
        }
        .boxed()
    }
}

async fn write(cloud: &Cloud, change: Change, priority: Priority) -> Result<Written, Error> {
    let written = |part: PartId| Written {
        part: Some(part),
        member: None,
    };
    Ok(match change {
        Change::CreateListener {
            load_balancer,
            name,
            port,
            allowed_cidrs,
            tags,
        } => {
            let new = NewListener {
                loadbalancer_id: load_balancer,
                name,
                protocol: ListenerProtocol::Tcp,
                protocol_port: port,
                allowed_cidrs,
                tags,
            };
            let listener = cloud.create_listener(&new, priority).await?;
            written(PartId::Listener(listener.id))
        }
        Change::UpdateListener {
            id: listener,
            name: _,
            default_pool,
            allowed_cidrs,
        } => {
            let update = ListenerUpdate {
                default_pool_id: default_pool,
                allowed_cidrs,
            };
            let listener = cloud.update_listener(&listener, &update, priority).await?;
            written(PartId::Listener(listener.id))
        }
        Change::CreatePool {
            listener,
            name,
            algorithm,
            tags,
        } => {
            let new = NewPool {
                name,
                protocol: PoolProtocol::Tcp,
                lb_algorithm: LbAlgorithm::from(algorithm),
                listener_id: Some(listener),
                loadbalancer_id: None,
                tags,
            };
            let pool = cloud.create_pool(&new, priority).await?;
            written(PartId::Pool(pool.id))
        }
        Change::UpdatePool { id: pool, name } => {
            let update = PoolUpdate {
                name: Some(name),
                lb_algorithm: None,
            };
            let pool = cloud.update_pool(&pool, &update, priority).await?;
            written(PartId::Pool(pool.id))
        }
        Change::CreateMonitor {
            pool,
            name,
            monitor_type,
            numbers,
        } => {
            let asks = monitor_type == MonitorType::Https;
            let new = NewHealthMonitor {
                pool_id: pool,
                name,
                monitor_type,
                url_path: asks.then(|| READYZ.to_owned()),
                delay: numbers.delay,
                timeout: numbers.timeout,
                max_retries: numbers.max_retries,
                max_retries_down: numbers.max_retries_down,
            };
            let monitor = cloud.create_health_monitor(&new, priority).await?;
            written(PartId::Monitor(monitor.id))
        }
        Change::UpdateMonitor {
            id: monitor,
            name: _,
            numbers,
        } => {
            let update = HealthMonitorUpdate {
                delay: Some(numbers.delay),
                timeout: Some(numbers.timeout),
                max_retries: Some(numbers.max_retries),
                max_retries_down: Some(numbers.max_retries_down),
            };
            let monitor = cloud
                .update_health_monitor(&monitor, &update, priority)
                .await?;
            written(PartId::Monitor(monitor.id))
        }
        Change::DeletePart { id, name: _ } => {
            match id {
                PartId::Listener(id) => cloud.delete_listener(&id, priority).await?,
                PartId::Pool(id) => cloud.delete_pool(&id, priority).await?,
                PartId::Monitor(id) => cloud.delete_health_monitor(&id, priority).await?,
            }
            Written::default()
        }
        Change::CreateMember {
            pool,
            name,
            address,
            port,
            subnet,
            admin_up,
            tags,
        } => {
            let new = NewMember {
                name,
                address,
                protocol_port: port,
                subnet_id: subnet,
                weight: None,
                admin_state_up: admin_up,
                tags,
            };
            written_member(cloud.create_member(&pool, &new, priority).await?)
        }
        Change::UpdateMember {
            pool,
            id: member,
            name,
            weight,
            admin_up,
            tags,
        } => {
            let update = MemberUpdate {
                name: Some(name),
                weight: weight.map(u32::from),
                admin_state_up: admin_up,
                tags,
            };
            let member = cloud
                .update_member(&pool, &member, &update, priority)
                .await?;
            written_member(member)
        }
        Change::DeleteMember { pool, id: member } => {
            cloud.delete_member(&pool, &member, priority).await?;
            Written::default()
        }
    })
}

fn written_member(member: Member) -> Written {
    Written {
        part: None,
        member: Some(member_detail(member)),
    }
}

fn member_detail(member: Member) -> MemberDetail {
    MemberDetail {
        id: member.id,
        weight: u16::try_from(member.weight).unwrap_or(u16::MAX),
        admin_up: member.admin_state_up,
        tags: member.tags,
    }
}

fn tree_read(tree: &StatusTree) -> Tree {
    let pools: Vec<PoolRead> = tree
        .pools
        .iter()
        .map(|pool| PoolRead {
            id: pool.id.clone(),
            name: pool.name.clone(),
            provisioning: pool.provisioning_status.clone(),
            monitor: pool.health_monitor.as_ref().map(|monitor| MonitorRead {
                id: monitor.id.clone(),
                monitor_type: monitor.monitor_type.clone(),
                provisioning: monitor.provisioning_status.clone(),
            }),
            members: pool
                .members
                .iter()
                .map(|member| MemberRead {
                    id: member.id.clone(),
                    name: member.name.clone(),
                    address: member.address,
                    port: member.protocol_port,
                    provisioning: member.provisioning_status.clone(),
                    operating: member.operating_status.clone(),
                })
                .collect(),
        })
        .collect();
    Tree {
        provisioning: tree.provisioning_status.clone(),
        operating: tree.operating_status.clone(),
        listeners: tree
            .listeners
            .iter()
            .map(|listener| ListenerRead {
                id: listener.id.clone(),
                name: listener.name.clone(),
                provisioning: listener.provisioning_status.clone(),
                pools: pools
                    .iter()
                    .filter(|pool| listener.pools.contains(&pool.id))
                    .cloned()
                    .collect(),
            })
            .collect(),
    }
}

/// The failure of a call, with the fields on which the gate decides.
fn failure(error: &Error) -> Failure {
    Failure {
        class: error.class(),
        retry_after: error.retry_after(),
        message: error.to_string(),
    }
}
