//! The errors that end the manager.

use crate::{
    http::{ListenError, TlsError},
    kubernetes::ConnectError,
};

/// The reason why the manager could not start, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// The settings contradict each other.
    #[error(transparent)]
    Settings(#[from] super::settings::Contradiction),
    /// The file of `--ca-certs` can't be read.
    #[error("--ca-certs {path}: {source}")]
    AuthoritiesUnreadable {
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file of `--ca-certs` holds no usable certificates.
    #[error("--ca-certs {path}: {source}")]
    AuthoritiesUnusable {
        /// The file.
        path: String,
        /// The error of the parser.
        source: capo_openstack::ProfileError,
    },
    /// A metric can't be registered.
    #[error("can't set up the metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// An address can't be bound.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// TLS can't be set up.
    #[error("can't serve the metrics: {0}")]
    Tls(#[from] TlsError),
    /// The Kubernetes API can't be used.
    #[error(transparent)]
    Kubernetes(#[from] ConnectError),
    /// The API server does not serve the API group of capo-rs, or can't be reached.
    #[error("can't read the versions of infrastructure.cluster.x-k8s.io: {0}")]
    Group(#[source] kube::Error),
    /// The objects that a plan is made from could not all be listed.
    #[error(
        "the Clusters, Machines and the objects of infrastructure.cluster.x-k8s.io could not all be listed; the log has the reason"
    )]
    NotListed,
    /// The process can't receive signals.
    #[error("can't wait for signals: {0}")]
    Signals(std::io::Error),
    /// The controllers ended although no stop was requested.
    #[error("the controllers ended without a stop")]
    ControllersEnded,
    /// The task of the controllers panicked or was aborted.
    #[error("the controllers ended: {0}")]
    ControllersFailed(#[from] tokio::task::JoinError),
    /// Another process may lead now.
    #[error("the leader lease was lost")]
    LeaseLost,
}
