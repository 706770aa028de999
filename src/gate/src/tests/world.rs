//! One state, surrounded by a clock, controllers and a model of Octavia. The world checks the invariants at every turn.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::Display,
    net::IpAddr,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};

use crate::{
    builders,
    model::{
        call::Call,
        clock::Now,
        desired::{ClusterFacts, LoadBalancerSpec},
        event::{Event, ProbeOutcome},
        findings::Findings,
        proof::EndpointResult,
        settings::Settings,
        state::State,
    },
    step::step,
    tests::{
        cluster::Node,
        model::{Model, ModelMember},
    },
};
use capo_core::{Endpoint, FailureClass, Lookup, ObjectName};

/// What happens to the next calls, before or after Octavia takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// The call does not arrive.
    Down(FailureClass),
    /// The call is carried out, and its reply is lost.
    ReplyLost,
}

/// What the manager finds at the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtEndpoint {
    /// The load balancer.
    LoadBalancer,
    /// Nothing: there is no route to it.
    Unreachable,
    /// Something that shows a certificate of another CA.
    Stranger,
    /// The load balancer as it was at that time: it does not apply the changes that Octavia shows from then on.
    Unchanged,
    /// The load balancer, for every second request.
    EverySecond,
    /// A server that answers as an API server would, whether or not an API server is up, so that a proof lies.
    Lies,
}

#[derive(Debug, Default, Clone)]
pub(crate) struct Tally {
    pub(crate) calls: u32,
    pub(crate) trees: u32,
    pub(crate) writes: u32,
    pub(crate) holds: u32,
    pub(crate) releases: u32,
    pub(crate) admissions: u32,
    pub(crate) repairs: u32,
    pub(crate) restores: u32,
    pub(crate) drains: u32,
    pub(crate) prunes: u32,
    pub(crate) joins: u32,
    pub(crate) refusals: u32,
    pub(crate) requests: u32,
}

#[derive(Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches of the world that tests set one by one"
)]
pub(crate) struct World {
    pub(crate) start: Instant,
    pub(crate) wall: Timestamp,
    pub(crate) now: Instant,
    pub(crate) state: State,
    pub(crate) model: Model,
    pub(crate) desired: LoadBalancerSpec,
    pub(crate) nodes: BTreeMap<ObjectName, Node>,
    pub(crate) settings: Settings,
    pub(crate) latency: Duration,
    /// How long a reply through the endpoint takes.
    pub(crate) reply_time: Duration,
    /// How long calls wait for the request budget before they are sent.
    pub(crate) queue_wait: Duration,
    /// Whether the call that is being sent has waited for the budget, so that it was decided on earlier facts.
    pub(crate) is_late: bool,
    pub(crate) line: VecDeque<Line>,
    /// What happens to every call that `line` says nothing about.
    pub(crate) fault: fn(&Call) -> Option<Line>,
    pub(crate) routable: bool,
    /// Whether the credentials lead to another project. If so, the load balancer can't be read, and no server is found.
    pub(crate) elsewhere: bool,
    /// Tenant addresses at which the manager reaches another cluster's API server.
    pub(crate) strangers: BTreeSet<IpAddr>,
    /// What answers at the endpoint.
    pub(crate) endpoint: AtEndpoint,
    /// The reply to every request through the endpoint, whatever is requested; `None` for the reply of the model.
    pub(crate) replies: Option<EndpointResult>,
    /// When an API server could last be reached through the load balancer.
    pub(crate) served: Instant,
    /// When the endpoint last replied.
    pub(crate) replied: Option<Instant>,
    /// How far the caches of this process are behind. Its controllers hand over what was true that long ago, and after
    /// a start they hand over one machine after the other.
    pub(crate) lag: Duration,
    /// Whether Nova answers. If not, no server is read.
    pub(crate) nova: bool,
    /// Whether there are controllers that read servers and remove hooks.
    pub(crate) controllers: bool,
    pub(crate) tally: Tally,
    pub(crate) findings: Findings,
    pub(crate) published: u32,
    pub(crate) log: VecDeque<String>,
    pub(crate) recent: VecDeque<Instant>,
    pub(crate) most_per_minute: usize,
    /// Whether all events are noted, to be printed when a test fails.
    pub(crate) noting: bool,
    /// Whether the wall clock stands still, so that no moment on it makes two states differ.
    pub(crate) timeless: bool,
    random: u64,
    pub(crate) queue: Vec<(Instant, u64, Todo)>,
    pub(crate) order: u64,
    pub(crate) outstanding: u32,
    pub(crate) epoch: u32,
    /// The machines whose admission this process has shown as open.
    pub(crate) offered: BTreeSet<ObjectName>,
    /// When each API server that is down went down.
    pub(crate) fell: BTreeMap<IpAddr, Instant>,
    /// When each API server was last probed, and the outcome that this process got.
    pub(crate) probed: BTreeMap<ObjectName, (Instant, ProbeOutcome)>,
    /// The members in the last tree that was answered.
    pub(crate) snapshot: Vec<ModelMember>,
    /// The members in the tree that is on its way.
    pub(crate) taken: Vec<ModelMember>,
}

#[derive(Debug, Clone)]
pub(crate) enum Todo {
    Feed(u32, Event),
    Send(u32, u64, Call),
    SetMachine(ObjectName),
    Admit(ObjectName),
    ReadServer(ObjectName),
    EndDrain(ObjectName),
    Unhook(ObjectName),
    Finish(ObjectName),
}

/// How long Cluster API goes on reporting a connection that it has lost in `RemoteConnectionProbe`
/// (`--remote-connection-grace-period`).
pub(crate) const CONNECTION_GRACE: Duration = Duration::from_secs(50);

pub(crate) const NAME: &str = "k8s-clusterapi-cluster-n-c-kubeapi";

pub(crate) fn machine_name(index: u8) -> ObjectName {
    ObjectName::new("n", format!("cp-{index}"))
}

pub(crate) fn address(index: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, index])
}

impl World {
    pub(crate) fn new(ports: &[u16], operation: Duration) -> Self {
        Self::since(Instant::now(), ports, operation)
    }

    pub(crate) fn since(start: Instant, ports: &[u16], operation: Duration) -> Self {
        let wall: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap_or_default();
        let mut settings = Settings::default();
        settings.schedule.jitter = 0.0;
        let desired = LoadBalancerSpec {
            ports: ports.to_vec(),
            tags: vec!["t".to_owned()],
            cluster: ClusterFacts {
                endpoint: Some(Endpoint {
                    host: "192.0.2.1".to_owned(),
                    port: ports.first().copied().unwrap_or_default(),
                }),
                ca_pem: Lookup::Found("pem".to_owned()),
                ..builders::cluster_facts()
            },
            ..builders::load_balancer(NAME, "lb")
        };
        let mut world = Self {
            start,
            wall,
            now: start,
            state: State::new(settings.clone()),
            model: Model::new(operation),
            desired,
            nodes: BTreeMap::new(),
            settings,
            latency: Duration::from_millis(20),
            reply_time: Duration::from_millis(40),
            queue_wait: Duration::ZERO,
            is_late: false,
            line: VecDeque::new(),
            fault: |_| None,
            routable: true,
            elsewhere: false,
            strangers: BTreeSet::new(),
            endpoint: AtEndpoint::LoadBalancer,
            replies: None,
            replied: None,
            served: start,
            lag: Duration::ZERO,
            nova: true,
            controllers: true,
            tally: Tally::default(),
            findings: Findings::default(),
            published: 0,
            log: VecDeque::new(),
            recent: VecDeque::new(),
            most_per_minute: 0,
            noting: true,
            timeless: false,
            random: 1,
            queue: Vec::new(),
            order: 0,
            outstanding: 0,
            epoch: 0,
            offered: BTreeSet::new(),
            fell: BTreeMap::new(),
            probed: BTreeMap::new(),
            snapshot: Vec::new(),
            taken: Vec::new(),
        };
        world.set_load_balancer();
        world
    }

    /// From here on the manager finds this at the endpoint.
    pub(crate) fn set_endpoint(&mut self, endpoint: AtEndpoint) {
        self.endpoint = endpoint;
        self.model.advance(self.now);
        self.model.freeze(endpoint == AtEndpoint::Unchanged);
    }

    pub(crate) fn at(&self) -> f64 {
        (self.now - self.start).as_secs_f64()
    }

    pub(crate) fn note(&mut self, text: impl Display) {
        if !self.noting {
            return;
        }
        if self.log.len() > 400 {
            self.log.pop_front();
        }
        let at = self.at();
        self.log.push_back(format!("{at:9.2} {text}"));
    }

    pub(crate) fn fail(&self, text: &str) -> ! {
        let log: Vec<&str> = self.log.iter().map(String::as_str).collect();
        panic!("{text}\n{}", log.join("\n"));
    }

    pub(crate) fn present(&mut self) -> Now {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let elapsed = if self.timeless {
            SignedDuration::ZERO
        } else {
            SignedDuration::try_from(self.now - self.start).unwrap_or_default()
        };
        Now {
            instant: self.now,
            wall: self.wall.saturating_add(elapsed).unwrap_or(self.wall),
            random: f64::from(u32::try_from(self.random >> 40).unwrap_or(0))
                / f64::from(1_u32 << 24),
        }
    }

    pub(crate) fn later(&mut self, after: Duration, todo: Todo) {
        self.order += 1;
        self.queue.push((self.now + after, self.order, todo));
    }

    pub(crate) fn set_load_balancer(&mut self) {
        let there = self.nodes.iter().filter(|(_, node)| !node.gone);
        self.desired.cluster.machines = there.map(|(name, _)| name.clone()).collect();
        // A process that has never seen the cluster's own project does not know the load balancer to track.
        if self.elsewhere && self.state.load_balancer().is_none() {
            return;
        }
        let desired = Box::new(self.desired.clone());
        self.step(Event::LoadBalancer {
            credentials: !self.elsewhere,
            desired,
        });
    }

    /// The process dies, and the next one knows nothing.
    pub(crate) fn restart(&mut self) {
        self.note("restart");
        self.epoch += 1;
        self.outstanding = 0;
        self.offered.clear();
        self.probed.clear();
        self.state = State::new(self.settings.clone());
        self.set_load_balancer();
        let names: Vec<ObjectName> = self.nodes.keys().cloned().collect();
        let mut wait = Duration::ZERO;
        for name in names {
            if let Some(node) = self.nodes.get_mut(&name) {
                node.want.server.read_at = None;
                node.known = wait.is_zero();
            }
            if wait.is_zero() {
                self.set_machine(&name);
            } else {
                self.later(wait, Todo::SetMachine(name.clone()));
            }
            let read = wait + Duration::from_millis(300);
            self.later(read, Todo::ReadServer(name));
            wait += self.lag;
        }
    }

    pub(crate) fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        let mut turns = 0;
        loop {
            turns += 1;
            if turns > 200_000 {
                self.fail("a hot loop");
            }
            let next = self
                .queue
                .iter()
                .enumerate()
                .min_by_key(|(_, (at, order, _))| (*at, *order))
                .map(|(index, (at, ..))| (index, *at));
            let next_step_at = self.state.next_step_at();
            match (next, next_step_at) {
                (Some((index, at)), next_step_at)
                    if at <= end && next_step_at.is_none_or(|next_step_at| at <= next_step_at) =>
                {
                    let (_, _, todo) = self.queue.swap_remove(index);
                    self.now = self.now.max(at);
                    self.watch_connection();
                    self.turn(todo);
                }
                (_, Some(next_step_at)) if next_step_at <= end => {
                    self.now = self.now.max(next_step_at);
                    self.step(Event::Tick);
                }
                _ => break,
            }
        }
        self.now = end;
    }

    pub(crate) fn step(&mut self, event: Event) {
        if let Event::Probed {
            machine,
            began,
            outcome,
        } = &event
        {
            self.probed.insert(machine.clone(), (*began, *outcome));
        }
        let now = self.present();
        let mut effects = Vec::new();
        step(&mut self.state, event, &now, &mut effects);
        for effect in effects {
            self.carry_out(effect);
        }
        self.publish(&now);
    }
}
