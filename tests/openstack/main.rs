//! The tests that need a real OpenStack. `make test-openstack` starts one, tells the tests its address, and runs them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test's helper fails the test"
)]

mod haproxy;

use std::{path::PathBuf, process::Stdio};

use contract::{Access, CloudUnderTest, Kind, Pushes, ServerState};
use gate::Jobboard;
use test_support::{contract, contract_tests, gate, waiting::until_true};
use tokio::process::Command;

contract_tests!(real);

mod replay {
    use super::real;

    test_support::replay_tests!(real);
}

/// The OpenStack that `tests/support/openstack` installed and started.
struct RealOpenStack {
    root: PathBuf,
    auth_url: String,
    password: String,
}

/// A variable that `tests/openstack/run.sh` sets.
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run make test-openstack"))
}

async fn real() -> RealOpenStack {
    let cloud = RealOpenStack {
        root: variable("OPENSTACK_ENV_ROOT").into(),
        auth_url: variable("OPENSTACK_ENV_AUTH_URL"),
        password: variable("OPENSTACK_ENV_PASSWORD"),
    };
    cloud.pushes(Pushes::Normal).await;
    cloud.script("worker.sh", &["plain"]).await;
    cloud
}

impl RealOpenStack {
    async fn hold_script(&self, arguments: &[&str]) {
        self.script("hold.sh", arguments).await;
    }

    /// What the worker that was started last has logged.
    async fn worker_log(&self) -> String {
        let log = tokio::fs::read_to_string(self.root.join("log/octavia-worker.log")).await;
        let log = log.unwrap();
        let (_, last) = log.rsplit_once("Starting V2 consumer").unwrap_or_default();
        last.to_owned()
    }

    async fn script(&self, name: &str, arguments: &[&str]) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/support/openstack");
        let script = format!("{folder}/{name}");
        let status = Command::new(&script)
            .arg(&self.root)
            .args(arguments)
            .stdin(Stdio::null())
            .status()
            .await
            .unwrap();
        assert!(status.success(), "{script} {arguments:?}");
    }
}

impl CloudUnderTest for RealOpenStack {
    fn access(&self) -> Access {
        Access {
            auth_url: self.auth_url.clone(),
            user: "demo".into(),
            password: self.password.clone(),
            project: "demo".into(),
        }
    }

    async fn pushes(&self, pushes: Pushes) {
        let (delay, fail) = (
            self.root.join("run/octavia-delay"),
            self.root.join("run/octavia-fail"),
        );
        for file in [&delay, &fail] {
            // The file may not exist, so an error is ignored.
            let _ = tokio::fs::remove_file(file).await;
        }
        match pushes {
            Pushes::Normal => {}
            Pushes::Slow(seconds) => tokio::fs::write(delay, seconds.to_string()).await.unwrap(),
            Pushes::Failing => tokio::fs::write(fail, "").await.unwrap(),
        }
    }

    async fn hold(&self, suffix: &str, status: &str) {
        self.hold_script(&["set", suffix, status]).await;
    }

    async fn release(&self, suffix: &str) {
        self.hold_script(&["release", suffix]).await;
    }

    fn operator(&self) -> Access {
        Access {
            user: "admin".into(),
            project: "admin".into(),
            ..self.access()
        }
    }

    async fn lose(&self, suffix: &str, status: &str) {
        self.hold_script(&["lose", suffix, status]).await;
    }

    async fn write_status(&self, kind: Kind, name: &str, status: &str) {
        let table = match kind {
            Kind::LoadBalancer => "load_balancer",
            Kind::Listener => "listener",
            Kind::Pool => "pool",
            Kind::Member => "member",
        };
        self.hold_script(&["write", name, status, table]).await;
    }

    async fn write_server_state(&self, name: &str, state: ServerState) {
        let state = match state {
            ServerState::Active => "active",
            ServerState::Error => "error",
            ServerState::SoftDeleted => "soft-delete",
        };
        self.script("server.sh", &[name, state]).await;
    }

    /// The push takes so long that there is time to kill the worker.
    async fn doom_worker(&self, suffix: &str) {
        let delay = self.root.join("run/octavia-delay");
        tokio::fs::write(delay, format!("120 {suffix}"))
            .await
            .unwrap();
    }

    async fn worker_died(&self) {
        until_true("the worker pushes", async || {
            self.worker_log().await.contains(" sleeps 120")
        })
        .await;
        self.script("worker.sh", &["kill"]).await;
        self.pushes(Pushes::Normal).await;
        self.script("worker.sh", &["start"]).await;
    }
}

impl Jobboard for RealOpenStack {
    async fn use_jobboard(&self) {
        self.script("worker.sh", &["jobboard"]).await;
    }

    async fn changes(&self) -> Vec<String> {
        let log = tokio::fs::read_to_string(self.root.join("log/octavia-api.log")).await;
        // Date, zone, method, path, and the answer behind an arrow.
        let change = |line: &str| {
            let mut words = line.split(' ').skip(2);
            let (method, path) = (words.next()?, words.next()?);
            (["POST", "PUT", "DELETE"].contains(&method)).then(|| format!("{method} {path}"))
        };
        log.unwrap().lines().filter_map(change).collect()
    }

    async fn finished_jobs(&self) -> Vec<String> {
        let log = self.worker_log().await;
        let jobs = log.lines().filter_map(|line| {
            let (_, job) = line.split_once("Job completed successfully: ")?;
            Some(job.to_owned())
        });
        jobs.collect()
    }
}

#[tokio::test]
async fn the_gate_holds_as_long_as_octavia_lies() {
    Box::pin(gate::holds_as_long_as_octavia_lies(&real().await)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gate_lets_machines_go_that_others_replace() {
    Box::pin(gate::lets_machines_go(&real().await, "amphorav2")).await;
}

/// With the amphora provider under another name, and a data path that ignores weights.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gate_lets_machines_go_where_weights_are_ignored() {
    Box::pin(gate::lets_machines_go(&real().await, "ovn")).await;
}

#[tokio::test]
async fn the_gate_leaves_an_orphaned_member_to_the_jobboard() {
    Box::pin(gate::leaves_it_to_the_jobboard(&real().await)).await;
}

/// The control: the settings tell the manager not to wait for a jobboard.
#[tokio::test]
async fn the_gate_does_not_wait_for_the_jobboard_when_the_settings_say_so() {
    Box::pin(gate::repairs_it_before_the_jobboard_resumes_it(
        &real().await,
    ))
    .await;
}
