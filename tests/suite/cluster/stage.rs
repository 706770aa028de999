//! Everything a cluster needs around it: a real kube-apiserver, a fake cloud, Cluster API's part, and our
//! controllers in this process with exactly the shipped role.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use capo_gate as membership;
use capo_openstack::{ClientSettings, Cloud, CloudProfile, Clouds, LeaseToken, NoObserver};
use capo_rs::{
    controllers::{self, Observer, Parts, Settings, UncachedMachines},
    tracker::Membership,
};
use fake_cloud::{Durations, FakeCloud, Options};
use k8s_openapi::{ByteString, api::events::v1::Event};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    env::{
        apply::apply,
        cluster_api::{ClusterApi, api},
        kubernetes::client,
    },
    webhooks::fixture::Served,
};

/// Longer than anything here takes, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Passes that ended, by controller.
#[derive(Debug, Clone, Default)]
pub(crate) struct Passes(Arc<AtomicU64>);

impl Observer for Passes {
    fn pass(&self, controller: &'static str, _: &'static str, _: Duration) {
        if controller == "openstackcluster" {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// One test's world, in a namespace of its own.
pub(crate) struct Stage {
    pub(crate) namespace: String,
    pub(crate) admin: Client,
    pub(crate) cloud: FakeCloud,
    pub(crate) cluster_api: ClusterApi,
    pub(crate) passes: Passes,
    pub(crate) membership: Membership,
    _controllers: DropGuard,
}

/// A cloud in which things take no longer than they must.
pub(crate) fn quick() -> Options {
    Options {
        durations: Durations {
            load_balancer_create: 0.5,
            load_balancer_delete: 0.3,
            operation: 0.1,
            agent: 0.1,
            ..Durations::default()
        },
        data_path: false,
        ..Options::default()
    }
}

impl Stage {
    /// Sets the stage in `namespace`, with the Secret `cloud-config`.
    pub(crate) async fn set(namespace: &str, options: Options) -> Self {
        let kubernetes = &Served::shared().await.kubernetes;
        kubernetes.install_cluster_api().await.unwrap();
        let kubeconfig = kubernetes.install_provider().await.unwrap();
        let admin = kubernetes.admin().await.unwrap();
        let cloud = FakeCloud::start(options).await.unwrap();
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        apply(&admin, &[object]).await.unwrap();
        let ours = client(&kubeconfig).await.unwrap();
        let machines = UncachedMachines::new(ours.clone());
        let membership = Membership::new(
            membership::Settings::default(),
            Arc::new(machines.clone()),
            Arc::new(membership::Unobserved),
        );
        let passes = Passes::default();
        let parts = Parts {
            client: ours,
            clouds: clouds(),
            membership: membership.clone(),
            settings: Settings {
                namespace: Some(namespace.to_owned()),
                ..Settings::default()
            },
            observer: Arc::new(passes.clone()),
            synced: Box::new(move |_| machines.synced()),
        };
        let shutdown = CancellationToken::new();
        tokio::spawn(controllers::run(parts, shutdown.clone()));
        let stage = Self {
            namespace: namespace.to_owned(),
            cluster_api: ClusterApi::play(admin.clone(), namespace),
            admin,
            cloud,
            passes,
            membership,
            _controllers: shutdown.drop_guard(),
        };
        stage
            .secret("cloud-config", &stage.cloud.clouds_yaml(), None)
            .await;
        stage
    }

    /// Writes a Secret with credentials.
    pub(crate) async fn secret(&self, name: &str, clouds_yaml: &str, cacert: Option<&str>) {
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

    /// An ordinary `OpenStackCluster` with everything managed; `change` is merged into its spec.
    pub(crate) fn cluster(&self, name: &str, change: Value) -> Value {
        let mut spec = json!({
            "managedSubnets": [{"cidr": "10.6.0.0/24", "dnsNameservers": ["9.9.9.9"]}],
            "managedSecurityGroups": {"allowAllInClusterTraffic": false},
            "apiServer": {"managedLoadBalancer": {"enabled": true}},
            "tags": [format!("of-{}-{name}", self.namespace)],
            "identityRef": {"type": "Secret", "name": "cloud-config", "cloudName": "demo"},
        });
        merge(&mut spec, change);
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackCluster",
            "metadata": {"name": name, "namespace": self.namespace}, "spec": spec,
        })
    }

    /// The `OpenStackCluster` as soon as `wanted` holds for it.
    pub(crate) async fn until(&self, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.cluster_api
            .wait_for("OpenStackCluster", name, PATIENCE, wanted)
            .await
            .unwrap()
    }

    /// The `OpenStackCluster` as soon as it is provisioned and Ready.
    pub(crate) async fn until_ready(&self, name: &str) -> Value {
        self.until(name, |object| {
            object["status"]["initialization"]["provisioned"] == true && is(object, "Ready", "True")
        })
        .await
    }

    /// Deletes the Cluster and waits until nothing of it is left, in Kubernetes and in the cloud.
    pub(crate) async fn delete(&self, name: &str) {
        self.cluster_api.delete("Cluster", name).await.unwrap();
        self.until(name, Value::is_null).await;
        for text in [
            format!("of-{}-{name}", self.namespace),
            format!("{}-{name}", self.namespace),
        ] {
            assert_eq!(self.cloud.control().leftovers(&text), [], "{text}");
        }
    }

    /// Makes one pass happen and waits for its end; later ones may follow.
    pub(crate) async fn one_more_pass(&self, name: &str) {
        let before = self.passes.0.load(Ordering::SeqCst);
        let change = json!({"metadata": {"annotations": {"test/pass": before.to_string()}}});
        self.patch(name, change).await;
        tokio::time::timeout(PATIENCE, async {
            while self.passes.0.load(Ordering::SeqCst) == before {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await
        .unwrap();
    }

    /// Merges `change` into the `OpenStackCluster`.
    pub(crate) async fn patch(&self, name: &str, change: Value) {
        api(&self.admin, &self.namespace, "OpenStackCluster")
            .patch(name, &PatchParams::default(), &Patch::Merge(change))
            .await
            .unwrap();
    }

    /// Merges `status` into the status of an object.
    pub(crate) async fn patch_status(&self, kind: &str, name: &str, status: Value) {
        api(&self.admin, &self.namespace, kind)
            .patch_status(
                name,
                &PatchParams::default(),
                &Patch::Merge(json!({"status": status})),
            )
            .await
            .unwrap();
    }

    /// Notes of warnings about an object.
    pub(crate) async fn warnings(&self, name: &str) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.admin.clone(), &self.namespace);
        let list = events.list(&ListParams::default()).await.unwrap();
        list.items
            .into_iter()
            .filter(|event| event.type_.as_deref() == Some("Warning"))
            .filter(|event| {
                event
                    .regarding
                    .as_ref()
                    .is_some_and(|o| o.name.as_deref() == Some(name))
            })
            .map(|event| event.note.unwrap_or_default())
            .collect()
    }

    /// The cloud as its user sees it.
    pub(crate) fn user(&self) -> Cloud {
        let yaml = ByteString(self.cloud.clouds_yaml().into_bytes());
        let data = BTreeMap::from([("clouds.yaml".to_owned(), yaml)]);
        let profile = CloudProfile::from_secret(&data, "demo", None).unwrap();
        clouds().cloud(profile).unwrap()
    }

    /// Labels of the calls since `sequence` that change something.
    pub(crate) fn writes_since(&self, sequence: u64) -> Vec<String> {
        let calls = self.cloud.control().calls_since(sequence);
        calls
            .into_iter()
            .filter(|call| call.method != "GET" && call.label != "token_create")
            .map(|call| format!("{} {}", call.method, call.path))
            .collect()
    }
}

fn clouds() -> Clouds {
    Clouds::new(
        ClientSettings::default(),
        LeaseToken::unlimited(),
        Arc::new(NoObserver),
    )
}

/// Whether a condition has a status.
pub(crate) fn is(object: &Value, kind: &str, status: &str) -> bool {
    crate::env::cluster_api::condition(object, kind).is_some_and(|(found, _, _)| found == status)
}

fn merge(into: &mut Value, change: Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                if value.is_null() {
                    into.remove(&key);
                } else {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (into, change) => *into = change,
    }
}
