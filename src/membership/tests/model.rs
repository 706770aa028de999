//! Octavia in a few lines: one lock per load balancer, operations that take time, fail, or get lost.

use std::{
    collections::HashMap,
    net::IpAddr,
    time::{Duration, Instant},
};

use super::super::{
    desired::Monitor,
    octavia::{
        Answer, Change, Failure, FailureClass, ListenerDetail, ListenerRead, MemberDetail,
        MemberRead, MonitorRead, Operating, PoolDetail, PoolRead, Provisioning, Structure, Tree,
        Written,
    },
};

/// What becomes of the next operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
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
pub(super) struct ModelMember {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) address: IpAddr,
    pub(super) port: u16,
    pub(super) weight: u16,
    pub(super) admin_up: bool,
    pub(super) tags: Vec<String>,
    pub(super) provisioning: Provisioning,
    pub(super) pushed: bool,
}

#[derive(Debug, Clone)]
pub(super) struct ModelPool {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) listener: Option<String>,
    pub(super) provisioning: Provisioning,
    pub(super) monitor: Option<(String, Monitor, Provisioning)>,
    pub(super) members: Vec<ModelMember>,
}

#[derive(Debug, Clone)]
pub(super) struct ModelListener {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) port: u16,
    pub(super) provisioning: Provisioning,
}

#[derive(Debug, Clone)]
struct Running {
    target: String,
    delete: bool,
    fate: Fate,
    ends: Instant,
}

#[derive(Debug, Clone)]
struct Later {
    target: String,
    at: Instant,
}

#[derive(Debug, Clone)]
pub(super) struct Model {
    pub(super) absent: bool,
    pub(super) provisioning: Provisioning,
    pub(super) listeners: Vec<ModelListener>,
    pub(super) pools: Vec<ModelPool>,
    pub(super) operation: Duration,
    pub(super) monitors: bool,
    /// Nothing listens on this port.
    pub(super) dark_port: Option<u16>,
    /// Since when which API server is up.
    pub(super) up: HashMap<IpAddr, Instant>,
    pub(super) fates: Vec<Fate>,
    running: Option<Running>,
    later: Vec<Later>,
    ids: u64,
    pub(super) writes: Vec<Change>,
}

impl Model {
    pub(super) fn new(operation: Duration) -> Self {
        Self {
            absent: false,
            provisioning: Provisioning::Active,
            listeners: Vec::new(),
            pools: Vec::new(),
            operation,
            monitors: true,
            dark_port: None,
            up: HashMap::new(),
            fates: Vec::new(),
            running: None,
            later: Vec::new(),
            ids: 0,
            writes: Vec::new(),
        }
    }

    fn id(&mut self, kind: &str) -> String {
        self.ids += 1;
        format!("{kind}-{}", self.ids)
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &ModelMember> {
        self.pools.iter().flat_map(|pool| &pool.members)
    }

    pub(super) fn members_mut(&mut self) -> impl Iterator<Item = &mut ModelMember> {
        self.pools.iter_mut().flat_map(|pool| &mut pool.members)
    }

    /// Time passes.
    pub(super) fn advance(&mut self, now: Instant) {
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
            self.set(&target, &Provisioning::Active, true);
        }
    }

    fn end(&mut self, running: &Running) {
        let pool = self.pools.iter().position(|pool| {
            pool.members
                .iter()
                .any(|member| member.id == running.target)
        });
        self.provisioning = Provisioning::Active;
        for listener in &mut self.listeners {
            listener.provisioning = Provisioning::Active;
        }
        for pool in &mut self.pools {
            if pool.provisioning == Provisioning::PendingUpdate {
                pool.provisioning = Provisioning::Active;
            }
        }
        match running.fate {
            Fate::Fine | Fate::Hangs(_) => {
                if running.delete {
                    for pool in &mut self.pools {
                        pool.members.retain(|member| member.id != running.target);
                    }
                } else {
                    self.set(&running.target, &Provisioning::Active, true);
                }
            }
            Fate::Fails => self.set(&running.target, &Provisioning::Error, false),
            Fate::FailsAll => {
                self.set(&running.target, &Provisioning::Error, false);
                if let Some(pool) = pool.and_then(|pool| self.pools.get_mut(pool)) {
                    for member in &mut pool.members {
                        member.provisioning = Provisioning::Error;
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
                    pool.provisioning = Provisioning::PendingUpdate;
                }
            }
        }
    }

    fn set(&mut self, id: &str, provisioning: &Provisioning, pushed: bool) {
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
                    member.provisioning = provisioning.clone();
                    member.pushed |= pushed;
                }
            }
        }
    }

    /// A failover: everything is ACTIVE afterwards, whatever it was.
    pub(super) fn fail_over(&mut self) {
        self.running = None;
        self.later.clear();
        self.provisioning = Provisioning::Active;
        for listener in &mut self.listeners {
            listener.provisioning = Provisioning::Active;
        }
        for pool in &mut self.pools {
            pool.provisioning = Provisioning::Active;
            for member in &mut pool.members {
                member.provisioning = Provisioning::Active;
                member.pushed = true;
            }
        }
    }

    fn operating(&self, pool: &ModelPool, member: &ModelMember, now: Instant) -> Operating {
        if pool.monitor.is_none() {
            return Operating::NoMonitor;
        }
        if !member.admin_up || !member.pushed {
            return Operating::Offline;
        }
        if member.weight == 0 {
            return Operating::Draining;
        }
        match self.up.get(&member.address) {
            _ if self.dark_port == Some(member.port) => Operating::Error,
            Some(up) if now.saturating_duration_since(*up) > Duration::from_secs(10) => {
                Operating::Online
            }
            _ => Operating::Error,
        }
    }

    pub(super) fn tree(&mut self, now: Instant) -> Answer<Tree> {
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
            operating: Operating::Online,
            listeners: listeners.collect(),
        })
    }

    pub(super) fn structure(&mut self, now: Instant) -> Answer<Structure> {
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
                    allowed_cidrs: Some(Vec::new()),
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

    pub(super) fn list(&mut self, pool: &str, now: Instant) -> Answer<Vec<MemberDetail>> {
        self.advance(now);
        let pool = self.pools.iter().find(|known| known.id == pool);
        let pool = pool
            .filter(|_| !self.absent)
            .ok_or_else(|| failure(FailureClass::NotFound))?;
        Ok(pool.members.iter().map(detail).collect())
    }

    pub(super) fn numbers(&mut self, id: &str, now: Instant) -> Answer<Monitor> {
        self.advance(now);
        self.pools
            .iter()
            .filter_map(|pool| pool.monitor.as_ref())
            .find(|(known, ..)| known == id)
            .map(|(_, numbers, _)| *numbers)
            .ok_or_else(|| failure(FailureClass::NotFound))
    }

    /// As Octavia: the pool must be ACTIVE, then the load balancer.
    pub(super) fn write(&mut self, change: &Change, now: Instant) -> Answer<Written> {
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
            if pool.provisioning != Provisioning::Active {
                return Err(failure(FailureClass::Locked));
            }
        }
        if self.provisioning != Provisioning::Active {
            return Err(failure(FailureClass::Locked));
        }
        let mut written = Written::default();
        let mut delete = false;
        let target = match change.clone() {
            Change::CreateListener { name, port, .. } => {
                if self.listeners.iter().any(|known| known.port == port) {
                    return Err(failure(FailureClass::Duplicate));
                }
                let id = self.id("listener");
                self.listeners.push(ModelListener {
                    id: id.clone(),
                    name,
                    port,
                    provisioning: Provisioning::PendingCreate,
                });
                id
            }
            Change::UpdateListener {
                id, default_pool, ..
            } => {
                if let Some(pool) = default_pool
                    && let Some(pool) = self.pools.iter_mut().find(|known| known.id == pool)
                {
                    pool.listener = Some(id.clone());
                }
                id
            }
            Change::CreatePool { listener, name, .. } => {
                if self
                    .pools
                    .iter()
                    .any(|pool| pool.listener.as_ref() == Some(&listener))
                {
                    return Err(failure(FailureClass::Duplicate));
                }
                let id = self.id("pool");
                self.pools.push(ModelPool {
                    id: id.clone(),
                    name,
                    listener: Some(listener),
                    provisioning: Provisioning::PendingCreate,
                    monitor: None,
                    members: Vec::new(),
                });
                id
            }
            Change::UpdatePool { id, .. } => id,
            Change::CreateMonitor { pool, numbers, .. } => {
                if !self.monitors {
                    return Err(failure(FailureClass::NotImplemented));
                }
                let id = self.id("monitor");
                let pool = self.pools.iter_mut().find(|known| known.id == pool);
                let pool = pool.ok_or_else(|| failure(FailureClass::NotFound))?;
                if pool.monitor.is_some() {
                    return Err(failure(FailureClass::Duplicate));
                }
                pool.monitor = Some((id.clone(), numbers, Provisioning::PendingCreate));
                id
            }
            Change::UpdateMonitor { id, numbers } => {
                for pool in &mut self.pools {
                    if let Some((known, old, _)) = &mut pool.monitor
                        && *known == id
                    {
                        *old = numbers;
                    }
                }
                id
            }
            Change::CreateMember {
                pool,
                name,
                address,
                port,
                admin_up,
                tags,
                ..
            } => {
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
                    id: id.clone(),
                    name,
                    address,
                    port,
                    weight: 1,
                    admin_up,
                    tags,
                    provisioning: Provisioning::PendingCreate,
                    pushed: false,
                };
                written.member = Some(detail(&member));
                pool.members.push(member);
                id
            }
            Change::UpdateMember {
                id,
                weight,
                admin_up,
                tags,
                ..
            } => {
                let member = self.members_mut().find(|known| known.id == id);
                let member = member.ok_or_else(|| failure(FailureClass::NotFound))?;
                member.weight = weight.unwrap_or(member.weight);
                member.admin_up = admin_up.unwrap_or(member.admin_up);
                if let Some(tags) = tags {
                    member.tags = tags;
                }
                member.provisioning = Provisioning::PendingUpdate;
                written.member = Some(detail(member));
                id
            }
            Change::DeleteMember { id, .. } => {
                let member = self.members_mut().find(|known| known.id == id);
                let member = member.ok_or_else(|| failure(FailureClass::NotFound))?;
                member.provisioning = Provisioning::PendingDelete;
                delete = true;
                id
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
        self.provisioning = Provisioning::PendingUpdate;
        for listener in &mut self.listeners {
            if listener.provisioning == Provisioning::Active {
                listener.provisioning = Provisioning::PendingUpdate;
            }
        }
        if let Some(pool) = member_pool
            && let Some(pool) = self.pools.iter_mut().find(|known| known.id == pool)
        {
            pool.provisioning = Provisioning::PendingUpdate;
        }
        written.id = Some(target.clone());
        self.running = Some(Running {
            target,
            delete,
            fate,
            ends,
        });
        Ok(written)
    }
}

fn detail(member: &ModelMember) -> MemberDetail {
    MemberDetail {
        id: member.id.clone(),
        weight: member.weight,
        admin_up: member.admin_up,
        tags: member.tags.clone(),
    }
}

pub(super) fn failure(class: FailureClass) -> Failure {
    Failure {
        class,
        retry_after: None,
        message: format!("the model answers {class:?}"),
    }
}
