//! How many decisions `step` makes in a second on one core. Run by `make bench`.
//!
//! One call of `step` takes one event, decides three gates for each of three machines, which makes nine decisions, and
//! finds the verdict and the next call. Three mixes of events are measured: time passes; a machine's server was read
//! again; whole passes, in which a read becomes due, the tree arrives, and every sixth time the lists arrive with it.
//! Each mix runs with and without an observer that writes metrics. The throughput with metrics must be 95 % of that
//! without. Few steps report an event for metrics, so most of the difference is noise.
//!
//! Events are made before the clock runs, because in the manager their content comes from the client or from a
//! controller's pass. What `step` does with an event counts, and so does dropping it.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::{
    hint::black_box,
    process::ExitCode,
    time::{Duration, Instant},
};

use capo_core::ObjectName;
use capo_core::{
    OperatingStatus, ProvisioningStatus,
    octavia::{
        Listener, Member, Pool, StatusTree, TreeListener, TreeMember, TreeMonitor, TreePool,
    },
};
use capo_gate::{
    Call, GateObserver, Now, Settings, Unobserved, builders,
    desired::{DesiredMachine, ObservedCondition, ObservedServer, ServerState},
    effect::Effect,
    event::{Answered, Event},
    octavia::ListenersAndPools,
    state::State,
    step,
};
use capo_rs::metrics::{self, Metrics};
use jiff::Timestamp;
use test_support::figures;
use tokio::runtime::Runtime;

const BALANCER: &str = "k8s-clusterapi-cluster-n-c-kubeapi";
const PORT: u16 = 6443;

/// How many rounds are timed at a time.
const BATCH: u32 = 50;

/// Three gates for each of three machines.
const DECISIONS_PER_STEP: f64 = 9.0;

/// The least share of the throughput that is left with metrics.
const SHARE: f64 = 0.95;

fn main() -> ExitCode {
    figures::benchmark(keeps_the_promises)
}

fn keeps_the_promises(_: &Runtime) -> bool {
    let Ok(metrics) = Metrics::new(metrics::Settings::default()) else {
        return false;
    };
    let rounds = 2_000_000;
    let kept = [
        measure("time passes", rounds, &metrics, |bench| {
            bench.step(Event::Tick);
        }),
        measure("server read again", rounds, &metrics, |bench| {
            let machine = bench.machine();
            bench.step(machine);
        }),
        measure("pass with the same tree", rounds / 4, &metrics, |bench| {
            bench.pass();
        }),
    ];
    kept.iter().all(|kept| *kept)
}

/// Runs the rounds without and with metrics in turn. Returns whether enough of the throughput is left.
fn measure(name: &str, rounds: u32, metrics: &Metrics, turn: impl Fn(&mut Bench)) -> bool {
    let mut without = Bench::settled(Box::new(Unobserved));
    let mut with = Bench::settled(Box::new(metrics.clone()));
    let mut rates: [Vec<f64>; 2] = Default::default();
    for _ in 0..rounds / BATCH / 2 {
        for (bench, rates) in [&mut without, &mut with].into_iter().zip(&mut rates) {
            rates.push(batch(bench, &turn));
        }
    }
    // The median is used, because other work of the machine disturbs single values.
    let [without, with] = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied().unwrap_or_default()
    });
    let share = with / without;
    let verdict = if share >= SHARE { "" } else { "  BROKEN" };
    println!(
        "step, {name}: {without:.2} million steps, {:.1} million gate decisions per second; with metrics {:.1} % of it \
         (promised {:.0} %){verdict}",
        without * DECISIONS_PER_STEP,
        share * 100.0,
        SHARE * 100.0
    );
    share >= SHARE
}

/// Millions of steps a second.
fn batch(bench: &mut Bench, turn: impl Fn(&mut Bench)) -> f64 {
    bench.stock_up();
    bench.steps = 0;
    let begun = Instant::now();
    for _ in 0..BATCH {
        turn(bench);
    }
    f64::from(bench.steps) / begun.elapsed().as_secs_f64() / 1e6
}

struct Bench {
    observer: Box<dyn GateObserver>,
    state: State,
    now: Now,
    effects: Vec<Effect>,
    tree: StatusTree,
    machines: Vec<(ObjectName, DesiredMachine)>,
    /// Copies of the events, which `step` consumes.
    trees: Vec<StatusTree>,
    listeners_and_pools: Vec<ListenersAndPools>,
    details: Vec<Vec<Member>>,
    handed: Vec<(ObjectName, Box<DesiredMachine>)>,
    steps: u32,
}

impl Bench {
    fn settled(observer: Box<dyn GateObserver>) -> Self {
        let mut bench = Self {
            observer,
            state: State::new(Settings::default()),
            now: Now {
                instant: Instant::now(),
                wall: Timestamp::UNIX_EPOCH,
                random: 0.5,
            },
            effects: Vec::new(),
            tree: tree(),
            machines: (1..=3)
                .map(|index| machine(index, Instant::now()))
                .collect(),
            trees: Vec::new(),
            listeners_and_pools: Vec::new(),
            details: Vec::new(),
            handed: Vec::new(),
            steps: 0,
        };
        bench.stock_up();
        bench.step(Event::LoadBalancer {
            credentials: true,
            desired: Box::new(builders::load_balancer(BALANCER, "lb")),
        });
        for _ in 0..3 {
            let event = bench.machine();
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
        // `pass` answers the calls. Other effects are not carried out.
        let observer = &self.observer;
        self.effects.retain(|effect| {
            if let Effect::Record(event) = effect {
                observer.record(event);
            }
            matches!(effect, Effect::Call { .. })
        });
    }

    /// Makes a batch of all that is handed over, the machines in turn, the first one to be handed over last.
    fn stock_up(&mut self) {
        let batch = usize::try_from(BATCH).unwrap_or_default();
        self.trees.resize(batch, self.tree.clone());
        self.listeners_and_pools
            .resize_with(batch, listeners_and_pools);
        self.details.resize_with(batch, details);
        let machines = self.machines.iter().cycle().take(batch);
        self.handed = machines
            .map(|(name, machine)| (name.clone(), Box::new(machine.clone())))
            .collect();
    }

    /// The next machine, its server read a moment ago.
    fn machine(&mut self) -> Event {
        let Some((name, mut machine)) = self.handed.pop() else {
            std::process::exit(1);
        };
        machine.server.read_at = Some(self.now.instant);
        Event::Machine {
            name,
            desired: Some(machine),
        }
    }

    /// Time until the next read, and the read, and what else is asked.
    fn pass(&mut self) {
        self.now.instant += Duration::from_mins(5);
        self.step(Event::Tick);
        loop {
            let call = self.effects.drain(..).find_map(|effect| match effect {
                Effect::Call { id, call, .. } => Some((id, call)),
                _ => None,
            });
            let Some((id, call)) = call else { break };
            let answer = match call {
                Call::Tree => self.trees.pop().map(|tree| Answered::Tree(Ok(tree))),
                Call::ListenersAndPools => {
                    self.listeners_and_pools.pop().map(|listeners_and_pools| {
                        Answered::ListenersAndPools(Ok(listeners_and_pools))
                    })
                }
                Call::Members { .. } => self
                    .details
                    .pop()
                    .map(|details| Answered::Members(Ok(details))),
                Call::Monitor { .. } => Some(Answered::Monitor(Ok(
                    capo_core::octavia::MonitorParameters::CAPO_DEFAULTS,
                ))),
                // A settled cluster has nothing to write and no gate that needs a bundle.
                Call::Write(_) | Call::TreeAndMembers { .. } => None,
            };
            let Some(answer) = answer else {
                std::process::exit(1);
            };
            self.step(Event::Answered { id, answer });
        }
    }
}

fn machine(index: u8, now: Instant) -> (ObjectName, DesiredMachine) {
    let name = ObjectName::new("n", format!("c-control-plane-{index}"));
    let machine = DesiredMachine {
        machine: Some(name.name.clone()),
        address: Some([10, 6, 0, index].into()),
        admitted: true,
        server: ObservedServer {
            state: ServerState::Active,
            read_at: Some(now),
            down_since: None,
        },
        api_server_pod: ObservedCondition::TrueSince(now),
        node: ObservedCondition::TrueSince(now),
        has_node: true,
        ..builders::machine(ObjectName::new("n", "c"))
    };
    (name, machine)
}

fn tree() -> StatusTree {
    let name = format!("{BALANCER}-{PORT}");
    let active = ProvisioningStatus::Active;
    let monitor = TreeMonitor {
        id: "monitor".into(),
        monitor_type: capo_core::MonitorType::Tcp,
        provisioning_status: active.clone(),
        ..TreeMonitor::default()
    };
    let members = (1..=3).map(|index| TreeMember {
        id: format!("member-{index}").into(),
        name: format!("{name}-c-control-plane-{index}"),
        address: Some([10, 6, 0, index].into()),
        protocol_port: PORT,
        provisioning_status: active.clone(),
        operating_status: OperatingStatus::Online,
    });
    StatusTree {
        provisioning_status: active.clone(),
        operating_status: OperatingStatus::Online,
        listeners: vec![TreeListener {
            id: "listener".into(),
            name: name.clone(),
            provisioning_status: active.clone(),
            pools: vec!["pool".into()],
            ..TreeListener::default()
        }],
        pools: vec![TreePool {
            id: "pool".into(),
            members: members.collect(),
            name,
            provisioning_status: active,
            health_monitor: Some(monitor),
            ..TreePool::default()
        }],
        ..StatusTree::default()
    }
}

fn listeners_and_pools() -> ListenersAndPools {
    let name = format!("{BALANCER}-{PORT}");
    ListenersAndPools {
        listeners: vec![Listener {
            id: "listener".into(),
            name: name.clone(),
            protocol_port: PORT,
            default_pool_id: Some("pool".into()),
            ..Listener::default()
        }],
        pools: vec![Pool {
            id: "pool".into(),
            name,
            healthmonitor_id: Some("monitor".into()),
            ..Pool::default()
        }],
    }
}

fn details() -> Vec<Member> {
    (1..=3)
        .map(|index| Member {
            id: format!("member-{index}").into(),
            weight: 1,
            admin_state_up: true,
            ..Member::default()
        })
        .collect()
}
