//! What the model of Octavia answers to reads.

use std::time::{Duration, Instant};

use super::{Model, ModelMember, ModelPool, failure};
use crate::model::{
    desired::Monitor,
    octavia::{
        Answer, ListenerDetail, ListenerRead, MemberDetail, MemberRead, MonitorRead, PoolDetail,
        PoolRead, Structure, Tree,
    },
};
use capo_core::{FailureClass, OperatingStatus};

impl Model {
    fn operating(&self, pool: &ModelPool, member: &ModelMember, now: Instant) -> OperatingStatus {
        if pool.monitor.is_none() {
            return OperatingStatus::NoMonitor;
        }
        if !member.admin_up || !member.pushed {
            return OperatingStatus::Offline;
        }
        if member.weight == 0 && !self.ovn {
            return OperatingStatus::Draining;
        }
        if self.silent {
            return OperatingStatus::Offline;
        }
        if self.frozen.contains(&member.address) {
            return OperatingStatus::Online;
        }
        if member.assumed_up.is_some_and(|until| now < until) {
            return OperatingStatus::Online;
        }
        match self.up.get(&member.address) {
            _ if self.dark_port == Some(member.port) => OperatingStatus::Error,
            Some(up) if now.saturating_duration_since(*up) > Duration::from_secs(10) => {
                OperatingStatus::Online
            }
            _ => OperatingStatus::Error,
        }
    }

    pub(crate) fn tree(&mut self, now: Instant) -> Answer<Tree> {
        self.advance(now);
        if self.absent {
            return Err(failure(FailureClass::NotFound));
        }
        let listeners = self.listeners.iter().map(|listener| ListenerRead {
            id: listener.id.clone(),
            name: listener.name.clone(),
            provisioning: listener.provisioning.clone(),
            pools: self
                .pools
                .iter()
                .filter(|pool| pool.listener.as_ref() == Some(&listener.id))
                .map(|pool| PoolRead {
                    id: pool.id.clone(),
                    name: pool.name.clone(),
                    provisioning: pool.provisioning.clone(),
                    monitor: pool
                        .monitor
                        .as_ref()
                        .map(|(id, _, provisioning)| MonitorRead {
                            id: id.clone(),
                            monitor_type: pool.monitor_type.clone(),
                            provisioning: provisioning.clone(),
                        }),
                    members: pool
                        .members
                        .iter()
                        .map(|member| MemberRead {
                            id: member.id.clone(),
                            name: member.name.clone(),
                            address: Some(member.address),
                            port: member.port,
                            provisioning: member.provisioning.clone(),
                            operating: self.operating(pool, member, now),
                        })
                        .collect(),
                })
                .collect(),
        });
        Ok(Tree {
            provisioning: self.provisioning.clone(),
            operating: OperatingStatus::Online,
            listeners: listeners.collect(),
        })
    }

    pub(crate) fn structure(&mut self, now: Instant) -> Answer<Structure> {
        self.advance(now);
        if self.absent {
            return Ok(Structure::default());
        }
        Ok(Structure {
            listeners: self
                .listeners
                .iter()
                .map(|listener| ListenerDetail {
                    id: listener.id.clone(),
                    name: listener.name.clone(),
                    port: listener.port,
                    default_pool: self
                        .pools
                        .iter()
                        .find(|pool| pool.listener.as_ref() == Some(&listener.id))
                        .map(|pool| pool.id.clone()),
                    allowed_cidrs: Some(listener.allowed_cidrs.clone()),
                })
                .collect(),
            pools: self
                .pools
                .iter()
                .map(|pool| PoolDetail {
                    id: pool.id.clone(),
                    name: pool.name.clone(),
                    monitor: pool.monitor.as_ref().map(|(id, ..)| id.clone()),
                })
                .collect(),
        })
    }

    pub(crate) fn list(&mut self, pool: &str, now: Instant) -> Answer<Vec<MemberDetail>> {
        self.advance(now);
        let pool = self.pools.iter().find(|known| known.id == pool);
        let pool = pool
            .filter(|_| !self.absent)
            .ok_or_else(|| failure(FailureClass::NotFound))?;
        Ok(pool.members.iter().map(detail).collect())
    }

    pub(crate) fn numbers(&mut self, id: &str, now: Instant) -> Answer<Monitor> {
        self.advance(now);
        self.pools
            .iter()
            .filter_map(|pool| pool.monitor.as_ref())
            .find(|(known, ..)| known == id)
            .map(|(_, numbers, _)| *numbers)
            .ok_or_else(|| failure(FailureClass::NotFound))
    }
}

pub(crate) fn detail(member: &ModelMember) -> MemberDetail {
    MemberDetail {
        id: member.id.clone(),
        weight: member.weight,
        admin_up: member.admin_up,
        tags: member.tags.clone(),
    }
}
