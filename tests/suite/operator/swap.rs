//! What CAPO's release installs, replaced by what capo-rs installs: by server-side apply and by clusterctl, with the
//! commands of docs/migrate-from-capo.md.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use test_support::repository;

use super::release_environment::{ReleaseEnvironment, block};
use crate::env::programs;

/// Other providers of the management cluster, by the labels that clusterctl gives them. Their content does not matter
/// here.
const OTHERS: [(&str, &str, &str); 3] = [
    ("cluster-api", "CoreProvider", "core-components.yaml"),
    (
        "bootstrap-kubeadm",
        "BootstrapProvider",
        "bootstrap-components.yaml",
    ),
    (
        "control-plane-kubeadm",
        "ControlPlaneProvider",
        "control-plane-components.yaml",
    ),
];

fn of_capo() -> PathBuf {
    programs::capo_manifests().unwrap().join("components.yaml")
}

/// What CAPO's release has made of the definitions of the kinds that have two versions in ours.
async fn is_capos(environment: &ReleaseEnvironment) {
    let deployment = environment
        .get("-n capo-system deployment capo-controller-manager")
        .await;
    let manager = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(manager["command"], json!(["/manager"]));
    for plural in ["openstackclusters", "openstackmachines"] {
        let crd = environment
            .get(&format!("crd {plural}.infrastructure.cluster.x-k8s.io"))
            .await;
        let versions = crd["spec"]["versions"].as_array().unwrap();
        assert_eq!(versions.len(), 1, "{versions:?}");
        assert_eq!(crd["status"]["storedVersions"], json!(["v1beta1"]));
    }
    let webhooks = environment
        .get("validatingwebhookconfiguration capo-validating-webhook-configuration")
        .await;
    for entry in webhooks["webhooks"].as_array().unwrap() {
        let path = entry["clientConfig"]["service"]["path"].to_string();
        assert!(!path.contains("v1beta2"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_server_side_apply_and_back() {
    let environment = ReleaseEnvironment::start().await;
    environment
        .create_cluster_api(&[
            "core/crds/cluster.x-k8s.io_clusters.yaml",
            "core/crds/cluster.x-k8s.io_machines.yaml",
            "core/crds/cluster.x-k8s.io_machinedeployments.yaml",
            "control-plane/crds/controlplane.cluster.x-k8s.io_kubeadmcontrolplanes.yaml",
        ])
        .await;
    let file = of_capo();
    environment
        .run(&format!(
            "kubectl create --field-manager=clusterctl -f {}",
            file.display()
        ))
        .await;
    let _rolling_out = environment.roll_out().await;
    let of_capo = installed(&environment).await;
    for before in ["healthy", "cluster-api", "backup"] {
        environment.run(&block(before)).await;
    }
    let kept = std::fs::read_to_string(environment.path("openstack-crds.yaml")).unwrap();
    assert_eq!(kept.matches("kind: CustomResourceDefinition\n").count(), 7);
    environment.run(&block("swap")).await;
    environment.run(&block("swapped")).await;
    assert_eq!(environment.is_ours().await, 5, "CAPO's entries are gone");
    let deployment = environment
        .get("-n capo-system deployment capo-controller-manager")
        .await;
    let arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
    assert!(
        arguments.contains("--load-balancer-gate=observe"),
        "{arguments}"
    );
    assert_eq!(deployment["spec"]["replicas"], 2);

    // The second step of the page removes the flag. There is no conflict any more.
    environment.run(&block("enforce")).await;
    let deployment = environment
        .get("-n capo-system deployment capo-controller-manager")
        .await;
    let arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
    assert!(!arguments.contains("observe"), "{arguments}");

    // The way back: CAPO's release replaces what capo-rs has installed.
    let capo = std::fs::read(&file).unwrap();
    let capo = release(
        &environment,
        "infrastructure-openstack",
        "v0.14.7",
        "infrastructure-components.yaml",
        &capo,
        series(14, 0, "v1beta1").as_bytes(),
    );
    configure(&environment, &capo, &[]);
    for step in [
        "back-hooks",
        "back-converter",
        "back-storage",
        "back-capo",
        "back-leftovers",
    ] {
        environment.run(&block(step)).await;
    }
    is_capos(&environment).await;
    assert_eq!(
        installed(&environment).await,
        of_capo,
        "nothing of ours is left"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_server_side_apply_alone() {
    // The installation is also complete without the other steps of the page, because capo-rs answers the entries of
    // CAPO that stay.
    let environment = ReleaseEnvironment::start().await;
    let capo = of_capo();
    environment
        .run(&format!(
            "kubectl create --field-manager=clusterctl -f {}",
            capo.display()
        ))
        .await;
    let print = "{ capo-rs crds; capo-rs manifests --image=ghcr.io/capo-rs/capo-rs:v1.0.0; }";
    environment
        .run(&format!(
            "{print} | kubectl apply --server-side --force-conflicts -f -"
        ))
        .await;
    assert_eq!(environment.is_ours().await, 10);
}

/// The objects of the provider that is installed, and those of ours that stayed.
async fn installed(environment: &ReleaseEnvironment) -> Vec<String> {
    let kinds = "clusterrole,clusterrolebinding,role,rolebinding,serviceaccount,service,deployment,poddisruptionbudget,\
        networkpolicy,priorityclass,certificates.cert-manager.io,issuers.cert-manager.io,customresourcedefinition,\
        validatingwebhookconfiguration";
    let names = environment
        .run(&format!(
            "kubectl get {kinds} -A -l cluster.x-k8s.io/provider=infrastructure-openstack -o name"
        ))
        .await;
    let mut names: Vec<String> = names.lines().map(str::to_owned).collect();
    names.sort();
    names
}

/// A release in the local repository of `environment`.
fn release(
    environment: &ReleaseEnvironment,
    provider: &str,
    version: &str,
    file: &str,
    content: &[u8],
    metadata: &[u8],
) -> PathBuf {
    let folder = environment.path("repository").join(provider).join(version);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("metadata.yaml"), metadata).unwrap();
    std::fs::write(folder.join(file), content).unwrap();
    folder.join(file)
}

/// The metadata of a release of this series.
fn series(minor: u32, major: u32, contract: &str) -> String {
    json!({"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Metadata",
        "releaseSeries": [{"major": major, "minor": minor, "contract": contract}]})
    .to_string()
}

fn configure(environment: &ReleaseEnvironment, openstack: &Path, others: &[PathBuf]) {
    let mut providers =
        vec![json!({"name": "openstack", "type": "InfrastructureProvider", "url": openstack})];
    for ((label, kind, _), url) in OTHERS.into_iter().zip(others) {
        let name = label.rsplit_once("-kubeadm").map_or(label, |_| "kubeadm");
        providers.push(json!({"name": name, "type": kind, "url": url}));
    }
    let folder = environment.path(".config/cluster-api");
    std::fs::create_dir_all(&folder).unwrap();
    let text = json!({"providers": providers}).to_string();
    std::fs::write(folder.join("clusterctl.yaml"), text).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_clusterctl() {
    let environment = ReleaseEnvironment::start().await;
    // clusterctl reads from it which contract Cluster API serves.
    environment
        .create_cluster_api(&["core/crds/cluster.x-k8s.io_clusters.yaml"])
        .await;
    let others = OTHERS.map(|(name, _, file)| {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name}});
        let content = namespace.to_string();
        release(
            &environment,
            name,
            "v1.14.2",
            file,
            content.as_bytes(),
            series(14, 1, "v1beta2").as_bytes(),
        )
    });
    let file = "infrastructure-components.yaml";
    let capo = std::fs::read(of_capo()).unwrap();
    let capo = release(
        &environment,
        "infrastructure-openstack",
        "v0.14.7",
        file,
        &capo,
        series(14, 0, "v1beta1").as_bytes(),
    );
    configure(&environment, &capo, &others);
    environment
        .run(
            "clusterctl init --core cluster-api:v1.14.2 --bootstrap kubeadm:v1.14.2 \
         --control-plane kubeadm:v1.14.2 --infrastructure openstack:v0.14.7",
        )
        .await;
    // This kind has no webhook, so an object of it can be created while no manager runs.
    let pool = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackFloatingIPPool",
        "metadata": {"name": "kept", "namespace": "default"},
        "spec": {"reclaimPolicy": "Retain", "identityRef": {"type": "Secret", "name": "s", "cloudName": "c"}},
    });
    environment
        .run(&format!("kubectl create -f - <<'END'\n{pool}\nEND"))
        .await;
    let before = environment.get("openstackfloatingippool kept").await;

    let components = environment
        .run("capo-rs manifests --with=crds --image=ghcr.io/capo-rs/capo-rs:v1.0.0")
        .await;
    let metadata = std::fs::read(repository("deploy/metadata.yaml")).unwrap();
    let ours = release(
        &environment,
        "infrastructure-openstack",
        "v1.0.0",
        file,
        components.as_bytes(),
        &metadata,
    );
    configure(&environment, &ours, &others);
    let plan = environment.run("clusterctl upgrade plan").await;
    let offered = plan
        .lines()
        .find(|line| line.starts_with("infrastructure-openstack"));
    let offered = offered.unwrap_or_else(|| panic!("{plan}"));
    assert!(
        offered.contains("v0.14.7") && offered.contains("v1.0.0"),
        "{offered}"
    );
    environment.run(&block("clusterctl")).await;
    assert_eq!(environment.is_ours().await, 5);
    let inventory = environment
        .get("-n capo-system providers.clusterctl.cluster.x-k8s.io infrastructure-openstack")
        .await;
    assert_eq!(inventory["version"], "v1.0.0");
    environment.run(&block("back-inventory")).await;
    let inventory = environment
        .get("-n capo-system providers.clusterctl.cluster.x-k8s.io infrastructure-openstack")
        .await;
    assert_eq!(inventory["version"], "v0.14.7");
    let after = environment.get("openstackfloatingippool kept").await;
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_ne!(after["metadata"]["uid"], Value::Null);
}
