//! How many decisions a second the heart of membership makes on one core: `make bench`.
//!
//! One call of `step` with one event rules on three gates for each of three machines, and finds the verdict
//! and what to do next besides: nine decisions. Three mixes: time passing, a machine's server read again, and
//! whole passes (read due, tree answered).

use std::{
    hint::black_box,
    io::Write as _,
    time::{Duration, Instant},
};

use capo_rs::{
    membership::{
        Settings,
        desired::{
            ClusterFacts, Deletion, DesiredLoadBalancer, DesiredMachine, Health, Monitor,
            OperatorWord, ServerSight, ServerState,
        },
        effect::{Call, Effect},
        event::{Answered, Event},
        octavia::{
            ListenerDetail, ListenerRead, MemberDetail, MemberRead, MonitorRead, Operating,
            PoolDetail, PoolRead, Provisioning, Structure, Tree,
        },
        state::{Now, State},
        step,
    },
    names::ObjectName,
};
use jiff::Timestamp;

const BALANCER: &str = "k8s-clusterapi-cluster-n-c-kubeapi";
const PORT: u16 = 6443;
const NUMBERS: Monitor = Monitor {
    delay: 10,
    timeout: 5,
    max_retries: 5,
    max_retries_down: 3,
};

/// Three gates for each of three machines.
const DECISIONS_PER_STEP: f64 = 9.0;

fn main() {
    let rounds = 2_000_000;
    let mut lines = vec![
        measure("time passes", rounds, |bench, _| {
            bench.step(Event::Tick);
        }),
        measure("server read again", rounds, |bench, round| {
            let machine = bench.machine(round % 3);
            bench.step(machine);
        }),
        measure("pass with the same tree", rounds / 4, |bench, _| {
            bench.pass();
        }),
    ];
    lines.push(String::new());
    let _ = std::io::stdout().write_all(lines.join("\n").as_bytes());
}

fn measure(name: &str, rounds: u32, mut turn: impl FnMut(&mut Bench, u32)) -> String {
    let mut bench = Bench::settled();
    bench.steps = 0;
    let begun = Instant::now();
    for round in 0..rounds {
        turn(&mut bench, round);
    }
    let took = begun.elapsed().as_secs_f64();
    let rate = f64::from(bench.steps) / took / 1e6;
    let decisions = rate * DECISIONS_PER_STEP;
    format!(
        "step, {name}: {rate:.2} million steps, {decisions:.1} million gate decisions per second"
    )
}

struct Bench {
    state: State,
    now: Now,
    effects: Vec<Effect>,
    tree: Tree,
    machines: Vec<(ObjectName, DesiredMachine)>,
    steps: u32,
}

impl Bench {
    fn settled() -> Self {
        let mut bench = Self {
            state: State::new(Settings::default()),
            now: Now {
                instant: Instant::now(),
                wall: Timestamp::UNIX_EPOCH,
                dice: 0.5,
            },
            effects: Vec::new(),
            tree: tree(),
            machines: (1..=3)
                .map(|index| machine(index, Instant::now()))
                .collect(),
            steps: 0,
        };
        bench.step(Event::LoadBalancer {
            credentials: true,
            desired: Box::new(load_balancer()),
        });
        for index in 0..3 {
            let event = bench.machine(index);
            bench.step(event);
        }
        for _ in 0..12 {
            bench.pass();
        }
        bench
    }

    fn step(&mut self, event: Event) {
        self.steps += 1;
        self.now.instant += Duration::from_micros(1);
        step(&mut self.state, event, &self.now, &mut self.effects);
        black_box(&self.effects);
        // Calls are answered by `pass`; nothing else is carried out.
        if !self
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::Call { .. }))
        {
            self.effects.clear();
        }
    }

    fn machine(&mut self, index: u32) -> Event {
        let index = usize::try_from(index).unwrap_or_default();
        let (name, machine) = self.machines.get_mut(index).map_or_else(
            || machine(1, self.now.instant),
            |(name, machine)| {
                machine.server.read_at = Some(self.now.instant);
                (name.clone(), machine.clone())
            },
        );
        Event::Machine {
            name,
            desired: Some(Box::new(machine)),
        }
    }

    /// Time until the next read, and the read, and what else is asked.
    fn pass(&mut self) {
        self.now.instant += Duration::from_mins(5);
        self.step(Event::Tick);
        loop {
            let call = self.effects.iter().find_map(|effect| match effect {
                Effect::Call { id, call, .. } => Some((*id, call.clone())),
                _ => None,
            });
            self.effects.clear();
            let Some((id, call)) = call else { break };
            let answer = match call {
                Call::Tree { .. } => Answered::Tree(Ok(self.tree.clone())),
                Call::Structure { .. } => Answered::Structure(Ok(structure())),
                Call::Members { .. } => Answered::Members(Ok(details())),
                Call::Monitor { .. } => Answered::Monitor(Ok(NUMBERS)),
                // A settled cluster has nothing to write.
                Call::Write(_) => std::process::exit(1),
            };
            self.step(Event::Answered { id, answer });
        }
    }
}

fn load_balancer() -> DesiredLoadBalancer {
    DesiredLoadBalancer {
        enabled: true,
        id: Some("lb".to_owned()),
        name: BALANCER.to_owned(),
        provider: "amphora".to_owned(),
        ports: vec![PORT],
        monitor: NUMBERS,
        allowed_cidrs: None,
        tags: Vec::new(),
        member_subnet: None,
        cluster: ClusterFacts {
            untouchable: false,
            going: false,
            initialised: true,
            operator: OperatorWord::None,
            remote_connection_since: None,
            ca_pem: None,
            kubeadm_control_plane: true,
        },
    }
}

fn machine(index: u8, now: Instant) -> (ObjectName, DesiredMachine) {
    let name = ObjectName::new("n", format!("c-control-plane-{index}"));
    let machine = DesiredMachine {
        cluster: ObjectName::new("n", "c"),
        machine: Some(name.name.clone()),
        address: Some([10, 6, 0, index].into()),
        admitted: true,
        untouchable: false,
        server: ServerSight {
            state: ServerState::Active,
            read_at: Some(now),
            down_reads: 0,
        },
        deletion: Deletion::No,
        operator: OperatorWord::None,
        api_server_pod: Health::Good(now),
        node: Health::Good(now),
    };
    (name, machine)
}

fn tree() -> Tree {
    Tree {
        provisioning: Provisioning::Active,
        operating: Operating::Online,
        listeners: vec![ListenerRead {
            id: "listener".to_owned(),
            name: format!("{BALANCER}-{PORT}"),
            provisioning: Provisioning::Active,
            pools: vec![PoolRead {
                id: "pool".to_owned(),
                name: format!("{BALANCER}-{PORT}"),
                provisioning: Provisioning::Active,
                monitor: Some(MonitorRead {
                    id: "monitor".to_owned(),
                    provisioning: Provisioning::Active,
                }),
                members: (1..=3)
                    .map(|index| MemberRead {
                        id: format!("member-{index}"),
                        name: format!("{BALANCER}-{PORT}-c-control-plane-{index}"),
                        address: Some([10, 6, 0, index].into()),
                        port: PORT,
                        provisioning: Provisioning::Active,
                        operating: Operating::Online,
                    })
                    .collect(),
            }],
        }],
    }
}

fn structure() -> Structure {
    Structure {
        listeners: vec![ListenerDetail {
            id: "listener".to_owned(),
            name: format!("{BALANCER}-{PORT}"),
            port: PORT,
            default_pool: Some("pool".to_owned()),
            allowed_cidrs: None,
        }],
        pools: vec![PoolDetail {
            id: "pool".to_owned(),
            name: format!("{BALANCER}-{PORT}"),
            monitor: Some("monitor".to_owned()),
        }],
    }
}

fn details() -> Vec<MemberDetail> {
    (1..=3)
        .map(|index| MemberDetail {
            id: format!("member-{index}"),
            weight: 1,
            admin_up: true,
            tags: Vec::new(),
        })
        .collect()
}
