//! Starts the watches and the controllers.

use std::{
    hash::{DefaultHasher, Hash},
    sync::Arc,
};

use futures::{FutureExt, StreamExt, future::BoxFuture};
use kube::{Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::{
    Context, Observer, Settings, Stores, alone,
    backoff::Backoff,
    capi::{self, Cluster, Machine},
    cluster::{self, memory::Memory},
    health_check::MachineHealthCheck,
    machine, machine_template, news, pass, server,
    wakes::Wakes,
    watches::{Route, Target, Watch, has_conditions},
};
use crate::{status::events::Events, tracker::Membership};
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
    /// The load balancers' tasks.
    pub membership: Membership,
    /// How this manager was told to work.
    pub settings: Settings,
    /// Told what happens.
    pub observer: Arc<dyn Observer>,
    /// Called once every kind was listed completely.
    pub synced: Box<dyn FnOnce(&Stores) + Send>,
}

/// Who is woken for what.
#[derive(Debug, Clone, Default)]
struct Bells {
    clusters: Wakes,
    machines: Wakes,
    servers: Wakes,
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
    let clusters = Watch::<Cluster>::new(Context::watched(&client, &settings), None);
    let machines = Watch::<Machine>::new(Context::watched(&client, &settings), None);
    let checks = Watch::<MachineHealthCheck>::new(Context::watched(&client, &settings), None);
    let our_clusters = Watch::<OpenStackCluster>::new(Context::watched(&client, &settings), filter)
        .with_status(has_conditions!());
    let our_machines = Watch::<OpenStackMachine>::new(Context::watched(&client, &settings), filter)
        .with_status(has_conditions!());
    let our_servers = Watch::<OpenStackServer>::new(Context::watched(&client, &settings), None)
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
    let bells = Bells::default();
    let follow = follow_all(
        (clusters, machines, our_clusters, our_machines, our_servers),
        &stores,
        &bells,
        &membership,
        &observer,
        &shutdown,
    );
    let context = Arc::new(Context {
        client,
        clouds,
        membership,
        settings,
        events,
        stores,
        observer,
        backoff: Backoff::default(),
        logged: pass::Logged::default(),
        clusters: Memory::default(),
        machines: machine::Memory::default(),
        machine_templates: machine_template::Memory::default(),
        servers: server::Memory::default(),
        machine_wakes: bells.machines.clone(),
        server_wakes: bells.servers.clone(),
    });
    let follow_checks = checks.run(
        (context.observer.clone(), shutdown.clone()),
        |_, _| {},
        |_| Route {
            own: Vec::new(),
            neighbours: Vec::new(),
        },
        |_: &Target| {},
    );
    let controllers = controllers(context, bells, synced, shutdown);
    futures::join!(follow, follow_checks, tell, controllers);
}

/// Every controller, once all stores are complete: a pass that sees half of the Machines decides wrongly.
async fn controllers(
    context: Arc<Context>,
    bells: Bells,
    synced: Box<dyn FnOnce(&Stores) + Send>,
    shutdown: CancellationToken,
) {
    tokio::select! {
        ready = context.stores.wait_until_ready() => if !ready { return },
        () = shutdown.cancelled() => return,
    }
    synced(&context.stores);
    let settings = &context.settings;
    let (of_clusters, of_machines) = (settings.cluster_concurrency, settings.machine_concurrency);
    let membership_wakes = forward(&context, &bells, &shutdown);
    let news = news::tell(context.clone(), shutdown.clone());
    let passes: Vec<BoxFuture<'static, ()>> = vec![
        pass::run(
            cluster::CONTROLLER,
            cluster::pass,
            context.stores.openstack_clusters.clone(),
            bells.clusters.clone(),
            of_clusters,
            context.clone(),
            shutdown.clone(),
        )
        .boxed(),
        pass::run(
            machine::CONTROLLER,
            machine::pass,
            context.stores.openstack_machines.clone(),
            bells.machines.clone(),
            of_machines,
            context.clone(),
            shutdown.clone(),
        )
        .boxed(),
        pass::run(
            server::CONTROLLER,
            server::pass,
            context.stores.openstack_servers.clone(),
            bells.servers.clone(),
            of_machines,
            context.clone(),
            shutdown.clone(),
        )
        .boxed(),
        alone::run(context.clone(), shutdown.clone()).boxed(),
    ];
    futures::join!(membership_wakes, news, futures::future::join_all(passes));
}

/// Objects whose load balancer's findings changed want a pass.
async fn forward(context: &Context, bells: &Bells, shutdown: &CancellationToken) {
    let clusters = context.membership.cluster_wakes().for_each(|name| {
        bells.clusters.wake(name);
        std::future::ready(())
    });
    let machines = context.membership.machine_wakes().for_each(|name| {
        bells.machines.wake(name);
        std::future::ready(())
    });
    tokio::select! {
        _ = futures::future::join(clusters, machines) => {}
        () = shutdown.cancelled() => {}
    }
}

type Watches = (
    Watch<Cluster>,
    Watch<Machine>,
    Watch<OpenStackCluster>,
    Watch<OpenStackMachine>,
    Watch<OpenStackServer>,
);

/// Follows every kind. What each `neighbours` closure hashes is what other controllers look at.
fn follow_all(
    (clusters, machines, our_clusters, our_machines, our_servers): Watches,
    stores: &Stores,
    bells: &Bells,
    membership: &Membership,
    observer: &Arc<dyn Observer>,
    shutdown: &CancellationToken,
) -> impl Future<Output = ()> + use<> {
    let ring = |bells: &Bells| ring(bells.clone(), stores.clone(), membership.clone());
    let tell = || (observer.clone(), shutdown.clone());
    let clusters = clusters.run(tell(), hash_cluster, cluster_route, ring(bells));
    let machines = machines.run(tell(), hash_machine, machine_route, ring(bells));
    let our_clusters = our_clusters.run(tell(), hash_our_cluster, our_cluster_route, ring(bells));
    // Nobody else looks at one.
    let our_machines = our_machines.run(tell(), |_, _| {}, our_machine_route, ring(bells));
    let our_servers = our_servers.run(tell(), hash_our_server, our_server_route, ring(bells));
    async move {
        futures::join!(clusters, machines, our_clusters, our_machines, our_servers);
    }
}

fn ring(bells: Bells, stores: Stores, membership: Membership) -> impl Fn(&Target) + Send {
    move |target| match target {
        Target::Cluster(name) => bells.clusters.wake(name.clone()),
        Target::Machine(name) => {
            // One that went without a pass of ours: its finalizer was stripped.
            let key = kube::runtime::reflector::ObjectRef::new(&name.name).within(&name.namespace);
            if stores.openstack_machines.get(&key).is_none() {
                membership.forget_machine(name);
            }
            bells.machines.wake(name.clone());
        }
        Target::Server(name) => bells.servers.wake(name.clone()),
        Target::ClusterOf(cluster) => {
            let reference =
                kube::runtime::reflector::ObjectRef::new(&cluster.name).within(&cluster.namespace);
            let infrastructure = stores
                .clusters
                .get(&reference)
                .and_then(|cluster| cluster.spec.infrastructure_ref.clone());
            if let Some(infrastructure) = infrastructure {
                let name = ObjectName::new(&cluster.namespace, &infrastructure.name);
                bells.clusters.wake(name);
            }
        }
        Target::MachinesOf(cluster) => {
            let theirs = stores.openstack_machines.state_filter(|machine| {
                machine.metadata.namespace.as_ref() == Some(&cluster.namespace)
                    && machine.labels().get(capi::CLUSTER_NAME_LABEL) == Some(&cluster.name)
            });
            for machine in theirs {
                bells.machines.wake(own_name(&*machine));
            }
        }
    }
}

fn own_name<K: kube::Resource>(object: &K) -> ObjectName {
    ObjectName::new(object.namespace().unwrap_or_default(), object.name_any())
}

/// What of a Cluster decides something here.
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

/// What of a Machine decides something here.
fn hash_machine(machine: &Machine, hasher: &mut DefaultHasher) {
    hash_meta(&machine.metadata, hasher);
    machine.status.node_ref.is_some().hash(hasher);
    machine.waits_for_our_hook().hash(hasher);
    let told = ["APIServerPodHealthy", "NodeHealthy", "Deleting"];
    hash_conditions(&machine.status.conditions, &told, hasher);
}

/// What of an `OpenStackCluster` its machines look at.
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

/// What of an `OpenStackServer` its machine looks at: everything that its status says, but for times.
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

/// Its owners too: by them a control plane knows its Machines.
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
    let mut neighbours = vec![Target::MachinesOf(own_name(cluster))];
    if let Some(infrastructure) = &cluster.spec.infrastructure_ref {
        let namespace = cluster.namespace().unwrap_or_default();
        neighbours.push(Target::Cluster(ObjectName::new(
            namespace,
            &infrastructure.name,
        )));
    }
    Route {
        own: Vec::new(),
        neighbours,
    }
}

fn machine_route(machine: &Machine) -> Route {
    let namespace = machine.namespace().unwrap_or_default();
    let mut neighbours = Vec::new();
    if let Some(infrastructure) = &machine.spec.infrastructure_ref {
        neighbours.push(Target::Machine(ObjectName::new(
            &namespace,
            &infrastructure.name,
        )));
    }
    neighbours.push(Target::ClusterOf(ObjectName::new(
        &namespace,
        &machine.spec.cluster_name,
    )));
    Route {
        own: Vec::new(),
        neighbours,
    }
}

fn our_cluster_route(cluster: &OpenStackCluster) -> Route {
    let namespace = cluster.namespace().unwrap_or_default();
    let owner = capi::owner(&cluster.metadata, "Cluster");
    Route {
        own: vec![Target::Cluster(own_name(cluster))],
        neighbours: owner
            .map(|owner| Target::MachinesOf(ObjectName::new(namespace, &owner.name)))
            .into_iter()
            .collect(),
    }
}

fn our_machine_route(machine: &OpenStackMachine) -> Route {
    Route {
        own: vec![Target::Machine(own_name(machine))],
        neighbours: vec![Target::Machine(own_name(machine))],
    }
}

fn our_server_route(server: &OpenStackServer) -> Route {
    let name = own_name(server);
    Route {
        own: vec![Target::Server(name.clone())],
        neighbours: vec![Target::Machine(name)],
    }
}
