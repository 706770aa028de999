//! `clusterctl move` to another management cluster, and a provider that is gone.

use std::time::Duration;

use kube::{
    Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::isolated::IsolatedEnvironment;
use test_support::{
    anomalies::truth::Truth,
    waiting::{PATIENCE, until},
};

use crate::env::cluster_api::{api, condition};

const HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/capo-load-balancer-member";
const NAMESPACE: &str = "default";
/// What moves, owners first.
const KINDS: [&str; 7] = [
    "Secret",
    "Cluster",
    "KubeadmControlPlane",
    "OpenStackCluster",
    "Machine",
    "OpenStackMachine",
    "OpenStackServer",
];

async fn objects(client: &Client) -> Vec<(&'static str, Value)> {
    let mut all = Vec::new();
    for kind in KINDS {
        let list = api(client, NAMESPACE, kind)
            .list(&ListParams::default())
            .await
            .unwrap();
        for object in list.items {
            all.push((kind, serde_json::to_value(object).unwrap()));
        }
    }
    all
}

async fn patch(client: &Client, kind: &str, name: &str, change: Value) {
    api(client, NAMESPACE, kind)
        .patch(name, &PatchParams::default(), &Patch::Merge(change))
        .await
        .unwrap();
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// Creates the objects again, without status and with new uids, which their owner references also have.
async fn copy(from: &Client, to: &Client) {
    let mut uids = Vec::new();
    for (kind, mut object) in objects(from).await {
        let old = object["metadata"].clone();
        let mut owners = old["ownerReferences"].clone();
        for owner in owners.as_array_mut().into_iter().flatten() {
            let new = uids.iter().find(|(old, _)| *old == owner["uid"]);
            owner["uid"] = new.map(|(_, new): &(Value, Value)| new.clone()).unwrap();
        }
        object["metadata"] = json!({
            "name": old["name"], "namespace": old["namespace"], "labels": old["labels"],
            "annotations": old["annotations"], "finalizers": old["finalizers"], "ownerReferences": owners,
        });
        object.as_object_mut().unwrap().remove("status");
        let api = api(to, NAMESPACE, kind);
        let object = serde_json::from_value(object).unwrap();
        let made = match api.create(&PostParams::default(), &object).await {
            Ok(made) => made,
            // The target already has the credentials.
            Err(kube::Error::Api(status)) if status.code == 409 && kind == "Secret" => continue,
            Err(error) => panic!("{kind}: {error}"),
        };
        uids.push((old["uid"].clone(), json!(made.metadata.uid)));
    }
}

/// Whether the object's state is known and will not change. No server listens at the members' addresses, so the cluster
/// may or may not be Ready.
fn settled(object: &Value) -> bool {
    let status = |kind| condition(object, kind).map(|(status, ..)| status);
    object["status"]["initialization"]["provisioned"] == true
        && match object["kind"].as_str() {
            Some("OpenStackCluster") => {
                object["status"]["router"]["id"].is_string()
                    && status("APIServerLoadBalancerReady").is_some_and(|known| known != "Unknown")
            }
            _ => status("Ready") == Some("True"),
        }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_changes_nothing_in_openstack_and_a_hook_outlives_its_provider() {
    let mut source = IsolatedEnvironment::start().await;
    let _manager = source.ready_manager("manager", &[]).await;
    source.create_cluster("moved", "127.83.0.0/24").await;
    source.until_provisioned("OpenStackCluster", "moved").await;
    let machines = ["cp-0", "cp-1", "w-0"];
    for machine in machines {
        source
            .create_machine("moved", machine, machine.starts_with("cp"))
            .await;
        source.until_provisioned("OpenStackMachine", machine).await;
        let joined = |machine: &Value| !machine["status"]["nodeRef"].is_null();
        source
            .cluster_api
            .until_object("Machine", machine, joined)
            .await;
    }
    for (kind, name) in [("OpenStackCluster", "moved"), ("OpenStackMachine", "cp-1")] {
        source.cluster_api.until_object(kind, name, settled).await;
    }
    // A new machine is admitted before its member is enabled.
    until("every member is enabled", async || {
        let truth = Truth::of(source.cloud.control());
        let is_enabled = truth.members.len() == 2 && truth.members.iter().all(|member| member.up);
        (is_enabled && truth.is_well()).then_some(())
    })
    .await;
    let before = source.kubernetes.admin().await.unwrap();

    // The objects are paused and copied to another management cluster, where the provider also runs.
    patch(
        &before,
        "Cluster",
        "moved",
        json!({"spec": {"paused": true}}),
    )
    .await;
    let paused =
        |object: &Value| condition(object, "Paused").is_some_and(|(status, ..)| status == "True");
    source
        .cluster_api
        .until_object("OpenStackCluster", "moved", paused)
        .await;
    source.cluster_api.stop();
    let mut target = IsolatedEnvironment::beside(&source).await;
    let mut second = target.ready_manager("manager", &[]).await;
    // The operations that were under way at the pause have ended.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mark = source.cloud.control().last_call();
    let after = target.kubernetes.admin().await.unwrap();
    target.cluster_api.stop();
    copy(&before, &after).await;
    target
        .cluster_api
        .until_object("OpenStackCluster", "moved", paused)
        .await;

    // The objects are deleted at the source. Nothing is paused there any more, so only the annotation protects them.
    let moving =
        json!({"metadata": {"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}});
    let sources = objects(&before).await;
    for (kind, object) in sources.iter().rev() {
        patch(&before, kind, name(object), moving.clone()).await;
    }
    patch(
        &before,
        "Cluster",
        "moved",
        json!({"spec": {"paused": null}}),
    )
    .await;
    for (kind, object) in sources.iter().rev() {
        api(&before, NAMESPACE, kind)
            .delete(name(object), &DeleteParams::default())
            .await
            .unwrap();
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let kept = source
        .cluster_api
        .get("Machine", "cp-1")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        kept["metadata"]["annotations"][HOOK], "capo-rs",
        "hooks too stay as they are"
    );
    for (kind, object) in &sources {
        if source
            .cluster_api
            .get(kind, name(object))
            .await
            .unwrap()
            .is_some()
        {
            patch(
                &before,
                kind,
                name(object),
                json!({"metadata": {"finalizers": null}}),
            )
            .await;
        }
    }

    // The cluster is resumed at the target. The manager finds all objects again and writes nothing, and no machine
    // loses its admission.
    patch(
        &after,
        "Cluster",
        "moved",
        json!({"spec": {"paused": null}}),
    )
    .await;
    let target_api = target.play_again();
    for (kind, name) in machines
        .map(|machine| ("OpenStackMachine", machine))
        .into_iter()
        .chain([("OpenStackCluster", "moved")])
    {
        let found = target_api.until_object(kind, name, settled).await;
        let old = sources
            .iter()
            .find(|(was, object)| *was == kind && self::name(object) == name);
        let (_, old) = old.unwrap();
        assert_ne!(found["metadata"]["uid"], old["metadata"]["uid"]);
        for part in [
            "instanceID",
            "addresses",
            "network",
            "router",
            "controlPlaneSecurityGroup",
        ] {
            assert_eq!(
                found["status"][part], old["status"][part],
                "{kind} {name} {part}"
            );
        }
    }
    let written: Vec<String> = source
        .cloud
        .control()
        .calls_since(mark)
        .into_iter()
        .filter(|call| call.method != "GET" && call.label != "token_create")
        .map(|call| format!("{} {}", call.method, call.path))
        .collect();
    assert_eq!(written, Vec::<String>::new());

    // After the provider was removed, its hook stays until a user removes it. The value of the hook is the provider's
    // name.
    second.process.signal("TERM").unwrap();
    second.process.wait(PATIENCE).unwrap();
    target_api.delete("Machine", "cp-1").await;
    let waits = |reason: &'static str| {
        move |machine: &Value| {
            condition(machine, "Deleting").is_some_and(|(_, found, _)| found == reason)
        }
    };
    target_api
        .until_object("Machine", "cp-1", waits("WaitingForPreTerminateHook"))
        .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let machine = target_api.get("Machine", "cp-1").await.unwrap().unwrap();
    assert_eq!(machine["metadata"]["annotations"][HOOK], "capo-rs");
    let off = json!({"metadata": {"annotations": {HOOK: null}}});
    patch(&after, "Machine", "cp-1", off).await;
    target_api
        .until_object("Machine", "cp-1", waits("WaitingForInfrastructureDeletion"))
        .await;
    let _third = target.ready_manager("again", &[]).await;
    target_api.until_gone("Machine", "cp-1").await;
    target_api.delete("Cluster", "moved").await;
    target_api.until_gone("Cluster", "moved").await;
    source.assert_nothing_is_left_of("moved");
}
