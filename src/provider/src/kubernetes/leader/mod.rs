//! Leader election by a Lease.
//!
//! Every write is a replace that names the resource version it is based on, so that one of two racing writes fails. The
//! [`LeaseToken`] is extended to the renew deadline, counted from *before* the request that renewed the lease. So it
//! expires while every other candidate still honours the lease, however long the answer took.

mod decide;
mod holder;
#[cfg(test)]
pub(crate) mod lease_server;

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, api::PostParams};
use tokio::time::{sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use capo_core::GateMode;
use capo_openstack::LeaseToken;
use decide::{LeaseDecision, ObservedLease, decide, released};

pub use holder::{Holder, Leader, holder};

/// The Lease's name: CAPO's, so that CAPO and capo-rs never lead at the same time.
pub const LEASE_NAME: &str = "controller-leader-election-capo";
/// Annotation of the Lease: the leader's gate mode, and which leader wrote it.
const MODE_ANNOTATION: &str = "infrastructure.cluster.x-k8s.io/load-balancer-gate-mode";
/// How long the release of the lease may take.
const RELEASE: Duration = Duration::from_secs(1);

/// The duration of the lease, the renew deadline and the retry period.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// How long a lease that is not renewed keeps other processes from leading.
    pub lease_duration: Duration,
    /// How long after the last renewal the leader stops.
    pub renew_deadline: Duration,
    /// The pause between two attempts.
    pub retry_period: Duration,
}

/// One candidate.
pub struct Election {
    api: Api<Lease>,
    identity: String,
    timing: Timing,
    token: LeaseToken,
    mode: GateMode,
    /// The latest version of the lease that this process knows, to replace it without reading it again.
    known: Option<Lease>,
    /// Whether this process may hold the lease: it has sent a write that takes it, and has not read since then that
    /// another process holds it.
    may_hold: bool,
    seen: Option<ObservedLease>,
    renewed: Instant,
}

/// How leading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The process was stopped.
    Stopped,
    /// The lease was not renewed by the deadline, or another process holds it.
    Lost,
}

/// The result of one attempt to take or renew the lease.
enum Attempt {
    Held,
    HeldByOther(String),
    Failed(kube::Error),
}

impl Election {
    /// A candidate for the Lease [`LEASE_NAME`] in `namespace`, on the host `host`. It extends `token` while it leads,
    /// and records its gate mode on the Lease.
    pub fn new(
        client: Client,
        namespace: &str,
        host: &str,
        timing: Timing,
        token: LeaseToken,
        mode: GateMode,
    ) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            identity: format!("{host}_{}", uuid::Uuid::new_v4()),
            timing,
            token,
            mode,
            known: None,
            may_hold: false,
            seen: None,
            renewed: Instant::now(),
        }
    }

    /// The name under which this process holds the lease.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Tries until the lease is held.
    pub async fn acquire(&mut self) {
        let mut logged = None;
        loop {
            let deadline = Instant::now() + self.timing.renew_deadline;
            let waits_for = match self.attempt(deadline).await {
                Attempt::Held => return,
                Attempt::HeldByOther(holder) => format!("held by {holder}"),
                Attempt::Failed(error) => error.to_string(),
            };
            if logged.as_ref() != Some(&waits_for) {
                tracing::info!(
                    lease = LEASE_NAME,
                    reason = waits_for,
                    "Waiting for the leader lease"
                );
                logged = Some(waits_for);
            }
            sleep(jittered(self.timing.retry_period)).await;
        }
    }

    /// Renews until `stop`, or until the lease is lost. The token is revoked either way.
    pub async fn hold(&mut self, stop: &CancellationToken) -> Ended {
        let ended = tokio::select! {
            () = stop.cancelled() => Ended::Stopped,
            () = self.renew_until_lost() => Ended::Lost,
        };
        self.token.revoke();
        ended
    }

    async fn renew_until_lost(&mut self) {
        loop {
            sleep(self.timing.retry_period).await;
            let deadline = self.renewed + self.timing.renew_deadline;
            loop {
                // An attempt whose connection has died unnoticed leaves time for another one.
                let limit = Instant::now() + self.timing.renew_deadline / 3;
                match self.attempt(limit.min(deadline)).await {
                    Attempt::Held => break,
                    Attempt::HeldByOther(holder) => {
                        tracing::error!(
                            lease = LEASE_NAME,
                            holder,
                            "The leader lease was taken over"
                        );
                        return;
                    }
                    Attempt::Failed(error) => {
                        tracing::warn!(lease = LEASE_NAME, %error, "Renewing the leader lease failed");
                    }
                }
                if Instant::now() + self.timing.retry_period >= deadline {
                    sleep(deadline.saturating_duration_since(Instant::now())).await;
                    tracing::error!(
                        lease = LEASE_NAME,
                        "The leader lease was not renewed in time"
                    );
                    return;
                }
                sleep(self.timing.retry_period).await;
            }
        }
    }

    /// Releases the lease, so that the next process need not wait until it expires. The caller has ended all tasks that
    /// could still write. It may follow a cancelled [`acquire`](Self::acquire) too, whose write may have arrived.
    pub async fn release(&mut self) {
        self.token.revoke();
        if !std::mem::take(&mut self.may_hold) {
            return;
        }
        match timeout(RELEASE, self.release_if_held()).await {
            Ok(Ok(true)) => tracing::info!(lease = LEASE_NAME, "Released the leader lease"),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => {
                tracing::warn!(lease = LEASE_NAME, %error, "Releasing the leader lease failed");
            }
            Err(_) => tracing::warn!(
                lease = LEASE_NAME,
                "Releasing the leader lease took too long"
            ),
        }
    }

    /// Whether this process held the lease, and has released it. The lease is read first if its version is not known,
    /// which is so after a renewal that failed or was cancelled.
    async fn release_if_held(&mut self) -> Result<bool, kube::Error> {
        let mut known = self.known.take();
        loop {
            let newest = match known.take() {
                Some(lease) => Some(lease),
                None => self.api.get_opt(LEASE_NAME).await?,
            };
            let Some(mut lease) = newest else {
                return Ok(false);
            };
            let held = lease.spec.take().unwrap_or_default();
            if held.holder_identity.as_deref() != Some(self.identity.as_str()) {
                return Ok(false);
            }
            lease.spec = Some(released(&held, Timestamp::now()));
            let parameters = PostParams::default();
            match self.api.replace(LEASE_NAME, &parameters, &lease).await {
                Ok(_) => return Ok(true),
                // A cancelled renewal arrived in the meantime, or another process has taken the lease.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes or renews the lease if the rules allow it.
    async fn attempt(&mut self, deadline: Instant) -> Attempt {
        match timeout_at(deadline.into(), self.try_once()).await {
            Ok(Ok(attempt)) => attempt,
            Ok(Err(error)) => {
                // The known version may be outdated, so it is read before the next write.
                self.known = None;
                Attempt::Failed(error)
            }
            Err(_) => {
                self.known = None;
                Attempt::Failed(kube::Error::Service("no answer in time".into()))
            }
        }
    }

    async fn try_once(&mut self) -> Result<Attempt, kube::Error> {
        let known = match self.known.take() {
            Some(lease) => Some(lease),
            None => self.api.get_opt(LEASE_NAME).await?,
        };
        let begun = Instant::now();
        self.seen = known
            .as_ref()
            .and_then(|lease| lease.spec.clone())
            .map(|spec| ObservedLease::after(self.seen.take(), spec, begun));
        let decision = decide(
            self.seen.as_ref(),
            &self.identity,
            self.timing.lease_duration,
            begun,
            Timestamp::now(),
        );
        let LeaseDecision::Write(spec) = decision else {
            let holder = self
                .seen
                .as_ref()
                .and_then(|seen| seen.spec.holder_identity.clone());
            self.may_hold = false;
            return Ok(Attempt::HeldByOther(holder.unwrap_or_default()));
        };
        let mode = format!("{} {}", self.mode.as_str(), self.identity);
        self.may_hold = true;
        let written = if let Some(mut lease) = known {
            lease.spec = Some(spec);
            lease
                .metadata
                .annotations
                .get_or_insert_default()
                .insert(MODE_ANNOTATION.to_owned(), mode);
            self.api
                .replace(LEASE_NAME, &PostParams::default(), &lease)
                .await?
        } else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(LEASE_NAME.to_owned()),
                    annotations: Some([(MODE_ANNOTATION.to_owned(), mode)].into()),
                    ..ObjectMeta::default()
                },
                spec: Some(spec),
            };
            self.api.create(&PostParams::default(), &lease).await?
        };
        self.renewed = begun;
        self.token.extend_until(begun + self.timing.renew_deadline);
        self.seen = written
            .spec
            .clone()
            .map(|spec| ObservedLease { spec, since: begun });
        self.known = Some(written);
        Ok(Attempt::Held)
    }
}

/// A time up to 20 % longer, so that candidates do not try at the same moments. It is never shorter, as
/// [`capo_core::backoff::jittered`] can make it, because the retry period is the shortest pause in client-go too.
fn jittered(period: Duration) -> Duration {
    period.mul_f64(1.0 + 0.2 * rand::random::<f64>())
}

#[cfg(test)]
mod tests;
