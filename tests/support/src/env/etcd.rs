//! An etcd of one member on free ports of the loopback address.

use std::path::{Path, PathBuf};

use super::{Error, Guarded, guarded::Program, kubernetes::free_port, programs};

/// A running etcd. It is ended when this is dropped.
pub struct Etcd {
    process: Guarded,
    url: String,
}

impl Etcd {
    /// Starts an etcd that keeps its data and its log in `folder`. `remove_after` is deleted when it has ended.
    pub fn start(folder: &Path, remove_after: Option<PathBuf>) -> Result<Self, Error> {
        let url = format!("http://127.0.0.1:{}", free_port()?);
        let peer_url = format!("http://127.0.0.1:{}", free_port()?);
        let process = Guarded::start(&Program {
            path: &programs::etcd()?,
            arguments: [
                "--name",
                "test",
                "--data-dir",
                &folder.join("etcd").display().to_string(),
                "--unsafe-no-fsync",
                "--log-level",
                "warn",
                "--listen-client-urls",
                &url,
                "--advertise-client-urls",
                &url,
                "--listen-peer-urls",
                &peer_url,
                "--initial-advertise-peer-urls",
                &peer_url,
                "--initial-cluster",
                &format!("test={peer_url}"),
            ]
            .map(str::to_owned)
            .to_vec(),
            variables: Vec::new(),
            log: folder.join("etcd.log"),
            remove_after,
        })?;
        Ok(Self { process, url })
    }

    /// The URL for clients.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The process.
    pub fn process(&mut self) -> &mut Guarded {
        &mut self.process
    }
}
