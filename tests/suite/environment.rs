//! Tests of the test environment itself.

use std::{path::Path, process::Command, time::Duration};

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

use crate::env::{Guarded, Kubernetes, guarded::Program};

#[tokio::test]
async fn a_real_kube_apiserver_answers_with_rbac() {
    let kubernetes = Kubernetes::shared().await;
    kubernetes.install_cluster_api().await.unwrap();
    let admin: Api<Namespace> = Api::all(kubernetes.admin().await.unwrap());
    assert!(admin.get("default").await.is_ok());

    let kubeconfig = kubernetes.kubeconfig_of("nobody", &[]).unwrap();
    let nobody: Api<Namespace> =
        Api::all(crate::env::kubernetes::client(&kubeconfig).await.unwrap());
    let refused = nobody.get("default").await.unwrap_err();
    assert!(refused.to_string().contains("forbidden"), "{refused}");
}

#[test]
fn a_guarded_process_ends_when_its_owner_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut sleeper = Guarded::start(&Program {
        path: Path::new("/bin/sleep"),
        arguments: vec!["600".to_owned()],
        variables: Vec::new(),
        log: folder.path().join("sleep.log"),
        remove_after: None,
    })
    .unwrap();
    let alive = |pid: u32| Path::new(&format!("/proc/{pid}")).exists();
    let pid = sleeper.pid();
    assert!(alive(pid));
    assert!(sleeper.ended().unwrap().is_none());
    // The kernel closes the pipe of a killed owner; dropping closes the same pipe.
    drop(sleeper);
    assert!(!alive(pid));
}

#[test]
fn a_guarded_process_reports_its_own_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut ended = Guarded::start(&Program {
        path: Path::new("/bin/sh"),
        arguments: vec!["-c".to_owned(), "echo last words; exit 3".to_owned()],
        variables: Vec::new(),
        log: folder.path().join("sh.log"),
        remove_after: None,
    })
    .unwrap();
    assert_eq!(ended.wait(Duration::from_secs(10)).unwrap().code(), Some(3));
    assert_eq!(ended.last_lines(1), "last words");
}

#[test]
fn build_script_names_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/support/build.sh"
    ))
    .env("KUBEBUILDER_ASSETS", folder.path())
    .output()
    .unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("there is no etcd in it"), "{text}");
}
