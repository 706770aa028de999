//! The state of all objects in four conditions: a metric, a line of `/readyz?verbose`, and with
//! `--cluster-operator-name` the status of a ClusterOperator. No decision of the manager reads it.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use jiff::{Timestamp, Unit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    kubernetes::{
        patch::{Written, write_status},
        replaced_versions::ReplacedVersions,
    },
    metrics::Metrics,
    reconcile::{Stores, kubernetes_text},
    status::roll_up::{RolledUp, roll_up},
};
use capo_api::GROUP;

/// How often the state is computed. It is sent only when it has changed.
const ROLL_UP: Duration = Duration::from_secs(5);
/// How often the ClusterOperator is read, in case another program wrote to it or its definition was installed.
const READ: Duration = Duration::from_mins(5);

/// The last roll-up, for `/readyz?verbose`.
#[derive(Debug, Clone, Default)]
pub(super) struct LastRollUp(Arc<Mutex<Option<[RolledUp; 4]>>>);

impl LastRollUp {
    fn set(&self, sum: Option<[RolledUp; 4]>) {
        *self.0.lock() = sum;
    }

    /// The roll-up in one line; a process that does not lead has none.
    pub(super) fn line(&self) -> String {
        let sum = self.0.lock();
        let mut line = "[i]operator".to_owned();
        match sum.as_ref() {
            None => line += " unknown: this process does not lead",
            Some(sum) => {
                for one in sum {
                    let _ = write!(
                        line,
                        " {}={} ({})",
                        one.kind,
                        one.status.as_str(),
                        one.reason
                    );
                }
            }
        }
        line
    }
}

/// The objects that are summarised, and the places where the result is reported.
pub(super) struct OperatorReport {
    pub(super) client: Client,
    pub(super) stores: Stores,
    pub(super) metrics: Metrics,
    pub(super) last: LastRollUp,
    /// The ClusterOperator's name. Without a name none is written.
    pub(super) name: Option<String>,
    /// The manager's own namespace.
    pub(super) namespace: String,
}

impl OperatorReport {
    /// Reports until it is dropped.
    pub(super) async fn run(self) {
        let mut writer = self.name.as_deref().map(|name| Writer::new(&self, name));
        // The result is shown only as long as it is kept up to date.
        let _end = Forget(self.last.clone());
        loop {
            let sum = self.sum();
            for one in &sum {
                self.metrics.operator(one.kind, one.status);
            }
            self.last.set(Some(sum.clone()));
            if let Some(writer) = &mut writer {
                writer.write(&sum).await;
            }
            sleep(ROLL_UP).await;
        }
    }

    fn sum(&self) -> [RolledUp; 4] {
        let clusters = self.stores.openstack_clusters.state();
        let machines = self.stores.openstack_machines.state();
        roll_up(
            clusters.iter().map(AsRef::as_ref),
            machines.iter().map(AsRef::as_ref),
            Timestamp::now(),
        )
    }
}

struct Forget(LastRollUp);

impl Drop for Forget {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

struct Writer {
    api: Api<DynamicObject>,
    name: String,
    namespace: String,
    /// The object as it was read or written last, and when it was read.
    known: Option<DynamicObject>,
    read: Option<Instant>,
    /// The reason why the object can't be written. Each text is logged once.
    trouble: String,
}

impl Writer {
    fn new(report: &OperatorReport, name: &str) -> Self {
        let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterOperator");
        let resource = ApiResource::from_gvk(&kind);
        Self {
            api: Api::all_with(report.client.clone(), &resource),
            name: name.to_owned(),
            namespace: report.namespace.clone(),
            known: None,
            read: None,
            trouble: String::new(),
        }
    }

    async fn write(&mut self, sum: &[RolledUp; 4]) {
        let trouble = match self.try_write(sum).await {
            Ok(()) => String::new(),
            Err(error) => kubernetes_text(&error),
        };
        if !trouble.is_empty() && trouble != self.trouble {
            tracing::warn!(
                ClusterOperator = self.name,
                reason = trouble,
                "Reporting failed"
            );
        }
        self.trouble = trouble;
    }

    async fn try_write(&mut self, sum: &[RolledUp; 4]) -> Result<(), kube::Error> {
        if self.read.is_none_or(|read| read.elapsed() >= READ) {
            let found = match self.api.get_opt(&self.name).await {
                Ok(None) => self.create().await.map(Some),
                found => found,
            };
            self.known = match found {
                // The API server does not serve the kind, which may be installed later.
                Err(kube::Error::Api(status)) if status.code == 404 => None,
                found => found?,
            };
            self.read = Some(Instant::now());
        }
        let Some(known) = &self.known else {
            return Ok(());
        };
        let written = write_status(&ReplacedVersions::default(), &self.api, known, |object| {
            status(object, sum, &self.namespace, Timestamp::now())
        })
        .await;
        match written {
            Ok(Written::Unchanged) => {}
            Ok(Written::Changed(object)) => self.known = Some(*object),
            Ok(Written::Gone) => self.read = None,
            Err(error) => {
                self.read = None;
                return Err(error);
            }
        }
        Ok(())
    }

    async fn create(&self) -> Result<DynamicObject, kube::Error> {
        let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterOperator");
        let mut object = DynamicObject::new(&self.name, &ApiResource::from_gvk(&kind));
        object.metadata = ObjectMeta {
            name: Some(self.name.clone()),
            ..ObjectMeta::default()
        };
        object.data = json!({ "spec": {} });
        self.api.create(&PostParams::default(), &object).await
    }
}

/// The complete status that `object` should have.
fn status(object: &DynamicObject, sum: &[RolledUp; 4], namespace: &str, now: Timestamp) -> Value {
    let before = &object.data["status"]["conditions"];
    let since = |one: &RolledUp| {
        before
            .as_array()
            .into_iter()
            .flatten()
            .find(|old| old["type"] == one.kind && old["status"] == one.status.as_str())
            .and_then(|old| old["lastTransitionTime"].as_str().map(str::to_owned))
            .unwrap_or_else(|| now.round(Unit::Second).unwrap_or(now).to_string())
    };
    let conditions: Vec<Value> = sum
        .iter()
        .map(|one| {
            json!({
                "type": one.kind, "status": one.status.as_str(), "reason": one.reason,
                "message": one.message, "lastTransitionTime": since(one),
            })
        })
        .collect();
    json!({
        "conditions": conditions,
        "versions": [{"name": "operator", "version": capo_core::build_info::VERSION}],
        "relatedObjects": [
            {"group": "", "resource": "namespaces", "name": namespace},
            {"group": "apps", "resource": "deployments", "namespace": namespace, "name": "capo-controller-manager"},
            // An empty name means all objects.
            {"group": GROUP, "resource": "openstackclusters", "name": ""},
            {"group": GROUP, "resource": "openstackmachines", "name": ""},
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use capo_core::ConditionStatus;

    #[test]
    fn a_transition_time_moves_with_the_status_only() {
        let sum = |status: ConditionStatus| {
            ["Available", "Progressing", "Degraded", "Upgradeable"].map(|kind| RolledUp {
                kind,
                status,
                reason: "AsExpected".to_owned(),
                message: String::new(),
            })
        };
        let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterOperator");
        let mut object = DynamicObject::new("x", &ApiResource::from_gvk(&kind));
        let at = |second| Timestamp::from_second(second).unwrap();
        let first = status(&object, &sum(ConditionStatus::True), "n", at(100));
        object.data = json!({ "status": first.clone() });
        assert_eq!(
            status(&object, &sum(ConditionStatus::True), "n", at(200)),
            first
        );
        let turned = status(&object, &sum(ConditionStatus::False), "n", at(200));
        assert_eq!(
            turned["conditions"][0]["lastTransitionTime"],
            "1970-01-01T00:03:20Z"
        );
    }
}
