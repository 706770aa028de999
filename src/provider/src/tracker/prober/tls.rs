//! TLS under the CA of a cluster.

use std::{net::IpAddr, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, DnsName, ServerName, UnixTime, pem::PemObject},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use capo_core::{Endpoint, EndpointFailure, Excerpt};

use super::connect;

/// Accepts every serving certificate that the cluster's CA issued, whatever names it has.
///
/// The names are ignored because they prove nothing beyond the CA: the CA belongs to this one cluster, and a server
/// with a serving certificate of it holds a key of this cluster's control plane. An endpoint, on the other hand, may
/// have a name that is in no certificate, such as a floating IP or a DNS name that was assigned to the load balancer
/// after the certificates were issued.
#[derive(Debug)]
pub(super) struct Authority(Arc<WebPkiServerVerifier>);

impl Authority {
    /// Reads the CA from PEM; `None` if it has no usable certificate.
    pub(super) fn new(ca: &str) -> Option<Self> {
        let roots = roots(ca)?;
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
            .build()
            .ok()
            .map(Self)
    }

    /// Whether a certificate of this CA names `address`.
    fn names(&self, certificates: &[CertificateDer<'_>], address: IpAddr) -> bool {
        let Some((own, intermediates)) = certificates.split_first() else {
            return false;
        };
        let name = ServerName::from(address);
        self.0
            .verify_server_cert(own, intermediates, &name, &[], UnixTime::now())
            .is_ok()
    }
}

impl ServerCertVerifier for Authority {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The name is compared last, after the chain, the dates and the purpose were verified.
        match self
            .0
            .verify_server_cert(own, intermediates, name, ocsp, now)
        {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// A TLS session over `stream`, and those of `addresses` that the serving certificate names.
pub(super) async fn handshake(
    authority: Authority,
    endpoint: &Endpoint,
    stream: TcpStream,
    addresses: &[IpAddr],
) -> Result<(TlsStream<TcpStream>, Vec<IpAddr>), EndpointFailure> {
    let authority = Arc::new(authority);
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|_| EndpointFailure::UnreadableCa)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&authority) as Arc<dyn ServerCertVerifier>)
        .with_no_client_auth();
    let stream = TlsConnector::from(Arc::new(config))
        .connect(server_name(endpoint), stream)
        .await
        .map_err(|error| failure(&error))?;
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let named = addresses
        .iter()
        .copied()
        .filter(|address| authority.names(certificates, *address))
        .collect();
    Ok((stream, named))
}

/// The name that is sent to the server. A host that is neither a name nor an address can't be connected to, so any name
/// may be used for it.
fn server_name(endpoint: &Endpoint) -> ServerName<'static> {
    ServerName::try_from(endpoint.bare_host().to_owned())
        .unwrap_or_else(|_| ServerName::from(IpAddr::from([0, 0, 0, 0])))
}

fn failure(error: &std::io::Error) -> EndpointFailure {
    let tls = error
        .get_ref()
        .and_then(|error| error.downcast_ref::<Error>());
    match tls {
        Some(Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => EndpointFailure::OtherCa,
        Some(Error::InvalidCertificate(error)) => {
            EndpointFailure::BadCertificate(Excerpt::of(&error.to_string()))
        }
        Some(Error::InvalidMessage(_)) => EndpointFailure::NotTls,
        Some(error) => EndpointFailure::TlsRefused(Excerpt::of(&error.to_string())),
        None => connect::failure(error),
    }
}

/// The TLS settings for a request to a machine's own address: its certificate must be valid for the requested name.
pub(super) fn strict_config(ca: &str) -> Option<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .ok()?;
    Some(
        builder
            .with_root_certificates(roots(ca)?)
            .with_no_client_auth(),
    )
}

/// The readable certificates of a CA in PEM; `None` if there are none.
fn roots(ca: &str) -> Option<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(ca.as_bytes()).filter_map(Result::ok);
    roots.add_parsable_certificates(certificates);
    (!roots.is_empty()).then_some(roots)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The names for which a machine's serving certificate may be valid: usually its address, and always the name of the
/// Service.
pub(super) fn machine_names(address: IpAddr) -> impl Iterator<Item = ServerName<'static>> {
    let service = DnsName::try_from("kubernetes").ok();
    [
        Some(ServerName::from(address)),
        service.map(ServerName::DnsName),
    ]
    .into_iter()
    .flatten()
}
