//! A bound port: accepts connections over TLS or plain TCP, within limits, until it is stopped.

use std::{
    convert::Infallible,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The pause after a failed accept, because the process may be out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A complete response.
pub(crate) type Response = http::Response<Full<Bytes>>;

/// A response of plain text.
pub(crate) fn text(status: StatusCode, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

/// An address can't be bound.
#[derive(Debug, thiserror::Error)]
#[error("can't listen on {address} for {purpose}: {source}")]
pub struct ListenError {
    address: SocketAddr,
    /// The flag or service that the listener is for, as errors name it.
    purpose: &'static str,
    source: io::Error,
}

/// Bounds on the connections of one listener.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListenerLimits {
    /// Open connections; more wait in the kernel's queue.
    pub(crate) connections: usize,
    /// Time for the TLS handshake.
    pub(crate) handshake: Duration,
    /// Time for a request's head. It also ends idle connections.
    pub(crate) head: Duration,
    /// Bytes of a request's head. A ServiceAccount's token takes one or two thousand of them.
    pub(crate) head_bytes: usize,
    /// How long a connection may stay open, however slowly its client reads; `None` for no limit.
    pub(crate) connection: Option<Duration>,
    /// Time for open requests to end once the listener is stopped.
    pub(crate) stop: Duration,
}

impl Default for ListenerLimits {
    /// The limits of probes and metrics.
    fn default() -> Self {
        Self {
            connections: 64,
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(10),
            head_bytes: 32 << 10,
            connection: Some(Duration::from_mins(5)),
            stop: Duration::from_millis(500),
        }
    }
}

/// The transport of the requests: TLS or plain TCP.
#[derive(Clone)]
pub(crate) enum Transport {
    /// HTTP over plain TCP.
    Plain,
    /// HTTPS.
    Tls(TlsAcceptor),
}

/// A bound address.
pub(crate) struct Listener {
    socket: TcpListener,
    purpose: &'static str,
    transport: Transport,
    limits: ListenerLimits,
}

impl Listener {
    /// Binds `address`. If the host has no IPv6, the unspecified address binds every IPv4 address.
    pub(crate) async fn bind(
        address: SocketAddr,
        purpose: &'static str,
        transport: Transport,
        limits: ListenerLimits,
    ) -> Result<Self, ListenError> {
        let bound = match TcpListener::bind(address).await {
            Err(error)
                if address.is_ipv6()
                    && address.ip().is_unspecified()
                    && error.kind() != io::ErrorKind::AddrInUse =>
            {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
            }
            bound => bound,
        };
        let socket = bound.map_err(|source| ListenError {
            address,
            purpose,
            source,
        })?;
        Ok(Self {
            socket,
            purpose,
            transport,
            limits,
        })
    }

    /// The bound address, with the port that the kernel chose if port 0 was requested.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Answers requests with `handler` until `stop`, then accepts no new connections and waits a bounded time for
    /// the open requests.
    pub(crate) async fn serve<H, F>(self, stop: CancellationToken, handler: H)
    where
        H: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
        F: Future<Output = Response> + Send + 'static,
    {
        let connections = Arc::new(Semaphore::new(self.limits.connections));
        let tasks = TaskTracker::new();
        while let Some((stream, permit)) = self.next(&connections, &stop).await {
            tasks.spawn(connection(
                stream,
                permit,
                self.transport.clone(),
                self.limits,
                stop.clone(),
                handler.clone(),
            ));
        }
        let Self {
            socket,
            purpose,
            limits,
            ..
        } = self;
        drop(socket);
        tasks.close();
        if timeout(limits.stop, tasks.wait()).await.is_err() {
            tracing::debug!(purpose, "Some requests were still open at the end");
        }
    }

    /// The next connection, as soon as the limit allows one; `None` once the listener is stopped.
    async fn next(
        &self,
        connections: &Arc<Semaphore>,
        stop: &CancellationToken,
    ) -> Option<(TcpStream, OwnedSemaphorePermit)> {
        let accept = async {
            let permit = Arc::clone(connections).acquire_owned().await.ok()?;
            loop {
                match self.socket.accept().await {
                    Ok((stream, _)) => return Some((stream, permit)),
                    Err(error) => {
                        tracing::warn!(purpose = self.purpose, %error, "Accepting a connection failed");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        };
        tokio::select! {
            () = stop.cancelled() => None,
            accepted = accept => accepted,
        }
    }
}

async fn connection<H, F>(
    stream: TcpStream,
    _permit: OwnedSemaphorePermit,
    transport: Transport,
    limits: ListenerLimits,
    stop: CancellationToken,
    handler: H,
) where
    H: Fn(Request<Incoming>) -> F + Send + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    // Responses are small, so waiting for more data would only delay them.
    let _ = stream.set_nodelay(true);
    match transport {
        Transport::Plain => requests(stream, limits, stop, handler).await,
        Transport::Tls(acceptor) => {
            match timeout(limits.handshake, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => requests(stream, limits, stop, handler).await,
                Ok(Err(error)) => tracing::debug!(%error, "A TLS handshake failed"),
                Err(_) => {}
            }
        }
    }
}

/// Answers the requests of one connection.
async fn requests<S, H, F>(stream: S, limits: ListenerLimits, stop: CancellationToken, handler: H)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request<Incoming>) -> F + Send + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let service = service_fn(move |request| {
        let response = handler(request);
        async move { Ok::<_, Infallible>(response.await) }
    });
    let mut serving = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head)
            .max_buf_size(limits.head_bytes)
            .serve_connection(TokioIo::new(stream), service)
    );
    let too_long = async {
        match limits.connection {
            Some(longest) => tokio::time::sleep(longest).await,
            None => std::future::pending().await,
        }
    };
    let served = tokio::select! {
        served = serving.as_mut() => served,
        () = too_long => return,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "A connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn started(
        limits: ListenerLimits,
    ) -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = Listener::bind(address, "a test", Transport::Plain, limits)
            .await
            .unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let serving = listener.serve(stop.clone(), |request| async move {
            match request.uri().path() {
                "/slow" => tokio::time::sleep(Duration::from_millis(300)).await,
                "/never" => std::future::pending().await,
                _ => {}
            }
            text(StatusCode::OK, "answered")
        });
        (address, stop, tokio::spawn(serving))
    }

    async fn answer(stream: &mut TcpStream) -> String {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[tokio::test]
    async fn a_stop_answers_open_requests_and_ends_idle_connections() {
        let (address, stop, serving) = started(ListenerLimits::default()).await;
        let mut open = TcpStream::connect(address).await.unwrap();
        open.write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        let mut idle = TcpStream::connect(address).await.unwrap();
        idle.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        stop.cancel();
        assert!(answer(&mut open).await.ends_with("answered"));
        assert!(answer(&mut idle).await.ends_with("answered"));
        serving.await.unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn a_stop_does_not_wait_for_ever() {
        let (address, stop, serving) = started(ListenerLimits {
            stop: Duration::from_millis(20),
            ..ListenerLimits::default()
        })
        .await;
        let mut open = TcpStream::connect(address).await.unwrap();
        open.write_all(b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        stop.cancel();
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn a_connection_ends_after_its_time_limit() {
        let (address, _stop, _serving) = started(ListenerLimits {
            connection: Some(Duration::from_millis(50)),
            ..ListenerLimits::default()
        })
        .await;
        let mut silent = TcpStream::connect(address).await.unwrap();
        assert_eq!(answer(&mut silent).await, "");
    }

    #[tokio::test]
    async fn the_error_for_a_port_in_use_names_the_flag() {
        let (address, _stop, _serving) = started(ListenerLimits::default()).await;
        let taken = Listener::bind(
            address,
            "--health-addr",
            Transport::Plain,
            ListenerLimits::default(),
        )
        .await
        .map(|_| ())
        .unwrap_err()
        .to_string();
        let expected = format!("can't listen on {address} for --health-addr: ");
        assert!(taken.starts_with(&expected), "{taken}");
    }
}
