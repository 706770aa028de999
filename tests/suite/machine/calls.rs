//! What servers cost OpenStack, counted.

use std::time::Duration;

use fake_cloud::{Call, Durations, Options, Service};
use serde_json::{Value, json};
use test_support::{
    env::{
        Environment,
        apply::apply,
        environment::{is, quick_cloud},
    },
    waiting::until,
};

use super::{machine_spec, stand_alone::server};

/// Calls since number `since`, without sign-ins and discovery.
fn calls(environment: &Environment, since: u64) -> Vec<Call> {
    let mut calls = environment.cloud.control().calls_since(since);
    calls.retain(|call| {
        !["token_create", "version", "network_extension_list"].contains(&call.label.as_str())
    });
    calls
}

fn labels(calls: &[Call]) -> Vec<&str> {
    calls.iter().map(|call| call.label.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_plane_machine_costs_twelve_calls_and_further_ones_eight() {
    let environment = Environment::in_namespace("few-calls")
        .gate(capo_gate::Settings::default())
        .start()
        .await;
    let cluster = environment.cluster("c1", json!({}));
    let cluster_api = &environment.cluster_api;
    cluster_api.create_cluster("c1", cluster).await;
    environment.until_ready("c1").await;
    for (name, most) in [("m0", 12), ("m1", 8)] {
        let since = environment.cloud.control().last_call();
        cluster_api
            .create_machine("c1", name, true, machine_spec())
            .await;
        environment
            .until_provisioned("OpenStackMachine", name)
            .await;
        // A member that joins others gets traffic after its machine was admitted, which may be over by now.
        let calls = calls(&environment, since).into_iter();
        let calls: Vec<Call> = calls
            .take_while(|call| call.label != "loadbalancer_member_update")
            .collect();
        let at: Vec<_> = calls
            .iter()
            .map(|call| (call.at, call.label.as_str()))
            .collect();
        assert!(calls.len() <= most, "{name}: {at:?}");
        let to_octavia = |call: &&Call| call.service == Service::LoadBalancer;
        let to_octavia = calls.iter().filter(to_octavia).count();
        assert!(to_octavia <= 2, "{name}: {:?}", labels(&calls));
    }
}

/// How many servers are created at once.
const HUNDRED: usize = 100;

/// Reads of Nova's servers.
fn server_reads(calls: &[Call]) -> usize {
    let of_servers = |call: &&Call| ["server_get", "server_list"].contains(&call.label.as_str());
    calls.iter().filter(of_servers).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_servers_share_their_reads_while_they_are_created_and_when_they_are_settled() {
    let cloud = Options {
        durations: Durations {
            server_build: 60.0,
            ..Durations::instant()
        },
        ..quick_cloud()
    };
    let mut environment = Environment::in_namespace("hundred")
        .cloud(cloud)
        .shipped_client()
        .start()
        .await;
    let network = environment.network("n").await;
    let names: Vec<String> = (0..HUNDRED).map(|number| format!("s-{number}")).collect();
    let servers: Vec<Value> = names
        .iter()
        .map(|name| server(&environment, name, &network))
        .collect();
    let since = environment.cloud.control().last_call();
    apply(&environment.admin, &servers).await.unwrap();
    for name in &names {
        environment
            .until_object("OpenStackServer", name, |server| {
                is(server, "Ready", "True")
            })
            .await;
    }
    let mut all = calls(&environment, since);
    assert_eq!(environment.cloud.control().duplicates(), []);
    let at: Vec<_> = all
        .iter()
        .map(|call| (call.at.round(), call.label.as_str(), call.path.as_str()))
        .collect();
    let shown = format!("{at:?}");
    assert!(server_reads(&all) <= 60, "{shown}");
    all.retain(|call| call.method == "GET");
    let of_nova = server_reads(&all);
    assert!(all.len() - of_nova <= 30, "{shown}");

    // From now on nothing happens but the passes of the sync period.
    environment.stop().await;
    environment.sync_period = Duration::from_secs(4);
    let passes = environment.server_passes();
    environment.start().await;
    let more = async |passes: u64| {
        until("passes over servers", async || {
            (environment.server_passes() >= passes).then_some(())
        })
        .await;
    };
    let first = passes + 2 * HUNDRED as u64;
    more(first).await;
    let since = environment.cloud.control().last_call();
    let before = environment.server_passes();
    more(before + 4 * HUNDRED as u64).await;
    let spent = calls(&environment, since);
    let passes = environment.server_passes() - before;
    assert!(
        spent.len() as u64 * 20 <= passes,
        "{passes} passes: {:?}",
        labels(&spent)
    );
}
