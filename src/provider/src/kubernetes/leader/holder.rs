//! Which process leads, for commands that run beside the managers.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};

use super::{LEASE_NAME, MODE_ANNOTATION};

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
