//! clusterctl with a local repository: Cluster API's own components and releases of capo-rs.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::json;

use super::{Error, manager, programs};
use crate::repository;

/// The providers of Cluster API: name, kind, folder in the repository, folder of the components, file.
const CLUSTER_API: [(&str, &str, &str, &str, &str); 3] = [
    (
        "cluster-api",
        "CoreProvider",
        "cluster-api",
        "core",
        "core-components.yaml",
    ),
    (
        "kubeadm",
        "BootstrapProvider",
        "bootstrap-kubeadm",
        "bootstrap",
        "bootstrap-components.yaml",
    ),
    (
        "kubeadm",
        "ControlPlaneProvider",
        "control-plane-kubeadm",
        "control-plane",
        "control-plane-components.yaml",
    ),
];
/// The image's repository of the releases.
const IMAGE: &str = "ghcr.io/capo-rs/capo-rs";

/// The home folder of a user of clusterctl.
#[derive(Debug)]
pub struct Clusterctl {
    home: tempfile::TempDir,
}

impl Clusterctl {
    /// A home with these releases of capo-rs, the newest last.
    pub fn new(releases: &[&str]) -> Result<Self, Error> {
        let clusterctl = Self {
            home: tempfile::tempdir()?,
        };
        let home = clusterctl.home();
        let components = programs::cluster_api_components()?;
        for (_, _, folder, part, file) in CLUSTER_API {
            let release = clusterctl.release(folder, &programs::cluster_api_version()?);
            fs::create_dir_all(&release)?;
            symlink(components.join(format!("{part}.yaml")), release.join(file))?;
            symlink(
                components.join("metadata.yaml"),
                release.join("metadata.yaml"),
            )?;
        }
        for folder in ["cluster-api", "bin"] {
            fs::create_dir_all(home.join(folder))?;
        }
        for release in releases {
            clusterctl.add_release(release)?;
        }
        for (name, path) in [
            ("clusterctl", programs::clusterctl()?),
            ("kubectl", programs::kubectl()?),
            ("capo-rs", manager::binary()),
        ] {
            symlink(path, home.join("bin").join(name))?;
        }
        Ok(clusterctl)
    }

    /// The folder of that home.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The folder of a provider's release in the local repository.
    fn release(&self, provider: &str, version: &str) -> PathBuf {
        self.home().join("repository").join(provider).join(version)
    }

    /// Writes a release into the repository with the script that `make release` uses. From now on clusterctl installs
    /// it.
    pub fn add_release(&self, version: &str) -> Result<(), Error> {
        let folder = self.release("infrastructure-openstack", version);
        fs::create_dir_all(&folder)?;
        let written = Command::new(repository("deploy/clusterctl-folder.sh"))
            .arg(manager::binary())
            .arg(format!("{IMAGE}:{version}"))
            .arg(&folder)
            .output()?;
        if !written.status.success() {
            return Err(String::from_utf8_lossy(&written.stderr).into());
        }
        let mut providers = vec![json!({
            "name": "openstack", "type": "InfrastructureProvider",
            "url": folder.join("infrastructure-components.yaml"),
        })];
        for (name, kind, folder, _, file) in CLUSTER_API {
            let release = self.release(folder, &programs::cluster_api_version()?);
            providers.push(json!({"name": name, "type": kind, "url": release.join(file)}));
        }
        // JSON is YAML too.
        let config = self.home().join("cluster-api/clusterctl.yaml");
        Ok(fs::write(
            config,
            json!({"providers": providers}).to_string(),
        )?)
    }

    /// Runs lines of bash as that user, with this kubeconfig.
    pub fn bash(&self, kubeconfig: &Path, lines: &str) -> Result<Output, Error> {
        let path = std::env::var("PATH")?;
        Ok(Command::new("bash")
            .args(["-euo", "pipefail", "-c", lines])
            .current_dir(self.home())
            .env(
                "PATH",
                format!("{}:{path}", self.home().join("bin").display()),
            )
            .env("HOME", self.home())
            .env("XDG_CONFIG_HOME", self.home())
            .env("KUBECONFIG", kubeconfig)
            .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true")
            .env("GOPROXY", "off")
            .output()?)
    }
}
