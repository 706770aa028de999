//! The manager as a process: flags, start, probes, lease, stop.

use std::process::{Command, Output};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::{Value, json};
use test_support::{
    repository,
    waiting::{PATIENCE, until},
};

use crate::env::{
    Installation, Kubernetes,
    apply::{apply, documents},
    manager::{Manager, get},
};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_capo-rs"))
        .args(arguments)
        .env_remove("KUBECONFIG")
        .output()
        .unwrap()
}

#[test]
fn usage_errors_exit_with_2_and_name_the_flag() {
    let output = run(&["--load-balancer-gate=perhaps"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        text.contains("--load-balancer-gate") && text.contains("observe"),
        "{text}"
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn without_a_kubernetes_api_it_names_the_flag_that_is_missing() {
    let output = run(&[
        "--health-addr=0",
        "--diagnostics-address=0",
        "--webhook-port=0",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("--kubeconfig"), "{text}");
}

#[test]
fn help_fits_a_terminal_of_eighty_columns() {
    let output = run(&["--help"]);
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_says_what_it_waits_for_while_kubernetes_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(
        &kubeconfig,
        r#"{"apiVersion": "v1", "kind": "Config", "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "x", "user": {"token": "x"}}]}"#,
    )
    .unwrap();
    let mut manager = Manager::start(folder.path(), &kubeconfig, &["--webhook-port=0"]).unwrap();
    manager
        .until_logged("Waiting for the Kubernetes API")
        .await
        .unwrap();
    assert_eq!(get(&manager.health_url("/healthz")).await.unwrap().0, 200);
    let (status, body) = get(&manager.health_url("/readyz")).await.unwrap();
    assert_eq!(status, 503);
    assert!(body.contains("kubernetes not ready"), "{body}");
    manager.process.signal("TERM").unwrap();
    assert!(manager.process.wait(PATIENCE).unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_not_ready_while_kubernetes_is_gone_and_names_a_cluster_api_that_is_too_old() {
    let mut kubernetes = Kubernetes::start().await.unwrap();
    let installation = Installation::install(&kubernetes).await.unwrap();
    let mut manager = installation
        .start_manager(kubernetes.folder(), &[], Vec::new())
        .unwrap();
    // No definition of Cluster API is installed. A client sees no difference between that and one that does not serve
    // v1beta2.
    manager
        .until_logged("Cluster API 1.11 or later must be installed")
        .await
        .unwrap();
    kubernetes.install_cluster_api().await.unwrap();
    manager.until_ready().await.unwrap();

    kubernetes.apiserver().signal("STOP").unwrap();
    let url = manager.health_url("/readyz");
    until("the manager is not ready", async || {
        let (status, body) = get(&url).await.ok()?;
        (status == 503 && body.contains("kubernetes not ready")).then_some(())
    })
    .await;
    assert_eq!(get(&manager.health_url("/healthz")).await.unwrap().0, 200);
    kubernetes.apiserver().signal("CONT").unwrap();
    manager.until_ready().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_the_next_takes_over_and_a_frozen_one_stops() {
    // The test needs an API server of its own, because the name of the Lease is fixed.
    let kubernetes = Kubernetes::start().await.unwrap();
    let kubeconfig = kubernetes.install_provider().await.unwrap();
    let start = |name: &str| {
        let folder = kubernetes.folder().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Manager::start(
            &folder,
            &kubeconfig,
            &[
                "--leader-elect",
                // A busy machine is no reason to lose the lease.
                "--leader-elect-lease-duration=12s",
                "--leader-elect-renew-deadline=10s",
                "--leader-elect-retry-period=500ms",
                "--webhook-port=0",
            ],
        )
        .unwrap()
    };
    let leases: Api<Lease> = Api::namespaced(kubernetes.admin().await.unwrap(), "capo-system");
    let holder = async || {
        let lease = leases.get("controller-leader-election-capo").await.unwrap();
        lease.spec.unwrap().holder_identity.unwrap_or_default()
    };

    let mut first = start("first");
    first.until_logged("Leading").await.unwrap();
    let first_identity = holder().await;
    let mut second = start("second");
    second
        .until_logged("Waiting for the leader lease")
        .await
        .unwrap();
    assert_eq!(holder().await, first_identity);
    assert!(
        get(&second.health_url("/readyz"))
            .await
            .unwrap()
            .1
            .contains("caches ok")
    );
    let metrics = second.metrics().await;
    assert!(
        metrics
            .contains("leader_election_master_status{name=\"controller-leader-election-capo\"} 0"),
        "{metrics}"
    );

    // The first manager is frozen for longer than its lease. The second one takes over, and the first one stops as soon
    // as it runs again.
    first.process.signal("STOP").unwrap();
    second.until_logged("Leading").await.unwrap();
    assert_ne!(holder().await, first_identity);
    first.process.signal("CONT").unwrap();
    assert_eq!(first.process.wait(PATIENCE).unwrap().code(), Some(1));
    first
        .until_logged("the leader lease was lost")
        .await
        .unwrap();

    // An orderly stop gives the lease back at once.
    second.process.signal("TERM").unwrap();
    assert!(second.process.wait(PATIENCE).unwrap().success());
    assert_eq!(holder().await, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shipped_manifests_are_taken_by_a_real_api_server() {
    let kubernetes = Kubernetes::shared().await;
    let printed = String::from_utf8(run(&["manifests"]).stdout).unwrap();
    let ours: Vec<Value> = documents(&printed)
        .unwrap()
        .into_iter()
        // cert-manager is not here, and its webhooks would answer for all tests that share this one.
        .filter(|document| {
            document["apiVersion"] != "cert-manager.io/v1"
                && document["kind"] != "ValidatingWebhookConfiguration"
        })
        .collect();
    apply(&kubernetes.admin().await.unwrap(), &ours)
        .await
        .unwrap();
}

/// The object of this kind in `deploy/deployment.yaml`.
fn shipped(kind: &str) -> Value {
    let text = std::fs::read_to_string(repository("deploy/deployment.yaml")).unwrap();
    let found = documents(&text)
        .unwrap()
        .into_iter()
        .find(|document| document["kind"] == kind);
    found.unwrap_or_else(|| panic!("deploy/deployment.yaml has no {kind}"))
}

#[test]
fn one_replica_of_the_deployment_stays_when_a_node_goes() {
    let deployment = shipped("Deployment");
    let labels = &deployment["spec"]["selector"]["matchLabels"];
    assert_eq!(deployment["spec"]["replicas"], 2);
    assert_eq!(
        deployment["spec"]["template"]["metadata"]["labels"],
        *labels
    );
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["priorityClassName"], "system-cluster-critical");
    let spread = &pod["topologySpreadConstraints"][0];
    assert_eq!(spread["topologyKey"], "kubernetes.io/hostname");
    assert_eq!(spread["maxSkew"], 1);
    assert_eq!(spread["labelSelector"]["matchLabels"], *labels);
    let budget = shipped("PodDisruptionBudget");
    assert_eq!(budget["spec"]["maxUnavailable"], 1);
    assert_eq!(budget["spec"]["selector"]["matchLabels"], *labels);
}

#[test]
fn the_deployment_keeps_to_the_restricted_pod_security_standard() {
    let deployment = shipped("Deployment");
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["runAsUser"], 65532);
    assert_eq!(
        pod["securityContext"]["seccompProfile"]["type"],
        "RuntimeDefault"
    );
    let container = &pod["containers"][0];
    assert_eq!(container["name"], "manager");
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(
        container["securityContext"]["allowPrivilegeEscalation"],
        false
    );
    assert_eq!(
        container["securityContext"]["capabilities"]["drop"][0],
        "ALL"
    );
    // Every argument is one that the program takes.
    let arguments: Vec<&str> = container["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|argument| argument.as_str().unwrap())
        .chain(["--help"])
        .collect();
    assert!(run(&arguments).status.success(), "{arguments:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_for_those_who_may_read_them() {
    let (kubernetes, installation) = Installation::in_new_cluster().await.unwrap();
    let admin = kubernetes.admin().await.unwrap();
    let reader = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "capo-metrics-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}],
    });
    let accounts = ["reader", "stranger"].map(|name| {
        json!({"apiVersion": "v1", "kind": "ServiceAccount",
               "metadata": {"name": name, "namespace": "default"}})
    });
    apply(&admin, &[reader, accounts[0].clone(), accounts[1].clone()])
        .await
        .unwrap();
    let manager = installation
        .ready_manager(kubernetes.folder(), &["--insecure-diagnostics=false"])
        .await
        .unwrap();

    let client = kubernetes.authority().https_client();
    let url = format!("https://{}", manager.metrics_url());
    let scrape = async |token: Option<String>| {
        let mut request = client.get(&url);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    assert_eq!(scrape(None).await.0, 401);
    assert_eq!(scrape(Some("made-up".to_owned())).await.0, 401);
    let token = async |name: &str| Some(kubernetes.token("default", name).await.unwrap());
    assert_eq!(scrape(token("stranger").await).await.0, 403);
    let (status, body) = scrape(token("reader").await).await;
    assert_eq!(status, 200);
    assert!(body.contains("capo_build_info"), "{body}");
}
