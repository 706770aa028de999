//! Finds out whether the networking is still as it was when a pass found nothing to change. It uses lists that all
//! clusters of a project share, instead of requests for each cluster.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    cache::CachedCluster, observation::SettledNetworking, pass::Pass, step_context::StepContext,
};
use capo_core::{Lookup, Priority};
use capo_openstack::network::ProjectNetworking;

/// The number of clusters in one project from which on the lists are used. For fewer clusters, requests for the objects
/// of each cluster cost less than the six lists.
const SHARED_BY: usize = 4;
/// The number of sync periods after which the objects of a cluster are read again even if the lists show no change. The
/// lists do not show objects in other projects, nor a second object with a managed name.
const PERIODS: u32 = 12;

impl SettledNetworking {
    /// Whether lists with this hash show that nothing has changed since then.
    fn holds(&self, generation: i64, hash: u64, sync_period: Duration, now: Instant) -> bool {
        self.generation == generation
            && self.hash == hash
            && now.saturating_duration_since(self.verified_at) < sync_period * PERIODS
    }
}

/// The lists of the project, if enough clusters share them. They are read before the objects of the cluster, so that a
/// change between the two reads shows as another hash in the next pass.
pub(crate) async fn read_lists(
    pass: &Pass<'_>,
    context: &StepContext<'_>,
) -> Option<Arc<ProjectNetworking>> {
    let is_of_cloud = |cached: &CachedCluster| cached.is_verified(context.cloud);
    if pass.context.clusters.count(is_of_cloud) < SHARED_BY {
        return None;
    }
    // The networking is read at most once in half a sync period. The lists must be younger than the last read, so their
    // maximum age is a little shorter.
    let age = pass.context.settings.sync_period / 5 * 2;
    let shared = context.cloud.shared_reads();
    match shared.project_networking(age, Priority::Steady).await {
        Ok(lists) => Some(lists),
        Err(error) => {
            tracing::debug!(%error, "Listing the networking of the project failed");
            None
        }
    }
}

/// Whether the lists show the same as when a pass found nothing to change.
pub(crate) fn is_unchanged(pass: &Pass<'_>, lists: &ProjectNetworking) -> bool {
    let sync_period = pass.context.settings.sync_period;
    match (&pass.cached.settled_networking, hash(&pass.cached, lists)) {
        (Some(settled), Some(hash)) => {
            settled.holds(pass.generation(), hash, sync_period, pass.now)
        }
        _ => false,
    }
}

/// Keeps what the lists show, after a pass that read all of the cluster's networking and changed nothing.
pub(crate) fn remember(pass: &mut Pass<'_>, lists: &ProjectNetworking) {
    pass.cached.settled_networking = hash(&pass.cached, lists).map(|hash| SettledNetworking {
        generation: pass.generation(),
        hash,
        verified_at: pass.now,
    });
}

/// A hash of everything that a pass reads of the cluster's networking; `None` if the lists lack some of it.
fn hash(cached: &CachedCluster, lists: &ProjectNetworking) -> Option<u64> {
    let networking = &cached.networking;
    let networks = [&networking.network, &networking.load_balancer_network];
    let networks = networks.into_iter().filter_map(Lookup::found);
    let mut ids: Vec<&str> = Vec::new();
    for state in networks {
        ids.push(state.network.id.as_str());
        ids.extend(state.subnets.iter().map(|subnet| subnet.id.as_str()));
    }
    ids.extend(networking.router.found().map(|router| router.id.as_str()));
    if let Some(groups) = networking.groups.found() {
        ids.extend([groups.control_plane.id.as_str(), groups.worker.id.as_str()]);
        ids.extend(groups.bastion.as_ref().map(|group| group.id.as_str()));
    }
    let floating_ip = cached.floating_ip.as_ref();
    ids.extend(floating_ip.map(|read| read.value.id.as_str()));
    lists.hash_of(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_for_the_same_spec_and_objects_and_for_twelve_sync_periods() {
        let (now, minutes) = (Instant::now(), Duration::from_mins);
        let settled = SettledNetworking {
            generation: 1,
            hash: 7,
            verified_at: now,
        };
        let holds = |generation, hash, later| {
            settled.holds(generation, hash, minutes(10), now + minutes(later))
        };
        assert!(holds(1, 7, 10) && holds(1, 7, 119));
        assert!(!holds(1, 7, 120), "it is read by itself now and then");
        assert!(!holds(2, 7, 10), "the spec is another one");
        assert!(!holds(1, 8, 10), "an object has changed");
    }
}
