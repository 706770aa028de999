//! Images that are Kubernetes objects of the OpenStack Resource Controller, read with the shipped role.

use serde_json::{Value, json};

use crate::env::{apply::apply, cluster_api::condition};
use test_support::env::{
    Environment,
    environment::{identity, status_and_reason},
};

/// A definition of the kind that allows any spec and any status.
fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "images.openstack.k-orc.cloud"},
        "spec": {
            "group": "openstack.k-orc.cloud", "scope": "Namespaced",
            "names": {"kind": "Image", "plural": "images", "singular": "image", "listKind": "ImageList"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_object_is_missed_by_name_waited_for_and_used() {
    let environment = Environment::in_namespace("image-object").start().await;
    environment.foreign_cluster("c1").await;
    let spec = json!({"identityRef": identity(), "flavor": {"filter": {"name": "m1.small"}},
        "image": {"imageRef": {"name": "node"}}});
    environment
        .cluster_api
        .create_machine("c1", "w1", false, spec)
        .await;
    let until_told = async |reason: &str, words: &str| {
        environment
            .until_object("OpenStackMachine", "w1", |machine| {
                condition(machine, "InstanceReady").is_some_and(|(status, why, message)| {
                    status == "False" && why == reason && message.contains(words)
                })
            })
            .await
    };
    // The definition of the kind is not installed yet.
    until_told(
        "DependencyNotFound",
        "spec.image.imageRef: there is no Image node of openstack.k-orc.cloud in the namespace image-object",
    )
    .await;
    apply(&environment.admin, &[definition()]).await.unwrap();
    let glance = glance_id(&environment).await;
    let image = |available: &str| {
        json!({"apiVersion": "openstack.k-orc.cloud/v1alpha1", "kind": "Image",
            "metadata": {"name": "node", "namespace": environment.namespace},
            "status": {"id": glance, "conditions": [{"type": "Available", "status": available}]}})
    };
    apply(&environment.admin, &[image("False")]).await.unwrap();
    until_told(
        "DependencyFailed",
        "spec.image.imageRef: the Image node is not Available yet",
    )
    .await;
    apply(&environment.admin, &[image("True")]).await.unwrap();
    environment
        .until_object("OpenStackMachine", "w1", |machine| {
            status_and_reason(machine, "Ready") == ("True", "Ready")
        })
        .await;
    let server = environment.get("OpenStackServer", "w1").await;
    assert_eq!(server["status"]["resolved"]["imageID"], glance);

    // The kind is watched now, so another server gets a pass as soon as its Image changes, and not only after a minute.
    let mut other = image("False");
    other["metadata"]["name"] = json!("other");
    apply(&environment.admin, &[other.clone()]).await.unwrap();
    let spec = json!({"identityRef": identity(), "flavor": {"filter": {"name": "m1.small"}},
        "image": {"imageRef": {"name": "other"}}});
    environment
        .cluster_api
        .create_machine("c1", "w2", false, spec)
        .await;
    environment
        .until_object("OpenStackServer", "w2", |server| {
            status_and_reason(server, "InstanceReady") == ("False", "DependencyFailed")
        })
        .await;
    other["status"] = image("True")["status"].clone();
    let changed = std::time::Instant::now();
    apply(&environment.admin, &[other]).await.unwrap();
    environment
        .until_object("OpenStackServer", "w2", |server| {
            status_and_reason(server, "InstanceReady").1 != "DependencyFailed"
        })
        .await;
    assert!(changed.elapsed().as_secs() < 45, "{:?}", changed.elapsed());
    environment
        .until_object("OpenStackServer", "w2", |server| {
            status_and_reason(server, "Ready") == ("True", "Ready")
        })
        .await;
}

/// The id of the cloud's image `cirros`.
async fn glance_id(environment: &Environment) -> String {
    let query = capo_openstack::image::ImageFilter {
        name: Some("cirros".to_owned()),
        ..Default::default()
    };
    let images = environment
        .openstack()
        .images(&query, capo_core::Priority::Gate)
        .await
        .unwrap();
    images[0].id.to_string()
}
