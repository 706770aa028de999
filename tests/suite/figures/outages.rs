//! Octavia fails in four ways at once, on four clouds under one manager: there are few calls and few writes, and the
//! service is used again soon after the outage.
//!
//! The outage is shortened; `CAPO_RS_OUTAGE_SECONDS=120` (as `make deep` does) gives it its full length and also checks
//! the promises in seconds, which beside other tests would depend on the machine.

use std::time::{Duration, Instant};

use fake_cloud::{
    CallMatch, Command, Control, Durations, FakeCloud, Fault, Hold, Options, Provisioning, Service,
};
use futures::future::join_all;
use test_support::waiting::until_true;

use super::{
    calls::{labels, octavia},
    measured_environment::{MeasuredEnvironment, Plan},
    writes::{Counts, Writes},
};
use crate::env::cluster_api::condition;

/// How long a request may hang before it is given up.
const TIME_OUT: Duration = Duration::from_secs(30);
/// Seconds that the throttling Octavia asks for.
const RETRY_AFTER: u64 = 5;
/// Most status writes to one object.
const WRITES: u32 = 5;

/// The ways in which Octavia fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Reset,
    Hang,
    Throttle,
    Unavailable,
}

const WAYS: [Way; 4] = [Way::Reset, Way::Hang, Way::Throttle, Way::Unavailable];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::Hang => "hang",
            Self::Throttle => "throttle",
            Self::Unavailable => "unavailable",
        }
    }

    fn plan(self) -> Plan<'static> {
        Plan {
            name: self.name(),
            credentials: self.name(),
            provider: "ovn",
            additional_ports: &[],
        }
    }

    fn machine(self, index: u8) -> String {
        format!("{}-cp-{index}", self.name())
    }

    fn fault(self, seconds: f64) -> Fault {
        let mut fault = Fault {
            matching: CallMatch {
                service: Some(Service::LoadBalancer),
                ..CallMatch::default()
            },
            lasts: Some(seconds),
            ..Fault::default()
        };
        match self {
            Self::Reset => fault.reset = true,
            Self::Hang => fault.hang = true,
            Self::Throttle => {
                fault.status = Some(429);
                fault
                    .headers
                    .insert("Retry-After".to_owned(), RETRY_AFTER.to_string());
            }
            Self::Unavailable => fault.status = Some(503),
        }
        fault
    }

    /// How long after the end of the outage a client may still wait: for the end of its last call, or for the
    /// Retry-After.
    fn aftermath(self) -> Duration {
        match self {
            Self::Hang => TIME_OUT,
            Self::Throttle => Duration::from_secs(RETRY_AFTER),
            Self::Reset | Self::Unavailable => Duration::ZERO,
        }
    }
}

/// What the outage may cost.
struct Promise {
    /// How long it lasts.
    outage: Duration,
    /// Calls to Octavia meanwhile.
    calls: usize,
    /// How long after its return Octavia may still be unused by its clients.
    back: Duration,
    /// How long the manager may take to stop.
    stop: Duration,
}

fn promise() -> Promise {
    let asked = std::env::var("CAPO_RS_OUTAGE_SECONDS").ok();
    let seconds = asked.and_then(|text| text.parse().ok());
    // Even on a busy machine the manager stops before a hanging call ends.
    let (back, stop) = if seconds.is_some() { (10, 3) } else { (30, 10) };
    let seconds = seconds.unwrap_or(20_u32);
    // 40 calls are promised for two minutes. The first failures follow each other faster than later ones.
    let calls = usize::try_from(seconds).unwrap_or(usize::MAX) / 3;
    Promise {
        outage: Duration::from_secs(seconds.into()),
        calls: calls.clamp(12, 40),
        back: Duration::from_secs(back),
        stop: Duration::from_secs(stop),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_of_octavia_costs_little_and_ends_with_it() {
    let mut clouds = Vec::new();
    let mut environment = MeasuredEnvironment::without_manager().await;
    environment.start(&[]).await;
    for way in WAYS {
        let cloud = FakeCloud::start(Options {
            durations: Durations::instant(),
            data_path: false,
            ..Options::default()
        })
        .await
        .unwrap();
        environment
            .credentials(way.name(), &cloud.clouds_yaml())
            .await;
        clouds.push((way, cloud));
    }
    join_all(
        clouds
            .iter()
            .map(|(way, cloud)| held(&environment, *way, cloud)),
    )
    .await;
    let writes = Writes::watch(&environment.admin);

    join_all(
        clouds
            .iter()
            .map(|(way, cloud)| suffer(&environment, &writes, *way, cloud.control())),
    )
    .await;

    let (_, cloud) = clouds.iter().find(|(way, _)| *way == Way::Hang).unwrap();
    stops_during_a_hang(&mut environment, cloud.control()).await;
}

/// A cluster with a machine that was admitted, and one whose member is looked at every few seconds.
async fn held(environment: &MeasuredEnvironment, way: Way, cloud: &FakeCloud) {
    environment.cluster(way.plan()).await;
    environment
        .cluster_api
        .until_provisioned("OpenStackCluster", way.name())
        .await;
    environment.machine(way.plan(), &way.machine(0)).await;
    environment
        .cluster_api
        .until_provisioned("OpenStackMachine", &way.machine(0))
        .await;
    cloud
        .control()
        .command(Command::Hold(Hold {
            member: way.machine(1),
            status: Provisioning::PendingCreate,
            count: None,
            release_after: None,
            now: false,
        }))
        .unwrap();
    environment.machine(way.plan(), &way.machine(1)).await;
    let pending = |machine: &serde_json::Value| {
        condition(machine, "APIServerLoadBalancerReady")
            .is_some_and(|(_, reason, _)| reason == "MemberPending")
    };
    environment
        .cluster_api
        .until_object("OpenStackMachine", &way.machine(1), pending)
        .await;
}

/// The outage. The member turns ACTIVE at its beginning, and the manager can't see that before its end.
async fn suffer(environment: &MeasuredEnvironment, writes: &Writes, way: Way, control: &Control) {
    let promise = promise();
    let since = control.last_call();
    let before = writes.so_far();
    let end = Instant::now() + promise.outage;
    let (began, _) = control.load_balancers("");
    let fault = way.fault(promise.outage.as_secs_f64());
    control.command(Command::Fault(Box::new(fault))).unwrap();
    control.command(Command::Release(String::new())).unwrap();
    tokio::time::sleep_until(end.into()).await;
    let calls = octavia(control, since);
    let written = changed(&before, &writes.so_far(), way);
    assert!(
        !calls.is_empty() && calls.len() <= promise.calls,
        "{way:?}: {:?}",
        labels(&calls)
    );
    assert!(
        written.values().all(|count| *count <= WRITES),
        "{way:?}: {written:?}"
    );
    // The times are those of the cloud's clock, because writes to Kubernetes are delayed on a busy machine.
    let over = (began + promise.outage).as_secs_f64();
    let served = || {
        let calls = octavia(control, since).into_iter();
        let mut calls = calls.filter(|call| call.at > over && call.fault.is_none());
        calls.find(|call| call.status.is_some_and(|status| status < 300))
    };
    until_true(&format!("{way:?} is served again"), async || {
        served().is_some()
    })
    .await;
    let back = served().map_or(f64::INFINITY, |call| call.at - over);
    let most = (way.aftermath() + promise.back).as_secs_f64();
    let calls = octavia(control, since);
    assert!(back <= most, "{way:?}: {back} s: {:?}", labels(&calls));
    environment
        .cluster_api
        .until_provisioned("OpenStackMachine", &way.machine(1))
        .await;
}

/// What was written to the objects of one cluster.
fn changed(before: &Counts, after: &Counts, way: Way) -> Counts {
    let mut counts = after.clone();
    counts.retain(|name, count| {
        *count -= before.get(name).copied().unwrap_or_default();
        name.contains(way.name())
    });
    counts
}

async fn stops_during_a_hang(environment: &mut MeasuredEnvironment, control: &Control) {
    control
        .command(Command::Fault(Box::new(Way::Hang.fault(600.0))))
        .unwrap();
    let since = control.last_call();
    environment
        .machine(Way::Hang.plan(), &Way::Hang.machine(2))
        .await;
    until_true("a call hangs", async || {
        let calls = octavia(control, since);
        calls.iter().any(|call| call.fault.is_some())
    })
    .await;
    let took = environment.stop().await;
    assert!(took <= promise().stop, "{took:?}");
}
