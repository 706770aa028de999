//! Octavia in a few lines: one lock per load balancer, operations that take time, fail, or get lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::{Duration, Instant},
};

use ipnet::IpNet;

use crate::model::{
    desired::Monitor,
    octavia::{
        Answer, Change, Failure, ListenerDetail, ListenerRead, MemberDetail, MemberRead,
        MonitorRead, PoolDetail, PoolRead, Structure, Tree,
    },
};
use capo_core::{FailureClass, MonitorType, OperatingStatus, ProvisioningStatus};

/// What becomes of the next operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It succeeds.
    Fine,
    /// The object ends in ERROR, the load balancer ACTIVE.
    Fails,
    /// The load balancer turns ACTIVE, the object stays PENDING for this many seconds, then turns ACTIVE.
    Late(u64),
    /// The object stays PENDING for ever under an ACTIVE load balancer.
    Lost,
    /// The load balancer stays PENDING for this many seconds.
    Hangs(u64),
    /// As `Lost`, and the pool stays PENDING too: 409 for every member write.
    LostPool,
    /// Every member of the pool ends in ERROR.
    FailsAll,
}

#[derive(Debug, Clone)]
pub(crate) struct ModelMember {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
    pub(crate) weight: u16,
    pub(crate) admin_up: bool,
    pub(crate) tags: Vec<String>,
    pub(crate) provisioning: ProvisioningStatus,
    pub(crate) pushed: bool,
    /// Until then OVN calls it ONLINE, whatever it is: so long its checks have not failed often enough.
    pub(crate) assumed_up: Option<Instant>,
}

#[derive(Debug, Clone)]
pub(crate) struct ModelPool {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) listener: Option<String>,
    pub(crate) provisioning: ProvisioningStatus,
    pub(crate) monitor: Option<(String, Monitor, ProvisioningStatus)>,
    pub(crate) monitor_type: MonitorType,
    pub(crate) members: Vec<ModelMember>,
}

#[derive(Debug, Clone)]
pub(crate) struct ModelListener {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) port: u16,
    pub(crate) allowed_cidrs: Vec<IpNet>,
    pub(crate) provisioning: ProvisioningStatus,
}

#[derive(Debug, Clone)]
pub(crate) struct Running {
    pub(crate) target: String,
    pub(crate) delete: bool,
    pub(crate) fate: Fate,
    pub(crate) ends: Instant,
}

/// How long checks take to find that nothing answers: three of them, 10 s apart, and their time-out.
const CHECKS_FAIL: Duration = Duration::from_secs(35);

#[derive(Debug, Clone)]
struct Later {
    target: String,
    at: Instant,
}

#[derive(Debug, Clone)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a fault of its own that a test switches on"
)]
pub(crate) struct Model {
    pub(crate) absent: bool,
    pub(crate) provisioning: ProvisioningStatus,
    pub(crate) listeners: Vec<ModelListener>,
    pub(crate) pools: Vec<ModelPool>,
    pub(crate) operation: Duration,
    pub(crate) monitors: bool,
    /// The provider has monitors that connect by TCP only.
    pub(crate) only_tcp: bool,
    /// As the OVN provider: a new member is called ONLINE, weights are ignored.
    pub(crate) ovn: bool,
    /// Nothing listens on this port.
    pub(crate) dark_port: Option<u16>,
    /// Members at these addresses are called ACTIVE and ONLINE, and get no traffic.
    pub(crate) never_programmed: BTreeSet<IpAddr>,
    /// The health of members at these addresses is not reported any more: they stay ONLINE.
    pub(crate) frozen: BTreeSet<IpAddr>,
    /// No health is reported at all.
    pub(crate) silent: bool,
    /// Since when which API server is up.
    pub(crate) up: BTreeMap<IpAddr, Instant>,
    pub(crate) fates: Vec<Fate>,
    pub(crate) running: Option<Running>,
    later: Vec<Later>,
    ids: u64,
    pub(crate) writes: Vec<Change>,
}

impl Model {
    pub(crate) fn new(operation: Duration) -> Self {
        Self {
            absent: false,
            provisioning: ProvisioningStatus::Active,
            listeners: Vec::new(),
            pools: Vec::new(),
            operation,
            monitors: true,
            only_tcp: false,
            ovn: false,
            dark_port: None,
            never_programmed: BTreeSet::new(),
            frozen: BTreeSet::new(),
            silent: false,
            up: BTreeMap::new(),
            fates: Vec::new(),
            running: None,
            later: Vec::new(),
            ids: 0,
            writes: Vec::new(),
        }
    }

    pub(crate) fn id(&mut self, kind: &str) -> String {
        self.ids += 1;
        format!("{kind}-{}", self.ids)
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &ModelMember> {
        self.pools.iter().flat_map(|pool| &pool.members)
    }

    pub(crate) fn members_mut(&mut self) -> impl Iterator<Item = &mut ModelMember> {
        self.pools.iter_mut().flat_map(|pool| &mut pool.members)
    }

    /// Time passes.
    pub(crate) fn advance(&mut self, now: Instant) {
        if self
            .running
            .as_ref()
            .is_some_and(|running| running.ends <= now)
            && let Some(running) = self.running.take()
        {
            self.end(&running);
        }
        let due: Vec<String> = self
            .later
            .iter()
            .filter(|later| later.at <= now)
            .map(|later| later.target.clone())
            .collect();
        self.later.retain(|later| later.at > now);
        for target in due {
            self.set(&target, &ProvisioningStatus::Active, Some(now));
        }
    }

    fn end(&mut self, running: &Running) {
        let pool = self.pools.iter().position(|pool| {
            pool.members
                .iter()
                .any(|member| member.id == running.target)
        });
        self.provisioning = ProvisioningStatus::Active;
        for listener in &mut self.listeners {
            listener.provisioning = ProvisioningStatus::Active;
        }
        for pool in &mut self.pools {
            if pool.provisioning == ProvisioningStatus::PendingUpdate {
                pool.provisioning = ProvisioningStatus::Active;
            }
        }
        match running.fate {
            Fate::Fine | Fate::Hangs(_) => {
                if running.delete {
                    self.remove(&running.target);
                } else {
                    self.set(
                        &running.target,
                        &ProvisioningStatus::Active,
                        Some(running.ends),
                    );
                }
            }
            Fate::Fails => self.set(&running.target, &ProvisioningStatus::Error, None),
            Fate::FailsAll => {
                self.set(&running.target, &ProvisioningStatus::Error, None);
                if let Some(pool) = pool.and_then(|pool| self.pools.get_mut(pool)) {
                    for member in &mut pool.members {
                        member.provisioning = ProvisioningStatus::Error;
                    }
                }
            }
            Fate::Late(seconds) => self.later.push(Later {
                target: running.target.clone(),
                at: running.ends + Duration::from_secs(seconds),
            }),
            Fate::Lost => {}
            Fate::LostPool => {
                if let Some(pool) = pool.and_then(|pool| self.pools.get_mut(pool)) {
                    pool.provisioning = ProvisioningStatus::PendingUpdate;
                }
            }
        }
    }

    fn remove(&mut self, id: &str) {
        self.listeners.retain(|listener| listener.id != id);
        self.pools.retain(|pool| pool.id != id);
        for pool in &mut self.pools {
            pool.members.retain(|member| member.id != id);
            pool.listener.take_if(|listener| listener == id);
            pool.monitor.take_if(|(monitor, ..)| monitor == id);
        }
    }

    fn set(&mut self, id: &str, provisioning: &ProvisioningStatus, pushed: Option<Instant>) {
        let assumed_up = pushed.filter(|_| self.ovn).map(|at| at + CHECKS_FAIL);
        for listener in &mut self.listeners {
            if listener.id == id {
                listener.provisioning = provisioning.clone();
            }
        }
        for pool in &mut self.pools {
            if pool.id == id {
                pool.provisioning = provisioning.clone();
            }
            if let Some((monitor, _, status)) = &mut pool.monitor
                && monitor == id
            {
                *status = provisioning.clone();
            }
            for member in &mut pool.members {
                if member.id == id {
                    // What is late changes nothing of what was applied meanwhile.
                    let applied = member.provisioning != ProvisioningStatus::Active;
                    member.provisioning = provisioning.clone();
                    member.pushed |= pushed.is_some();
                    member.assumed_up = assumed_up.filter(|_| applied).or(member.assumed_up);
                }
            }
        }
    }

    /// A failover: everything is ACTIVE afterwards, whatever it was.
    pub(crate) fn fail_over(&mut self) {
        self.running = None;
        self.later.clear();
        self.provisioning = ProvisioningStatus::Active;
        for listener in &mut self.listeners {
            listener.provisioning = ProvisioningStatus::Active;
        }
        for pool in &mut self.pools {
            pool.provisioning = ProvisioningStatus::Active;
            for member in &mut pool.members {
                member.provisioning = ProvisioningStatus::Active;
                member.pushed = true;
            }
        }
    }

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

pub(crate) fn failure(class: FailureClass) -> Failure {
    Failure {
        class,
        retry_after: None,
        message: format!("the model answers {class:?}"),
    }
}
