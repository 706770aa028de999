//! All ways in which Octavia shows an ACTIVE load balancer with a member that is not ACTIVE, and all ways in which
//! ACTIVE does not mean that a member serves. The manager runs as a process, with a real kube-apiserver and a scripted
//! Cluster API. Each scenario has an OpenStack of its own with its own anomaly.
//!
//! Scenarios run side by side under one manager ([`shared_environment`]). During a scenario, a [`watch`] compares each
//! decision of the gates with the state of the cloud at that moment. `make test` runs one scenario of each kind, `make
//! rollout` runs all of them; `CAPO_RS_SCENARIO` selects those with a text in their name.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test's helper fails the test"
)]

pub mod cluster_under_test;
mod failed;
mod lost;
mod providers;
mod shared_environment;
mod situations;
mod stuck;
pub mod truth;
mod until;
mod untrue;
pub mod watch;

use std::{pin::Pin, sync::Arc, time::Instant};

use tokio::sync::Semaphore;

/// The number of scenarios at the same time. More of them would only wait for each other on two cores.
const AT_ONCE: usize = 16;

type Play = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One scenario: its namespace and its steps.
pub struct Scenario {
    name: &'static str,
    play: fn(&'static str) -> Play,
}

/// A list of scenarios. Each function takes the name of its namespace.
macro_rules! scenarios {
    ($($name:literal: $play:path,)+) => {
        vec![$($crate::anomalies::Scenario { name: $name, play: |name| Box::pin($play(name)) },)+]
    };
}
use scenarios;

/// All scenarios.
fn all() -> Vec<Scenario> {
    let lists = [
        failed::all(),
        lost::all(),
        untrue::all(),
        stuck::all(),
        providers::all(),
        situations::all(),
    ];
    lists.into_iter().flatten().collect()
}

/// Runs the scenarios of these names side by side, or all of them. It fails if one fails, and names it.
pub async fn play(names: &[&str]) {
    let mut scenarios = all();
    if !names.is_empty() {
        scenarios.retain(|scenario| names.contains(&scenario.name));
        assert_eq!(scenarios.len(), names.len(), "a scenario has another name");
    }
    let only = std::env::var("CAPO_RS_SCENARIO").unwrap_or_default();
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let playing: Vec<_> = scenarios
        .into_iter()
        .filter(|scenario| scenario.name.contains(&only))
        .map(|Scenario { name, play }| {
            let room = Arc::clone(&room);
            let playing = async move {
                let _place = room.acquire_owned().await.unwrap();
                let begun = Instant::now();
                play(name).await;
                println!("{name}: passed, {:.0} s", begun.elapsed().as_secs_f64());
            };
            (name, tokio::spawn(playing))
        })
        .collect();
    let mut failed = Vec::new();
    for (name, playing) in playing {
        if playing.await.is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "scenarios that failed: {failed:?}");
}
