//! The changes that the model of Octavia accepts.

use std::time::{Duration, Instant};

use crate::{
    model::octavia::{Answer, Change, Written},
    tests::model::{Fate, Model, ModelListener, ModelMember, ModelPool, Running, failure, listed},
};
use capo_core::{FailureClass, MonitorType, ProvisioningStatus};

impl Model {
    /// Makes a change under Octavia's conditions: first the pool must be ACTIVE, then the load balancer.
    pub(crate) fn write(&mut self, change: &Change, now: Instant) -> Answer<Written> {
        self.advance(now);
        if self.absent {
            return Err(failure(FailureClass::NotFound));
        }
        let member_pool = match change {
            Change::CreateMember { pool, .. }
            | Change::UpdateMember { pool, .. }
            | Change::DeleteMember { pool, .. } => Some(pool.clone()),
            _ => None,
        };
        if let Some(pool) = &member_pool {
            let pool = self.pools.iter().find(|known| known.id == *pool);
            let pool = pool.ok_or_else(|| failure(FailureClass::NotFound))?;
            if pool.provisioning != ProvisioningStatus::Active {
                return Err(failure(FailureClass::Locked));
            }
        }
        if self.provisioning != ProvisioningStatus::Active {
            return Err(failure(FailureClass::Locked));
        }
        let mut written = Written::default();
        let mut delete = false;
        let target: String = match change.clone() {
            Change::CreateListener(new) => {
                let port = new.protocol_port;
                if self.listeners.iter().any(|known| known.port == port) {
                    return Err(failure(FailureClass::Duplicate));
                }
                let id = self.id("listener");
                self.listeners.push(ModelListener {
                    id: id.as_str().into(),
                    name: new.name,
                    port,
                    allowed_cidrs: new.allowed_cidrs.unwrap_or_default(),
                    provisioning: ProvisioningStatus::PendingCreate,
                });
                id
            }
            Change::UpdateListener { id, update, .. } => {
                let mut listeners = self.listeners.iter_mut();
                if let Some(cidrs) = update.allowed_cidrs
                    && let Some(listener) = listeners.find(|known| known.id == id)
                {
                    listener.allowed_cidrs = cidrs;
                }
                if let Some(pool) = update.default_pool_id
                    && let Some(pool) = self.pools.iter_mut().find(|known| known.id == pool)
                {
                    pool.listener = Some(id.clone());
                }
                id.into()
            }
            Change::CreatePool(new) => {
                if self
                    .pools
                    .iter()
                    .any(|pool| pool.listener == new.listener_id)
                {
                    return Err(failure(FailureClass::Duplicate));
                }
                let id = self.id("pool");
                self.pools.push(ModelPool {
                    id: id.as_str().into(),
                    name: new.name,
                    listener: new.listener_id,
                    provisioning: ProvisioningStatus::PendingCreate,
                    monitor: None,
                    monitor_type: MonitorType::default(),
                    members: Vec::new(),
                });
                id
            }
            Change::UpdatePool { id, .. } => id.into(),
            Change::CreateMonitor(new) => {
                let monitor_type = new.monitor_type;
                if !self.monitors || self.only_tcp && monitor_type != MonitorType::Tcp {
                    return Err(failure(FailureClass::NotImplemented));
                }
                let id = self.id("monitor");
                let pool = self.pools.iter_mut().find(|known| known.id == new.pool_id);
                let pool = pool.ok_or_else(|| failure(FailureClass::NotFound))?;
                if pool.monitor.is_some() {
                    return Err(failure(FailureClass::Duplicate));
                }
                pool.monitor = Some((
                    id.as_str().into(),
                    new.parameters,
                    ProvisioningStatus::PendingCreate,
                ));
                pool.monitor_type = monitor_type;
                id
            }
            Change::UpdateMonitor { id, parameters, .. } => {
                for pool in &mut self.pools {
                    if let Some((known, old, _)) = &mut pool.monitor
                        && *known == id
                    {
                        *old = parameters;
                    }
                }
                id.into()
            }
            Change::DeletePart { id, .. } => {
                delete = true;
                id.as_str().to_owned()
            }
            Change::CreateMember { pool, new } => {
                let (address, port) = (new.address, new.protocol_port);
                let id = self.id("member");
                let pool = self.pools.iter_mut().find(|known| known.id == pool);
                let pool = pool.ok_or_else(|| failure(FailureClass::NotFound))?;
                if pool
                    .members
                    .iter()
                    .any(|known| known.address == address && known.port == port)
                {
                    return Err(failure(FailureClass::Duplicate));
                }
                let member = ModelMember {
                    id: id.as_str().into(),
                    name: new.name,
                    address,
                    port,
                    weight: 1,
                    admin_up: new.admin_state_up,
                    tags: new.tags,
                    provisioning: ProvisioningStatus::PendingCreate,
                    is_configured: false,
                    applied: (1, new.admin_state_up),
                    assumed_up: None,
                };
                written.member = Some(Box::new(listed(&member)));
                pool.members.push(member);
                id
            }
            Change::UpdateMember { id, update, .. } => {
                let member = self.members_mut().find(|known| known.id == id);
                let member = member.ok_or_else(|| failure(FailureClass::NotFound))?;
                member.weight = update.weight.unwrap_or(member.weight);
                member.admin_up = update.admin_state_up.unwrap_or(member.admin_up);
                if let Some(tags) = update.tags {
                    member.tags = tags;
                }
                member.provisioning = ProvisioningStatus::PendingUpdate;
                written.member = Some(Box::new(listed(member)));
                id.into()
            }
            Change::DeleteMember { id, .. } => {
                let member = self.members_mut().find(|known| known.id == id);
                let member = member.ok_or_else(|| failure(FailureClass::NotFound))?;
                member.provisioning = ProvisioningStatus::PendingDelete;
                delete = true;
                id.into()
            }
        };
        self.writes.push(change.clone());
        let fate = if self.fates.is_empty() {
            Fate::Fine
        } else {
            self.fates.remove(0)
        };
        let mut ends = now + self.operation;
        if let Fate::Hangs(seconds) = fate {
            ends += Duration::from_secs(seconds);
        }
        self.provisioning = ProvisioningStatus::PendingUpdate;
        for listener in &mut self.listeners {
            if listener.provisioning == ProvisioningStatus::Active {
                listener.provisioning = ProvisioningStatus::PendingUpdate;
            }
        }
        if let Some(pool) = member_pool
            && let Some(pool) = self.pools.iter_mut().find(|known| known.id == pool)
        {
            pool.provisioning = ProvisioningStatus::PendingUpdate;
        }
        self.running = Some(Running {
            target,
            delete,
            fate,
            ends,
        });
        Ok(written)
    }
}
