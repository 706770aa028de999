//! The controllers at work in a namespace of their own: a real kube-apiserver, Cluster API as a script,
//! OpenStack as a fake on loopback.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use capo_api::{ConversionTarget, crds};
use capo_core::Priority;
use capo_gate::{self as membership, Unobserved};
use capo_openstack::{
    ClientSettings, Cloud, CloudProfile, Clouds, LeaseToken, NoObserver,
    network::{NewNetwork, NewSubnet},
};
use capo_rs::{
    controllers::{self, UncachedMachines},
    tracker::Membership,
};
use fake_cloud::{Durations, FakeCloud, Options};
use k8s_openapi::{
    ByteString, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::env::{ClusterApi, Kubernetes, apply::apply, cluster_api};

/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

/// Everything that a test looks at and pulls on.
pub(crate) struct Stage {
    /// The namespace.
    pub namespace: String,
    /// The Kubernetes API, as cluster-admin.
    pub admin: Client,
    /// Cluster API, as a script.
    pub cluster_api: ClusterApi,
    /// OpenStack, as a fake.
    pub cloud: FakeCloud,
    /// How members are tracked from the next start on.
    pub settings: membership::Settings,
    /// The shipped ServiceAccount's kubeconfig.
    kubeconfig: std::path::PathBuf,
    work: Option<(tokio::task::JoinHandle<()>, CancellationToken)>,
}

impl Stage {
    /// Sets everything up in `namespace` and starts the controllers.
    pub(crate) async fn set(namespace: &str) -> Self {
        Self::set_as(namespace, patient()).await
    }

    /// The same with other settings of the gate.
    pub(crate) async fn set_as(namespace: &str, settings: membership::Settings) -> Self {
        let kubernetes = Kubernetes::shared().await;
        kubernetes.install_cluster_api().await.unwrap();
        let kubeconfig = kubernetes.install_provider().await.unwrap();
        let admin = kubernetes.admin().await.unwrap();
        install_definitions(&admin).await;
        let cloud = FakeCloud::start(Options {
            durations: Durations {
                server_build: 0.2,
                load_balancer_create: 0.2,
                operation: 0.1,
                ..Durations::instant()
            },
            // Nobody listens at the members' addresses: let them look healthy.
            data_path: false,
            ..Options::default()
        })
        .await
        .unwrap();
        let documents = [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cloud", "namespace": namespace},
                "stringData": {"clouds.yaml": cloud.clouds_yaml()}}),
        ];
        apply(&admin, &documents).await.unwrap();
        let mut stage = Self {
            namespace: namespace.to_owned(),
            cluster_api: ClusterApi::play(admin.clone(), namespace),
            admin,
            cloud,
            settings,
            kubeconfig,
            work: None,
        };
        stage.start().await;
        stage
    }

    /// Starts the controllers, as the shipped ServiceAccount.
    pub(crate) async fn start(&mut self) {
        let client = crate::env::kubernetes::client(&self.kubeconfig)
            .await
            .unwrap();
        let machines = UncachedMachines::new(client.clone());
        let membership = Membership::new(
            self.settings.clone(),
            Arc::new(machines.clone()),
            Arc::new(Unobserved),
        );
        let parts = controllers::Parts {
            client,
            clouds: Clouds::new(quick(), LeaseToken::unlimited(), Arc::new(NoObserver)),
            membership: membership.clone(),
            settings: controllers::Settings {
                namespace: Some(self.namespace.clone()),
                ..controllers::Settings::default()
            },
            observer: Arc::new(()),
            synced: Box::new(move |_| machines.synced()),
        };
        let stop = CancellationToken::new();
        let work = tokio::spawn({
            let stop = stop.clone();
            async move {
                Box::pin(controllers::run(parts, stop)).await;
                membership.shutdown().await;
            }
        });
        self.work = Some((work, stop));
    }

    /// Stops the controllers, as at the end of a process.
    pub(crate) async fn stop(&mut self) {
        if let Some((work, stop)) = self.work.take() {
            stop.cancel();
            tokio::time::timeout(PATIENCE, work).await.unwrap().unwrap();
        }
    }

    /// A cluster whose infrastructure somebody else makes: no controller of ours touches it. Its network
    /// is real, as far as the fake goes.
    pub(crate) async fn foreign_cluster(&self, name: &str) {
        let network = self.network(name).await;
        self.cluster_api
            .create_cluster(
                name,
                json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackCluster",
                    "metadata": {"name": name, "namespace": self.namespace,
                        "annotations": {"cluster.x-k8s.io/managed-by": "somebody"}},
                    "spec": {"identityRef": identity()}}),
            )
            .await
            .unwrap();
        let api = cluster_api::api(&self.admin, &self.namespace, "OpenStackCluster");
        let status = json!({"status": {"initialization": {"provisioned": true},
            "network": {"id": network, "name": name, "subnets": []}}});
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(status))
            .await
            .unwrap();
    }

    /// Makes a network with a subnet and answers its id.
    async fn network(&self, name: &str) -> String {
        let cloud = self.openstack();
        let network = cloud
            .create_network(
                &NewNetwork {
                    name: name.to_owned(),
                    ..NewNetwork::default()
                },
                Priority::Gate,
            )
            .await
            .unwrap();
        let subnet = NewSubnet {
            network_id: network.id.clone(),
            name: name.to_owned(),
            description: String::new(),
            cidr: "10.6.0.0/24".parse().unwrap(),
            ip_version: 4,
            dns_nameservers: Vec::new(),
            allocation_pools: Vec::new(),
        };
        cloud.create_subnet(&subnet, Priority::Gate).await.unwrap();
        network.id.into()
    }

    /// A client for the fake.
    pub(crate) fn openstack(&self) -> Cloud {
        let data = BTreeMap::from([(
            "clouds.yaml".to_owned(),
            ByteString(self.cloud.clouds_yaml().into_bytes()),
        )]);
        let profile = CloudProfile::from_secret(&data, "demo", None).unwrap();
        Clouds::new(quick(), LeaseToken::unlimited(), Arc::new(NoObserver))
            .cloud(profile)
            .unwrap()
    }

    /// The object once `wanted` holds for it.
    pub(crate) async fn until(
        &self,
        kind: &str,
        name: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        self.cluster_api
            .wait_for(kind, name, PATIENCE, wanted)
            .await
            .unwrap()
    }

    /// The object as it is.
    pub(crate) async fn get(&self, kind: &str, name: &str) -> Value {
        self.cluster_api
            .get(kind, name)
            .await
            .unwrap()
            .unwrap_or_default()
    }

    /// Merges `patch` into an object.
    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: Value) {
        cluster_api::api(&self.admin, &self.namespace, kind)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// Merges `status` into an object's status.
    pub(crate) async fn patch_status(&self, kind: &str, name: &str, status: Value) {
        cluster_api::api(&self.admin, &self.namespace, kind)
            .patch_status(
                name,
                &PatchParams::default(),
                &Patch::Merge(json!({"status": status})),
            )
            .await
            .unwrap();
    }

    /// Takes an object's status away.
    pub(crate) async fn wipe_status(&self, kind: &str, name: &str) {
        let api = cluster_api::api(&self.admin, &self.namespace, kind);
        let patch = json!([{"op": "replace", "path": "/status", "value": {}}]);
        let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
        api.patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Changes that OpenStack was asked for since call number `since`, by label.
    pub(crate) fn writes_since(&self, since: u64) -> Vec<String> {
        self.cloud
            .control()
            .calls_since(since)
            .into_iter()
            .filter(|call| call.method != "GET" && call.label != "token_create")
            .map(|call| call.label)
            .collect()
    }

    /// How often OpenStack was asked for `label` in all.
    pub(crate) fn calls(&self, label: &str) -> usize {
        self.cloud
            .control()
            .calls_since(0)
            .iter()
            .filter(|call| call.label == label)
            .count()
    }

    /// Servers, ports and the like whose name holds `text`.
    pub(crate) fn leftovers(&self, text: &str) -> Vec<String> {
        self.cloud
            .control()
            .leftovers(text)
            .into_iter()
            .map(|left| format!("{} {}", left.kind, left.name))
            .collect()
    }

    /// Tells the fake what to do.
    pub(crate) fn command(&self, command: Value) -> Value {
        self.cloud.control().run(command).unwrap()
    }
}

/// Settings with which a test sees soon what an operator sees within minutes.
pub(crate) fn patient() -> membership::Settings {
    membership::Settings {
        schedule: membership::Schedule {
            first: vec![Duration::from_millis(200)],
            settling: Duration::from_millis(200),
            creating: Duration::from_millis(100),
            health: Duration::from_millis(200),
            health_at_most: Duration::from_millis(500),
            // What changes in the load balancer without us is seen soon too.
            steady: Duration::from_secs(2),
            ..membership::Schedule::default()
        },
        ..membership::Settings::default()
    }
}

/// The identity that all objects here use.
pub(crate) fn identity() -> Value {
    json!({"type": "Secret", "name": "cloud", "cloudName": "demo"})
}

/// The least that a machine asks for.
pub(crate) fn machine_spec() -> Value {
    json!({"image": {"filter": {"name": "cirros"}}, "flavor": {"filter": {"name": "m1.small"}}})
}

/// The condition of an object as (status, reason).
pub(crate) fn told<'a>(object: &'a Value, kind: &str) -> (&'a str, &'a str) {
    let (status, reason, _) = cluster_api::condition(object, kind).unwrap_or_default();
    (status, reason)
}

/// A client that gives up soon, so that a hanging service is noticed within the test.
fn quick() -> ClientSettings {
    ClientSettings {
        qps: 200.0,
        burst: 200,
        total_timeout: Duration::from_secs(3),
        ..ClientSettings::default()
    }
}

async fn install_definitions(admin: &Client) {
    let api: Api<CustomResourceDefinition> = Api::all(admin.clone());
    let known = api
        .get_opt("openstackservers.infrastructure.cluster.x-k8s.io")
        .await
        .unwrap();
    if known.is_some() {
        return;
    }
    let definitions: Vec<Value> = crds(&ConversionTarget::Unconverted)
        .unwrap()
        .into_iter()
        .map(|definition| serde_json::to_value(definition).unwrap())
        .collect();
    apply(admin, &definitions).await.unwrap();
}
