//! What runs on any cloud, on the fake cloud: the contract, the lives of clusters and servers, and the gate. Each check
//! has a cloud of its own.

use fake_cloud::{AssumedHealth, Command, Durations, FakeCloud, Hold, OperationRule, Options};
use serde_json::json;

use crate::contract::{Access, CloudUnderTest, Kind, Pushes, ServerState};
use test_support::contract_tests;

contract_tests!(fake);

mod replay {
    use super::quick as fake;

    test_support::replay_tests!(fake);
}

async fn fake() -> Fake {
    Fake(FakeCloud::start(options()).await.unwrap())
}

/// Load balancers that forward nothing, as those of the real services that tests use.
async fn quick() -> Fake {
    let options = Options {
        data_path: false,
        ..options()
    };
    Fake(FakeCloud::start(options).await.unwrap())
}

fn options() -> Options {
    Options {
        durations: Durations {
            // Changes take long enough for every check of what is refused in the meantime.
            load_balancer_create: 3.0,
            operation: 0.2,
            // A load balancer is ACTIVE before its listeners. Here the time between them is so long that every check
            // notices it.
            step: 0.3,
            ..Durations::default()
        },
        ..Options::default()
    }
}

struct Fake(FakeCloud);

impl CloudUnderTest for Fake {
    fn access(&self) -> Access {
        Access {
            auth_url: self.0.auth_url(),
            user: "demo".into(),
            password: "secret".into(),
            project: "demo".into(),
        }
    }

    async fn pushes(&self, pushes: Pushes) {
        let control = self.0.control();
        control
            .command(Command::Clear("operations".into()))
            .unwrap();
        let rule = match pushes {
            Pushes::Normal => return,
            Pushes::Slow(seconds) => OperationRule {
                duration: Some(f64::from(seconds)),
                ..OperationRule::default()
            },
            Pushes::Failing => OperationRule {
                fail: true,
                ..OperationRule::default()
            },
        };
        control.command(Command::Operation(rule)).unwrap();
    }

    async fn hold(&self, suffix: &str, status: &str) {
        let hold = Hold {
            member: suffix.to_owned(),
            status: serde_json::from_value(status.into()).unwrap(),
            count: None,
            release_after: None,
            now: false,
        };
        self.0.control().command(Command::Hold(hold)).unwrap();
    }

    async fn release(&self, suffix: &str) {
        self.0
            .control()
            .command(Command::Release(suffix.to_owned()))
            .unwrap();
    }

    fn operator(&self) -> Access {
        Access {
            user: "admin".into(),
            project: "admin".into(),
            ..self.access()
        }
    }

    async fn lose(&self, suffix: &str, status: &str) {
        let hold = json!({"hold": {"member": suffix, "status": status, "count": 1}});
        self.0.control().run(hold).unwrap();
    }

    async fn write_status(&self, kind: Kind, name: &str, status: &str) {
        let kind = match kind {
            Kind::LoadBalancer => "loadbalancer",
            Kind::Listener => "listener",
            Kind::Pool => "pool",
            Kind::Member => "member",
        };
        let write = json!({"set_status": {"object": name, "kind": kind, "provisioning": status}});
        self.0.control().run(write).unwrap();
    }

    async fn write_server_state(&self, name: &str, state: ServerState) {
        let status = match state {
            ServerState::Active => "ACTIVE",
            ServerState::Error => "ERROR",
            ServerState::SoftDeleted => "SOFT_DELETED",
        };
        let write = json!({"set_server": {"server": name, "status": status}});
        self.0.control().run(write).unwrap();
    }

    async fn doom_worker(&self, suffix: &str) {
        let rule = json!({"operation": {"name": suffix, "anomaly": "worker-killed", "count": 1}});
        self.0.control().run(rule).unwrap();
    }

    async fn worker_died(&self) {}
}

#[tokio::test]
async fn the_gate_holds_as_long_as_octavia_lies() {
    Box::pin(test_support::gate::holds_as_long_as_octavia_lies(
        &fake().await,
    ))
    .await;
}

/// Behind amphorae that do not run, as those of the real services that tests use: no clients are served and no health
/// is reported.
async fn lets_machines_go(provider: &str) {
    let options = Options {
        data_path: false,
        assumed_health: AssumedHealth::Silent,
        ..options()
    };
    let cloud = Fake(FakeCloud::start(options).await.unwrap());
    Box::pin(test_support::gate::lets_machines_go(&cloud, provider)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gate_lets_machines_go_that_others_replace() {
    lets_machines_go("amphorav2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gate_lets_machines_go_where_weights_are_ignored() {
    lets_machines_go("ovn").await;
}
