//! Who holds the leader lease, for commands that run beside the managers.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{Api, Client};
use tokio::time::{Instant, sleep};

use super::{LEASE_NAME, MODE_ANNOTATION};

/// The pause between two reads of a lease whose holder may have gone.
const READ_AGAIN: Duration = Duration::from_secs(1);
/// The duration of a lease that names none: the default of client-go.
const USUAL_DURATION: Duration = Duration::from_secs(15);

/// A process that leads or led.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// The name under which it holds the lease.
    pub identity: String,
    /// `enforce`, `observe` or `off`; `None` for a leader that does not record it, such as CAPO.
    pub mode: Option<String>,
}

/// Who holds the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// There is no lease, or its last holder has released it.
    Nobody,
    /// This process leads.
    Leads(Leader),
    /// This process neither renewed the lease for its whole duration nor released it.
    Expired(Leader),
}

/// The holder according to the Lease in `namespace`. A renewal that is recent by this machine's clock is enough to
/// lead. Otherwise the clocks of the two machines may differ, so the lease is watched for its own duration, as a
/// candidate does it; `watches` is called before that, with the holder and the duration.
///
/// # Errors
/// The lease can't be read.
pub async fn holder(
    client: Client,
    namespace: &str,
    watches: impl FnOnce(&Leader, Duration),
) -> Result<Holder, kube::Error> {
    let leases: Api<Lease> = Api::namespaced(client, namespace);
    let Some((leader, spec)) = leases.get_opt(LEASE_NAME).await?.and_then(held) else {
        return Ok(Holder::Nobody);
    };
    if is_recent(&spec, Timestamp::now()) {
        return Ok(Holder::Leads(leader));
    }
    let duration = duration(&spec);
    watches(&leader, duration);
    let begun = Instant::now();
    while begun.elapsed() < duration {
        sleep(READ_AGAIN).await;
        match leases.get_opt(LEASE_NAME).await?.and_then(held) {
            None => return Ok(Holder::Nobody),
            Some((leader, now)) if now != spec => return Ok(Holder::Leads(leader)),
            Some(_) => {}
        }
    }
    Ok(Holder::Expired(leader))
}

/// The process that the lease names as its holder, and the lease's spec.
fn held(lease: Lease) -> Option<(Leader, LeaseSpec)> {
    let spec = lease.spec?;
    let identity = spec
        .holder_identity
        .clone()
        .filter(|name| !name.is_empty())?;
    let mode = lease
        .metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(MODE_ANNOTATION))
        .and_then(|text| text.split_once(' '))
        // An annotation of an earlier leader does not apply to this one.
        .filter(|(_, of)| *of == identity)
        .map(|(mode, _)| mode.to_owned());
    Some((Leader { identity, mode }, spec))
}

/// Whether the lease was renewed less than its duration ago, if the clock of its holder agrees with this one.
fn is_recent(spec: &LeaseSpec, now: Timestamp) -> bool {
    let age = spec
        .renew_time
        .as_ref()
        .map(|renewed| now.duration_since(renewed.0).unsigned_abs());
    age.is_some_and(|age| age <= duration(spec))
}

fn duration(spec: &LeaseSpec) -> Duration {
    spec.lease_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok())
        .map_or(USUAL_DURATION, Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use jiff::{Timestamp, ToSpan as _};
    use serde_json::{Value, json};

    use super::{
        super::lease_server::{LeaseServer, Treatment},
        Holder, Leader, Lease, MODE_ANNOTATION, held, holder, is_recent,
    };

    fn lease(holder: &str, annotation: Option<&str>, renewed: &str) -> Value {
        json!({
            "metadata": {"name": super::LEASE_NAME, "namespace": "n",
                "annotations": annotation.map(|text| json!({MODE_ANNOTATION: text}))},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed},
        })
    }

    fn leader(mode: Option<&str>) -> Leader {
        Leader {
            identity: "us".to_owned(),
            mode: mode.map(str::to_owned),
        }
    }

    #[test]
    fn the_leader_is_read_from_the_lease_and_its_mode_from_its_annotation() {
        for (holder, annotation, expected) in [
            ("us", Some("enforce us"), Some(leader(Some("enforce")))),
            ("us", Some("off us"), Some(leader(Some("off")))),
            ("us", Some("enforce them"), Some(leader(None))),
            ("us", Some("enforce"), Some(leader(None))),
            ("us", None, Some(leader(None))),
            ("", Some("enforce us"), None),
        ] {
            let lease = lease(holder, annotation, "2026-11-21T10:00:00.000000Z");
            let lease = serde_json::from_value(lease).unwrap();
            let found = held(lease).map(|(leader, _)| leader);
            assert_eq!(found, expected, "{holder} {annotation:?}");
        }
        assert_eq!(held(Lease::default()), None);
    }

    #[test]
    fn a_renewal_is_recent_for_the_duration_of_the_lease() {
        let lease = lease("us", None, "2026-11-21T10:00:00.000000Z");
        let (_, spec) = held(serde_json::from_value(lease).unwrap()).unwrap();
        for (now, expected) in [
            ("2026-11-21T09:59:44Z", false),
            ("2026-11-21T09:59:46Z", true),
            ("2026-11-21T10:00:14Z", true),
            ("2026-11-21T10:00:16Z", false),
        ] {
            assert_eq!(is_recent(&spec, now.parse().unwrap()), expected, "{now}");
        }
    }

    /// The holder, and whether the lease was watched to find it out.
    async fn found(server: &LeaseServer) -> (Option<Holder>, bool) {
        let mut watched = false;
        let holder = holder(server.client(), "n", |_, _| watched = true).await;
        (holder.ok(), watched)
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_has_expired_only_if_its_holder_stops_renewing_it() {
        let now = Timestamp::now();
        let at = |seconds: i64| (now + seconds.seconds()).to_string();
        let server = LeaseServer::default();
        assert_eq!(found(&server).await, (Some(Holder::Nobody), false));
        server.put(lease("us", None, &at(0)));
        let leads = Some(Holder::Leads(leader(None)));
        assert_eq!(found(&server).await, (leads.clone(), false));
        for clock in [-3600, -20, 20, 3600] {
            server.put(lease("us", None, &at(clock)));
            server.renews_after_a_read(&at(clock + 2));
            assert_eq!(found(&server).await, (leads.clone(), true), "{clock}");
            server.put(lease("us", None, &at(clock)));
            let expired = Some(Holder::Expired(leader(None)));
            assert_eq!(found(&server).await, (expired, true), "{clock}");
        }
        server.put(lease("", None, &at(0)));
        assert_eq!(found(&server).await, (Some(Holder::Nobody), false));
        server.treats(Treatment::AllFail);
        assert_eq!(found(&server).await, (None, false));
    }
}
