//! Time, controllers and Octavia around one state; checks the invariants at every turn.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::Display,
    net::IpAddr,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};

use super::{
    super::{
        desired::{ClusterFacts, DesiredLoadBalancer, Monitor},
        event::{Event, ProbeOutcome},
        findings::Findings,
        settings::Settings,
        state::{Now, State},
        step::step,
    },
    cluster::Node,
    model::{Model, ModelMember},
};
use capo_core::ObjectName;
use capo_core::{FailureClass, GateOverride};

/// What happens to the next calls, before or after Octavia takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// The call does not arrive.
    Down(FailureClass),
    /// The call is done, the reply is lost.
    ReplyLost,
}

#[derive(Debug, Default, Clone)]
pub(super) struct Tally {
    pub(super) calls: u32,
    pub(super) trees: u32,
    pub(super) writes: u32,
    pub(super) holds: u32,
    pub(super) releases: u32,
    pub(super) admissions: u32,
    pub(super) repairs: u32,
    pub(super) restores: u32,
    pub(super) drains: u32,
    pub(super) prunes: u32,
    pub(super) joins: u32,
    pub(super) refusals: u32,
}

#[derive(Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches of the world that tests set one by one"
)]
pub(super) struct World {
    pub(super) start: Instant,
    pub(super) wall: Timestamp,
    pub(super) now: Instant,
    pub(super) state: State,
    pub(super) model: Model,
    pub(super) desired: DesiredLoadBalancer,
    pub(super) nodes: BTreeMap<ObjectName, Node>,
    pub(super) settings: Settings,
    pub(super) latency: Duration,
    pub(super) line: VecDeque<Line>,
    pub(super) routable: bool,
    /// How far the caches of this process are behind: its controllers hand over what was true that long ago, and after
    /// a start one machine after the other.
    pub(super) lag: Duration,
    /// Nobody reads servers or takes hooks away.
    pub(super) controllers: bool,
    pub(super) tally: Tally,
    pub(super) findings: Findings,
    pub(super) published: u32,
    pub(super) log: VecDeque<String>,
    pub(super) recent: VecDeque<Instant>,
    pub(super) most_per_minute: usize,
    /// What happens is written down, to be told when something fails.
    pub(super) noting: bool,
    /// The wall clock stands still: no moment on it tells two states apart.
    pub(super) timeless: bool,
    dice: u64,
    pub(super) queue: Vec<(Instant, u64, Todo)>,
    pub(super) order: u64,
    pub(super) outstanding: u32,
    pub(super) epoch: u32,
    /// Whose admission this process called open.
    pub(super) offered: BTreeSet<ObjectName>,
    /// When which API server went down.
    pub(super) fell: BTreeMap<IpAddr, Instant>,
    /// When which API server was last asked, and what this process was told.
    pub(super) probed: BTreeMap<ObjectName, (Instant, ProbeOutcome)>,
    /// Members as of the last tree that was answered.
    pub(super) snapshot: Vec<ModelMember>,
    /// Members as of the tree that is on its way.
    pub(super) taken: Vec<ModelMember>,
}

#[derive(Debug, Clone)]
pub(super) enum Todo {
    Feed(u32, Event),
    HandOver(ObjectName),
    Admit(ObjectName),
    ReadServer(ObjectName),
    Unhook(ObjectName),
    Finish(ObjectName),
}

pub(super) const NAME: &str = "k8s-clusterapi-cluster-n-c-kubeapi";

pub(super) fn machine_name(index: u8) -> ObjectName {
    ObjectName::new("n", format!("cp-{index}"))
}

pub(super) fn address(index: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, index])
}

impl World {
    pub(super) fn new(ports: &[u16], operation: Duration) -> Self {
        Self::since(Instant::now(), ports, operation)
    }

    pub(super) fn since(start: Instant, ports: &[u16], operation: Duration) -> Self {
        let wall: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap_or_default();
        let mut settings = Settings::default();
        settings.schedule.jitter = 0.0;
        let desired = DesiredLoadBalancer {
            generation: 1,
            enabled: true,
            id: Some("lb".to_owned()),
            name: NAME.to_owned(),
            provider: "amphora".to_owned(),
            ports: ports.to_vec(),
            monitor: Monitor {
                delay: 10,
                timeout: 5,
                max_retries: 5,
                max_retries_down: 3,
            },
            allowed_cidrs: None,
            tags: vec!["t".to_owned()],
            member_subnet: None,
            cluster: ClusterFacts {
                untouchable: false,
                going: false,
                initialised: true,
                operator: GateOverride::None,
                remote_connection_since: None,
                ca_pem: Some("pem".to_owned()),
                kubeadm_control_plane: true,
            },
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
            line: VecDeque::new(),
            routable: true,
            lag: Duration::ZERO,
            controllers: true,
            tally: Tally::default(),
            findings: Findings::default(),
            published: 0,
            log: VecDeque::new(),
            recent: VecDeque::new(),
            most_per_minute: 0,
            noting: true,
            timeless: false,
            dice: 1,
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
        world.hand_over_load_balancer();
        world
    }

    pub(super) fn at(&self) -> f64 {
        (self.now - self.start).as_secs_f64()
    }

    pub(super) fn note(&mut self, text: impl Display) {
        if !self.noting {
            return;
        }
        if self.log.len() > 400 {
            self.log.pop_front();
        }
        let at = self.at();
        self.log.push_back(format!("{at:9.2} {text}"));
    }

    pub(super) fn fail(&self, text: &str) -> ! {
        let log: Vec<&str> = self.log.iter().map(String::as_str).collect();
        #[allow(clippy::panic)]
        {
            panic!("{text}\n{}", log.join("\n"));
        }
    }

    pub(super) fn present(&mut self) -> Now {
        self.dice = self
            .dice
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
            dice: f64::from(u32::try_from(self.dice >> 40).unwrap_or(0)) / f64::from(1_u32 << 24),
        }
    }

    pub(super) fn later(&mut self, after: Duration, todo: Todo) {
        self.order += 1;
        self.queue.push((self.now + after, self.order, todo));
    }

    pub(super) fn hand_over_load_balancer(&mut self) {
        let desired = Box::new(self.desired.clone());
        self.step(Event::LoadBalancer {
            credentials: true,
            desired,
        });
    }

    /// The process dies; the next one knows nothing.
    pub(super) fn restart(&mut self) {
        self.note("restart");
        self.epoch += 1;
        self.outstanding = 0;
        self.offered.clear();
        self.probed.clear();
        self.state = State::new(self.settings.clone());
        self.hand_over_load_balancer();
        let names: Vec<ObjectName> = self.nodes.keys().cloned().collect();
        let mut wait = Duration::ZERO;
        for name in names {
            if let Some(node) = self.nodes.get_mut(&name) {
                node.want.server.read_at = None;
                node.known = wait.is_zero();
            }
            if wait.is_zero() {
                self.hand_over(&name);
            } else {
                self.later(wait, Todo::HandOver(name.clone()));
            }
            let read = wait + Duration::from_millis(300);
            self.later(read, Todo::ReadServer(name));
            wait += self.lag;
        }
    }

    pub(super) fn run(&mut self, duration: Duration) {
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
            let alarm = self.state.alarm();
            match (next, alarm) {
                (Some((index, at)), alarm)
                    if at <= end && alarm.is_none_or(|alarm| at <= alarm) =>
                {
                    let (_, _, todo) = self.queue.swap_remove(index);
                    self.now = self.now.max(at);
                    self.turn(todo);
                }
                (_, Some(alarm)) if alarm <= end => {
                    self.now = self.now.max(alarm);
                    self.step(Event::Tick);
                }
                _ => break,
            }
        }
        self.now = end;
    }

    pub(super) fn step(&mut self, event: Event) {
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
    }
}
