//! Asks an API server for `/readyz` at its own address, under the cluster's CA.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use rustls::{
    CertificateError, ClientConfig, RootCertStore,
    pki_types::{CertificateDer, DnsName, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use capo_gate::event::ProbeOutcome;

/// A way to ask API servers.
pub trait Prober: Send + Sync + 'static {
    /// Asks the API server at `address` and `port` for `/readyz`; `ca` is the cluster's CA in PEM.
    fn probe(&self, address: IpAddr, port: u16, ca: Arc<str>) -> BoxFuture<'static, ProbeOutcome>;
}

/// Asks over TLS, anonymously, for at most three seconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct TlsProber;

const TIME_LIMIT: Duration = Duration::from_secs(3);
/// Longer than any status line up to its code.
const STATUS_LINE: usize = 12;

impl TlsProber {
    /// Nothing is kept between two probes.
    pub fn new() -> Self {
        Self
    }
}

impl Prober for TlsProber {
    fn probe(&self, address: IpAddr, port: u16, ca: Arc<str>) -> BoxFuture<'static, ProbeOutcome> {
        async move {
            let asked = ask(SocketAddr::new(address, port), &ca);
            match tokio::time::timeout(TIME_LIMIT, asked).await {
                Ok(outcome) => outcome,
                Err(_) => ProbeOutcome::NoConnection,
            }
        }
        .boxed()
    }
}

async fn ask(target: SocketAddr, ca: &str) -> ProbeOutcome {
    let Some(config) = config(ca) else {
        return ProbeOutcome::NoConnection;
    };
    let connector = TlsConnector::from(Arc::new(config));
    // Its certificate names its address as a rule, and always the Service's name.
    let names = [
        Some(ServerName::from(target.ip())),
        DnsName::try_from("kubernetes")
            .ok()
            .map(ServerName::DnsName),
    ];
    for name in names.into_iter().flatten() {
        let stream = match TcpStream::connect(target).await {
            Ok(stream) => stream,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                return ProbeOutcome::Refused;
            }
            Err(_) => return ProbeOutcome::NoConnection,
        };
        match connector.connect(name, stream).await {
            Ok(stream) => return ask_readyz(stream, target).await,
            Err(error) => match certificate_trouble(&error) {
                Some(Trouble::OtherName) => {}
                Some(Trouble::Wrong) => return ProbeOutcome::WrongCertificate,
                None => return ProbeOutcome::NoConnection,
            },
        }
    }
    // Under the cluster's CA, but for nobody we know: says nothing.
    ProbeOutcome::Answered
}

enum Trouble {
    OtherName,
    Wrong,
}

fn certificate_trouble(error: &std::io::Error) -> Option<Trouble> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    match error {
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => Some(Trouble::OtherName),
        rustls::Error::InvalidCertificate(_) => Some(Trouble::Wrong),
        _ => None,
    }
}

async fn ask_readyz<S>(mut stream: S, target: SocketAddr) -> ProbeOutcome
where
    S: AsyncReadExt + AsyncWriteExt + Unpin,
{
    let request = format!(
        "GET /readyz HTTP/1.1\r\nHost: {target}\r\nUser-Agent: capo-rs\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    );
    if stream.write_all(request.as_bytes()).await.is_err() || stream.flush().await.is_err() {
        return ProbeOutcome::NoConnection;
    }
    let mut line = [0_u8; STATUS_LINE];
    if stream.read_exact(&mut line).await.is_err() {
        return ProbeOutcome::NoConnection;
    }
    outcome(&line)
}

/// From the first bytes of an HTTP/1 answer.
fn outcome(line: &[u8]) -> ProbeOutcome {
    let code = std::str::from_utf8(line)
        .ok()
        .filter(|line| line.starts_with("HTTP/1."))
        .and_then(|line| line.get(9..12))
        .and_then(|code| code.parse::<u16>().ok());
    match code {
        Some(200) => ProbeOutcome::Ready,
        Some(500..=599) => ProbeOutcome::NotReady,
        Some(_) | None => ProbeOutcome::Answered,
    }
}

fn config(ca: &str) -> Option<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
        roots.add(certificate.ok()?).ok()?;
    }
    if roots.is_empty() {
        return None;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .ok()?;
    Some(builder.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::{ProbeOutcome, outcome};

    #[test]
    fn only_200_is_ready_and_only_5xx_is_against() {
        for (line, expected) in [
            ("HTTP/1.1 200", ProbeOutcome::Ready),
            ("HTTP/1.0 200", ProbeOutcome::Ready),
            ("HTTP/1.1 500", ProbeOutcome::NotReady),
            ("HTTP/1.1 503", ProbeOutcome::NotReady),
            ("HTTP/1.1 401", ProbeOutcome::Answered),
            ("HTTP/1.1 403", ProbeOutcome::Answered),
            ("HTTP/1.1 404", ProbeOutcome::Answered),
            ("SSH-2.0-Open", ProbeOutcome::Answered),
        ] {
            assert_eq!(outcome(line.as_bytes()), expected, "{line}");
        }
    }
}
