//! The management cluster that all scenarios of a run share: Cluster API and capo-rs, installed once.

use tokio::sync::OnceCell;

use crate::{
    env::{ClusterApiManagers, Installation, Kubernetes, Manager},
    rollout::folder,
};

/// The management cluster. It and its child processes live as long as this process.
pub struct ManagementCluster {
    pub kubernetes: &'static Kubernetes,
    /// The settings with which every manager of capo-rs is started.
    pub installation: Installation,
    _cluster_api: ClusterApiManagers,
    /// The manager that serves the webhooks. It works for no namespace that has objects.
    _webhooks: Manager,
}

impl ManagementCluster {
    /// The management cluster of this process. The first call starts it.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<ManagementCluster> = OnceCell::const_new();
        SHARED
            .get_or_init(|| async {
                let kubernetes = Kubernetes::shared().await;
                let logs = folder("management-plane");
                if logs.exists() {
                    std::fs::remove_dir_all(&logs).unwrap();
                }
                std::fs::create_dir_all(&logs).unwrap();
                let cluster_api = ClusterApiManagers::start(kubernetes, &logs).await.unwrap();
                let installation = Installation::install(kubernetes).await.unwrap();
                let flags = ["--namespace=capo-system"];
                let webhooks = installation.ready_manager(&logs, &flags).await.unwrap();
                Self {
                    kubernetes,
                    installation,
                    _cluster_api: cluster_api,
                    _webhooks: webhooks,
                }
            })
            .await
    }
}
