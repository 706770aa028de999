//! Installing on a management cluster where something is missing: what the commands of docs/quickstart.md print, and
//! the way without cert-manager.

use std::path::Path;

use serde_json::Value;

use super::until;
use crate::env::{Authority, Clusterctl, Kubernetes, programs};

const PAGE: &str = include_str!("../../../docs/quickstart.md");
const INSTALL: &str = "capo-rs manifests --with=crds --image=ghcr.io/capo-rs/capo-rs:v1.0.0 \
                       | kubectl apply --server-side --force-conflicts -f -";

/// Whether the commands end well, and what they print.
fn attempt(clusterctl: &Clusterctl, kubeconfig: &Path, commands: &str) -> (bool, String) {
    let output = clusterctl.bash(kubeconfig, commands).unwrap();
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    (output.status.success(), printed)
}

/// The output of the commands. They must fail, and the page's table of what can be missing must list the output.
fn refused(clusterctl: &Clusterctl, kubeconfig: &Path, commands: &str, listed: &str) -> String {
    let (succeeded, printed) = attempt(clusterctl, kubeconfig, commands);
    assert!(!succeeded, "{commands}\n{printed}");
    assert!(printed.contains(listed), "{printed}");
    assert!(
        PAGE.contains(&format!("| `{listed}`")),
        "docs/quickstart.md does not list: {listed}"
    );
    printed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_cert_manager_kubectl_names_it_and_the_page_shows_the_way_without_it() {
    let kubernetes = Kubernetes::start().await.unwrap();
    let kubeconfig = kubernetes.admin_kubeconfig();
    let clusterctl = Clusterctl::new(&["v1.0.0"]).unwrap();
    refused(
        &clusterctl,
        &kubeconfig,
        INSTALL,
        r#"no matches for kind "Certificate" in version "cert-manager.io/v1""#,
    );

    let authority = Authority::new("webhooks").unwrap();
    let serving = authority
        .server(&["capo-webhook-service.capo-system.svc"])
        .unwrap();
    for (name, content) in [
        ("ca.crt", &authority.certificate()),
        ("tls.crt", &serving.certificate),
        ("tls.key", &serving.key),
    ] {
        std::fs::write(clusterctl.home().join(name), content).unwrap();
    }
    let (_, rest) = PAGE.split_once("```bash without-cert-manager\n").unwrap();
    let block = rest.split("```").next().unwrap();
    let (succeeded, printed) = attempt(&clusterctl, &kubeconfig, block);
    assert!(succeeded, "{printed}");
    let (_, read) = attempt(
        &clusterctl,
        &kubeconfig,
        "kubectl get -o json validatingwebhookconfiguration capo-validating-webhook-configuration",
    );
    let read: Value = serde_json::from_str(&read).unwrap();
    for webhook in read["webhooks"].as_array().unwrap() {
        assert!(
            webhook["clientConfig"]["caBundle"].is_string(),
            "{webhook:#}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_api_that_is_too_old_is_named() {
    let kubernetes = Kubernetes::start().await.unwrap();
    let kubeconfig = kubernetes.admin_kubeconfig();
    let clusterctl = Clusterctl::new(&["v1.0.0"]).unwrap();
    // What Cluster API 1.10 has of the definition that clusterctl and capo-rs read the contract from.
    let definition = programs::cluster_api_manifests()
        .unwrap()
        .join("core/crds/cluster.x-k8s.io_clusters.yaml");
    let text = std::fs::read_to_string(definition).unwrap();
    let mut documents = crate::env::apply::documents(&text).unwrap();
    let versions = &mut documents[0]["spec"]["versions"];
    let mut old = versions
        .as_array()
        .unwrap()
        .iter()
        .find(|version| version["name"] == "v1beta1")
        .unwrap()
        .clone();
    old["storage"] = true.into();
    old["served"] = true.into();
    *versions = vec![old].into();
    let admin = kubernetes.admin().await.unwrap();
    crate::env::apply::apply(&admin, &documents).await.unwrap();

    refused(
        &clusterctl,
        &kubeconfig,
        "clusterctl init --infrastructure openstack",
        r#"only with "v1beta2" management clusters, "v1beta1" detected"#,
    );
    let (_, printed) = attempt(
        &clusterctl,
        &kubeconfig,
        "capo-rs crds | kubectl apply --server-side -f -",
    );
    assert!(printed.contains("serverside-applied"), "{printed}");
    // The API server refuses reads for a moment after the definitions were created.
    until("capo-rs preflight names what is missing", async || {
        let (_, printed) = attempt(&clusterctl, &kubeconfig, "capo-rs preflight");
        let named = ["ClusterApiTooOld", "1.11", "CertManagerMissing"];
        named
            .iter()
            .all(|text| printed.contains(text))
            .then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_capo_rs_kubectl_names_the_kind_that_is_missing() {
    let kubernetes = Kubernetes::start().await.unwrap();
    let clusterctl = Clusterctl::new(&["v1.0.0"]).unwrap();
    let cluster = "kubectl apply -f - <<'END'\n\
        {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: OpenStackCluster, metadata: {name: demo}}\nEND";
    refused(
        &clusterctl,
        &kubernetes.admin_kubeconfig(),
        cluster,
        r#"no matches for kind "OpenStackCluster" in version "infrastructure.cluster.x-k8s.io/v1beta2""#,
    );
}
