//! The controller of `OpenStackClusterIdentity`. It checks whether the Secret exists and whether its clouds.yaml can be
//! used. It reports no part of the Secret's content, and sends nothing to OpenStack. Secrets are not watched, so a
//! change is noticed within the sync period, and within half a minute while something is wrong.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, core::Selector};
use serde_json::Value;

use super::{Context, Outcome};
use crate::kubernetes::{
    conditions::{Conditions, kind},
    patch::write_status,
};
use crate::reconcile::{ClusterIdentityDefault, StepError, StepResult, is_left_alone};
use capo_api::v1alpha1::{OpenStackClusterIdentity, OpenStackClusterIdentitySpec};
use capo_core::FailureClass;
use capo_core::{ConditionState, Reason};
use capo_openstack::CloudProfile;

/// The controller's name in logs and metrics.
pub(super) const CONTROLLER: &str = "openstackclusteridentity";

/// One pass over an `OpenStackClusterIdentity`.
pub(super) fn pass(
    object: Arc<OpenStackClusterIdentity>,
    context: Arc<Context>,
) -> BoxFuture<'static, Outcome> {
    async move {
        if is_left_alone(&object.metadata) {
            return Outcome::Done;
        }
        let (verdict, outcome) = match check(&object.spec, &context).await {
            Ok(()) => {
                let default = context.settings.cluster_identity_default;
                (ready(&object.spec, default), Outcome::Done)
            }
            Err(error) => (error.state, error.outcome),
        };
        let now = Timestamp::now();
        let api = Api::all(context.client.clone());
        match write_status(&context.replaced, &api, &*object, |fresh| {
            status(fresh, &verdict, now)
        })
        .await
        {
            Ok(_) => outcome,
            Err(error) => Outcome::status_not_written(&error),
        }
    }
    .boxed()
}

/// Checks the Secret in the same way as an object that uses the identity does.
async fn check(spec: &OpenStackClusterIdentitySpec, context: &Context) -> StepResult<()> {
    if let Some(selector) = &spec.namespace_selector {
        Selector::try_from(selector.clone()).map_err(|_| {
            refused(
                FailureClass::Invalid,
                Reason::InvalidSpec,
                "spec.namespaceSelector can't be read; a valid label selector is needed".to_owned(),
            )
        })?;
    }
    let (namespace, name) = (&spec.secret_ref.namespace, &spec.secret_ref.name);
    let secret_name = format!("spec.secretRef: Secret {namespace}/{name}");
    let secrets: Api<Secret> = context.api(namespace);
    let secret = secrets.get_opt(name).await.map_err(|error| {
        StepError::kubernetes(kind::READY, &format!("{secret_name}: reading it"), &error)
    })?;
    let Some(secret) = secret else {
        return Err(refused(
            FailureClass::Auth,
            Reason::DependencyNotFound,
            format!("{secret_name} does not exist; a Secret with the key clouds.yaml is needed"),
        ));
    };
    CloudProfile::check_secret(&secret.data.unwrap_or_default()).map_err(|problem| {
        refused(
            FailureClass::Auth,
            Reason::OpenStackAuthenticationFailed,
            format!("{secret_name}: {problem}"),
        )
    })
}

/// The condition Ready. Its message says which namespaces may use an identity without a `namespaceSelector`.
fn ready(spec: &OpenStackClusterIdentitySpec, default: ClusterIdentityDefault) -> ConditionState {
    let mut ready = ConditionState::met(Reason::Ready);
    if spec.namespace_selector.is_none() {
        let message = match default {
            ClusterIdentityDefault::Allow => {
                "spec.namespaceSelector is not set: this identity is open to every namespace"
            }
            ClusterIdentityDefault::Deny => {
                "spec.namespaceSelector is not set, and with --cluster-identity-default=deny no namespace may use this identity"
            }
        };
        message.clone_into(&mut ready.message);
    }
    ready
}

fn refused(class: FailureClass, reason: Reason, message: String) -> StepError {
    StepError::failed(kind::READY, class, reason, message)
}

fn status(object: &OpenStackClusterIdentity, verdict: &ConditionState, now: Timestamp) -> Value {
    let generation = object.metadata.generation.unwrap_or_default();
    let mut status = object.status.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&status.conditions, generation, now);
    conditions.set(kind::READY, verdict);
    status.conditions = conditions.into_list();
    status.observed_generation = Some(generation);
    serde_json::to_value(&status).unwrap_or_default()
}
