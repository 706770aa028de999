//! Objects that CAPO has stored as v1beta1 are rewritten, and the definitions do not list that version as stored any
//! more.

use std::time::Duration;

use capo_rs::{
    storage_migration::{Migration, migrate, plan::Phases, store_as as to_version},
    webhooks::conversion::Version,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::env::apply;
use test_support::{
    waiting::until,
    webhooks::{Served, api, namespace, object},
};

const DEFINITION: &str = "openstackmachinetemplates.infrastructure.cluster.x-k8s.io";
const KIND: &str = "OpenStackMachineTemplate";

async fn store_as(client: &Client, version: &str) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut definition = definitions.get(DEFINITION).await.unwrap();
    for of in &mut definition.spec.versions {
        of.storage = of.name == version;
    }
    definition.metadata.managed_fields = None;
    definitions
        .replace(DEFINITION, &PostParams::default(), &definition)
        .await
        .unwrap();
}

async fn stored_versions(client: &Client) -> Vec<String> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let status = definitions.get(DEFINITION).await.unwrap().status.unwrap();
    status.stored_versions.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_capo_stored_is_rewritten() {
    let served = Served::start().await.unwrap();
    let client = served.client().await;
    namespace(&client, "migration").await;
    store_as(&client, "v1beta1").await;
    let old = api(&client, KIND, "v1beta1", "migration");
    let new = api(&client, KIND, "v1beta2", "migration");
    let template = |name: &str| {
        let spec = json!({"flavor": "m1", "flavorID": "f", "image": {"id": "3a5ae2f8-0c2a-4e0e-9f0e-1d1d1d1d1d1d"}});
        object(
            KIND,
            "v1beta1",
            name,
            json!({"spec": {"template": {"spec": spec}}}),
        )
    };
    // The API server takes up the other storage version a moment later: until it has, objects would be
    // stored in the old one, which the definition's status then does not name.
    until_stored(&client, &["v1beta2", "v1beta1"]).await;
    let mut names = Vec::new();
    for number in 0..30 {
        let name = format!("t-{number}");
        old.create(&PostParams::default(), &template(&name))
            .await
            .unwrap();
        names.push(name);
    }
    store_as(&client, "v1beta2").await;
    let before: Vec<Value> = contents(&new, &names).await;
    let migrator = migrator(&served).await;

    // The annotation in which CAPO 0.15 keeps a copy of the other version.
    let stash =
        json!({"spec": {"template": {"spec": {"flavor": "m1", "flavorID": "f"}}}}).to_string();
    let annotation = json!({"metadata": {"annotations": {
        "cluster.x-k8s.io/conversion-data": stash, "infrastructure.cluster.x-k8s.io/v1beta1-fields": null,
    }}});
    new.patch("t-0", &PatchParams::default(), &Patch::Merge(annotation))
        .await
        .unwrap();

    // If all phases are skipped, nothing happens.
    let skipped = Migration {
        phases: Phases::without(&["All"]).unwrap(),
        pace: Duration::from_millis(1),
    };
    assert_eq!(migrate(&migrator, skipped).await.rewritten, 0);
    assert_eq!(stored_versions(&client).await.len(), 2);

    // The migration is interrupted in the middle and then repeated.
    let migration = Migration {
        phases: Phases::ALL,
        pace: Duration::from_millis(5),
    };
    let _ = tokio::time::timeout(Duration::from_millis(80), migrate(&migrator, migration)).await;
    let report = migrate(&migrator, migration).await;
    assert_eq!(report.failed, Vec::<String>::new());
    assert_eq!(report.cleaned, [DEFINITION]);
    assert_eq!(stored_versions(&client).await, ["v1beta2"]);

    // No object has changed for its readers. CAPO's copy is gone, and what only the copy had is kept.
    let after = contents(&new, &names).await;
    assert_eq!(after, before);
    let first = new.get("t-0").await.unwrap();
    assert!(
        !first
            .annotations()
            .contains_key("cluster.x-k8s.io/conversion-data")
    );
    let seen = old.get("t-0").await.unwrap();
    assert_eq!(seen.data["spec"]["template"]["spec"]["flavor"], "m1");

    // The definition may now drop v1beta1 for good.
    let again = migrate(&migrator, migration).await;
    assert_eq!(
        (again.rewritten, again.cleaned.len(), again.failed.len()),
        (0, 0, 0)
    );

    // The objects are stored as v1beta1 again, and then as v1beta2.
    for (version, name) in [(Version::V1Beta1, "v1beta1"), (Version::V1Beta2, "v1beta2")] {
        let changed = to_version(&client, version).await.unwrap();
        assert_eq!(changed.len(), 4, "{changed:?}");
        assert_eq!(to_version(&client, version).await.unwrap().len(), 0);
        let report = migrate(&client, migration).await;
        assert_eq!(report.failed, Vec::<String>::new());
        assert_eq!(stored_versions(&client).await, [name]);
        assert_eq!(contents(&new, &names).await, before);
    }
}

/// The client of a user with no more than the shipped role for it.
async fn migrator(served: &Served) -> Client {
    let admin = served.client().await;
    let role = "capo-storage-migration-role";
    let mut documents = apply::documents(include_str!("../../../deploy/rbac.yaml")).unwrap();
    documents.retain(|of| of["kind"] == "ClusterRole" && of["metadata"]["name"] == role);
    assert_eq!(documents.len(), 1);
    documents.push(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "migrator"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "migrator"}],
    }));
    apply::apply(&admin, &documents).await.unwrap();
    let kubeconfig = served.kubernetes.kubeconfig_of("migrator", &[]).unwrap();
    crate::env::kubernetes::client(&kubeconfig).await.unwrap()
}

async fn contents(new: &Api<kube::api::DynamicObject>, names: &[String]) -> Vec<Value> {
    let mut all = Vec::new();
    for name in names {
        let object = new.get(name).await.unwrap();
        all.push(json!([
            object.data,
            object.labels(),
            object
                .annotations()
                .contains_key("infrastructure.cluster.x-k8s.io/v1beta1-fields")
        ]));
    }
    all
}

async fn until_stored(client: &Client, versions: &[&str]) {
    until("the definition's status names the versions", async || {
        (stored_versions(client).await == versions).then_some(())
    })
    .await;
}
