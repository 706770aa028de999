//! Resolves the host name of the endpoint.

use std::{
    collections::BTreeSet,
    net::IpAddr,
    time::{Duration, Instant},
};

use crate::kubernetes::conditions::kind::API_ENDPOINT_READY;
use crate::reconcile::{StepError, StepResult};
use capo_core::Reason;

/// The time limit for the resolver's answer. Without an answer, a later pass looks the name up again.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time until a name that did not resolve is looked up again.
const PAUSE: Duration = Duration::from_secs(10);
/// If a name does not resolve for this long, its owner probably creates the DNS record once the address is known.
const UNRESOLVED: Duration = Duration::from_mins(1);

/// The state of the lookups of the endpoint's name.
#[derive(Debug, Clone, Default)]
pub(crate) struct EndpointName {
    /// The time since which the name has not resolved.
    unresolved: Option<Instant>,
}

impl EndpointName {
    /// Returns the addresses to which `host` resolves. A resolver can fail for a moment, so a name that does not
    /// resolve is an error of the step at first. If it does not resolve for [`UNRESOLVED`], the list is empty.
    pub(crate) async fn addresses(&mut self, host: &str) -> StepResult<Vec<IpAddr>> {
        let resolved = tokio::time::timeout(PATIENCE, tokio::net::lookup_host((host, 0))).await;
        let found: BTreeSet<IpAddr> = match resolved {
            Ok(Ok(found)) => found.map(|address| address.ip()).collect(),
            Ok(Err(_)) | Err(_) => BTreeSet::new(),
        };
        if !found.is_empty() {
            self.unresolved = None;
            return Ok(found.into_iter().collect());
        }
        if self.has_waited(Instant::now()) {
            return Ok(Vec::new());
        }
        Err(StepError::wait(
            API_ENDPOINT_READY,
            Reason::APIEndpointConfigFailed,
            format!(
                "spec.controlPlaneEndpoint.host {host} does not resolve to an address, so the floating IP for it is \
                 unknown; if the name still does not resolve after 1 minute, another floating IP is used"
            ),
            PAUSE,
        ))
    }

    fn has_waited(&mut self, now: Instant) -> bool {
        let since = *self.unresolved.get_or_insert(now);
        now.saturating_duration_since(since) >= UNRESOLVED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_does_not_resolve_is_waited_for_at_first() {
        let start = Instant::now();
        let mut name = EndpointName::default();
        for (seconds, waited) in [(0, false), (50, false), (60, true), (600, true)] {
            let now = start + Duration::from_secs(seconds);
            assert_eq!(name.has_waited(now), waited, "after {seconds} s");
        }
    }

    #[tokio::test]
    async fn a_name_that_has_not_resolved_for_long_has_no_address() {
        // No name of this domain ever resolves (RFC 2606).
        let host = "api.invalid";
        let mut name = EndpointName::default();
        assert!(name.addresses(host).await.is_err());
        name.unresolved = Instant::now().checked_sub(UNRESOLVED);
        let found = name.addresses(host).await;
        assert!(found.is_ok_and(|found| found.is_empty()));
    }

    #[tokio::test]
    async fn a_name_resolves_to_addresses() {
        let mut name = EndpointName::default();
        let found = name.addresses("localhost").await;
        let found = found.unwrap_or_default();
        assert!(
            found.iter().all(IpAddr::is_loopback) && !found.is_empty(),
            "{found:?}"
        );
    }
}
