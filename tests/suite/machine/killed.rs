//! A process that is killed at every call of a creation and of a deletion, and answers that come late or never.

use fake_cloud::Call;
use futures::{StreamExt, stream};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use serde_json::{Value, json};
use test_support::{
    env::{Environment, apply::apply, environment::is},
    waiting::until,
};

use super::stand_alone::server;

/// How many environments run at the same time.
const AT_ONCE: u32 = 8;

/// What a killed process was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Creation,
    Deletion,
}

fn is_ready(server: &Value) -> bool {
    is(server, "Ready", "True")
}

/// A server with everything that takes calls of its own: a trunk, a volume, a managed server group.
fn whole_server(environment: &Environment, name: &str, network: &str) -> Value {
    let mut wanted = server(environment, name, network);
    wanted["spec"]["rootVolume"] = json!({"sizeGiB": 1});
    wanted["spec"]["trunk"] = json!(true);
    // Servers whose names begin alike share a group.
    let group = name.split('-').next().unwrap_or_default();
    wanted["spec"]["managedServerGroup"] = json!({"name": format!("{group}-group")});
    wanted
}

/// Whether a fault has affected one of the calls since number `since`.
fn has_struck(environment: &Environment, since: u64) -> bool {
    let was_struck = |call: &Call| call.fault.is_some();
    let calls = environment.cloud.control().calls_since(since);
    calls.iter().any(was_struck)
}

/// Kills the process while call number `index` of the work is under way: it is carried out, and its answer is lost.
/// Another process finishes the work. Returns whether the work had that many calls.
async fn killed_at(work: Work, index: u32) -> bool {
    let namespace = format!("killed-{work:?}-{index}").to_lowercase();
    let mut environment = Environment::in_namespace(&namespace).start().await;
    let network = environment.network("n").await;
    let wanted = [whole_server(&environment, "s1", &network)];
    if work == Work::Deletion {
        apply(&environment.admin, &wanted).await.unwrap();
        environment
            .until_object("OpenStackServer", "s1", is_ready)
            .await;
    }
    let since = environment.cloud.control().last_call();
    environment.command(
        json!({"fault": {"match": {}, "skip": index, "count": 1, "hang": true, "apply": true}}),
    );
    let is_over: fn(&Value) -> bool = match work {
        Work::Creation => is_ready,
        Work::Deletion => Value::is_null,
    };
    match work {
        Work::Creation => apply(&environment.admin, &wanted).await.unwrap(),
        Work::Deletion => {
            environment
                .cluster_api
                .delete("OpenStackServer", "s1")
                .await;
        }
    }
    let what = format!("call {index} of the {work:?}, or its end");
    let struck = until(&what, async || {
        let struck = has_struck(&environment, since);
        let over = struck || is_over(&environment.get("OpenStackServer", "s1").await);
        over.then_some(struck)
    })
    .await;
    environment.kill().await;
    environment.command(json!({"clear": "faults"}));
    environment.start().await;
    environment
        .until_object("OpenStackServer", "s1", is_over)
        .await;
    assert_eq!(environment.cloud.control().duplicates(), [], "{namespace}");
    if work == Work::Creation {
        environment
            .cluster_api
            .delete("OpenStackServer", "s1")
            .await;
        environment.until_gone("OpenStackServer", "s1").await;
    }
    assert_eq!(
        environment.leftovers("s1"),
        Vec::<String>::new(),
        "{namespace}"
    );
    struck
}

async fn killed_at_every_call(work: Work) {
    let mut first = 0;
    loop {
        let struck: Vec<bool> = stream::iter(first..first + AT_ONCE)
            .map(|index| killed_at(work, index))
            .buffer_unordered(AT_ONCE as usize)
            .collect()
            .await;
        if struck.contains(&false) {
            return;
        }
        first += AT_ONCE;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_every_call_of_a_creation_it_leaves_one_server_with_one_of_each_thing() {
    killed_at_every_call(Work::Creation).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_every_call_of_a_deletion_it_leaves_nothing() {
    killed_at_every_call(Work::Deletion).await;
}

/// What may happen to a creation that is carried out; `None` stands for nothing.
fn misfortune(random: &mut StdRng) -> Option<Value> {
    match random.random_range(0..6) {
        0 => Some(json!({"reset": true, "apply": true})),
        1 => Some(json!({"status": 500, "apply": true})),
        2 => Some(json!({"hang": true, "apply": true})),
        // The client gives up before the service carries the call out.
        3 => Some(json!({"delay": random.random_range(4.0..8.0), "apply": true})),
        4 => Some(json!({"delay": 5, "status": 504, "apply": true})),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_to_its_creations_an_object_has_one_server() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut environment = Environment::in_namespace("misfortunes").start().await;
    let network = environment.network("n").await;
    let names: Vec<String> = (10..34).map(|number| format!("r-{number}")).collect();
    if let Some(mut fault) = misfortune(&mut random) {
        fault["match"] = json!({"label": "server_group_create"});
        fault["count"] = json!(1);
        environment.command(json!({ "fault": fault }));
    }
    for name in &names {
        for label in [
            "port_create",
            "trunk_create",
            "volume_create",
            "server_create",
        ] {
            if let Some(mut fault) = misfortune(&mut random) {
                fault["match"] = json!({"label": label, "body": name});
                fault["count"] = json!(1);
                environment.command(json!({ "fault": fault }));
            }
        }
    }
    let servers: Vec<Value> = names
        .iter()
        .map(|name| whole_server(&environment, name, &network))
        .collect();
    apply(&environment.admin, &servers).await.unwrap();
    for _ in 0..3 {
        let moment = random.random_range(500..4_000);
        tokio::time::sleep(std::time::Duration::from_millis(moment)).await;
        environment.kill().await;
        environment.start().await;
    }
    for name in &names {
        environment
            .until_object("OpenStackServer", name, is_ready)
            .await;
    }
    assert_eq!(environment.cloud.control().duplicates(), [], "seed {seed}");
    for name in &names {
        environment
            .cluster_api
            .delete("OpenStackServer", name)
            .await;
    }
    for name in &names {
        environment.until_gone("OpenStackServer", name).await;
    }
    assert_eq!(
        environment.leftovers("r-"),
        Vec::<String>::new(),
        "seed {seed}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_nova_creates_after_the_deletion_began_is_deleted_too() {
    let mut environment = Environment::in_namespace("late").start().await;
    let network = environment.network("n").await;
    environment.command(
        json!({"fault": {"match": {"label": "server_create"}, "count": 1, "delay": 8, "apply": true}}),
    );
    apply(&environment.admin, &[server(&environment, "s1", &network)])
        .await
        .unwrap();
    until("the creation is sent", async || {
        (environment.calls("server_create") == 1).then_some(())
    })
    .await;
    environment.kill().await;
    let cluster_api = &environment.cluster_api;
    cluster_api.delete("OpenStackServer", "s1").await;
    environment.start().await;
    environment.until_gone("OpenStackServer", "s1").await;
    assert_eq!(environment.leftovers("s1"), Vec::<String>::new());
    assert_eq!(environment.calls("server_delete"), 1);
}

/// Makes a new port a sub-port of the server's trunk, as its user would.
async fn add_sub_port(environment: &Environment, name: &str, network: &str) {
    let base = environment.cloud.control().base();
    let http = reqwest::Client::new();
    let domain = json!({"name": "Default"});
    let sign_in = json!({"auth": {
        "identity": {"methods": ["password"],
            "password": {"user": {"name": "demo", "password": "secret", "domain": domain.clone()}}},
        "scope": {"project": {"name": "demo", "domain": domain}},
    }});
    let tokens = format!("{base}/identity/v3/auth/tokens");
    let signed_in = http
        .post(tokens)
        .body(sign_in.to_string())
        .send()
        .await
        .unwrap();
    let token = signed_in.headers()["x-subject-token"].clone();
    let call = async |method: reqwest::Method, path: &str, body: Value| -> Value {
        let answer = http
            .request(method, format!("{base}/network/v2.0/{path}"))
            .header("x-auth-token", token.clone())
            .body(body.to_string())
            .send()
            .await
            .unwrap();
        serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
    };
    let (get, post, put) = (
        reqwest::Method::GET,
        reqwest::Method::POST,
        reqwest::Method::PUT,
    );
    let new = json!({"port": {"name": name, "network_id": network}});
    let created = call(post, "ports", new).await;
    let trunks = call(get, "trunks", Value::Null).await;
    let trunk = trunks["trunks"][0]["id"].as_str().unwrap();
    let sub_ports = json!([{"port_id": created["port"]["id"],
        "segmentation_type": "vlan", "segmentation_id": 7}]);
    let path = format!("trunks/{trunk}/add_subports");
    let trunk = call(put, &path, json!({"sub_ports": sub_ports})).await;
    assert_eq!(trunk["sub_ports"].as_array().unwrap().len(), 1, "{trunk}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sub_ports_that_were_removed_from_their_trunk_are_deleted_by_the_next_process() {
    let mut environment = Environment::in_namespace("sub-ports").start().await;
    let network = environment.network("n").await;
    let wanted = whole_server(&environment, "s1", &network);
    apply(&environment.admin, &[wanted]).await.unwrap();
    environment
        .until_object("OpenStackServer", "s1", is_ready)
        .await;
    add_sub_port(&environment, "vlan-7", &network).await;
    let since = environment.cloud.control().last_call();
    let removal = json!({"label": "remove_subports"});
    environment
        .command(json!({"fault": {"match": removal, "count": 1, "hang": true, "apply": true}}));
    let cluster_api = &environment.cluster_api;
    cluster_api.delete("OpenStackServer", "s1").await;
    until("the sub-port is removed from its trunk", async || {
        has_struck(&environment, since).then_some(())
    })
    .await;
    environment.kill().await;
    environment.start().await;
    environment.until_gone("OpenStackServer", "s1").await;
    assert_eq!(environment.leftovers("vlan-7"), Vec::<String>::new());
    assert_eq!(environment.leftovers("s1"), Vec::<String>::new());
}
