//! From an `identityRef` to a signed-in cloud. Secrets are read one at a time, never listed or watched.

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api, Client,
    core::{Selector, SelectorExt},
};

use super::{SharedContext, StepError, kubernetes_text};
use crate::kubernetes::conditions::kind::OPENSTACK_AUTHENTICATION_SUCCEEDED;
use capo_api::{
    v1alpha1::OpenStackClusterIdentity,
    v1beta2::{IdentityRef, IdentityRefType},
};
use capo_core::FailureClass;
use capo_core::Reason;
use capo_core::ids::ProjectId;
use capo_openstack::{Cloud, CloudProfile, Clouds};

/// Who asks for credentials.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// Its kind and name, for messages: `OpenStackCluster default/c1`.
    pub object: &'a str,
    /// Its namespace, in which a Secret is looked for.
    pub namespace: &'a str,
}

/// A cloud whose credentials were found good.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The cloud.
    pub cloud: Cloud,
    /// The project that the credentials belong to.
    pub project: ProjectId,
}

/// The cloud that an `identityRef` means, signed in. A failure halts with
/// `OpenStackAuthenticationSucceeded` False; it heals by itself, as the Secret is read anew in every pass.
pub async fn identity(
    context: &SharedContext,
    asker: Asker<'_>,
    reference: &IdentityRef,
) -> Result<Identity, StepError> {
    let cloud = cloud(context, asker, reference).await?;
    sign_in(asker, reference, cloud).await
}

/// Signs in to a cloud, or takes the token there is.
pub async fn sign_in(
    asker: Asker<'_>,
    reference: &IdentityRef,
    cloud: Cloud,
) -> Result<Identity, StepError> {
    match cloud.project_id().await {
        Ok(project) => Ok(Identity { cloud, project }),
        Err(error) => {
            let doing = format!(
                "{}: signing in with spec.identityRef {} \"{}\", cloud \"{}\"",
                asker.object, reference.type_, reference.name, reference.cloud_name
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

/// The cloud that an `identityRef` means. Nothing is sent to it yet.
pub async fn cloud(
    context: &SharedContext,
    asker: Asker<'_>,
    reference: &IdentityRef,
) -> Result<Cloud, StepError> {
    cloud_of(&context.client, &context.clouds, asker, reference).await
}

/// The same without a running manager.
pub(crate) async fn cloud_of(
    client: &Client,
    clouds: &Clouds,
    asker: Asker<'_>,
    reference: &IdentityRef,
) -> Result<Cloud, StepError> {
    let (namespace, name) = match &reference.type_ {
        IdentityRefType::Secret => (asker.namespace.to_owned(), reference.name.clone()),
        IdentityRefType::ClusterIdentity => shared_secret(client, asker, reference).await?,
        IdentityRefType::Unknown(other) => {
            return Err(refused(format!(
                "{}: spec.identityRef.type is \"{other}\"; Secret or ClusterIdentity is needed",
                asker.object
            )));
        }
    };
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    let shown = format!("Secret {namespace}/{name}");
    let secret = secrets
        .get_opt(&name)
        .await
        .map_err(|e| unreadable(asker, &shown, &e))?
        .ok_or_else(|| {
            refused(format!(
                "{}: spec.identityRef.name is \"{}\", but {shown} does not exist; a Secret with the key clouds.yaml \
                 is needed",
                asker.object, reference.name
            ))
        })?;
    let data = secret.data.unwrap_or_default();
    let profile =
        CloudProfile::from_secret(&data, &reference.cloud_name, reference.region.as_deref())
            .and_then(|profile| clouds.cloud(profile));
    profile.map_err(|problem| {
        refused(format!(
            "{}: spec.identityRef names {shown}: {problem}",
            asker.object
        ))
    })
}

/// The Secret of an `OpenStackClusterIdentity` that admits the asker's namespace.
async fn shared_secret(
    client: &Client,
    asker: Asker<'_>,
    reference: &IdentityRef,
) -> Result<(String, String), StepError> {
    let name = &reference.name;
    let shown = format!("OpenStackClusterIdentity {name}");
    let identities: Api<OpenStackClusterIdentity> = Api::all(client.clone());
    // One text for both, so that nobody learns which identities exist.
    let denied = || {
        StepError::failed(
            OPENSTACK_AUTHENTICATION_SUCCEEDED,
            FailureClass::Auth,
            Reason::IdentityAccessDenied,
            format!(
                "{}: spec.identityRef.name is \"{name}\", but {shown} does not exist or its namespaceSelector does not \
                 admit namespace {}; one that does is needed",
                asker.object, asker.namespace
            ),
        )
    };
    let identity = identities
        .get_opt(name)
        .await
        .map_err(|e| unreadable(asker, &shown, &e))?
        .ok_or_else(denied)?;
    if let Some(selector) = identity.spec.namespace_selector {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace = namespaces
            .get(asker.namespace)
            .await
            .map_err(|e| unreadable(asker, &format!("Namespace {}", asker.namespace), &e))?;
        let selector = Selector::try_from(selector).map_err(|_| {
            refused(format!(
                "{}: the namespaceSelector of {shown} can't be read; a valid label selector is needed",
                asker.object
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

fn unreadable(asker: Asker<'_>, what: &str, error: &kube::Error) -> StepError {
    refused(format!(
        "{}: reading {what}: {}",
        asker.object,
        kubernetes_text(error)
    ))
}
