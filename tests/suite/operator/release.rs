//! What is shipped: manifests as the deploy folder has them, and a release as clusterctl itself reads it.

use std::{
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;
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
    // clusterctl reads the metadata: it refuses a version that is in no series.
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
        // The command must not read the settings of the user who runs the tests, nor look for a newer clusterctl.
        .env("HOME", home)
        .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true")
        .output()
        .unwrap()
}

/// The output of `deploy/release.sh` in `folder`, where it must fail.
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
    let copy = clone();
    std::fs::write(copy.path().join("new"), "").unwrap();
    assert!(refused_release(copy.path(), &[("VERSION", "v1.0.0")]).contains("?? new"));
}

#[test]
fn make_says_what_is_missing_before_it_builds_anything() {
    let empty = tempfile::tempdir().unwrap();
    let output = Command::new("make")
        .args(["--no-print-directory", "release"])
        .current_dir(repository("."))
        .envs([("CARGO", "false"), ("VERSION", "")])
        .env("XDG_CACHE_HOME", empty.path())
        .env_remove("MAKEFLAGS")
        .output()
        .unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("VERSION is not set"), "{error}");
}

#[test]
fn a_compiler_that_is_missing_is_named_before_the_tool_for_the_sbom_is_looked_for() {
    let (compiler, architecture) = match std::env::consts::ARCH {
        "aarch64" => ("x86_64-linux-gnu-gcc", "amd64"),
        _ => ("aarch64-linux-gnu-gcc", "arm64"),
    };
    let tools = tempfile::tempdir().unwrap();
    program(&tools.path().join(compiler), "#!/bin/sh\nexit 1\n");
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", tools.path().display());
    let refused = refused_release(
        clone().path(),
        &[
            ("VERSION", "v1.0.0"),
            ("ARCHITECTURES", architecture),
            ("CARGO_CYCLONEDX", "/nowhere/cargo-cyclonedx"),
            ("PATH", &path),
        ],
    );
    assert!(
        refused.contains(&format!(
            "building for {architecture} needs {compiler} with its headers"
        )),
        "{refused}"
    );
    assert!(!refused.contains("SBOM"), "{refused}");
}

fn program(path: &Path, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, script).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A clone of the last commit, whose scripts are those of the work tree.
fn clone() -> TempDir {
    let top = repository(".").canonicalize().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let script = "
        git clone --quiet --depth=1 \"file://$1\" \"$2\"
        cp -r \"$1/deploy\" \"$2/\"
        git -C \"$2\" add --all
        git -C \"$2\" -c user.name=test -c user.email=test@example.com commit --quiet --allow-empty -m scripts";
    let status = Command::new("bash")
        .args(["-euc", script, "clone"])
        .arg(&top)
        .arg(copy.path())
        .status()
        .unwrap();
    assert!(status.success());
    copy
}

/// Stands in for cargo: the program that it builds runs the one of these tests.
const CARGO: &str = r#"#!/bin/sh
echo "$CAPO_RS_VERSION" >"$BUILT"
for argument; do
  case $argument in
  --target=*)
    folder=target/${argument#--target=}/release
    mkdir -p "$folder"
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$PROGRAM" >"$folder/capo-rs"
    chmod +x "$folder/capo-rs" ;;
  esac
done
"#;
/// Stands in for rustup: every target is installed.
const RUSTUP: &str = "#!/bin/sh
echo x86_64-unknown-linux-musl
echo aarch64-unknown-linux-musl
";
/// Stands in for cargo-cyclonedx: writes the path of the sources, as the real one does.
const CYCLONEDX: &str = r#"#!/bin/sh
while [ "$1" != --manifest-path ]; do shift; done
echo "{\"name\": \"capo-rs\", \"purl\": \"file://${2%/Cargo.toml}\"}" >"${2%Cargo.toml}capo-rs.cdx.json"
"#;

/// Stand-ins replace the compiler and the tool for the SBOM. Everything else is what `make release` runs.
#[test]
fn a_release_is_complete_and_its_checksums_fit() {
    let copy = clone();
    let (tools, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (name, script) in [
        ("cargo", CARGO),
        ("rustup", RUSTUP),
        ("cargo-cyclonedx", CYCLONEDX),
    ] {
        program(&tools.path().join(name), script);
    }
    let architecture = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "amd64",
    };
    let path = std::env::var("PATH").unwrap();
    let built = tools.path().join("version");
    let made = Command::new(copy.path().join("deploy/release.sh"))
        .env("PATH", format!("{}:{path}", tools.path().display()))
        .env("PROGRAM", env!("CARGO_BIN_EXE_capo-rs"))
        .env("BUILT", &built)
        .env("OUT", out.path())
        .envs([("VERSION", "v1.0.0"), ("ARCHITECTURES", architecture)])
        .envs([("SIGNING_KEY", ""), ("IMAGE", "registry.example.com/mine")])
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("CARGO_CYCLONEDX")
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{error}");
    assert_eq!(std::fs::read_to_string(built).unwrap(), "1.0.0\n");

    let release = out.path().join(PROVIDER).join("v1.0.0");
    let text = |name: &str| std::fs::read_to_string(release.join(name)).unwrap();
    let sums = text("SHA256SUMS");
    let program = format!("capo-rs-linux-{architecture}");
    for file in [
        "capo-rs.cdx.json",
        "cluster-template.yaml",
        "cluster-template-topology.yaml",
        "clusterclass-openstack-default.yaml",
        "image/index.json",
        "infrastructure-components.yaml",
        "metadata.yaml",
        program.as_str(),
    ] {
        assert!(sums.contains(&format!("  ./{file}\n")), "{file}: {sums}");
    }
    let checked = Command::new("sha256sum")
        .args(["--check", "--strict", "--quiet", "SHA256SUMS"])
        .current_dir(&release)
        .status()
        .unwrap();
    assert!(checked.success());
    let components = text("infrastructure-components.yaml");
    assert!(components.contains("image: registry.example.com/mine:v1.0.0\n"));
    let sources = r#""purl": "file:///capo-rs/src/provider""#;
    assert!(text("capo-rs.cdx.json").contains(sources));
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
