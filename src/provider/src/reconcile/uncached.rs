//! Whether an `OpenStackMachine` exists, read from the API server past every cache.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use kube::{Api, Client};

use super::kubernetes_text;
use crate::tracker::MachineLookup;
use capo_api::v1beta2::OpenStackMachine;
use capo_core::ObjectName;

/// An answer that takes longer counts as none.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks the API server for `OpenStackMachine`s by name, once this process knows all of them.
#[derive(Clone)]
pub struct UncachedMachines {
    client: Client,
    synced: Arc<AtomicBool>,
}

impl UncachedMachines {
    /// Every answer is an error before [`UncachedMachines::synced`].
    pub fn new(client: Client) -> Self {
        Self {
            client,
            synced: Arc::default(),
        }
    }

    /// From now on the caches of this process are complete. To be called once every watch has listed its kind.
    pub fn synced(&self) {
        self.synced.store(true, Ordering::Release);
    }
}

impl MachineLookup for UncachedMachines {
    fn exists(&self, machine: ObjectName) -> BoxFuture<'static, Result<bool, String>> {
        let (client, synced) = (self.client.clone(), self.synced.load(Ordering::Acquire));
        async move {
            if !synced {
                return Err("the caches of this process are not complete yet".to_owned());
            }
            let machines: Api<OpenStackMachine> = Api::namespaced(client, &machine.namespace);
            let asked = machines.get_metadata(&machine.name);
            match tokio::time::timeout(PATIENCE, asked).await {
                Ok(Ok(_)) => Ok(true),
                Ok(Err(error)) if names_as_absent(&error, &machine.name) => Ok(false),
                Ok(Err(error)) => Err(kubernetes_text(&error)),
                Err(_) => Err("Kubernetes did not answer in time".to_owned()),
            }
        }
        .boxed()
    }
}

/// A 404 that names the object. One that doesn't may mean that the kind is not served at the moment.
pub(crate) fn names_as_absent(error: &kube::Error, name: &str) -> bool {
    matches!(error, kube::Error::Api(status)
        if status.code == 404 && status.details.as_ref().is_some_and(|details| details.name == name))
}
