//! The handle by which controllers, metrics and the manager use the workers.

use std::{
    collections::BTreeMap,
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures::{FutureExt, Stream, stream};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    clusters::{Clusters, Running, is_same},
    inbox::Client,
    machine_lookup::MachineLookup,
    output::TrackerOutput,
    prober::{Prober, TlsProber},
    worker::Worker,
};
use crate::subject::Subject;
use crate::work_queue::WorkQueue;
use capo_core::ObjectName;
use capo_gate::{
    GateObserver, Settings,
    desired::{ClusterFacts, DesiredMachine, LoadBalancerSpec},
    findings::Findings,
    octavia::Octavia,
};

/// The pause before a worker that panicked is started again, because the same input may cause another panic.
const RESTART_PAUSE: Duration = Duration::from_secs(10);
/// The number of publications that may wait for their reader.
const PUBLICATIONS: usize = 1_024;

/// The workers of all load balancers. A clone is cheap; all clones share one registry.
#[derive(Clone)]
pub struct Tracker(Arc<RegistryState>);

struct RegistryState {
    settings: Settings,
    lookup: Arc<dyn MachineLookup>,
    observer: Arc<dyn GateObserver>,
    prober: Arc<dyn Prober>,
    clusters: Mutex<Clusters>,
    cluster_queue: WorkQueue,
    machine_queue: WorkQueue,
    listener: Arc<OnceLock<mpsc::Sender<TrackerOutput>>>,
    workers: TaskTracker,
    stop: CancellationToken,
}

impl Tracker {
    /// A registry without workers. A worker starts when a load balancer is set.
    pub fn new(
        settings: Settings,
        lookup: Arc<dyn MachineLookup>,
        observer: Arc<dyn GateObserver>,
    ) -> Self {
        Self::with_prober(settings, lookup, observer, Arc::new(TlsProber::new()))
    }

    /// A registry without workers, whose workers send their requests to API servers with this prober.
    pub fn with_prober(
        settings: Settings,
        lookup: Arc<dyn MachineLookup>,
        observer: Arc<dyn GateObserver>,
        prober: Arc<dyn Prober>,
    ) -> Self {
        Self(Arc::new(RegistryState {
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

    /// The settings of the gates.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The prober by which API servers are reached.
    pub fn prober(&self) -> Arc<dyn Prober> {
        Arc::clone(&self.0.prober)
    }

    /// Sets the desired load balancer and the observations of the cluster controller. `cloud` is `None` without usable
    /// credentials: then nothing is read or written, and gates are decided without a read. A value that is equal to the
    /// last one has no effect and no cost.
    pub fn set_load_balancer<C: Octavia>(
        &self,
        cluster: &ObjectName,
        cloud: Option<C>,
        desired: LoadBalancerSpec,
    ) {
        let client: Client = cloud.map(|cloud| Arc::new(cloud) as Arc<dyn Octavia>);
        let mut clusters = self.0.clusters.lock();
        let entry = clusters.entries.entry(cluster.clone()).or_default();
        match &mut entry.running {
            Some(running) if running.desired == desired && is_same(&running.client, &client) => {
                return;
            }
            Some(running) => {
                if differs_in_parts(&running.desired, &desired) {
                    running.findings.unsettle();
                }
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

    /// Sets only the observations of the cluster controller, if the load balancer could not be looked up. Its worker
    /// goes on with the last load balancer that was set. Returns whether there is a worker.
    pub fn set_facts(&self, cluster: &ObjectName, facts: &ClusterFacts) -> bool {
        let mut clusters = self.0.clusters.lock();
        let entry = clusters.entries.get_mut(cluster);
        let Some(running) = entry.and_then(|entry| entry.running.as_mut()) else {
            return false;
        };
        if running.desired.cluster != *facts {
            running.desired.cluster = facts.clone();
            let handed_over = (running.client.clone(), running.desired.clone());
            running
                .inbox
                .post(|updates| updates.load_balancer = Some(handed_over));
        }
        true
    }

    /// Ends the worker of a cluster's load balancer, because the load balancer is not managed any more or the
    /// `OpenStackCluster` does not exist any more. Nothing is deleted in OpenStack.
    pub fn forget_load_balancer(&self, cluster: &ObjectName) {
        let mut clusters = self.0.clusters.lock();
        if let Some(entry) = clusters.entries.get_mut(cluster) {
            entry.running = None;
            if entry.machines.is_empty() {
                clusters.entries.remove(cluster);
            }
        }
        clusters.settle_claims();
    }

    /// Sets the desired members and the observations of the machine controller for one control-plane machine. A value
    /// that is equal to the last one has no effect and no cost.
    pub fn set_machine(&self, name: &ObjectName, machine: DesiredMachine) {
        let mut clusters = self.0.clusters.lock();
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

    /// Removes a machine whose `OpenStackMachine` does not exist any more.
    pub fn forget_machine(&self, name: &ObjectName) {
        self.0.clusters.lock().forget_machine(name);
    }

    /// The findings of a cluster's load balancer; `None` before its worker published any.
    pub fn findings(&self, cluster: &ObjectName) -> Option<Arc<Findings>> {
        let clusters = self.0.clusters.lock();
        clusters.entries.get(cluster)?.running.as_ref()?.findings()
    }

    /// Requests that the load balancer is read soon.
    pub fn nudge(&self, cluster: &ObjectName) {
        let clusters = self.0.clusters.lock();
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
        let clusters = self.0.clusters.lock();
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

    /// Everything that workers report from now on, for events and the log. Only the first stream receives publications.
    /// A reader that is too slow misses some of them.
    pub fn publications(&self) -> impl Stream<Item = TrackerOutput> + Send + 'static {
        let (sender, receiver) = mpsc::channel(PUBLICATIONS);
        let _ = self.0.listener.set(sender);
        stream::unfold(receiver, |mut receiver| async move {
            let next = receiver.recv().await?;
            Some((next, receiver))
        })
    }

    /// Ends every worker. A call under way is cancelled; the next process reads its result from Octavia.
    pub async fn shutdown(&self) {
        self.0.stop.cancel();
        self.0.workers.close();
        self.0.workers.wait().await;
    }

    fn start(&self, cluster: &ObjectName, client: Client, desired: LoadBalancerSpec) -> Running {
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
        let (tracker, cluster) = (self.clone(), cluster.clone());
        self.0.workers.spawn(async move {
            let subject = Subject::new("OpenStackCluster", &cluster);
            let work = stop.run_until_cancelled(subject.scope(worker.run()));
            if AssertUnwindSafe(work).catch_unwind().await.is_err() {
                stop.run_until_cancelled(tokio::time::sleep(RESTART_PAUSE))
                    .await;
                tracker.restart(&cluster, &stop);
            }
        });
        running
    }

    /// Starts a worker in place of one that panicked, and passes all input to it again. `stop` is the token of the
    /// worker that panicked: no worker is started if that one was stopped or replaced in the meantime.
    fn restart(&self, cluster: &ObjectName, stop: &CancellationToken) {
        let mut clusters = self.0.clusters.lock();
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

    /// Starts a worker and passes the load balancer and its machines to it.
    fn start_with_machines(
        &self,
        cluster: &ObjectName,
        client: Client,
        desired: LoadBalancerSpec,
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
}

/// Whether other listeners, pools or monitors are desired, perhaps for the same generation.
fn differs_in_parts(old: &LoadBalancerSpec, new: &LoadBalancerSpec) -> bool {
    old.id != new.id
        || old.ports != new.ports
        || old.monitor != new.monitor
        || old.monitor_type != new.monitor_type
        || old.allowed_cidrs != new.allowed_cidrs
}

#[cfg(test)]
mod tests;
