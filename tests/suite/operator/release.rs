//! What is shipped: manifests as the deploy folder has them, and a release as clusterctl itself reads it.

use std::{
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;
use test_support::repository;

use crate::env::{apply::documents, programs};

const PROVIDER: &str = "infrastructure-openstack";

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_capo-rs"))
        .args(arguments)
        .output()
        .unwrap()
}

fn manifests(arguments: &[&str]) -> String {
    let output = run(&[&["manifests"], arguments].concat());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn committed(files: &[&str]) -> Vec<Value> {
    let read =
        |file: &&str| std::fs::read_to_string(repository(&format!("deploy/{file}.yaml"))).unwrap();
    files
        .iter()
        .flat_map(|file| documents(&read(file)).unwrap())
        .collect()
}

const ALWAYS: [&str; 5] = ["namespace", "rbac", "certificate", "webhooks", "deployment"];

#[test]
fn manifests_are_those_of_the_deploy_folder() {
    assert_eq!(documents(&manifests(&[])).unwrap(), committed(&ALWAYS));
    let more = [
        &ALWAYS[..],
        &["network-policy", "kube-state-metrics", "cluster-operator"],
    ]
    .concat();
    let printed = manifests(&[
        "--with=cluster-operator,networkpolicy",
        "--with=kube-state-metrics",
    ]);
    assert_eq!(documents(&printed).unwrap(), committed(&more));
    assert_eq!(
        printed,
        manifests(&["--with=kube-state-metrics,cluster-operator,networkpolicy,networkpolicy"])
    );
    let elsewhere = manifests(&[
        "--namespace=there",
        "--image=mine:1",
        "--with=crds,networkpolicy",
    ]);
    assert!(!elsewhere.contains("capo-system"));
    assert!(elsewhere.contains("image: mine:1"));
    assert_eq!(
        run(&["manifests", "--with=everything"]).status.code(),
        Some(2)
    );
}

#[test]
fn every_object_carries_the_providers_label_and_one_is_a_namespace() {
    let all = documents(&manifests(&[
        "--with=crds,networkpolicy,kube-state-metrics,cluster-operator",
    ]))
    .unwrap();
    for object in &all {
        let name = format!("{} {}", object["kind"], object["metadata"]["name"]);
        assert_eq!(
            object["metadata"]["labels"]["cluster.x-k8s.io/provider"], PROVIDER,
            "{name}"
        );
    }
    let count = |kind: &str| all.iter().filter(|object| object["kind"] == kind).count();
    assert_eq!(
        (
            count("Namespace"),
            count("Deployment"),
            count("CustomResourceDefinition")
        ),
        (1, 1, 7)
    );
}

#[test]
fn clusterctl_takes_the_release() {
    let folder = tempfile::tempdir().unwrap();
    let version = "v1.0.0".to_owned();
    let release = folder.path().join(PROVIDER).join(&version);
    std::fs::create_dir_all(&release).unwrap();
    let components = release.join("infrastructure-components.yaml");
    std::fs::write(&components, manifests(&["--with=crds"])).unwrap();
    std::fs::copy(
        repository("deploy/metadata.yaml"),
        release.join("metadata.yaml"),
    )
    .unwrap();
    let config = folder.path().join("clusterctl.yaml");
    let text = format!(
        "providers:\n- name: openstack\n  type: InfrastructureProvider\n  url: {}\n",
        components.display()
    );
    std::fs::write(&config, text).unwrap();
    let output = generate(folder.path(), &config, &version);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    let taken = documents(&String::from_utf8(output.stdout).unwrap()).unwrap();
    let manager = taken
        .iter()
        .find(|object| object["kind"] == "Deployment")
        .unwrap();
    assert_eq!(manager["metadata"]["namespace"], "capo-system");
    assert_eq!(
        manager["spec"]["template"]["spec"]["containers"][0]["name"],
        "manager"
    );
    assert!(taken.len() >= 20, "{}", taken.len());
    // It does read the metadata: a version of no series is refused.
    std::fs::write(
        release.join("metadata.yaml"),
        std::fs::read_to_string(repository("deploy/metadata.yaml"))
            .unwrap()
            .replace("major: 1", "major: 99"),
    )
    .unwrap();
    assert!(!generate(folder.path(), &config, &version).status.success());
}

fn generate(home: &Path, config: &Path, version: &str) -> Output {
    Command::new(programs::clusterctl().unwrap())
        .args(["generate", "provider", "--infrastructure"])
        .arg(format!("openstack:{version}"))
        .arg("--config")
        .arg(config)
        // Nothing of whoever runs the tests, and no look for a newer clusterctl.
        .env("HOME", home)
        .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true")
        .output()
        .unwrap()
}

/// What `deploy/release.sh` answers in `folder`, where it must refuse.
fn refused_release(folder: &Path, variables: &[(&str, &str)]) -> String {
    let output = Command::new(folder.join("deploy/release.sh"))
        .env_remove("VERSION")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_release_that_can_not_be_made_says_what_to_do() {
    let top = repository(".");
    let refused = |variables: &[(&str, &str)]| refused_release(&top, variables);
    assert!(refused(&[]).contains("VERSION is not set"));
    assert!(refused(&[("VERSION", "1.0.0")]).contains("such as v1.0.0"));
    assert!(refused(&[("VERSION", "v1.99.0")]).contains("add the series"));
    assert!(
        refused(&[("VERSION", "v1.0.0"), ("ARCHITECTURES", "mips")]).contains("amd64 and arm64")
    );
    let unsigned = [("VERSION", "v1.0.0"), ("SIGNING_KEY", "nobody@nowhere")];
    assert!(refused(&unsigned).contains("SIGNING_KEY is nobody@nowhere"));
    let out = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(out.path().join("infrastructure-openstack/v1.0.0")).unwrap();
    let before = [("VERSION", "v1.0.0"), ("OUT", out.path().to_str().unwrap())];
    assert!(refused(&before).contains("a release is never changed"));
    let copy = tempfile::tempdir().unwrap();
    let cloned = Command::new("git")
        .args(["clone", "--quiet", "--depth=1"])
        .arg(format!("file://{}", top.canonicalize().unwrap().display()))
        .arg(copy.path())
        .status()
        .unwrap();
    assert!(cloned.success());
    std::fs::write(copy.path().join("new"), "").unwrap();
    assert!(refused_release(copy.path(), &[("VERSION", "v1.0.0")]).contains("?? new"));
}

#[test]
fn an_image_has_the_program_the_authorities_and_a_user_that_is_not_root() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("program"), "program").unwrap();
    std::fs::write(file("authorities"), "authorities").unwrap();
    let written = |name: &str| {
        let status = Command::new(repository("deploy/oci_layout.py"))
            .args(["--version=v1.0.0", "--revision=abc"])
            .arg(format!("--out={}", file(name).display()))
            .arg(format!("--certificates={}", file("authorities").display()))
            .arg(format!("amd64={}", file("program").display()))
            .arg(format!("arm64={}", file("program").display()))
            .status()
            .unwrap();
        assert!(status.success());
        std::fs::read_to_string(file(name).join("index.json")).unwrap()
    };
    let index = written("first");
    assert_eq!(
        index,
        written("second"),
        "the same input gives the same image"
    );
    let blob = |descriptor: &Value| -> Value {
        let digest = descriptor["digest"].as_str().unwrap();
        let digest = digest.strip_prefix("sha256:").unwrap();
        let path = file("first").join("blobs/sha256").join(digest);
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    };
    let index: Value = serde_json::from_str(&index).unwrap();
    let images = blob(&index["manifests"][0]);
    let architectures: Vec<_> = images["manifests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|image| image["platform"]["architecture"].clone())
        .collect();
    assert_eq!(architectures, ["amd64", "arm64"]);
    let config = blob(&blob(&images["manifests"][0])["config"]);
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["Entrypoint"][0], "/capo-rs");
}
