//! Negative controls: without the gate the same harness shows the failures that are reported of other providers, so the
//! proof of the other scenarios is able to fail.

use fake_cloud::Provisioning;
use serde_json::json;

use super::{complete, plain::SLOW};
use crate::{
    invariants::{Promises, Rule, World},
    rollout::proof::{Proof, RolloutResult},
    rollout::{Rollout, RolloutOptions},
    timeline::{ApiServer, Member, What},
};

/// The number of failed requests that counts as an outage.
const OUTAGE: usize = 100;
/// Octavia's answer to a request for a feature that the provider does not have.
const NOT_SUPPORTED: &str = r#"{"faultcode": "Server", "faultstring": "Provider does not support a requested option", "debuginfo": null}"#;

pub(super) fn without_the_gate(options: RolloutOptions) -> RolloutOptions {
    RolloutOptions {
        arguments: vec!["--load-balancer-gate=off"],
        ..options
    }
}

pub(super) async fn result(rollout: &Rollout, proof: Proof) -> RolloutResult {
    let promises = Promises {
        gate: false,
        ..Promises::default()
    };
    let result = proof.finish(rollout, &promises).await;
    crate::rollout::results::write(&rollout.cluster, &result.figures);
    result
}

fn failed(rollout: &Rollout) -> usize {
    let entries = rollout.timeline.entries();
    let failed = |what: &What| matches!(what, What::RequestFailed(_));
    entries.iter().filter(|entry| failed(&entry.what)).count()
}

/// The failure that is reported of other providers: new members stay PENDING_CREATE under an ACTIVE load balancer, and
/// their machines can't be reached. All machines are replaced nevertheless, and when the last old one is gone, no
/// member of the pool serves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_stay_pending_take_the_cluster_off_line() {
    let options = RolloutOptions {
        name: "off-pending",
        ..RolloutOptions::default()
    };
    off_line(options, leave_pending).await;
}

/// The same with new members that are left in ERROR.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_in_error_take_the_cluster_off_line() {
    let options = RolloutOptions {
        name: "off-error",
        ..RolloutOptions::default()
    };
    off_line(options, |_| {}).await;
}

/// Replaces machines while no new member gets an interface, until the client has seen the outage.
async fn off_line(options: RolloutOptions, meanwhile: impl Fn(&Rollout)) {
    let (rollout, proof) = complete(without_the_gate(options)).await;
    rollout.breaks(json!({"operation": {
        "operation": "member-create", "fail": true, "stage": "network",
    }}));
    rollout.roll().await;
    // That takes about a minute and a half on a quiet machine.
    rollout
        .until_some("there is an outage", async || {
            meanwhile(&rollout);
            (failed(&rollout) >= OUTAGE).then_some(())
        })
        .await;
    let mut world = World::default();
    for entry in rollout.timeline.entries() {
        world.learn(&entry.what);
    }
    let serving: Vec<_> = world
        .members
        .values()
        .filter(|member| member.taking && world.answers(&member.key.machine))
        .collect();
    assert!(serving.is_empty(), "the pool is not empty: {serving:?}");
    let result = result(&rollout, proof).await;
    let broken = &result.broken;
    assert!(
        broken.iter().any(|broken| broken.rule == Rule::Requests),
        "{broken:?}"
    );
}

/// The creation of the members fails, and Octavia's write of the status ERROR is lost.
fn leave_pending(rollout: &Rollout) {
    let name = format!(
        "k8s-clusterapi-cluster-{}-{}-kubeapi",
        rollout.namespace, rollout.cluster
    );
    let (_, balancers) = rollout.cloud.control().load_balancers(&name);
    let pools = balancers.iter().flat_map(|(balancer, _)| &balancer.pools);
    for member in pools.flat_map(|pool| &pool.members) {
        if !member.plugged && member.head.provisioning == Provisioning::Error {
            let command = json!({"set_status": {
                "object": member.head.id, "provisioning": "PENDING_CREATE",
            }});
            rollout.cloud.control().run(command).unwrap();
        }
    }
}

/// Without any fault requests fail, because KubeadmControlPlane stops the API server before Octavia has removed its
/// member.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_are_removed_late_lose_requests() {
    let rollout = Rollout::start(without_the_gate(without_retries("off-late"))).await;
    let (rollout, proof) = without_a_monitor(rollout).await;
    // On a busy machine KubeadmControlPlane needs more than the usual six seconds to stop the API server.
    rollout.mends(json!({"clear": "operations"}));
    rollout.breaks(json!({"operation": {"operation": "member-delete", "duration": 20}}));
    rollout.roll().await;
    rollout.until_complete().await;
    let dead = |api_server: Option<&ApiServer>| api_server == Some(&ApiServer::Killed);
    let lost = lost_to(&rollout, dead);
    let result = result(&rollout, proof).await;
    assert_eq!(result.figures.replaced, 3);
    assert!(lost > 0, "no request was lost:\n{}", result.page);
}

/// The same cloud with the gate: each member is removed before its API server dies, and each new member gets
/// connections only when its API server answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_are_removed_in_time_lose_none() {
    let rollout = Rollout::start(without_retries("in-time")).await;
    let (rollout, proof) = without_a_monitor(rollout).await;
    rollout.roll().await;
    rollout.until_complete().await;
    let figures = proof.end(rollout, &Promises::default()).await;
    assert_eq!((figures.replaced, figures.failed), (3, 0));
}

/// The only machine is replaced by one whose API server starts 30 s after its server. Without the gate the new member
/// gets clients all this time, and every second request is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_joins_long_before_its_api_server_is_up_loses_requests() {
    let options = without_the_gate(one_machine(without_retries("off-joining")));
    let (rollout, proof) = without_a_monitor(Rollout::start(options).await).await;
    roll_slowly(&rollout).await;
    let joins = |api_server: Option<&ApiServer>| {
        !matches!(api_server, Some(ApiServer::Ready | ApiServer::Killed))
    };
    let lost = lost_to(&rollout, joins);
    let result = result(&rollout, proof).await;
    assert_eq!(result.figures.replaced, 1);
    assert!(lost > 0, "no request was lost:\n{}", result.page);
}

/// The same with the gate: the new member gets no clients until its API server answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_joins_when_its_api_server_is_up_loses_none() {
    let options = one_machine(without_retries("one-in-time"));
    let (rollout, proof) = without_a_monitor(Rollout::start(options).await).await;
    roll_slowly(&rollout).await;
    let figures = proof.end(rollout, &Promises::default()).await;
    assert_eq!((figures.replaced, figures.failed), (1, 0));
}

fn one_machine(options: RolloutOptions) -> RolloutOptions {
    RolloutOptions {
        replicas: 1,
        ..options
    }
}

/// Replaces all machines by machines whose API servers start late.
async fn roll_slowly(rollout: &Rollout) {
    rollout.machines.set_boot(SLOW);
    rollout.roll().await;
    rollout.until_complete().await;
}

/// OVN's balancer, which does not try another member when one refuses, and can't drain.
fn without_retries(name: &'static str) -> RolloutOptions {
    RolloutOptions {
        name,
        provider: "ovn",
        ..RolloutOptions::default()
    }
}

/// The provider knows no health monitors, so only the gate looks whether a member answers. Its removals take long.
pub(super) async fn without_a_monitor(rollout: Rollout) -> (Rollout, Proof) {
    rollout.breaks(json!({"fault": {
        "match": {"label": "loadbalancer_healthmonitor_create"}, "status": 501, "body": NOT_SUPPORTED,
    }}));
    rollout.breaks(json!({"operation": {"operation": "member-delete", "duration": 6}}));
    rollout.until_complete().await;
    let proof = Proof::begin(&rollout).await;
    (rollout, proof)
}

/// The number of requests that failed while the data path had a member whose API server `is_such`. The argument is
/// `None` if the API server of the machine was not started yet.
fn lost_to(rollout: &Rollout, is_such: impl Fn(Option<&ApiServer>) -> bool) -> usize {
    let mut world = World::default();
    let mut lost = 0;
    for entry in rollout.timeline.entries() {
        if matches!(entry.what, What::RequestFailed(_)) {
            let refuses = |member: &Member| {
                member.taking && is_such(world.api_servers.get(&member.key.machine))
            };
            lost += usize::from(world.members.values().any(refuses));
        }
        world.learn(&entry.what);
    }
    lost
}
