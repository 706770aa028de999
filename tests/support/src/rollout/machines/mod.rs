//! The behaviour of a machine: it boots when its server runs, joins through the endpoint, and ends when Cluster API
//! deletes it or its server ends.

mod node;
mod port;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use fake_cloud::{Control, Event as CloudEvent};
use futures::StreamExt as _;
use kube::{
    Client, ResourceExt as _,
    api::DynamicObject,
    runtime::watcher::{self, Event as WatchEvent},
};
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::OnceCell, sync::broadcast::error::RecvError};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::{
    node::Deed,
    port::{keep_silent, listen},
};
use crate::{
    env::{Error, Guarded, api_server, cluster_api::api},
    rollout::workload_cluster::{PORT, WorkloadCluster},
    timeline::{self, ApiServer, Timeline},
};

const CONTROL_PLANE_HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup";
/// The time from the start of a server to that of its API server. It is shorter than for a real machine, and long
/// enough that its member first fails its checks, as in reality.
const BOOT: Duration = Duration::from_secs(5);
/// The name of the MachineDeployment of the workers, with which the names of their servers begin.
pub const WORKERS: &str = "workers";
/// The pause between two attempts of a step that fails because the cluster is unreachable.
const AGAIN: Duration = Duration::from_millis(250);

/// The cluster whose machines are simulated.
pub struct Cluster {
    /// The client of the management cluster.
    pub client: Client,
    /// The namespace, which is also the name of the Cluster.
    pub name: String,
    pub workload: Arc<WorkloadCluster>,
    /// Ports besides the API server's on which a machine listens.
    pub more_ports: Vec<u16>,
    /// The timeline in which starts and ends of API servers are recorded.
    pub timeline: Timeline,
}

/// The machines of one cluster; their API servers end when this is dropped.
pub struct Machines {
    simulation: Arc<Simulation>,
    _end: DropGuard,
}

struct Simulation {
    cluster: Cluster,
    /// The time from a server's start to the start of its API server.
    boot: Mutex<Duration>,
    /// How long an API server accepts connections before it answers.
    silence: Mutex<Duration>,
    endpoint: OnceCell<SocketAddr>,
    lives: Mutex<Lives>,
    /// Ends the watch of the Machines.
    following: Mutex<CancellationToken>,
    end: CancellationToken,
}

#[derive(Default)]
struct Lives {
    alive: BTreeMap<String, Alive>,
    /// The machines that must not boot any more.
    dead: BTreeSet<String>,
}

struct Alive {
    address: IpAddr,
    api_server: Option<Guarded>,
    life: CancellationToken,
}

impl Machines {
    /// Starts to follow the cloud and the Machines.
    pub fn start(cluster: Cluster, cloud: &Control) -> Self {
        let end = CancellationToken::new();
        let simulation = Arc::new(Simulation {
            cluster,
            boot: Mutex::new(BOOT),
            silence: Mutex::default(),
            endpoint: OnceCell::new(),
            lives: Mutex::default(),
            following: Mutex::default(),
            end: end.clone(),
        });
        tokio::spawn(simulation.clone().follow_cloud(cloud.clone()));
        let machines = Self {
            simulation,
            _end: end.drop_guard(),
        };
        machines.follow(Some(machines.simulation.cluster.client.clone()));
        machines
    }

    /// From now on the Machines of this management cluster are followed, or none: a move deletes the Machines that stay
    /// behind.
    pub fn follow(&self, management: Option<Client>) {
        let next = self.simulation.end.child_token();
        let mut following = self.simulation.following.lock();
        following.cancel();
        following.clone_from(&next);
        if let Some(client) = management {
            tokio::spawn(self.simulation.clone().follow_machines(client, next));
        }
    }

    /// Machines whose API server was started and not killed, with their addresses.
    pub fn alive(&self) -> BTreeMap<String, IpAddr> {
        self.simulation
            .lives()
            .alive
            .iter()
            .map(|(name, alive)| (name.clone(), alive.address))
            .collect()
    }

    /// The addresses of the API servers that have answered and were not killed, at the time of each call.
    pub fn serving(&self) -> impl Fn() -> Vec<SocketAddr> + Send + Sync + use<> {
        let simulation = self.simulation.clone();
        move || {
            let machines = simulation.lives();
            let serving = machines
                .alive
                .values()
                .filter(|alive| alive.api_server.is_some());
            serving
                .map(|alive| SocketAddr::new(alive.address, PORT))
                .collect()
        }
    }

    /// From now on API servers start this long after their servers.
    pub fn set_boot(&self, boot: Duration) {
        *self.simulation.boot.lock() = boot;
    }

    /// From now on API servers accept connections for this long before they answer, as on a slow machine.
    pub fn set_silence(&self, silence: Duration) {
        *self.simulation.silence.lock() = silence;
    }

    /// Makes the Node of a worker not ready. Returns when that is written.
    pub async fn fail_worker(&self, worker: &str) {
        self.simulation.until_done(worker, Deed::Fail).await;
    }

    /// Kills the API server of a machine. Its kubelet continues and reports that the Pod is not ready.
    pub fn crash(&self, machine: &str) {
        if let Some(alive) = self.simulation.lives().alive.get_mut(machine) {
            self.simulation.note_death(machine);
            drop(alive.api_server.take());
        }
        let (simulation, machine) = (self.simulation.clone(), machine.to_owned());
        tokio::spawn(async move {
            simulation.until_done(&machine, Deed::ReportCrash).await;
        });
    }
}

impl Simulation {
    fn lives(&self) -> MutexGuard<'_, Lives> {
        self.lives.lock()
    }

    async fn follow_cloud(self: Arc<Self>, cloud: Control) {
        let mut events = cloud.events();
        loop {
            let event = tokio::select! {
                () = self.end.cancelled() => break,
                event = events.recv() => event,
            };
            match event {
                Ok(CloudEvent::ServerUp {
                    id,
                    name,
                    addresses,
                    ..
                }) => {
                    let address = addresses
                        .first()
                        .and_then(|address| address.parse().ok())
                        .unwrap_or_else(|| panic!("server {name} without an address"));
                    if name.starts_with(WORKERS) {
                        self.clone().boot_worker(name, &id);
                    } else {
                        self.clone().boot(name, id, address);
                    }
                }
                Ok(CloudEvent::ServerDown { name, .. }) => self.kill(&name),
                Ok(_) => {}
                Err(RecvError::Lagged(missed)) => panic!("the simulation missed {missed} events"),
                Err(RecvError::Closed) => break,
            }
        }
        let all: Vec<String> = self.lives().alive.keys().cloned().collect();
        for machine in all {
            self.kill(&machine);
        }
    }

    async fn follow_machines(self: Arc<Self>, client: Client, end: CancellationToken) {
        let machines = api(&client, &self.cluster.name, "Machine");
        let mut events = pin!(watcher::watcher(machines, watcher::Config::default()));
        loop {
            let event = tokio::select! {
                () = end.cancelled() => return,
                event = events.next() => event,
            };
            match event {
                Some(Ok(WatchEvent::Apply(machine) | WatchEvent::InitApply(machine))) => {
                    let let_go = machine.metadata.deletion_timestamp.is_some()
                        && !machine.annotations().contains_key(CONTROL_PLANE_HOOK);
                    if let_go {
                        self.let_go(&machine);
                    }
                }
                Some(Ok(WatchEvent::Delete(machine))) => self.let_go(&machine),
                Some(_) => {}
                None => return,
            }
        }
    }

    fn let_go(self: &Arc<Self>, machine: &DynamicObject) {
        let server = machine.data["spec"]["infrastructureRef"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if !self.lives().dead.insert(server.clone()) {
            return;
        }
        self.kill(&server);
        let simulation = self.clone();
        tokio::spawn(async move {
            simulation.until_done(&server, Deed::RemovePods).await;
        });
    }

    fn kill(&self, machine: &str) {
        let mut machines = self.lives();
        let Some(alive) = machines.alive.remove(machine) else {
            return;
        };
        self.note_death(machine);
        alive.life.cancel();
        drop(alive.api_server);
    }

    /// Records the end of an API server before it happens, so that no check counts on that API server any more.
    fn note_death(&self, machine: &str) {
        let killed = timeline::What::ApiServer(machine.to_owned(), ApiServer::Killed);
        self.cluster.timeline.note(killed);
    }

    /// Boots a worker, which needs no API server and joins through the endpoint.
    fn boot_worker(self: Arc<Self>, worker: String, server: &str) {
        let provider_id = format!("openstack:///{server}");
        tokio::spawn(async move {
            let join = Deed::JoinAsWorker { provider_id };
            self.until_done(&worker, join).await;
        });
    }

    fn boot(self: Arc<Self>, machine: String, server: String, address: IpAddr) {
        let life = self.end.child_token();
        {
            let mut machines = self.lives();
            if machines.dead.contains(&machine) || machines.alive.contains_key(&machine) {
                return;
            }
            let alive = Alive {
                address,
                api_server: None,
                life: life.clone(),
            };
            machines.alive.insert(machine.clone(), alive);
        }
        tokio::spawn(async move {
            tokio::select! {
                () = life.cancelled() => {}
                booted = self.live(&machine, &server, address) => {
                    if let Err(error) = booted {
                        panic!("{machine} did not boot: {error}");
                    }
                    // The other ports stay open until the machine ends.
                    let listeners = self.cluster.more_ports.iter().map(|port| listen(address, *port));
                    futures::future::join_all(listeners).await;
                }
            }
        });
    }

    async fn live(&self, machine: &str, server: &str, address: IpAddr) -> Result<(), Error> {
        let boot = *self.boot.lock();
        tokio::time::sleep(boot).await;
        let endpoint = self.endpoint().await;
        let mut process =
            self.cluster
                .workload
                .start_api_server(machine, address, endpoint.ip())?;
        let silence = *self.silence.lock();
        if !silence.is_zero() {
            keep_silent(&process, address, silence).await?;
        }
        let own = self
            .cluster
            .workload
            .client(SocketAddr::new(address, PORT))?;
        api_server::until_ready(&mut process, &own).await?;
        {
            let mut machines = self.lives();
            let Some(alive) = machines.alive.get_mut(machine) else {
                return Ok(());
            };
            alive.api_server = Some(process);
            let ready = timeline::What::ApiServer(machine.to_owned(), ApiServer::Ready);
            self.cluster.timeline.note(ready);
        }
        let provider_id = format!("openstack:///{server}");
        self.until_done(machine, Deed::Join { provider_id }).await;
        Ok(())
    }

    /// The endpoint that the Cluster has.
    async fn endpoint(&self) -> SocketAddr {
        *self
            .endpoint
            .get_or_init(|| async {
                loop {
                    if let Some(endpoint) = endpoint(&self.cluster.client, &self.cluster.name).await
                    {
                        return endpoint;
                    }
                    tokio::time::sleep(AGAIN).await;
                }
            })
            .await
    }

    /// Repeats the step through the endpoint until it has succeeded.
    async fn until_done(&self, machine: &str, deed: Deed) {
        let trying = async {
            loop {
                // Every attempt uses a new client, so that none reuses a dead connection.
                if let Ok(client) = self.cluster.workload.client(self.endpoint().await)
                    && deed.carry_out(&client, machine).await.is_ok()
                {
                    return;
                }
                tokio::time::sleep(AGAIN).await;
            }
        };
        tokio::select! {
            () = self.end.cancelled() => {}
            () = trying => {}
        }
    }
}

/// The endpoint in the Cluster, if it is set.
pub async fn endpoint(client: &Client, name: &str) -> Option<SocketAddr> {
    let cluster = api(client, name, "Cluster").get_opt(name).await.ok()??;
    let endpoint = &cluster.data["spec"]["controlPlaneEndpoint"];
    Some(SocketAddr::new(
        endpoint["host"].as_str()?.parse().ok()?,
        endpoint["port"].as_u64()?.try_into().ok()?,
    ))
}
