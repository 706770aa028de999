use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::*;
use crate::{
    http::{CertificateObserver, Listener, ListenerLimits, Transport},
    webhooks::size_estimate,
};

const VALIDATE: &str = "/validate-infrastructure-cluster-x-k8s-io-v1beta2-openstackmachine";
/// The time after which a wait has failed.
const PATIENCE: Duration = Duration::from_mins(1);

/// The number of requests that began, and the statuses of those that ended.
#[derive(Default)]
struct Requests(Mutex<(usize, Vec<u16>)>);

impl Requests {
    fn began(&self) -> usize {
        self.0.lock().0
    }

    fn ended(&self) -> Vec<u16> {
        self.0.lock().1.clone()
    }
}

impl CertificateObserver for Requests {}

impl WebhookObserver for Requests {
    fn request_began(&self, _: &'static str) {
        self.0.lock().0 += 1;
    }

    fn request_ended(&self, _: &'static str, code: u16, _: Duration) {
        self.0.lock().1.push(code);
    }
}

/// The routes behind a port without TLS.
struct Served {
    routes: Arc<Routes>,
    requests: Arc<Requests>,
    address: SocketAddr,
    /// The budget of bodies before the first request.
    free: (usize, usize),
    _stop: DropGuard,
}

impl Served {
    async fn start(limits: Limits) -> Self {
        let requests = Arc::new(Requests::default());
        let observer = Arc::clone(&requests) as Arc<dyn WebhookObserver>;
        let routes = Arc::new(Routes::new(limits, observer));
        let listener = Listener::bind(
            SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            "a test",
            Transport::Plain,
            ListenerLimits::default(),
        )
        .await
        .unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let answering = Arc::clone(&routes);
        tokio::spawn(listener.serve(stop.clone(), move |request| {
            let routes = Arc::clone(&answering);
            async move { routes.respond(request).await }
        }));
        Self {
            free: routes.bodies.free(),
            routes,
            requests,
            address,
            _stop: stop.drop_guard(),
        }
    }

    fn turn_is_free(&self) -> bool {
        self.routes.turn.available_permits() == 1
    }

    /// Whether no review holds memory or the turn.
    fn is_idle(&self) -> bool {
        self.turn_is_free() && self.routes.bodies.free() == self.free
    }

    /// A client that announces a body of `size` bytes and sends `sent` of it.
    async fn client(&self, path: &str, size: usize, sent: &[u8]) -> TcpStream {
        let mut client = TcpStream::connect(self.address).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n"
        );
        client.write_all(head.as_bytes()).await.unwrap();
        client.write_all(sent).await.unwrap();
        client
    }
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(
        tokio::time::timeout(PATIENCE, wait).await.is_ok(),
        "not within {PATIENCE:?}: {what}"
    );
}

/// The first line of the answer, or nothing if the connection ended without one.
async fn status_line(client: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer).await;
    let text = String::from_utf8_lossy(&answer).into_owned();
    text.lines().next().unwrap_or_default().to_owned()
}

/// A ConversionReview of at least `bytes` bytes.
fn conversion_review(bytes: usize) -> Vec<u8> {
    let version = "infrastructure.cluster.x-k8s.io/v1beta2";
    let machine = format!(
        r#"{{"apiVersion":"{version}","kind":"OpenStackMachine","metadata":{{"name":"m"}}}}"#
    );
    let objects = vec![machine.as_str(); bytes / machine.len() + 1].join(",");
    format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{{"uid":"u","desiredAPIVersion":"{version}","objects":[{objects}]}}}}"#
    )
    .into_bytes()
}

#[test]
fn a_review_whose_client_has_left_keeps_its_turn_and_its_memory() {
    // The only thread for blocking work is taken, so the review waits.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (free_thread, taken) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || taken.recv());
        let served = Served::start(Limits::default()).await;
        let body = conversion_review(2 * SMALL);
        let client = served.client(CONVERT, body.len(), &body).await;
        until("the review has its turn", || !served.turn_is_free()).await;
        drop(client);
        until("the request is counted as ended", || {
            served.requests.ended() == [CLIENT_LEFT]
        })
        .await;
        assert!(!served.is_idle(), "the review that waits is not counted");
        drop(free_thread);
        until("everything is free", || served.is_idle()).await;
    });
}

#[test]
fn a_review_that_panics_is_counted_as_ended() {
    let requests = Arc::new(Requests::default());
    let observer = Arc::clone(&requests) as Arc<dyn WebhookObserver>;
    let reviewed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _counted = Counted::begin(observer, CONVERT);
        panic!("on purpose");
    }));
    assert!(reviewed.is_err());
    assert_eq!(requests.ended(), [500]);
}

#[tokio::test]
async fn slow_clients_that_announce_large_bodies_do_not_keep_others_waiting() {
    let limits = Limits::default();
    let served = Served::start(limits).await;
    let mut slow = Vec::new();
    for _ in 0..8 {
        slow.push(served.client(CONVERT, limits.conversion_bytes, b"{").await);
    }
    until("all have begun", || served.requests.began() == slow.len()).await;
    let mut quick = served.client(VALIDATE, 2, b"{}").await;
    let answer = tokio::time::timeout(Duration::from_secs(5), status_line(&mut quick)).await;
    assert_eq!(answer.as_deref(), Ok("HTTP/1.1 400 Bad Request"));
}

#[tokio::test]
async fn bodies_that_do_not_fit_together_are_answered_one_after_the_other() {
    let body = conversion_review(1 << 20);
    let served = Served::start(Limits {
        conversion_bytes: 2 << 20,
        admission_bytes: 2 << 20,
        bytes_in_flight: 4 << 20,
        ..Limits::default()
    })
    .await;
    let (first, rest) = body.split_at(body.len() - 10);
    let mut clients = Vec::new();
    for _ in 0..8 {
        let mut client = served.client(CONVERT, body.len(), &[]).await;
        let first = first.to_vec();
        // Each client sends in a task, because those whose body has no room yet are not read.
        clients.push(tokio::spawn(async move {
            client.write_all(&first).await.unwrap();
            client
        }));
    }
    until("all have begun", || {
        served.requests.began() == clients.len()
    })
    .await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut answers = Vec::new();
    for client in clients {
        let rest = rest.to_vec();
        answers.push(tokio::spawn(async move {
            let mut client = client.await.unwrap();
            client.write_all(&rest).await.unwrap();
            status_line(&mut client).await
        }));
    }
    for answer in answers {
        assert_eq!(answer.await.unwrap(), "HTTP/1.1 200 OK");
    }
    until("everything is free", || served.is_idle()).await;
}

#[test]
fn the_bounds_together_fit_into_the_memory_of_the_deployment() {
    const MIB: usize = 1 << 20;
    let deployment = include_str!("../../../../../../deploy/deployment.yaml");
    let (_, limits) = deployment.split_once("limits:").unwrap();
    let (_, memory) = limits.split_once("memory: ").unwrap();
    let (memory, _) = memory.split_once("Mi\n").unwrap();
    let allowed = memory.parse::<usize>().unwrap() * MIB;

    let limits = Limits::default();
    // docs/sizing.md promises this for 150 clusters.
    let manager = 40 * MIB;
    // One large review has a turn: two trees of an update, or one tree and the answer of a conversion.
    let answer = limits.conversion_bytes + limits.conversion_bytes / 8;
    let large = size_estimate::MOST_BYTES + size_estimate::MOST_BYTES.max(answer);
    // Every thread may have a small review, at worst of objects in objects.
    let objects = SMALL / r#"{"":}"#.len();
    let small = crate::cli::WORKER_THREADS * size_estimate::of(&r#"{"":"#.repeat(objects));
    let sum = manager + limits.bytes_in_flight + large + small;
    assert!(sum <= allowed, "{} MiB", sum / MIB);
}
