//! The options of a cloud: addresses, durations, and the objects that exist from the start.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use ipnet::Ipv4Net;

/// Options of a fake cloud. `Options::default()` is a quick cloud for tests on a free port.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address on which the cloud listens; with port 0 on a free port.
    pub listen: SocketAddr,
    /// A file of commands, one JSON or YAML document a line, run at the start.
    pub script: Option<PathBuf>,
    /// The durations of operations.
    pub durations: Durations,
    /// Regions in the catalogue. The same cloud is behind each region.
    pub regions: Vec<String>,
    /// Range of the external network. `None` chooses one in 127.0.0.0/8 from the port, so that several clouds on one
    /// host don't collide.
    pub floating_range: Option<Ipv4Net>,
    /// How long tokens live.
    pub token_life: Duration,
    /// Octavia's enabled providers.
    pub providers: Vec<String>,
    /// The provider of load balancers whose creator names none.
    pub default_provider: String,
    /// Whether load balancers on loopback addresses listen.
    pub data_path: bool,
    /// The HAProxy that carries the connections of amphora providers; libraries that it needs may lie in the folder
    /// `lib` beside it. Without it the cloud carries them itself.
    pub haproxy: Option<PathBuf>,
    /// The health of members behind a monitor that no data path checks.
    pub assumed_health: AssumedHealth,
    /// The number of calls that the record keeps.
    pub record_size: usize,
    /// Neutron extensions to hide, by alias (`standard-attr-tag`, `trunk`, ...).
    pub hidden_extensions: Vec<String>,
    /// Catalogue types to leave out (`load-balancer`, `block-storage`, ...).
    pub hidden_services: Vec<String>,
    /// The highest Octavia API version, minor part (2.x).
    pub octavia_minor: u32,
    /// The highest Nova microversion, minor part (2.x).
    pub nova_minor: u32,
    /// Whether the network, Octavia and image endpoints in the catalogue have their version.
    pub versioned_catalogue: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            script: None,
            durations: Durations::default(),
            regions: vec!["RegionOne".to_owned()],
            floating_range: None,
            token_life: Duration::from_hours(1),
            providers: ["amphora", "amphorav2", "octavia", "ovn"]
                .map(str::to_owned)
                .to_vec(),
            default_provider: "amphora".to_owned(),
            data_path: true,
            haproxy: None,
            assumed_health: AssumedHealth::Online,
            record_size: 50_000,
            hidden_extensions: Vec::new(),
            hidden_services: Vec::new(),
            octavia_minor: 30,
            nova_minor: 104,
            versioned_catalogue: false,
        }
    }
}

/// What replaces health checks if there is no data path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AssumedHealth {
    /// Every enabled member answers its checks.
    Online,
    /// No heartbeat arrives, so statuses keep their initial value.
    Silent,
}

/// The durations of operations, in seconds on the wire. All can be changed while the cloud runs.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Durations {
    /// Nova: BUILD to ACTIVE.
    pub server_build: f64,
    /// Nova: DELETE to 404.
    pub server_delete: f64,
    /// Cinder: creating to available.
    pub volume_create: f64,
    /// Neutron: floating IP and router port status changes.
    pub agent: f64,
    /// Octavia: POST of a load balancer to ACTIVE.
    pub load_balancer_create: f64,
    /// Octavia: DELETE of a load balancer to 404.
    pub load_balancer_delete: f64,
    /// Octavia: failover.
    pub failover: f64,
    /// Octavia: any other change under a load balancer.
    pub operation: f64,
    /// Octavia: the time between two database transactions of one flow.
    pub step: f64,
    /// Octavia, provider ovn: any change.
    pub ovn_operation: f64,
    /// Octavia: the time between two heartbeats.
    pub heartbeat: f64,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            server_build: 1.0,
            server_delete: 0.5,
            volume_create: 0.5,
            agent: 0.3,
            load_balancer_create: 8.0,
            load_balancer_delete: 1.0,
            failover: 3.0,
            operation: 1.0,
            step: 0.01,
            ovn_operation: 0.3,
            heartbeat: 1.0,
        }
    }
}

impl Durations {
    /// Very short durations, for tests that don't depend on intermediate states.
    pub fn instant() -> Self {
        Self {
            server_build: 0.01,
            server_delete: 0.01,
            volume_create: 0.01,
            agent: 0.01,
            load_balancer_create: 0.02,
            load_balancer_delete: 0.02,
            failover: 0.02,
            operation: 0.01,
            step: 0.0,
            ovn_operation: 0.01,
            heartbeat: 0.05,
        }
    }
}

/// Seconds from the wire as a duration. Negative, very large and undefined values become zero.
pub fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value.max(0.0)).unwrap_or(Duration::ZERO)
}
