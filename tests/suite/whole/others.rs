//! Templates, shared credentials and pools: what the manager reports of them, and that tools which wait until an object
//! is done see this.

use capo_api::GROUP;
use fake_cloud::Service;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use serde_json::{Value, json};
use test_support::waiting::until_ok;

use super::isolated::IsolatedEnvironment;
use crate::env::{apply::apply, cluster_api, cluster_api::condition, kstatus};

const IDENTITY: &str = "OpenStackClusterIdentity";
const MACHINE_TEMPLATE: &str = "OpenStackMachineTemplate";

fn credentials() -> Value {
    json!({"name": "cloud-config", "cloudName": "demo"})
}

fn machine_template(name: &str, flavor: &str, identity: Option<Value>) -> Value {
    let mut spec = json!({
        "flavor": {"filter": {"name": flavor}}, "image": {"filter": {"name": "ubuntu-kube"}},
        "rootVolume": {"sizeGiB": 30},
    });
    if let Some(identity) = identity {
        spec["identityRef"] = identity;
    }
    json!({
        "apiVersion": format!("{GROUP}/v1beta2"), "kind": MACHINE_TEMPLATE,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"spec": spec}},
    })
}

fn identity(name: &str, secret: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1alpha1"), "kind": IDENTITY, "metadata": {"name": name},
        "spec": {"secretRef": {"name": secret, "namespace": "default"}},
    })
}

/// Creates one object of each of these kinds. Returns their kinds and names.
pub(super) async fn create_all(
    environment: &IsolatedEnvironment,
    name: &str,
) -> Vec<(&'static str, String)> {
    let cluster_template = json!({
        "apiVersion": format!("{GROUP}/v1beta2"), "kind": "OpenStackClusterTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"spec": {"identityRef": credentials()}}},
    });
    let pool = json!({
        "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "OpenStackFloatingIPPool",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"identityRef": credentials(), "reclaimPolicy": "Retain"},
    });
    let objects = [
        cluster_template,
        pool,
        machine_template(name, "m1.small", Some(credentials())),
        identity(name, "cloud-config"),
    ];
    let admin = environment.kubernetes.admin().await.unwrap();
    apply(&admin, &objects).await.unwrap();
    [
        "OpenStackClusterTemplate",
        "OpenStackFloatingIPPool",
        MACHINE_TEMPLATE,
        IDENTITY,
    ]
    .map(|kind| (kind, name.to_owned()))
    .to_vec()
}

async fn api(environment: &IsolatedEnvironment, kind: &str) -> Api<DynamicObject> {
    let admin = environment.kubernetes.admin().await.unwrap();
    if kind == IDENTITY {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1alpha1", kind));
        Api::all_with(admin, &resource)
    } else {
        cluster_api::api(&admin, "default", kind)
    }
}

/// The object as soon as `wanted` holds for it.
async fn until_object(
    environment: &IsolatedEnvironment,
    kind: &str,
    name: &str,
    what: &str,
    wanted: impl Fn(&Value) -> bool,
) -> Value {
    let api = api(environment, kind).await;
    until_ok(&format!("{kind} {name}: {what}"), async || {
        let object = serde_json::to_value(api.get(name).await.unwrap()).unwrap();
        if wanted(&object) {
            Ok(object)
        } else {
            Err(object)
        }
    })
    .await
}

/// The object as soon as a pass over its generation has ended.
pub(super) async fn until_seen(environment: &IsolatedEnvironment, kind: &str, name: &str) -> Value {
    until_object(environment, kind, name, "was never looked at", |object| {
        object["status"]["observedGeneration"] == object["metadata"]["generation"]
    })
    .await
}

/// The status that kstatus computes for an object.
fn verdict(object: &Value) -> String {
    let verdicts = kstatus::compute(std::slice::from_ref(object)).unwrap();
    verdicts[0].status.clone()
}

async fn patch(environment: &IsolatedEnvironment, kind: &str, name: &str, patch: Value) {
    api(environment, kind)
        .await
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

fn ready(object: &Value) -> (&str, &str, &str) {
    condition(object, "Ready").unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn templates_credentials_and_pools_are_read_and_reported() {
    let environment = IsolatedEnvironment::start().await;
    let manager = environment
        .ready_manager("manager", &["--openstackmachinetemplate-concurrency=1"])
        .await;
    for (kind, name) in create_all(&environment, "one").await {
        let seen = until_seen(&environment, kind, &name).await;
        assert_eq!(verdict(&seen), "Current", "{seen:#}");
    }
    for (kind, name) in create_all(&environment, "wiped").await {
        until_seen(&environment, kind, &name).await;
        let nothing = json!([{"op": "replace", "path": "/status", "value": {}}]);
        let nothing: Patch<()> = Patch::Json(serde_json::from_value(nothing).unwrap());
        api(&environment, kind)
            .await
            .patch_status(&name, &PatchParams::default(), &nothing)
            .await
            .unwrap();
        until_seen(&environment, kind, &name).await;
    }
    machine_templates(&environment).await;
    shared_credentials(&environment).await;

    // A new generation gets a pass.
    let labels = json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}});
    patch(&environment, "OpenStackClusterTemplate", "one", labels).await;
    let seen = until_seen(&environment, "OpenStackClusterTemplate", "one").await;
    assert_eq!(seen["metadata"]["generation"], 2);
    let log = std::fs::read_to_string(manager.process.log()).unwrap();
    assert!(!log.contains("hunter2"), "a password is in the log");
}

/// The capacity of a node is read with two calls, and after that without any.
async fn machine_templates(environment: &IsolatedEnvironment) {
    let seen = until_seen(environment, MACHINE_TEMPLATE, "one").await;
    assert_eq!(
        seen["status"]["capacity"],
        json!({"cpu": "1", "memory": "2048Mi", "storage": "30Gi"})
    );
    let control = environment.cloud.control();
    control.reset_calls();
    let touched = json!({"metadata": {"annotations": {"touched": "yes"}}});
    patch(environment, MACHINE_TEMPLATE, "one", touched).await;
    let admin = environment.kubernetes.admin().await.unwrap();
    let unknown = machine_template("unknown", "m1.huge", Some(credentials()));
    let anonymous = machine_template("anonymous", "m1.small", None);
    apply(&admin, &[unknown, anonymous]).await.unwrap();

    let object = until_object(
        environment,
        MACHINE_TEMPLATE,
        "unknown",
        "is ready",
        |object| ready(object).0 == "False",
    )
    .await;
    let (_, reason, message) = ready(&object);
    assert_eq!(reason, "DependencyNotFound");
    assert!(
        message.contains("spec.template.spec.flavor.filter: no flavor named \"m1.huge\" found"),
        "{message}"
    );
    assert_eq!(verdict(&object), "InProgress");

    let object = until_seen(environment, MACHINE_TEMPLATE, "anonymous").await;
    assert!(ready(&object).2.contains("spec.template.spec.identityRef"));
    assert_eq!(object["status"].get("capacity"), None);
    // The flavors for "unknown"; the image beside them, unless the flavors were back first. The pause before the next
    // attempt is five seconds, more or less by a fifth.
    for service in [Service::Compute, Service::Image] {
        let mut calls = control.calls_since(0);
        calls.retain(|call| call.service == service);
        let mut pairs = calls.windows(2);
        assert!(
            pairs.all(|pair| pair[1].at - pair[0].at >= 3.5),
            "{calls:#?}"
        );
    }
}

/// Whether a Secret can be used, and never what is in it.
async fn shared_credentials(environment: &IsolatedEnvironment) {
    let admin = environment.kubernetes.admin().await.unwrap();
    apply(&admin, &[identity("late", "late")]).await.unwrap();
    let object = until_object(environment, IDENTITY, "late", "is not missed", |object| {
        ready(object).0 == "False"
    })
    .await;
    assert_eq!(
        ready(&object),
        (
            "False",
            "DependencyNotFound",
            "spec.secretRef: Secret default/late does not exist; a Secret with the key clouds.yaml is needed"
        )
    );
    assert_eq!(verdict(&object), "InProgress");

    let secret = |yaml: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "late", "namespace": "default"},
            "stringData": {"clouds.yaml": yaml}})
    };
    let broken = "clouds:\n  demo:\n    auth: {password: hunter2, auth_url: [}\n";
    apply(&admin, &[secret(broken)]).await.unwrap();
    let object = until_object(environment, IDENTITY, "late", "is not read", |object| {
        ready(object).1 == "OpenStackAuthenticationFailed"
    })
    .await;
    assert!(!object.to_string().contains("hunter2"), "{object:#}");

    apply(&admin, &[secret(&environment.cloud.clouds_yaml())])
        .await
        .unwrap();
    let object = until_object(environment, IDENTITY, "late", "is not ready", |object| {
        ready(object).0 == "True"
    })
    .await;
    assert_eq!(verdict(&object), "Current");
    assert_eq!(
        ready(&object).2,
        "spec.namespaceSelector is not set: this identity is open to every namespace"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_identity_without_a_selector_is_closed_where_the_flag_says_so() {
    let environment = IsolatedEnvironment::start().await;
    let _manager = environment
        .ready_manager("manager", &["--cluster-identity-default=deny"])
        .await;
    let admin = environment.kubernetes.admin().await.unwrap();
    let mut selected = identity("selected", "cloud-config");
    selected["spec"]["namespaceSelector"] = json!({});
    apply(&admin, &[identity("closed", "cloud-config"), selected])
        .await
        .unwrap();
    for (name, expected) in [("closed", "False"), ("selected", "True")] {
        let used = json!({"type": "ClusterIdentity", "name": name, "cloudName": "demo"});
        apply(&admin, &[machine_template(name, "m1.small", Some(used))])
            .await
            .unwrap();
        until_object(
            &environment,
            MACHINE_TEMPLATE,
            name,
            "is not judged",
            |object| {
                let (status, _, message) = ready(object);
                status == expected
                    && (name != "closed" || message.contains("does not admit namespace"))
            },
        )
        .await;
    }
    let object = until_seen(&environment, IDENTITY, "closed").await;
    assert!(
        ready(&object)
            .2
            .ends_with("no namespace may use this identity"),
        "{object:#}"
    );
}
