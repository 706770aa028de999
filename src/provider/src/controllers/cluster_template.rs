//! The controller of `OpenStackClusterTemplate`. Cluster API copies the template's spec, and this controller creates
//! nothing for it. It only reports that it has observed the template, so that tools which wait for that can continue.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use kube::ResourceExt;
use serde_json::json;

use super::{Context, Outcome};
use crate::kubernetes::patch::write_status;
use crate::reconcile::is_left_alone;
use capo_api::v1beta2::OpenStackClusterTemplate;

/// The controller's name in logs and metrics.
pub(super) const CONTROLLER: &str = "openstackclustertemplate";

/// One pass over an `OpenStackClusterTemplate`.
pub(super) fn pass(
    object: Arc<OpenStackClusterTemplate>,
    context: Arc<Context>,
) -> BoxFuture<'static, Outcome> {
    async move {
        if is_left_alone(&object.metadata) {
            return Outcome::Done;
        }
        let api = context.api(&object.namespace().unwrap_or_default());
        let seen = |fresh: &OpenStackClusterTemplate| json!({"observedGeneration": fresh.metadata.generation});
        match write_status(&context.replaced, &api, &*object, seen).await {
            Ok(_) => Outcome::Done,
            Err(error) => Outcome::status_not_written(&error),
        }
    }
    .boxed()
}
