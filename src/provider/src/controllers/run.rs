//! Starts the watches and the controllers.

use std::sync::Arc;

use futures::FutureExt;
use kube::{Client, runtime::reflector::ObjectRef};
use tokio_util::sync::CancellationToken;

use super::{
    Context, PassObserver, Settings, Stores,
    capi::{Cluster, Machine},
    cluster,
    context::Queues,
    machine, routes, secret_rotation, server, simple_controllers,
};
use crate::{
    kubernetes::{events::Events, replaced_versions::ReplacedVersions},
    reconcile::{
        ObjectCache, SharedContext,
        creations::UncertainCreations,
        health_check::MachineHealthCheck,
        identity::SecretVersions,
        image_objects,
        related_objects::ContractKinds,
        runner::{Controller, Runner},
        transition_events,
        watches::{Route, Target, Watch, has_conditions},
    },
    tracker::Tracker,
};
use capo_api::{
    v1alpha1::OpenStackServer,
    v1beta2::{OpenStackCluster, OpenStackMachine},
};
use capo_core::ObjectName;
use capo_openstack::Clouds;

/// The parts that the manager gives to the controllers.
pub struct Parts {
    /// The Kubernetes API of the management cluster. The client itself should retry little or not at all, because every
    /// pass is repeated anyway.
    pub client: Client,
    /// The OpenStack sessions and request budgets.
    pub clouds: Clouds,
    /// The workers of the load balancers.
    pub tracker: Tracker,
    /// The options of this manager.
    pub settings: Settings,
    /// The observer that fills the metrics.
    pub observer: Arc<dyn PassObserver>,
    /// A function that is called once every kind was listed completely.
    pub synced: Box<dyn FnOnce(&Stores) + Send>,
}

/// Runs the controllers of every kind until `shutdown`. Running passes may then continue for a short time.
pub async fn run(parts: Parts, shutdown: CancellationToken) {
    let Parts {
        client,
        clouds,
        tracker,
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
    let (events, send_events) = Events::new(
        client.clone(),
        settings.instance.clone(),
        move |reason, kind| counter.event(reason, kind),
        shutdown.clone(),
    );
    // The load balancers' workers enqueue the objects whose findings changed in the queues of the controllers.
    let queues = Queues {
        clusters: tracker.cluster_queue(),
        machines: tracker.machine_queue(),
        ..Queues::default()
    };
    let caches = server::ServerCaches::default();
    let follow = follow_all(
        (clusters, machines, our_clusters, our_machines, our_servers),
        &caches,
        &stores,
        &queues,
        &tracker,
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
            tracker,
            settings,
            events,
            stores,
            replaced: ReplacedVersions::default(),
            observer,
        },
        clusters: ObjectCache::default(),
        cluster_creations: UncertainCreations::default(),
        pool_creations: UncertainCreations::default(),
        contract_kinds: ContractKinds::default(),
        machines: ObjectCache::default(),
        machine_templates: ObjectCache::default(),
        servers: caches,
        ensure_server_may_be_deleted: machine::ensure_server_may_be_deleted,
        queues,
    });
    let controllers = controllers(context, runner, synced);
    futures::join!(follow, follow_checks, send_events, controllers);
}

/// Runs every controller once all stores are complete, because a pass that sees only a part of the Machines would
/// decide wrongly.
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
        image_objects::run(
            &context,
            &context.servers.images,
            &context.queues.servers,
            runner.shutdown.clone(),
        )
        .boxed(),
    );
}

type Watches = (
    Watch<Cluster>,
    Watch<Machine>,
    Watch<OpenStackCluster>,
    Watch<OpenStackMachine>,
    Watch<OpenStackServer>,
);

/// Runs the watch of every kind. The hash of each kind covers the parts on which other controllers depend.
fn follow_all(
    (clusters, machines, our_clusters, our_machines, our_servers): Watches,
    caches: &server::ServerCaches,
    stores: &Stores,
    queues: &Queues,
    tracker: &Tracker,
    observer: &Arc<dyn PassObserver>,
    shutdown: &CancellationToken,
) -> impl Future<Output = ()> + use<> {
    let enqueue = || enqueue(queues.clone(), stores.clone(), tracker.clone());
    let parts = || (observer.clone(), shutdown.clone());
    let clusters = clusters.run(
        parts(),
        routes::hash_cluster,
        routes::cluster_route,
        enqueue(),
    );
    let machines = machines.run(
        parts(),
        routes::hash_machine,
        routes::machine_route,
        enqueue(),
    );
    let our_clusters = our_clusters.run(
        parts(),
        routes::hash_openstack_cluster,
        routes::our_cluster_route,
        enqueue(),
    );
    // No other controller depends on an OpenStackMachine.
    let our_machines = our_machines.run(parts(), |_, _| {}, routes::our_machine_route, enqueue());
    let objects_by_server_id = caches.objects_by_server_id.clone();
    let route_server = move |server: &OpenStackServer| {
        objects_by_server_id.note(server);
        routes::our_server_route(server)
    };
    let our_servers = our_servers.run(
        parts(),
        routes::hash_openstack_server,
        route_server,
        enqueue(),
    );
    async move {
        futures::join!(clusters, machines, our_clusters, our_machines, our_servers);
    }
}

fn enqueue(queues: Queues, stores: Stores, tracker: Tracker) -> impl Fn(&Target) + Send {
    move |target| match target {
        Target::Cluster(name) => queues.clusters.enqueue(name),
        Target::VanishedCluster(name) => {
            let key = ObjectRef::new(&name.name).within(&name.namespace);
            if stores.openstack_clusters.get(&key).is_none() {
                tracker.forget_load_balancer(name);
            }
        }
        Target::Machine(name) => {
            // If a user removed the finalizer, the object vanished before its controller has seen the deletion.
            let key = ObjectRef::new(&name.name).within(&name.namespace);
            if stores.openstack_machines.get(&key).is_none() {
                tracker.forget_machine(name);
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
            queues.enqueue_machines_of(cluster, &stores);
        }
    }
}
