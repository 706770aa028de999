//! `/healthz` and `/readyz`.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use http::StatusCode;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{
    cluster_operator::Shown,
    http::{self as server, plain, text},
};

/// What must be true before this process is ready. Liveness asks for none of it: a restart mends
/// neither Kubernetes nor OpenStack.
#[derive(Debug, Clone, Default)]
pub(super) struct Readiness(Arc<Facts>);

#[derive(Debug, Default)]
struct Facts {
    kubernetes: AtomicBool,
    webhooks: AtomicBool,
    caches: AtomicBool,
    /// How the work stands; never a reason to be not ready.
    operator: Shown,
}

impl Readiness {
    /// The Kubernetes API answered.
    pub(super) fn kubernetes_answers(&self) {
        self.0.kubernetes.store(true, Ordering::Relaxed);
    }

    /// The webhook server serves, its certificate loaded; or there is none.
    pub(super) fn webhooks_serve(&self) {
        self.0.webhooks.store(true, Ordering::Relaxed);
    }

    /// Every watch has listed its objects; or this process does not lead and only serves webhooks.
    pub(super) fn caches_synced(&self) {
        self.0.caches.store(true, Ordering::Relaxed);
    }

    /// Where the sum of the work is shown.
    pub(super) fn operator(&self) -> Shown {
        self.0.operator.clone()
    }

    /// Nothing is missing.
    pub(super) fn is_ready(&self) -> bool {
        self.facts().iter().all(|(_, holds)| *holds)
    }

    fn facts(&self) -> [(&'static str, bool); 3] {
        [
            ("kubernetes", self.0.kubernetes.load(Ordering::Relaxed)),
            ("webhooks", self.0.webhooks.load(Ordering::Relaxed)),
            ("caches", self.0.caches.load(Ordering::Relaxed)),
        ]
    }
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (fact, holds) in self.facts() {
            let (mark, word) = if holds { ('+', "ok") } else { ('-', "not yet") };
            writeln!(f, "[{mark}]{fact} {word}")?;
        }
        Ok(())
    }
}

/// Answers the probes until `stop`.
pub(super) async fn serve(listener: TcpListener, readiness: Readiness, stop: CancellationToken) {
    server::serve(listener, stop, plain, move |request| {
        let verbose = request.uri().query().is_some_and(|query| {
            query
                .split('&')
                .any(|word| word == "verbose" || word.starts_with("verbose="))
        });
        let facts = if verbose {
            format!("{readiness}{}\n", readiness.operator().line())
        } else {
            readiness.to_string()
        };
        let answer = match request.uri().path() {
            "/healthz" | "/livez" => text(StatusCode::OK, "ok"),
            "/readyz" if readiness.is_ready() => text(StatusCode::OK, facts),
            "/readyz" => text(StatusCode::SERVICE_UNAVAILABLE, facts),
            _ => text(
                StatusCode::NOT_FOUND,
                "only /healthz and /readyz are here\n",
            ),
        };
        async move { answer }
    })
    .await;
}
