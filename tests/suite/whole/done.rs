//! What tools that wait for an object to be done (kstatus, and with it Flux and many more) see from its creation to its
//! end: the library itself judges every revision that the API server ever showed, and the result is compared with the
//! objects in OpenStack at the time of that revision.

use std::{collections::BTreeSet, sync::Arc};

use fake_cloud::Control;
use futures::StreamExt;
use kube::{
    api::{DynamicObject, Patch, PatchParams},
    runtime::watcher::{Config, Event, watcher},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use test_support::waiting::until_ok;
use tokio_util::task::AbortOnDropHandle;

use super::isolated::IsolatedEnvironment;
use crate::env::{
    cluster_api::{api, condition},
    kstatus,
};

/// The range that the cluster's owner adds later.
const ADDED: &str = "198.51.100.0/24";

/// One revision of an object as a watch showed it.
struct Revision {
    object: Value,
    /// A part of the spec that OpenStack did not have yet at that moment.
    lacking: Option<&'static str>,
}

/// Records every revision of the kinds that take a while to become ready.
struct Recorder {
    seen: Arc<Mutex<Vec<Revision>>>,
    _watches: Vec<AbortOnDropHandle<()>>,
}

impl Recorder {
    async fn start(environment: &IsolatedEnvironment) -> Self {
        let seen: Arc<Mutex<Vec<Revision>>> = Arc::default();
        let admin = environment.kubernetes.admin().await.unwrap();
        let kinds = ["OpenStackCluster", "OpenStackMachine", "OpenStackServer"];
        let watches = kinds.map(|kind| {
            let objects = api(&admin, "default", kind);
            let (seen, control) = (Arc::clone(&seen), environment.cloud.control().clone());
            AbortOnDropHandle::new(tokio::spawn(async move {
                let mut events = watcher(objects, Config::default()).boxed();
                while let Some(event) = events.next().await {
                    let object: DynamicObject = match event.unwrap() {
                        Event::InitApply(object) | Event::Apply(object) => object,
                        Event::Init | Event::InitDone | Event::Delete(_) => continue,
                    };
                    let object = serde_json::to_value(object).unwrap();
                    let lacking = lacking(kind, &object, &control);
                    let mut seen = seen.lock();
                    seen.push(Revision { object, lacking });
                }
            }))
        });
        Self {
            seen,
            _watches: watches.into(),
        }
    }

    /// Judges every revision so far. Returns how often each status was found for `kind` and `name`.
    fn judge(&self, kind: &str, name: &str) -> Counts {
        let seen = self.seen.lock();
        let own: Vec<&Revision> = seen
            .iter()
            .filter(|revision| {
                revision.object["kind"] == kind && revision.object["metadata"]["name"] == name
            })
            .collect();
        let objects: Vec<Value> = own.iter().map(|revision| revision.object.clone()).collect();
        let mut counts = Counts::default();
        for (revision, verdict) in own.iter().zip(kstatus::compute(&objects).unwrap()) {
            let object = &revision.object;
            let going = !object["metadata"]["deletionTimestamp"].is_null();
            assert_eq!(verdict.status == "Terminating", going, "{object:#}");
            match verdict.status.as_str() {
                "Current" => {
                    // Later, new and removed members make the load balancer pending, and the object stays done
                    // nevertheless.
                    let generation = object["metadata"]["generation"].as_i64().unwrap();
                    let is_first = counts.done.insert(generation);
                    if let Some(lacking) = revision.lacking.filter(|_| is_first) {
                        panic!(
                            "{kind} {name} reads as done while OpenStack lacks {lacking}: {object:#}"
                        );
                    }
                    counts.current += 1;
                }
                "InProgress" => counts.in_progress += 1,
                "Terminating" => {}
                other => panic!("{kind} {name} is {other}: {}: {object:#}", verdict.message),
            }
            counts.last = verdict.status;
            counts.object = object.clone();
        }
        counts
    }

    /// Returns when the last revision reads as `status`.
    async fn until_status(&self, kind: &str, name: &str, status: &str) -> Counts {
        self.until_counted(kind, name, |counts| counts.last == status)
            .await
    }

    /// Returns when this generation has read as done, and the last revision does.
    async fn until_done(&self, kind: &str, name: &str, generation: i64) -> Counts {
        let is_done =
            |counts: &Counts| counts.last == "Current" && counts.done.contains(&generation);
        self.until_counted(kind, name, is_done).await
    }

    async fn until_counted(
        &self,
        kind: &str,
        name: &str,
        wanted: impl Fn(&Counts) -> bool,
    ) -> Counts {
        until_ok(&format!("{kind} {name}"), async || {
            let counts = self.judge(kind, name);
            if wanted(&counts) {
                Ok(counts)
            } else {
                Err(format!("{counts:#?}"))
            }
        })
        .await
    }
}

#[derive(Debug, Default)]
struct Counts {
    in_progress: usize,
    current: usize,
    /// Generations that read as done.
    done: BTreeSet<i64>,
    last: String,
    object: Value,
}

/// A part of the spec of `object` that OpenStack does not have yet, found by looking at OpenStack alone.
fn lacking(kind: &str, object: &Value, control: &Control) -> Option<&'static str> {
    let cloud = control.dump();
    let name = object["metadata"]["name"].as_str().unwrap();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let active = |thing: &Value| thing["provisioning_status"] == "ACTIVE";
    let balancer = list(&cloud["load_balancers"]).into_iter().next();
    if kind == "OpenStackCluster" {
        let Some(balancer) = balancer else {
            return Some("the load balancer");
        };
        let listeners = list(&balancer["listeners"]);
        let pools = list(&balancer["pools"]);
        if !active(&balancer) || listeners.is_empty() || pools.is_empty() {
            return Some("an ACTIVE load balancer with listener and pool");
        }
        if !listeners.iter().chain(&pools).all(active) {
            return Some("ACTIVE listeners and pools");
        }
        let wanted = object.pointer("/spec/apiServer/managedLoadBalancer/allowedCIDRs");
        for range in wanted.map(list).unwrap_or_default() {
            if !listeners
                .iter()
                .all(|listener| list(&listener["allowed_cidrs"]).contains(&range))
            {
                return Some("a range that may connect");
            }
        }
        return None;
    }
    let servers = list(&cloud["servers"]);
    if !servers
        .iter()
        .any(|server| server["name"] == name && server["status"] == "ACTIVE")
    {
        return Some("an ACTIVE server");
    }
    let is_member = |member: &Value| {
        member["name"]
            .as_str()
            .is_some_and(|member| member.contains(name))
            && active(member)
    };
    let members = balancer
        .iter()
        .flat_map(|balancer| list(&balancer["pools"]));
    let mut members = members.flat_map(|pool| list(&pool["members"]));
    if kind == "OpenStackMachine" && name.ends_with("-cp") && !members.any(|m| is_member(&m)) {
        return Some("an ACTIVE member");
    }
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_reads_as_done_before_it_is() {
    let environment = IsolatedEnvironment::start().await;
    let recorder = Recorder::start(&environment).await;
    let _manager = environment.ready_manager("manager", &[]).await;
    let control = environment.cloud.control();
    let run = |command: Value| control.run(command).unwrap();

    // The creation. Each part of it is slow enough to be seen.
    run(json!({"operation": {"operation": "load-balancer-create", "duration": 3}}));
    run(json!({"operation": {"operation": "listener-create", "duration": 2}}));
    run(json!({"server_rule": {"name": "done", "build": 2}}));
    run(json!({"hold": {"member": "done-cp", "status": "PENDING_CREATE", "release_after": 4}}));
    environment.create_cluster("done", "127.84.0.0/24").await;
    environment
        .until_provisioned("OpenStackCluster", "done")
        .await;
    recorder
        .until_status("OpenStackCluster", "done", "Current")
        .await;
    environment.create_machine("done", "done-cp", true).await;
    let _api_server = environment.listen("done-cp").await;
    environment
        .until_provisioned("OpenStackMachine", "done-cp")
        .await;
    for (kind, name) in [
        ("OpenStackCluster", "done"),
        ("OpenStackServer", "done-cp"),
        ("OpenStackMachine", "done-cp"),
    ] {
        let counts = recorder.until_status(kind, name, "Current").await;
        assert!(counts.in_progress >= 2, "{kind}: {counts:?}");
    }

    // A change that takes Octavia a while.
    run(json!({"operation": {"operation": "listener-update", "duration": 3}}));
    let admin = environment.kubernetes.admin().await.unwrap();
    let clusters = api(&admin, "default", "OpenStackCluster");
    let ranges = json!({"spec": {"apiServer": {"managedLoadBalancer": {"allowedCIDRs": [ADDED]}}}});
    let changed = clusters
        .patch("done", &PatchParams::default(), &Patch::Merge(ranges))
        .await
        .unwrap();
    let changed = changed.metadata.generation.unwrap();
    recorder
        .until_done("OpenStackCluster", "done", changed)
        .await;

    // A failure. The condition reports it, and the object stays in progress.
    run(
        json!({"server_rule": {"name": "broken", "build": 0.5, "fail": "No valid host was found."}}),
    );
    environment.create_machine("done", "broken", false).await;
    environment
        .cluster_api
        .until_object("OpenStackMachine", "broken", |machine| {
            condition(machine, "Ready")
                .is_some_and(|(_, _, message)| message.contains("No valid host was found."))
        })
        .await;
    let counts = recorder
        .until_status("OpenStackMachine", "broken", "InProgress")
        .await;
    assert_eq!(counts.current, 0, "{counts:?}");

    // A change of the credentials. With wrong ones the object never reads as done.
    let machines = api(&admin, "default", "OpenStackMachine");
    let name_secret = async |secret: &str| {
        let identity = json!({"spec": {"identityRef": {"name": secret, "cloudName": "demo"}}});
        let patched = machines
            .patch("done-cp", &PatchParams::default(), &Patch::Merge(identity))
            .await
            .unwrap();
        patched.metadata.generation.unwrap()
    };
    let wrong = name_secret("absent").await;
    environment
        .cluster_api
        .until_object("OpenStackMachine", "done-cp", |machine| {
            condition(machine, "OpenStackAuthenticationSucceeded")
                .is_some_and(|(status, _, _)| status == "False")
        })
        .await;
    let right = name_secret("cloud-config").await;
    let counts = recorder
        .until_done("OpenStackMachine", "done-cp", right)
        .await;
    assert!(!counts.done.contains(&wrong), "{counts:?}");

    environment.delete_cluster("done").await;
    for (kind, name) in [
        ("OpenStackCluster", "done"),
        ("OpenStackMachine", "done-cp"),
        ("OpenStackServer", "done-cp"),
    ] {
        recorder.until_status(kind, name, "Terminating").await;
    }
}
