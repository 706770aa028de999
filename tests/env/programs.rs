//! Where the real programs are.

use std::path::{Path, PathBuf};

use super::Error;

const ETCD_MODULE: (&str, &str) = (
    include_str!("programs/etcd/go.mod"),
    "go.etcd.io/etcd/server/v3",
);
const KUBERNETES_MODULE: (&str, &str) = (
    include_str!("programs/kubernetes/go.mod"),
    "k8s.io/kubernetes",
);

/// The etcd binary.
pub fn etcd() -> Result<PathBuf, Error> {
    find("etcd", "etcd", ETCD_MODULE)
}

/// The kube-apiserver binary.
pub fn kube_apiserver() -> Result<PathBuf, Error> {
    find("kube-apiserver", "kubernetes", KUBERNETES_MODULE)
}

fn find(program: &str, folder: &str, (go_mod, module): (&str, &str)) -> Result<PathBuf, Error> {
    if let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty()) {
        let path = Path::new(&assets).join(program);
        return if path.is_file() {
            Ok(path)
        } else {
            Err(format!(
                "KUBEBUILDER_ASSETS is {}, but there is no {program} in it",
                assets.display()
            )
            .into())
        };
    }
    let version = pinned(go_mod, module)
        .ok_or_else(|| format!("no version of {module} in tests/env/programs/{folder}/go.mod"))?;
    let path = cache_folder()?
        .join(format!(
            "{folder}-{version}-linux-{}",
            std::env::consts::ARCH
        ))
        .join(program);
    if path.is_file() {
        return Ok(path);
    }
    Err(format!(
        "{program} {version} is not in {}. Run tests/env/build.sh {program} (needs Go), \
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
