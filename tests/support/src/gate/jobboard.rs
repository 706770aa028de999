//! A worker dies while it creates a member, the load balancer is ACTIVE again, and the member stays PENDING_CREATE.
//! Five minutes later another worker finds the job on the jobboard and finishes it.

use std::time::{Duration, Instant};

use capo_core::ProvisioningStatus;

use super::{ControlPlane, anomalies::ACTIVE, condition, is_provisioned, leftovers};
use crate::contract::{CloudUnderTest, Contract, Kind};
use crate::waiting::until_true;

/// A cloud whose Octavia gets a jobboard if a test requests one.
pub trait Jobboard: CloudUnderTest {
    /// From now on Octavia's workers have a jobboard. If a worker has shown no sign of life for five minutes, another
    /// worker resumes what it had begun.
    async fn use_jobboard(&self);

    /// The changes that Octavia's API was asked for so far, whatever its answers were, each as method and path.
    async fn changes(&self) -> Vec<String>;

    /// The jobs that the worker which was started last has finished, each with its name.
    async fn finished_jobs(&self) -> Vec<String>;
}

/// The worker's last sign of life is the beginning of its push, and its claim expires five minutes after that. On a
/// busy machine the push has lasted for some time when the worker is dead and the watch begins.
const RESUMED_AFTER: Duration = Duration::from_mins(4);
const RESUMED_BEFORE: Duration = Duration::from_mins(7);

/// The flow of Octavia that creates a member.
const CREATION: &str = "get_create_member_flow";

/// The manager runs as it is shipped: it must leave the member to the other worker for the whole five minutes.
pub async fn leaves_it_to_the_jobboard(under: &impl Jobboard) {
    let contract = Contract::with(under).await;
    let orphaned = Orphaned::make(under, &contract, &[]).await;
    let control_plane = &orphaned.control_plane;

    let resumed = orphaned.until_resumed(&contract).await;
    let changes = orphaned.changes(under).await;
    assert!(
        resumed >= RESUMED_AFTER,
        "Octavia had a worker left: {resumed:?}"
    );
    assert!(
        changes.len() == 1 && is_creation(&changes[0]),
        "only the member's creation: {changes:#?}"
    );
    control_plane.until_admitted(1).await;
    assert_eq!(control_plane.id(&contract, 1).await, orphaned.member);
    until_true("the other worker has finished the creation", async || {
        let finished = under.finished_jobs().await;
        finished.iter().any(|job| job.contains(CREATION))
    })
    .await;
    orphaned.end(&contract).await;
}

/// The control: a threshold of a minute, which suits providers without a jobboard.
pub async fn repairs_it_before_the_jobboard_resumes_it(under: &impl Jobboard) {
    let contract = Contract::with(under).await;
    let orphaned = Orphaned::make(under, &contract, &["--member-orphan-after=1m"]).await;
    let control_plane = &orphaned.control_plane;

    until_true("the orphaned member is deleted", async || {
        let changes = orphaned.changes(under).await;
        let mut deletions = changes.iter().filter(|one| one.starts_with("DELETE "));
        deletions.any(|deletion| deletion.ends_with(&orphaned.member))
    })
    .await;
    let deleted = orphaned.since.elapsed();
    assert!(
        deleted < RESUMED_AFTER,
        "the jobboard might have been first: {deleted:?}"
    );
    control_plane.until_admitted(1).await;
    assert_ne!(control_plane.id(&contract, 1).await, orphaned.member);
    orphaned.end(&contract).await;
}

/// A control plane whose second member is PENDING_CREATE under an ACTIVE load balancer, because its worker died.
struct Orphaned {
    control_plane: ControlPlane,
    member: String,
    /// When its worker had ended.
    since: Instant,
    /// How many changes Octavia had been asked for before the member was created.
    earlier: usize,
}

impl Orphaned {
    async fn make(under: &impl Jobboard, contract: &Contract, flags: &[&str]) -> Self {
        under.use_jobboard().await;
        let control_plane =
            ControlPlane::create(under, &contract.name, "amphorav2", flags, None).await;
        control_plane.machine(0).await;
        control_plane.until_admitted(0).await;
        control_plane.until_all_active(contract).await;
        let earlier = under.changes().await.len();
        assert_ne!(under.finished_jobs().await, Vec::<String>::new());

        under.doom_worker(&control_plane.name(1)).await;
        control_plane.machine(1).await;
        control_plane
            .until_tree(contract, "the creation is under way", |tree| {
                tree.provisioning_status.is_pending() && control_plane.member(tree, 1).is_some()
            })
            .await;
        under.worker_died().await;
        let since = Instant::now();

        let tree = control_plane.tree(contract).await;
        let (listener, pool) = (&tree.listeners[0].name, &tree.pools[0].name);
        under.write_status(Kind::Pool, pool, "ACTIVE").await;
        under.write_status(Kind::Listener, listener, "ACTIVE").await;
        under
            .write_status(Kind::LoadBalancer, &tree.name, "ACTIVE")
            .await;
        Self {
            member: control_plane.id(contract, 1).await,
            control_plane,
            since,
            earlier,
        }
    }

    /// The changes that Octavia was asked for since the member's creation.
    async fn changes(&self, under: &impl Jobboard) -> Vec<String> {
        under.changes().await.split_off(self.earlier)
    }

    /// Watches that the machine is held for its member, and the member the same, until Octavia has made it ACTIVE.
    /// Returns how long this took from the death of the worker on.
    async fn until_resumed(&self, contract: &Contract) -> Duration {
        let control_plane = &self.control_plane;
        control_plane.held_for(1, "MemberPending").await;
        loop {
            let name = control_plane.name(1);
            let machine = control_plane
                .environment
                .cluster_api
                .get("OpenStackMachine", &name);
            let machine = machine.await.unwrap().unwrap();
            let tree = control_plane.tree(contract).await;
            let member = control_plane.member(&tree, 1).unwrap();
            assert_eq!(member.id.to_string(), self.member);
            assert_eq!(tree.provisioning_status, ACTIVE);
            let elapsed = self.since.elapsed();
            if member.provisioning_status == ACTIVE {
                return elapsed;
            }
            assert_eq!(
                member.provisioning_status,
                ProvisioningStatus::PendingCreate
            );
            assert!(
                !is_provisioned(&machine),
                "{name} was admitted: {machine:#}"
            );
            let (_, reason, message) = condition(&machine, "APIServerLoadBalancerReady").unwrap();
            assert_eq!(reason, "MemberPending", "{message}");
            assert!(elapsed < RESUMED_BEFORE, "no worker resumes the creation");
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }

    async fn end(self, contract: &Contract) {
        self.control_plane.delete_cluster().await;
        assert_eq!(
            leftovers(contract, &self.control_plane.cluster).await,
            Vec::<String>::new()
        );
    }
}

fn is_creation(change: &str) -> bool {
    change.starts_with("POST ") && change.ends_with("/members")
}
