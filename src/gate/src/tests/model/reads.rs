//! The answers of the model of Octavia to reads.

use std::time::{Duration, Instant};

use super::{Model, ModelMember, ModelPool, failure};
use crate::model::octavia::{Answer, ListenersAndPools};
use capo_core::{
    FailureClass, OperatingStatus,
    octavia::{
        Listener, Member, MonitorParameters, Pool, StatusTree, TreeListener, TreeMember,
        TreeMonitor, TreePool,
    },
};

impl Model {
    fn operating(&self, pool: &ModelPool, member: &ModelMember, now: Instant) -> OperatingStatus {
        if pool.monitor.is_none() {
            return OperatingStatus::NoMonitor;
        }
        if !member.admin_up || !member.is_configured {
            return OperatingStatus::Offline;
        }
        if member.weight == 0 && !self.ovn {
            return OperatingStatus::Draining;
        }
        if self.silent {
            return OperatingStatus::Offline;
        }
        if self.health_unreported.contains(&member.address) {
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

    pub(crate) fn tree(&mut self, now: Instant) -> Answer<StatusTree> {
        self.advance(now);
        if self.absent {
            return Err(failure(FailureClass::NotFound));
        }
        let listeners = self.listeners.iter().map(|listener| TreeListener {
            id: listener.id.clone(),
            name: listener.name.clone(),
            provisioning_status: listener.provisioning.clone(),
            pools: self
                .pools
                .iter()
                .filter(|pool| pool.listener.as_ref() == Some(&listener.id))
                .map(|pool| pool.id.clone())
                .collect(),
            ..TreeListener::default()
        });
        let attached = self.pools.iter().filter(|pool| pool.listener.is_some());
        let pools = attached.map(|pool| TreePool {
            id: pool.id.clone(),
            name: pool.name.clone(),
            provisioning_status: pool.provisioning.clone(),
            health_monitor: pool
                .monitor
                .as_ref()
                .map(|(id, _, provisioning)| TreeMonitor {
                    id: id.clone(),
                    monitor_type: pool.monitor_type.clone(),
                    provisioning_status: provisioning.clone(),
                    ..TreeMonitor::default()
                }),
            members: pool
                .members
                .iter()
                .map(|member| TreeMember {
                    id: member.id.clone(),
                    name: member.name.clone(),
                    address: Some(member.address),
                    protocol_port: member.port,
                    provisioning_status: member.provisioning.clone(),
                    operating_status: self.operating(pool, member, now),
                })
                .collect(),
            ..TreePool::default()
        });
        Ok(StatusTree {
            provisioning_status: self.provisioning.clone(),
            operating_status: OperatingStatus::Online,
            listeners: listeners.collect(),
            pools: pools.collect(),
            ..StatusTree::default()
        })
    }

    pub(crate) fn listeners_and_pools(&mut self, now: Instant) -> Answer<ListenersAndPools> {
        self.advance(now);
        if self.absent {
            return Ok(ListenersAndPools::default());
        }
        Ok(ListenersAndPools {
            listeners: self
                .listeners
                .iter()
                .map(|listener| Listener {
                    id: listener.id.clone(),
                    name: listener.name.clone(),
                    protocol_port: listener.port,
                    default_pool_id: self
                        .pools
                        .iter()
                        .find(|pool| pool.listener.as_ref() == Some(&listener.id))
                        .map(|pool| pool.id.clone()),
                    allowed_cidrs: listener.allowed_cidrs.clone(),
                    ..Listener::default()
                })
                .collect(),
            pools: self
                .pools
                .iter()
                .map(|pool| Pool {
                    id: pool.id.clone(),
                    name: pool.name.clone(),
                    healthmonitor_id: pool.monitor.as_ref().map(|(id, ..)| id.clone()),
                    ..Pool::default()
                })
                .collect(),
        })
    }

    pub(crate) fn list(&mut self, pool: &str, now: Instant) -> Answer<Vec<Member>> {
        self.advance(now);
        let pool = self.pools.iter().find(|known| known.id == pool);
        let pool = pool
            .filter(|_| !self.absent)
            .ok_or_else(|| failure(FailureClass::NotFound))?;
        Ok(pool.members.iter().map(listed).collect())
    }

    pub(crate) fn parameters(&mut self, id: &str, now: Instant) -> Answer<MonitorParameters> {
        self.advance(now);
        self.pools
            .iter()
            .filter_map(|pool| pool.monitor.as_ref())
            .find(|(known, ..)| known == id)
            .map(|(_, parameters, _)| *parameters)
            .ok_or_else(|| failure(FailureClass::NotFound))
    }
}

pub(crate) fn listed(member: &ModelMember) -> Member {
    Member {
        id: member.id.clone(),
        weight: member.weight,
        admin_state_up: member.admin_up,
        tags: member.tags.clone(),
        ..Member::default()
    }
}
