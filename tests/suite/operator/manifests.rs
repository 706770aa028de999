//! `capo-rs manifests`: its options, options that contradict each other, and its result applied over an installed CAPO.

use std::{
    collections::BTreeSet,
    process::{Command, Output},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use capo_rs::webhooks::validation::Kind;
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration, apps::v1::Deployment,
    core::v1::Service,
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::env::{Authority, Kubernetes, apply::documents};

const PROVIDER: &str = "infrastructure-openstack";

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_capo-rs"))
        .arg("manifests")
        .args(arguments)
        .output()
        .unwrap()
}

fn manifests(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn find(documents: &[Value], kind: &str, name: &str) -> Value {
    let found = documents
        .iter()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or(&Value::Null).clone()
}

const DEPLOYMENT: [&str; 2] = ["Deployment", "capo-controller-manager"];

#[test]
fn options_of_the_manifests_end_in_the_deployment() {
    let printed = documents(&manifests(&[
        "--replicas=3",
        "--image-pull-policy=Always",
        "--cpu-request=100m",
        "--memory-request=128Mi",
        "--memory-limit=1Gi",
        "--toleration=dedicated=infra:NoSchedule",
        "--arg=--load-balancer-gate=observe",
    ]))
    .unwrap();
    let deployment = find(&printed, DEPLOYMENT[0], DEPLOYMENT[1]);
    assert_eq!(deployment["spec"]["replicas"], 3);
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["tolerations"][2]["value"], "infra");
    let container = &pod["containers"][0];
    assert_eq!(container["imagePullPolicy"], "Always");
    assert_eq!(container["resources"]["requests"]["cpu"], "100m");
    assert_eq!(container["resources"]["limits"]["memory"], "1Gi");
    assert_eq!(
        container["args"],
        json!(["--leader-elect", "--v=2", "--load-balancer-gate=observe"])
    );
    // Nothing else differs.
    let mut as_shipped = documents(&manifests(&[])).unwrap();
    let mut changed = printed;
    for list in [&mut as_shipped, &mut changed] {
        list.retain(|object| object["kind"] != "Deployment");
    }
    assert_eq!(changed, as_shipped);
}

#[test]
fn options_that_contradict_each_other_are_refused_by_name() {
    for (arguments, named) in [
        (&["--replicas=0"][..], &["--replicas"][..]),
        (
            &["--arg=--leader-elect=false"],
            &["--replicas=2", "leader election"],
        ),
        (&["--arg=--webhook-port=1"], &["--webhook-port=1", "9443"]),
        (&["--arg=--health-addr=0"], &["--health-addr", "9440"]),
        (&["--arg=--no-such-flag"], &["--arg", "--no-such-flag"]),
        (
            &["--arg=--member-drain-grace=2h"],
            &["--arg", "--member-drain-grace"],
        ),
        (&["--arg=--namespace=n"], &["--watch-namespace=n"]),
        (
            &["--memory-request=1Gi", "--memory-limit=1Mi"],
            &["--memory-request=1Gi", "--memory-limit=1Mi"],
        ),
        (&["--memory-limit=much"], &["much", "128Mi"]),
        (
            &["--memory-request=1Gi"],
            &["--memory-request=1Gi", "--memory-limit=256Mi (the default)"],
        ),
        (
            &["--memory-limit=32Mi"],
            &["--memory-request=64Mi (the default)", "--memory-limit=32Mi"],
        ),
        (
            &["--arg=--health-addr=127.0.0.1:9440"],
            &["--health-addr", "the Pod's address"],
        ),
        (
            &["--arg=--webhook-cert-dir=/certs"],
            &["--webhook-cert-dir=/certs", "/tmp/k8s-webhook-server"],
        ),
        (
            &["--with=monitoring", "--arg=--diagnostics-address=:9999"],
            &["--diagnostics-address", "8443"],
        ),
        (
            &["--with=monitoring", "--arg=--insecure-diagnostics"],
            &["--insecure-diagnostics", "HTTPS"],
        ),
        (&["--arg=--dry-run"], &["--dry-run", "capo-rs plan"]),
        (
            &["--with=monitoring", "--storage-version=v1beta1"],
            &["--storage-version", "--with=crds"],
        ),
        (
            &["--openstack-port=13000"],
            &["--openstack-port", "--with=networkpolicy"],
        ),
        (
            &["--with=networkpolicy", "--kubernetes-port=0"],
            &["--kubernetes-port"],
        ),
        (&["--toleration=a:b"], &["a:b", "NoSchedule"]),
        (&["--without-cert-manager"], &["--webhook-ca"]),
        (&["--webhook-ca=Cargo.toml"], &["--without-cert-manager"]),
        (
            &["--without-cert-manager", "--webhook-ca=/nowhere"],
            &["--webhook-ca /nowhere"],
        ),
    ] {
        let refused = refused(arguments);
        for text in named {
            assert!(refused.contains(text), "{arguments:?}: {refused}");
        }
    }
}

#[test]
fn the_network_policy_lets_through_the_ports_of_the_cloud() {
    let all = documents(&manifests(&[
        "--with=networkpolicy",
        "--openstack-port=13000,13774",
        "--kubernetes-port=8443",
    ]))
    .unwrap();
    let policy = find(&all, "NetworkPolicy", "capo-controller-manager");
    let ports = |rule: usize| -> Vec<u64> {
        let rule = policy["spec"]["egress"][rule]["ports"].as_array().unwrap();
        rule.iter()
            .map(|port| port["port"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(ports(0), [53, 53]);
    assert_eq!(ports(1), [443, 8443]);
    assert_eq!(ports(2), [13000, 13774]);
}

#[test]
fn without_cert_manager_the_authority_is_filled_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.crt");
    let authority = Authority::new("webhooks").unwrap().certificate();
    std::fs::write(&path, &authority).unwrap();
    let option = format!("--webhook-ca={}", path.display());
    let text = manifests(&["--without-cert-manager", &option, "--with=crds"]);
    assert!(!text.contains("cert-manager.io"), "{text}");
    let all = documents(&text).unwrap();
    let bundle = STANDARD.encode(&authority);
    let webhooks = find(
        &all,
        "ValidatingWebhookConfiguration",
        "capo-validating-webhook-configuration",
    );
    for webhook in webhooks["webhooks"].as_array().unwrap() {
        assert_eq!(webhook["clientConfig"]["caBundle"], bundle.as_str());
    }
    let clusters = find(
        &all,
        "CustomResourceDefinition",
        "openstackclusters.infrastructure.cluster.x-k8s.io",
    );
    let client = &clusters["spec"]["conversion"]["webhook"]["clientConfig"];
    assert_eq!(client["caBundle"], bundle.as_str());
}

#[test]
fn roles_become_part_of_the_built_in_ones_on_request_only() {
    assert!(!manifests(&[]).contains("aggregate-to"));
    let all = documents(&manifests(&["--with=aggregated-roles"])).unwrap();
    for (role, label) in [
        ("capo-viewer-role", "aggregate-to-view"),
        ("capo-editor-role", "aggregate-to-edit"),
    ] {
        let role = find(&all, "ClusterRole", role);
        let label = format!("rbac.authorization.k8s.io/{label}");
        assert_eq!(role["metadata"]["labels"][label], "true");
        assert_eq!(
            role["metadata"]["labels"]["cluster.x-k8s.io/provider"],
            PROVIDER
        );
    }
}

/// Every right as verb, group and resource.
fn rights(role: &Value) -> BTreeSet<String> {
    let texts = |rule: &Value, key: &str| -> Vec<String> {
        let list = rule[key].as_array().into_iter().flatten();
        list.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut rights = BTreeSet::new();
    for rule in role["rules"].as_array().into_iter().flatten() {
        for verb in texts(rule, "verbs") {
            for group in texts(rule, "apiGroups") {
                for resource in texts(rule, "resources") {
                    rights.insert(format!("{verb} {group}/{resource}"));
                }
            }
        }
    }
    rights
}

#[test]
fn a_manager_of_one_namespace_has_rights_in_that_namespace() {
    let everywhere = documents(&manifests(&[])).unwrap();
    let all = documents(&manifests(&["--watch-namespace=team", "--namespace=there"])).unwrap();
    let role = find(&all, "Role", "capo-manager-role");
    let rest = find(&all, "ClusterRole", "capo-manager-role");
    assert_eq!(role["metadata"]["namespace"], "team");
    let whole = rights(&find(&everywhere, "ClusterRole", "capo-manager-role"));
    assert_eq!(&rights(&role) | &rights(&rest), whole);
    assert!(rights(&role).contains("get /secrets"));
    let rest: Vec<String> = rights(&rest).into_iter().collect();
    assert!(
        rest.iter()
            .all(|right| ["namespaces", "identities", "reviews"]
                .iter()
                .any(|scoped| right.contains(scoped))),
        "{rest:?}"
    );
    let binding = find(&all, "RoleBinding", "capo-manager-rolebinding");
    assert_eq!(binding["metadata"]["namespace"], "team");
    assert_eq!(binding["subjects"][0]["namespace"], "there");
    assert_eq!(
        find(&all, "ClusterRole", "capo-storage-migration-role"),
        Value::Null
    );
    let deployment = find(&all, DEPLOYMENT[0], DEPLOYMENT[1]);
    let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    assert_eq!(args[2], "--namespace=team");
    assert_eq!(args[3], "--skip-crd-migration-phases=All");
}

/// The fields that CAPO 0.14's field manager owns and our manifests change, and those of them that stay after a forced
/// server-side apply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn applied_over_capo_nothing_of_it_is_left_that_would_break_the_manager() {
    let kubernetes = Kubernetes::start().await.unwrap();
    let client = kubernetes.admin().await.unwrap();
    let mut theirs = documents(CAPO).unwrap();
    theirs.push(webhooks_of_capo());
    let by = |manager: &str| PatchParams::apply(manager).force();
    for (manager, objects) in [
        ("clusterctl", theirs),
        ("kubectl", documents(&manifests(&["--with=crds"])).unwrap()),
    ] {
        for object in objects {
            if object["apiVersion"] == "cert-manager.io/v1" {
                continue;
            }
            apply_as(&client, &object, &by(manager)).await.unwrap();
        }
    }
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "capo-system");
    let found = deployments.get("capo-controller-manager").await.unwrap();
    let found = serde_json::to_value(found).unwrap();
    let container = &found["spec"]["template"]["spec"]["containers"];
    assert_eq!(container.as_array().unwrap().len(), 1);
    assert_eq!(container[0]["command"], json!(["/capo-rs"]));
    assert_eq!(container[0]["args"], json!(["--leader-elect", "--v=2"]));
    let ports: BTreeSet<(String, i64)> = container[0]["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| {
            let name = port["name"].as_str().unwrap().to_owned();
            (name, port["containerPort"].as_i64().unwrap())
        })
        .collect();
    for (name, port) in [("webhook", 9443), ("healthz", 9440), ("metrics", 8443)] {
        assert!(ports.contains(&(name.to_owned(), port)), "{ports:?}");
    }
    assert_eq!(ports.len(), 3);
    let services: Api<Service> = Api::namespaced(client.clone(), "capo-system");
    let found = services.get("capo-webhook-service").await.unwrap();
    let found = serde_json::to_value(found).unwrap();
    assert_eq!(found["spec"]["ports"].as_array().unwrap().len(), 1);
    assert_eq!(found["spec"]["ports"][0]["targetPort"], "webhook");
    // Entries of CAPO stay under their own names: each of their paths is one that the manager serves.
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(client);
    let found = webhooks
        .get("capo-validating-webhook-configuration")
        .await
        .unwrap();
    let served: Vec<&str> = Kind::ALL
        .iter()
        .flat_map(|kind| kind.paths())
        .copied()
        .collect();
    let entries = found.webhooks.unwrap();
    assert_eq!(entries.len(), 10);
    for entry in entries {
        let path = entry.client_config.service.unwrap().path.unwrap();
        assert!(served.contains(&path.as_str()), "{path}");
    }
}

/// Applies one object of any kind by server-side apply.
async fn apply_as(
    client: &Client,
    object: &Value,
    parameters: &PatchParams,
) -> Result<(), kube::Error> {
    let text = |path: &str| {
        object
            .pointer(path)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (group, version) = text("/apiVersion")
        .split_once('/')
        .unwrap_or(("", text("/apiVersion")));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("/kind")));
    let api: Api<DynamicObject> = match text("/metadata/namespace") {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    api.patch(text("/metadata/name"), parameters, &Patch::Apply(object))
        .await?;
    Ok(())
}

/// The fields of CAPO 0.14's objects that differ from ours: command, arguments, names of ports and of webhooks.
const CAPO: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: capo-system}
---
apiVersion: v1
kind: Service
metadata: {name: capo-webhook-service, namespace: capo-system}
spec:
  selector: {cluster.x-k8s.io/provider: infrastructure-openstack}
  ports: [{port: 443, targetPort: webhook-server}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: capo-controller-manager, namespace: capo-system}
spec:
  replicas: 1
  selector:
    matchLabels: {cluster.x-k8s.io/provider: infrastructure-openstack, control-plane: capo-controller-manager}
  template:
    metadata:
      labels: {cluster.x-k8s.io/provider: infrastructure-openstack, control-plane: capo-controller-manager}
    spec:
      containers:
      - name: manager
        image: capo:0.14
        imagePullPolicy: Always
        command: [/manager]
        args: [--leader-elect, --v=2, '--diagnostics-address=127.0.0.1:8080', --insecure-diagnostics=true]
        ports: [{containerPort: 9440, name: healthz, protocol: TCP}, {containerPort: 9443, name: webhook-server, protocol: TCP}]
";

/// CAPO 0.14's webhooks, whose entries have other names than ours.
fn webhooks_of_capo() -> Value {
    let entries = Kind::ALL.map(|kind| {
        let name = kind.name().to_lowercase();
        let version = if kind == Kind::Server { "v1alpha1" } else { "v1beta1" };
        let path = format!("/validate-infrastructure-cluster-x-k8s-io-{version}-{name}");
        json!({
            "name": format!("validation.{name}.infrastructure.cluster.x-k8s.io"),
            "admissionReviewVersions": ["v1beta1"], "failurePolicy": "Fail", "sideEffects": "None",
            "clientConfig": {"service": {"name": "capo-webhook-service", "namespace": "capo-system", "path": path}},
        })
    });
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "capo-validating-webhook-configuration"}, "webhooks": entries,
    })
}
