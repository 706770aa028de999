//! Reads from the API server, past every cache, whether an `OpenStackMachine` exists.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use kube::{Api, Client};
use serde::de::DeserializeOwned;

use crate::tracker::{LookupError, MachineLookup};
use capo_api::v1beta2::OpenStackMachine;
use capo_core::ObjectName;

/// The time limit of an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads `OpenStackMachine`s by name, once the caches of this process are complete.
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

    /// Records that the caches of this process are complete. The caller calls it once every watch has listed its kind.
    pub fn synced(&self) {
        self.synced.store(true, Ordering::Release);
    }
}

impl MachineLookup for UncachedMachines {
    fn exists(&self, machine: ObjectName) -> BoxFuture<'static, Result<bool, LookupError>> {
        let (client, synced) = (self.client.clone(), self.synced.load(Ordering::Acquire));
        async move {
            if !synced {
                return Err(LookupError::NotSynced);
            }
            let machines: Api<OpenStackMachine> = Api::namespaced(client, &machine.namespace);
            let read = machines.get_metadata(&machine.name);
            match tokio::time::timeout(PATIENCE, read).await {
                Ok(Ok(_)) => Ok(true),
                Ok(Err(error)) if names_as_absent(&error, &machine.name) => Ok(false),
                Ok(Err(error)) => Err(error.into()),
                Err(_) => Err(LookupError::TimedOut),
            }
        }
        .boxed()
    }
}

/// The object as the API server has it. It is absent only if the answer names it.
pub(crate) async fn read_uncached<K>(api: &Api<K>, name: &str) -> Result<Option<K>, kube::Error>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    match api.get(name).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if names_as_absent(&error, name) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A 404 counts only if it names the object. Another one may mean that the kind is not served at the moment.
pub(crate) fn names_as_absent(error: &kube::Error, name: &str) -> bool {
    matches!(error, kube::Error::Api(status)
        if status.code == 404 && status.details.as_ref().is_some_and(|details| details.name == name))
}
