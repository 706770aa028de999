//! The whole cloud as one state machine: the input is a call and the time, the output is a reply, and everything else
//! runs on timers.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashMap, VecDeque},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::json;

use crate::{
    clock::Now,
    compute::Compute,
    events::Event,
    faults::Faults,
    identity::{Identity, unauthorized},
    limits::Limits,
    network::{Kind, Network},
    octavia::Octavia,
    record::Record,
    settings::{AssumedHealth, Durations, Options, seconds},
    wire::{Answer, Reply, Request, Row, Service},
};

/// An effect that a timer causes later.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    ServerBuilt { id: String, fail: Option<String> },
    ServerGone(String),
    PortUp(String),
    FloatingIpSettled(String),
    VolumeReady(String),
    VolumeGone(String),
    OctaviaStep(u64),
    OctaviaResume(u64),
    ReleaseMember(String),
    Heartbeat(String),
}

#[derive(Debug)]
struct Timer {
    due: Duration,
    order: u64,
    effect: Effect,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        (self.due, self.order) == (other.due, other.order)
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.order).cmp(&(other.due, other.order))
    }
}

/// The cloud.
#[derive(Debug)]
pub struct World {
    /// The time of the current call or timer.
    pub(crate) now: Now,
    timers: BinaryHeap<Reverse<Timer>>,
    next_timer: u64,
    next_id: u64,
    id_prefix: u64,
    /// Events not yet taken by the shell.
    outbox: VecDeque<Event>,
    /// The durations of operations.
    pub durations: Durations,
    pub(crate) token_life: f64,
    pub(crate) regions: Vec<String>,
    pub(crate) hidden_services: Vec<String>,
    pub(crate) hidden_extensions: Vec<String>,
    pub(crate) versioned_catalogue: bool,
    pub(crate) nova_minor: u32,
    pub(crate) octavia_minor: u32,
    pub(crate) assumed_health: AssumedHealth,
    pub(crate) data_path: bool,
    /// Quotas and rates.
    pub limits: Limits,
    /// Faults of single calls.
    pub faults: Faults,
    /// The record of calls.
    pub record: Record,
    /// Keystone.
    pub identity: Identity,
    /// Neutron.
    pub network: Network,
    pub(crate) floating_subnets: HashMap<String, String>,
    /// Nova.
    pub compute: Compute,
    pub(crate) images: BTreeMap<String, Row>,
    pub(crate) volumes: BTreeMap<String, Row>,
    /// Octavia.
    pub octavia: Octavia,
}

/// The project that exists from the beginning.
pub const PROJECT: &str = "64a0ee120d284395913647a5cdf68336";
/// The administrator's project.
pub const ADMIN_PROJECT: &str = "a627a125a9244704b9ee24c30d4fc8f4";

impl World {
    /// A new cloud with its first projects, users, flavors, images and networks.
    pub fn new(
        options: &Options,
        floating: ipnet::Ipv4Net,
        id_prefix: u64,
        wall: Timestamp,
    ) -> Self {
        let mut world = Self {
            now: Now::beginning(wall),
            timers: BinaryHeap::new(),
            next_timer: 0,
            next_id: 0,
            id_prefix,
            outbox: VecDeque::new(),
            durations: options.durations,
            token_life: options.token_life.as_secs_f64(),
            regions: options.regions.clone(),
            hidden_services: options.hidden_services.clone(),
            hidden_extensions: options.hidden_extensions.clone(),
            versioned_catalogue: options.versioned_catalogue,
            nova_minor: options.nova_minor,
            octavia_minor: options.octavia_minor,
            assumed_health: options.assumed_health,
            data_path: options.data_path,
            limits: Limits::default(),
            faults: Faults::default(),
            record: Record::new(options.record_size),
            identity: Identity::default(),
            network: Network::default(),
            floating_subnets: HashMap::new(),
            compute: Compute::default(),
            images: BTreeMap::new(),
            volumes: BTreeMap::new(),
            octavia: Octavia::default(),
        };
        world.octavia.providers.clone_from(&options.providers);
        world
            .octavia
            .default_provider
            .clone_from(&options.default_provider);
        world.seed(floating);
        world
    }

    fn seed(&mut self, floating: ipnet::Ipv4Net) {
        self.identity.add_project(PROJECT, "demo");
        self.identity.add_project(ADMIN_PROJECT, "admin");
        self.identity.add_user(
            "94b9c8c48603444293e84b1ac08dc8a7",
            "demo",
            "secret",
            PROJECT,
            &["member", "reader"],
        );
        self.identity.add_user(
            "c3e2ab6a5d9e4d2e8a4f60f80f1b3a11",
            "admin",
            "secret",
            ADMIN_PROJECT,
            &["admin", "member", "reader"],
        );
        self.compute.zones.push("nova".into());
        for (name, vcpus, ram, disk) in [
            ("m1.tiny", 1, 512, 1),
            ("m1.small", 1, 2048, 10),
            ("m1.medium", 2, 4096, 20),
        ] {
            self.put_flavor(name, vcpus, ram, disk);
        }
        for (name, tags) in [("cirros", vec![]), ("ubuntu-kube", vec!["kube"])] {
            let body = json!({ "name": name, "status": "active", "visibility": "public", "disk_format": "raw",
                "container_format": "bare", "size": 1024, "tags": tags });
            self.put_image(
                &body.as_object().cloned().unwrap_or_default(),
                ADMIN_PROJECT,
            );
        }
        self.seed_network(floating, ADMIN_PROJECT);
        for (name, enabled) in [("small", true), ("retired", false)] {
            let flavor = json!({ "id": self.new_id(), "name": name, "description": "", "enabled": enabled,
                "flavor_profile_id": self.new_id() });
            let flavor = flavor.as_object().cloned().unwrap_or_default();
            self.octavia
                .flavors
                .insert(crate::wire::text(&flavor, "id").to_owned(), flavor);
        }
    }

    /// A new id in the form of a version 4 UUID. Ids must be unique, but need not be unguessable.
    pub(crate) fn new_id(&mut self) -> String {
        self.next_id += 1;
        // Multiplication by an odd number is a permutation, so the ids are unique and look random.
        let mixed =
            self.next_id.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ self.id_prefix.rotate_left(17);
        uuid::Builder::from_random_bytes(
            (u128::from(mixed) << 64 | u128::from(self.id_prefix ^ self.next_id)).to_be_bytes(),
        )
        .into_uuid()
        .to_string()
    }

    /// Sets a timer, in seconds.
    pub(crate) fn after(&mut self, wait: f64, effect: Effect) {
        self.after_duration(seconds(wait), effect);
    }

    /// Sets a timer.
    pub(crate) fn after_duration(&mut self, wait: Duration, effect: Effect) {
        self.next_timer += 1;
        self.timers.push(Reverse(Timer {
            due: self.now.elapsed + wait,
            order: self.next_timer,
            effect,
        }));
    }

    /// When the next timer is due.
    pub fn next_due(&self) -> Option<Duration> {
        self.timers.peek().map(|Reverse(timer)| timer.due)
    }

    /// Advances the time: every timer that is due runs at its own moment, in order.
    pub fn advance(&mut self, elapsed: Duration) {
        while self.next_due().is_some_and(|due| due <= elapsed) {
            let Some(Reverse(timer)) = self.timers.pop() else {
                break;
            };
            self.now = self.now.at(timer.due.max(self.now.elapsed));
            self.take_effect(timer.effect);
        }
        self.now = self.now.at(elapsed.max(self.now.elapsed));
    }

    fn take_effect(&mut self, effect: Effect) {
        match effect {
            Effect::ServerBuilt { id, fail } => self.server_built(&id, fail.as_deref()),
            Effect::ServerGone(id) => self.server_gone(&id),
            Effect::PortUp(id) => {
                let now = self.now;
                self.network.table_mut(Kind::Port).change(&id, |row| {
                    row.insert("status".into(), json!("ACTIVE"));
                    Network::touch(row, now);
                });
            }
            Effect::FloatingIpSettled(id) => self.floating_ip_settled(&id),
            Effect::VolumeReady(id) => {
                if self
                    .volumes
                    .get(&id)
                    .is_some_and(|row| crate::wire::text(row, "status") == "creating")
                {
                    self.set_volume(&id, "available", None);
                }
            }
            Effect::VolumeGone(id) => {
                self.volumes.remove(&id);
            }
            Effect::OctaviaStep(id) => self.octavia_step(id),
            Effect::OctaviaResume(id) => self.resume_change(id),
            Effect::ReleaseMember(id) => self.release_member(&id),
            Effect::Heartbeat(id) => self.heartbeat(&id),
        }
    }

    /// Sends an event.
    pub(crate) fn emit(&mut self, event: Event) {
        self.outbox.push_back(event);
    }

    /// Takes the events since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.outbox.drain(..).collect()
    }

    /// Notes that the floating addresses of a port have changed. If the port is a VIP, the data path follows.
    pub(crate) fn port_addresses_changed(&mut self, port: &str) {
        if port.is_empty() {
            return;
        }
        let Some(device) = self
            .network
            .get(Kind::Port, port)
            .map(|row| crate::wire::text(row, "device_id").to_owned())
        else {
            return;
        };
        let balancer = match device.strip_prefix("lb-") {
            Some(id) => Some(id.to_owned()),
            None => self
                .octavia
                .balancers
                .values()
                .find(|lb| lb.vip_port == port)
                .map(|lb| lb.head.id.clone()),
        };
        if let Some(load_balancer) = balancer {
            self.emit(Event::DataPath { load_balancer });
        }
    }

    /// Whether a load balancer has an address on which this host can listen.
    pub(crate) fn has_data_path(&self, balancer: &str) -> bool {
        self.data_path && !self.listen_addresses(balancer).is_empty()
    }

    /// The loopback addresses of a load balancer: those of the VIP and of the floating IPs on it.
    pub(crate) fn listen_addresses(&self, balancer: &str) -> Vec<std::net::IpAddr> {
        let Some(lb) = self.octavia.balancers.get(balancer) else {
            return Vec::new();
        };
        std::iter::once(lb.vip_address.clone())
            .chain(self.floating_addresses(&lb.vip_port))
            .filter_map(|address| address.parse::<std::net::IpAddr>().ok())
            .filter(std::net::IpAddr::is_loopback)
            .collect()
    }

    /// The caller, which is recorded before the call is processed.
    pub fn identify(&self, request: &mut Request) {
        let token = request
            .header("x-auth-token")
            .unwrap_or_default()
            .to_owned();
        if let Some(caller) = self.identity.caller(&token, self.now.elapsed) {
            request.caller = caller;
        }
    }

    /// Carries out one call at this moment.
    pub fn apply(&mut self, request: &Request, elapsed: Duration) -> Reply {
        self.advance(elapsed);
        if let Err(reply) = self.limits.admit(request.service, self.now.elapsed) {
            return reply;
        }
        let answer = self.route(request);
        let reply = match answer {
            Ok(reply) | Err(reply) => reply,
        };
        let id = self.new_id();
        reply.with("x-openstack-request-id", format!("req-{id}"))
    }

    fn route(&mut self, request: &Request) -> Answer {
        if request.service == Service::Identity {
            return self.identity_call(request);
        }
        let discovery = match (request.service, request.segments.as_slice()) {
            (_, []) => true,
            (Service::Compute | Service::Network | Service::Volume, [_]) => request.method == "GET",
            (Service::Image, [only]) => only == "versions",
            _ => false,
        };
        if !discovery && request.caller == crate::identity::Caller::default() {
            return Err(unauthorized(&request.base));
        }
        match request.service {
            Service::Identity => self.identity_call(request),
            Service::Compute => self.compute_call(request),
            Service::Network => self.network_call(request),
            Service::Image => self.image_call(request),
            Service::Volume => self.volume_call(request),
            Service::LoadBalancer => self.octavia_call(request),
        }
    }
}
