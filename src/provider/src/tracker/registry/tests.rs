//! The input that each worker receives, and the publications that each reader receives.

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, StreamExt, future::BoxFuture};

use super::*;
use crate::tracker::{LookupError, inbox::Claim, worker::cluster_differs};
use capo_core::{
    FailureClass, MonitorType, OperatingStatus, Priority, ProvisioningStatus,
    ids::{LoadBalancerId, MonitorId, PoolId},
    octavia::{Member, MonitorParameters, StatusTree, TreeListener, TreeMonitor, TreePool},
};
use capo_gate::{
    Unobserved, builders,
    desired::{DesiredMachine, LoadBalancerSpec, ServerState},
    octavia::{Answer, Change, Failure, ListenersAndPools, Written},
};
use capo_openstack::Withdrawal;

/// A load balancer that never changes.
struct Quiet;

impl Octavia for Quiet {
    fn is_same(&self, _: &dyn Octavia) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn status_tree(
        &self,
        id: &LoadBalancerId,
        _: Priority,
    ) -> BoxFuture<'static, Answer<StatusTree>> {
        let (name, provisioning_status) = (format!("{id}-6443"), ProvisioningStatus::Active);
        let monitor = TreeMonitor {
            id: "monitor".into(),
            provisioning_status: provisioning_status.clone(),
            ..TreeMonitor::default()
        };
        let pool = TreePool {
            id: "pool".into(),
            name: name.clone(),
            provisioning_status: provisioning_status.clone(),
            health_monitor: Some(monitor),
            ..TreePool::default()
        };
        let listener = TreeListener {
            id: "listener".into(),
            name,
            provisioning_status: provisioning_status.clone(),
            pools: vec![pool.id.clone()],
            ..TreeListener::default()
        };
        let tree = StatusTree {
            provisioning_status,
            operating_status: OperatingStatus::Online,
            listeners: vec![listener],
            pools: vec![pool],
            ..StatusTree::default()
        };
        std::future::ready(Ok(tree)).boxed()
    }

    fn listeners_and_pools(
        &self,
        _: &LoadBalancerId,
        _: Priority,
    ) -> BoxFuture<'static, Answer<ListenersAndPools>> {
        std::future::ready(Ok(ListenersAndPools::default())).boxed()
    }

    fn members(&self, _: &PoolId, _: Priority) -> BoxFuture<'static, Answer<Vec<Member>>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }

    fn monitor(&self, _: &MonitorId, _: Priority) -> BoxFuture<'static, Answer<MonitorParameters>> {
        std::future::ready(Ok(MonitorParameters::CAPO_DEFAULTS)).boxed()
    }

    fn write(&self, change: &Change, _: Priority) -> BoxFuture<'static, Answer<Written>> {
        let failure = Failure {
            class: FailureClass::Invalid,
            retry_after: None,
            message: format!("nothing is to be changed: {change:?}"),
        };
        std::future::ready(Err(failure)).boxed()
    }
}

/// A client whose writes wait for half a minute and note whether they were withdrawn by then.
#[derive(Clone, Default)]
struct Queued(Arc<Mutex<Vec<bool>>>);

impl Octavia for Queued {
    fn is_same(&self, _: &dyn Octavia) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn status_tree(
        &self,
        id: &LoadBalancerId,
        priority: Priority,
    ) -> BoxFuture<'static, Answer<StatusTree>> {
        Quiet.status_tree(id, priority)
    }

    fn listeners_and_pools(
        &self,
        id: &LoadBalancerId,
        priority: Priority,
    ) -> BoxFuture<'static, Answer<ListenersAndPools>> {
        Quiet.listeners_and_pools(id, priority)
    }

    fn members(&self, id: &PoolId, priority: Priority) -> BoxFuture<'static, Answer<Vec<Member>>> {
        Quiet.members(id, priority)
    }

    fn monitor(
        &self,
        id: &MonitorId,
        priority: Priority,
    ) -> BoxFuture<'static, Answer<MonitorParameters>> {
        Quiet.monitor(id, priority)
    }

    fn write(&self, _: &Change, _: Priority) -> BoxFuture<'static, Answer<Written>> {
        let taken_back = Arc::clone(&self.0);
        async move {
            tokio::time::sleep(Duration::from_secs(30)).await;
            taken_back.lock().push(Withdrawal::is_withdrawn());
            Err(Failure {
                class: FailureClass::NotSent,
                retry_after: None,
                message: "not sent".to_owned(),
            })
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_for_the_request_budget_is_taken_back_when_the_cluster_is_paused() {
    for pauses in [true, false] {
        let tracker = settled(&[]).await;
        let client = Queued::default();
        let mut desired = load_balancer("a");
        tracker.set_load_balancer(&name("a"), Some(client.clone()), desired.clone());
        let mut newcomer = machine("a");
        newcomer.address = Some([10, 6, 0, 5].into());
        newcomer.server.state = ServerState::Active;
        tracker.set_machine(&name("m"), newcomer);
        // The time is long enough for the first reads, and too short for the write to end.
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert!(client.0.lock().is_empty());
        desired.cluster.paused = pauses;
        tracker.set_load_balancer(&name("a"), Some(client.clone()), desired);
        tokio::time::sleep(Duration::from_secs(29)).await;
        assert_eq!(client.0.lock().first(), Some(&pauses));
    }
}

/// A client whose first read panics.
struct PanicsOnce(AtomicBool);

impl Octavia for PanicsOnce {
    fn is_same(&self, _: &dyn Octavia) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn status_tree(
        &self,
        id: &LoadBalancerId,
        priority: Priority,
    ) -> BoxFuture<'static, Answer<StatusTree>> {
        assert!(self.0.swap(true, Ordering::SeqCst), "the first read");
        Quiet.status_tree(id, priority)
    }

    fn listeners_and_pools(
        &self,
        id: &LoadBalancerId,
        priority: Priority,
    ) -> BoxFuture<'static, Answer<ListenersAndPools>> {
        Quiet.listeners_and_pools(id, priority)
    }

    fn members(&self, id: &PoolId, priority: Priority) -> BoxFuture<'static, Answer<Vec<Member>>> {
        Quiet.members(id, priority)
    }

    fn monitor(
        &self,
        id: &MonitorId,
        priority: Priority,
    ) -> BoxFuture<'static, Answer<MonitorParameters>> {
        Quiet.monitor(id, priority)
    }

    fn write(&self, change: &Change, priority: Priority) -> BoxFuture<'static, Answer<Written>> {
        Quiet.write(change, priority)
    }
}

struct NoMachines;

impl MachineLookup for NoMachines {
    fn exists(&self, _: ObjectName) -> BoxFuture<'static, Result<bool, LookupError>> {
        std::future::ready(Ok(false)).boxed()
    }
}

fn name(name: &str) -> ObjectName {
    ObjectName::new("n", name)
}

/// A load balancer whose id and name are the same.
fn load_balancer(id: &str) -> LoadBalancerSpec {
    let mut desired = builders::load_balancer(id, id);
    desired.cluster.initialised = false;
    desired
}

fn machine(cluster: &str) -> DesiredMachine {
    builders::machine(name(cluster))
}

/// Load balancers named like their clusters, with complete input.
async fn settled(clusters: &[&str]) -> Tracker {
    let tracker = Tracker::new(
        Settings::default(),
        Arc::new(NoMachines),
        Arc::new(Unobserved),
    );
    for cluster in clusters {
        tracker.set_load_balancer(&name(cluster), Some(Quiet), load_balancer(cluster));
    }
    tokio::time::sleep(Duration::from_mins(20)).await;
    tracker
}

#[tokio::test(start_paused = true)]
async fn a_read_without_changes_updates_the_time_and_enqueues_no_object() {
    let tracker = settled(&["a"]).await;
    let observed = || tracker.all().first().and_then(|(_, found)| found.observed);
    let mut wakes = std::pin::pin!(tracker.cluster_queue().stream());
    let mut publications = std::pin::pin!(tracker.publications());
    while wakes.next().now_or_never().is_some() {}
    let mut before = observed();
    assert!(before.is_some());
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_mins(6)).await;
        assert!(observed() > before, "{before:?}");
        before = observed();
    }
    assert!(wakes.next().now_or_never().is_none());
    assert!(publications.next().now_or_never().is_none());
}

/// The ranges of a generation become known one after the other: the bastion's address after those of the spec.
#[tokio::test(start_paused = true)]
async fn what_was_seen_as_wanted_is_not_what_is_wanted_now() {
    let tracker = settled(&["a"]).await;
    let seen = || tracker.findings(&name("a")).unwrap().settled_generation;
    assert_eq!(seen(), Some(1));
    let mut desired = load_balancer("a");
    desired.cluster.initialised = true;
    tracker.set_load_balancer(&name("a"), Some(Quiet), desired.clone());
    assert_eq!(seen(), Some(1), "the parts are wanted as before");
    desired.allowed_cidrs = Some(vec!["192.0.2.0/24".parse().unwrap()]);
    tracker.set_load_balancer(&name("a"), Some(Quiet), desired);
    assert_eq!(seen(), None);

    let tracker = settled(&["a"]).await;
    let mut desired = load_balancer("a");
    desired.monitor_type = Some(MonitorType::Https);
    tracker.set_load_balancer(&name("a"), Some(Quiet), desired);
    let seen = tracker.findings(&name("a")).unwrap().settled_generation;
    assert_eq!(seen, None);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_is_reconciled_when_the_ranges_that_may_connect_change() {
    let tracker = settled(&["a"]).await;
    let old = tracker.findings(&name("a")).unwrap();
    let mut new = (*old).clone();
    assert!(!cluster_differs(&old, &new));
    new.allowed_cidrs = Some(vec!["192.0.2.0/24".parse().unwrap()]);
    assert!(cluster_differs(&old, &new));
}

/// The kinds of input that wait for a worker.
fn waiting(tracker: &Tracker, cluster: &str) -> [bool; 5] {
    let clusters = tracker.0.clusters.lock();
    let entry = clusters.entries.get(&name(cluster)).unwrap();
    let updates = entry.running.as_ref().unwrap().inbox.take();
    [
        updates.load_balancer.is_some(),
        !updates.machines.is_empty(),
        updates.claimed_by.is_some_and(|claim| claim.0.is_some()),
        updates.large_fleet == Some(true),
        updates.nudged,
    ]
}

/// Workers share no state other than their inboxes. Two load balancers therefore affect each other only in two ways: a
/// worker is notified that another cluster claims its load balancer, and of the number of load balancers.
#[tokio::test(start_paused = true)]
async fn input_for_one_load_balancer_does_not_reach_the_worker_of_another() {
    let tracker = settled(&["a", "b"]).await;
    let nothing = [false; 5];
    // No worker runs before the next await, so the input stays in the inboxes.
    for (what, kind) in [
        ("load balancer", 0),
        ("machine", 1),
        ("machine gone", 1),
        ("nudge", 4),
        ("forgotten", 5),
    ] {
        match what {
            "load balancer" => tracker.set_load_balancer(
                &name("a"),
                Some(Quiet),
                LoadBalancerSpec {
                    id: capo_core::Lookup::Absent,
                    ..load_balancer("a")
                },
            ),
            "machine" => tracker.set_machine(&name("m"), machine("a")),
            "machine gone" => tracker.forget_machine(&name("m")),
            "nudge" => tracker.nudge(&name("a")),
            _ => tracker.forget_load_balancer(&name("a")),
        }
        if let Some(expected) = nothing.get(kind) {
            let mut expected_kinds = nothing;
            expected_kinds[kind] = !expected;
            assert_eq!(waiting(&tracker, "a"), expected_kinds, "{what}");
        }
        assert_eq!(waiting(&tracker, "b"), nothing, "{what}");
    }
    // Both have the same id, so both are notified of the conflict and of its end.
    let claims = |tracker: &Tracker| waiting(tracker, "b")[2];
    tracker.set_load_balancer(&name("c"), Some(Quiet), load_balancer("b"));
    assert!(claims(&tracker));
    tracker.set_machine(&name("m"), machine("c"));
    assert_eq!(waiting(&tracker, "b"), nothing);
    tracker.forget_load_balancer(&name("c"));
    let clusters = tracker.0.clusters.lock();
    let running = clusters.entries[&name("b")].running.as_ref().unwrap();
    assert!(matches!(running.inbox.take().claimed_by, Some(Claim(None))));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_panicked_is_started_again_with_all_its_input() {
    let tracker = settled(&["a"]).await;
    let client = PanicsOnce(AtomicBool::new(false));
    tracker.set_load_balancer(&name("b"), Some(client), load_balancer("b"));
    tracker.set_machine(&name("m"), machine("b"));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let observed = |cluster: &str| {
        let findings = tracker.findings(&name(cluster))?;
        findings.observed
    };
    assert_eq!(observed("b"), None);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(observed("b").is_some());
    let findings = tracker.findings(&name("b")).unwrap();
    assert!(findings.machines.contains_key(&name("m")));
    assert!(observed("a").is_some());
}

/// The controller of a machine may hand it over once more after its cluster has vanished.
#[tokio::test(start_paused = true)]
async fn a_machine_starts_no_worker_of_a_forgotten_load_balancer() {
    let tracker = settled(&["a"]).await;
    tracker.set_machine(&name("m"), machine("a"));
    assert!(tracker.findings(&name("a")).is_some());
    tracker.forget_load_balancer(&name("a"));
    let mut changed = machine("a");
    changed.server.state = ServerState::Active;
    tracker.set_machine(&name("m"), changed);
    tracker.nudge(&name("a"));
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert!(!tracker.set_facts(&name("a"), &load_balancer("a").cluster));
    assert_eq!(tracker.findings(&name("a")), None);
    assert_eq!(tracker.all(), []);
    assert_eq!(tracker.0.workers.len(), 0);

    // The machine is known as soon as there is a load balancer again, as it was handed over last.
    tracker.set_load_balancer(&name("a"), Some(Quiet), load_balancer("a"));
    tokio::time::sleep(Duration::from_mins(1)).await;
    let findings = tracker.findings(&name("a")).unwrap();
    assert!(findings.machines.contains_key(&name("m")));
    tracker.forget_load_balancer(&name("a"));
    tracker.forget_machine(&name("m"));
    let clusters = tracker.0.clusters.lock();
    assert!(clusters.entries.is_empty() && clusters.machines.is_empty());
}
