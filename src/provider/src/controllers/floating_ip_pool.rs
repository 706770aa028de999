//! The `OpenStackFloatingIPPool`: not supported yet, which is said on every one of them. Nothing is
//! taken from the floating IPs that CAPO has put down in its status.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::Value;

use super::{Context, Outcome};
use crate::kubernetes::{
    conditions::{Conditions, kind},
    patch::write_status,
};
use crate::reconcile::is_left_alone;
use capo_api::v1alpha1::OpenStackFloatingIPPool;
use capo_core::{ConditionState, Reason};

/// The controller's name in logs and metrics.
pub(super) const CONTROLLER: &str = "openstackfloatingippool";

const NOT_SUPPORTED: &str = "OpenStackFloatingIPPool is not supported by this version: no IPAddressClaim of this pool \
    gets an address, and nothing is done about its floating IPs in OpenStack";

/// One pass over an `OpenStackFloatingIPPool`.
pub(super) fn pass(
    object: Arc<OpenStackFloatingIPPool>,
    context: Arc<Context>,
) -> BoxFuture<'static, Outcome> {
    async move {
        if is_left_alone(&object.metadata) {
            return Outcome::Done;
        }
        let now = Timestamp::now();
        let api = context.api(&object.namespace().unwrap_or_default());
        match write_status(&api, &*object, |fresh| status(fresh, now)).await {
            Ok(_) => Outcome::Done,
            Err(error) => Outcome::status_not_written(&error),
        }
    }
    .boxed()
}

fn status(object: &OpenStackFloatingIPPool, now: Timestamp) -> Value {
    let generation = object.metadata.generation.unwrap_or_default();
    let mut status = object.status.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&status.conditions, generation, now);
    conditions.set(
        kind::READY,
        &ConditionState::unmet(Reason::NotSupported, NOT_SUPPORTED),
    );
    status.conditions = conditions.into_list();
    status.observed_generation = Some(generation);
    serde_json::to_value(&status).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_in_the_pool_stays_and_the_lack_is_told() {
        let pool: OpenStackFloatingIPPool = serde_json::from_value(json!({
            "metadata": {"name": "p", "generation": 3},
            "status": {"observedGeneration": -1, "claimedIPs": ["203.0.113.7"], "availableIPs": []},
        }))
        .unwrap();
        let status = status(&pool, Timestamp::UNIX_EPOCH);
        assert_eq!(status["claimedIPs"], json!(["203.0.113.7"]));
        assert_eq!(status["observedGeneration"], 3);
        let ready = &status["conditions"][0];
        assert_eq!(
            (&ready["type"], &ready["status"], &ready["reason"]),
            (&json!("Ready"), &json!("False"), &json!("NotSupported"))
        );
    }
}
