//! The HTTPS server that the API server calls: `/convert` and the validating paths.
//!
//! Every size, time and number is bounded here, because any client that reaches the port may send any data: the API
//! server presents no client certificate.

mod body;
mod observer;
mod routes;

pub use crate::http::{CertificateError, CertificateObserver, MinimumTls};
pub use observer::WebhookObserver;

use std::{
    io,
    net::{Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::http::{self, Certificates, ListenError, Listener, Transport};
use routes::Routes;

/// How the server is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The listening address; `--webhook-port` on every address by default.
    pub address: SocketAddr,
    /// The folder with `tls.crt` and `tls.key` (`--webhook-cert-dir`), both PEM.
    pub certificate_folder: PathBuf,
    /// The oldest TLS version that is accepted (`--tls-min-version`).
    pub minimum_tls: MinimumTls,
    /// Bounds.
    pub limits: Limits,
}

impl Settings {
    /// The default settings: every address, `port`, the certificate in `folder`, TLS 1.2 and the default bounds.
    pub fn new(port: u16, folder: impl Into<PathBuf>) -> Self {
        Self {
            address: SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
            certificate_folder: folder.into(),
            minimum_tls: MinimumTls::V1_2,
            limits: Limits::default(),
        }
    }
}

/// Bounds on sizes, times and numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of an AdmissionReview: two objects at the API server's limit of 3 MiB, and the fields around them.
    pub admission_bytes: usize,
    /// Bytes of a ConversionReview: a list of some thousand clusters.
    pub conversion_bytes: usize,
    /// Bytes of all bodies that are held at the same time; at least the largest single limit, which is reserved for one
    /// body while others share the rest.
    pub bytes_in_flight: usize,
    /// Open connections; more wait in the kernel's queue.
    pub connections: usize,
    /// Time for the TLS handshake.
    pub handshake: Duration,
    /// Time for a request's headers. It also ends idle connections. It is longer than the 90 s after which the API
    /// server itself closes them; otherwise the API server might send a request while this end closes the connection.
    pub headers: Duration,
    /// Time for a request's body, including the wait for its room.
    pub body: Duration,
    /// Time from the head of an AdmissionReview to its response, with all waits. The shipped configuration lets the API
    /// server wait 10 s.
    pub admission_time: Duration,
    /// The same of a ConversionReview. The API server waits 30 s, which several large lists one after the other may
    /// need.
    pub conversion_time: Duration,
    /// Time between two reads of the certificate's files.
    pub certificate_poll: Duration,
    /// Time for open requests to end after a stop.
    pub stop: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            admission_bytes: 8 << 20,
            conversion_bytes: 32 << 20,
            bytes_in_flight: 64 << 20,
            connections: 1000,
            handshake: Duration::from_secs(10),
            headers: Duration::from_secs(100),
            body: Duration::from_secs(10),
            admission_time: Duration::from_secs(10),
            conversion_time: Duration::from_secs(30),
            certificate_poll: Duration::from_secs(10),
            stop: Duration::from_secs(10),
        }
    }
}

impl Limits {
    fn of_listener(self) -> http::ListenerLimits {
        http::ListenerLimits {
            connections: self.connections,
            handshake: self.handshake,
            head: self.headers,
            head_bytes: 64 << 10,
            // The API server keeps its connections open between requests.
            connection: None,
            stop: self.stop,
        }
    }
}

/// Why the server can't start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The certificate can't be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The address can't be bound.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// TLS can't be set up.
    #[error("can't set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// A bound port with a certificate.
pub struct Server {
    listener: Listener,
    certificates: Certificates,
    routes: Arc<Routes>,
    limits: Limits,
}

impl Server {
    /// Reads the certificate and binds the address.
    pub async fn bind(
        settings: Settings,
        observer: Arc<dyn WebhookObserver>,
    ) -> Result<Self, ServerError> {
        let limits = settings.limits;
        let certificates = Certificates::read(
            "webhooks",
            settings.certificate_folder,
            Arc::clone(&observer) as Arc<dyn CertificateObserver>,
        )
        .await?;
        let transport = Transport::Tls(certificates.server_config(settings.minimum_tls)?.into());
        let listener = Listener::bind(
            settings.address,
            "the webhooks",
            transport,
            limits.of_listener(),
        )
        .await?;
        Ok(Self {
            listener,
            certificates,
            routes: Arc::new(Routes::new(limits, observer)),
            limits,
        })
    }

    /// The bound address, with its port if port 0 was requested.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests until `shutdown`, then accepts no new ones and waits a bounded time for the open ones.
    pub async fn serve(self, shutdown: CancellationToken) {
        let Self {
            listener,
            certificates,
            routes,
            limits,
        } = self;
        let watch = certificates.watch(limits.certificate_poll);
        let _watching = AbortOnDropHandle::new(tokio::spawn(watch));
        let serve = listener.serve(shutdown, move |request| {
            let routes = Arc::clone(&routes);
            async move { routes.respond(request).await }
        });
        serve.await;
    }
}
