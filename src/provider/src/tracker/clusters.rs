//! The clusters with their machines and workers, and the conflicts of two clusters that claim one load balancer.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use tokio_util::sync::CancellationToken;

use super::{
    inbox::{Claim, Client, Inbox},
    published::PublishedFindings,
};
use capo_core::ObjectName;
use capo_gate::{
    desired::{DesiredMachine, LoadBalancerSpec},
    findings::Findings,
};

/// The clusters that controllers handed over.
#[derive(Default)]
pub(super) struct Clusters {
    pub(super) entries: HashMap<ObjectName, ClusterEntry>,
    /// The cluster of each machine that is tracked.
    pub(super) machines: HashMap<ObjectName, ObjectName>,
}

/// One cluster. It has a worker while its load balancer is set.
#[derive(Default)]
pub(super) struct ClusterEntry {
    pub(super) machines: BTreeMap<ObjectName, DesiredMachine>,
    pub(super) running: Option<Running>,
}

/// The worker of one load balancer, and the last input that it received. Dropping this value ends the worker.
pub(super) struct Running {
    pub(super) client: Client,
    pub(super) desired: LoadBalancerSpec,
    pub(super) claimed_by: Option<ObjectName>,
    pub(super) large_fleet: bool,
    pub(super) inbox: Arc<Inbox>,
    pub(super) findings: Arc<PublishedFindings>,
    pub(super) stop: CancellationToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Running {
    pub(super) fn findings(&self) -> Option<Arc<Findings>> {
        self.findings.get()
    }
}

impl Clusters {
    /// Removes a machine, and its cluster if the cluster has nothing else.
    pub(super) fn forget_machine(&mut self, name: &ObjectName) {
        let Some(cluster) = self.machines.remove(name) else {
            return;
        };
        let Some(entry) = self.entries.get_mut(&cluster) else {
            return;
        };
        entry.machines.remove(name);
        match &entry.running {
            Some(running) => running.inbox.post(|updates| {
                updates.machines.insert(name.clone(), None);
            }),
            None if entry.machines.is_empty() => {
                self.entries.remove(&cluster);
            }
            None => {}
        }
    }

    /// Notifies the workers of two clusters that claim one load balancer, by id or by name with one credential, and
    /// notifies every worker of the number of load balancers.
    pub(super) fn settle_claims(&mut self) {
        let mut ids: HashMap<&str, Vec<&ObjectName>> = HashMap::new();
        let mut names: HashMap<&str, Vec<(&ObjectName, &Client)>> = HashMap::new();
        for (cluster, running) in running(&self.entries) {
            if !running.desired.enabled {
                continue;
            }
            if let Some(id) = running.desired.id.found() {
                ids.entry(id.as_str()).or_default().push(cluster);
            }
            names
                .entry(&running.desired.name)
                .or_default()
                .push((cluster, &running.client));
        }
        let mut claims: HashMap<ObjectName, ObjectName> = HashMap::new();
        for claimants in ids.values() {
            for cluster in claimants {
                if let Some(other) = claimants.iter().filter(|other| *other != cluster).min() {
                    claims.insert((*cluster).clone(), (*other).clone());
                }
            }
        }
        for claimants in names.values() {
            for (cluster, client) in claimants {
                let other = claimants
                    .iter()
                    .filter(|(other, theirs)| other != cluster && is_same(client, theirs))
                    .map(|(other, _)| other)
                    .min();
                if let Some(other) = other {
                    claims.insert((*cluster).clone(), (*other).clone());
                }
            }
        }
        let fleet = running(&self.entries).count();
        for (cluster, entry) in &mut self.entries {
            if let Some(running) = &mut entry.running {
                let claimed_by = claims.remove(cluster);
                let changed = running.claimed_by != claimed_by;
                running.claimed_by.clone_from(&claimed_by);
                let large = fleet > capo_gate::Schedule::LARGE_FLEET;
                if changed || large != running.large_fleet {
                    running.large_fleet = large;
                    running.inbox.post(|updates| {
                        updates.claimed_by = Some(Claim(claimed_by));
                        updates.large_fleet = Some(large);
                    });
                }
            }
        }
    }
}

fn running(
    entries: &HashMap<ObjectName, ClusterEntry>,
) -> impl Iterator<Item = (&ObjectName, &Running)> {
    entries
        .iter()
        .filter_map(|(name, entry)| Some((name, entry.running.as_ref()?)))
}

/// Whether two clients use the same cloud with the same credentials.
pub(super) fn is_same(one: &Client, other: &Client) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => one.is_same(other.as_ref()),
        _ => false,
    }
}
