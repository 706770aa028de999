//! Turns an `identityRef` into a cloud with accepted credentials. Secrets are read one at a time, and never listed or
//! watched.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api, Client, ResourceExt,
    core::{Selector, SelectorExt},
};
use parking_lot::Mutex;

use super::{
    ClusterIdentityDefault, SharedContext, StepError, StepResult, kubernetes_text, name_of,
};
use crate::kubernetes::conditions::kind::OPENSTACK_AUTHENTICATION_SUCCEEDED;
use crate::subject::Subject;
use capo_api::{
    v1alpha1::OpenStackClusterIdentity,
    v1beta2::{IdentityRef, IdentityRefType, OpenStackCluster},
};
use capo_core::{FailureClass, ObjectName, Reason, ids::ProjectId};
use capo_openstack::{Cloud, CloudProfile, Clouds};

/// A cloud whose credentials have been accepted.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The cloud.
    pub cloud: Cloud,
    /// The project that the credentials belong to.
    pub project: ProjectId,
}

/// The resource version of each Secret with credentials that is in use, so that a change of the Secret is noticed.
/// `None` stands for a Secret that does not exist.
#[derive(Debug, Default)]
pub struct SecretVersions(Mutex<HashMap<ObjectName, Option<String>>>);

impl SecretVersions {
    /// Records the version that a pass has read, unless a version is recorded already. The first one stays until it is
    /// compared with the present version, because passes over other objects may still use it.
    fn note_read(&self, secret: ObjectName, version: Option<String>) {
        self.0.lock().entry(secret).or_insert(version);
    }

    /// Records the present version. Returns whether passes may still use another version.
    pub(crate) fn compare(&self, secret: &ObjectName, present: Option<String>) -> bool {
        let mut known = self.0.lock();
        let before = known.insert(secret.clone(), present);
        before.is_some_and(|before| known.get(secret) != Some(&before))
    }

    /// Forgets all Secrets except for those that are `used`.
    pub(crate) fn retain(&self, used: impl Fn(&ObjectName) -> bool) {
        self.0.lock().retain(|secret, _| used(secret));
    }
}

/// Signs in to the cloud that the `identityRef` of the object `subject` names. An error sets
/// `OpenStackAuthenticationSucceeded` to False. A later pass recovers by itself, because every pass reads the Secret
/// again.
pub async fn identity(
    context: &SharedContext,
    subject: &Subject,
    reference: &IdentityRef,
) -> StepResult<Identity> {
    let cloud = cloud(context, subject, reference).await?;
    sign_in(subject, reference, cloud).await
}

/// Signs in to a cloud, or uses the existing token.
pub async fn sign_in(
    subject: &Subject,
    reference: &IdentityRef,
    cloud: Cloud,
) -> StepResult<Identity> {
    match cloud.project_id().await {
        Ok(project) => Ok(Identity { cloud, project }),
        Err(error) => {
            let doing = format!(
                "{}: signing in with spec.identityRef {} \"{}\", cloud \"{}\"",
                subject, reference.type_, reference.name, reference.cloud_name
            );
            Err(StepError::cloud(
                OPENSTACK_AUTHENTICATION_SUCCEEDED,
                Reason::OpenStackAuthenticationFailed,
                &doing,
                &error,
            ))
        }
    }
}

/// The cloud that an `identityRef` names. This sends no request to OpenStack.
pub async fn cloud(
    context: &SharedContext,
    subject: &Subject,
    reference: &IdentityRef,
) -> StepResult<Cloud> {
    let default = context.settings.cluster_identity_default;
    let versions = &context.secret_versions;
    let (client, clouds) = (&context.client, &context.clouds);
    cloud_of(client, clouds, versions, default, subject, reference).await
}

/// The cloud of a cluster, for a command that runs without the manager. The caller decides what a missing
/// `namespaceSelector` means. A user's command can allow every namespace, because it uses only credentials that this
/// user may read.
pub(crate) async fn cloud_of_cluster(
    client: &Client,
    clouds: &Clouds,
    default: ClusterIdentityDefault,
    cluster: &OpenStackCluster,
) -> StepResult<Cloud> {
    let subject = &Subject::new("OpenStackCluster", &name_of(cluster));
    let reference = &cluster.spec.identity_ref;
    let versions = SecretVersions::default();
    cloud_of(client, clouds, &versions, default, subject, reference).await
}

async fn cloud_of(
    client: &Client,
    clouds: &Clouds,
    versions: &SecretVersions,
    default: ClusterIdentityDefault,
    subject: &Subject,
    reference: &IdentityRef,
) -> StepResult<Cloud> {
    let (namespace, name) = match &reference.type_ {
        IdentityRefType::Secret => (subject.namespace.clone(), reference.name.clone()),
        IdentityRefType::ClusterIdentity => {
            shared_secret(client, default, subject, reference).await?
        }
        IdentityRefType::Unknown(other) => {
            return Err(refused(format!(
                "{subject}: spec.identityRef.type is \"{other}\"; Secret or ClusterIdentity is needed",
            )));
        }
    };
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    let secret_name = format!("Secret {namespace}/{name}");
    let found = secrets
        .get_opt(&name)
        .await
        .map_err(|e| unreadable(subject, &secret_name, &e))?;
    let version = found.as_ref().and_then(ResourceExt::resource_version);
    versions.note_read(ObjectName::new(namespace.clone(), name.clone()), version);
    let secret = found.ok_or_else(|| {
            refused(format!(
                "{}: spec.identityRef.name is \"{}\", but {secret_name} does not exist; a Secret with the key clouds.yaml \
                 is needed",
                subject, reference.name
            ))
        })?;
    let data = secret.data.unwrap_or_default();
    let profile =
        CloudProfile::from_secret(&data, &reference.cloud_name, reference.region.as_deref())
            .and_then(|profile| clouds.cloud(profile));
    profile.map_err(|problem| {
        refused(format!(
            "{subject}: spec.identityRef names {secret_name}: {problem}",
        ))
    })
}

/// The Secret of an `OpenStackClusterIdentity`, if the identity allows the namespace of the object.
async fn shared_secret(
    client: &Client,
    default: ClusterIdentityDefault,
    subject: &Subject,
    reference: &IdentityRef,
) -> StepResult<(String, String)> {
    let name = &reference.name;
    let identity_name = format!("OpenStackClusterIdentity {name}");
    let identities: Api<OpenStackClusterIdentity> = Api::all(client.clone());
    // Both cases have the same text, so that it does not reveal which identities exist.
    let denied = || {
        StepError::failed(
            OPENSTACK_AUTHENTICATION_SUCCEEDED,
            FailureClass::Auth,
            Reason::IdentityAccessDenied,
            format!(
                "{}: spec.identityRef.name is \"{name}\", but {identity_name} does not exist or its namespaceSelector does not \
                 admit namespace {}; one that does is needed",
                subject, subject.namespace
            ),
        )
    };
    let identity = identities
        .get_opt(name)
        .await
        .map_err(|e| unreadable(subject, &identity_name, &e))?
        .ok_or_else(denied)?;
    if identity.spec.namespace_selector.is_none() && default == ClusterIdentityDefault::Deny {
        return Err(denied());
    }
    if let Some(selector) = identity.spec.namespace_selector {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace = namespaces
            .get(&subject.namespace)
            .await
            .map_err(|e| unreadable(subject, &format!("Namespace {}", subject.namespace), &e))?;
        let selector = Selector::try_from(selector).map_err(|_| {
            refused(format!(
                "{subject}: the namespaceSelector of {identity_name} can't be read; a valid label selector is needed",
            ))
        })?;
        if !selector.matches(&namespace.metadata.labels.unwrap_or_default()) {
            return Err(denied());
        }
    }
    let secret = identity.spec.secret_ref;
    Ok((secret.namespace, secret.name))
}

fn refused(message: String) -> StepError {
    StepError::failed(
        OPENSTACK_AUTHENTICATION_SUCCEEDED,
        FailureClass::Auth,
        Reason::OpenStackAuthenticationFailed,
        message,
    )
}

fn unreadable(subject: &Subject, what: &str, error: &kube::Error) -> StepError {
    refused(format!(
        "{}: reading {what}: {}",
        subject,
        kubernetes_text(error)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_a_pass_has_read_counts_until_it_was_compared() {
        let (versions, secret) = (SecretVersions::default(), ObjectName::new("n", "s"));
        let version = |text: &str| Some(text.to_owned());
        versions.note_read(secret.clone(), version("1"));
        // A pass over another object reads the second version, while the first object still uses the first one.
        versions.note_read(secret.clone(), version("2"));
        assert!(versions.compare(&secret, version("2")));
        assert!(!versions.compare(&secret, version("2")));
        assert!(versions.compare(&secret, None));
        versions.retain(|_| false);
        assert!(!versions.compare(&secret, version("3")), "no pass uses it");
    }
}
