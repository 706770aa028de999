//! Leader election by a Lease.
//!
//! Every write is a replace that names the resource version it rests on, so that of two that race one
//! loses. The [`LeaseToken`] is extended to the renew deadline counted from *before* the request that
//! renewed: it ends while everybody else still honours the lease, however long an answer took.

mod decide;

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, api::PostParams};
use tokio::time::{sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use capo_core::GateMode;
use capo_openstack::LeaseToken;
use decide::{Decision, Seen, decide, released};

/// The Lease's name: CAPO's, so that the two never lead at the same time.
pub const LEASE_NAME: &str = "controller-leader-election-capo";
/// Annotation of the Lease: how the leader acts on the load balancer gate, and which leader that is.
const MODE_ANNOTATION: &str = "infrastructure.cluster.x-k8s.io/load-balancer-gate-mode";

/// How long a lease lasts, for how long renewing is tried, and how often.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// How long a lease that is not renewed keeps others out.
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
    /// The lease in the version this process knows, to replace it without reading it again.
    known: Option<Lease>,
    seen: Option<Seen>,
    renewed: Instant,
}

/// How leading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Asked to.
    Stopped,
    /// The lease was not renewed by the deadline, or somebody else has it.
    Lost,
}

/// One attempt at the lease.
enum Attempt {
    Held,
    HeldByOther(String),
    Failed(kube::Error),
}

impl Election {
    /// A candidate for the Lease [`LEASE_NAME`] in `namespace`, which extends `token` while it leads, and
    /// tells in the Lease how it acts on the gate.
    pub fn new(
        client: Client,
        namespace: &str,
        timing: Timing,
        token: LeaseToken,
        mode: GateMode,
    ) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            api: Api::namespaced(client, namespace),
            identity: format!("{}_{}", host.trim(), uuid::Uuid::new_v4()),
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
        let mut told = None;
        loop {
            let deadline = Instant::now() + self.timing.renew_deadline;
            let waits_for = match self.attempt(deadline).await {
                Attempt::Held => return,
                Attempt::HeldByOther(holder) => format!("held by {holder}"),
                Attempt::Failed(error) => error.to_string(),
            };
            if told.as_ref() != Some(&waits_for) {
                tracing::info!(
                    lease = LEASE_NAME,
                    reason = waits_for,
                    "Waiting for the leader lease"
                );
                told = Some(waits_for);
            }
            sleep(jittered(self.timing.retry_period)).await;
        }
    }

    /// Renews until `stop`, or until the lease is lost. The token is revoked either way.
    pub async fn keep(&mut self, stop: &CancellationToken) -> Ended {
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

    /// Gives the lease back, so that the next process need not wait for its end. Call it when
    /// nothing that could write is running any more.
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
                // Whatever we know may be outdated: read before the next write.
                self.known = None;
                Attempt::Failed(error)
            }
            Err(_) => {
                self.known = None;
                Attempt::Failed(kube::Error::Service("no answer by the deadline".into()))
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
            .map(|spec| Seen::after(self.seen.take(), spec, begun));
        let decision = decide(
            self.seen.as_ref(),
            &self.identity,
            self.timing.lease_duration,
            begun,
            Timestamp::now(),
        );
        let Decision::Write(spec) = decision else {
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
        self.seen = written.spec.clone().map(|spec| Seen { spec, since: begun });
        self.known = Some(written);
        Ok(Attempt::Held)
    }
}

/// Who leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// The name under which it holds the lease.
    pub identity: String,
    /// `enforce`, `observe` or `off`; `None` for a leader that does not say, such as CAPO.
    pub mode: Option<String>,
}

/// Who leads by the Lease in `namespace`, as far as the clocks of the two machines agree. Tells somebody who
/// asks, and decides nothing between managers.
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
        // What another leader left there says nothing of this one.
        .filter(|(_, of)| *of == identity)
        .map(|(mode, _)| mode.to_owned());
    Some(Leader { identity, mode })
}

/// Up to 20 % longer, so that candidates do not march in step.
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
    fn a_leader_is_known_by_its_lease_and_its_mode_by_its_own_word() {
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
