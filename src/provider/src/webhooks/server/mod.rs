//! The HTTPS listener that the API server calls: `/convert` and the validating paths.
//!
//! Anybody who reaches the port may send anything, since the API server shows no certificate of its own:
//! every size, time and number is bounded here.

pub(crate) mod certificate;
mod expiry;
mod observer;
mod routes;

pub use certificate::CertificateError;
pub use observer::Observer;

use std::{
    io,
    net::{Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use certificate::Certificates;
use routes::Routes;

/// How the listener is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where to listen; `--webhook-port` on every address by default.
    pub address: SocketAddr,
    /// The folder with `tls.crt` and `tls.key` (`--webhook-cert-dir`), both PEM.
    pub certificate_folder: PathBuf,
    /// The oldest TLS version that is spoken (`--tls-min-version`).
    pub minimum_tls: MinimumTls,
    /// Bounds.
    pub limits: Limits,
}

impl Settings {
    /// Every address, `port`, the certificate in `folder`, TLS 1.2 and the default bounds.
    pub fn new(port: u16, folder: impl Into<PathBuf>) -> Self {
        Self {
            address: SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
            certificate_folder: folder.into(),
            minimum_tls: MinimumTls::V1_2,
            limits: Limits::default(),
        }
    }
}

/// The oldest TLS version that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MinimumTls {
    /// TLS 1.2 and 1.3.
    #[default]
    V1_2,
    /// TLS 1.3 only.
    V1_3,
}

/// Bounds on sizes, times and numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of an AdmissionReview: two objects at the API server's limit of 3 MiB and change.
    pub admission_bytes: usize,
    /// Bytes of a ConversionReview: a list of some thousand clusters.
    pub conversion_bytes: usize,
    /// Bytes of all bodies being held at a time; at least the largest single limit.
    pub bytes_in_flight: usize,
    /// Open connections; more wait in the kernel's queue.
    pub connections: usize,
    /// Time for the TLS handshake.
    pub handshake: Duration,
    /// Time for a request's headers. It also ends connections that nobody uses, so it is longer than the
    /// 90 s after which the API server itself closes them: the other way round it could be just writing.
    pub headers: Duration,
    /// Time for a request's body.
    pub body: Duration,
    /// Time for an answer, waiting for its turn included. The API server gives up after 10 s by default.
    pub answer: Duration,
    /// Time between two looks at the certificate's files.
    pub certificate_poll: Duration,
    /// Time for open requests to end when asked to stop.
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
            body: Duration::from_secs(20),
            answer: Duration::from_secs(20),
            certificate_poll: Duration::from_secs(10),
            stop: Duration::from_secs(10),
        }
    }
}

/// Why the listener can't start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The certificate can't be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The address can't be bound.
    #[error("listening on {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// TLS can't be set up.
    #[error("setting up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// Whether the listener takes requests; for `/readyz`. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Ready(Arc<AtomicBool>);

impl Ready {
    /// True from the moment that requests are answered until the stop begins.
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Release);
    }
}

/// A bound listener with a certificate.
pub struct Server {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    certificates: Certificates,
    routes: Arc<Routes>,
    limits: Limits,
    ready: Ready,
}

impl Server {
    /// Reads the certificate and binds the address.
    pub async fn bind(
        settings: Settings,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, ServerError> {
        let certificates = Certificates::read(
            "webhooks",
            settings.certificate_folder,
            Arc::clone(&observer),
        )
        .await?;
        let acceptor = TlsAcceptor::from(certificates.server_config(settings.minimum_tls)?);
        let listener = bind(settings.address)
            .await
            .map_err(|source| ServerError::Bind {
                address: settings.address,
                source,
            })?;
        Ok(Self {
            listener,
            acceptor,
            certificates,
            routes: Arc::new(Routes::new(settings.limits, observer)),
            limits: settings.limits,
            ready: Ready::default(),
        })
    }

    /// The address that was bound, with its port where 0 was asked for.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The flag for `/readyz`.
    pub fn ready(&self) -> Ready {
        self.ready.clone()
    }

    /// Answers requests until `shutdown`; then takes no new ones and waits a bounded time for those that
    /// are open.
    pub async fn serve(self, shutdown: CancellationToken) {
        let Self {
            listener,
            acceptor,
            certificates,
            routes,
            limits,
            ready,
        } = self;
        let connections = Arc::new(Semaphore::new(limits.connections));
        let tasks = TaskTracker::new();
        let watching = tokio::spawn(certificates.watch(limits.certificate_poll));
        ready.set(true);
        while let Some((stream, permit)) = next(&listener, &connections, &shutdown).await {
            tasks.spawn(connection(
                stream,
                permit,
                acceptor.clone(),
                Arc::clone(&routes),
                limits,
                shutdown.clone(),
            ));
        }
        ready.set(false);
        watching.abort();
        drop(listener);
        tasks.close();
        if tokio::time::timeout(limits.stop, tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("Some webhook requests were still open when the time to stop was over");
        }
    }
}

/// Where IPv6 is switched off, "every address" is the IPv4 one.
async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error)
            if address.ip() == Ipv6Addr::UNSPECIFIED
                && error.kind() != io::ErrorKind::AddrInUse =>
        {
            TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    }
}

/// The next connection, once there is room for one; `None` on shutdown.
async fn next(
    listener: &TcpListener,
    connections: &Arc<Semaphore>,
    shutdown: &CancellationToken,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let accept = async {
        let permit = Arc::clone(connections).acquire_owned().await.ok()?;
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return Some((stream, permit)),
                Err(error) => {
                    // Out of file descriptors, or a connection that ended at once: the listener is fine.
                    tracing::warn!(%error, "Accepting a webhook connection failed");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    };
    tokio::select! {
        () = shutdown.cancelled() => None,
        accepted = accept => accepted,
    }
}

async fn connection(
    stream: TcpStream,
    permit: OwnedSemaphorePermit,
    acceptor: TlsAcceptor,
    routes: Arc<Routes>,
    limits: Limits,
    shutdown: CancellationToken,
) {
    let _permit = permit;
    // Answers are small: waiting for more to send would only add delay.
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(limits.handshake, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, "A TLS handshake with a webhook client failed");
            return;
        }
        Err(_) => return,
    };
    let service = service_fn(move |request| {
        let routes = Arc::clone(&routes);
        async move { Ok::<_, std::convert::Infallible>(routes.answer(request).await) }
    });
    let mut serving = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.headers)
            .max_buf_size(64 << 10)
            .serve_connection(TokioIo::new(stream), service)
    );
    let served = tokio::select! {
        served = serving.as_mut() => served,
        () = shutdown.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "A webhook connection ended early");
    }
}
