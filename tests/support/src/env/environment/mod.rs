//! What a test of the controllers needs: a namespace of the kube-apiserver that the tests of its binary share, a cloud
//! of its own, a scripted Cluster API, and the controllers in this process with exactly the shipped role.
//!
//! ```ignore
//! let environment = Environment::in_namespace("paused").start().await;
//! let environment = Environment::in_namespace("slow").cloud(options).gate(settings).start().await;
//! ```

mod controllers;
mod endpoint;
mod objects;
mod openstack;
mod writes;

use std::{path::PathBuf, time::Duration};

use capo_openstack::{ClientSettings, LeaseToken};
use fake_cloud::{Durations, FakeCloud, Options};
use kube::Client;
use serde_json::json;

use self::controllers::{Controllers, Passes};
use super::{ClusterApi, Kubernetes, apply::apply};
use crate::webhooks::{Served, WITHOUT_ADMISSION};

pub use self::{
    controllers::quick_gate,
    endpoint::EndpointRequests,
    objects::{identity, is, status_and_reason},
    writes::{HeldWrite, Write, Writes},
};

/// The Secret that every object of a test refers to.
const CREDENTIALS: &str = "cloud-config";

/// The environment of one test. Its controllers stop when it is dropped.
pub struct Environment {
    /// The kube-apiserver that the tests of this binary share.
    pub kubernetes: &'static Kubernetes,
    /// The namespace of all objects of the test.
    pub namespace: String,
    /// The Kubernetes API, as cluster-admin.
    pub admin: Client,
    /// Cluster API, as a script.
    pub cluster_api: ClusterApi,
    /// OpenStack, as a fake.
    pub cloud: FakeCloud,
    /// The settings of the gate from the next [`Environment::start`] on.
    pub settings: capo_gate::Settings,
    /// The time between two passes over an object that has not changed, from the next [`Environment::start`] on.
    pub sync_period: Duration,
    /// The controllers' permission to change OpenStack and to open gates.
    pub lease: LeaseToken,
    /// The controllers' writes to Kubernetes.
    pub writes: Writes,
    /// The endpoints through which the controllers sent requests.
    pub endpoint_requests: EndpointRequests,
    client: ClientSettings,
    watch_filter: Option<String>,
    /// The shipped ServiceAccount's kubeconfig.
    kubeconfig: PathBuf,
    passes: Passes,
    controllers: Option<Controllers>,
}

/// The options of an environment.
#[must_use]
pub struct Builder {
    namespace: String,
    cloud: Options,
    gate: capo_gate::Settings,
    client: ClientSettings,
    admission: bool,
    watch_filter: Option<String>,
}

/// A cloud with the shortest durations. Its load balancers forward no traffic: members look healthy although no server
/// listens at their addresses.
pub fn quick_cloud() -> Options {
    Options {
        durations: Durations {
            server_build: 0.2,
            load_balancer_create: 0.2,
            operation: 0.1,
            ..Durations::instant()
        },
        data_path: false,
        ..Options::default()
    }
}

impl Builder {
    /// The same with this cloud instead of [`quick_cloud`].
    pub fn cloud(mut self, options: Options) -> Self {
        self.cloud = options;
        self
    }

    /// The same with these settings of the gate instead of [`quick_gate`].
    pub fn gate(mut self, settings: capo_gate::Settings) -> Self {
        self.gate = settings;
        self
    }

    /// With the shipped settings of OpenStack's clients: 10 calls a second, and at most half a minute for each call.
    pub fn shipped_client(mut self) -> Self {
        self.client = ClientSettings::default();
        self
    }

    /// Objects are not validated on admission, so that the controllers receive all objects that the schema allows.
    pub fn without_admission(mut self) -> Self {
        self.admission = false;
        self
    }

    /// With controllers that reconcile only objects whose label of `--watch-filter` has this value.
    pub fn watch_filter(mut self, value: &str) -> Self {
        self.watch_filter = Some(value.to_owned());
        self
    }

    /// Sets everything up and starts the controllers.
    pub async fn start(self) -> Environment {
        let served = Served::shared().await;
        let kubernetes = &served.kubernetes;
        let kubeconfig = served.install_for_manager().await.unwrap();
        let admin = kubernetes.admin().await.unwrap();
        let cloud = FakeCloud::start(self.cloud).await.unwrap();
        let mut namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}});
        if !self.admission {
            namespace["metadata"]["labels"] = json!({WITHOUT_ADMISSION: ""});
        }
        apply(&admin, &[namespace]).await.unwrap();
        let mut environment = Environment {
            kubernetes,
            cluster_api: ClusterApi::play(admin.clone(), &self.namespace),
            namespace: self.namespace,
            admin,
            cloud,
            settings: self.gate,
            sync_period: Duration::from_mins(10),
            lease: LeaseToken::unlimited(),
            writes: Writes::default(),
            endpoint_requests: EndpointRequests::default(),
            client: self.client,
            watch_filter: self.watch_filter,
            kubeconfig,
            passes: Passes::default(),
            controllers: None,
        };
        let clouds_yaml = environment.cloud.clouds_yaml();
        environment.secret(CREDENTIALS, &clouds_yaml, None).await;
        environment.start().await;
        environment
    }
}

impl Environment {
    /// An environment in `namespace`, which no other test of the binary uses.
    pub fn in_namespace(namespace: &str) -> Builder {
        Builder {
            namespace: namespace.to_owned(),
            cloud: quick_cloud(),
            gate: quick_gate(),
            client: controllers::quick_client(),
            admission: true,
            watch_filter: None,
        }
    }
}
