//! Watches pools, `IPAddressClaim`s and `IPAddress`es, and runs the passes over pools.

use std::{hash::Hash, sync::Arc};

use capo_api::v1alpha1::OpenStackFloatingIPPool;
use capo_core::ObjectName;
use kube::ResourceExt;

use super::{CONTROLLER, pass::pass};
use crate::work_queue::WorkQueue;
use crate::{
    controllers::Context,
    reconcile::{
        SharedContext,
        ipam::{IPAddress, IPAddressClaim, PoolReference},
        name_of,
        runner::{Controller, Runner},
        watches::{Route, Watch, has_conditions},
    },
};

/// An object that needs a pass.
enum Target {
    Pool(ObjectName),
    /// The `OpenStackServer` that a claim is for.
    Server(ObjectName),
}

/// Runs the controller until the shutdown.
pub(in crate::controllers) async fn run(context: Arc<Context>, runner: Runner) {
    let (client, settings) = (&context.client, &context.settings);
    let filter = settings.label_selector();
    let pools = Watch::<OpenStackFloatingIPPool>::new(
        SharedContext::watched(client, settings),
        filter.as_deref(),
    )
    .with_status(has_conditions!());
    let claims = Watch::<IPAddressClaim>::new(SharedContext::watched(client, settings), None);
    let addresses = Watch::<IPAddress>::new(SharedContext::watched(client, settings), None);
    let (store, queue) = (pools.store(), WorkQueue::default());
    let parts = || (runner.observer.clone(), runner.shutdown.clone());
    let enqueue = || {
        let (pools, servers) = (queue.clone(), context.queues.servers.clone());
        move |target: &Target| match target {
            Target::Pool(name) => pools.enqueue(name),
            Target::Server(name) => servers.enqueue(name),
        }
    };
    let pools = pools.run(
        parts(),
        |_, _| {},
        |pool: &OpenStackFloatingIPPool| Route {
            own: vec![Target::Pool(name_of(pool))],
            related: Vec::new(),
        },
        enqueue(),
    );
    let claims = claims.run(
        parts(),
        |claim: &IPAddressClaim, hasher| claim.status.address_ref.name.hash(hasher),
        claim_route,
        enqueue(),
    );
    let addresses = addresses.run(
        parts(),
        |_, _| {},
        |address: &IPAddress| {
            let namespace = address.namespace().unwrap_or_default();
            let pool = || {
                of_pool(&namespace, &address.spec.pool_ref)
                    .into_iter()
                    .collect()
            };
            Route {
                own: pool(),
                related: pool(),
            }
        },
        enqueue(),
    );
    let passes = async {
        // The passes start after the first complete list, because an object that is not in the store yet would be
        // dropped from the queue.
        tokio::select! {
            ready = store.wait_until_ready() => if ready.is_err() { return },
            () = runner.shutdown.cancelled() => return,
        }
        let controller = Controller {
            name: CONTROLLER,
            pass,
            store: store.clone(),
            queue: queue.clone(),
            // Two pools can contain the same floating IP, so only one pass runs at a time.
            concurrency: 1,
        };
        runner.clone().run(controller, context.clone()).await;
    };
    futures::join!(pools, claims, addresses, passes);
}

fn claim_route(claim: &IPAddressClaim) -> Route<Target> {
    let namespace = claim.namespace().unwrap_or_default();
    let pool = of_pool(&namespace, &claim.spec.pool_ref);
    let owners = claim.owner_references();
    let servers = owners
        .iter()
        .filter(|owner| owner.kind == "OpenStackServer")
        .map(|owner| Target::Server(ObjectName::new(&namespace, &owner.name)));
    Route {
        own: pool.into_iter().collect(),
        related: servers
            .chain(of_pool(&namespace, &claim.spec.pool_ref))
            .collect(),
    }
}

fn of_pool(namespace: &str, reference: &PoolReference) -> Option<Target> {
    let pool = reference.floating_ip_pool()?;
    Some(Target::Pool(ObjectName::new(namespace, pool)))
}
