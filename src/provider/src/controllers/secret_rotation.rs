//! Notices changes of Secrets with credentials, so that objects with nothing else to do sign in with the new
//! credentials soon. Secrets are neither listed nor watched, because the manager has no right to do so. Only the
//! metadata of one Secret at a time is read.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use tokio_util::sync::CancellationToken;

use super::Context;
use crate::reconcile::name_of;
use capo_api::{
    v1alpha1::OpenStackClusterIdentity,
    v1beta2::{IdentityRef, IdentityRefType},
};
use capo_core::ObjectName;

/// The objects that use a Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Users {
    clusters: Vec<ObjectName>,
    servers: Vec<ObjectName>,
}

/// Reads every Secret once in `secret_check_period` until `shutdown`. The reads are spread over that time, so that they
/// never come all at once.
pub(super) async fn run(context: &Context, shutdown: CancellationToken) {
    loop {
        tokio::select! {
            () = round(context) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

async fn round(context: &Context) {
    let secrets = users(context).await;
    let versions = &context.secret_versions;
    versions.retain(|secret| secrets.contains_key(secret));
    let number = u32::try_from(secrets.len()).unwrap_or(u32::MAX).max(1);
    let pause = context.settings.secret_check_period / number;
    if secrets.is_empty() {
        tokio::time::sleep(pause).await;
    }
    for (secret, users) in secrets {
        tokio::time::sleep(pause).await;
        let present = match version_of(context, &secret).await {
            Ok(present) => present,
            Err(error) => {
                // A failed read shows nothing about the Secret.
                tracing::debug!(Secret = %secret, %error, "Reading the version of a Secret failed");
                continue;
            }
        };
        if versions.compare(&secret, present) {
            tracing::info!(Secret = %secret, "Credentials changed");
            users
                .clusters
                .iter()
                .for_each(|name| context.queues.clusters.enqueue(name));
            users
                .servers
                .iter()
                .for_each(|name| context.queues.servers.enqueue(name));
        }
    }
}

/// The error of a failed read of a Secret.
#[derive(Debug, thiserror::Error)]
enum SecretReadError {
    #[error(transparent)]
    Kubernetes(#[from] kube::Error),
    #[error("the API server did not answer in time")]
    Timeout(#[from] tokio::time::error::Elapsed),
}

/// The resource version of a Secret; `None` if the Secret does not exist.
async fn version_of(
    context: &Context,
    secret: &ObjectName,
) -> Result<Option<String>, SecretReadError> {
    let api: Api<Secret> = context.api(&secret.namespace);
    let read = api.get_metadata_opt(&secret.name);
    let found = tokio::time::timeout(Duration::from_secs(10), read).await??;
    Ok(found.and_then(|found| found.metadata.resource_version))
}

/// Every Secret that contains the credentials of an object, with the objects that use it.
async fn users(context: &Context) -> BTreeMap<ObjectName, Users> {
    let mut shared: HashMap<String, Option<ObjectName>> = HashMap::new();
    let mut secrets: BTreeMap<ObjectName, Users> = BTreeMap::new();
    let stores = &context.stores;
    for cluster in stores.openstack_clusters.state() {
        let name = name_of(&*cluster);
        let secret = secret_of(context, &name, &cluster.spec.identity_ref, &mut shared).await;
        if let Some(secret) = secret {
            secrets.entry(secret).or_default().clusters.push(name);
        }
    }
    for server in stores.openstack_servers.state() {
        let name = name_of(&*server);
        let secret = secret_of(context, &name, &server.spec.identity_ref, &mut shared).await;
        if let Some(secret) = secret {
            secrets.entry(secret).or_default().servers.push(name);
        }
    }
    secrets
}

async fn secret_of(
    context: &Context,
    user: &ObjectName,
    reference: &IdentityRef,
    shared: &mut HashMap<String, Option<ObjectName>>,
) -> Option<ObjectName> {
    match reference.type_ {
        IdentityRefType::Secret => Some(ObjectName::new(&user.namespace, &reference.name)),
        IdentityRefType::ClusterIdentity => {
            if let Some(known) = shared.get(&reference.name) {
                return known.clone();
            }
            let identities: Api<OpenStackClusterIdentity> = Api::all(context.client.clone());
            let identity = identities.get_opt(&reference.name).await.ok().flatten();
            let secret = identity.map(|identity| {
                let secret = identity.spec.secret_ref;
                ObjectName::new(secret.namespace, secret.name)
            });
            shared.insert(reference.name.clone(), secret.clone());
            secret
        }
        IdentityRefType::Unknown(_) => None,
    }
}
