//! `status`, `watch` and `explain` as a viewer runs them, against a real kube-apiserver and the real manager.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use k8s_openapi::api::events::v1::Event;
use kube::{Api, Client, api::ListParams};
use serde_json::{Value, json};

use super::{log, until};
use crate::{
    env::{apply::apply, cluster_api::api},
    whole::isolated::IsolatedEnvironment,
};

const GATE: &str = "infrastructure.cluster.x-k8s.io/load-balancer-gate";

fn run(program: &Path, kubeconfig: Option<&Path>, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).env_remove("KUBECONFIG");
    if let Some(kubeconfig) = kubeconfig {
        command.env("KUBECONFIG", kubeconfig);
    } else {
        // The kubeconfig in the home folder of the user who runs the tests must not be used either.
        command.env("HOME", "/nonexistent");
    }
    command.output().unwrap()
}

fn ours() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_capo-rs"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_command_helps_within_eighty_columns() {
    for command in [
        "status",
        "watch",
        "explain",
        "manifests",
        "crds",
        "migrate-storage",
        "plan",
        "preflight",
    ] {
        let output = run(&ours(), None, &[command, "--help"]);
        assert!(output.status.success(), "{command}");
        for line in text(&output.stdout).lines() {
            assert!(line.chars().count() <= 80, "{command}: {line}");
        }
    }
}

#[test]
fn wrong_usage_is_two_and_trouble_is_one_both_on_standard_error() {
    for (arguments, code, expected) in [
        (&["status"][..], 2, "<CLUSTER>"),
        (&["status", "c", "-o", "xml"], 2, "json"),
        (&["watch", "c", "--until=closed"], 2, "open"),
        (&["watch", "c", "--timeout=soon"], 2, "10m"),
        (&["explain", "MemberPendnig"], 2, "MemberPending"),
        (&["status", "c"], 1, "--kubeconfig"),
        (
            &["status", "c", "--kubeconfig=/nonexistent"],
            1,
            "/nonexistent",
        ),
    ] {
        let output = run(&ours(), None, arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        let error = text(&output.stderr);
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}

#[test]
fn it_is_a_plugin_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for (file, name) in [
        ("kubectl-capo", "kubectl capo"),
        ("clusterctl-capo", "clusterctl capo"),
    ] {
        let plugin = folder.path().join(file);
        std::os::unix::fs::symlink(ours(), &plugin).unwrap();
        let help = text(&run(&plugin, None, &["--help"]).stdout);
        assert!(help.contains(&format!("Usage: {name} <COMMAND>")), "{help}");
        assert!(!help.contains("--leader-elect"), "{help}");
        // As a plugin, the program does not run the manager.
        assert_eq!(run(&plugin, None, &[]).status.code(), Some(2));
        let explained = run(&plugin, None, &["explain", "memberpending"]);
        assert!(text(&explained.stdout).contains("PENDING_CREATE"));
    }
}

/// A kubeconfig of an account that has the shipped viewer's role and nothing else.
async fn viewer(environment: &IsolatedEnvironment) -> PathBuf {
    let admin = environment.kubernetes.admin().await.unwrap();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "viewer", "namespace": "default"}});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "viewer", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "capo-viewer-role"},
        "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": "default"}],
    });
    apply(&admin, &[account, binding]).await.unwrap();
    environment
        .kubernetes
        .kubeconfig_of_service_account("default", "viewer")
        .await
        .unwrap()
}

/// `--direct` calls Octavia with the cluster's credentials, if the user may read them.
fn direct_status_needs_the_secret(environment: &IsolatedEnvironment, viewer: &Path) {
    let status = ["status", "seen", "-n", "default", "--direct", "-o", "json"];
    let refused = run(&ours(), Some(viewer), &status);
    assert_eq!(refused.status.code(), Some(1));
    let error = text(&refused.stderr);
    assert!(
        error.contains("Secret default/cloud-config") && error.contains("forbidden"),
        "{error}"
    );

    let admin = environment.kubernetes.admin_kubeconfig();
    let calls = environment.cloud.control().last_call();
    let output = run(&ours(), Some(&admin), &status);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let view: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        view["loadBalancer"]["octavia"]["provisioningStatus"],
        "ACTIVE"
    );
    assert_eq!(view["loadBalancer"]["activeMembers"], "1/1");
    assert_eq!(
        view["machines"][0]["members"]["6443"]["provisioningStatus"],
        "ACTIVE"
    );
    let calls = environment.cloud.control().calls_since(calls);
    let trees = calls
        .iter()
        .filter(|call| call.label == "loadbalancer_status_tree");
    assert!(trees.count() > 0, "{calls:?}");
    let writes = calls
        .iter()
        .any(|call| call.method != "GET" && !call.path.contains("/auth/tokens"));
    assert!(!writes, "{calls:?}");
}

async fn annotate(environment: &IsolatedEnvironment, value: Option<&str>) {
    let admin = environment.kubernetes.admin().await.unwrap();
    let patch = json!({"metadata": {"annotations": {GATE: value}}});
    api(&admin, "default", "OpenStackCluster")
        .patch(
            "seen",
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(patch),
        )
        .await
        .unwrap();
}

/// What `kubectl get` shows of an object: column by column, the wide ones too.
async fn columns(client: &Client, plural: &str, version: &str, name: &str) -> Value {
    let path = format!(
        "/apis/infrastructure.cluster.x-k8s.io/{version}/namespaces/default/{plural}/{name}"
    );
    let request = http::Request::get(path)
        .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .unwrap();
    let table: Value = client.request(request).await.unwrap();
    let names = table["columnDefinitions"].as_array().unwrap().iter();
    let cells = table["rows"][0]["cells"].as_array().unwrap().iter();
    names
        .map(|column| column["name"].as_str().unwrap().to_owned())
        .zip(cells.cloned())
        .collect()
}

async fn columns_agree(environment: &IsolatedEnvironment) {
    let admin = environment.kubernetes.admin().await.unwrap();
    for (version, ready) in [("v1beta1", "true"), ("v1beta2", "True")] {
        let of_cluster = json!({"Name": "seen", "Cluster": "seen", "Ready": ready, "Members": "1/1",
            "Gate": "MembersActive", "Reason": "Ready"});
        let of_machine = json!({"Name": "seen-cp", "Cluster": "seen", "Machine": "seen-cp", "Ready": ready,
            "Members": "1/1", "State": "ACTIVE", "Reason": "Ready"});
        for (plural, name, expected, filled) in [
            (
                "openstackclusters",
                "seen",
                of_cluster,
                ["Endpoint", "Load Balancer", "Network"].as_slice(),
            ),
            ("openstackmachines", "seen-cp", of_machine, &["ProviderID"]),
        ] {
            until(
                &format!("the columns of {plural} in {version}"),
                async || {
                    let shown = columns(&admin, plural, version, name).await;
                    let mut cells = expected.as_object().unwrap().iter();
                    let as_expected = cells.all(|(column, cell)| shown[column] == *cell);
                    let is_filled =
                        |column: &&str| shown[column].as_str().is_some_and(|cell| !cell.is_empty());
                    (as_expected && filled.iter().all(is_filled)).then_some(())
                },
            )
            .await;
        }
    }
}

/// `watch` waits for 100 ms after a change, so that changes that belong together are shown together. A Ctrl-C in that
/// time ends it too.
async fn a_ctrl_c_beside_a_change_ends_it(environment: &IsolatedEnvironment, viewer: &Path) {
    let mut watcher = std::process::Command::new(ours())
        .args(["watch", "seen", "--timeout=10s"])
        .env("KUBECONFIG", viewer)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let admin = environment.kubernetes.admin().await.unwrap();
    let patch = json!({"metadata": {"labels": {"example.com/changed": "yes"}}});
    api(&admin, "default", "OpenStackCluster")
        .patch(
            "seen",
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(patch),
        )
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let process = watcher.id().to_string();
    let sent = std::process::Command::new("kill")
        .args(["-INT", &process])
        .status();
    assert!(sent.unwrap().success());
    let ended = tokio::task::spawn_blocking(move || watcher.wait().unwrap())
        .await
        .unwrap();
    assert_eq!(ended.code(), Some(130));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_sees_who_waits_why_and_when_it_opens() {
    let environment = IsolatedEnvironment::start().await;
    let manager = environment
        .ready_manager("manager", &["--leader-elect", "--logging-format=json"])
        .await;
    environment.create_cluster("seen", "127.79.0.0/24").await;
    environment
        .until_provisioned("OpenStackCluster", "seen")
        .await;
    let viewer = viewer(&environment).await;
    let look = |arguments: &[&str]| run(&ours(), Some(&viewer), arguments);

    annotate(&environment, Some("hold reason=change freeze")).await;
    environment.create_machine("seen", "seen-cp", true).await;
    let _api_server = environment.listen("seen-cp").await;
    let view = until("the operator's hold", async || {
        let output = look(&["status", "seen", "-n", "default", "-o", "json"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let view: Value = serde_json::from_slice(&output.stdout).unwrap();
        let made = view["machines"][0]["members"]["6443"]["id"].is_string();
        (view["gate"]["reason"] == "OperatorHold" && made).then_some(view)
    })
    .await;
    assert_eq!(view["gate"]["state"], "Held");
    assert_eq!(view["machines"][0]["gate"]["gate"], "admission");
    assert_eq!(view["operator"], "hold reason=change freeze");
    let table = text(&look(&["status", "seen"]).stdout);
    for part in [
        "PORT 6443",
        "admission Held",
        "OperatorHold",
        "change freeze",
        "capo-rs explain OperatorHold",
    ] {
        assert!(table.contains(part), "{part} in\n{table}");
    }
    assert!(
        !table.contains('\x1b'),
        "no colours where no terminal is: {table}"
    );
    let yaml = text(&look(&["status", "seen", "-o", "yaml"]).stdout);
    assert!(yaml.contains("reason: OperatorHold"), "{yaml}");
    let waited = look(&["watch", "seen", "--until=open", "--timeout=10s"]);
    assert_eq!(waited.status.code(), Some(3), "{}", text(&waited.stderr));
    assert!(text(&waited.stdout).contains("gate Held OperatorHold"));

    // `watch` prints each change on a line of its own, and ends when the gate opens.
    let watcher = std::process::Command::new(ours())
        .args(["watch", "seen", "--until=open", "--timeout=5m"])
        .env("KUBECONFIG", &viewer)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    annotate(&environment, None).await;
    let ended = tokio::task::spawn_blocking(|| watcher.wait_with_output().unwrap())
        .await
        .unwrap();
    let lines = text(&ended.stdout);
    assert_eq!(
        ended.status.code(),
        Some(0),
        "{lines}{}",
        text(&ended.stderr)
    );
    assert!(lines.lines().last().unwrap().contains("Z  "), "{lines}");
    assert!(lines.contains("gate Open MembersActive"), "{lines}");
    a_ctrl_c_beside_a_change_ends_it(&environment, &viewer).await;
    environment
        .until_provisioned("OpenStackMachine", "seen-cp")
        .await;
    columns_agree(&environment).await;

    let events: Api<Event> =
        Api::namespaced(environment.kubernetes.admin().await.unwrap(), "default");
    let reasons = until("the gate's events", async || {
        let all = events.list(&ListParams::default()).await.unwrap();
        let reasons: Vec<String> = all
            .into_iter()
            .map(|event| event.reason.unwrap_or_default())
            .collect();
        ["GateHeld", "GateOpened", "MemberActive"]
            .iter()
            .all(|wanted| reasons.iter().any(|reason| reason == wanted))
            .then_some(reasons)
    })
    .await;
    // Each event about a member is reported once, however often the member is read.
    assert_eq!(
        reasons
            .iter()
            .filter(|reason| *reason == "MemberActive")
            .count(),
        1,
        "{reasons:?}"
    );

    let metrics = manager.metrics().await;
    let reads = metrics.lines().find_map(|line| {
        line.strip_prefix(r#"capo_poll_cycles_total{kind="load-balancer",outcome="success"} "#)
    });
    let log = std::fs::read_to_string(manager.process.log()).unwrap();
    let about = ("default/seen", "default/seen-cp");
    log::contains_only_changes(&log, about, reads.unwrap().parse().unwrap());

    direct_status_needs_the_secret(&environment, &viewer);

    let unknown = look(&["status", "nothing"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("no Cluster \"nothing\""));
}
