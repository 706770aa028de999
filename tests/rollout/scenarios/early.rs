//! What a client notices of a member that joins: nothing with the gate. Without it, requests wait until the API server
//! of the member is up.

use std::time::Duration;

use super::controls::{result, without_a_monitor, without_the_gate};
use crate::{
    invariants::{Promises, Rule},
    rollout::{Rollout, RolloutOptions},
};

/// How long the new API server accepts connections before it answers. An API server that starts on a slow machine
/// behaves like this.
const SILENCE: Duration = Duration::from_secs(3);

/// One machine is replaced with the gate, and one without, side by side on equally busy processors. The provider has no
/// health monitors, so only the gate checks whether a member answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_joins_before_its_api_server_is_up_delays_requests() {
    let gated = one_machine("on-early");
    let ungated = one_machine("off-early");
    Box::pin(only_the_gate_spares_clients(gated, ungated)).await;
}

/// The same through a real HAProxy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_joins_before_its_api_server_is_up_delays_requests_through_haproxy() {
    let gated = through_haproxy("on-early-haproxy");
    let ungated = through_haproxy("off-early-haproxy");
    Box::pin(only_the_gate_spares_clients(gated, ungated)).await;
}

async fn only_the_gate_spares_clients(gated: RolloutOptions, ungated: RolloutOptions) {
    let ((with, proof), (without, control)) = tokio::join!(
        async { without_a_monitor(Rollout::start(gated).await).await },
        async { without_a_monitor(Rollout::start(without_the_gate(ungated)).await).await },
    );
    tokio::join!(roll(&with), roll(&without));
    let result = result(&without, control).await;
    let figures = proof.end(with, &Promises::default()).await;
    assert_eq!((figures.replaced, figures.failed), (1, 0));
    let broken = &result.broken;
    assert!(
        broken.iter().any(|broken| broken.rule == Rule::Prompt),
        "no request was slow: {broken:?}\n{}",
        result.page
    );
}

fn one_machine(name: &'static str) -> RolloutOptions {
    RolloutOptions {
        name,
        replicas: 1,
        ..RolloutOptions::default()
    }
}

fn through_haproxy(name: &'static str) -> RolloutOptions {
    RolloutOptions {
        haproxy: true,
        ..one_machine(name)
    }
}

async fn roll(rollout: &Rollout) {
    rollout.machines.set_silence(SILENCE);
    rollout.roll().await;
    rollout.until_complete().await;
}
