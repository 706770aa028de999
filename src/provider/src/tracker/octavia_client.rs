//! The OpenStack client behind the calls of the gate.

use std::any::Any;

use futures::{FutureExt, future::BoxFuture};

use super::{failure::failure, status_lists};
use capo_core::{
    Priority,
    ids::{LoadBalancerId, MonitorId, PoolId},
};
use capo_gate::{
    PartId,
    octavia::{Answer, Change, ListenersAndPools, Octavia, Written},
};
use capo_openstack::{
    Cloud, Error,
    load_balancer::{HealthMonitorUpdate, Member, MonitorParameters, PoolUpdate, StatusTree},
};

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
        priority: Priority,
    ) -> BoxFuture<'static, Answer<StatusTree>> {
        let (cloud, id) = (self.0.clone(), load_balancer.clone());
        async move {
            match Cloud::status_tree(&cloud, &id, priority).await {
                Err(error) if status_lists::is_without_tree(&error) => {
                    status_lists::read(&cloud, &id, priority).await
                }
                tree => tree.map_err(|error| failure(&error)),
            }
        }
        .boxed()
    }

    fn listeners_and_pools(
        &self,
        load_balancer: &LoadBalancerId,
        priority: Priority,
    ) -> BoxFuture<'static, Answer<ListenersAndPools>> {
        let (cloud, id) = (self.0.clone(), load_balancer.clone());
        async move {
            let shared = cloud.shared_reads();
            let listeners = shared
                .listeners(&id, priority)
                .await
                .map_err(|error| failure(&error))?;
            let pools = shared
                .pools(&id, priority)
                .await
                .map_err(|error| failure(&error))?;
            Ok(ListenersAndPools { listeners, pools })
        }
        .boxed()
    }

    fn members(
        &self,
        pool: &PoolId,
        priority: Priority,
    ) -> BoxFuture<'static, Answer<Vec<Member>>> {
        let (cloud, id) = (self.0.clone(), pool.clone());
        async move {
            Cloud::members(&cloud, &id, priority)
                .await
                .map_err(|error| failure(&error))
        }
        .boxed()
    }

    fn monitor(
        &self,
        monitor: &MonitorId,
        priority: Priority,
    ) -> BoxFuture<'static, Answer<MonitorParameters>> {
        let (cloud, id) = (self.0.clone(), monitor.clone());
        async move {
            let monitor = cloud
                .shared_reads()
                .health_monitor(&id, priority)
                .await
                .map_err(|error| failure(&error))?;
            Ok(monitor.parameters)
        }
        .boxed()
    }

    fn write(&self, change: &Change, priority: Priority) -> BoxFuture<'static, Answer<Written>> {
        let (cloud, change) = (self.0.clone(), change.clone());
        async move {
            write(&cloud, change, priority)
                .await
                .map_err(|error| failure(&error))
        }
        .boxed()
    }
}

async fn write(cloud: &Cloud, change: Change, priority: Priority) -> Result<Written, Error> {
    let part = |part: PartId| Written {
        part: Some(part),
        member: None,
    };
    let member = |member: Member| Written {
        part: None,
        member: Some(Box::new(member)),
    };
    Ok(match change {
        Change::CreateListener(new) => part(PartId::Listener(
            cloud.create_listener(&new, priority).await?.id,
        )),
        Change::UpdateListener {
            id,
            name: _,
            update,
        } => {
            let listener = cloud.update_listener(&id, &update, priority).await?;
            part(PartId::Listener(listener.id))
        }
        Change::CreatePool(new) => part(PartId::Pool(cloud.create_pool(&new, priority).await?.id)),
        Change::UpdatePool { id, name } => {
            let update = PoolUpdate {
                name: Some(name),
                lb_algorithm: None,
            };
            part(PartId::Pool(
                cloud.update_pool(&id, &update, priority).await?.id,
            ))
        }
        Change::CreateMonitor(new) => {
            let monitor = cloud.create_health_monitor(&new, priority).await?;
            part(PartId::Monitor(monitor.id))
        }
        Change::UpdateMonitor {
            id,
            name: _,
            parameters,
        } => {
            let update = HealthMonitorUpdate {
                parameters: Some(parameters),
            };
            let monitor = cloud.update_health_monitor(&id, &update, priority).await?;
            part(PartId::Monitor(monitor.id))
        }
        Change::DeletePart { id, name: _ } => {
            match id {
                PartId::Listener(id) => cloud.delete_listener(&id, priority).await?,
                PartId::Pool(id) => cloud.delete_pool(&id, priority).await?,
                PartId::Monitor(id) => cloud.delete_health_monitor(&id, priority).await?,
            }
            Written::default()
        }
        Change::CreateMember { pool, new } => {
            member(cloud.create_member(&pool, &new, priority).await?)
        }
        Change::UpdateMember { pool, id, update } => {
            member(cloud.update_member(&pool, &id, &update, priority).await?)
        }
        Change::DeleteMember { pool, id } => {
            cloud.delete_member(&pool, &id, priority).await?;
            Written::default()
        }
    })
}
