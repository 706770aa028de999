//! Checks each decision of the gates: whenever a gate lets a machine through, the state of the cloud is read at that
//! moment.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use fake_cloud::{Control, Event};
use futures::{StreamExt as _, TryStreamExt as _};
use kube::{
    Client,
    runtime::{WatchStreamExt as _, watcher},
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{sync::broadcast::error::RecvError, task::JoinSet};

use super::truth::{Member, Truth};
use crate::env::cluster_api::{api, condition};

/// Our hook on control-plane Machines.
pub const HOOK: &str =
    "pre-terminate.delete.hook.machine.cluster.x-k8s.io/capo-load-balancer-member";

/// A running watch. Dropping it ends it.
pub struct Watch {
    wrong: Wrong,
    reported: Reported,
    /// From now on no member's removal is the manager's fault: the operator caused it, or the cluster is being deleted.
    pub excused: Arc<AtomicBool>,
    _work: JoinSet<()>,
}

impl Watch {
    /// Watches the machines of a namespace, each with a member on this many ports.
    pub fn start(client: &Client, namespace: &str, cloud: &Control, ports: usize) -> Self {
        let wrong = Arc::new(Mutex::new(BTreeSet::new()));
        let reported = Reported::default();
        let excused = Arc::new(AtomicBool::new(false));
        let mut work = JoinSet::new();
        let mut each = |kind: &str, check: Check| {
            let (wrong, excused) = (Arc::clone(&wrong), Arc::clone(&excused));
            let api = api(client, namespace, kind);
            let mut check = check;
            work.spawn(follow(api, move |object| {
                if let Some(what) = check(object) {
                    note(&wrong, &excused, what);
                }
            }));
        };
        let records = Arc::clone(&reported);
        each(
            "OpenStackCluster",
            Box::new(move |cluster| record(&records, cluster)),
        );
        let records = Arc::clone(&reported);
        let mut admitted = judged(cloud.clone(), ports, turns_provisioned, wrong_admission);
        each(
            "OpenStackMachine",
            Box::new(move |machine| record(&records, machine).or_else(|| admitted(machine))),
        );
        each(
            "Machine",
            judged(cloud.clone(), ports, loses_our_hook, wrong_release),
        );
        work.spawn(data_path(
            cloud.clone(),
            Arc::clone(&wrong),
            Arc::clone(&excused),
        ));
        Self {
            wrong,
            reported,
            excused,
            _work: work,
        }
    }

    /// The contents that the load balancer's condition of an object (`c`, `cp-1`) has had so far, as `reason: message`.
    pub fn reported(&self, name: &str) -> Vec<String> {
        let reported = self.reported.lock();
        reported.get(name).cloned().unwrap_or_default()
    }

    /// The wrong decisions of the gates, and members that were wrongly removed from the data path.
    pub fn wrong(&self) -> Vec<String> {
        let wrong = self.wrong.lock();
        wrong.iter().cloned().collect()
    }
}

type Wrong = Arc<Mutex<BTreeSet<String>>>;
type Reported = Arc<Mutex<BTreeMap<String, Vec<String>>>>;
type Check = Box<dyn FnMut(&Value) -> Option<String> + Send>;

/// Records the content of an object's condition, if it is new. It never reports a violation.
fn record(reported: &Reported, object: &Value) -> Option<String> {
    let (_, reason, message) = condition(object, "APIServerLoadBalancerReady")?;
    let content = format!("{reason}: {message}");
    let mut reported = reported.lock();
    let all = reported.entry(name(object)).or_default();
    if all.last() != Some(&content) {
        all.push(content);
    }
    None
}

fn note(wrong: &Wrong, excused: &AtomicBool, what: String) {
    if !excused.load(Ordering::SeqCst) {
        wrong.lock().insert(what);
    }
}

/// Calls `check` with every object of a kind whenever it changes.
pub async fn follow(
    api: kube::Api<kube::api::DynamicObject>,
    mut check: impl FnMut(&Value) + Send,
) {
    let objects = watcher(api, watcher::Config::default()).applied_objects();
    let mut objects = objects.into_stream().boxed();
    while let Some(object) = objects.next().await {
        // The watcher starts again by itself after an error.
        if let Ok(Ok(object)) = object.map(serde_json::to_value) {
            check(&object);
        }
    }
}

pub fn name(object: &Value) -> String {
    object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Whether an OpenStackMachine counts as provisioned.
pub fn turns_provisioned(machine: &Value) -> bool {
    machine["status"]["initialization"]["provisioned"] == true
}

/// Whether a Machine is being deleted without our hook.
pub fn loses_our_hook(machine: &Value) -> bool {
    !machine["metadata"]["deletionTimestamp"].is_null()
        && machine["metadata"]["annotations"][HOOK] != "capo-rs"
}

/// The rule of admission: a machine that turns provisioned has an ACTIVE member on every port. A newcomer beside others
/// that serve is created disabled, and the update that enables it after its admission may have begun before this look
/// at the cloud.
pub fn wrong_admission(name: &str, ports: usize, truth: &Truth) -> Option<String> {
    let own = || truth.of_machine(name);
    let is_alone = own().count() == truth.members.len();
    let is_applied = |member: &Member| {
        member.status == "ACTIVE" || !is_alone && member.up && member.status == "PENDING_UPDATE"
    };
    let is_right = own().count() == ports && own().all(is_applied);
    (!is_right).then(|| format!("{name} was admitted while its members were {truth:?}"))
}

/// The rule of release: when the hook of capo-rs is removed, the machine's members do not exist any more and another
/// machine has an ACTIVE one on every port.
pub fn wrong_release(name: &str, ports: usize, truth: &Truth) -> Option<String> {
    let own = truth.of_machine(name).count();
    let mut others: BTreeSet<&str> = truth
        .members
        .iter()
        .filter_map(|member| member.name.rsplit_once("-cp-").map(|(_, index)| index))
        .collect();
    others.retain(|index| {
        let other = format!("cp-{index}");
        other != name
            && truth.all(&other, ports, "ACTIVE")
            && truth
                .of_machine(&other)
                .all(|member| member.weight > 0 && member.up)
    });
    (own > 0 || others.is_empty())
        .then(|| format!("{name} was released while the members were {truth:?}"))
}

/// Reads the cloud once per machine, at the moment at which the machine is let through.
fn judged(
    cloud: Control,
    ports: usize,
    turns: fn(&Value) -> bool,
    wrong: fn(&str, usize, &Truth) -> Option<String>,
) -> Check {
    let mut seen = BTreeSet::new();
    Box::new(move |machine| {
        let name = name(machine);
        let first = turns(machine) && seen.insert(name.clone());
        first.then(|| wrong(&name, ports, &Truth::of(&cloud)))?
    })
}

/// The rule of the last member: a port that has forwarded connections keeps a member that gets them.
async fn data_path(cloud: Control, wrong: Wrong, excused: Arc<AtomicBool>) {
    let mut events = cloud.events();
    let mut served = BTreeSet::new();
    loop {
        match events.recv().await {
            Ok(Event::DataPath { .. }) | Err(RecvError::Lagged(_)) => {}
            Ok(_) => continue,
            Err(RecvError::Closed) => return,
        }
        let truth = Truth::of(&cloud);
        let now: BTreeSet<u16> = truth.in_data_path.iter().map(|(port, _)| *port).collect();
        for port in served.difference(&now) {
            note(
                &wrong,
                &excused,
                format!("port {port} lost its last member"),
            );
        }
        served.extend(now);
    }
}
