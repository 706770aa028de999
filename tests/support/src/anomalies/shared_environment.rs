//! The management cluster that all scenarios share: a separate kube-apiserver, because the manager watches all its
//! namespaces, and the manager as a process, with thresholds that a test can wait for.

use std::sync::OnceLock;

use crate::env::{Error, Installation, Kubernetes, Manager, kubernetes::started_once};

/// Thresholds that pass during a scenario. A settled load balancer is read every few seconds.
const FLAGS: [&str; 5] = [
    "--sync-period=10s",
    "--member-orphan-after=6s",
    "--member-warn-after=10s",
    "--member-alert-after=20s",
    "--member-stuck-after=30s",
];

pub struct SharedEnvironment {
    pub kubernetes: Kubernetes,
    manager: Manager,
}

impl SharedEnvironment {
    /// The management cluster of this process.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceLock<SharedEnvironment> = OnceLock::new();
        started_once(&SHARED, async || Self::start().await).await
    }

    async fn start() -> Result<Self, Error> {
        let (kubernetes, installation) = Installation::in_new_cluster().await?;
        let logs = kubernetes.folder();
        Ok(Self {
            manager: installation.ready_manager(logs, &FLAGS).await?,
            kubernetes,
        })
    }

    /// The manager's metrics as they are now.
    pub async fn metrics(&self) -> String {
        self.manager.metrics().await
    }

    /// The last lines of the manager's log that contain `text`.
    pub fn logged(&self, text: &str) -> String {
        let log = std::fs::read_to_string(self.manager.process.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(text)).collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}
