//! The paths of the real programs.

use std::path::{Path, PathBuf};

use super::Error;

const ETCD_MODULE: (&str, &str) = (
    include_str!("../../programs/etcd/go.mod"),
    "go.etcd.io/etcd/server/v3",
);
const KUBERNETES_MODULE: (&str, &str) = (
    include_str!("../../programs/kubernetes/go.mod"),
    "k8s.io/kubernetes",
);

const CLUSTER_API_MODULE: (&str, &str) = (
    include_str!("../../programs/cluster-api/go.mod"),
    "sigs.k8s.io/cluster-api",
);

const OLDEST_CLUSTER_API_MODULE: (&str, &str) = (
    include_str!("../../programs/cluster-api-oldest/go.mod"),
    "sigs.k8s.io/cluster-api",
);
/// If it is `1`, managers and definitions are those of the oldest supported Cluster API.
const OLDEST: &str = "CAPO_RS_OLDEST_CLUSTER_API";

const CAPO_MODULE: (&str, &str) = (
    include_str!("../../programs/capo/go.mod"),
    "sigs.k8s.io/cluster-api-provider-openstack",
);

const KSTATUS_MODULE: (&str, &str) = (
    include_str!("../../programs/kstatus/go.mod"),
    "sigs.k8s.io/cli-utils",
);

const KUBE_STATE_METRICS_MODULE: (&str, &str) = (
    include_str!("../../programs/kube-state-metrics/go.mod"),
    "k8s.io/kube-state-metrics/v2",
);

const GLUA_MODULE: (&str, &str) = (
    include_str!("../../programs/glua/go.mod"),
    "github.com/yuin/gopher-lua",
);

/// The etcd binary.
pub fn etcd() -> Result<PathBuf, Error> {
    find("etcd", "etcd", ETCD_MODULE)
}

/// The kube-apiserver binary.
pub fn kube_apiserver() -> Result<PathBuf, Error> {
    find("kube-apiserver", "kubernetes", KUBERNETES_MODULE)
}

/// The kubectl binary.
pub fn kubectl() -> Result<PathBuf, Error> {
    find("kubectl", "kubernetes", KUBERNETES_MODULE)
}

/// The kube-state-metrics binary.
pub fn kube_state_metrics() -> Result<PathBuf, Error> {
    find(
        "kube-state-metrics",
        "kube-state-metrics",
        KUBE_STATE_METRICS_MODULE,
    )
}

/// The Lua that Argo CD runs, as a program.
pub fn glua() -> Result<PathBuf, Error> {
    find("glua", "glua", GLUA_MODULE)
}

/// The clusterctl binary.
pub fn clusterctl() -> Result<PathBuf, Error> {
    find("clusterctl", "cluster-api", CLUSTER_API_MODULE)
}

/// A manager of Cluster API: `core`, `bootstrap` or `control-plane`.
pub fn cluster_api_manager(part: &str) -> Result<PathBuf, Error> {
    of_cluster_api(&format!("cluster-api-{part}"))
}

/// A program of the Cluster API that is tested: the newest, or with [`OLDEST`] the oldest.
fn of_cluster_api(program: &str) -> Result<PathBuf, Error> {
    if std::env::var_os(OLDEST).is_none_or(|value| value != "1") {
        return find(program, "cluster-api", CLUSTER_API_MODULE);
    }
    let (go_mod, module) = OLDEST_CLUSTER_API_MODULE;
    let version = pinned(go_mod, module).ok_or("no version of the oldest Cluster API is pinned")?;
    let folder = format!(
        "cluster-api-oldest-{version}-linux-{}",
        std::env::consts::ARCH
    );
    let path = cache_folder()?.join(folder).join(program);
    if path.exists() {
        return Ok(path);
    }
    Err(format!(
        "{} is not there: run tests/support/build.sh cluster-api-oldest",
        path.display()
    )
    .into())
}

/// The folder with Cluster API's definitions and webhook configurations: `<part>/crds/*.yaml` and
/// `<part>/webhooks.yaml`.
pub fn cluster_api_manifests() -> Result<PathBuf, Error> {
    of_cluster_api("cluster-api-manifests")
}

/// The folder with Cluster API's components as clusterctl installs them: `<part>.yaml` and `metadata.yaml`.
pub fn cluster_api_components() -> Result<PathBuf, Error> {
    find("cluster-api-components", "cluster-api", CLUSTER_API_MODULE)
}

/// The version of Cluster API that the tests run.
pub fn cluster_api_version() -> Result<String, Error> {
    let (go_mod, module) = CLUSTER_API_MODULE;
    Ok(pinned(go_mod, module).ok_or("no version of Cluster API is pinned")?)
}

/// The manager of CAPO, the Go provider.
pub fn capo() -> Result<PathBuf, Error> {
    find("capo", "capo", CAPO_MODULE)
}

/// The folder with CAPO's definitions and webhook configuration: `crds/*.yaml` and `webhooks.yaml`.
pub fn capo_manifests() -> Result<PathBuf, Error> {
    find("capo-manifests", "capo", CAPO_MODULE)
}

/// The oldest Prometheus that the rules are for, as `tests/support/build.sh` has it.
const PROMETHEUS: &str = "2.42";

/// Prometheus or promtool.
pub fn of_prometheus(program: &str) -> Result<PathBuf, Error> {
    of_debian(program, "prometheus", PROMETHEUS)
}

/// The oldest HAProxy that the data path is for, as `tests/support/build.sh` has it.
const HAPROXY: &str = "2.6";

/// HAProxy. The folder `lib` beside it has libraries that it needs, if it was unpacked.
pub fn haproxy() -> Result<PathBuf, Error> {
    of_debian("haproxy", "haproxy", HAPROXY)
}

/// A program of a package of Debian that `tests/support/build.sh` unpacked, or the one on the PATH.
fn of_debian(program: &str, package: &str, at_least: &str) -> Result<PathBuf, Error> {
    let folder = format!("{package}-{at_least}-linux-{}", std::env::consts::ARCH);
    let unpacked = cache_folder()?.join(folder).join(program);
    if unpacked.is_file() {
        return Ok(unpacked);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
        .ok_or_else(|| {
            format!("there is no {program}: run tests/support/build.sh {package}, or install {package} {at_least} or later").into()
        })
}

/// The folder whose `node_modules` has Grafana's types of its boards and a TypeScript compiler.
pub fn grafana_types() -> Result<PathBuf, Error> {
    let cache = cache_folder()?;
    let found = std::fs::read_dir(&cache)?.flatten().find(|entry| {
        let lock = entry.path().join("package-lock.json");
        let is_ours = entry.file_name().to_string_lossy().starts_with("grafana-");
        is_ours
            && entry.path().join("node_modules").is_dir()
            && std::fs::read_to_string(lock)
                .is_ok_and(|text| text == include_str!("../../programs/grafana/package-lock.json"))
    });
    let found = found.ok_or("Grafana's types are not there: run tests/support/build.sh grafana")?;
    Ok(found.path())
}

/// The program around the library kstatus, built from the source that is here now.
pub fn kstatus() -> Result<PathBuf, Error> {
    let source = concat!(
        include_str!("../../programs/kstatus/go.mod"),
        include_str!("../../programs/kstatus/go.sum"),
        include_str!("../../programs/kstatus/main.go"),
    );
    let digest = ring::digest::digest(&ring::digest::SHA256, source.as_bytes());
    let hexadecimal = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    let version = format!("-{}", &hexadecimal.collect::<String>()[..12]);
    find_built("kstatus", "kstatus", KSTATUS_MODULE, &version)
}

fn find(program: &str, folder: &str, module: (&str, &str)) -> Result<PathBuf, Error> {
    find_built(program, folder, module, "")
}

fn find_built(
    program: &str,
    folder: &str,
    (go_mod, module): (&str, &str),
    source: &str,
) -> Result<PathBuf, Error> {
    if let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty()) {
        let path = Path::new(&assets).join(program);
        return if path.exists() {
            Ok(path)
        } else {
            Err(format!(
                "KUBEBUILDER_ASSETS is {}, but there is no {program} in it",
                assets.display()
            )
            .into())
        };
    }
    let version = pinned(go_mod, module).ok_or_else(|| {
        format!("no version of {module} in tests/support/programs/{folder}/go.mod")
    })?;
    let path = cache_folder()?
        .join(format!(
            "{folder}-{version}{source}-linux-{}",
            std::env::consts::ARCH
        ))
        .join(program);
    if path.exists() {
        return Ok(path);
    }
    let goal = match program {
        "capo-manifests" => "capo",
        "cluster-api-components" => "clusterctl",
        program if program.starts_with("cluster-api-") => "cluster-api",
        program => program,
    };
    Err(format!(
        "{program} {version} is not in {}. Run tests/support/build.sh {goal} (needs Go), \
         or set KUBEBUILDER_ASSETS to a folder that holds {program}",
        path.display()
    )
    .into())
}

/// The project's folder in the user's cache.
pub fn cache_folder() -> Result<PathBuf, Error> {
    let of_user = std::env::var_os("XDG_CACHE_HOME")
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    Ok(of_user
        .ok_or("neither XDG_CACHE_HOME nor HOME is set")?
        .join("capo-rs"))
}

fn pinned(go_mod: &str, module: &str) -> Option<String> {
    go_mod.lines().find_map(|line| {
        let mut words = line.trim_start_matches("require ").split_whitespace();
        (words.next() == Some(module)).then(|| words.next().map(str::to_owned))?
    })
}
