//! The certificate that is mounted, read again when it changes.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    version,
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// How old a loaded certificate may be before the files are read again.
const FRESH: Duration = Duration::from_secs(10);

/// `tls.crt` and `tls.key` of a folder, as cert-manager and kubelet keep them there.
#[derive(Clone)]
pub(super) struct Mounted(Arc<Inner>);

struct Inner {
    folder: PathBuf,
    only_tls13: bool,
    loaded: Mutex<Option<(Instant, Arc<ServerConfig>)>>,
}

impl Mounted {
    pub(super) fn new(folder: &Path, only_tls13: bool) -> Self {
        Self(Arc::new(Inner {
            folder: folder.to_owned(),
            only_tls13,
            loaded: Mutex::default(),
        }))
    }

    /// Shakes hands with the certificate of now.
    pub(super) async fn accept(self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let config = self.config()?;
        TlsAcceptor::from(config).accept(stream).await
    }

    /// The configuration of now; the last good one where the files can't be read at the moment.
    fn config(&self) -> io::Result<Arc<ServerConfig>> {
        let mut loaded = self.0.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((when, config)) = &*loaded
            && when.elapsed() < FRESH
        {
            return Ok(config.clone());
        }
        match (self.read(), &*loaded) {
            (Ok(config), _) => {
                let config = Arc::new(config);
                *loaded = Some((Instant::now(), config.clone()));
                Ok(config)
            }
            (Err(_), Some((_, config))) => Ok(config.clone()),
            (Err(error), None) => Err(error),
        }
    }

    fn read(&self) -> io::Result<ServerConfig> {
        let folder = &self.0.folder;
        let certificates = CertificateDer::pem_file_iter(folder.join("tls.crt"))
            .and_then(Iterator::collect)
            .map_err(io::Error::other)?;
        let key = PrivateKeyDer::from_pem_file(folder.join("tls.key")).map_err(io::Error::other)?;
        let versions: &[&rustls::SupportedProtocolVersion] = if self.0.only_tls13 {
            &[&version::TLS13]
        } else {
            &[&version::TLS13, &version::TLS12]
        };
        ServerConfig::builder_with_protocol_versions(versions)
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .map_err(io::Error::other)
    }
}
