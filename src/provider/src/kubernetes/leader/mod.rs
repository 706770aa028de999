//! Leader election by a Lease.
//!
//! Every write is a replace that names the resource version it is based on, so that one of two racing writes fails. The
//! [`LeaseToken`] is extended to the renew deadline, counted from *before* the request that renewed the lease. So it
//! expires while every other candidate still honours the lease, however long the answer took.

mod decide;

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, api::PostParams};
use tokio::time::{sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use capo_core::GateMode;
use capo_openstack::LeaseToken;
use decide::{LeaseDecision, ObservedLease, decide, released};

/// The Lease's name: CAPO's, so that CAPO and capo-rs never lead at the same time.
pub const LEASE_NAME: &str = "controller-leader-election-capo";
/// Annotation of the Lease: the leader's gate mode, and which leader wrote it.
const MODE_ANNOTATION: &str = "infrastructure.cluster.x-k8s.io/load-balancer-gate-mode";

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
                match self.attempt(deadline).await {
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
    /// could still write.
    pub async fn release(&mut self) {
        self.token.revoke();
        let Some(mut lease) = self.known.take() else {
            return;
        };
        let held = lease.spec.take().unwrap_or_default();
        if held.holder_identity.as_deref() != Some(self.identity.as_str()) {
            return;
        }
        lease.spec = Some(released(&held, Timestamp::now()));
        let parameters = PostParams::default();
        let replace = self.api.replace(LEASE_NAME, &parameters, &lease);
        match tokio::time::timeout(Duration::from_secs(1), replace).await {
            Ok(Ok(_)) => tracing::info!(lease = LEASE_NAME, "Released the leader lease"),
            Ok(Err(error)) => {
                tracing::warn!(lease = LEASE_NAME, %error, "Releasing the leader lease failed");
            }
            Err(_) => tracing::warn!(
                lease = LEASE_NAME,
                "Releasing the leader lease took too long"
            ),
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
                Attempt::Failed(kube::Error::Service(
                    "no answer before the renew deadline".into(),
                ))
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
            return Ok(Attempt::HeldByOther(holder.unwrap_or_default()));
        };
        let mode = format!("{} {}", self.mode.as_str(), self.identity);
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

/// The leading process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// The name under which it holds the lease.
    pub identity: String,
    /// `enforce`, `observe` or `off`; `None` for a leader that does not record it, such as CAPO.
    pub mode: Option<String>,
}

/// The leader according to the Lease in `namespace`, as far as the clocks of the two machines agree. It is for display
/// only: managers decide by their own clock alone.
///
/// # Errors
/// The lease can't be read.
pub async fn leader(client: Client, namespace: &str) -> Result<Option<Leader>, kube::Error> {
    let leases: Api<Lease> = Api::namespaced(client, namespace);
    let lease = leases.get_opt(LEASE_NAME).await?;
    Ok(lease.and_then(|lease| leader_of(&lease, Timestamp::now())))
}

fn leader_of(lease: &Lease, now: Timestamp) -> Option<Leader> {
    let spec = lease.spec.as_ref()?;
    let identity = spec
        .holder_identity
        .clone()
        .filter(|name| !name.is_empty())?;
    let renewed = spec.renew_time.as_ref()?.0;
    let lasts = spec.lease_duration_seconds.unwrap_or(0).into();
    if now.duration_since(renewed) > jiff::SignedDuration::from_secs(lasts) {
        return None;
    }
    let annotations = lease.metadata.annotations.as_ref();
    let mode = annotations
        .and_then(|annotations| annotations.get(MODE_ANNOTATION))
        .and_then(|text| text.split_once(' '))
        // An annotation of an earlier leader does not apply to this one.
        .filter(|(_, of)| *of == identity)
        .map(|(mode, _)| mode.to_owned());
    Some(Leader { identity, mode })
}

/// A time up to 20 % longer, so that candidates do not try at the same moments. It is never shorter, as
/// [`capo_core::backoff::jittered`] can make it, because the retry period is the shortest pause in client-go too.
fn jittered(period: Duration) -> Duration {
    period.mul_f64(1.0 + 0.2 * rand::random::<f64>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Leader, Lease, MODE_ANNOTATION, leader_of};

    fn lease(holder: &str, annotation: Option<&str>) -> Lease {
        serde_json::from_value(json!({
            "metadata": {"annotations": annotation.map(|text| json!({MODE_ANNOTATION: text}))},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-11-21T10:00:00.000000Z"},
        }))
        .unwrap()
    }

    #[test]
    fn the_leader_is_read_from_the_lease_and_its_mode_from_its_annotation() {
        let leader = |mode: Option<&str>| {
            Some(Leader {
                identity: "us".to_owned(),
                mode: mode.map(str::to_owned),
            })
        };
        let (during, after) = ("2026-11-21T10:00:14Z", "2026-11-21T10:00:16Z");
        for (held, now, expected) in [
            (
                lease("us", Some("enforce us")),
                during,
                leader(Some("enforce")),
            ),
            (lease("us", Some("off us")), during, leader(Some("off"))),
            (lease("us", Some("enforce them")), during, leader(None)),
            (lease("us", Some("enforce")), during, leader(None)),
            (lease("us", None), during, leader(None)),
            (lease("us", Some("enforce us")), after, None),
            (lease("", Some("enforce us")), during, None),
            (Lease::default(), during, None),
        ] {
            assert_eq!(leader_of(&held, now.parse().unwrap()), expected, "{held:?}");
        }
    }
}
