//! What any client that reaches the port of the listener gets.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use capo_rs::webhooks::server::{CertificateObserver, Limits, Settings, WebhookObserver};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::env::Authority;
use test_support::{
    waiting::{PATIENCE, until_true},
    webhooks::{Listening, write_at_once, write_pair},
};

const VALIDATE: &str = "/validate-infrastructure-cluster-x-k8s-io-v1beta2-openstackmachine";

async fn listening() -> Listening {
    Listening::start(|_| {}, Arc::new(())).await.unwrap()
}

async fn connect(listening: &Listening) -> std::io::Result<TlsStream<TcpStream>> {
    let address = listening.url.trim_start_matches("https://");
    connect_to(address, &listening.authority).await
}

/// A connection over TLS to `address`, a port on 127.0.0.1 whose certificate `authority` has signed.
pub(super) async fn connect_to(
    address: &str,
    authority: &Authority,
) -> std::io::Result<TlsStream<TcpStream>> {
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    let mut roots = rustls::RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(authority.certificate().as_bytes()).unwrap();
    roots.add(root).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    TlsConnector::from(Arc::new(config))
        .connect(ServerName::try_from("127.0.0.1").unwrap(), stream)
        .await
}

pub(super) fn conversion(objects: &Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": {
        "uid": "u", "desiredAPIVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "objects": objects,
    }})
}

#[tokio::test]
async fn reviews_are_answered_and_nothing_else() {
    let listening = listening().await;
    let client = listening.authority.https_client();
    let post = |path: &str, body: String| {
        client
            .post(format!("{}{path}", listening.url))
            .body(body)
            .send()
    };

    let machine = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "OpenStackMachine",
        "metadata": {"name": "m"}, "spec": {"flavor": "f"}});
    let answer = post("/convert", conversion(&json!([machine])).to_string())
        .await
        .unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "application/json");
    let answer: Value = answer.json().await.unwrap();
    assert_eq!(
        answer["response"]["convertedObjects"][0]["spec"],
        json!({"flavor": {"filter": {"name": "f"}}})
    );

    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "CREATE", "name": "m", "object": machine,
        "kind": {"group": "infrastructure.cluster.x-k8s.io", "version": "v1beta2", "kind": "OpenStackMachine"},
    }});
    let answer: Value = post(VALIDATE, review.to_string())
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(answer["response"], json!({"uid": "u", "allowed": true}));

    assert_eq!(post("/metrics", String::new()).await.unwrap().status(), 404);
    assert_eq!(
        post("/convert", "{".to_owned()).await.unwrap().status(),
        400
    );
    assert_eq!(
        post(VALIDATE, "[".repeat(200_000)).await.unwrap().status(),
        400
    );
    let get = client
        .get(format!("{}/convert", listening.url))
        .send()
        .await
        .unwrap();
    assert_eq!(get.status(), 405);
}

#[tokio::test]
async fn large_bodies_are_cut() {
    let listening = listening().await;
    let begun = Instant::now();
    for head in [
        // A body whose announced length is too large is refused before any of it is read.
        "Content-Length: 104857600\r\n\r\n",
        // A body without an announced length is refused as soon as it is too large.
        "Transfer-Encoding: chunked\r\n\r\n",
    ] {
        let mut stream = connect(&listening).await.unwrap();
        let request = format!("POST /convert HTTP/1.1\r\nHost: localhost\r\n{head}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let (mut reader, mut writer) = tokio::io::split(stream);
        let sending = tokio::spawn(async move {
            let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 1 << 20], b"\r\n"].concat();
            for _ in 0..100 {
                if writer.write_all(&chunk).await.is_err() {
                    break;
                }
            }
        });
        let mut answer = Vec::new();
        let _ = reader.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        sending.abort();
    }
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    // It still answers.
    let body = conversion(&json!([])).to_string();
    let answer = listening
        .authority
        .https_client()
        .post(format!("{}/convert", listening.url))
        .body(body)
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn slow_clients_are_dropped() {
    // A client that begins no handshake, and one that does not speak TLS.
    let listening = impatient(|limits| &mut limits.handshake).await;
    let address = listening.url.trim_start_matches("https://").to_owned();
    let mut silent = TcpStream::connect(&address).await.unwrap();
    assert_eq!(until_dropped(&mut silent).await, b"");
    let mut plain = TcpStream::connect(&address).await.unwrap();
    let _ = plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await;
    assert!(!until_dropped(&mut plain).await.starts_with(b"HTTP"));

    // A client that sends half of a head.
    let listening = impatient(|limits| &mut limits.headers).await;
    let mut half = connect(&listening).await.unwrap();
    let _ = half.write_all(b"POST /convert HTTP/1.1\r\nHost:").await;
    let answer = until_dropped(&mut half).await;
    assert!(!String::from_utf8_lossy(&answer).contains("200 OK"));

    // A client that sends half of a body.
    let listening = impatient(|limits| &mut limits.body).await;
    let mut half = connect(&listening).await.unwrap();
    half.write_all(b"POST /convert HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        .await
        .unwrap();
    let answer = until_dropped(&mut half).await;
    assert!(
        answer.starts_with(b"HTTP/1.1 408 "),
        "{}",
        String::from_utf8_lossy(&answer)
    );
}

/// A listener that waits 100 ms for one thing and hours for the others, so that no other limit applies, even on a busy
/// machine.
async fn impatient(limit: impl FnOnce(&mut Limits) -> &mut Duration) -> Listening {
    let hours = Duration::from_hours(5);
    let limited = |settings: &mut Settings| {
        let limits = &mut settings.limits;
        (limits.handshake, limits.headers, limits.body) = (hours, hours, hours);
        *limit(limits) = Duration::from_millis(100);
    };
    Listening::start(limited, Arc::new(())).await.unwrap()
}

/// What the listener sends until it closes the connection.
async fn until_dropped(stream: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut answer = Vec::new();
    // The connection may also be reset, which is an error of the read.
    let dropped = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    assert!(dropped.is_ok(), "it stays open");
    answer
}

#[tokio::test]
async fn connections_beyond_the_cap_wait() {
    let listening = Listening::start(|settings| settings.limits.connections = 2, Arc::new(()))
        .await
        .unwrap();
    let first = connect(&listening).await.unwrap();
    let _second = connect(&listening).await.unwrap();
    let mut third = Box::pin(connect(&listening));
    let early = tokio::time::timeout(Duration::from_millis(200), third.as_mut()).await;
    assert!(early.is_err());
    drop(first);
    tokio::time::timeout(PATIENCE, third)
        .await
        .unwrap()
        .unwrap();
}

#[derive(Default)]
struct Counts {
    read: AtomicUsize,
    failed: AtomicUsize,
    expiries: AtomicUsize,
    begun: AtomicUsize,
    answered: AtomicUsize,
}

impl CertificateObserver for Counts {
    fn certificate_read(&self) {
        self.read.fetch_add(1, Ordering::SeqCst);
    }

    fn certificate_failed(&self) {
        self.failed.fetch_add(1, Ordering::SeqCst);
    }

    fn certificate_expires(&self, not_after: jiff::Timestamp) {
        assert!(not_after > jiff::Timestamp::now());
        self.expiries.fetch_add(1, Ordering::SeqCst);
    }
}

impl WebhookObserver for Counts {
    fn request_began(&self, _: &'static str) {
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    fn request_ended(&self, path: &'static str, code: u16, _: Duration) {
        assert_eq!((path, code), ("/convert", 200));
        self.answered.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_new_certificate_is_taken_and_a_broken_one_is_not() {
    let counts = Arc::new(Counts::default());
    let listening = Listening::start(|_| {}, Arc::clone(&counts) as Arc<dyn WebhookObserver>)
        .await
        .unwrap();
    let shown = async || {
        let stream = connect(&listening).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    };
    let first = shown().await;

    write_pair(&listening.authority, listening.folder.path()).unwrap();
    until_true("the new certificate is read", async || {
        counts.read.load(Ordering::SeqCst) == 2
    })
    .await;
    let second = shown().await;
    assert_ne!(first, second);
    assert_eq!(counts.expiries.load(Ordering::SeqCst), 2);

    // The key is replaced by one that does not fit the certificate, then by text that is no PEM, and then the file is
    // removed.
    let before = counts.failed.load(Ordering::SeqCst);
    let key = listening.folder.path().join("tls.key");
    let other = listening.authority.server(&["localhost"]).unwrap().key;
    for (number, content) in [other.as_str(), "no PEM"].into_iter().enumerate() {
        write_at_once(&key, content).unwrap();
        until_true("the broken key is noticed", async || {
            counts.failed.load(Ordering::SeqCst) == before + number + 1
        })
        .await;
        assert_eq!(shown().await, second);
    }
    std::fs::remove_file(&key).unwrap();
    until_true("the absent key is noticed", async || {
        counts.failed.load(Ordering::SeqCst) == before + 3
    })
    .await;
    assert_eq!(shown().await, second);

    write_pair(&listening.authority, listening.folder.path()).unwrap();
    until_true("the last certificate is read", async || {
        counts.read.load(Ordering::SeqCst) == 3
    })
    .await;
    assert_ne!(shown().await, second);
}

#[tokio::test]
async fn a_stop_lets_open_requests_end() {
    let counts = Arc::new(Counts::default());
    let mut listening = Listening::start(|_| {}, Arc::clone(&counts) as Arc<dyn WebhookObserver>)
        .await
        .unwrap();
    let body = conversion(&json!([])).to_string();
    let mut open = connect(&listening).await.unwrap();
    let head = format!(
        "POST /convert HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    open.write_all(head.as_bytes()).await.unwrap();
    // A body in two parts keeps the request open.
    open.write_all(&body.as_bytes()[..1]).await.unwrap();
    open.flush().await.unwrap();
    let idle = connect(&listening).await.unwrap();
    until_true("the request has begun", async || {
        counts.begun.load(Ordering::SeqCst) == 1
    })
    .await;
    listening.stop.cancel();
    let address = listening.url.trim_start_matches("https://");
    until_true("no connection is accepted any more", async || {
        TcpStream::connect(address).await.is_err()
    })
    .await;
    open.write_all(&body.as_bytes()[1..]).await.unwrap();
    let mut answer = Vec::new();
    let _ = open.read_to_end(&mut answer).await;
    assert!(
        answer.starts_with(b"HTTP/1.1 200 "),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    assert_eq!(counts.answered.load(Ordering::SeqCst), 1);
    tokio::time::timeout(Duration::from_secs(5), &mut listening.task)
        .await
        .unwrap()
        .unwrap();
    drop(idle);
    assert!(connect(&listening).await.is_err());
}
