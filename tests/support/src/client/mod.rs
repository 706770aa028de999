//! A client of one cluster's API that sends requests through its endpoint all the time: many short requests, each over
//! a connection of its own, a few long watches, and a writer whose changes the watches must report.

pub mod control;
pub mod requests;
#[cfg(test)]
mod server;
pub mod watches;
pub mod writer;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    client::Resumption,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::env;

/// The time limit of one request. A slower request has failed. An API server that starts accepts connections some
/// seconds before it answers them.
pub const TIME_LIMIT: Duration = Duration::from_secs(10);
/// A request that takes longer counts as slow.
pub const SLOW: Duration = Duration::from_secs(1);
/// The ConfigMap that is read, watched and written.
pub const OBJECT: &str = "rollout-sequence";
/// Its namespace.
pub const NAMESPACE: &str = "kube-system";

/// The failure of a request. The texts have no ports and no counters, so that equal failures have equal texts.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Failure {
    /// No TCP connection.
    #[error("no connection: {0}")]
    Connect(String),
    /// No TLS session.
    #[error("TLS: {0}")]
    Tls(String),
    /// A request without an answer.
    #[error("no answer: {0}")]
    Answer(String),
    /// The status was not 200.
    #[error("status {0}")]
    Status(u16),
    /// An answer that broke off.
    #[error("the answer broke off: {0}")]
    Body(String),
    /// An answer to another request.
    #[error("not what was asked for: {0}")]
    Foreign(String),
    /// No answer within this time.
    #[error("nothing within {} s", .0.as_secs())]
    TimedOut(Duration),
}

/// The address of a cluster's API, and the user.
#[derive(Debug, Clone)]
pub struct Target {
    address: SocketAddr,
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
    /// The longest that one request may take.
    limit: Duration,
}

impl Target {
    /// The API at this address, as the user of a client certificate, all in PEM. The server's certificate must name the
    /// address.
    pub fn new(
        address: SocketAddr,
        authority: &[u8],
        certificate: &[u8],
        key: &[u8],
    ) -> Result<Self, env::Error> {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(authority) {
            roots.add(authority?)?;
        }
        let certificate: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
        let mut tls =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()?
                .with_root_certificates(roots)
                .with_client_auth_cert(certificate?, PrivateKeyDer::from_pem_slice(key)?)?;
        // Each connection has a new session, so that no connection depends on an earlier one.
        tls.resumption = Resumption::disabled();
        Ok(Self {
            address,
            name: ServerName::from(address.ip()),
            tls: Arc::new(tls),
            limit: TIME_LIMIT,
        })
    }

    /// The same cluster at another address: a separate API server. Its certificate still has to name the endpoint.
    pub fn at(&self, address: SocketAddr) -> Self {
        Self {
            address,
            ..self.clone()
        }
    }

    /// Sends one request over a connection of its own, up to the answer's head.
    async fn send(
        &self,
        request: http::request::Builder,
        body: String,
    ) -> Result<Response<Incoming>, Failure> {
        let stream = TcpStream::connect(self.address)
            .await
            .map_err(|error| Failure::Connect(plain(&error)))?;
        let stream = TlsConnector::from(self.tls.clone())
            .connect(self.name.clone(), stream)
            .await
            .map_err(|error| Failure::Tls(plain(&error)))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| Failure::Answer(deepest(&error)))?;
        // The connection ends with the answer's body, or when the body is dropped.
        tokio::spawn(connection);
        let request = request
            .header("host", self.address.to_string())
            .header("user-agent", "rollout-client")
            .header("accept", "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| Failure::Answer(error.to_string()))?;
        sender
            .send_request(request)
            .await
            .map_err(|error| Failure::Answer(deepest(&error)))
    }

    /// Sends one request and reads the whole answer, which must be 200 or 201 and JSON.
    async fn request_json(
        &self,
        request: http::request::Builder,
        body: String,
    ) -> Result<serde_json::Value, Failure> {
        let answer = async {
            let answer = self.send(request, body).await?;
            let status = answer.status().as_u16();
            let body = answer
                .into_body()
                .collect()
                .await
                .map_err(|error| Failure::Body(deepest(&error)))?
                .to_bytes();
            if !matches!(status, 200 | 201) {
                return Err(Failure::Status(status));
            }
            serde_json::from_slice(&body).map_err(|error| Failure::Foreign(error.to_string()))
        };
        tokio::time::timeout(self.limit, answer)
            .await
            .map_err(|_| Failure::TimedOut(self.limit))?
    }

    /// Reads the object once and checks that it is the right one.
    pub async fn read(&self) -> Result<serde_json::Value, Failure> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{OBJECT}");
        let object = self.request_json(Request::get(path), String::new()).await?;
        if object["metadata"]["name"] == OBJECT {
            Ok(object)
        } else {
            Err(Failure::Foreign(object["kind"].to_string()))
        }
    }
}

/// The text of an I/O error, without addresses.
fn plain(error: &std::io::Error) -> String {
    match (error.kind(), error.get_ref()) {
        // rustls has a longer text for this error.
        (std::io::ErrorKind::UnexpectedEof, _) => "closed without a response".to_owned(),
        (_, Some(inner)) => inner.to_string(),
        (kind, None) => kind.to_string(),
    }
}

/// The innermost cause, because the outer errors have no details.
fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    match error.downcast_ref::<std::io::Error>() {
        Some(error) => plain(error),
        None => error.to_string(),
    }
}
