//! Many load balancers on one credential after a restart, and a machine of each is to go: every release ends.
//!
//! The credential has a budget of 60 calls/s, so that the test is short; by default it is 10. One API server answers at the
//! endpoint of all clusters.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use capo_core::{Endpoint, ObjectName, Reason, octavia::MonitorNumbers};
use capo_gate::{
    Settings, Unobserved,
    desired::{Deletion, DesiredLoadBalancer, DesiredMachine, Health},
    findings::{Findings, Gate},
};
use capo_openstack::{ClientSettings, Cloud};
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
    fleet::{FLEET, Nobody, STARVED, balancers, client, machine, name, unhurried},
};

/// Where the API server of all clusters answers.
const ENDPOINT: (IpAddr, u16) = (IpAddr::V4(std::net::Ipv4Addr::new(127, 93, 0, 1)), 6443);
/// With these, a member counts as serving after it was ONLINE for 12 s instead of 45 s.
const MONITOR: MonitorNumbers = MonitorNumbers {
    delay: 1,
    timeout: 1,
    max_retries: 1,
    max_retries_down: 1,
};
/// The machine that stays, and its address.
const STAYS: (&str, u8) = ("m1", 11);
/// The machine that is to go, and its address.
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
        fleet: &[DesiredLoadBalancer],
        deletion: Deletion,
    ) -> Self {
        let process = Self {
            tracker: Tracker::new(settings, Arc::new(Nobody), Arc::new(Unobserved)),
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
                api_server_pod: Health::Good(Instant::now()),
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
            .any(|machine| machine.server_wanted)
        {
            self.read_servers(cluster);
        }
        false
    }
}

/// Whether the machine is released, on reads that are fresh.
fn may_go(findings: &Findings, cluster: &ObjectName) -> bool {
    let going = findings.machines.get(&name(cluster, GOES.0));
    going.is_some_and(|going| {
        matches!(going.release, Gate::Open { .. })
            && findings.may_act_on(&going.release, Instant::now())
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
    let fake = FakeCloud::start(quick_cloud()).await.unwrap();
    let quick = client(&fake, unhurried());
    let authority = Authority::new("fleet").unwrap();
    let host = ENDPOINT.0.to_string();
    let _api_server = ApiServer::listen(ENDPOINT, &authority, &["kubernetes", &host], 200).await;
    let mut fleet = balancers(&quick, FLEET).await;
    for desired in &mut fleet {
        desired.monitor = MONITOR;
        desired.cluster.ca_pem = Some(authority.certificate());
        desired.cluster.endpoint = Some(Endpoint {
            host: host.clone(),
            port: ENDPOINT.1,
        });
    }
    let first = Process::start(quick_gate(), &quick, &fleet, Deletion::No);
    until("every load balancer is settled", async || {
        let settled = |cluster: &ObjectName| first.is_settled(cluster);
        first.clusters.iter().all(settled).then_some(())
    })
    .await;
    first.tracker.shutdown().await;

    let qps: u32 = 60;
    let budget = ClientSettings {
        qps: qps.into(),
        burst: 2 * qps,
        ..ClientSettings::default()
    };
    let since = fake.control().last_call();
    let begun = Instant::now();
    let deletion = Deletion::AtHook {
        since: Timestamp::now(),
    };
    let cloud = client(&fake, budget);
    let second = Process::start(Settings::default(), &cloud, &fleet, deletion);
    let mut released: BTreeMap<&ObjectName, Duration> = BTreeMap::new();
    until("every machine is released", async || {
        for cluster in &second.clusters {
            if !released.contains_key(cluster) && second.control(cluster) {
                released.insert(cluster, begun.elapsed());
                // The machine's member has gone, and that of the other one is the only one left.
                let left = [format!("10.6.1.{}", STAYS.1)];
                assert_eq!(members(&fake, &cluster.name), left, "{cluster}");
            }
        }
        (released.len() == FLEET).then_some(())
    })
    .await;
    let calls = fake.control().calls_since(since);
    let mut times: Vec<f64> = released.values().map(Duration::as_secs_f64).collect();
    times.sort_by(f64::total_cmp);
    println!(
        "{FLEET} load balancers with {qps} calls a second: the first machine is released after {:.0} s, half of them after \
         {:.0} s, the last after {:.0} s, {} calls",
        times[0],
        times[FLEET / 2],
        times[FLEET - 1],
        calls.len()
    );
    assert!(
        times[FLEET - 1] <= STARVED * times[FLEET / 2],
        "starved: {times:?}"
    );
    second.tracker.shutdown().await;
    assert_eq!(fake.control().duplicates(), []);
}
