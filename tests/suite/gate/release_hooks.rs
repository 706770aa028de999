//! `capo-rs release-hooks`, which removes our hooks without a manager.

use std::{
    path::Path,
    process::{Command, Output},
};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::json;

use super::control_plane::{
    PRE_TERMINATE, first_up, has, is_hooked, join_unhealthy, member, until_enabled, until_held,
};
use crate::{
    env::Environment,
    env::apply::{apply, credentials},
};

/// The kubeconfig of a user with exactly the shipped role for this command.
async fn releaser(environment: &Environment) -> std::path::PathBuf {
    let name = format!("releaser-of-{}", environment.namespace);
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": "capo-system"}});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "capo-release-hooks-role"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "capo-system"}],
    });
    apply(&environment.admin, &[account, binding])
        .await
        .unwrap();
    environment
        .kubernetes
        .kubeconfig_of_service_account("capo-system", &name)
        .await
        .unwrap()
}

async fn run(kubeconfig: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capo-rs"));
    command
        .arg("release-hooks")
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .args(arguments)
        .env_remove("POD_NAMESPACE");
    tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_go_and_joining_members_come_in_without_a_manager() {
    let (mut environment, _, _m0) = first_up("release-hooks", "127.95.0.0/24").await;
    join_unhealthy(&environment, "m1").await;
    environment.cluster_api.delete("Machine", "m0").await;
    until_held(&environment, "m0", "NoOtherMemberServing", &[]).await;
    environment.stop().await;
    let kubeconfig = releaser(&environment).await;

    // Without credentials the hooks are removed nevertheless, and the command reports what it could not do.
    let broken = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cloud-config", "namespace": environment.namespace},
        "stringData": {"clouds.yaml": "clouds: {}"}});
    apply(&environment.admin, &[broken]).await.unwrap();
    let output = run(&kubeconfig, &["--namespace=release-hooks"]).await;
    let (out, complaints) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{out}{complaints}");
    for machine in ["m0", "m1"] {
        assert!(
            out.contains(&format!("hooks removed: Machine release-hooks/{machine}")),
            "{out}"
        );
    }
    assert!(
        out.contains("Machines released: 2, members enabled: 0, failures: 1"),
        "{out}"
    );
    assert!(
        complaints.contains("OpenStackCluster release-hooks/c1"),
        "{complaints}"
    );
    assert!(!is_hooked(&environment.get("Machine", "m1").await));
    // The deletion of a Machine continues: the scripted control plane removes its own hook now.
    environment
        .until_object("Machine", "m0", |machine| {
            !has(machine, PRE_TERMINATE) && !has(machine, super::control_plane::CONTROL_PLANE_HOOK)
        })
        .await;
    assert!(!member(&environment, "m1").await.unwrap().admin_state_up);

    // With credentials the command does the rest, and a second run finds nothing more to do.
    let mended = credentials(
        &environment.namespace,
        "cloud-config",
        &environment.cloud.clouds_yaml(),
    );
    apply(&environment.admin, &[mended]).await.unwrap();
    let output = run(&kubeconfig, &["--namespace=release-hooks"]).await;
    let (out, complaints) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{complaints}");
    assert!(
        out.contains("enabled: load balancer member") && out.contains("-6443-m1"),
        "{out}"
    );
    assert!(
        complaints.contains("warning: the lease capo-system/")
            && complaints.contains("has no holder"),
        "{complaints}"
    );
    until_enabled(&environment, "m1").await;
    let output = run(&kubeconfig, &["--namespace=release-hooks"]).await;
    assert!(text(&output.stdout).contains("Machines released: 0, members enabled: 0, failures: 0"));

    // The next manager continues from this state: m1 gets a hook again, and m0 is deleted.
    environment.start().await;
    environment.until_gone("Machine", "m0").await;
    environment.until_object("Machine", "m1", is_hooked).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_refuses_to_work_beside_a_manager_that_would_put_the_hooks_back() {
    let environment = Environment::in_namespace("release-beside").start().await;
    let kubeconfig = releaser(&environment).await;
    let lease = |mode: Option<&str>| {
        let annotations = mode.map(|mode| {
            json!({"infrastructure.cluster.x-k8s.io/load-balancer-gate-mode": format!("{mode} manager-1")})
        });
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "controller-leader-election-capo", "namespace": "release-beside", "annotations": annotations},
            "spec": {"holderIdentity": "manager-1", "leaseDurationSeconds": 600,
                "renewTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()},
        })
    };
    let arguments = [
        "--namespace=release-beside",
        "--leader-elect-resource-namespace=release-beside",
    ];
    for (mode, refused, words) in [
        (Some("enforce"), true, "enforces the load balancer gate"),
        (Some("observe"), false, "--load-balancer-gate=observe"),
        (Some("off"), false, "--load-balancer-gate=off"),
        (None, false, "does not record a gate mode"),
    ] {
        let leases: Api<Lease> = Api::namespaced(environment.admin.clone(), "release-beside");
        let _ = leases
            .delete(
                "controller-leader-election-capo",
                &kube::api::DeleteParams::default(),
            )
            .await;
        apply(&environment.admin, &[lease(mode)]).await.unwrap();
        let output = run(&kubeconfig, &arguments).await;
        let complaints = text(&output.stderr);
        assert_eq!(output.status.success(), !refused, "{mode:?}: {complaints}");
        assert!(
            complaints.contains(words) && complaints.contains("manager-1"),
            "{complaints}"
        );
        if refused {
            assert!(complaints.contains("--replicas=0") && output.stdout.is_empty());
        }
    }
}
