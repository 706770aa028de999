//! `GET /readyz` over an open connection.

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::AbortOnDropHandle;

use capo_core::{Endpoint, EndpointFailure, Excerpt};

/// The number of bytes that are read of a body. The excerpt of it is shorter.
const BODY_LIMIT: usize = 4 * 1024;

/// Status code and start of the body.
pub(super) async fn get<S>(
    stream: S,
    endpoint: &Endpoint,
) -> Result<(u16, Excerpt), EndpointFailure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let request = Request::get("/readyz")
        .header(header::HOST, endpoint.to_string())
        .header(header::USER_AGENT, "capo-rs")
        .header(header::ACCEPT, "*/*")
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| EndpointFailure::NoAddress(Excerpt::of(&error.to_string())))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| failure(&error))?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let mut response = sender
        .send_request(request)
        .await
        .map_err(|error| failure(&error))?;
    let mut body = Vec::new();
    // Only the status matters, so a body that breaks off counts like a complete one.
    while body.len() < BODY_LIMIT
        && let Some(Ok(frame)) = response.body_mut().frame().await
    {
        if let Ok(data) = frame.into_data() {
            body.extend_from_slice(&data);
        }
    }
    let body = Excerpt::of(&String::from_utf8_lossy(&body));
    Ok((response.status().as_u16(), body))
}

fn failure(error: &hyper::Error) -> EndpointFailure {
    if error.is_parse() {
        EndpointFailure::NotHttp
    } else {
        EndpointFailure::Closed
    }
}
