//! The scenarios: each is a script of what happens to a control plane, with faults at given moments.
//! `tests/rollout/README.md` has a table of them.

mod by_hand;
mod controls;
mod cost;
mod describe;
mod disturbed;
mod early;
mod endings;
mod held;
mod many;
mod mistaken;
mod modes;
mod octavia;
mod plain;
mod still_alive;
mod unanswered;
mod workers;

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{
    env::cluster_api::condition,
    invariants::figures::{Figures, Hold},
    rollout::proof::Proof,
    rollout::{GATE, HOOK, Rollout, RolloutOptions},
};

/// The gate's reasons while it waits for something that takes a while in every rollout.
const WAITS: [&str; 3] = ["MemberPending", "NoOtherMemberServing", "HealthUnavailable"];

/// The thresholds of a member that stays PENDING, so short that a hold of 20 s passes the last of them too. The
/// operation that is pending is not repeated: with amphorav2 that would happen at the second threshold.
const THRESHOLDS: [&str; 4] = [
    "--member-warn-after=5s",
    "--member-alert-after=10s",
    "--member-stuck-after=15s",
    "--member-orphan-after=12m",
];

/// A complete control plane, and a client that sends requests to it.
async fn complete(options: RolloutOptions) -> (Rollout, Proof) {
    let rollout = Rollout::start(options).await;
    rollout.until_complete().await;
    let proof = Proof::begin(&rollout).await;
    (rollout, proof)
}

/// What others rely on in the status of a Cluster: Cluster API calls it available, and a MachineHealthCheck judges its
/// workers.
const RELIED_ON: [&str; 2] = ["Available", "InfrastructureReady"];

/// The conditions of the Cluster that others rely on, which must be True, with the times of their last transitions.
/// Equal results at two moments show that none of them was anything else in between.
async fn standing(rollout: &Rollout) -> Vec<(&'static str, Value)> {
    let cluster = rollout.get("Cluster", &rollout.cluster).await.unwrap();
    let conditions = cluster["status"]["conditions"].as_array().unwrap();
    let one = |kind| {
        let mut found = conditions.iter();
        let found = found.find(|condition| condition["type"] == kind).unwrap();
        assert_eq!(found["status"], "True", "{found:#}");
        (kind, found["lastTransitionTime"].clone())
    };
    RELIED_ON.map(one).to_vec()
}

/// Returns when the OpenStackCluster calls a member stuck, which it does after the last of [`THRESHOLDS`].
async fn until_stuck(rollout: &Rollout) {
    let (kind, name) = ("OpenStackCluster", &rollout.cluster);
    rollout
        .until_object(kind, name, "calls a member stuck", |cluster| {
            condition(cluster, GATE)
                .is_some_and(|(_, _, message)| message.contains("stuck in a PENDING status"))
        })
        .await;
}

/// Checks for a while that a Machine which is being deleted keeps our hook.
async fn stays_hooked(rollout: &Rollout, machine: &str, how_long: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < how_long {
        let object = rollout.get("Machine", machine).await;
        let is_hooked =
            object.is_some_and(|machine| machine["metadata"]["annotations"][HOOK].is_string());
        assert!(is_hooked, "{machine} was let go");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// A machine that is replaced may cost 16 calls to Octavia: 8 until its successor's member is enabled and 8 for its own
/// release. Each further port may cost 10 more: a write and a read each for the creation, the enabling, the draining
/// and the removal of its member, and its member list for the first and for the last decision about the release. One
/// more is allowed for every 5 s in which the gate waited for a member's health, or for the end of PENDING.
fn assert_calls(figures: &Figures, ports: usize) {
    let for_each = 16 + 10 * (u64::try_from(ports).unwrap() - 1);
    let waits = |hold: &&Hold| {
        let mut reasons = hold.reasons.iter().map(String::as_str);
        reasons.any(|reason| WAITS.contains(&reason))
    };
    let waiting = figures.holds.iter().filter(waits);
    let looks: u64 = waiting.map(|hold| hold.lasted.as_secs() / 5).sum();
    let replaced = u64::try_from(figures.replaced).unwrap();
    assert!(
        figures.octavia_calls <= for_each * replaced + looks,
        "{} calls to Octavia for {replaced} machines and {looks} looks: {:#?}",
        figures.octavia_calls,
        figures.holds
    );
}
