//! The rows of Octavia's database. A load balancer owns all rows below it.

use std::time::Duration;

use serde_json::Value;

use super::status::{Operating, Provisioning};
use crate::clock::Now;

/// The columns of every row.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Description, where the kind has one.
    pub description: String,
    /// `provisioning_status`.
    pub provisioning: Provisioning,
    /// `operating_status`.
    pub operating: Operating,
    /// `admin_state_up`.
    pub enabled: bool,
    /// Tags.
    pub tags: Vec<String>,
    /// Creation time, whole seconds without a zone.
    pub created: String,
    /// Time of the last write to the row; none before the first.
    pub updated: Option<String>,
    /// When `provisioning` got its value, on the cloud's own clock.
    pub changed: Duration,
}

impl Head {
    /// Writes the provisioning status, which also stamps the row, even when nothing changes.
    pub fn set(&mut self, status: Provisioning, now: Now) {
        if self.provisioning != status {
            self.changed = now.elapsed;
        }
        self.provisioning = status;
        self.updated = Some(now.without_zone());
    }
}

/// A load balancer and everything below it.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadBalancer {
    /// Common columns.
    pub head: Head,
    /// Project id.
    pub project: String,
    /// Provider name.
    pub provider: String,
    /// Flavor id.
    pub flavor: Option<String>,
    /// Availability zone name.
    pub zone: Option<String>,
    /// VIP address.
    pub vip_address: String,
    /// VIP port.
    pub vip_port: String,
    /// VIP subnet.
    pub vip_subnet: String,
    /// VIP network.
    pub vip_network: String,
    /// Whether Octavia created the VIP port and deletes it again.
    pub owns_vip_port: bool,
    /// Listeners in order of creation.
    pub listeners: Vec<Listener>,
    /// Pools in order of creation.
    pub pools: Vec<Pool>,
}

/// A listener.
#[derive(Debug, Clone, PartialEq)]
pub struct Listener {
    /// Common columns.
    pub head: Head,
    /// `TCP`, `HTTP`, ...
    pub protocol: String,
    /// Port it listens on.
    pub port: u16,
    /// Its default pool.
    pub pool: Option<String>,
    /// The ranges that may connect; all when empty.
    pub allowed_cidrs: Vec<String>,
    /// Remaining attributes as shown: time-outs, limits, headers.
    pub rest: serde_json::Map<String, Value>,
}

/// A pool.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// Common columns.
    pub head: Head,
    /// `TCP`, ...
    pub protocol: String,
    /// `ROUND_ROBIN`, `SOURCE_IP_PORT`, ...
    pub algorithm: String,
    /// Session persistence as given.
    pub persistence: Value,
    /// Its health monitor.
    pub monitor: Option<Monitor>,
    /// Members in order of creation.
    pub members: Vec<Member>,
}

/// A health monitor.
#[derive(Debug, Clone, PartialEq)]
pub struct Monitor {
    /// Common columns.
    pub head: Head,
    /// `TCP`, `HTTPS`, ...
    pub kind: String,
    /// Seconds between checks.
    pub delay: u64,
    /// Seconds until a check has failed.
    pub timeout: u64,
    /// The number of successful checks until a member is up.
    pub max_retries: u64,
    /// The number of failed checks until a member is down.
    pub max_retries_down: u64,
    /// HTTP attributes as shown.
    pub rest: serde_json::Map<String, Value>,
}

/// A pool member.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Common columns.
    pub head: Head,
    /// Address.
    pub address: String,
    /// Port.
    pub port: u16,
    /// Weight.
    pub weight: u64,
    /// Whether it is used only when all others are down.
    pub backup: bool,
    /// Subnet id as given.
    pub subnet: Option<String>,
    /// The address of the checks, if it is another one.
    pub monitor_address: Option<String>,
    /// The port of the checks, if it is another one.
    pub monitor_port: Option<u16>,
    /// Whether the amphora has an interface that reaches it.
    pub plugged: bool,
    /// The result of the checks, if the data path makes any.
    pub up: Option<bool>,
    /// The operating status that a command has set. It takes precedence over every heartbeat.
    pub forced: Option<Operating>,
}

impl LoadBalancer {
    /// A pool of the load balancer.
    pub fn pool(&self, id: &str) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.head.id == id)
    }

    /// A pool of the load balancer, to change.
    pub fn pool_mut(&mut self, id: &str) -> Option<&mut Pool> {
        self.pools.iter_mut().find(|pool| pool.head.id == id)
    }

    /// A listener of the load balancer.
    pub fn listener(&self, id: &str) -> Option<&Listener> {
        self.listeners
            .iter()
            .find(|listener| listener.head.id == id)
    }

    /// A listener of the load balancer, to change.
    pub fn listener_mut(&mut self, id: &str) -> Option<&mut Listener> {
        self.listeners
            .iter_mut()
            .find(|listener| listener.head.id == id)
    }

    /// Ids of the listeners whose default pool this is.
    pub fn listeners_of(&self, pool: &str) -> Vec<String> {
        self.listeners
            .iter()
            .filter(|listener| listener.pool.as_deref() == Some(pool))
            .map(|listener| listener.head.id.clone())
            .collect()
    }

    /// The columns of the row that `object` names.
    pub fn head_mut(&mut self, object: &Object) -> Option<&mut Head> {
        match object {
            Object::LoadBalancer => Some(&mut self.head),
            Object::Listener(id) => self.listener_mut(id).map(|listener| &mut listener.head),
            Object::Pool(id) => self.pool_mut(id).map(|pool| &mut pool.head),
            Object::Monitor(pool) => self
                .pool_mut(pool)?
                .monitor
                .as_mut()
                .map(|monitor| &mut monitor.head),
            Object::Member(pool, id) => self
                .pool_mut(pool)?
                .member_mut(id)
                .map(|member| &mut member.head),
        }
    }
}

impl Pool {
    /// A member.
    pub fn member(&self, id: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.head.id == id)
    }

    /// A member, to change.
    pub fn member_mut(&mut self, id: &str) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.head.id == id)
    }
}

/// A row below one load balancer, or itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// The load balancer.
    LoadBalancer,
    /// A listener by id.
    Listener(String),
    /// A pool by id.
    Pool(String),
    /// The monitor of a pool, by the pool's id.
    Monitor(String),
    /// A member: pool id, member id.
    Member(String, String),
}

impl Object {
    /// The kind's name: `loadbalancer`, `listener`, `pool`, `healthmonitor`, `member`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::LoadBalancer => "loadbalancer",
            Self::Listener(_) => "listener",
            Self::Pool(_) => "pool",
            Self::Monitor(_) => "healthmonitor",
            Self::Member(..) => "member",
        }
    }
}
