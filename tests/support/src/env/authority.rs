//! A certificate authority for one test.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

use super::Error;

/// Issues server and client certificates that only the test trusts.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, both PEM.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The private key, PKCS #8.
    pub key: String,
}

impl Authority {
    /// A new authority with the common name `name`.
    pub fn new(name: &str) -> Result<Self, Error> {
        let mut params = named(name, &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        Ok(Self(CertifiedIssuer::self_signed(
            params,
            KeyPair::generate()?,
        )?))
    }

    /// The authority's own certificate, PEM.
    pub fn certificate(&self) -> String {
        self.0.pem()
    }

    /// An HTTPS client that trusts this authority only.
    pub fn https_client(&self) -> reqwest::Client {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let root = reqwest::Certificate::from_pem(self.certificate().as_bytes()).unwrap();
        let client = reqwest::Client::builder().tls_certs_only([root]);
        client.build().unwrap()
    }

    /// Its private key, PKCS #8 PEM.
    pub fn key(&self) -> String {
        self.0.key().serialize_pem()
    }

    /// A server certificate for these DNS names and IP addresses.
    pub fn server(&self, names: &[&str]) -> Result<Pair, Error> {
        let mut params = CertificateParams::new(
            names
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>(),
        )?;
        params
            .distinguished_name
            .push(DnType::CommonName, "capo-rs test server");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(params)
    }

    /// A client certificate. Kubernetes uses the common name as the user and organisations as groups.
    pub fn client(&self, user: &str, groups: &[&str]) -> Result<Pair, Error> {
        let mut params = named(user, groups)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params)
    }

    fn issue(&self, mut params: CertificateParams) -> Result<Pair, Error> {
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        Ok(Pair {
            certificate: params.signed_by(&key, &self.0)?.pem(),
            key: key.serialize_pem(),
        })
    }
}

fn named(name: &str, organisations: &[&str]) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.distinguished_name.push(DnType::CommonName, name);
    for &organisation in organisations {
        params
            .distinguished_name
            .push(DnType::OrganizationName, organisation);
    }
    Ok(params)
}
