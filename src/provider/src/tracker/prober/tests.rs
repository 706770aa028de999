//! Requests through an endpoint, answered by servers on the loopback interface.

mod connect;
mod proxy;
mod readyz;

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use hyper_util::client::proxy::matcher::Matcher;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use super::{Prober, TlsProber};
use capo_core::{Endpoint, EndpointAnswer, EndpointFailure, Excerpt};

type Answer = Result<EndpointAnswer, EndpointFailure>;

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SIX: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
const OWN: &str = "10.6.0.14";

/// A certificate authority.
struct Ca(CertifiedIssuer<'static, KeyPair>);

impl Ca {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn pem(&self) -> Arc<str> {
        self.0.pem().into()
    }

    fn acceptor(&self, names: &[&str], until: Option<i32>) -> TlsAcceptor {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        if let Some(year) = until {
            params.not_after = rcgen::date_time_ymd(year, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(certificate.pem().as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap(),
            )
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// Serves every connection with `serve` until it is dropped.
struct Server {
    address: SocketAddr,
    _task: AbortOnDropHandle<()>,
}

impl Server {
    async fn start<F>(address: IpAddr, serve: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        });
        Self {
            address,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// An API server that answers `answer` to everything.
    async fn tls(address: IpAddr, acceptor: TlsAcceptor, answer: &'static str) -> Self {
        Self::start(address, move |stream| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    return;
                };
                let mut head = vec![0; 4096];
                let read = stream.read(&mut head).await.unwrap_or_default();
                assert!(head[..read].starts_with(b"GET /readyz HTTP/1.1\r\n"));
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        })
        .await
    }

    /// A server that sends these bytes without TLS.
    async fn plain(answer: &'static str) -> Self {
        Self::start(LOCAL, move |mut stream| async move {
            let mut head = vec![0; 4096];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        })
        .await
    }

    /// A proxy that connects to any requested address.
    async fn proxy() -> Self {
        Self::start(LOCAL, |mut stream| async move {
            let mut head = vec![0; 4096];
            let read = stream.read(&mut head).await.unwrap();
            let head = String::from_utf8_lossy(&head[..read]).into_owned();
            assert!(
                head.contains("Proxy-Authorization: Basic dTpw\r\n"),
                "{head}"
            );
            let target = head.split(' ').nth(1).unwrap();
            let mut target = TcpStream::connect(target).await.unwrap();
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nVia: x\r\n\r\n").await;
            let _ = copy_bidirectional(&mut stream, &mut target).await;
        })
        .await
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint {
            host: self.address.ip().to_string(),
            port: self.address.port(),
        }
    }
}

/// A prober that uses no proxy, whatever the environment of the test contains.
fn prober() -> TlsProber {
    TlsProber::with_proxies(Matcher::builder().build())
}

async fn ask(server: &Server, ca: &Ca) -> Answer {
    let addresses = vec![OWN.parse().unwrap(), "10.6.0.15".parse().unwrap()];
    prober()
        .readyz(server.endpoint(), ca.pem(), addresses)
        .await
}

fn excerpt(text: &str) -> Excerpt {
    Excerpt::of(text)
}
