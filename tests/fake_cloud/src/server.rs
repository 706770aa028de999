//! The HTTP shell: reads calls, passes them to the world, applies faults to replies, and runs the timers.

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, broadcast},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    balancer::{DataPath, DataPathState},
    control,
    events::Event,
    faults::{ReceivedCall, Treatment},
    identity::Caller,
    outgoing::{Outgoing, Resettable, broken, plain, treated},
    record,
    settings::seconds,
    wire::{Body, Reply, Request, Service},
    world::World,
};

/// The largest body of a call, in bytes. A call with a larger one gets no answer: its connection breaks.
const LARGEST_BODY: usize = 16 * 1024 * 1024;

/// The state that all tasks of one cloud share.
#[derive(Debug)]
pub(crate) struct Shared {
    world: Mutex<World>,
    started: Instant,
    changed: Notify,
    /// Events for all subscribers.
    pub(crate) events: broadcast::Sender<Event>,
    /// Ends the cloud.
    pub(crate) stop: CancellationToken,
    /// Every task.
    pub(crate) tasks: TaskTracker,
    /// `http://127.0.0.1:PORT`.
    pub(crate) base: String,
    /// The HAProxy of the options.
    pub(crate) haproxy: Option<PathBuf>,
    data_paths: Mutex<BTreeMap<String, DataPathState>>,
}

impl Shared {
    pub(crate) fn new(world: World, base: String, haproxy: Option<PathBuf>) -> Arc<Self> {
        Arc::new(Self {
            world: Mutex::new(world),
            started: Instant::now(),
            changed: Notify::new(),
            events: broadcast::channel(4096).0,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            base,
            haproxy,
            data_paths: Mutex::default(),
        })
    }

    /// The time since the start of the cloud.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Records the state of a balancer; `None` when it does not exist any more.
    pub(crate) fn show_data_path(&self, id: &str, state: Option<DataPathState>) {
        let mut paths = self.data_paths.lock();
        match state {
            Some(state) => paths.insert(id.to_owned(), state),
            None => paths.remove(id),
        };
    }

    /// The states of the balancers, by load balancer id.
    pub(crate) fn data_paths(&self) -> BTreeMap<String, DataPath> {
        let paths = self.data_paths.lock();
        paths
            .iter()
            .map(|(id, shown)| (id.clone(), shown.now()))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock()
    }

    /// Calls a function on the world at this moment, sends its events and updates the timers.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut World) -> T) -> T {
        let (done, events) = {
            let mut world = self.lock();
            world.advance(self.elapsed());
            let done = act(&mut world);
            (done, world.take_events())
        };
        for event in events {
            // There may be no subscriber.
            let _ = self.events.send(event);
        }
        self.changed.notify_one();
        done
    }
}

/// Runs due timers until the cloud stops.
pub(crate) async fn keep_time(shared: Arc<Shared>) {
    loop {
        let due = shared.lock().next_due();
        let wait = async {
            match due {
                Some(due) => tokio::time::sleep_until(shared.started + due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shared.stop.cancelled() => return,
            () = shared.changed.notified() => {}
            () = wait => {
                // This notification also wakes the loop itself once more, which has no effect.
                shared.with(|_| ());
            }
        }
    }
}

/// Accepts connections until the cloud stops.
pub(crate) async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    loop {
        let stream = tokio::select! {
            () = shared.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = stream else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        // Without this, small answers wait for the delayed acknowledgement of the other side.
        if stream.set_nodelay(true).is_err() {
            continue;
        }
        let connection = serve(Arc::clone(&shared), stream);
        let stop = shared.stop.clone();
        shared.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = connection => {}
            }
        });
    }
}

async fn serve(shared: Arc<Shared>, stream: TcpStream) {
    let reset = Arc::new(AtomicBool::new(false));
    let io = TokioIo::new(Resettable {
        stream,
        reset: Arc::clone(&reset),
    });
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        let reset = Arc::clone(&reset);
        async move { answer(&shared, request, &reset).await }
    });
    let outcome = hyper::server::conn::http1::Builder::new()
        .serve_connection(io, service)
        .await;
    if let Err(error) = outcome {
        tracing::debug!(%error, "connection ended");
    }
}

async fn answer(
    shared: &Arc<Shared>,
    incoming: hyper::Request<hyper::body::Incoming>,
    reset: &AtomicBool,
) -> Result<Outgoing, io::Error> {
    let (parts, body) = incoming.into_parts();
    let body = match Limited::new(body, LARGEST_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => return Err(broken()),
    };
    let mut segments = parts
        .uri
        .path()
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(decode)
        .collect::<Vec<_>>();
    let query: Vec<(String, String)> =
        url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes())
            .into_owned()
            .collect();
    if segments.first().is_some_and(|first| first == "control") {
        segments.remove(0);
        return Ok(plain(
            control::answer(shared, parts.method.as_str(), &segments, &query, &body).await,
        ));
    }
    let Some(service) = segments.first().and_then(|first| Service::of_prefix(first)) else {
        return Ok(plain(Reply::text(
            404,
            "text/plain",
            "There is no such service here.",
        )));
    };
    segments.remove(0);
    let headers: Vec<(String, String)> = parts
        .headers
        .iter()
        .map(|(name, value)| {
            (
                name.as_str().to_owned(),
                String::from_utf8_lossy(value.as_bytes()).into_owned(),
            )
        })
        .collect();
    let host = headers
        .iter()
        .find(|(name, _)| name == "host")
        .map(|(_, host)| format!("http://{host}"));
    let mut request = Request {
        service,
        method: parts.method.as_str().to_owned(),
        segments,
        query,
        headers,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        base: host.unwrap_or_else(|| shared.base.clone()),
        caller: Caller::default(),
    };
    let (sequence, treatment) = begin(shared, &mut request, &body);
    let fault = &treatment.fault;
    let mut reply = if fault.apply && fault.delay > 0.0 {
        // The work is done even if the client has gone by then.
        let (shared, treatment) = (Arc::clone(shared), treatment.clone());
        let late = tokio::spawn(async move { work(&shared, &request, &treatment).await });
        late.await.map_err(|_| broken())?
    } else {
        work(shared, &request, &treatment).await
    };
    tokio::time::sleep(seconds(fault.delay_after)).await;
    if fault.hang {
        std::future::pending::<()>().await;
    }
    if fault.reset {
        reset.store(true, Ordering::SeqCst);
        return Err(broken());
    }
    if let Some(status) = fault.status {
        reply = Reply::empty(status);
    }
    match &fault.body {
        Some(Value::String(text)) => {
            reply.body = Body::Text("text/html; charset=UTF-8", text.clone());
        }
        Some(body) => reply.body = Body::Json(body.clone()),
        None => {}
    }
    reply.headers.extend(fault.headers.clone());
    let elapsed = shared.elapsed();
    shared.with(|world| world.record.end(sequence, reply.status, elapsed));
    Ok(treated(reply, &treatment))
}

/// The service's part of a call: waits for the fault's delay and then carries out the call.
async fn work(shared: &Shared, request: &Request, treatment: &Treatment) -> Reply {
    tokio::time::sleep(seconds(treatment.fault.delay)).await;
    let elapsed = shared.elapsed();
    if treatment.applies() {
        shared.with(|world| world.apply(request, elapsed))
    } else {
        Reply::empty(204)
    }
}

fn begin(shared: &Shared, request: &mut Request, body: &Bytes) -> (u64, Treatment) {
    let elapsed = shared.elapsed();
    let label = record::label(request);
    shared.with(|world| {
        world.identify(request);
        if request.service == Service::Identity && request.method == "POST" {
            let name = |pointer: &str| {
                request
                    .body
                    .pointer(pointer)
                    .and_then(Value::as_str)
                    .map(str::to_owned)
            };
            let credential = name("/auth/identity/password/user/name")
                .or_else(|| name("/auth/identity/application_credential/id"))
                .or_else(|| name("/auth/identity/application_credential/name"));
            request.caller.credential = credential.unwrap_or_default();
        }
        let text = String::from_utf8_lossy(body);
        let path = request.path();
        let treatment = world.faults.take(
            &ReceivedCall {
                service: request.service,
                method: &request.method,
                path: &path,
                label: &label,
                credential: &request.caller.credential,
                body: &text,
            },
            elapsed,
        );
        let sequence = world.record.begin(request, &label, elapsed, treatment.id);
        (sequence, treatment)
    })
}

fn decode(segment: &str) -> String {
    // Form decoding differs from path decoding only in the plus sign.
    url::form_urlencoded::parse(format!("={}", segment.replace('+', "%2B")).as_bytes())
        .next()
        .map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}
