//! Time, controllers and Octavia around one state; checks the invariants at every turn.

use std::{
    collections::{BTreeMap, VecDeque},
    net::IpAddr,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};

use super::{
    super::{
        desired::{
            ClusterFacts, Deletion, DesiredLoadBalancer, DesiredMachine, Health, Monitor,
            OperatorWord, ServerSight, ServerState,
        },
        effect::{Call, Effect},
        event::{Answered, Event, ProbeOutcome},
        findings::{Findings, Gate, Tristate},
        octavia::{Change, FailureClass, Provisioning},
        report::report,
        settings::Settings,
        state::{Now, State},
        step::step,
    },
    model::{Model, ModelMember, failure},
};
use crate::{names::ObjectName, status::Reason};

/// What happens to the next calls, before or after Octavia takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// The call does not arrive.
    Down(FailureClass),
    /// The call is done, the reply is lost.
    ReplyLost,
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) want: DesiredMachine,
    /// The machine controller of this process has handed it over.
    pub(super) known: bool,
    pub(super) gone: bool,
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
    /// Nobody reads servers or takes hooks away.
    pub(super) controllers: bool,
    pub(super) tally: Tally,
    pub(super) findings: Findings,
    pub(super) published: u32,
    pub(super) log: VecDeque<String>,
    pub(super) recent: VecDeque<Instant>,
    pub(super) most_per_minute: usize,
    dice: u64,
    queue: Vec<(Instant, u64, Todo)>,
    order: u64,
    outstanding: u32,
    epoch: u32,
    /// Members as of the last tree that was answered.
    snapshot: Vec<ModelMember>,
    /// Members as of the tree that is on its way.
    taken: Vec<ModelMember>,
}

#[derive(Debug, Clone)]
enum Todo {
    Feed(u32, Event),
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
        let start = Instant::now();
        let wall: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap_or_default();
        let mut settings = Settings::default();
        settings.schedule.jitter = 0.0;
        let desired = DesiredLoadBalancer {
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
                operator: OperatorWord::None,
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
            controllers: true,
            tally: Tally::default(),
            findings: Findings::default(),
            published: 0,
            log: VecDeque::new(),
            recent: VecDeque::new(),
            most_per_minute: 0,
            dice: 1,
            queue: Vec::new(),
            order: 0,
            outstanding: 0,
            epoch: 0,
            snapshot: Vec::new(),
            taken: Vec::new(),
        };
        world.hand_over_load_balancer();
        world
    }

    pub(super) fn at(&self) -> f64 {
        (self.now - self.start).as_secs_f64()
    }

    pub(super) fn note(&mut self, text: String) {
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
        let elapsed = SignedDuration::try_from(self.now - self.start).unwrap_or_default();
        Now {
            instant: self.now,
            wall: self.wall.saturating_add(elapsed).unwrap_or(self.wall),
            dice: f64::from(u32::try_from(self.dice >> 40).unwrap_or(0)) / f64::from(1_u32 << 24),
        }
    }

    fn later(&mut self, after: Duration, todo: Todo) {
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

    pub(super) fn add(&mut self, index: u8, admitted: bool, deletion: Deletion) -> ObjectName {
        let name = machine_name(index);
        let want = DesiredMachine {
            cluster: ObjectName::new("n", "c"),
            machine: Some(name.name.clone()),
            address: Some(address(index)),
            admitted,
            untouchable: false,
            server: ServerSight {
                state: ServerState::Active,
                read_at: Some(self.now),
                down_reads: 0,
            },
            deletion,
            operator: OperatorWord::None,
            api_server_pod: Health::Unknown,
            node: Health::Unknown,
        };
        self.nodes.insert(
            name.clone(),
            Node {
                want,
                known: true,
                gone: false,
            },
        );
        self.hand_over(&name);
        name
    }

    /// An admitted machine whose API server is up.
    pub(super) fn add_serving(&mut self, index: u8) -> ObjectName {
        self.model.up.insert(address(index), self.now);
        self.add(index, true, Deletion::No)
    }

    pub(super) fn change(&mut self, name: &ObjectName, change: impl FnOnce(&mut DesiredMachine)) {
        if let Some(node) = self.nodes.get_mut(name) {
            change(&mut node.want);
        }
        self.hand_over(name);
    }

    pub(super) fn hand_over(&mut self, name: &ObjectName) {
        let Some(node) = self.nodes.get(name).filter(|node| node.known) else {
            return;
        };
        let desired = (!node.gone).then(|| Box::new(node.want.clone()));
        self.step(Event::Machine {
            name: name.clone(),
            desired,
        });
    }

    pub(super) fn delete(&mut self, name: &ObjectName) {
        let since = self.present().wall;
        self.note(format!("{name} deletes, at the hook"));
        self.change(name, |want| want.deletion = Deletion::AtHook { since });
    }

    /// The process dies; the next one knows nothing.
    pub(super) fn restart(&mut self) {
        self.note("restart".to_owned());
        self.epoch += 1;
        self.outstanding = 0;
        self.state = State::new(self.settings.clone());
        self.hand_over_load_balancer();
        let names: Vec<ObjectName> = self.nodes.keys().cloned().collect();
        for name in names {
            if let Some(node) = self.nodes.get_mut(&name) {
                node.want.server.read_at = None;
            }
            self.hand_over(&name);
            self.later(Duration::from_millis(300), Todo::ReadServer(name));
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

    fn turn(&mut self, todo: Todo) {
        match todo {
            Todo::Feed(epoch, event) => {
                if epoch == self.epoch {
                    if let Event::Answered { answer, .. } = &event {
                        self.outstanding -= 1;
                        if matches!(answer, Answered::Tree(Ok(_))) {
                            self.snapshot = std::mem::take(&mut self.taken);
                        }
                    }
                    self.step(event);
                }
            }
            Todo::Admit(name) => self.change(&name, |want| want.admitted = true),
            Todo::ReadServer(name) => {
                let now = self.now;
                self.change(&name, |want| {
                    want.server.read_at = Some(now);
                    let down = want.server.state != ServerState::Active;
                    want.server.down_reads = if down { want.server.down_reads + 1 } else { 0 };
                });
            }
            Todo::Unhook(name) => {
                let address = self.nodes.get(&name).and_then(|node| node.want.address);
                self.change(&name, |want| {
                    if let Deletion::AtHook { since } = want.deletion {
                        want.deletion = Deletion::Unhooked { since };
                    }
                });
                // KubeadmControlPlane removes the etcd member now.
                if let Some(address) = address {
                    self.model.up.remove(&address);
                }
            }
            Todo::Finish(name) => {
                if let Some(node) = self.nodes.get_mut(&name)
                    && !node.gone
                {
                    node.gone = true;
                    if let Some(address) = node.want.address {
                        self.model.up.remove(&address);
                    }
                    self.note(format!("{name} is gone"));
                    self.hand_over(&name);
                }
            }
        }
    }

    pub(super) fn step(&mut self, event: Event) {
        let now = self.present();
        let mut effects = Vec::new();
        step(&mut self.state, event, &now, &mut effects);
        for effect in effects {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Call { id, call, .. } => self.call(id, call),
            Effect::Probe {
                machine, address, ..
            } => {
                let outcome = if !self.routable {
                    ProbeOutcome::NoConnection
                } else if self.model.up.contains_key(&address) {
                    ProbeOutcome::Ready
                } else {
                    ProbeOutcome::Refused
                };
                let event = Event::Probed {
                    machine,
                    began: self.now,
                    outcome,
                };
                self.later(Duration::from_millis(30), Todo::Feed(self.epoch, event));
            }
            Effect::LookUp { machine } => {
                let exists = self
                    .nodes
                    .get(&ObjectName::new("n", machine.clone()))
                    .is_some_and(|node| !node.gone);
                let event = Event::LookedUp {
                    machine,
                    exists: Some(exists),
                };
                self.later(Duration::from_millis(30), Todo::Feed(self.epoch, event));
            }
            Effect::Publish => self.publish(),
            Effect::Record(_) => {}
        }
    }

    fn call(&mut self, id: u64, call: Call) {
        if self.outstanding > 0 {
            self.fail("two calls under way");
        }
        self.outstanding += 1;
        self.tally.calls += 1;
        self.recent.push_back(self.now);
        while self
            .recent
            .front()
            .is_some_and(|at| self.now - *at > Duration::from_secs(60))
        {
            self.recent.pop_front();
        }
        self.most_per_minute = self.most_per_minute.max(self.recent.len());
        let line = self.line.pop_front();
        let now = self.now;
        if let Call::Write(change) = &call {
            if !matches!(line, Some(Line::Down(_))) {
                self.check_write(change);
            }
            self.count(change);
        }
        let answer = match (&call, line) {
            (_, Some(Line::Down(class))) => match call {
                Call::Tree { .. } => Answered::Tree(Err(failure(class))),
                Call::Structure { .. } => Answered::Structure(Err(failure(class))),
                Call::Members { .. } => Answered::Members(Err(failure(class))),
                Call::Monitor { .. } => Answered::Monitor(Err(failure(class))),
                Call::Write(_) => Answered::Written(Err(failure(class))),
            },
            (Call::Tree { .. }, _) => {
                self.tally.trees += 1;
                let tree = self.model.tree(now);
                self.taken = self.model.members().cloned().collect();
                Answered::Tree(tree)
            }
            (Call::Structure { .. }, _) => Answered::Structure(self.model.structure(now)),
            (Call::Members { pool }, _) => Answered::Members(self.model.list(pool, now)),
            (Call::Monitor { monitor }, _) => Answered::Monitor(self.model.numbers(monitor, now)),
            (Call::Write(change), line) => {
                let answer = self.model.write(change, now);
                if let Err(refused) = &answer {
                    self.tally.refusals += 1;
                    self.note(format!("refused: {:?}", refused.class));
                }
                Answered::Written(match line {
                    Some(Line::ReplyLost) => Err(failure(FailureClass::Transient)),
                    _ => answer,
                })
            }
        };
        self.check_structure();
        let event = Event::Answered { id, answer };
        self.later(self.latency, Todo::Feed(self.epoch, event));
    }

    fn count(&mut self, change: &Change) {
        self.note(format!("{change:?}"));
        self.tally.writes += 1;
        match change {
            Change::UpdateMember {
                weight: None,
                admin_up: None,
                ..
            } => self.tally.repairs += 1,
            Change::UpdateMember {
                weight: Some(0), ..
            } => self.tally.drains += 1,
            Change::UpdateMember {
                weight: Some(_), ..
            } => self.tally.restores += 1,
            Change::CreateMember {
                admin_up: false, ..
            } => self.tally.joins += 1,
            Change::DeleteMember { id, .. } => {
                let gone = self.snapshot.iter().find(|member| member.id == *id);
                let gone = gone.and_then(|member| self.owner(member));
                self.tally.prunes += u32::from(gone.is_none_or(|node| node.gone));
            }
            _ => {}
        }
    }

    fn owner(&self, member: &ModelMember) -> Option<&Node> {
        let name = member
            .name
            .strip_prefix(&format!("{NAME}-{}-", member.port))?;
        self.nodes.get(&ObjectName::new("n", name))
    }

    /// I2, on what was read last.
    fn check_write(&self, change: &Change) {
        let Change::DeleteMember { id, .. } = change else {
            return;
        };
        let Some(victim) = self.snapshot.iter().find(|member| member.id == *id) else {
            self.fail("a member is deleted that was not read");
        };
        if self.desired.cluster.untouchable {
            self.fail("a write while paused");
        }
        let serves = |member: &ModelMember| {
            member.provisioning == Provisioning::Active
                || member.admin_up
                    && member.weight > 0
                    && member.provisioning != Provisioning::PendingDelete
        };
        let another = self.snapshot.iter().any(|member| {
            member.port == victim.port
                && member.id != victim.id
                && (member.provisioning == Provisioning::Active
                    || serves(member) && self.model.up.contains_key(&member.address))
        });
        if !serves(victim) || another || self.desired.cluster.going {
            return;
        }
        let Some(node) = self.owner(victim) else {
            self.fail("the last member of a port is deleted, and nobody's");
        };
        let bypassed = matches!(node.want.operator, OperatorWord::Bypass { .. })
            || matches!(self.desired.cluster.operator, OperatorWord::Bypass { .. });
        let open = matches!(node.want.deletion, Deletion::Unhooked { .. })
            || bypassed
            || !node.want.admitted
            || !self.desired.cluster.initialised
            || node.want.server.state != ServerState::Active;
        if !open {
            self.fail(&format!("I2: {} was the last of its port", victim.name));
        }
    }

    /// I3: nothing exists twice.
    fn check_structure(&self) {
        let mut names: Vec<&str> = self
            .model
            .listeners
            .iter()
            .map(|listener| listener.name.as_str())
            .collect();
        names.sort_unstable();
        let many = names.len();
        names.dedup();
        let mut pools: Vec<&str> = self
            .model
            .pools
            .iter()
            .map(|pool| pool.name.as_str())
            .collect();
        pools.sort_unstable();
        let many_pools = pools.len();
        pools.dedup();
        let mut members: Vec<&str> = self
            .model
            .members()
            .map(|member| member.name.as_str())
            .collect();
        members.sort_unstable();
        let many_members = members.len();
        members.dedup();
        if many != names.len() || many_pools != pools.len() || many_members != members.len() {
            self.fail("I3: something exists twice");
        }
    }

    fn publish(&mut self) {
        let now = self.present();
        self.published += 1;
        let findings = report(&self.state, &now);
        let verdict = &findings.verdict;
        if self.findings.verdict != *verdict {
            let text = format!(
                "cluster: {:?} {} {}",
                verdict.status, verdict.reason, verdict.message
            );
            self.note(text);
        }
        let mut todo = Vec::new();
        for (name, machine) in &findings.machines {
            let before = self.findings.machines.get(name);
            let Some(node) = self.nodes.get(name) else {
                continue;
            };
            if before.is_none_or(|before| before != machine) {
                let at = (self.now - self.start).as_secs_f64();
                self.log.push_back(format!(
                    "{at:9.2} {name}: {:?} | {:?} | {:?} wanted={}",
                    machine.admission, machine.release, machine.finalizer, machine.server_wanted
                ));
            }
            self.tally.holds += u32::from(matches!(machine.release, Gate::Held { .. }));
            if machine.admission.is_open() && !node.want.admitted {
                self.check_admission(name, &machine.admission);
                self.tally.admissions += 1;
                todo.push((2_000, Todo::Admit(name.clone())));
            }
            if machine.server_wanted {
                todo.push((200, Todo::ReadServer(name.clone())));
            }
            if machine.release.is_open() && matches!(node.want.deletion, Deletion::AtHook { .. }) {
                self.tally.releases += 1;
                self.check_release(name, &machine.release);
                todo.push((200, Todo::Unhook(name.clone())));
            }
            let asked = matches!(
                node.want.deletion,
                Deletion::Unhooked { .. } | Deletion::OutOfBand { .. }
            );
            if machine.finalizer.is_open() && asked {
                todo.push((400, Todo::Finish(name.clone())));
            }
        }
        if verdict.status == Tristate::True && verdict.reason == Reason::MembersActive {
            self.check_true();
        }
        self.findings = findings;
        if self.controllers {
            for (after, todo) in todo {
                self.later(Duration::from_millis(after), todo);
            }
        }
    }

    /// I1: each port's member was read ACTIVE at the current address.
    fn check_admission(&self, name: &ObjectName, gate: &Gate) {
        let Gate::Open { message, .. } = gate else {
            return;
        };
        if !message.contains("read ACTIVE") {
            return;
        }
        let address = self.nodes.get(name).and_then(|node| node.want.address);
        for port in &self.desired.ports {
            let active = self.snapshot.iter().any(|member| {
                member.port == *port
                    && Some(member.address) == address
                    && member.provisioning == Provisioning::Active
            });
            if !active {
                self.fail(&format!(
                    "I1: {name} admitted without an ACTIVE member on {port}"
                ));
            }
        }
    }

    /// By the rules, somebody else's member takes traffic and is ACTIVE.
    fn check_release(&self, name: &ObjectName, gate: &Gate) {
        let Gate::Open { message, .. } = gate else {
            return;
        };
        if !message.contains("another one serves") {
            return;
        }
        let address = self.nodes.get(name).and_then(|node| node.want.address);
        for port in &self.desired.ports {
            let other = self.snapshot.iter().any(|member| {
                member.port == *port
                    && Some(member.address) != address
                    && member.provisioning == Provisioning::Active
                    && member.admin_up
                    && member.weight > 0
            });
            if !other {
                self.fail(&format!(
                    "released {name} though nothing else serves {port}"
                ));
            }
        }
    }

    fn check_true(&self) {
        for node in self.nodes.values().filter(|node| node.known && !node.gone) {
            if node.want.deletion != Deletion::No || node.want.address.is_none() {
                continue;
            }
            let count = self
                .snapshot
                .iter()
                .filter(|member| {
                    Some(member.address) == node.want.address
                        && member.provisioning == Provisioning::Active
                })
                .count();
            // The newest word of controllers may not have been stepped with yet.
            if count < self.desired.ports.len()
                && self
                    .state
                    .machines
                    .values()
                    .any(|machine| machine.want == node.want)
            {
                self.fail("True without every member ACTIVE");
            }
        }
    }
}
