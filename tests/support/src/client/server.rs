//! A small API server for the client's own tests, with one object, its history, and every kind of faulty behaviour.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::broadcast,
    task::JoinHandle,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{OBJECT, Target};
use crate::env::{Authority, authority::Pair};

/// The behaviour of connections from now on.
#[derive(Debug, Clone, Copy)]
pub(super) enum Behaviour {
    /// They are served.
    Serves,
    /// They are served after this time.
    ServesAfter(Duration),
    /// They are reset before TLS.
    Resets,
    /// They are closed instead of being answered.
    Closes,
    /// They are closed after half of the answer.
    Truncates,
    /// The server never answers.
    Hangs,
    /// Requests are answered with this status.
    Answers(u16),
    /// Requests are answered with 200 and another object.
    AnswersForeign,
}

#[derive(Debug, Clone)]
enum Order {
    Event(Value),
    Cut,
    Silence,
}

struct State {
    behaviour: Behaviour,
    /// Every state of the object, by resource version from 1.
    history: Vec<Value>,
    /// Watches from before this version are refused.
    oldest: usize,
    swallow: bool,
    orders: broadcast::Sender<Order>,
}

/// The running server; it stops when dropped.
pub(super) struct Server {
    address: SocketAddr,
    authority: String,
    client: Pair,
    state: Arc<Mutex<State>>,
    work: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.work.abort();
    }
}

impl Server {
    /// A server on a free port that requires client certificates and already has the object.
    pub(super) async fn start() -> Self {
        let authority = Authority::new("client test").unwrap();
        let pair = authority.server(&["127.0.0.1"]).unwrap();
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(authority.certificate().as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .build()
                .unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap(),
            )
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            behaviour: Behaviour::Serves,
            history: vec![object(1, 0)],
            oldest: 0,
            swallow: false,
            orders: broadcast::channel(100).0,
        }));
        let shared = Arc::clone(&state);
        let work = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, acceptor.clone(), Arc::clone(&shared)));
            }
        });
        Self {
            address,
            authority: authority.certificate(),
            client: authority.client("client", &["system:masters"]).unwrap(),
            state,
            work,
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// A target with a shorter time limit than usual.
    pub(super) fn target(&self) -> Target {
        let target = Target::new(
            self.address,
            self.authority.as_bytes(),
            self.client.certificate.as_bytes(),
            self.client.key.as_bytes(),
        );
        Target {
            limit: Duration::from_secs(5),
            ..target.unwrap()
        }
    }

    pub(super) fn behave(&self, behaviour: Behaviour) {
        self.state.lock().behaviour = behaviour;
    }

    /// Resets every watch.
    pub(super) fn cut_watches(&self) {
        let _ = self.state.lock().orders.send(Order::Cut);
    }

    /// Open watches receive no further events.
    pub(super) fn silence_watches(&self) {
        let _ = self.state.lock().orders.send(Order::Silence);
    }

    /// Only the present state is known: watches from before it are refused.
    pub(super) fn forget_history(&self) {
        let mut state = self.state.lock();
        // One more change that is sent to no watch, so that all of them are behind.
        let number = sequence(state.history.last().unwrap()) + 1;
        let version = state.history.len() + 1;
        state.history.push(object(version, number));
        state.oldest = version;
    }

    /// Drops the next event and returns when that has happened.
    pub(super) async fn swallow_next_event(&self) {
        self.state.lock().swallow = true;
        while self.state.lock().swallow {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn object(version: usize, sequence: u64) -> Value {
    json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": OBJECT, "resourceVersion": version.to_string()},
        "data": {"sequence": sequence.to_string()},
    })
}

fn sequence(object: &Value) -> u64 {
    object["data"]["sequence"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, state: Arc<Mutex<State>>) {
    let behaviour = state.lock().behaviour;
    if matches!(behaviour, Behaviour::Resets) {
        let _ = stream.set_zero_linger();
        return;
    }
    let Ok(mut stream) = acceptor.accept(stream).await else {
        return;
    };
    let Some((head, body)) = request(&mut stream).await else {
        return;
    };
    if let Behaviour::ServesAfter(time) = behaviour {
        tokio::time::sleep(time).await;
    }
    let now = state.lock().history.last().unwrap().clone();
    match behaviour {
        Behaviour::Closes => {}
        Behaviour::Hangs => std::future::pending().await,
        Behaviour::Answers(status) => answer(&mut stream, status, "{}", 1).await,
        Behaviour::AnswersForeign => {
            answer(&mut stream, 200, r#"{"kind": "Status"}"#, 1).await;
        }
        Behaviour::Truncates => answer(&mut stream, 200, &now.to_string(), 2).await,
        Behaviour::Resets | Behaviour::Serves | Behaviour::ServesAfter(_) => {
            if head.contains("watch=true") {
                watch(&mut stream, &head, &state).await;
            } else if head.starts_with("PATCH") {
                change(&body, &state);
                answer(&mut stream, 200, "{}", 1).await;
            } else {
                answer(&mut stream, 200, &now.to_string(), 1).await;
            }
        }
    }
}

async fn request(stream: &mut TlsStream<TcpStream>) -> Option<(String, String)> {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return Some((head.to_owned(), body.to_owned()));
            }
        }
        let mut some = [0; 4096];
        match stream.read(&mut some).await {
            Ok(count) if count > 0 => read.extend_from_slice(some.get(..count)?),
            _ => return None,
        }
    }
}

/// Answers with the first of this many parts of the body.
async fn answer(stream: &mut TlsStream<TcpStream>, status: u16, body: &str, parts: usize) {
    let sent = body.get(..body.len() / parts).unwrap();
    let text = format!(
        "HTTP/1.1 {status} Status\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{sent}",
        body.len()
    );
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
}

fn change(patch: &str, state: &Mutex<State>) {
    let patch: Value = serde_json::from_str(patch).unwrap();
    let mut state = state.lock();
    let number = sequence(&patch);
    // Like a real API server: a write that changes nothing causes no event.
    if sequence(state.history.last().unwrap()) >= number {
        return;
    }
    let object = object(state.history.len() + 1, number);
    state.history.push(object.clone());
    if std::mem::take(&mut state.swallow) {
        return;
    }
    let _ = state.orders.send(Order::Event(object));
}

async fn watch(stream: &mut TlsStream<TcpStream>, head: &str, state: &Mutex<State>) {
    let from: usize = head
        .split_once("resourceVersion=")
        .and_then(|(_, rest)| rest.split([' ', '&']).next())
        .and_then(|version| version.parse().ok())
        .unwrap();
    let (mut orders, missed, known) = {
        let state = state.lock();
        (
            state.orders.subscribe(),
            state.history.get(from..).unwrap_or_default().to_vec(),
            from >= state.oldest,
        )
    };
    let _ = stream
        .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    if !known {
        let refusal = json!({"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}});
        chunk(stream, &refusal).await;
        let _ = stream.shutdown().await;
        return;
    }
    for object in missed {
        chunk(stream, &json!({"type": "MODIFIED", "object": object})).await;
    }
    loop {
        match orders.recv().await {
            Ok(Order::Event(object)) => {
                chunk(stream, &json!({"type": "MODIFIED", "object": object})).await;
            }
            Ok(Order::Silence) => std::future::pending().await,
            Ok(Order::Cut) | Err(_) => {
                let _ = stream.get_ref().0.set_zero_linger();
                return;
            }
        }
    }
}

async fn chunk(stream: &mut TlsStream<TcpStream>, event: &Value) {
    let text = format!("{event}\n");
    let chunk = format!("{:x}\r\n{text}\r\n", text.len());
    let _ = stream.write_all(chunk.as_bytes()).await;
    let _ = stream.flush().await;
}
