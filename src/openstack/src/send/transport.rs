//! HTTP: one client per set of trusted authorities, time-outs, answers of limited size, and stable texts for failures.

use std::{error::Error as StdError, io, time::Duration};

use bytes::{Bytes, BytesMut};
use reqwest::{Client, RequestBuilder, header::HeaderMap, redirect};

use crate::{
    observer::CallOutcome,
    profile::{ProfileError, certificates},
    settings::ClientSettings,
};

/// An HTTP client with its limits.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    pub(crate) client: Client,
    total_timeout: Duration,
    body_cap: usize,
}

/// A complete answer.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl HttpResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The id that the service gave the request, for logs.
    pub(crate) fn request_id(&self) -> Option<String> {
        let id = self
            .header("x-openstack-request-id")
            .or_else(|| self.header("x-compute-request-id"))?;
        Some(id.chars().take(64).collect())
    }
}

/// Why there is no complete answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TransportError {
    /// The connection was not established in time.
    #[error("the connection was not established in time")]
    ConnectTimedOut,
    /// No complete answer came in time.
    #[error("no complete answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The connection was refused, because no process listens at the address.
    #[error("the connection was refused")]
    Refused,
    /// The host's name can't be resolved.
    #[error("the host's name can't be resolved")]
    Unresolved,
    /// Client and service did not agree on TLS, so no connection was established.
    #[error("TLS: {0}")]
    Tls(&'static str),
    /// The service sent a TLS alert after the client's part of the handshake. With TLS 1.3, a service that requires a
    /// client certificate does so.
    #[error("the service ended the connection with a TLS alert")]
    Alert,
    /// The connection broke before the answer was complete.
    #[error("the connection broke before the answer was complete")]
    Lost,
    /// The answer is larger than the limit.
    #[error("the answer is larger than {} MiB", .0 >> 20)]
    TooLarge(usize),
    /// Any other failure.
    #[error("the request can't be sent")]
    Other,
}

impl TransportError {
    /// Whether the request may have reached the service.
    pub(crate) fn maybe_sent(&self) -> bool {
        match self {
            Self::ConnectTimedOut | Self::Refused | Self::Unresolved | Self::Tls(_) => false,
            Self::TimedOut(_) | Self::Alert | Self::Lost | Self::TooLarge(_) | Self::Other => true,
        }
    }

    /// Whether the answer is larger than the limit.
    pub(crate) fn is_too_large(&self) -> bool {
        matches!(self, Self::TooLarge(_))
    }

    pub(crate) fn outcome(&self) -> CallOutcome {
        match self {
            Self::ConnectTimedOut | Self::TimedOut(_) => CallOutcome::TimedOut,
            Self::TooLarge(_) => CallOutcome::Unreadable,
            Self::Refused
            | Self::Unresolved
            | Self::Tls(_)
            | Self::Alert
            | Self::Lost
            | Self::Other => CallOutcome::Transport,
        }
    }
}

impl Transport {
    /// A client that trusts `authorities` (PEM), or the system's authorities if there are none.
    pub(crate) fn new(
        settings: &ClientSettings,
        authorities: Option<&str>,
        verify: bool,
    ) -> Result<Self, ProfileError> {
        let mut builder = Client::builder()
            .user_agent(settings.user_agent.clone())
            .connect_timeout(settings.connect_timeout)
            .timeout(settings.total_timeout)
            // The caller follows redirects if that is safe, because the token must not reach another host.
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            // The time-out is shorter than the 5 s for which Apache keeps idle connections by default, so that no
            // request is sent on a connection that the server is closing.
            .pool_idle_timeout(Duration::from_secs(4))
            .pool_max_idle_per_host(settings.max_in_flight)
            .tcp_nodelay(true)
            .tls_danger_accept_invalid_certs(!verify);
        if let Some(pem) = authorities {
            let roots = certificates::certificates(pem)?;
            builder = builder.tls_certs_only(roots);
        }
        let client = builder.build().map_err(|_| ProfileError::NoHttpClient)?;
        Ok(Self {
            client,
            total_timeout: settings.total_timeout,
            body_cap: settings.body_cap,
        })
    }

    /// Sends a request and reads the whole answer, up to the size limit.
    pub(crate) async fn exchange(
        &self,
        request: RequestBuilder,
    ) -> Result<HttpResponse, TransportError> {
        let mut response = request
            .send()
            .await
            .map_err(|error| self.transport_error(&error))?;
        let too_large = || TransportError::TooLarge(self.body_cap);
        let announced = response.content_length().unwrap_or_default();
        if usize::try_from(announced).map_or(true, |length| length > self.body_cap) {
            return Err(too_large());
        }
        let mut body = BytesMut::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| self.transport_error(&error))?
        {
            if body.len() + chunk.len() > self.body_cap {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(HttpResponse {
            status: response.status().as_u16(),
            headers: std::mem::take(response.headers_mut()),
            body: body.freeze(),
        })
    }

    fn transport_error(&self, error: &reqwest::Error) -> TransportError {
        if error.is_connect() {
            return connect_error(error);
        }
        // The connection was established, so the request may have reached the service whatever the cause is.
        let tls = causes(error).find_map(|cause| cause.downcast_ref::<rustls::Error>());
        if error.is_timeout() {
            TransportError::TimedOut(self.total_timeout)
        } else if error.is_builder() {
            TransportError::Other
        } else if matches!(tls, Some(rustls::Error::AlertReceived(_))) {
            TransportError::Alert
        } else {
            TransportError::Lost
        }
    }
}

/// Why no connection was established.
fn connect_error(error: &reqwest::Error) -> TransportError {
    if error.is_timeout() {
        return TransportError::ConnectTimedOut;
    }
    let known = causes(error).find_map(|cause| {
        if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
            return Some(TransportError::Tls(tls_problem(tls)));
        }
        if let Some(io) = cause.downcast_ref::<io::Error>() {
            let refused = io.kind() == io::ErrorKind::ConnectionRefused;
            return refused.then_some(TransportError::Refused);
        }
        let unresolved = cause.to_string().contains("dns error");
        unresolved.then_some(TransportError::Unresolved)
    });
    known.unwrap_or(TransportError::Lost)
}

/// The error, its cause, the cause of that, and so on.
fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    let first: &(dyn StdError + 'static) = error;
    std::iter::successors(Some(first), |&error| {
        match error.downcast_ref::<io::Error>() {
            // The error's `source` would skip the inner error.
            Some(io) => io.get_ref().map(|inner| inner as &(dyn StdError + 'static)),
            None => error.source(),
        }
    })
}

/// A text without times and details that vary, such as "certificate expired: verification time …".
fn tls_problem(error: &rustls::Error) -> &'static str {
    use rustls::CertificateError as Certificate;
    match error {
        rustls::Error::InvalidCertificate(problem) => match problem {
            Certificate::Expired | Certificate::ExpiredContext { .. } => {
                "the server's certificate has expired"
            }
            Certificate::NotValidYet | Certificate::NotValidYetContext { .. } => {
                "the server's certificate is not valid yet"
            }
            // A bad signature means another authority with the same name.
            Certificate::UnknownIssuer | Certificate::BadSignature => {
                "the server's certificate is from an authority that is not trusted"
            }
            Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => {
                "the server's certificate is for another name"
            }
            _ => "the server's certificate is not valid",
        },
        rustls::Error::AlertReceived(_) => "the server ended the handshake",
        _ => "the server does not speak TLS, or no version that capo-rs supports",
    }
}
