//! Starts the watches and the controllers.

use std::{
    hash::{DefaultHasher, Hash},
    sync::Arc,
};

use futures::FutureExt;
use kube::{Client, ResourceExt, runtime::reflector::ObjectRef};
use tokio_util::sync::CancellationToken;

use super::{
    Context, PassObserver, Settings, Stores,
    capi::{self, Cluster, Machine},
    cluster,
    context::Queues,
    machine, secret_rotation, server, simple_controllers,
};
use crate::{
    kubernetes::events::Events,
    reconcile::{
        ObjectCache, SharedContext,
        health_check::MachineHealthCheck,
        identity::SecretVersions,
        name_of,
        related_objects::ContractKinds,
        runner::{Controller, Runner},
        transition_events,
        watches::{Route, Target, Watch, has_conditions},
    },
    tracker::Membership,
};
use capo_api::{
    v1alpha1::OpenStackServer,
    v1beta2::{OpenStackCluster, OpenStackMachine},
};
use capo_core::ObjectName;
use capo_openstack::Clouds;

/// What the manager brings.
pub struct Parts {
    /// The Kubernetes API of the management cluster. Its own retries should be off or few: every pass
    /// is repeated anyway.
    pub client: Client,
    /// Sign-ins and budgets.
    pub clouds: Clouds,
    /// The load balancers' workers.
    pub membership: Membership,
    /// The options of this manager.
    pub settings: Settings,
    /// Metrics.
    pub observer: Arc<dyn PassObserver>,
    /// Called once every kind was listed completely.
    pub synced: Box<dyn FnOnce(&Stores) + Send>,
}

/// Runs the controllers of every kind until `shutdown`; passes under way then have a moment to end.
pub async fn run(parts: Parts, shutdown: CancellationToken) {
    let Parts {
        client,
        clouds,
        membership,
        settings,
        observer,
        synced,
    } = parts;
    let filter = settings.label_selector();
    let filter = filter.as_deref();
    let clusters = Watch::<Cluster>::new(SharedContext::watched(&client, &settings), None);
    let machines = Watch::<Machine>::new(SharedContext::watched(&client, &settings), None);
    let checks = Watch::<MachineHealthCheck>::new(SharedContext::watched(&client, &settings), None);
    let our_clusters =
        Watch::<OpenStackCluster>::new(SharedContext::watched(&client, &settings), filter)
            .with_status(has_conditions!());
    let our_machines =
        Watch::<OpenStackMachine>::new(SharedContext::watched(&client, &settings), filter)
            .with_status(has_conditions!());
    let our_servers =
        Watch::<OpenStackServer>::new(SharedContext::watched(&client, &settings), None)
            .with_status(has_conditions!());
    let stores = Stores {
        clusters: clusters.store(),
        machines: machines.store(),
        health_checks: checks.store(),
        openstack_clusters: our_clusters.store(),
        openstack_machines: our_machines.store(),
        openstack_servers: our_servers.store(),
    };
    let counter = observer.clone();
    let (events, tell) = Events::new(
        client.clone(),
        settings.instance.clone(),
        move |reason, kind| counter.event(reason, kind),
        shutdown.clone(),
    );
    // What the load balancers' workers find new goes straight into the queues of the controllers.
    let queues = Queues {
        clusters: membership.cluster_queue(),
        machines: membership.machine_queue(),
        ..Queues::default()
    };
    let memory = server::Memory::default();
    let follow = follow_all(
        (clusters, machines, our_clusters, our_machines, our_servers),
        &memory,
        &stores,
        &queues,
        &membership,
        &observer,
        &shutdown,
    );
    let runner = Runner {
        observer: observer.clone(),
        client: client.clone(),
        sync_period: settings.sync_period,
        shutdown: shutdown.clone(),
    };
    let follow_checks = checks.run(
        (observer.clone(), shutdown),
        |_, _| {},
        |_| Route {
            own: Vec::new(),
            related: Vec::new(),
        },
        |_: &Target| {},
    );
    let context = Arc::new(Context {
        shared: SharedContext {
            client,
            clouds,
            secret_versions: SecretVersions::default(),
            membership,
            settings,
            events,
            stores,
            observer,
        },
        clusters: ObjectCache::default(),
        contract_kinds: ContractKinds::default(),
        machines: ObjectCache::default(),
        machine_templates: ObjectCache::default(),
        servers: memory,
        queues,
    });
    let controllers = controllers(context, runner, synced);
    futures::join!(follow, follow_checks, tell, controllers);
}

/// Every controller, once all stores are complete: a pass that sees half of the Machines decides wrongly.
async fn controllers(
    context: Arc<Context>,
    runner: Runner,
    synced: Box<dyn FnOnce(&Stores) + Send>,
) {
    tokio::select! {
        ready = context.stores.wait_until_ready() => if !ready { return },
        () = runner.shutdown.cancelled() => return,
    }
    synced(&context.stores);
    let (stores, queues) = (context.stores.clone(), context.queues.clone());
    let settings = &context.settings;
    let clusters = Controller {
        name: cluster::CONTROLLER,
        pass: cluster::pass,
        store: stores.openstack_clusters,
        queue: queues.clusters,
        concurrency: settings.cluster_concurrency,
    };
    let machines = Controller {
        name: machine::CONTROLLER,
        pass: machine::pass,
        store: stores.openstack_machines,
        queue: queues.machines,
        concurrency: settings.machine_concurrency,
    };
    let servers = Controller {
        name: server::CONTROLLER,
        pass: server::pass,
        store: stores.openstack_servers,
        queue: queues.servers,
        concurrency: settings.machine_concurrency,
    };
    futures::join!(
        transition_events::run(&context, runner.shutdown.clone()),
        runner.clone().run(clusters, context.clone()).boxed(),
        runner.clone().run(machines, context.clone()).boxed(),
        runner.clone().run(servers, context.clone()).boxed(),
        simple_controllers::run(context.clone(), runner.clone()).boxed(),
        secret_rotation::run(&context, runner.shutdown.clone()).boxed(),
        server::image_objects::run(&context, runner.shutdown.clone()).boxed(),
    );
}

type Watches = (
    Watch<Cluster>,
    Watch<Machine>,
    Watch<OpenStackCluster>,
    Watch<OpenStackMachine>,
    Watch<OpenStackServer>,
);

/// Follows every kind. What each hash covers is what other controllers depend on.
fn follow_all(
    (clusters, machines, our_clusters, our_machines, our_servers): Watches,
    memory: &server::Memory,
    stores: &Stores,
    queues: &Queues,
    membership: &Membership,
    observer: &Arc<dyn PassObserver>,
    shutdown: &CancellationToken,
) -> impl Future<Output = ()> + use<> {
    let enqueue = || enqueue(queues.clone(), stores.clone(), membership.clone());
    let parts = || (observer.clone(), shutdown.clone());
    let clusters = clusters.run(parts(), hash_cluster, cluster_route, enqueue());
    let machines = machines.run(parts(), hash_machine, machine_route, enqueue());
    let our_clusters = our_clusters.run(parts(), hash_our_cluster, our_cluster_route, enqueue());
    // No other controller depends on one.
    let our_machines = our_machines.run(parts(), |_, _| {}, our_machine_route, enqueue());
    let holders = memory.holders.clone();
    let route_server = move |server: &OpenStackServer| {
        holders.note(server);
        our_server_route(server)
    };
    let our_servers = our_servers.run(parts(), hash_our_server, route_server, enqueue());
    async move {
        futures::join!(clusters, machines, our_clusters, our_machines, our_servers);
    }
}

fn enqueue(queues: Queues, stores: Stores, membership: Membership) -> impl Fn(&Target) + Send {
    move |target| match target {
        Target::Cluster(name) => queues.clusters.enqueue(name),
        Target::VanishedCluster(name) => {
            let key = ObjectRef::new(&name.name).within(&name.namespace);
            if stores.openstack_clusters.get(&key).is_none() {
                membership.forget_load_balancer(name);
            }
        }
        Target::Machine(name) => {
            // Its finalizer was taken off, so that it went without a pass of ours.
            let key = ObjectRef::new(&name.name).within(&name.namespace);
            if stores.openstack_machines.get(&key).is_none() {
                membership.forget_machine(name);
            }
            queues.machines.enqueue(name);
        }
        Target::Server(name) => queues.servers.enqueue(name),
        Target::ClusterOf(cluster) => {
            let reference = ObjectRef::new(&cluster.name).within(&cluster.namespace);
            let infrastructure = stores
                .clusters
                .get(&reference)
                .and_then(|cluster| cluster.spec.infrastructure_ref.clone());
            if let Some(infrastructure) = infrastructure {
                let name = ObjectName::new(&cluster.namespace, &infrastructure.name);
                queues.clusters.enqueue(&name);
            }
        }
        Target::MachinesOf(cluster) => {
            let theirs = stores.openstack_machines.state_filter(|machine| {
                machine.metadata.namespace.as_ref() == Some(&cluster.namespace)
                    && machine.labels().get(capi::CLUSTER_NAME_LABEL) == Some(&cluster.name)
            });
            for machine in theirs {
                queues.machines.enqueue(&name_of(&*machine));
            }
        }
    }
}

/// The parts of a Cluster that decide something here.
fn hash_cluster(cluster: &Cluster, hasher: &mut DefaultHasher) {
    hash_meta(&cluster.metadata, hasher);
    (cluster.status.initialization.infrastructure_provisioned).hash(hasher);
    (cluster.status.initialization.control_plane_initialized).hash(hasher);
    hash_conditions(
        &cluster.status.conditions,
        &["RemoteConnectionProbe"],
        hasher,
    );
}

/// The parts of a Machine that decide something here.
fn hash_machine(machine: &Machine, hasher: &mut DefaultHasher) {
    hash_meta(&machine.metadata, hasher);
    machine.status.node_ref.is_some().hash(hasher);
    machine.held_at().hash(hasher);
    let kinds = ["APIServerPodHealthy", "NodeHealthy", "Deleting"];
    hash_conditions(&machine.status.conditions, &kinds, hasher);
}

/// The parts of an `OpenStackCluster` that its machines depend on.
fn hash_our_cluster(cluster: &OpenStackCluster, hasher: &mut DefaultHasher) {
    hash_meta(&cluster.metadata, hasher);
    if let Some(status) = &cluster.status {
        let id = |id: Option<&String>| id.cloned();
        let balancer = status.api_server_managed_load_balancer.as_ref();
        (
            id(status.network.as_ref().and_then(|n| n.id.as_ref())),
            id(balancer.and_then(|lb| lb.id.as_ref())),
            id(status.control_plane_security_group.as_ref().map(|g| &g.id)),
            id(status.worker_security_group.as_ref().map(|g| &g.id)),
            status.initialization.as_ref().and_then(|i| i.provisioned),
        )
            .hash(hasher);
    }
}

/// The parts of an `OpenStackServer` that its machine depends on: its whole status without times.
fn hash_our_server(server: &OpenStackServer, hasher: &mut DefaultHasher) {
    hash_meta(&server.metadata, hasher);
    if let Some(status) = &server.status {
        for condition in &status.conditions {
            (
                &condition.type_,
                &condition.status,
                &condition.reason,
                &condition.message,
            )
                .hash(hasher);
        }
        let mut rest = status.clone();
        rest.conditions.clear();
        serde_json::to_string(&rest)
            .unwrap_or_default()
            .hash(hasher);
    }
}

/// With the owners: a control plane finds its Machines by them.
fn hash_meta(
    meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    hasher: &mut DefaultHasher,
) {
    (&meta.uid, meta.generation, &meta.labels, &meta.annotations).hash(hasher);
    meta.deletion_timestamp.is_some().hash(hasher);
    for owner in meta.owner_references.iter().flatten() {
        (&owner.kind, &owner.name, &owner.uid).hash(hasher);
    }
}

fn hash_conditions(conditions: &[capi::SeenCondition], kinds: &[&str], hasher: &mut DefaultHasher) {
    for kind in kinds {
        let found = conditions.iter().find(|condition| condition.kind == *kind);
        found.map(|c| (&c.status, &c.reason)).hash(hasher);
    }
}

fn cluster_route(cluster: &Cluster) -> Route {
    let mut related = vec![Target::MachinesOf(name_of(cluster))];
    if let Some(infrastructure) = &cluster.spec.infrastructure_ref {
        let namespace = cluster.namespace().unwrap_or_default();
        related.push(Target::Cluster(ObjectName::new(
            namespace,
            &infrastructure.name,
        )));
    }
    Route {
        own: Vec::new(),
        related,
    }
}

fn machine_route(machine: &Machine) -> Route {
    let namespace = machine.namespace().unwrap_or_default();
    let mut related = Vec::new();
    if let Some(infrastructure) = &machine.spec.infrastructure_ref {
        related.push(Target::Machine(ObjectName::new(
            &namespace,
            &infrastructure.name,
        )));
    }
    related.push(Target::ClusterOf(ObjectName::new(
        &namespace,
        &machine.spec.cluster_name,
    )));
    Route {
        own: Vec::new(),
        related,
    }
}

fn our_cluster_route(cluster: &OpenStackCluster) -> Route {
    let namespace = cluster.namespace().unwrap_or_default();
    let owner = capi::owner(&cluster.metadata, "Cluster");
    Route {
        own: vec![Target::Cluster(name_of(cluster))],
        related: owner
            .map(|owner| Target::MachinesOf(ObjectName::new(namespace, &owner.name)))
            .into_iter()
            .chain([Target::VanishedCluster(name_of(cluster))])
            .collect(),
    }
}

fn our_machine_route(machine: &OpenStackMachine) -> Route {
    Route {
        own: vec![Target::Machine(name_of(machine))],
        related: vec![Target::Machine(name_of(machine))],
    }
}

fn our_server_route(server: &OpenStackServer) -> Route {
    let name = name_of(server);
    let owners = server.metadata.owner_references.iter().flatten();
    let owner = owners
        .into_iter()
        .find(|owner| owner.kind == "OpenStackCluster");
    let related = match owner {
        // It is the bastion of this cluster.
        Some(owner) => Target::Cluster(ObjectName::new(&name.namespace, &owner.name)),
        None => Target::Machine(name.clone()),
    };
    Route {
        own: vec![Target::Server(name)],
        related: vec![related],
    }
}
