//! A small model of Octavia: one lock per load balancer, and operations that take time, fail, or are lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::{Duration, Instant},
};

use ipnet::IpNet;

use crate::model::octavia::{Change, Failure};
use capo_core::{
    FailureClass, MonitorType, ProvisioningStatus,
    ids::{ListenerId, MemberId, MonitorId, PoolId},
    octavia::MonitorParameters,
};

mod reads;

pub(crate) use reads::listed;

/// The outcome of the next operation.
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
    /// As `Lost`, and the pool stays PENDING as well, so that every write of a member is answered with 409.
    LostPool,
    /// Every member of the pool ends in ERROR.
    FailsAll,
}

#[derive(Debug, Clone)]
pub(crate) struct ModelMember {
    pub(crate) id: MemberId,
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
    pub(crate) weight: u32,
    pub(crate) admin_up: bool,
    pub(crate) tags: Vec<String>,
    pub(crate) provisioning: ProvisioningStatus,
    pub(crate) is_configured: bool,
    /// Weight and admin state in the data path, which change when Octavia's operation ends.
    pub(crate) applied: (u32, bool),
    /// Until then OVN shows it as ONLINE, whatever its state, because its checks have not failed often enough yet.
    pub(crate) assumed_up: Option<Instant>,
}

#[derive(Debug, Clone)]
pub(crate) struct ModelPool {
    pub(crate) id: PoolId,
    pub(crate) name: String,
    pub(crate) listener: Option<ListenerId>,
    pub(crate) provisioning: ProvisioningStatus,
    pub(crate) monitor: Option<(MonitorId, MonitorParameters, ProvisioningStatus)>,
    pub(crate) monitor_type: MonitorType,
    pub(crate) members: Vec<ModelMember>,
}

#[derive(Debug, Clone)]
pub(crate) struct ModelListener {
    pub(crate) id: ListenerId,
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

/// How long checks take to find that nothing answers: three checks, 10 s apart, and their time-out.
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
    /// The provider only has monitors that connect by TCP.
    pub(crate) only_tcp: bool,
    /// Behaves as the OVN provider: a new member is shown as ONLINE, and weights are ignored.
    pub(crate) ovn: bool,
    /// The port on which nothing listens.
    pub(crate) dark_port: Option<u16>,
    /// Members at these addresses are shown as ACTIVE and ONLINE, but the connections that they get are never answered.
    pub(crate) never_programmed: BTreeSet<IpAddr>,
    /// The health of members at these addresses is not reported any more, so they stay ONLINE.
    pub(crate) health_unreported: BTreeSet<IpAddr>,
    /// No health is reported at all.
    pub(crate) silent: bool,
    /// The members to which the data path goes on sending connections, whatever is changed and deleted in Octavia;
    /// `None` while the data path follows Octavia.
    pub(crate) frozen: Option<Vec<ModelMember>>,
    /// Other clients connect as well, so no client meets the members in turn.
    pub(crate) busy: bool,
    /// The API servers that are up, and since when each of them is.
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
            health_unreported: BTreeSet::new(),
            silent: false,
            frozen: None,
            busy: false,
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

    /// Whether the data path sends clients to a member.
    pub(crate) fn takes_clients(&self, member: &ModelMember) -> bool {
        let (weight, admin_up) = member.applied;
        member.is_configured && admin_up && (weight > 0 || self.ovn)
    }

    /// The members of a port to which the data path sends clients.
    pub(crate) fn in_rotation(&self, port: u16) -> impl Iterator<Item = &ModelMember> {
        let frozen = self.frozen.iter().flatten();
        let shown = self.members().filter(|_| self.frozen.is_none());
        let shown = shown.filter(|member| self.takes_clients(member));
        frozen
            .chain(shown)
            .filter(move |member| member.port == port)
    }

    /// The data path stops to follow Octavia, or follows it again.
    pub(crate) fn freeze(&mut self, is_frozen: bool) {
        self.frozen = None;
        if is_frozen {
            let members = self.members().filter(|member| self.takes_clients(member));
            self.frozen = Some(members.cloned().collect());
        }
    }

    /// Whether an API server can be reached through a port of the load balancer.
    pub(crate) fn serves(&self, port: u16) -> bool {
        self.in_rotation(port).any(|member| {
            self.up.contains_key(&member.address)
                && !self.never_programmed.contains(&member.address)
        })
    }

    /// Lets time pass until `now`.
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

    fn set(&mut self, id: &str, provisioning: &ProvisioningStatus, configured_at: Option<Instant>) {
        let assumed_up = configured_at
            .filter(|_| self.ovn)
            .map(|at| at + CHECKS_FAIL);
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
                    // A status that is set late does not change what was applied since.
                    let applied = member.provisioning != ProvisioningStatus::Active;
                    member.provisioning = provisioning.clone();
                    if configured_at.is_some() {
                        member.is_configured = true;
                        member.applied = (member.weight, member.admin_up);
                    }
                    member.assumed_up = assumed_up.filter(|_| applied).or(member.assumed_up);
                }
            }
        }
    }

    /// A failover: everything is ACTIVE afterwards, whatever its status was before.
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
                member.is_configured = true;
                member.applied = (member.weight, member.admin_up);
            }
        }
    }
}

pub(crate) fn failure(class: FailureClass) -> Failure {
    Failure {
        class,
        retry_after: None,
        message: format!("the model answers {class:?}"),
    }
}
