//! Credentials that lead to another project from one moment to the next, and an object of a cluster that is removed
//! without a deletion.

use std::time::{Duration, Instant};

use capo_gate::desired::ObservedServer;
use fake_cloud::Call;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use reqwest::Method;
use serde_json::{Value, json};

use super::control_plane::{
    annotate, balancer_name, cluster, create, gate, has_joined, is_hooked, is_provisioned, join,
    member_writes, until_enabled,
};
use crate::{
    cluster::brought::network,
    contract::{Access, Raw},
    machine::machine_spec,
};
use test_support::{
    env::{
        Environment,
        cluster_api::{api, condition},
    },
    waiting::{PATIENCE, until},
};

const PROJECT: &str = "infrastructure.cluster.x-k8s.io/openstack-project";

/// The Secret of the cluster, with the clouds.yaml of `project`.
async fn credentials(environment: &Environment, project: &str) {
    credentials_in(environment, "cloud-config", project).await;
}

/// A Secret with the clouds.yaml of `project`.
pub(crate) async fn credentials_in(environment: &Environment, secret: &str, project: &str) {
    let user = format!("username: {project}");
    let yaml = environment
        .cloud
        .clouds_yaml()
        .replace("username: demo", &user)
        .replace("project_name: demo", &format!("project_name: {project}"));
    assert!(yaml.contains(&user));
    environment.secret(secret, &yaml, None).await;
}

/// The project `other`, with a user of the same name.
pub(crate) fn second_project(environment: &Environment) {
    environment.command(json!({"project": {"id": "other", "name": "other"}}));
    environment.command(json!({"user": {"name": "other", "password": "secret", "project": "other", "roles": ["member"]}}));
}

fn sign_in(object: &Value) -> (&str, &str, &str) {
    condition(object, "OpenStackAuthenticationSucceeded").unwrap_or_default()
}

/// A Secret is replaced by one of another project while the control plane serves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_another_project_nothing_is_created_judged_or_opened() {
    let mut environment = Environment::in_namespace("another-project").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0", "m1"]).await;
    second_project(&environment);
    let before = environment.cloud.control().last_call();
    credentials(&environment, "other").await;
    environment.one_more_pass("c1").await;
    let held = environment
        .until_object("OpenStackCluster", "c1", |cluster| {
            let (status, _, message) = sign_in(cluster);
            status == "False" && message.contains("nothing is created, deleted or released")
        })
        .await;
    assert!(is_provisioned(&held));
    // The Machine is deleted, and a new process, which remembers nothing, judges its release.
    environment.cluster_api.delete("Machine", "m0").await;
    environment.stop().await;
    environment.start().await;
    environment.one_more_pass("c1").await;
    environment
        .until_object("OpenStackMachine", "m0", |machine| {
            gate(machine).0 != "True"
        })
        .await;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(8) {
        assert!(
            !environment.get("Machine", "m0").await.is_null(),
            "was released"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(environment.writes_since(before), Vec::<String>::new());
    assert_ne!(
        gate(&environment.get("OpenStackMachine", "m0").await).0,
        "True"
    );

    // After the cluster's own credentials are restored, the release ends, and nothing was lost.
    credentials(&environment, "demo").await;
    environment.one_more_pass("c1").await;
    environment.until_gone("Machine", "m0").await;
    environment
        .until_object("OpenStackCluster", "c1", |cluster| {
            sign_in(cluster).0 == "True" && gate(cluster).0 == "True"
        })
        .await;
    assert_eq!(
        environment.calls("network_create") + environment.calls("loadbalancer_create"),
        2
    );
}

/// A cluster taken over from CAPO, whose objects have the ids of CAPO's status. The other project has a load balancer
/// and a network with the same names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_balancer_of_the_same_name_does_not_make_another_project_the_clusters() {
    let mut environment = Environment::in_namespace("same-name").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0"]).await;
    second_project(&environment);
    let theirs = Raw::sign_in(&Access {
        auth_url: environment.cloud.auth_url(),
        user: "other".to_owned(),
        password: "secret".into(),
        project: "other".to_owned(),
    })
    .await;
    let name = balancer_name(&environment);
    let network_name = name.replace("-kubeapi", "");
    let (_, subnet) = network(&theirs, &network_name, "10.6.0.0/24").await;
    let balancer = json!({"loadbalancer": {"name": name, "vip_subnet_id": subnet}});
    let url = theirs.address("load-balancer", "loadbalancers");
    let (status, made) = theirs.send(Method::POST, &url, Some(balancer)).await;
    assert_eq!(status, 201, "{made}");
    environment.stop().await;
    let own =
        environment.get("OpenStackCluster", "c1").await["metadata"]["annotations"][PROJECT].clone();
    annotate(
        &environment,
        "OpenStackCluster",
        "c1",
        json!({PROJECT: null}),
    )
    .await;
    credentials(&environment, "other").await;
    let before = environment.cloud.control().last_call();
    environment.start().await;
    let held = |cluster: &Value| {
        let (status, _, message) = sign_in(cluster);
        let has_failed =
            status == "False" && message.contains("nothing is created, deleted or released");
        // The new process does not know what an earlier one has seen.
        has_failed && gate(cluster).0 == "Unknown"
    };
    environment
        .until_object("OpenStackCluster", "c1", held)
        .await;
    assert_eq!(environment.writes_since(before), Vec::<String>::new());
    // An operator can name the project of the cluster.
    credentials(&environment, "demo").await;
    annotate(
        &environment,
        "OpenStackCluster",
        "c1",
        json!({PROJECT: own}),
    )
    .await;
    environment
        .until_object("OpenStackCluster", "c1", |cluster| {
            sign_in(cluster).0 == "True" && gate(cluster).0 == "True"
        })
        .await;
}

/// A worker, which no gate holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_found_in_another_project_is_not_left_behind() {
    let environment = Environment::in_namespace("deleted-elsewhere").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0"]).await;
    environment
        .cluster_api
        .create_machine("c1", "w0", false, machine_spec())
        .await;
    environment
        .until_provisioned("OpenStackMachine", "w0")
        .await;
    second_project(&environment);
    credentials(&environment, "other").await;
    environment.cluster_api.delete("Machine", "w0").await;
    environment
        .until_object("OpenStackServer", "w0", |server| {
            let (_, _, message) = condition(server, "InstanceReady").unwrap_or_default();
            message.contains("another project than the cluster's")
        })
        .await;
    assert!(!environment.leftovers("w0").is_empty());
    credentials(&environment, "demo").await;
    environment.until_gone("Machine", "w0").await;
    assert_eq!(environment.leftovers("w0"), Vec::<String>::new());
}

/// A worker whose own identityRef leads to another project than the cluster's is made and deleted there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_with_credentials_of_its_own_is_deleted_in_its_own_project() {
    let environment = Environment::in_namespace("own-credentials").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0"]).await;
    second_project(&environment);
    credentials_in(&environment, "other-config", "other").await;
    let access = Access {
        auth_url: environment.cloud.auth_url(),
        user: "other".to_owned(),
        password: "secret".into(),
        project: "other".to_owned(),
    };
    let network = network(&Raw::sign_in(&access).await, "theirs", "10.66.0.0/24").await;
    let mut spec = machine_spec();
    spec["identityRef"] = json!({"name": "other-config", "cloudName": "demo"});
    spec["ports"] = json!([{"network": {"id": network.0}}]);
    environment
        .cluster_api
        .create_machine("c1", "w0", false, spec)
        .await;
    environment
        .until_provisioned("OpenStackMachine", "w0")
        .await;
    environment.cluster_api.delete("Machine", "w0").await;
    environment.until_gone("Machine", "w0").await;
    assert_eq!(environment.leftovers("w0"), Vec::<String>::new());
}

/// The credentials lead to another project at the start of a process that has never seen the cluster's own, and the
/// status of the cluster, which is being deleted, does not tell that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_a_deleted_cluster_are_not_left_behind_after_a_restart() {
    let mut environment = Environment::in_namespace("restarted-elsewhere")
        .start()
        .await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0"]).await;
    environment
        .cluster_api
        .create_machine("c1", "w0", false, machine_spec())
        .await;
    environment
        .until_provisioned("OpenStackMachine", "w0")
        .await;
    second_project(&environment);
    environment.stop().await;
    credentials(&environment, "other").await;
    for kind in ["OpenStackCluster", "Cluster"] {
        environment.cluster_api.delete(kind, "c1").await;
    }
    environment.wipe_status("OpenStackCluster", "c1").await;
    environment.start().await;
    for name in ["m0", "w0"] {
        environment
            .until_object("OpenStackServer", name, |server| {
                let (_, _, message) = condition(server, "InstanceReady").unwrap_or_default();
                message.contains("another project than the cluster's")
            })
            .await;
        assert!(!environment.leftovers(name).is_empty());
    }
    credentials(&environment, "demo").await;
    environment.until_gone("Cluster", "c1").await;
    for text in ["m0", "w0", "restarted-elsewhere-c1"] {
        assert_eq!(environment.leftovers(text), Vec::<String>::new(), "{text}");
    }
}

/// A cluster without Machines, whose status is lost too: only the annotation tells in which project its objects are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_without_machines_is_neither_made_again_nor_left_behind_in_another_project() {
    let mut environment = Environment::in_namespace("empty-elsewhere").start().await;
    let spec = environment.cluster("c1", json!({}));
    environment.cluster_api.create_cluster("c1", spec).await;
    environment.until_ready("c1").await;
    second_project(&environment);
    let before = environment.cloud.control().last_call();
    let held = |cluster: &Value| {
        let (status, _, message) = sign_in(cluster);
        status == "False" && message.contains("nothing is created, deleted or released")
    };
    credentials(&environment, "other").await;
    environment.one_more_pass("c1").await;
    environment
        .until_object("OpenStackCluster", "c1", held)
        .await;

    environment.stop().await;
    environment.wipe_status("OpenStackCluster", "c1").await;
    environment.start().await;
    environment
        .until_object("OpenStackCluster", "c1", held)
        .await;
    environment.cluster_api.delete("Cluster", "c1").await;
    environment
        .until_object("OpenStackCluster", "c1", |cluster| {
            let (_, reason, message) = condition(cluster, "Ready").unwrap_or_default();
            reason == "Deleting" && message.contains("belong to project other")
        })
        .await;
    assert_eq!(environment.writes_since(before), Vec::<String>::new());
    credentials(&environment, "demo").await;
    environment.until_gone("OpenStackCluster", "c1").await;
    assert_eq!(
        environment.leftovers("empty-elsewhere-c1"),
        Vec::<String>::new()
    );
}

/// The credentials of the machine alone lead to another project. The load balancer is read with those of the cluster,
/// and the health of members is unknown, so only the machine's project keeps the absence of its server from opening its
/// gate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_absent_in_another_project_is_not_gone() {
    let environment = Environment::in_namespace("absent-elsewhere").start().await;
    environment.command(json!({"assumed_health": "silent"}));
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    credentials_in(&environment, "own-config", "demo").await;
    let mut spec = machine_spec();
    spec["identityRef"] = json!({"name": "own-config", "cloudName": "demo"});
    environment
        .cluster_api
        .create_machine("c1", "m0", true, spec)
        .await;
    has_joined(&environment, "m0").await;
    until_enabled(&environment, "m0").await;
    second_project(&environment);
    let before = environment.cloud.control().last_call();
    credentials_in(&environment, "own-config", "other").await;
    environment.cluster_api.delete("Machine", "m0").await;
    // The time for which reads have not found the server.
    let absent_for = || {
        let calls = environment.cloud.control().calls_since(before).into_iter();
        let is_absent = |call: &Call| call.label == "server_get" && call.status == Some(404);
        let reads: Vec<f64> = calls.filter(is_absent).map(|call| call.at).collect();
        let span = reads.first().zip(reads.last());
        span.map_or(0.0, |(first, last)| last - first)
    };
    let begun = Instant::now();
    let mut decided = None;
    // The last seconds are enough for a gate to open on those reads.
    while decided.is_none_or(|decided: Instant| decided.elapsed() < Duration::from_secs(5)) {
        let machine = environment.get("Machine", "m0").await;
        assert!(is_hooked(&machine), "was released: {machine:#}");
        assert!(begun.elapsed() < PATIENCE, "was not looked for");
        if absent_for() >= ObservedServer::DOWN_FOR.as_secs_f64() {
            decided.get_or_insert_with(Instant::now);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(
        gate(&environment.get("OpenStackMachine", "m0").await).0,
        "False"
    );
}

/// The finalizer is removed by others, so that no pass sees the deletion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_object_that_vanishes_ends_its_worker() {
    let environment = Environment::in_namespace("cluster-vanished").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    create(&environment, "m0").await;
    environment
        .until_provisioned("OpenStackMachine", "m0")
        .await;
    let shown = || {
        let page = environment.metrics();
        let of_cluster = |line: &&str| line.contains(r#"cluster_name="c1""#);
        page.lines().filter(of_cluster).count()
    };
    assert!(shown() > 0, "{}", environment.metrics());
    let paused = json!({"spec": {"paused": true}});
    environment.patch("Cluster", "c1", paused).await;
    environment
        .until_object("OpenStackCluster", "c1", |cluster| {
            condition(cluster, "Paused").is_some_and(|(status, ..)| status == "True")
        })
        .await;
    let clusters: Api<kube::api::DynamicObject> = api(
        &environment.admin,
        &environment.namespace,
        "OpenStackCluster",
    );
    let bare = json!({"metadata": {"finalizers": null}});
    clusters
        .patch("c1", &PatchParams::default(), &Patch::Merge(bare))
        .await
        .unwrap();
    clusters
        .delete("c1", &DeleteParams::default())
        .await
        .unwrap();
    environment.until_gone("OpenStackCluster", "c1").await;
    // This time is long enough for two reads of a settled load balancer.
    until("the load balancer is not read any more", async || {
        let since = environment.cloud.control().last_call();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let calls = environment.cloud.control().calls_since(since);
        let reads = calls
            .iter()
            .filter(|call| call.path.contains("/load-balancer/"));
        (reads.count() == 0).then_some(())
    })
    .await;
    assert_eq!(shown(), 0, "{}", environment.metrics());
    // A pass over the machine hands it to the tracker again, which starts no worker.
    annotate(
        &environment,
        "OpenStackMachine",
        "m0",
        json!({"test/pass": "1"}),
    )
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(shown(), 0, "{}", environment.metrics());
    assert_eq!(member_writes(&environment, 0).len(), 1);
}
