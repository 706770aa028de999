//! A TCP connection to the endpoint, through the proxy of the manager's environment if one is set for it.

use std::{io::ErrorKind, net::SocketAddr};

use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout_at},
};

use capo_core::{Endpoint, EndpointFailure, Excerpt};

use super::TIME_LIMIT;

/// The largest head of an answer to `CONNECT` that is read.
const HEAD_LIMIT: usize = 8 * 1024;

/// Opens a connection to `endpoint`.
pub(super) async fn open(
    endpoint: &Endpoint,
    proxies: &Matcher,
) -> Result<TcpStream, EndpointFailure> {
    // A host that can't be part of a URL uses no proxy. The lookup of its name then reports what is wrong with it.
    let proxy = format!("https://{endpoint}/")
        .parse::<Uri>()
        .ok()
        .and_then(|uri| proxies.intercept(&uri));
    match proxy {
        Some(proxy) => through(&proxy, endpoint).await,
        None => direct(endpoint.bare_host(), endpoint.port).await,
    }
}

async fn direct(host: &str, port: u16) -> Result<TcpStream, EndpointFailure> {
    let end = Instant::now() + TIME_LIMIT;
    let addresses: Vec<_> = tokio::net::lookup_host((host, port))
        .await
        .map_err(|error| EndpointFailure::NoAddress(Excerpt::of(&error.to_string())))?
        .collect();
    first_of(&addresses, end).await
}

/// Tries the addresses of a host one after the other. Each has an equal share of the time that remains until `end`.
pub(super) async fn first_of(
    addresses: &[SocketAddr],
    end: Instant,
) -> Result<TcpStream, EndpointFailure> {
    let mut last = EndpointFailure::NoAddress(Excerpt::of("the lookup was empty"));
    let mut left = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    for address in addresses {
        let share = end.saturating_duration_since(Instant::now()) / left;
        left = left.saturating_sub(1).max(1);
        match timeout_at(Instant::now() + share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = failure(&error),
            Err(_) => last = EndpointFailure::TimedOut(TIME_LIMIT),
        }
    }
    Err(last)
}

async fn through(proxy: &Intercept, endpoint: &Endpoint) -> Result<TcpStream, EndpointFailure> {
    let uri = proxy.uri();
    let scheme = uri.scheme_str().unwrap_or_default();
    if scheme != "http" {
        return Err(EndpointFailure::UnsupportedProxy(Excerpt::of(scheme)));
    }
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut stream = direct(host, uri.port_u16().unwrap_or(80))
        .await
        .map_err(|failure| EndpointFailure::NoProxy(Box::new(failure)))?;
    let authorization = match proxy.basic_auth().map(|value| value.to_str()) {
        Some(Ok(value)) => format!("Proxy-Authorization: {value}\r\n"),
        _ => String::new(),
    };
    let request = format!("CONNECT {endpoint} HTTP/1.1\r\nHost: {endpoint}\r\n{authorization}\r\n");
    let closed = |error: std::io::Error| EndpointFailure::NoProxy(Box::new(failure(&error)));
    stream.write_all(request.as_bytes()).await.map_err(closed)?;
    let mut head = Vec::new();
    // The head is read byte by byte, because the bytes after it belong to the endpoint.
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == HEAD_LIMIT {
            return Err(not_http());
        }
        head.push(stream.read_u8().await.map_err(closed)?);
        if head.len() == 5 && head != *b"HTTP/" {
            return Err(not_http());
        }
    }
    match status(&head) {
        Some(200..=299) => Ok(stream),
        Some(status) => {
            let mut body = vec![0; 1024];
            let read = stream.read(&mut body).await.unwrap_or_default();
            body.truncate(read);
            Err(EndpointFailure::Proxy {
                status,
                body: Excerpt::of(&String::from_utf8_lossy(&body)),
            })
        }
        None => Err(not_http()),
    }
}

fn not_http() -> EndpointFailure {
    EndpointFailure::NoProxy(Box::new(EndpointFailure::NotHttp))
}

/// The code in the status line of an HTTP/1 answer.
fn status(head: &[u8]) -> Option<u16> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    std::str::from_utf8(line)
        .ok()?
        .strip_prefix("HTTP/1.")?
        .split(' ')
        .nth(1)?
        .parse()
        .ok()
}

/// The reason why there is no connection, or why it ended.
pub(super) fn failure(error: &std::io::Error) -> EndpointFailure {
    match error.kind() {
        ErrorKind::ConnectionRefused => EndpointFailure::Refused,
        ErrorKind::TimedOut => EndpointFailure::TimedOut(TIME_LIMIT),
        ErrorKind::UnexpectedEof
        | ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe => EndpointFailure::Closed,
        kind => EndpointFailure::Unreachable(Excerpt::of(&kind.to_string())),
    }
}
