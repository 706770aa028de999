//! The cost of load balancers while nothing is wrong, and that one that hangs does not affect the others.

use std::time::Duration;

use fake_cloud::{
    Call, CallMatch, Command, Control, Durations, FakeCloud, Fault, OperationRule, Options,
};
use futures::future::join_all;
use test_support::waiting::{until, until_true};

use super::{
    calls::{labels, load_balancer, octavia},
    measured_environment::{MeasuredEnvironment, Plan},
};

const ONE: Plan<'static> = plan("one", "amphora", &[]);
const THREE: Plan<'static> = plan("three", "ovn", &[8132, 9345]);
const HUNG: Plan<'static> = plan("hung", "amphora", &[]);
/// Seconds that the creation of a member takes.
const CREATION: f64 = 5.0;
/// The number of passes between two slow reads: every sixth pass also reads what the status tree does not have.
const PASSES: usize = 5;

const fn plan<'a>(name: &'a str, provider: &'a str, additional_ports: &'a [u16]) -> Plan<'a> {
    Plan {
        name,
        credentials: "cloud",
        provider,
        additional_ports,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_calls_while_nothing_is_wrong_and_no_cluster_waits_for_a_hung_load_balancer() {
    let cloud = FakeCloud::start(Options {
        durations: Durations::instant(),
        data_path: false,
        ..Options::default()
    })
    .await
    .unwrap();
    let control = cloud.control();
    let mut environment = MeasuredEnvironment::without_manager().await;
    // There is only one worker, so a pass that waited for Octavia would stop everything else.
    let one_worker = [
        "--openstackcluster-concurrency=1",
        "--openstackmachine-concurrency=1",
        "--openstack-qps=100",
        "--openstack-burst=100",
    ];
    environment.start(&one_worker).await;
    environment.credentials("cloud", &cloud.clouds_yaml()).await;
    settled_control_planes(&environment).await;
    // Members that join others are created disabled, and enabled some seconds later.
    until_true("every member is enabled", async || {
        are_all_enabled(&control.dump())
    })
    .await;
    until_quiet(control).await;

    adding_a_member_beside_a_hung_load_balancer(&environment, control).await;

    environment.stop().await;
    environment.start(&["--sync-period=1s"]).await;
    for plan in [ONE, THREE] {
        a_pass_costs_one_call(control, plan).await;
    }
}

/// Creates a cluster with one port and a cluster with three ports, each with three machines, and a cluster with one
/// machine whose load balancer will hang.
async fn settled_control_planes(environment: &MeasuredEnvironment) {
    for plan in [ONE, THREE, HUNG] {
        environment.cluster(plan).await;
    }
    let provisioned = |plan: Plan<'static>| {
        environment
            .cluster_api
            .until_provisioned("OpenStackCluster", plan.name)
    };
    join_all([ONE, THREE, HUNG].map(provisioned)).await;
    let mut names = vec![format!("{}-cp-0", HUNG.name)];
    environment.machine(HUNG, "hung-cp-0").await;
    for index in 0..3 {
        for plan in [ONE, THREE] {
            let name = format!("{}-cp-{index}", plan.name);
            environment.machine(plan, &name).await;
            names.push(name);
        }
    }
    join_all(names.iter().map(|name| {
        environment
            .cluster_api
            .until_provisioned("OpenStackMachine", name)
    }))
    .await;
}

async fn adding_a_member_beside_a_hung_load_balancer(
    environment: &MeasuredEnvironment,
    control: &Control,
) {
    control
        .command(Command::Operation(OperationRule {
            operation: "member-create".to_owned(),
            load_balancer: ONE.name.to_owned(),
            duration: Some(CREATION),
            ..OperationRule::default()
        }))
        .unwrap();
    control
        .command(Command::Fault(Box::new(Fault {
            matching: CallMatch {
                path: Some(format!("*{}*", load_balancer(control, HUNG.name))),
                ..CallMatch::default()
            },
            hang: true,
            ..Fault::default()
        })))
        .unwrap();
    // A member is created in its pool, so this call hangs too.
    control
        .command(Command::Fault(Box::new(Fault {
            matching: CallMatch {
                label: Some("loadbalancer_member_create".to_owned()),
                body: Some("hung-cp-1".to_owned()),
                ..CallMatch::default()
            },
            hang: true,
            ..Fault::default()
        })))
        .unwrap();
    let since = control.last_call();
    environment.machine(HUNG, "hung-cp-1").await;
    until_true("a call about the first load balancer hangs", async || {
        octavia(control, since).iter().any(is_hung)
    })
    .await;
    environment.machine(ONE, "one-cp-3").await;
    environment
        .cluster_api
        .until_provisioned("OpenStackMachine", "one-cp-3")
        .await;
    let mut calls = octavia(control, since);
    let before = calls.len();
    calls.retain(|call| !is_hung(call));
    assert!(calls.len() < before);
    let is_creation = |call: &&Call| call.label == "loadbalancer_member_create";
    let created = calls.iter().find(is_creation).unwrap().at;
    // These are the calls until the member was created. One more call reads the result. Later calls are not part of the
    // machine's admission.
    let waiting = calls.iter().filter(|call| call.at < created + CREATION);
    assert!(waiting.count() < 5, "{:?}", labels(&calls));
    control.command(Command::Clear("all".to_owned())).unwrap();
}

fn is_hung(call: &Call) -> bool {
    call.fault.is_some()
}

async fn a_pass_costs_one_call(control: &Control, plan: Plan<'_>) {
    let id = load_balancer(control, plan.name);
    let objects = objects(control, &id);
    let since = control.last_call();
    let calls = || {
        let mut calls = octavia(control, since);
        calls.retain(|call| objects.iter().any(|object| call.path.contains(object)));
        calls
    };
    // The first pass after a start learns what the status tree lacks; from then on to the next slow read there is
    // nothing but the tree.
    let is_tree = |call: &Call| call.label == "loadbalancer_status_tree";
    let passes = || {
        let calls = calls();
        let mut runs = calls.split(|call| !is_tree(call));
        // The last run of calls may not be complete.
        runs.next_back();
        runs.find(|run| run.len() >= PASSES).map(<[Call]>::to_vec)
    };
    until_true("some passes", async || {
        passes().is_some() || calls().len() > 60
    })
    .await;
    let passes = passes().unwrap_or_default();
    assert!(passes.len() >= PASSES, "{:?}", labels(&calls()));
    // Each call belongs to a pass of its own: between two passes the worker waits for a second, a fifth more or less.
    for pair in passes.windows(2) {
        if let [earlier, later] = pair {
            assert!(later.at - earlier.at >= 0.6, "{:?}", labels(&passes));
        }
    }
}

/// Waits until the reads that follow the last change are over.
async fn until_quiet(control: &Control) {
    until("Octavia is not called any more", async || {
        let since = control.last_call();
        tokio::time::sleep(Duration::from_secs(4)).await;
        octavia(control, since).is_empty().then_some(())
    })
    .await;
}

/// No member of any pool is disabled.
fn are_all_enabled(dump: &serde_json::Value) -> bool {
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let balancers = list(&dump["load_balancers"]);
    let pools = balancers
        .iter()
        .flat_map(|balancer| list(&balancer["pools"]));
    let mut members = pools.flat_map(|pool| list(&pool["members"]));
    members.all(|member| member["admin_state_up"] == true)
}

/// Ids of a load balancer and of what is in it.
fn objects(control: &Control, id: &str) -> Vec<String> {
    let dump = control.dump();
    let balancers = dump["load_balancers"].as_array().cloned();
    let mut ids = Vec::new();
    for balancer in balancers.into_iter().flatten() {
        if balancer["id"] == id {
            collect_ids(&balancer, &mut ids);
        }
    }
    ids
}

fn collect_ids(value: &serde_json::Value, ids: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            if let Some(id) = fields.get("id").and_then(serde_json::Value::as_str) {
                ids.push(id.to_owned());
            }
            fields.values().for_each(|field| collect_ids(field, ids));
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| collect_ids(item, ids)),
        _ => {}
    }
}
