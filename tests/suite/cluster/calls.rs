//! Counts of the calls for a cluster, including the reads during operations of Octavia.

use std::time::Duration;

use capo_core::Priority;
use capo_openstack::network::{RouterInterface, Tagged};
use fake_cloud::{Call, Durations, Options, Service};
use serde_json::{Value, json};
use test_support::{env::Environment, waiting::until};

use crate::machine::machine_spec;

/// The most calls that make a cluster Ready.
const MOST_CALLS: usize = 30;
/// The most of them that change something.
const MOST_WRITES: usize = 14;
/// The most calls of a pass over a cluster with three control-plane machines when nothing has changed.
const MOST_STEADY: usize = 8;
/// The number of passes that are counted. Values that hardly ever change are read in every fourth pass.
const STEADY_PASSES: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creating_a_cluster_takes_few_calls() {
    let options = Options {
        durations: Durations {
            load_balancer_create: 4.0,
            operation: 0.5,
            ..Durations::instant()
        },
        data_path: false,
        ..Options::default()
    };
    let environment = Environment::in_namespace("cluster-calls")
        .cloud(options)
        .gate(capo_gate::Settings::default())
        .start()
        .await;
    let infrastructure = environment.cluster("c1", json!({"tags": null}));
    environment
        .cluster_api
        .create_cluster("c1", infrastructure)
        .await;
    environment.until_ready("c1").await;
    let calls = counted(&environment, 0).into_iter();
    let counted: Vec<String> = calls
        .map(|call| format!("{} {}", call.method, call.label))
        .collect();
    let writes = counted
        .iter()
        .filter(|call| !call.starts_with("GET "))
        .count();
    assert!(
        counted.len() <= MOST_CALLS && writes <= MOST_WRITES,
        "{} calls, {writes} writes: {counted:#?}",
        counted.len()
    );
    environment.delete("c1").await;
}

/// A number of calls, to compare with a time.
fn count(calls: usize) -> f64 {
    f64::from(u32::try_from(calls).unwrap())
}

/// The calls since number `since`, without sign-ins and discovery.
fn counted(environment: &Environment, since: u64) -> Vec<Call> {
    let mut calls = environment.cloud.control().calls_since(since);
    calls.retain(|call| {
        !["token_create", "version", "network_extension_list"].contains(&call.label.as_str())
    });
    calls
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pass_over_a_cluster_in_which_nothing_changes_takes_few_calls() {
    const SYNC_PERIOD: Duration = Duration::from_secs(4);
    let mut environment = Environment::in_namespace("steady-calls").start().await;
    environment
        .cluster_api
        .create_cluster("c1", environment.cluster("c1", json!({})))
        .await;
    environment.until_ready("c1").await;
    for name in ["m0", "m1", "m2"] {
        environment
            .cluster_api
            .create_machine("c1", name, true, machine_spec())
            .await;
    }
    for name in ["m0", "m1", "m2"] {
        environment
            .until_provisioned("OpenStackMachine", name)
            .await;
    }
    // New machines are admitted before their members are enabled.
    until("every member is enabled", async || {
        let cloud = environment.cloud.control().dump();
        let balancer = &cloud["load_balancers"][0];
        let members = balancer["pools"][0]["members"].as_array()?;
        let is_enabled = |member: &Value| member["admin_state_up"] == true;
        let is_applied = balancer["provisioning_status"] == "ACTIVE";
        (is_applied && members.iter().all(is_enabled)).then_some(())
    })
    .await;
    environment.stop().await;
    environment.sync_period = SYNC_PERIOD;
    environment.settings = capo_gate::Settings {
        schedule: capo_gate::Schedule {
            steady: SYNC_PERIOD,
            ..environment.settings.schedule.clone()
        },
        ..environment.settings.clone()
    };
    let restarted = environment.cloud.control().last_call();
    environment.start().await;
    // The first pass after a start reads everything.
    let is_pass = |call: &&Call| call.label == "subnet_list";
    let passes = |calls: &[Call]| calls.iter().filter(is_pass).count();
    until("the passes after the start", async || {
        (passes(&counted(&environment, restarted)) >= 3).then_some(())
    })
    .await;
    let since = environment.cloud.control().last_call();
    let calls = until("steady passes", async || {
        let calls = counted(&environment, since);
        (passes(&calls) > STEADY_PASSES).then_some(calls)
    })
    .await;
    let labels: Vec<&str> = calls.iter().map(|call| call.label.as_str()).collect();
    assert_eq!(environment.writes_since(since), Vec::<String>::new());
    // With every sixth read of the tree, the values are read that the tree does not have.
    let is_octavia = |call: &&Call| call.service == Service::LoadBalancer;
    let octavia = calls.iter().filter(is_octavia);
    let trees = octavia
        .clone()
        .filter(|call| call.label == "loadbalancer_status_tree");
    let (octavia, trees) = (octavia.count(), trees.count());
    // The times are those of the cloud's clock, because a busy machine delays each pass differently.
    let lasted = calls.last().unwrap().at - calls[0].at;
    let rounds = lasted / SYNC_PERIOD.as_secs_f64();
    // The time between two reads varies by a fifth.
    let most = rounds * 1.25 + 1.0;
    assert!(
        count(trees) <= most,
        "{trees} trees in {rounds:.1} rounds: {labels:?}"
    );
    let others = calls.len() - octavia;
    let passes = count(passes(&calls)).max(rounds);
    assert!(
        count(others) <= passes * count(MOST_STEADY - 1),
        "{others} other calls in {passes:.1} passes: {labels:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_by_hand_is_seen_by_passes_that_read_little() {
    let mut environment = Environment::in_namespace("steady-drift").start().await;
    let cluster = environment.cluster("c1", json!({"apiServer": {"enableFloatingIP": false}}));
    environment.cluster_api.create_cluster("c1", cluster).await;
    let made = environment.until_ready("c1").await;
    environment.stop().await;
    environment.sync_period = Duration::from_secs(1);
    environment.start().await;
    environment.until_ready("c1").await;
    let cloud = environment.openstack();
    let id = |field: &str| made["status"][field]["id"].as_str().unwrap().to_owned();
    let (network, router) = (id("network"), id("router"));
    let group = id("controlPlaneSecurityGroup");
    for object in [
        Tagged::Network(&network.as_str().into()),
        Tagged::Router(&router.as_str().into()),
        Tagged::SecurityGroup(&group.as_str().into()),
    ] {
        cloud
            .replace_tags(object, &[], Priority::Gate)
            .await
            .unwrap();
    }
    let subnet = made["status"]["network"]["subnets"][0]["id"].as_str();
    let interface = RouterInterface::Subnet(&subnet.unwrap().into());
    cloud
        .remove_router_interface(&router.as_str().into(), interface, Priority::Gate)
        .await
        .unwrap();
    until("all of it is mended", async || {
        let cloud = environment.cloud.control().dump();
        let rows = |kind: &str| {
            cloud["network"][kind]
                .as_array()
                .cloned()
                .unwrap_or_default()
        };
        let has_tag = |kind: &str, id: &str| {
            let mut rows = rows(kind).into_iter().filter(|row| row["id"] == id);
            rows.any(|row| row["tags"] == json!(["of-steady-drift-c1"]))
        };
        let is_joined = rows("ports").iter().any(|port| {
            port["device_id"] == router.as_str()
                && port["fixed_ips"][0]["subnet_id"] == subnet.unwrap()
        });
        let tagged = has_tag("networks", &network)
            && has_tag("routers", &router)
            && has_tag("security_groups", &group);
        (tagged && is_joined).then_some(())
    })
    .await;
}
