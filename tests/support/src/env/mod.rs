//! Starts the real programs that tests run against, and the manager, and ends them with the test.
//!
//! The programs come from `KUBEBUILDER_ASSETS` or from the user's cache folder, where `tests/support/build.sh` builds
//! them.
//!
//! ```ignore
//! let kubernetes = env::Kubernetes::start().await?;      // or env::Kubernetes::shared().await
//! let admin = kubernetes.admin().await?;                 // kube::Client, cluster-admin
//! kubernetes.install_cluster_api().await?;               // Cluster, Machine, KubeadmControlPlane
//! ```

pub mod api_server;
pub mod apply;
pub mod authority;
pub mod capo;
pub mod cluster_api;
pub mod cluster_api_managers;
pub mod clusterctl;
pub mod data_path;
pub mod deployments;
pub mod environment;
pub mod etcd;
pub mod garbage;
pub mod guarded;
pub mod installation;
pub mod kstatus;
pub mod kubernetes;
pub mod manager;
pub mod programs;
pub mod prometheus;
pub mod scripted_cluster;

pub use api_server::ApiServer;
pub use authority::Authority;
pub use capo::Capo;
pub use cluster_api::ClusterApi;
pub use cluster_api_managers::ClusterApiManagers;
pub use clusterctl::Clusterctl;
pub use data_path::DataPath;
pub use deployments::Deployments;
pub use environment::Environment;
pub use etcd::Etcd;
pub use guarded::Guarded;
pub use installation::Installation;
pub use kubernetes::Kubernetes;
pub use manager::Manager;
pub use prometheus::Prometheus;
pub use scripted_cluster::ScriptedCluster;

/// Errors while a test is prepared are only printed, and never matched on.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
