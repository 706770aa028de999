//! Stand-ins for the API servers of machines: TLS on a machine's own address, with any answer a test wants.

use std::{net::IpAddr, sync::Arc};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    },
};
use tokio_util::task::AbortOnDropHandle;

use crate::env::Authority;

/// Listens until it is dropped. Then its port is closed, like that of an API server that has died.
pub(crate) struct ApiServer {
    status: Arc<Mutex<u16>>,
    _task: AbortOnDropHandle<()>,
}

impl ApiServer {
    /// Answers `status` to everything at `address` and `port`, under `authority`, for `names`.
    pub(crate) async fn listen(
        (address, port): (IpAddr, u16),
        authority: &Authority,
        names: &[&str],
        status: u16,
    ) -> Self {
        let pair = authority.server(names).unwrap();
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap(),
            )
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((address, port)).await.unwrap();
        let status = Arc::new(Mutex::new(status));
        let served_status = status.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, acceptor.clone(), served_status.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Self {
            status,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Sets the status of all answers from now on.
    pub(crate) fn answer(&self, status: u16) {
        *self.status.lock() = status;
    }
}

/// Answers one connection.
async fn serve(stream: TcpStream, acceptor: TlsAcceptor, status: Arc<Mutex<u16>>) {
    let Ok(mut stream) = acceptor.accept(stream).await else {
        return;
    };
    let mut head = vec![0; 4096];
    let read = stream.read(&mut head).await.unwrap_or_default();
    let asked = head[..read].starts_with(b"GET /readyz ");
    let code = if asked { *status.lock() } else { 404 };
    let answer = format!("HTTP/1.1 {code} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}
