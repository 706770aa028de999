//! Reads that the callers of one cloud and project share: one call serves all callers that need the same object.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use capo_core::{
    Priority,
    ids::{FlavorId, ImageId, LoadBalancerId, MonitorId, PortId, ProjectId, ServerId},
};

use tokio::time::Instant;

use crate::{
    cloud::Cloud,
    compute::{AvailabilityZone, Flavor, Server, ServerFilter, ServerGroup},
    error::Error,
    image::{Image, ImageFilter},
    load_balancer::{HealthMonitor, HealthMonitorFilter, Listener, Pool},
    network::{
        Network, NetworkFilter, Port, PortFilter, ProjectNetworking, SecurityGroup,
        SecurityGroupFilter, Subnet, SubnetFilter,
    },
    read_cache::{Read, ReadCache},
};

/// The number of ids in one list of ports, so that the request's address stays below 4 KiB.
const IDS_A_CALL: usize = 64;

/// The shared reads of a cloud; see [`Cloud::shared_reads`].
#[derive(Debug, Clone, Copy)]
pub struct SharedReads<'a>(&'a Cloud);

impl Cloud {
    /// The reads that this handle shares with all others of the same profile.
    pub fn shared_reads(&self) -> SharedReads<'_> {
        SharedReads(self)
    }
}

impl SharedReads<'_> {
    /// The server `id` in a read that was sent at `oldest` or later. Servers that several callers wait for are read by
    /// one list. A server that the list lacks is read by its id, and that answer counts.
    pub async fn server(
        &self,
        id: &ServerId,
        oldest: std::time::Instant,
        priority: Priority,
    ) -> Result<Read<Server>, Error> {
        let cloud = self.0;
        let one = |id| async move { cloud.server(&id, priority).await };
        let all = |_| async move {
            let all = cloud.servers(&ServerFilter::default(), priority).await?;
            let keyed = all.into_iter().map(|server| (server.id.clone(), server));
            Ok(keyed.collect())
        };
        let servers = &self.cache().servers;
        servers.get(id, oldest, priority, one, all).await
    }

    /// Notes that the server `id`, which was just created, will be read soon. The next list then counts it.
    pub fn expect_server(&self, id: &ServerId) {
        self.cache().servers.anticipate(id);
    }

    /// How many servers callers need at present.
    pub fn awaited_servers(&self) -> u32 {
        self.cache().servers.awaited()
    }

    /// The ids of the servers of exactly this name in a read that was sent at `oldest` or later. If several callers
    /// wait, one list serves all of them.
    pub async fn server_ids(
        &self,
        name: &str,
        oldest: std::time::Instant,
        priority: Priority,
    ) -> Result<Vec<ServerId>, Error> {
        let cloud = self.0;
        let one = |name| async move {
            let filter = ServerFilter {
                name: Some(name),
                ..ServerFilter::default()
            };
            let found = cloud.servers(&filter, priority).await?;
            Ok(found.into_iter().map(|server| server.id).collect())
        };
        let all = |_| async move {
            let began = Instant::now();
            let all = cloud.servers(&ServerFilter::default(), priority).await?;
            let names: Vec<_> = all
                .iter()
                .map(|it| (it.name.clone(), it.id.clone()))
                .collect();
            let keyed = all.into_iter().map(|server| (server.id.clone(), server));
            // The list also serves callers that read a server by its id.
            self.cache().servers.offer(keyed.collect(), began);
            Ok(grouped(names.into_iter()))
        };
        let ids = &self.cache().server_ids;
        let read = ids
            .get(&name.to_owned(), oldest, priority, one, all)
            .await?;
        Ok(read.value)
    }

    /// The ports of exactly this name in `project`, which is the project of this cloud's credentials, in a read that
    /// was sent at `oldest` or later. If several callers wait, one list serves all of them.
    pub async fn ports_named(
        &self,
        name: &str,
        project: &ProjectId,
        oldest: std::time::Instant,
        priority: Priority,
    ) -> Result<Vec<Port>, Error> {
        let cloud = self.0;
        let ports = |name: Option<String>| async move {
            let filter = PortFilter {
                name,
                project_id: Some(project.clone()),
                ..PortFilter::default()
            };
            cloud.ports(&filter, priority).await
        };
        let one = |name| ports(Some(name));
        let all = |_| async move {
            let all = ports(None).await?;
            Ok(grouped(all.into_iter().map(|it| (it.name.clone(), it))))
        };
        let named = &self.cache().ports_by_name;
        let read = named
            .get(&name.to_owned(), oldest, priority, one, all)
            .await?;
        Ok(read.value)
    }

    /// The port `id` in a read that was sent at `oldest` or later; see [`SharedReads::server`].
    pub async fn port(
        &self,
        id: &PortId,
        oldest: std::time::Instant,
        priority: Priority,
    ) -> Result<Read<Port>, Error> {
        let cloud = self.0;
        let one = |id| async move { cloud.port(&id, priority).await };
        let all = |ids: Vec<PortId>| async move {
            let mut all = Vec::with_capacity(ids.len());
            for ids in ids.chunks(IDS_A_CALL) {
                let filter = PortFilter {
                    ids: ids.to_vec(),
                    ..PortFilter::default()
                };
                let found = cloud.ports(&filter, priority).await?;
                all.extend(found.into_iter().map(|port| (port.id.clone(), port)));
            }
            Ok(all)
        };
        let ports = &self.cache().ports;
        ports.get(id, oldest, priority, one, all).await
    }

    /// The listeners of a load balancer in a read that is sent from now on. If several callers wait, as after a start,
    /// one list of the project's listeners serves all of them.
    pub async fn listeners(
        &self,
        load_balancer: &LoadBalancerId,
        priority: Priority,
    ) -> Result<Vec<Listener>, Error> {
        let cloud = self.0;
        let one = |id| async move { cloud.listeners(&id, priority).await };
        let all = |_| async move {
            let project = cloud.project_id().await?;
            let all = cloud.listeners_of_project(&project, priority).await?;
            let owned = all.into_iter().filter_map(|listener| {
                Some((listener.loadbalancers.first()?.id.clone(), listener))
            });
            Ok(grouped(owned))
        };
        let listeners = &self.cache().listeners;
        let now = std::time::Instant::now();
        let read = listeners
            .get(load_balancer, now, priority, one, all)
            .await?;
        Ok(read.value)
    }

    /// The pools of a load balancer; see [`SharedReads::listeners`].
    pub async fn pools(
        &self,
        load_balancer: &LoadBalancerId,
        priority: Priority,
    ) -> Result<Vec<Pool>, Error> {
        let cloud = self.0;
        let one = |id| async move { cloud.pools(&id, priority).await };
        let all = |_| async move {
            let project = cloud.project_id().await?;
            let all = cloud.pools_of_project(&project, priority).await?;
            let owned = all
                .into_iter()
                .filter_map(|pool| Some((pool.loadbalancers.first()?.id.clone(), pool)));
            Ok(grouped(owned))
        };
        let pools = &self.cache().pools;
        let now = std::time::Instant::now();
        let read = pools.get(load_balancer, now, priority, one, all).await?;
        Ok(read.value)
    }

    /// A health monitor; see [`SharedReads::listeners`].
    pub async fn health_monitor(
        &self,
        id: &MonitorId,
        priority: Priority,
    ) -> Result<HealthMonitor, Error> {
        let cloud = self.0;
        let one = |id| async move { cloud.health_monitor(&id, priority).await };
        let all = |_| async move {
            let filter = HealthMonitorFilter {
                project_id: Some(cloud.project_id().await?),
                ..HealthMonitorFilter::default()
            };
            let all = cloud.health_monitors(&filter, priority).await?;
            let keyed = all.into_iter().map(|monitor| (monitor.id.clone(), monitor));
            Ok(keyed.collect())
        };
        let monitors = &self.cache().monitors;
        let now = std::time::Instant::now();
        Ok(monitors.get(id, now, priority, one, all).await?.value)
    }

    /// All flavors this project may use, read at most `age` ago.
    pub async fn flavors(
        &self,
        age: Duration,
        priority: Priority,
    ) -> Result<Arc<Vec<Flavor>>, Error> {
        let read = || async { self.0.flavors(priority).await.map(Arc::new) };
        self.cache().flavors.get(age, read).await
    }

    /// One flavor, read at most `age` ago.
    pub async fn flavor(
        &self,
        id: &FlavorId,
        age: Duration,
        priority: Priority,
    ) -> Result<Flavor, Error> {
        let flavor = self.cache().flavor.of(id);
        flavor.get(age, || self.0.flavor(id, priority)).await
    }

    /// One image, read at most `age` ago.
    pub async fn image(
        &self,
        id: &ImageId,
        age: Duration,
        priority: Priority,
    ) -> Result<Image, Error> {
        let image = self.cache().image.of(id);
        image.get(age, || self.0.image(id, priority)).await
    }

    /// The images that match, read at most `age` ago.
    pub async fn images(
        &self,
        filter: &ImageFilter,
        age: Duration,
        priority: Priority,
    ) -> Result<Vec<Image>, Error> {
        let images = self.cache().images.of(filter);
        images.get(age, || self.0.images(filter, priority)).await
    }

    /// The networks that match, read at most `age` ago.
    pub async fn networks(
        &self,
        filter: &NetworkFilter,
        age: Duration,
        priority: Priority,
    ) -> Result<Vec<Network>, Error> {
        let networks = self.cache().networks.of(filter);
        let read = || self.0.networks(filter, priority);
        networks.get(age, read).await
    }

    /// The subnets that match, read at most `age` ago.
    pub async fn subnets(
        &self,
        filter: &SubnetFilter,
        age: Duration,
        priority: Priority,
    ) -> Result<Vec<Subnet>, Error> {
        let subnets = self.cache().subnets.of(filter);
        subnets.get(age, || self.0.subnets(filter, priority)).await
    }

    /// The security groups that match, read at most `age` ago.
    pub async fn security_groups(
        &self,
        filter: &SecurityGroupFilter,
        age: Duration,
        priority: Priority,
    ) -> Result<Vec<SecurityGroup>, Error> {
        let groups = self.cache().security_groups.of(filter);
        let read = || self.0.security_groups(filter, priority);
        groups.get(age, read).await
    }

    /// The networking of the project as hashes, read at most `age` ago.
    pub async fn project_networking(
        &self,
        age: Duration,
        priority: Priority,
    ) -> Result<Arc<ProjectNetworking>, Error> {
        let read = || async {
            ProjectNetworking::read(self.0, priority)
                .await
                .map(Arc::new)
        };
        self.cache().project_networking.get(age, read).await
    }

    /// The availability zones, read at most `age` ago.
    pub async fn availability_zones(
        &self,
        age: Duration,
        priority: Priority,
    ) -> Result<Arc<Vec<AvailabilityZone>>, Error> {
        let read = || async { self.0.availability_zones(priority).await.map(Arc::new) };
        self.cache().zones.get(age, read).await
    }

    /// The project's server groups, read at most `age` ago.
    pub async fn server_groups(
        &self,
        age: Duration,
        priority: Priority,
    ) -> Result<Arc<Vec<ServerGroup>>, Error> {
        let read = || async { self.0.server_groups(priority).await.map(Arc::new) };
        self.cache().groups.get(age, read).await
    }

    fn cache(&self) -> &ReadCache {
        &self.0.0.read_cache
    }
}

/// Groups the values by key.
fn grouped<K: Ord, V>(keyed: impl Iterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: BTreeMap<K, Vec<V>> = BTreeMap::new();
    for (key, value) in keyed {
        groups.entry(key).or_default().push(value);
    }
    groups.into_iter().collect()
}
