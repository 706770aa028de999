//! Objects in an environment's namespace.

use k8s_openapi::api::events::v1::Event;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{CREDENTIALS, Environment};
use crate::{
    env::{
        apply::apply,
        cluster_api::{api, condition},
    },
    waiting::until,
};

/// The identity that all objects of a test refer to.
pub fn identity() -> Value {
    json!({"type": "Secret", "name": CREDENTIALS, "cloudName": "demo"})
}

/// Whether a condition has a status.
pub fn is(object: &Value, kind: &str, status: &str) -> bool {
    condition(object, kind).is_some_and(|(found, _, _)| found == status)
}

/// The status and the reason of a condition; both empty if the object does not have it.
pub fn status_and_reason<'a>(object: &'a Value, kind: &str) -> (&'a str, &'a str) {
    let (status, reason, _) = condition(object, kind).unwrap_or_default();
    (status, reason)
}

impl Environment {
    /// Writes a Secret with credentials.
    pub async fn secret(&self, name: &str, clouds_yaml: &str, cacert: Option<&str>) {
        let mut data = json!({"clouds.yaml": clouds_yaml});
        if let Some(pem) = cacert {
            data["cacert"] = json!(pem);
        }
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": self.namespace},
            "stringData": data,
        });
        apply(&self.admin, &[secret]).await.unwrap();
    }

    /// An ordinary OpenStackCluster whose network and load balancer are managed; `change` is merged into its spec.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "tests write the change in place"
    )]
    pub fn cluster(&self, name: &str, change: Value) -> Value {
        let mut spec = json!({
            "managedSubnets": [{"cidr": "10.6.0.0/24", "dnsNameservers": ["9.9.9.9"]}],
            "managedSecurityGroups": {"allowAllInClusterTraffic": false},
            "apiServer": {"managedLoadBalancer": {"enabled": true}},
            "tags": [format!("of-{}-{name}", self.namespace)],
            "identityRef": identity(),
        });
        json_patch::merge(&mut spec, &change);
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackCluster",
            "metadata": {"name": name, "namespace": self.namespace}, "spec": spec,
        })
    }

    /// Creates a Cluster whose OpenStackCluster another program reconciles: it is provisioned, has a network in the
    /// cloud, and no controller of capo-rs changes it.
    pub async fn foreign_cluster(&self, name: &str) {
        self.foreign_cluster_with(name, identity()).await;
    }

    /// The same with another identity.
    pub async fn foreign_cluster_with(&self, name: &str, identity: Value) {
        let network = self.network(name).await;
        self.cluster_api
            .create_cluster(
                name,
                json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackCluster",
                    "metadata": {"name": name, "namespace": self.namespace,
                        "annotations": {"cluster.x-k8s.io/managed-by": "another-program"}},
                    "spec": {"identityRef": identity}}),
            ).await;
        let status = json!({"initialization": {"provisioned": true},
            "network": {"id": network, "name": name, "subnets": []}});
        self.patch_status("OpenStackCluster", name, status).await;
    }

    /// The object as it is; null if it does not exist.
    pub async fn get(&self, kind: &str, name: &str) -> Value {
        let found = self.cluster_api.get(kind, name).await.unwrap();
        found.unwrap_or_default()
    }

    /// The object as soon as `wanted` holds for it.
    pub async fn until_object(
        &self,
        kind: &str,
        name: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        self.cluster_api.until_object(kind, name, wanted).await
    }

    /// The object as soon as Cluster API may continue with it.
    pub async fn until_provisioned(&self, kind: &str, name: &str) -> Value {
        self.cluster_api.until_provisioned(kind, name).await
    }

    /// Waits until an object does not exist any more.
    pub async fn until_gone(&self, kind: &str, name: &str) {
        self.cluster_api.until_gone(kind, name).await;
    }

    /// The OpenStackCluster as soon as it is provisioned and Ready, and all that its generation asks for is done.
    pub async fn until_ready(&self, name: &str) -> Value {
        self.until_object("OpenStackCluster", name, |object| {
            object["status"]["initialization"]["provisioned"] == true
                && is(object, "Ready", "True")
                && object["status"]["observedGeneration"] == object["metadata"]["generation"]
        })
        .await
    }

    /// Waits for an event in the namespace whose note contains `text`.
    pub async fn until_noted(&self, text: &str) {
        let events: Api<Event> = Api::namespaced(self.admin.clone(), &self.namespace);
        until(text, async || {
            let list = events.list(&ListParams::default()).await.unwrap();
            let mut notes = list.items.iter().filter_map(|event| event.note.as_ref());
            notes.any(|note| note.contains(text)).then_some(())
        })
        .await;
    }

    /// Merges `change` into an object.
    pub async fn patch(&self, kind: &str, name: &str, change: Value) {
        api(&self.admin, &self.namespace, kind)
            .patch(name, &PatchParams::default(), &Patch::Merge(change))
            .await
            .unwrap();
    }

    /// Merges `status` into an object's status.
    pub async fn patch_status(&self, kind: &str, name: &str, status: Value) {
        let change = Patch::Merge(json!({"status": status}));
        api(&self.admin, &self.namespace, kind)
            .patch_status(name, &PatchParams::default(), &change)
            .await
            .unwrap();
    }

    /// Empties an object's status.
    pub async fn wipe_status(&self, kind: &str, name: &str) {
        let patch = json!([{"op": "replace", "path": "/status", "value": {}}]);
        let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
        api(&self.admin, &self.namespace, kind)
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Deletes the Cluster and waits until nothing of it is left, in Kubernetes and in the cloud.
    pub async fn delete(&self, name: &str) {
        self.cluster_api.delete("Cluster", name).await;
        self.until_object("OpenStackCluster", name, Value::is_null)
            .await;
        for text in [
            format!("of-{}-{name}", self.namespace),
            format!("{}-{name}", self.namespace),
        ] {
            assert_eq!(self.cloud.control().leftovers(&text), [], "{text}");
        }
    }

    /// Notes of the warnings about an object.
    pub async fn warnings(&self, name: &str) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.admin.clone(), &self.namespace);
        let list = events.list(&ListParams::default()).await.unwrap();
        let about = |event: &Event| {
            let regarding = event.regarding.as_ref();
            regarding.is_some_and(|object| object.name.as_deref() == Some(name))
        };
        list.items
            .into_iter()
            .filter(|event| event.type_.as_deref() == Some("Warning") && about(event))
            .map(|event| event.note.unwrap_or_default())
            .collect()
    }
}
