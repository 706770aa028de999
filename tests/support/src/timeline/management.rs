//! The management API's side: every change of the objects of one cluster, and of the leader lease.

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease as LeaseObject;
use kube::{
    Api, Client,
    api::DynamicObject,
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::Value;
use tokio::{sync::mpsc, task::JoinSet};

use super::{Cluster, Gate, Lease, Machine, OpenStackMachine, Timeline, What};
use crate::env::cluster_api::{api, condition};

const HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/capo-load-balancer-member";
const CLEANUP_HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup";
const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
/// The label that a MachineSet puts on its Machines and their OpenStackMachines.
const WORKER: &str = "cluster.x-k8s.io/set-name";
const GATE: &str = "APIServerLoadBalancerReady";

/// Watches one cluster's objects; ends when dropped.
#[derive(Debug)]
pub struct ManagementWatch {
    _work: JoinSet<()>,
}

/// An object as a watch delivered it, or the name of one that is gone.
enum WatchedObject {
    Is(Value),
    Gone(String),
}

impl ManagementWatch {
    /// Starts to watch the cluster of this namespace and name.
    pub fn start(client: &Client, timeline: &Timeline, namespace: &str, cluster: &str) -> Self {
        let mut work = JoinSet::new();
        let (sender, receiver) = mpsc::unbounded_channel();
        let of_cluster = watcher::Config::default().labels(&format!("{CLUSTER_NAME}={cluster}"));
        let itself = watcher::Config::default().fields(&format!("metadata.name={cluster}"));
        for (kind, config) in [
            ("Machine", &of_cluster),
            ("OpenStackMachine", &of_cluster),
            ("Cluster", &itself),
            ("KubeadmControlPlane", &itself),
            ("OpenStackCluster", &itself),
        ] {
            let objects = api(client, namespace, kind);
            work.spawn(listen(kind, objects, config.clone(), sender.clone()));
        }
        work.spawn(write_down(receiver, timeline.clone()));
        Self { _work: work }
    }

    /// Starts to watch the leader lease of this namespace and name.
    pub fn of_lease(client: &Client, timeline: &Timeline, (namespace, name): (&str, &str)) -> Self {
        let mut work = JoinSet::new();
        let leases: Api<LeaseObject> = Api::namespaced(client.clone(), namespace);
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let timeline = timeline.clone();
        work.spawn(async move {
            let mut changes = watcher(leases, config)
                .default_backoff()
                .applied_objects()
                .boxed();
            while let Some(change) = changes.next().await {
                let Some(spec) = change.ok().and_then(|lease| lease.spec) else {
                    continue;
                };
                let renewed = timeline
                    .clock()
                    .at(spec.renew_time.map(|time| time.0).unwrap_or_default());
                let seconds = spec.lease_duration_seconds.unwrap_or_default();
                let lease = Lease {
                    holder: spec.holder_identity.unwrap_or_default(),
                    renewed,
                    lasts: Duration::from_secs(u64::try_from(seconds).unwrap_or_default()),
                };
                timeline.note_at(renewed, What::Lease(lease));
            }
        });
        Self { _work: work }
    }
}

async fn listen(
    kind: &'static str,
    objects: Api<DynamicObject>,
    config: watcher::Config,
    sender: mpsc::UnboundedSender<(&'static str, WatchedObject)>,
) {
    let mut changes = watcher(objects, config).default_backoff().boxed();
    while let Some(change) = changes.next().await {
        let object = match change {
            Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                match serde_json::to_value(object) {
                    Ok(object) => WatchedObject::Is(object),
                    Err(_) => continue,
                }
            }
            Ok(watcher::Event::Delete(object)) => {
                WatchedObject::Gone(object.metadata.name.unwrap_or_default())
            }
            Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_) => continue,
        };
        if sender.send((kind, object)).is_err() {
            return;
        }
    }
}

async fn write_down(
    mut receiver: mpsc::UnboundedReceiver<(&'static str, WatchedObject)>,
    timeline: Timeline,
) {
    let mut cluster = Whole::default();
    let mut last = Last::default();
    let mut workers = std::collections::HashSet::new();
    while let Some((kind, change)) = receiver.recv().await {
        let object = match change {
            WatchedObject::Is(object) => object,
            WatchedObject::Gone(name) => {
                if !workers.remove(&(kind, name.clone())) {
                    timeline.note(What::Gone(kind, name));
                }
                continue;
            }
        };
        // The gate does not concern workers.
        if object["metadata"]["labels"].get(WORKER).is_some() {
            workers.insert((kind, name(&object)));
            continue;
        }
        let what = match kind {
            "Machine" => machine(&object).map(What::Machine),
            "OpenStackMachine" => Some(What::OpenStackMachine(open_stack_machine(&object))),
            _ => {
                cluster.learn(kind, object);
                Some(What::Cluster(cluster.seen()))
            }
        };
        if let Some(what) = what
            && last.differs(&what)
        {
            timeline.note(what);
        }
    }
}

/// The last record of each object. A change of fields that are not recorded is not recorded again.
#[derive(Default)]
struct Last(std::collections::HashMap<(u8, String), What>);

impl Last {
    fn differs(&mut self, what: &What) -> bool {
        let key = match what {
            What::Machine(machine) => (0, machine.name.clone()),
            What::OpenStackMachine(machine) => (1, machine.name.clone()),
            _ => (2, String::new()),
        };
        let before = self.0.insert(key, what.clone());
        before.as_ref() != Some(what)
    }
}

/// The three objects of one cluster.
#[derive(Default)]
struct Whole {
    cluster: Value,
    control_plane: Value,
    infrastructure: Value,
}

impl Whole {
    fn learn(&mut self, kind: &str, object: Value) {
        match kind {
            "Cluster" => self.cluster = object,
            "KubeadmControlPlane" => self.control_plane = object,
            _ => self.infrastructure = object,
        }
    }

    fn seen(&self) -> Cluster {
        let initialised =
            |object: &Value| object["status"]["initialization"]["controlPlaneInitialized"] == true;
        let spec = &self.infrastructure["spec"];
        let main = spec["controlPlaneEndpoint"]["port"]
            .as_u64()
            .or_else(|| spec["apiServer"]["port"].as_u64())
            .unwrap_or(6443);
        let load_balancer = &spec["apiServer"]["managedLoadBalancer"];
        let additional = load_balancer["additionalPorts"].as_array();
        let additional = additional.into_iter().flatten().filter_map(Value::as_u64);
        Cluster {
            going: going(&self.cluster) || going(&self.control_plane),
            initialised: initialised(&self.cluster) || initialised(&self.control_plane),
            managed: load_balancer["enabled"] != false,
            ports: std::iter::once(main)
                .chain(additional)
                .filter_map(|port| u16::try_from(port).ok())
                .collect(),
            provisioned: self.infrastructure["status"]["initialization"]["provisioned"] == true,
            gate: gate(&self.infrastructure),
        }
    }
}

fn machine(object: &Value) -> Option<Machine> {
    object["metadata"]["labels"].get(CONTROL_PLANE)?;
    let annotation = |name: &str| !object["metadata"]["annotations"][name].is_null();
    Some(Machine {
        name: name(object),
        hook: annotation(HOOK),
        cleanup_hook: annotation(CLEANUP_HOOK),
        admitted: object["spec"]["providerID"].is_string(),
        node: !object["status"]["nodeRef"].is_null(),
        deleting: going(object),
        step: condition(object, "Deleting")
            .filter(|(status, ..)| *status == "True")
            .map_or_else(String::new, |(_, reason, _)| reason.to_owned()),
    })
}

fn open_stack_machine(object: &Value) -> OpenStackMachine {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let owner = owners
        .into_iter()
        .flatten()
        .find(|owner| owner["kind"] == "Machine");
    let addresses = object["status"]["addresses"].as_array();
    OpenStackMachine {
        name: name(object),
        machine: owner
            .and_then(|owner| owner["name"].as_str())
            .unwrap_or_default()
            .to_owned(),
        provisioned: object["status"]["initialization"]["provisioned"] == true,
        addresses: addresses
            .into_iter()
            .flatten()
            .filter(|address| address["type"] != "InternalDNS" && address["type"] != "Hostname")
            .filter_map(|address| Some(address["address"].as_str()?.to_owned()))
            .collect(),
        deleting: going(object),
        gate: gate(object),
    }
}

fn gate(object: &Value) -> Option<Gate> {
    condition(object, GATE).map(|(status, reason, message)| Gate {
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
    })
}

fn name(object: &Value) -> String {
    object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}
