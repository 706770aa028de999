//! `/healthz` and `/readyz`.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use http::StatusCode;
use tokio_util::sync::CancellationToken;

use super::cluster_operator::LastRollUp;
use crate::http::{Listener, text};

/// The conditions under which this process is ready. Liveness requires none of them, because a restart repairs neither
/// Kubernetes nor OpenStack.
#[derive(Debug, Clone, Default)]
pub(super) struct Readiness(Arc<Facts>);

#[derive(Debug, Default)]
struct Facts {
    kubernetes: AtomicBool,
    webhooks: AtomicBool,
    caches: AtomicBool,
    /// The state of all objects. It does not affect readiness.
    operator: LastRollUp,
}

impl Readiness {
    /// Sets whether the Kubernetes API answers.
    pub(super) fn kubernetes_answers(&self, answers: bool) {
        self.0.kubernetes.store(answers, Ordering::Relaxed);
    }

    /// Notes that the settings ask for no webhooks.
    pub(super) fn no_webhooks(&self) {
        self.0.webhooks.store(true, Ordering::Relaxed);
    }

    /// Notes that the webhooks are served, until the returned value is dropped.
    #[must_use]
    pub(super) fn webhooks_are_served(&self) -> WebhooksServed {
        self.0.webhooks.store(true, Ordering::Relaxed);
        WebhooksServed(Arc::clone(&self.0))
    }

    /// Notes that every watch has listed its objects, or that this process does not lead and only serves webhooks.
    pub(super) fn caches_synced(&self) {
        self.0.caches.store(true, Ordering::Relaxed);
    }

    /// The last roll-up of all objects.
    pub(super) fn operator(&self) -> LastRollUp {
        self.0.operator.clone()
    }

    /// Whether all conditions of readiness hold.
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

/// The time in which webhooks are served. Its end, also by a panic, makes the process not ready.
pub(super) struct WebhooksServed(Arc<Facts>);

impl Drop for WebhooksServed {
    fn drop(&mut self) {
        self.0.webhooks.store(false, Ordering::Relaxed);
    }
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (fact, holds) in self.facts() {
            let (mark, state) = if holds {
                ('+', "ok")
            } else {
                ('-', "not ready")
            };
            writeln!(f, "[{mark}]{fact} {state}")?;
        }
        Ok(())
    }
}

/// Answers the probes until `stop`.
pub(super) async fn serve(listener: Listener, readiness: Readiness, stop: CancellationToken) {
    let respond = move |request: http::Request<_>| {
        let verbose = request.uri().query().is_some_and(|query| {
            query
                .split('&')
                .any(|parameter| parameter == "verbose" || parameter.starts_with("verbose="))
        });
        let facts = if verbose {
            format!("{readiness}{}\n", readiness.operator().line())
        } else {
            readiness.to_string()
        };
        let response = match request.uri().path() {
            "/healthz" | "/livez" => text(StatusCode::OK, "ok"),
            "/readyz" if readiness.is_ready() => text(StatusCode::OK, facts),
            "/readyz" => text(StatusCode::SERVICE_UNAVAILABLE, facts),
            _ => text(
                StatusCode::NOT_FOUND,
                "only /healthz and /readyz are served here\n",
            ),
        };
        std::future::ready(response)
    };
    listener.serve(stop, respond).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ready_only_while_its_webhooks_are_served() {
        let readiness = Readiness::default();
        readiness.kubernetes_answers(true);
        readiness.caches_synced();
        assert!(!readiness.is_ready());
        let served = readiness.webhooks_are_served();
        assert!(readiness.is_ready());
        drop(served);
        assert!(!readiness.is_ready());
        readiness.no_webhooks();
        assert!(readiness.is_ready());
    }
}
