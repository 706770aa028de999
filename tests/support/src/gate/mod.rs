//! Tests of the gate against any cloud, with the same manager, the same objects and the same anomalies of Octavia.
//!
//! A cluster with three kinds of bad members under an ACTIVE load balancer: one that stays PENDING_CREATE, one whose
//! push takes long, one whose push fails; then the further anomalies ([`anomalies`]). The gate must hold, with the
//! right reason, until the anomaly ends, and then open. `make test` runs this on the fake cloud and `make
//! test-openstack` on a real OpenStack. Then the same of releases ([`releases`]), and, on a real OpenStack alone, what
//! a jobboard resumes ([`jobboard`]).

#![allow(clippy::unwrap_used, reason = "a test's helper fails the test")]

mod anomalies;
mod jobboard;
mod releases;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    contract::{CloudUnderTest, Contract, Pushes},
    env::{
        DataPath,
        apply::apply,
        cluster_api::{condition, is_provisioned},
        scripted_cluster::{NAMESPACE, machine_spec, open_stack_cluster},
    },
    replay::{ReplayEnvironment, identity, leftovers},
};

pub use jobboard::{
    Jobboard, leaves_it_to_the_jobboard, repairs_it_before_the_jobboard_resumes_it,
};
pub use releases::lets_machines_go;

/// How long an anomaly is watched.
const WATCHED: Duration = Duration::from_secs(8);

/// Thresholds short enough for a test. A PENDING member is not repaired while it is watched for [`WATCHED`].
const FLAGS: [&str; 5] = [
    "--sync-period=10s",
    "--member-orphan-after=20s",
    "--member-warn-after=20s",
    "--member-alert-after=25s",
    "--member-stuck-after=30s",
];

/// A cluster of control-plane machines under one manager.
struct ControlPlane {
    cluster: String,
    environment: ReplayEnvironment,
}

/// The scenario.
pub async fn holds_as_long_as_octavia_lies(under: &impl CloudUnderTest) {
    let contract = Contract::with(under).await;
    let control_plane =
        ControlPlane::create(under, &contract.name, "amphorav2", &FLAGS, None).await;

    control_plane.machine(0).await;
    control_plane.until_admitted(0).await;

    // PENDING_CREATE under an ACTIVE load balancer.
    under.hold(&control_plane.name(1), "PENDING_CREATE").await;
    control_plane.machine(1).await;
    control_plane.held_for(1, "MemberPending").await;
    under.release(&control_plane.name(1)).await;
    control_plane.until_admitted(1).await;

    // A push that takes long: the load balancer is PENDING too.
    under.pushes(Pushes::Slow(15)).await;
    control_plane.machine(2).await;
    control_plane
        .held_for(2, "MemberPending LoadBalancerPending MemberMissing")
        .await;
    under.pushes(Pushes::Normal).await;
    control_plane.until_admitted(2).await;

    // A push that fails: the member is in ERROR, all else is ACTIVE. The first repair comes at once: the member is
    // deleted, which fails too, and created again.
    under.pushes(Pushes::Failing).await;
    let since = control_plane.log().len();
    control_plane.machine(3).await;
    control_plane
        .held_for(
            3,
            "MemberError MemberPending MemberDraining LoadBalancerPending MemberMissing",
        )
        .await;
    control_plane.until_error_is_reported(3, since).await;
    under.pushes(Pushes::Normal).await;
    control_plane.until_admitted(3).await;

    control_plane.meets_the_anomalies(under, &contract).await;
    control_plane.delete_cluster().await;
    assert_eq!(
        leftovers(&contract, &control_plane.cluster).await,
        Vec::<String>::new()
    );
}

impl ControlPlane {
    /// If the manager should reach the endpoint, a data path is played.
    async fn create(
        under: &impl CloudUnderTest,
        name: &str,
        provider: &str,
        flags: &[&str],
        data_path: Option<&DataPath>,
    ) -> Self {
        let variables = data_path.map(DataPath::variables).unwrap_or_default();
        let environment = ReplayEnvironment::start(under, flags, variables).await;
        if let Some(data_path) = data_path {
            let authority = authority(name, data_path);
            apply(&environment.admin, &[authority]).await.unwrap();
        }
        let provider = json!({"apiServer": {"managedLoadBalancer": {"provider": provider}}});
        let object = open_stack_cluster(NAMESPACE, name, &identity(), &provider);
        environment.cluster_api.create_cluster(name, object).await;
        let cluster_api = &environment.cluster_api;
        cluster_api
            .until_provisioned("OpenStackCluster", name)
            .await;
        Self {
            cluster: name.to_owned(),
            environment,
        }
    }

    fn name(&self, index: usize) -> String {
        format!("{}-cp-{index}", self.cluster)
    }

    async fn machine(&self, index: usize) {
        let spec = machine_spec(&identity(), "cirros");
        self.environment
            .cluster_api
            .create_machine(&self.cluster, &self.name(index), true, spec)
            .await;
    }

    async fn until_admitted(&self, index: usize) {
        self.environment
            .cluster_api
            .until_object("Machine", &self.name(index), |machine| {
                !machine["status"]["nodeRef"].is_null()
            })
            .await;
    }

    /// Waits until the machine's server runs, then watches for [`WATCHED`] that it is not admitted and that the
    /// condition gives one of these reasons.
    async fn held_for(&self, index: usize, reasons: &str) {
        let name = self.name(index);
        let expected = |machine: &Value| {
            condition(machine, "APIServerLoadBalancerReady")
                .is_some_and(|(_, reason, _)| reasons.split(' ').any(|one| one == reason))
        };
        self.environment
            .cluster_api
            .until_object("OpenStackMachine", &name, |machine| {
                assert!(!is_provisioned(machine), "{name} was admitted: {machine:#}");
                expected(machine)
            })
            .await;
        let begun = Instant::now();
        while begun.elapsed() < WATCHED {
            let machine = self
                .environment
                .cluster_api
                .get("OpenStackMachine", &name)
                .await;
            let machine = machine.unwrap().unwrap();
            assert!(
                !is_provisioned(&machine),
                "{name} was admitted: {machine:#}"
            );
            assert!(expected(&machine), "another reason: {machine:#}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until the machine's member was reported in ERROR since the log had this length, either by the condition or
    /// by the log. The log has every change, even if the repair was over before the next pass.
    async fn until_error_is_reported(&self, index: usize, since: usize) {
        let name = self.name(index);
        let is_logged = || {
            self.log()[since..].lines().any(|line| {
                line.contains("Member changed") && line.contains(&name) && line.contains("ERROR")
            })
        };
        self.environment
            .cluster_api
            .until_object("OpenStackMachine", &name, |machine| {
                condition(machine, "APIServerLoadBalancerReady")
                    .is_some_and(|(_, shown, _)| shown == "MemberError")
                    || is_logged()
            })
            .await;
    }

    /// The log of the manager so far.
    fn log(&self) -> String {
        std::fs::read_to_string(self.environment.manager.process.log()).unwrap()
    }

    async fn delete_cluster(&self) {
        self.environment
            .cluster_api
            .delete("Cluster", &self.cluster)
            .await;
        self.environment
            .cluster_api
            .until_gone("Cluster", &self.cluster)
            .await;
    }
}

/// The Secret with the cluster's CA.
fn authority(cluster: &str, data_path: &DataPath) -> Value {
    let authority = data_path.authority();
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": format!("{cluster}-ca"), "namespace": "default"},
        "stringData": {"tls.crt": authority.certificate(), "tls.key": authority.key()},
    })
}
