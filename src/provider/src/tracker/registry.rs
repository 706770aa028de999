//! The handle that controllers, metrics and the manager hold.

use std::{
    collections::{BTreeMap, HashMap},
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures::{FutureExt, Stream, future::BoxFuture, stream};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    inbox::{Claim, Client, Inbox},
    prober::{Prober, TlsProber},
    worker::{Published, Worker},
};
use crate::reconcile::WorkQueue;
use capo_core::ObjectName;
use capo_gate::{
    Observer, Settings,
    desired::{DesiredLoadBalancer, DesiredMachine},
    findings::{Findings, Publication},
    octavia::Octavia,
};

/// The pause before a worker that panicked is started again: the same input may make it panic again.
const RESTART_PAUSE: Duration = Duration::from_secs(10);
/// How many publications may wait for their reader.
const PUBLICATIONS: usize = 1_024;

/// Finds out whether an `OpenStackMachine` exists, by an uncached read.
pub trait MachineLookup: Send + Sync + 'static {
    /// `Ok(false)` only where Kubernetes answered that the object of this name is absent, after the caches of
    /// this process were synced. An error means that this is unknown; its text is stable.
    fn exists(&self, machine: ObjectName) -> BoxFuture<'static, Result<bool, String>>;
}

/// Every load balancer's worker. Cheap to clone; all clones are one registry.
#[derive(Clone)]
pub struct Membership(Arc<Shared>);

struct Shared {
    settings: Settings,
    lookup: Arc<dyn MachineLookup>,
    observer: Arc<dyn Observer>,
    prober: Arc<dyn Prober>,
    clusters: Mutex<Clusters>,
    cluster_queue: WorkQueue,
    machine_queue: WorkQueue,
    listener: Arc<OnceLock<mpsc::Sender<Publication>>>,
    workers: TaskTracker,
    stop: CancellationToken,
}

#[derive(Default)]
struct Clusters {
    entries: HashMap<ObjectName, Entry>,
    /// The cluster of every machine that was handed over.
    machines: HashMap<ObjectName, ObjectName>,
}

/// One cluster. It has a worker as long as a load balancer is set.
#[derive(Default)]
struct Entry {
    machines: BTreeMap<ObjectName, DesiredMachine>,
    running: Option<Running>,
}

struct Running {
    client: Client,
    desired: DesiredLoadBalancer,
    claimed_by: Option<ObjectName>,
    large_fleet: bool,
    inbox: Arc<Inbox>,
    findings: Arc<Published>,
    stop: CancellationToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Membership {
    /// Nothing runs until a load balancer is set.
    pub fn new(
        settings: Settings,
        lookup: Arc<dyn MachineLookup>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Self::with_prober(settings, lookup, observer, Arc::new(TlsProber::new()))
    }

    /// The same with another way to reach API servers.
    pub fn with_prober(
        settings: Settings,
        lookup: Arc<dyn MachineLookup>,
        observer: Arc<dyn Observer>,
        prober: Arc<dyn Prober>,
    ) -> Self {
        Self(Arc::new(Shared {
            prober,
            settings,
            lookup,
            observer,
            clusters: Mutex::default(),
            cluster_queue: WorkQueue::default(),
            machine_queue: WorkQueue::default(),
            listener: Arc::default(),
            workers: TaskTracker::new(),
            stop: CancellationToken::new(),
        }))
    }

    /// How the gates are set.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Hands over what the cluster controller wants and knows. `cloud` is `None` where there are no usable
    /// credentials: then nothing is read or written, and gates are decided by what is known without a read. A
    /// value that is equal to the last one has no effect and no cost.
    pub fn set_load_balancer<C: Octavia>(
        &self,
        cluster: &ObjectName,
        cloud: Option<C>,
        desired: DesiredLoadBalancer,
    ) {
        let client: Client = cloud.map(|cloud| Arc::new(cloud) as Arc<dyn Octavia>);
        let mut clusters = self.lock();
        let entry = clusters.entries.entry(cluster.clone()).or_default();
        match &mut entry.running {
            Some(running) if running.desired == desired && is_same(&running.client, &client) => {
                return;
            }
            Some(running) => {
                running.desired = desired.clone();
                running.client.clone_from(&client);
                running
                    .inbox
                    .post(|updates| updates.load_balancer = Some((client, desired)));
            }
            None => {
                let running = self.start_with_machines(cluster, client, desired, &entry.machines);
                entry.running = Some(running);
            }
        }
        clusters.settle_claims();
    }

    /// Ends the worker of a cluster's load balancer, because the load balancer is not managed any more or the
    /// `OpenStackCluster` is gone. What exists in OpenStack stays.
    pub fn forget_load_balancer(&self, cluster: &ObjectName) {
        let mut clusters = self.lock();
        if let Some(entry) = clusters.entries.get_mut(cluster) {
            entry.running = None;
            if entry.machines.is_empty() {
                clusters.entries.remove(cluster);
            }
        }
        clusters.settle_claims();
    }

    /// Hands over what the machine controller wants and knows of one control-plane machine. A value that is equal
    /// to the last one has no effect and no cost.
    pub fn set_machine(&self, name: &ObjectName, machine: DesiredMachine) {
        let mut clusters = self.lock();
        if clusters
            .machines
            .get(name)
            .is_some_and(|cluster| *cluster != machine.cluster)
        {
            clusters.forget_machine(name);
        }
        if !clusters.machines.contains_key(name) {
            clusters
                .machines
                .insert(name.clone(), machine.cluster.clone());
        }
        let entry = clusters.entries.entry(machine.cluster.clone()).or_default();
        if entry.machines.get(name) == Some(&machine) {
            return;
        }
        entry.machines.insert(name.clone(), machine.clone());
        if let Some(running) = &entry.running {
            running.inbox.post(|updates| {
                updates.machines.insert(name.clone(), Some(machine));
            });
        }
    }

    /// Forgets a machine whose `OpenStackMachine` is gone.
    pub fn forget_machine(&self, name: &ObjectName) {
        self.lock().forget_machine(name);
    }

    /// What was found out about a cluster's load balancer; `None` before its worker published anything.
    pub fn findings(&self, cluster: &ObjectName) -> Option<Arc<Findings>> {
        let clusters = self.lock();
        clusters.entries.get(cluster)?.running.as_ref()?.findings()
    }

    /// Has the load balancer read soon.
    pub fn nudge(&self, cluster: &ObjectName) {
        let clusters = self.lock();
        if let Some(running) = clusters
            .entries
            .get(cluster)
            .and_then(|entry| entry.running.as_ref())
        {
            running.inbox.post(|updates| updates.nudged = true);
        }
    }

    /// Every cluster's findings, for metrics.
    pub fn all(&self) -> Vec<(ObjectName, Arc<Findings>)> {
        let clusters = self.lock();
        let mut all: Vec<_> = clusters
            .entries
            .iter()
            .filter_map(|(name, entry)| Some((name.clone(), entry.running.as_ref()?.findings()?)))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// The queue of `OpenStackCluster`s whose findings changed.
    pub fn cluster_queue(&self) -> WorkQueue {
        self.0.cluster_queue.clone()
    }

    /// The queue of `OpenStackMachine`s whose findings changed.
    pub fn machine_queue(&self) -> WorkQueue {
        self.0.machine_queue.clone()
    }

    /// Everything that is published from now on, for events and the log. Only the first stream gets anything. A
    /// reader that does not keep up misses some.
    pub fn publications(&self) -> impl Stream<Item = Publication> + Send + 'static {
        let (sender, receiver) = mpsc::channel(PUBLICATIONS);
        let _ = self.0.listener.set(sender);
        stream::unfold(receiver, |mut receiver| async move {
            let next = receiver.recv().await?;
            Some((next, receiver))
        })
    }

    /// Ends every worker. A call under way is dropped: the next process reads again what it did.
    pub async fn shutdown(&self) {
        self.0.stop.cancel();
        self.0.workers.close();
        self.0.workers.wait().await;
    }

    fn start(&self, cluster: &ObjectName, client: Client, desired: DesiredLoadBalancer) -> Running {
        let running = Running {
            client,
            desired,
            claimed_by: None,
            large_fleet: false,
            inbox: Arc::default(),
            findings: Arc::default(),
            stop: self.0.stop.child_token(),
        };
        let worker = Worker {
            cluster: cluster.clone(),
            settings: self.0.settings.clone(),
            lookup: Arc::clone(&self.0.lookup),
            observer: Arc::clone(&self.0.observer),
            prober: Arc::clone(&self.0.prober),
            inbox: Arc::clone(&running.inbox),
            findings: Arc::clone(&running.findings),
            cluster_queue: self.0.cluster_queue.clone(),
            machine_queue: self.0.machine_queue.clone(),
            listener: Arc::clone(&self.0.listener),
        };
        let stop = running.stop.clone();
        let (membership, cluster) = (self.clone(), cluster.clone());
        self.0.workers.spawn(async move {
            let work = stop.run_until_cancelled(worker.run());
            if AssertUnwindSafe(work).catch_unwind().await.is_err() {
                stop.run_until_cancelled(tokio::time::sleep(RESTART_PAUSE))
                    .await;
                membership.restart(&cluster, &stop);
            }
        });
        running
    }

    /// Starts a worker in the place of one that panicked, and hands everything over again. `stop` is that of the worker
    /// that panicked: nothing is restarted where it was stopped or replaced in the meantime.
    fn restart(&self, cluster: &ObjectName, stop: &CancellationToken) {
        let mut clusters = self.lock();
        if stop.is_cancelled() {
            return;
        }
        let Some(entry) = clusters.entries.get_mut(cluster) else {
            return;
        };
        if let Some(old) = entry.running.take() {
            tracing::warn!(OpenStackCluster = %cluster, "Restarting the worker of a load balancer");
            let running = self.start_with_machines(
                cluster,
                old.client.clone(),
                old.desired.clone(),
                &entry.machines,
            );
            entry.running = Some(running);
        }
        clusters.settle_claims();
    }

    /// Starts a worker and hands over the load balancer and its machines.
    fn start_with_machines(
        &self,
        cluster: &ObjectName,
        client: Client,
        desired: DesiredLoadBalancer,
        machines: &BTreeMap<ObjectName, DesiredMachine>,
    ) -> Running {
        let running = self.start(cluster, client.clone(), desired.clone());
        running.inbox.post(|updates| {
            updates.load_balancer = Some((client, desired));
            updates.machines = machines
                .iter()
                .map(|(name, machine)| (name.clone(), Some(machine.clone())))
                .collect();
        });
        running
    }

    fn lock(&self) -> MutexGuard<'_, Clusters> {
        self.0.clusters.lock()
    }
}

impl Running {
    fn findings(&self) -> Option<Arc<Findings>> {
        self.findings.get()
    }
}

impl Clusters {
    fn forget_machine(&mut self, name: &ObjectName) {
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

    /// Notifies the workers of two clusters that claim one load balancer, by id or by name on one credential, and
    /// every worker of the size of the fleet.
    fn settle_claims(&mut self) {
        let mut ids: HashMap<&str, Vec<&ObjectName>> = HashMap::new();
        let mut names: HashMap<&str, Vec<(&ObjectName, &Client)>> = HashMap::new();
        for (cluster, running) in running(&self.entries) {
            if !running.desired.enabled {
                continue;
            }
            if let Some(id) = &running.desired.id {
                ids.entry(id).or_default().push(cluster);
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

fn running(entries: &HashMap<ObjectName, Entry>) -> impl Iterator<Item = (&ObjectName, &Running)> {
    entries
        .iter()
        .filter_map(|(name, entry)| Some((name, entry.running.as_ref()?)))
}

fn is_same(one: &Client, other: &Client) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => one.is_same(other.as_ref()),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
