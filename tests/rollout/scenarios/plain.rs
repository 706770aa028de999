//! Nothing goes wrong: every kind of rolling update, with API servers that are there at once and with ones that need 30
//! s, so that a new member fails its first checks and takes a while to be up.

use std::time::Duration;

use super::{assert_calls, complete};
use crate::{invariants::Promises, rollout::RolloutOptions};

/// From a server's start to the start of its API server.
pub(super) const SLOW: Duration = Duration::from_secs(30);

/// Replaces every machine of a control plane. The API servers of the new machines start after `boot`, if it is given.
async fn replace_all(options: RolloutOptions, boot: Option<Duration>) {
    let ports = 1 + options.more_ports.len();
    let replicas = usize::try_from(options.replicas).unwrap();
    let (rollout, proof) = complete(options).await;
    let before = rollout.machines.alive();
    if let Some(boot) = boot {
        rollout.machines.set_boot(boot);
    }
    rollout.roll().await;
    rollout.until_complete().await;
    let after = rollout.machines.alive();
    assert_eq!((before.len(), after.len()), (replicas, replicas));
    assert!(
        before.keys().all(|machine| !after.contains_key(machine)),
        "{before:?} {after:?}"
    );
    assert_calls(&proof.end(rollout, &Promises::of_ports(ports)).await, ports);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_machines_are_replaced() {
    let options = RolloutOptions {
        name: "plain",
        ..RolloutOptions::default()
    };
    replace_all(options, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_machines_behind_three_ports_are_replaced() {
    let options = RolloutOptions {
        name: "three-ports",
        more_ports: vec![9345, 8132],
        ..RolloutOptions::default()
    };
    replace_all(options, None).await;
}

/// A real HAProxy carries the connections, configured and reloaded as Octavia's amphorae do it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_machines_behind_haproxy_are_replaced() {
    let options = RolloutOptions {
        name: "haproxy",
        haproxy: true,
        ..RolloutOptions::default()
    };
    replace_all(options, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_machines_behind_haproxy_are_replaced_by_slow_ones() {
    let options = RolloutOptions {
        name: "haproxy-slow",
        haproxy: true,
        ..RolloutOptions::default()
    };
    replace_all(options, Some(SLOW)).await;
}

/// HAProxy sends nothing to the new member before its checks have succeeded, so the old machine stays until then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_machine_behind_haproxy_is_replaced_by_a_slow_one() {
    let options = RolloutOptions {
        name: "haproxy-one-slow",
        replicas: 1,
        haproxy: true,
        ..RolloutOptions::default()
    };
    replace_all(options, Some(SLOW)).await;
}

/// OVN's provider, which neither drains nor tries another member, with health monitors.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_machines_behind_ovn_are_replaced() {
    let options = RolloutOptions {
        name: "plain-ovn",
        provider: "ovn",
        ..RolloutOptions::default()
    };
    replace_all(options, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_machines_are_replaced_by_slow_ones() {
    let options = RolloutOptions {
        name: "plain-slow",
        ..RolloutOptions::default()
    };
    replace_all(options, Some(SLOW)).await;
}

/// Without the gate, every update of a single machine causes an outage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_machine_is_replaced() {
    let options = RolloutOptions {
        name: "one",
        replicas: 1,
        ..RolloutOptions::default()
    };
    replace_all(options, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_machine_is_replaced_by_a_slow_one() {
    let options = RolloutOptions {
        name: "one-slow",
        replicas: 1,
        ..RolloutOptions::default()
    };
    replace_all(options, Some(SLOW)).await;
}

/// KubeadmControlPlane deletes an old machine before it creates a new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_old_machine_goes_first() {
    let options = RolloutOptions {
        name: "no-surge",
        max_surge: 0,
        ..RolloutOptions::default()
    };
    replace_all(options, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_old_machine_goes_first_and_the_new_one_is_slow() {
    let options = RolloutOptions {
        name: "no-surge-slow",
        max_surge: 0,
        ..RolloutOptions::default()
    };
    replace_all(options, Some(SLOW)).await;
}
