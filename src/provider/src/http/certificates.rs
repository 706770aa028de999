//! The serving certificate. It is read from two files, and read again whenever they change.
//!
//! The files are compared by content, because the times of files in a mounted Secret do not show when the content
//! changed.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use parking_lot::RwLock;
use rustls::{
    ServerConfig,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::io::AsyncReadExt;

use super::{MinimumTls, expiry};

/// The most bytes that are read of either file. Kubernetes accepts no Secret that is larger.
const MAX_FILE: u64 = 1 << 20;

/// Receives an event for every use of the certificate's files. `()` ignores all of them.
pub trait CertificateObserver: Send + Sync + 'static {
    /// A certificate was read and is in use.
    fn certificate_read(&self) {}

    /// A changed certificate could not be used; the previous one stays in use.
    fn certificate_failed(&self) {}

    /// The time at which the certificate in use expires.
    fn certificate_expires(&self, not_after: Timestamp) {
        let _ = not_after;
    }
}

impl CertificateObserver for () {}

/// Why a certificate can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file can't be read.
    #[error("reading {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file is not PEM of the right kind.
    #[error("{path} is not PEM of {expected}: {source}")]
    Pem {
        /// The file.
        path: PathBuf,
        /// The content that the file must have.
        expected: &'static str,
        /// The error of the parser.
        source: pem::Error,
    },
    /// There is no certificate in the file.
    #[error("{path} holds no certificate")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Key and certificate do not belong together, or TLS can't use their type.
    #[error("the certificate and key in {folder} can't be used: {source}")]
    Unusable {
        /// The folder.
        folder: PathBuf,
        /// The error of the TLS library.
        source: rustls::Error,
    },
}

impl CertificateError {
    /// Whether the file does not exist.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// The certificate in use and its files.
pub(crate) struct Certificates {
    /// The service that the certificate is for, as the log names it.
    purpose: &'static str,
    folder: PathBuf,
    current: Arc<Current>,
    read: Files,
    observer: Arc<dyn CertificateObserver>,
}

/// The content of both files.
#[derive(Default, PartialEq, Eq)]
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read()))
    }
}

impl Certificates {
    /// Reads the certificate for the first time.
    pub(crate) async fn read(
        purpose: &'static str,
        folder: PathBuf,
        observer: Arc<dyn CertificateObserver>,
    ) -> Result<Self, CertificateError> {
        let read = Files::read(&folder).await?;
        let key = read.certified_key(&folder)?;
        announce(&key, observer.as_ref());
        Ok(Self {
            purpose,
            folder,
            current: Arc::new(Current(RwLock::new(Arc::new(key)))),
            read,
            observer,
        })
    }

    /// Presents `key` until the files exist.
    pub(crate) fn starting_with(
        key: CertifiedKey,
        purpose: &'static str,
        folder: PathBuf,
        observer: Arc<dyn CertificateObserver>,
    ) -> Self {
        Self {
            purpose,
            folder,
            current: Arc::new(Current(RwLock::new(Arc::new(key)))),
            read: Files::default(),
            observer,
        }
    }

    /// TLS settings that always present the certificate in use.
    pub(crate) fn server_config(
        &self,
        minimum: MinimumTls,
    ) -> Result<Arc<ServerConfig>, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(minimum.versions())?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&self.current) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Reads the files again after every pause, until it is dropped. A pair that can't be used is reported once, and
    /// the previous one stays in use, because only half of a new pair is visible while a Secret is being written.
    pub(crate) async fn watch(mut self, every: Duration) {
        let mut reported = None;
        loop {
            tokio::time::sleep(every).await;
            match self.refresh().await {
                Ok(false) => {}
                Ok(true) => {
                    reported = None;
                    tracing::info!(purpose = self.purpose, folder = %self.folder.display(), "Serving a new certificate");
                }
                Err(error) if self.read == Files::default() && error.is_absence() => {}
                Err(error) => {
                    let text = error.to_string();
                    if reported.as_ref() != Some(&text) {
                        self.observer.certificate_failed();
                        tracing::error!(
                            purpose = self.purpose,
                            %error,
                            "The certificate changed and can't be used; the previous one stays in use"
                        );
                        reported = Some(text);
                    }
                }
            }
        }
    }

    /// Reads the files again. Returns true when a new pair is in use.
    async fn refresh(&mut self) -> Result<bool, CertificateError> {
        let files = Files::read(&self.folder).await?;
        if files == self.read {
            return Ok(false);
        }
        let key = files.certified_key(&self.folder)?;
        announce(&key, self.observer.as_ref());
        *self.current.0.write() = Arc::new(key);
        self.read = files;
        Ok(true)
    }
}

impl Files {
    async fn read(folder: &Path) -> Result<Self, CertificateError> {
        Ok(Self {
            certificate: bounded(&folder.join("tls.crt")).await?,
            key: bounded(&folder.join("tls.key")).await?,
        })
    }

    fn certified_key(&self, folder: &Path) -> Result<CertifiedKey, CertificateError> {
        let path = folder.join("tls.crt");
        let chain = CertificateDer::pem_slice_iter(&self.certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|source| CertificateError::Pem {
                path: path.clone(),
                expected: "certificates",
                source,
            })?;
        if chain.is_empty() {
            return Err(CertificateError::Empty { path });
        }
        let key =
            PrivateKeyDer::from_pem_slice(&self.key).map_err(|source| CertificateError::Pem {
                path: folder.join("tls.key"),
                expected: "a private key",
                source,
            })?;
        CertifiedKey::from_der(chain, key, &provider()).map_err(|source| {
            CertificateError::Unusable {
                folder: folder.to_owned(),
                source,
            }
        })
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn announce(key: &CertifiedKey, observer: &dyn CertificateObserver) {
    observer.certificate_read();
    if let Some(not_after) = key.cert.first().and_then(|leaf| expiry::not_after(leaf)) {
        observer.certificate_expires(not_after);
    }
}

async fn bounded(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let read = async {
        let mut content = Vec::new();
        tokio::fs::File::open(path)
            .await?
            .take(MAX_FILE)
            .read_to_end(&mut content)
            .await?;
        Ok(content)
    };
    read.await.map_err(|source| CertificateError::Read {
        path: path.to_owned(),
        source,
    })
}
