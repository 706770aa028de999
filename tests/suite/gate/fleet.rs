//! Many load balancers share one credential after a restart, and Octavia answers slowly: every gate opens.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use capo_core::{ObjectName, Priority, Reason};
use capo_gate::{
    Settings, Unobserved, builders,
    desired::{DesiredMachine, LoadBalancerSpec, ObservedServer, ServerState},
};
use capo_openstack::{
    ClientSettings, Cloud, CloudProfile, Clouds, LeaseToken, NoObserver,
    load_balancer::NewLoadBalancer,
    network::{NewNetwork, NewSubnet},
};
use capo_rs::tracker::{LookupError, MachineLookup, OctaviaClient, Tracker};
use fake_cloud::FakeCloud;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use k8s_openapi::ByteString;
use serde_json::json;
use test_support::{
    env::environment::{quick_cloud, quick_gate},
    waiting::{PATIENCE, Wait, until},
};

use super::control_plane::is_deep;

/// How many load balancers share a credential, and how many calls/s it may make.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fleet {
    pub(super) balancers: usize,
    pub(super) qps: u32,
}

/// With more calls/s than by default, so that the test is short.
pub(super) const LARGE: Fleet = Fleet {
    balancers: 200,
    qps: 60,
};
impl Fleet {
    /// With the default budget: each call waits for several seconds until it is sent. `make deep` takes as many load
    /// balancers as [`LARGE`] has, which takes minutes.
    pub(super) fn waiting() -> Self {
        Self {
            balancers: if is_deep() { LARGE.balancers } else { 75 },
            qps: 10,
        }
    }

    /// The wait for the last gate. It is long enough for more calls than each load balancer needs.
    pub(super) fn patience(self) -> Wait {
        let seconds = 60 * self.balancers / self.qps as usize;
        let seconds = u64::try_from(seconds).unwrap();
        Wait::default().at_most(PATIENCE.max(Duration::from_secs(seconds)))
    }

    pub(super) fn budget(self) -> ClientSettings {
        ClientSettings {
            qps: self.qps.into(),
            burst: 2 * self.qps,
            ..ClientSettings::default()
        }
    }

    /// Checks when each gate opened, and returns the figures to print.
    pub(super) fn check(self, opened: &[Duration], calls: usize) -> String {
        let mut times: Vec<f64> = opened.iter().map(Duration::as_secs_f64).collect();
        times.sort_by(f64::total_cmp);
        let (half, last) = (times[times.len() / 2], times[times.len() - 1]);
        assert!(last <= STARVED * half, "starved: {times:?}");
        format!(
            "{} load balancers with {} calls/s: the first gate opened after {:.0} s, half of them after {half:.0} s, the \
             last after {last:.0} s, {calls} calls",
            self.balancers, self.qps, times[0]
        )
    }
}

/// The slowest gate may take this many times as long as the median. If all are served one after the other at an even
/// pace, it takes twice as long.
const STARVED: f64 = 3.0;

/// A look-up that finds every machine, because every machine whose member is in a load balancer was handed over.
pub(super) struct NoMachines;

impl MachineLookup for NoMachines {
    fn exists(&self, _: ObjectName) -> BoxFuture<'static, Result<bool, LookupError>> {
        std::future::ready(Ok(true)).boxed()
    }
}

pub(super) fn client(fake: &FakeCloud, settings: ClientSettings) -> Cloud {
    // No other part of these tests installs the provider before this.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let yaml = ByteString(fake.clouds_yaml().into_bytes());
    let data = BTreeMap::from([("clouds.yaml".to_owned(), yaml)]);
    let profile = CloudProfile::from_secret(&data, "demo", None).unwrap();
    Clouds::new(settings, LeaseToken::unlimited(), Arc::new(NoObserver))
        .cloud(profile)
        .unwrap()
}

pub(super) fn unhurried() -> ClientSettings {
    ClientSettings {
        qps: 2_000.0,
        burst: 2_000,
        ..ClientSettings::default()
    }
}

/// Load balancers that have nothing in them yet.
pub(super) async fn balancers(cloud: &Cloud, count: usize) -> Vec<LoadBalancerSpec> {
    let network = NewNetwork {
        name: "fleet".to_owned(),
        ..NewNetwork::default()
    };
    let network = cloud
        .create_network(&network, Priority::Gate)
        .await
        .unwrap();
    let subnet = NewSubnet {
        network_id: network.id.clone(),
        name: "fleet".to_owned(),
        description: String::new(),
        cidr: "10.6.0.0/16".parse().unwrap(),
        ip_version: 4,
        dns_nameservers: Vec::new(),
        allocation_pools: Vec::new(),
        ipv6_address_mode: None,
        ipv6_ra_mode: None,
    };
    cloud.create_subnet(&subnet, Priority::Gate).await.unwrap();
    let network = &network;
    stream::iter(0..count)
        .map(|index| async move {
            let new = NewLoadBalancer {
                name: format!("fleet-{index}"),
                description: String::new(),
                vip_address: None,
                vip_network_id: Some(network.id.clone()),
                vip_subnet_id: None,
                provider: Some("amphora".to_owned()),
                flavor_id: None,
                availability_zone: None,
                tags: Vec::new(),
            };
            let made = cloud
                .create_load_balancer(&new, Priority::Gate)
                .await
                .unwrap();
            builders::load_balancer(&new.name, made.id.as_str())
        })
        .buffered(16)
        .collect()
        .await
}

pub(super) fn machine(cluster: &ObjectName, host: u8, admitted: bool) -> DesiredMachine {
    DesiredMachine {
        address: Some([10, 6, 1, host].into()),
        admitted,
        server: ObservedServer {
            state: ServerState::Active,
            read_at: Some(Instant::now()),
            down_since: None,
        },
        has_node: admitted,
        ..builders::machine(cluster.clone())
    }
}

/// One process that tracks all of them.
struct Process {
    tracker: Tracker,
    clusters: Vec<ObjectName>,
}

impl Process {
    /// Each cluster has an admitted machine, and with `newcomers` one that waits for its admission.
    fn start(
        settings: Settings,
        cloud: &Cloud,
        fleet: &[LoadBalancerSpec],
        newcomers: bool,
    ) -> Self {
        let tracker = Tracker::new(settings, Arc::new(NoMachines), Arc::new(Unobserved));
        let clusters = fleet
            .iter()
            .map(|desired| {
                let cluster = ObjectName::new("fleet", &desired.name);
                tracker.set_machine(&name(&cluster, "m0"), machine(&cluster, 10, true));
                if newcomers {
                    tracker.set_machine(&name(&cluster, "m1"), machine(&cluster, 11, false));
                }
                let client = OctaviaClient(cloud.clone());
                tracker.set_load_balancer(&cluster, Some(client), desired.clone());
                cluster
            })
            .collect();
        Self { tracker, clusters }
    }

    fn is_settled(&self, cluster: &ObjectName, machine: &str) -> bool {
        let findings = self.tracker.findings(cluster);
        findings
            .and_then(|findings| {
                Some(
                    findings
                        .machines
                        .get(&name(cluster, machine))?
                        .verdict
                        .clone(),
                )
            })
            .is_some_and(|verdict| verdict.reason == Reason::MembersActive)
    }

    /// The admission of the newcomer is open because its member was read ACTIVE.
    fn admits(&self, cluster: &ObjectName) -> bool {
        let findings = self.tracker.findings(cluster);
        findings.is_some_and(|findings| {
            let newcomer = findings.machines.get(&name(cluster, "m1"));
            newcomer.is_some_and(|finding| finding.admission.is_open())
        })
    }

    async fn until_settled(&self, machine: &str) {
        until("every load balancer is settled", async || {
            let settled = |cluster: &ObjectName| self.is_settled(cluster, machine);
            self.clusters.iter().all(settled).then_some(())
        })
        .await;
    }
}

pub(super) fn name(cluster: &ObjectName, machine: &str) -> ObjectName {
    ObjectName::new("fleet", format!("{}-{machine}", cluster.name))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_load_balancers_on_one_credential_all_admit_after_a_restart() {
    println!("{}", all_admit_after_a_restart(LARGE).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_balancers_whose_calls_wait_for_the_default_budget_all_admit_after_a_restart() {
    println!("{}", all_admit_after_a_restart(Fleet::waiting()).await);
}

async fn all_admit_after_a_restart(fleet: Fleet) -> String {
    let fake = FakeCloud::start(quick_cloud()).await.unwrap();
    let quick = client(&fake, unhurried());
    let desired = balancers(&quick, fleet.balancers).await;
    let first = Process::start(quick_gate(), &quick, &desired, false);
    first.until_settled("m0").await;
    first.tracker.shutdown().await;

    let since = fake.control().last_call();
    let begun = Instant::now();
    let client = client(&fake, fleet.budget());
    let second = Process::start(Settings::default(), &client, &desired, true);
    let mut opened: BTreeMap<&ObjectName, Duration> = BTreeMap::new();
    let are_all_open = fleet.patience().holds(async || {
        for cluster in &second.clusters {
            if !opened.contains_key(cluster) && second.admits(cluster) {
                opened.insert(cluster, begun.elapsed());
            }
        }
        opened.len() == desired.len()
    });
    assert!(are_all_open.await, "{} admissions are open", opened.len());
    let calls = fake.control().calls_since(since).len();
    let opened: Vec<Duration> = opened.into_values().collect();
    let shown = fleet.check(&opened, calls);
    second.tracker.shutdown().await;
    assert_eq!(fake.control().duplicates(), []);
    shown
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_whose_member_is_active_is_admitted_by_answers_of_twelve_seconds() {
    let fake = FakeCloud::start(quick_cloud()).await.unwrap();
    let quick = client(&fake, unhurried());
    let fleet = balancers(&quick, 1).await;
    let first = Process::start(quick_gate(), &quick, &fleet, true);
    first.until_settled("m1").await;
    first.tracker.shutdown().await;

    let slow = json!({"fault": {"match": {"service": "load-balancer"}, "delay": 12}});
    fake.control().run(slow).unwrap();
    let client = client(&fake, ClientSettings::default());
    let second = Process::start(Settings::default(), &client, &fleet, true);
    let cluster = &second.clusters[0];
    until("the admission is open", async || {
        second.admits(cluster).then_some(())
    })
    .await;
    second.tracker.shutdown().await;
}
