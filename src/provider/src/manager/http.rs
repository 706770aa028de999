//! A small HTTP/1.1 server: the few paths of the probes and the metrics need no router.

use std::{convert::Infallible, future::Future, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Connections at once; more wait for one to end.
const CONNECTIONS: usize = 64;
/// How long a connection may live, however slowly it talks.
const CONNECTION_LIFE: Duration = Duration::from_mins(5);
/// How long a request's head may take.
const HEAD: Duration = Duration::from_secs(10);

/// Bytes of a request's head; tokens of ServiceAccounts have one or two thousand.
const LONGEST_HEAD: usize = 32 * 1024;

/// A whole answer.
pub(super) type Answer = Response<Full<Bytes>>;

/// An answer of plain text.
pub(super) fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(
        CONTENT_TYPE,
        http::HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    answer
}

/// Binds `address`; an error names it.
pub(super) async fn bind(what: &str, address: SocketAddr) -> Result<TcpListener, String> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        // Hosts without IPv6 have no [::]; every IPv4 address is what is left of "all".
        Err(_) if address.ip().is_unspecified() && address.is_ipv6() => {
            TcpListener::bind(("0.0.0.0", address.port()))
                .await
                .map_err(|error| format!("can't listen on {address} for {what}: {error}"))
        }
        Err(error) => Err(format!("can't listen on {address} for {what}: {error}")),
    }
}

/// Serves connections of `listener` until `stop`. `accept` turns a TCP stream into what requests are
/// read from, `answer` answers them.
pub(super) async fn serve<A, AF, S, H, HF>(
    listener: TcpListener,
    stop: CancellationToken,
    accept: A,
    answer: H,
) where
    A: Fn(TcpStream) -> AF + Clone + Send + 'static,
    AF: Future<Output = std::io::Result<S>> + Send + 'static,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request<Incoming>) -> HF + Clone + Send + 'static,
    HF: Future<Output = Answer> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = async {
                let permit = room.clone().acquire_owned().await;
                (listener.accept().await, permit)
            } => accepted,
        };
        let (Ok((stream, _)), Ok(permit)) = accepted else {
            // Out of file descriptors, or the peer is gone already.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (accept, answer, stop) = (accept.clone(), answer.clone(), stop.clone());
        tokio::spawn(async move {
            let _permit = permit;
            let connection = async move {
                let Ok(Ok(stream)) = timeout(HEAD, accept(stream)).await else {
                    return;
                };
                let service = service_fn(move |request| {
                    let answer = answer(request);
                    async move { Ok::<_, Infallible>(answer.await) }
                });
                let _ = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD)
                    .max_buf_size(LONGEST_HEAD)
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            };
            tokio::select! {
                () = stop.cancelled() => {}
                _ = timeout(CONNECTION_LIFE, connection) => {}
            }
        });
    }
}

/// Plain TCP.
pub(super) async fn plain(stream: TcpStream) -> std::io::Result<TcpStream> {
    Ok(stream)
}
