//! Why the manager ends with a failure.

use crate::{
    http::{ListenError, TlsError},
    kubernetes::ConnectError,
};

/// Why the manager could not start, or had to end.
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
        /// What is wrong with it.
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
    /// The process can't receive signals.
    #[error("can't wait for signals: {0}")]
    Signals(std::io::Error),
    /// The controllers ended although nothing stopped them.
    #[error("the controllers ended without a stop")]
    ControllersEnded,
    /// The task of the controllers panicked or was aborted.
    #[error("the controllers ended: {0}")]
    ControllersFailed(#[from] tokio::task::JoinError),
    /// Another process may lead now.
    #[error("the leader lease was lost")]
    LeaseLost,
}
