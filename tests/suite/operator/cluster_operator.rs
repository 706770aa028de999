//! The report in a ClusterOperator: the manager writes it if the option names one and the kind is served, and never
//! reads it.

use std::sync::Arc;

use futures::StreamExt;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
    runtime::watcher::{Config, Event, watcher},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use test_support::waiting::PATIENCE;
use tokio_util::task::AbortOnDropHandle;

use super::until;
use crate::{
    env::{
        apply::{apply, documents},
        manager::get,
    },
    whole::isolated::IsolatedEnvironment,
};

/// The part of OpenShift's definition that a report needs: its names, its status subresource, its closed sets.
const DEFINITION: &str = include_str!("cluster-operator.yaml");
const NAME: &str = "cluster-api-openstack";

fn reports(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterOperator");
    Api::all_with(client.clone(), &ApiResource::from_gvk(&kind))
}

fn status_of(object: &DynamicObject, kind: &str) -> Option<String> {
    let conditions = object.data["status"]["conditions"].as_array()?;
    let found = conditions
        .iter()
        .find(|condition| condition["type"] == kind)?;
    found["status"].as_str().map(str::to_owned)
}

/// The status in every revision of the report that the API server ever showed.
struct Revisions {
    seen: Arc<Mutex<Vec<Value>>>,
    _watch: AbortOnDropHandle<()>,
}

impl Revisions {
    fn of(reports: &Api<DynamicObject>) -> Self {
        let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
        let mut events = watcher(reports.clone(), Config::default()).boxed();
        let keep = Arc::clone(&seen);
        let watch = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                if let Event::InitApply(object) | Event::Apply(object) = event.unwrap() {
                    keep.lock().push(object.data["status"].clone());
                }
            }
        });
        Self {
            seen,
            _watch: AbortOnDropHandle::new(watch),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_reported_and_changes_nothing() {
    let environment = IsolatedEnvironment::start().await;
    let admin = environment.kubernetes.admin().await.unwrap();
    let rights = documents(
        &std::fs::read_to_string(test_support::repository("deploy/cluster-operator.yaml")).unwrap(),
    )
    .unwrap();
    apply(&admin, &rights).await.unwrap();
    let flag = format!("--cluster-operator-name={NAME}");

    // If the kind is not served, the metric and the line of /readyz report the same, and the log has no error.
    let mut manager = environment
        .ready_manager("without", &["--leader-elect", &flag])
        .await;
    let line = until("the line of /readyz?verbose", async || {
        let (code, body) = get(&manager.health_url("/readyz?verbose")).await.ok()?;
        assert_eq!(code, 200);
        let line = body
            .lines()
            .find(|line| line.starts_with("[i]operator Available"))?;
        Some(line.to_owned())
    })
    .await;
    assert_eq!(
        line,
        "[i]operator Available=True (AsExpected) Progressing=False (AsExpected) Degraded=False (AsExpected) Upgradeable=True (AsExpected)"
    );
    let (_, body) = get(&manager.health_url("/readyz")).await.unwrap();
    assert!(!body.contains("operator"), "{body}");
    let metrics = manager.metrics().await;
    assert!(
        metrics.contains(r#"capo_operator_condition{condition="Available",status="True"} 1"#),
        "{metrics}"
    );
    let log = std::fs::read_to_string(manager.process.log()).unwrap();
    assert!(!log.contains("Reporting failed"), "{log}");
    manager.process.signal("TERM").unwrap();
    manager.process.wait(PATIENCE).unwrap();

    // If the kind is served, the report is created and filled.
    apply(&admin, &documents(DEFINITION).unwrap())
        .await
        .unwrap();
    let reports = reports(&admin);
    until("the new kind is served", async || {
        reports.list(&kube::api::ListParams::default()).await.ok()
    })
    .await;
    let _manager = environment
        .ready_manager("with", &["--leader-elect", &flag])
        .await;
    let whole = until("the report", async || {
        let object = reports.get_opt(NAME).await.unwrap()?;
        status_of(&object, "Available").is_some().then_some(object)
    })
    .await;
    let status = &whole.data["status"];
    assert_eq!(status["versions"][0]["name"], "operator");
    assert_eq!(
        status["versions"][0]["version"],
        capo_core::build_info::VERSION
    );
    assert_eq!(
        status["relatedObjects"][0],
        json!({"group": "", "resource": "namespaces", "name": "capo-system"})
    );
    let shown: Vec<Value> = ["Available", "Progressing", "Degraded", "Upgradeable"]
        .iter()
        .map(|kind| json!(status_of(&whole, kind)))
        .collect();
    assert_eq!(shown, ["True", "False", "False", "True"]);

    let revisions = Revisions::of(&reports);
    until("the first revision", async || {
        (!revisions.seen.lock().is_empty()).then_some(())
    })
    .await;

    // Wrong content of the report stops no other work, and the next change replaces all of it.
    let untrue = json!({"status": {"versions": null, "conditions": [{"type": "Degraded", "status": "True",
        "reason": "Lie", "message": "", "lastTransitionTime": "2026-11-21T12:00:00Z"}]}});
    reports
        .patch_status(NAME, &PatchParams::default(), &Patch::Merge(&untrue))
        .await
        .unwrap();
    // The creation of the load balancer takes longer than the time between two summaries.
    let slow =
        json!({"operation": {"operation": "load-balancer-create", "duration": 20, "count": 1}});
    environment.cloud.control().run(slow).unwrap();
    environment.create_cluster("report", "127.76.0.0/24").await;
    until("the cluster is progress", async || {
        let object = reports.get(NAME).await.unwrap();
        let shown = ["Progressing", "Degraded"].map(|kind| status_of(&object, kind));
        let versions = object.data["status"]["versions"].is_array();
        (versions && shown == [Some("True".to_owned()), Some("False".to_owned())]).then_some(())
    })
    .await;
    environment
        .until_provisioned("OpenStackCluster", "report")
        .await;
    until("the cluster is done", async || {
        let object = reports.get(NAME).await.unwrap();
        (status_of(&object, "Progressing").as_deref() == Some("False")).then_some(())
    })
    .await;

    // The state is summed up every five seconds, and written only if the summary has changed.
    until("four revisions", async || {
        (revisions.seen.lock().len() >= 4).then_some(())
    })
    .await;
    let seen = revisions.seen.lock();
    for (earlier, later) in seen.iter().zip(seen.iter().skip(1)) {
        assert_ne!(earlier, later, "written without a change");
    }
}
