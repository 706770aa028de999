//! Sends replies: complete, broken off, byte by byte, or not at all.

use std::{
    convert::Infallible,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use crate::{
    faults::Treatment,
    settings::seconds,
    wire::{Body, Reply},
};

/// The reply with the types of the HTTP library.
pub(crate) type Outgoing = hyper::Response<UnsyncBoxBody<Bytes, io::Error>>;

/// The error that ends the connection.
pub(crate) fn broken() -> io::Error {
    io::Error::from(io::ErrorKind::ConnectionReset)
}

fn bytes_of(body: Body) -> (Option<&'static str>, Bytes) {
    match body {
        Body::Empty => (None, Bytes::new()),
        Body::Json(value) => (Some("application/json"), Bytes::from(value.to_string())),
        Body::Text(kind, text) => (Some(kind), Bytes::from(text)),
    }
}

/// A reply without any fault.
pub(crate) fn plain(reply: Reply) -> Outgoing {
    treated(reply, &Treatment::default())
}

/// A reply after the treatment of a fault.
pub(crate) fn treated(reply: Reply, treatment: &Treatment) -> Outgoing {
    let (kind, bytes) = bytes_of(reply.body);
    let mut builder = hyper::Response::builder().status(reply.status);
    if let Some(kind) = kind {
        builder = builder.header("Content-Type", kind);
    }
    for (name, value) in reply.headers {
        builder = builder.header(name, value);
    }
    let length = bytes.len();
    let body: UnsyncBoxBody<Bytes, io::Error> = if treatment.fault.truncate {
        let half = bytes.slice(..length / 2);
        builder = builder.header("Content-Length", length);
        // The available bytes are sent first, because an immediate error would discard the head of the reply.
        let end = stream::once(async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Err(broken())
        });
        let parts = stream::iter([Ok(Frame::data(half))]).chain(end);
        StreamBody::new(parts).boxed_unsync()
    } else if let Some(pause) = treatment.fault.trickle {
        builder = builder.header("Content-Length", length);
        let pause = seconds(pause);
        let single = stream::iter(0..length).then(move |place| {
            let byte = bytes.slice(place..=place);
            async move {
                tokio::time::sleep(pause).await;
                Ok(Frame::data(byte))
            }
        });
        StreamBody::new(single).boxed_unsync()
    } else {
        Full::new(bytes)
            .map_err(|never: Infallible| match never {})
            .boxed_unsync()
    };
    match builder.body(body) {
        Ok(response) => response,
        Err(error) => {
            // A script has set a header value that is not valid.
            let text = Bytes::from(error.to_string());
            let body = Full::new(text)
                .map_err(|never: Infallible| match never {})
                .boxed_unsync();
            let mut response = hyper::Response::new(body);
            *response.status_mut() = hyper::StatusCode::INTERNAL_SERVER_ERROR;
            response
        }
    }
}

/// A connection that can end with a reset instead of an orderly close.
pub(crate) struct Resettable {
    pub(crate) stream: TcpStream,
    pub(crate) reset: Arc<AtomicBool>,
}

impl Drop for Resettable {
    fn drop(&mut self) {
        if self.reset.load(Ordering::SeqCst)
            && let Err(error) = self.stream.set_zero_linger()
        {
            tracing::debug!(%error, "can't reset");
        }
    }
}

impl AsyncRead for Resettable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Resettable {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.reset.load(Ordering::SeqCst) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
