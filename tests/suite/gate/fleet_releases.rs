//! Many load balancers share one credential after a restart, and one machine of each is to be released: every release
//! ends.
//!
//! One API server answers at the endpoint of all clusters of a test.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::{Duration, Instant},
};

use capo_core::{Endpoint, Lookup, ObjectName, Reason, octavia::MonitorParameters};
use capo_gate::{
    Settings, Unobserved,
    desired::{Deletion, DesiredMachine, LoadBalancerSpec, ObservedCondition},
    findings::Findings,
};
use capo_openstack::Cloud;
use capo_rs::tracker::{OctaviaClient, Tracker};
use fake_cloud::FakeCloud;
use jiff::Timestamp;
use test_support::{
    env::{
        Authority,
        environment::{quick_cloud, quick_gate},
    },
    waiting::until,
};

use super::{
    api_server::ApiServer,
    fleet::{Fleet, LARGE, NoMachines, balancers, client, machine, name, unhurried},
};

/// Where the API server of all clusters answers, one for each test.
const ENDPOINTS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(127, 93, 0, 1)),
    IpAddr::V4(Ipv4Addr::new(127, 93, 0, 2)),
];
const PORT: u16 = 6443;
/// With these, a member counts as serving after it was ONLINE for 12 s instead of 45 s.
const MONITOR: MonitorParameters = MonitorParameters {
    delay: 1,
    timeout: 1,
    max_retries: 1,
    max_retries_down: 1,
};
/// The machine that stays, and its address.
const STAYS: (&str, u8) = ("m1", 11);
/// The machine that is to be released, and its address.
const GOES: (&str, u8) = ("m0", 10);

/// One process that tracks the machines of all clusters.
struct Process {
    tracker: Tracker,
    clusters: Vec<ObjectName>,
    deletion: Deletion,
}

impl Process {
    fn start(
        settings: Settings,
        cloud: &Cloud,
        fleet: &[LoadBalancerSpec],
        deletion: Deletion,
    ) -> Self {
        let process = Self {
            tracker: Tracker::new(settings, Arc::new(NoMachines), Arc::new(Unobserved)),
            clusters: fleet
                .iter()
                .map(|desired| ObjectName::new("fleet", &desired.name))
                .collect(),
            deletion,
        };
        for (cluster, desired) in process.clusters.iter().zip(fleet) {
            process.read_servers(cluster);
            let client = OctaviaClient(cloud.clone());
            let tracker = &process.tracker;
            tracker.set_load_balancer(cluster, Some(client), desired.clone());
        }
        process
    }

    /// Hands over both machines of a cluster as their controller does after it has read their servers.
    fn read_servers(&self, cluster: &ObjectName) {
        for ((own, host), deletion) in [(STAYS, Deletion::No), (GOES, self.deletion)] {
            let wanted = DesiredMachine {
                deletion,
                api_server_pod: ObservedCondition::TrueSince(Instant::now()),
                ..machine(cluster, host, true)
            };
            self.tracker.set_machine(&name(cluster, own), wanted);
        }
    }

    fn is_settled(&self, cluster: &ObjectName) -> bool {
        let findings = self.tracker.findings(cluster);
        findings.is_some_and(|findings| {
            let mut machines = findings.machines.values();
            findings.machines.len() == 2
                && machines.all(|machine| machine.verdict.reason == Reason::MembersActive)
        })
    }

    /// Does what the machine controller does with findings. Returns whether it would have removed the hook.
    fn control(&self, cluster: &ObjectName) -> bool {
        let Some(findings) = self.tracker.findings(cluster) else {
            return false;
        };
        if may_go(&findings, cluster) {
            self.tracker.forget_machine(&name(cluster, GOES.0));
            return true;
        }
        if findings
            .machines
            .values()
            .any(|machine| machine.needs_server_read)
        {
            self.read_servers(cluster);
        }
        false
    }
}

/// Whether the release gate of the machine is open and its reads are new enough to act on.
fn may_go(findings: &Findings, cluster: &ObjectName) -> bool {
    let going = findings.machines.get(&name(cluster, GOES.0));
    going.is_some_and(|going| {
        going.release.is_open() && findings.may_act_on(&going.release, Instant::now())
    })
}

/// The hosts of the members that a load balancer has.
fn members(fake: &FakeCloud, balancer: &str) -> Vec<String> {
    let (_, balancers) = fake.control().load_balancers(balancer);
    let own = balancers
        .iter()
        .filter(|(found, _)| found.head.name == balancer);
    let pools = own.flat_map(|(balancer, _)| &balancer.pools);
    pools
        .flat_map(|pool| &pool.members)
        .map(|member| member.address.clone())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_load_balancers_on_one_credential_all_release_after_a_restart() {
    println!("{}", all_release_after_a_restart(LARGE, ENDPOINTS[0]).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_balancers_whose_calls_wait_for_the_default_budget_all_release_after_a_restart() {
    println!(
        "{}",
        all_release_after_a_restart(Fleet::waiting(), ENDPOINTS[1]).await
    );
}

async fn all_release_after_a_restart(fleet: Fleet, endpoint: IpAddr) -> String {
    let fake = FakeCloud::start(quick_cloud()).await.unwrap();
    let quick = client(&fake, unhurried());
    let authority = Authority::new("fleet").unwrap();
    let host = endpoint.to_string();
    let names = ["kubernetes", &host];
    let _api_server = ApiServer::listen((endpoint, PORT), &authority, &names, 200).await;
    let mut desired = balancers(&quick, fleet.balancers).await;
    for desired in &mut desired {
        desired.monitor = MONITOR;
        desired.cluster.ca_pem = Lookup::Found(authority.certificate());
        desired.cluster.endpoint = Some(Endpoint {
            host: host.clone(),
            port: PORT,
        });
    }
    let first = Process::start(quick_gate(), &quick, &desired, Deletion::No);
    until("every load balancer is settled", async || {
        let settled = |cluster: &ObjectName| first.is_settled(cluster);
        first.clusters.iter().all(settled).then_some(())
    })
    .await;
    first.tracker.shutdown().await;

    let since = fake.control().last_call();
    let begun = Instant::now();
    let deletion = Deletion::AtHook {
        since: Timestamp::now(),
    };
    let cloud = client(&fake, fleet.budget());
    let second = Process::start(Settings::default(), &cloud, &desired, deletion);
    let mut released: BTreeMap<&ObjectName, Duration> = BTreeMap::new();
    let are_all_released = fleet.patience().holds(async || {
        for cluster in &second.clusters {
            if !released.contains_key(cluster) && second.control(cluster) {
                released.insert(cluster, begun.elapsed());
                // The machine's member has gone, and that of the other one is the only one left.
                let left = [format!("10.6.1.{}", STAYS.1)];
                assert_eq!(members(&fake, &cluster.name), left, "{cluster}");
            }
        }
        released.len() == desired.len()
    });
    assert!(
        are_all_released.await,
        "{} machines are released",
        released.len()
    );
    let calls = fake.control().calls_since(since).len();
    let released: Vec<Duration> = released.into_values().collect();
    let shown = fleet.check(&released, calls);
    second.tracker.shutdown().await;
    assert_eq!(fake.control().duplicates(), []);
    shown
}
