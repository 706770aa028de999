//! Health checks by HTTPS.

use std::sync::{
    Arc,
    atomic::{AtomicU16, Ordering},
};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};

use super::traffic::Balanced;

/// Answers `GET /readyz` with `status`, and everything else with 404, under a certificate that it signed itself.
async fn api_server(address: String, status: Arc<AtomicU16>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let pair = rcgen::generate_simple_self_signed(["kubernetes".to_owned()]).unwrap();
    let key = pair.signing_key.serialize_der().try_into().unwrap();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![pair.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind(address).await.unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut head = vec![0; 4096];
            let read = stream.read(&mut head).await.unwrap_or_default();
            let code = if head[..read].starts_with(b"GET /readyz ") {
                status.load(Ordering::Relaxed)
            } else {
                404
            };
            let answer = format!("HTTP/1.1 {code} X\r\nContent-Length: 0\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
}

#[tokio::test]
async fn a_member_is_up_while_its_page_is_answered_with_200() {
    let at = Balanced::start("amphora").await;
    let status = Arc::new(AtomicU16::new(500));
    api_server(format!("{}.201:6443", at.net), Arc::clone(&status)).await;
    let member = at.member("a", 201).await;
    let monitor = json!({ "name": "hm", "pool_id": at.pool, "type": "HTTPS", "url_path": "/readyz", "delay": 1,
        "timeout": 1, "max_retries": 1, "max_retries_down": 1 });
    let path = "/load-balancer/v2/lbaas/healthmonitors";
    at.client.make(path, "healthmonitor", monitor).await;
    let member = format!("{}/{member}", at.members());
    for (code, expected) in [(500, "ERROR"), (200, "ONLINE"), (503, "ERROR")] {
        status.store(code, Ordering::Relaxed);
        at.client
            .until_shown(&member, "/member/operating_status", expected)
            .await;
    }
}
