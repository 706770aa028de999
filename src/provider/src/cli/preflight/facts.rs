//! What is read of a management cluster and its clouds.

use std::{sync::Arc, time::Duration};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, ResourceExt as _, api::ListParams};
use tokio::net::TcpStream;

use super::managers::{self, Managers};
use crate::subject::Subject;
use crate::{
    kubernetes,
    manager::plan::dry_run,
    manager::{self, Settings},
    reconcile::{
        ClusterIdentityDefault, capi::WATCH_FILTER_LABEL, identity, kubernetes_text, name_of,
    },
    storage_migration::plan::Definition,
};
use capo_api::{v1alpha1::OpenStackClusterIdentity, v1beta2::OpenStackCluster};
use capo_core::Priority;
use capo_openstack::{
    ApiVersion, Cloud, Clouds, Error, Interface, LeaseToken, NoObserver, Quota, Service,
};

/// How long an endpoint may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// Everything besides the plan that is judged.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    /// The versions of Cluster API's Clusters that are served.
    pub(super) cluster_api: Vec<String>,
    /// Whether cert-manager's Certificates are served.
    pub(super) cert_manager: bool,
    /// The definitions of this group, of capo-rs or of CAPO.
    pub(super) definitions: Vec<Definition>,
    /// The managers that are installed, CAPO's or ours, or why they can't be read.
    pub(super) managers: Managers,
    /// OpenStackClusterIdentities that every namespace may use.
    pub(super) open_identities: Vec<String>,
    pub(super) clusters: Vec<ClusterFacts>,
}

/// One OpenStackCluster and its cloud.
#[derive(Debug, Clone)]
pub(super) struct ClusterFacts {
    pub(super) object: Subject,
    /// What its cloud offers, or why it can't be read.
    pub(super) cloud: Result<CloudFacts, String>,
    /// The provider that the spec names for its load balancer.
    pub(super) provider: Option<String>,
    /// Whether the spec restricts who may reach the load balancer.
    pub(super) restricts_clients: bool,
    /// The control-plane endpoint, and why no connection to it can be made from here.
    pub(super) endpoint: Option<(String, Result<(), String>)>,
}

/// What a cloud offers to the credentials of a cluster.
#[derive(Debug, Clone)]
pub(super) struct CloudFacts {
    pub(super) interface: Interface,
    /// The settings of the clouds.yaml that have no effect, or make the connection less safe.
    pub(super) remarks: Vec<String>,
    /// Octavia's version; not read for a cluster without a load balancer.
    pub(super) octavia: Option<ApiVersion>,
    /// The regions of the cloud, in the order of the catalogue, if the credentials name none of them.
    pub(super) regions: Vec<String>,
    /// The quotas of the project.
    pub(super) quotas: Vec<Quota>,
    /// The services whose quotas can't be read, with the reason.
    pub(super) unknown_quotas: Vec<String>,
}

impl Facts {
    /// Reads all facts.
    ///
    /// # Errors
    /// What can't be read of the management cluster. A cloud that can't be read is not an error but a fact.
    pub(super) async fn gather(settings: &Settings) -> Result<Self, String> {
        let path = settings.kubeconfig.as_deref();
        let client = kubernetes::connect(path)
            .await
            .map_err(|error| error.to_string())?;
        let unreadable = |what: &'static str| {
            move |error: kube::Error| format!("reading {what}: {}", kubernetes_text(&error))
        };
        // This client converts v1beta1, and sends no write.
        let client = dry_run::recording(client, Arc::new(|_| {}))
            .await
            .map_err(unreadable(
                "the versions of infrastructure.cluster.x-k8s.io",
            ))?;
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let all = definitions.list(&ListParams::default()).await;
        let definitions = all.map_err(unreadable("CustomResourceDefinitions"))?.items;
        let served = |name: &str| {
            let definition = definitions.iter().find(|one| one.name_any() == name);
            let versions = definition.map(|one| one.spec.versions.iter());
            let served = versions
                .into_iter()
                .flatten()
                .filter(|version| version.served);
            served
                .map(|version| version.name.clone())
                .collect::<Vec<_>>()
        };
        let identities: Api<OpenStackClusterIdentity> = Api::all(client.clone());
        let identities = identities.list(&ListParams::default()).await;
        let identities = identities.map_err(unreadable("OpenStackClusterIdentities"))?;
        let open = identities.items.iter();
        let open = open.filter(|identity| identity.spec.namespace_selector.is_none());
        let clusters: Api<OpenStackCluster> = match settings.namespace.as_str() {
            "" => Api::all(client.clone()),
            namespace => Api::namespaced(client.clone(), namespace),
        };
        let of_reach = match settings.watch_filter.as_str() {
            "" => ListParams::default(),
            value => ListParams::default().labels(&format!("{WATCH_FILTER_LABEL}={value}")),
        };
        let listed = clusters.list(&of_reach).await;
        let listed = listed.map_err(unreadable("OpenStackClusters"))?.items;
        let of_clouds = manager::clients(settings).map_err(|error| error.to_string())?;
        let clouds = Clouds::new(of_clouds, LeaseToken::not_held(), Arc::new(NoObserver));
        let mut clusters = Vec::new();
        for cluster in &listed {
            let default = settings.cluster_identity_default;
            clusters.push(ClusterFacts::read(&client, &clouds, default, cluster).await);
        }
        Ok(Self {
            cluster_api: served("clusters.cluster.x-k8s.io"),
            cert_manager: !served("certificates.cert-manager.io").is_empty(),
            definitions: definitions.iter().filter_map(Definition::of).collect(),
            managers: managers::read(&client).await,
            open_identities: open.map(kube::ResourceExt::name_any).collect(),
            clusters,
        })
    }
}

impl ClusterFacts {
    async fn read(
        client: &Client,
        clouds: &Clouds,
        default: ClusterIdentityDefault,
        cluster: &OpenStackCluster,
    ) -> Self {
        let object = Subject::new("OpenStackCluster", &name_of(cluster));
        let balancer = cluster.spec.enabled_load_balancer();
        let cloud = match identity::cloud_of_cluster(client, clouds, default, cluster).await {
            Ok(cloud) => CloudFacts::read(&cloud, balancer.is_some()).await,
            Err(error) => Err(error.to_string()),
        };
        Self {
            object,
            cloud,
            provider: balancer.and_then(|balancer| balancer.provider.clone()),
            restricts_clients: balancer.is_some_and(|balancer| !balancer.allowed_cidrs.is_empty()),
            endpoint: endpoint(cluster).await,
        }
    }
}

impl CloudFacts {
    async fn read(cloud: &Cloud, has_load_balancer: bool) -> Result<Self, String> {
        let steady = Priority::Steady;
        let regions = cloud.regions_to_choose_from().await;
        let mut facts = Self {
            interface: cloud.profile().interface(),
            remarks: cloud.profile().remarks().to_vec(),
            octavia: None,
            regions: regions.map_err(|error| error.to_string())?,
            quotas: Vec::new(),
            unknown_quotas: Vec::new(),
        };
        // No endpoint is called while several regions have one.
        if facts.regions.len() > 1 {
            return Ok(facts);
        }
        let mut read = vec![
            (Service::Compute, cloud.compute_quotas(steady).await),
            (Service::Network, cloud.network_quotas(steady).await),
            (Service::Volume, cloud.volume_quotas(steady).await),
        ];
        if has_load_balancer {
            let version = cloud.load_balancer_api_version(steady).await;
            facts.octavia = Some(version.map_err(|error| error.to_string())?);
            let of_octavia = cloud.load_balancer_quotas(steady).await;
            read.push((Service::LoadBalancer, of_octavia));
        }
        for (service, quotas) in read {
            let known = facts.known(service, quotas);
            facts.quotas.extend(known);
        }
        Ok(facts)
    }

    /// The quotas of a service. If they can't be read, the reason is noted and the result is empty.
    fn known(&mut self, service: Service, quotas: Result<Vec<Quota>, Error>) -> Vec<Quota> {
        quotas.unwrap_or_else(|error| {
            self.unknown_quotas
                .push(format!("{}: {error}", service.name()));
            Vec::new()
        })
    }
}

async fn endpoint(cluster: &OpenStackCluster) -> Option<(String, Result<(), String>)> {
    let endpoint = cluster.spec.control_plane_endpoint.as_ref()?;
    let host = endpoint.host.as_ref().filter(|host| !host.is_empty())?;
    let port = endpoint.port.and_then(|port| u16::try_from(port).ok())?;
    let address = format!("{host}:{port}");
    let connected = tokio::time::timeout(CONNECT, TcpStream::connect((host.as_str(), port))).await;
    let reached = match connected {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.kind().to_string()),
        Err(_) => Err(format!("no connection within {CONNECT:?}")),
    };
    Some((address, reached))
}
