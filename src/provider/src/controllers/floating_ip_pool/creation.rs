//! The record of a requested floating IP on its pool. It exists while the result of the request is unknown, so that the
//! next process knows of the request too.

use jiff::Timestamp;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::kubernetes;
use crate::reconcile::StepResult;
use capo_api::v1alpha1::OpenStackFloatingIPPool;

/// Annotation: the time until which Neutron may still create a requested floating IP.
const ANNOTATION: &str = "infrastructure.cluster.x-k8s.io/floating-ip-creation";

/// The time until which Neutron may still create a requested floating IP; `None` if there is no record.
pub(super) fn recorded(object: &OpenStackFloatingIPPool) -> Option<Timestamp> {
    object.annotations().get(ANNOTATION)?.parse().ok()
}

/// Writes the record, or removes it if `until` is `None`. Afterwards `object` is the object as it was written, with the
/// generation on which the pass is based: another client may have made a newer one meanwhile, which must not appear as
/// observed before a pass has handled it.
pub(super) async fn record(
    api: &Api<OpenStackFloatingIPPool>,
    object: &mut OpenStackFloatingIPPool,
    until: Option<Timestamp>,
) -> StepResult<()> {
    let value = until.map(|until| until.to_string());
    let patch = Patch::Merge(json!({"metadata": {"annotations": {ANNOTATION: value}}}));
    let mut written = api
        .patch(&object.name_any(), &PatchParams::default(), &patch)
        .await
        .map_err(|e| kubernetes("Recording that a floating IP is allocated", &e))?;
    written.metadata.generation = object.metadata.generation;
    *object = written;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        controllers::{
            Outcome,
            floating_ip_pool::report::{self, Report},
        },
        kubernetes::conflict_once::ConflictOnce,
    };

    #[tokio::test]
    async fn a_generation_that_another_client_made_meanwhile_does_not_read_as_observed() {
        let pool = |generation: i64, until: Timestamp| {
            json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackFloatingIPPool",
                "metadata": {"name": "p", "namespace": "n", "generation": generation, "annotations": {ANNOTATION: until}},
                "spec": {"identityRef": {"name": "c", "cloudName": "c"}},
            })
        };
        let parsed = |pool| -> OpenStackFloatingIPPool { serde_json::from_value(pool).unwrap() };
        let (before, now) = (Timestamp::UNIX_EPOCH, Timestamp::now());
        let server = ConflictOnce::new(json!({}), pool(4, now));
        let api = Api::namespaced(server.client(), "n");
        let mut object = parsed(pool(3, before));
        // The server refuses the first patch, which changes nothing.
        assert!(record(&api, &mut object, Some(now)).await.is_err());
        assert_eq!(recorded(&object), Some(before));
        record(&api, &mut object, Some(now)).await.unwrap();
        assert_eq!(recorded(&object), Some(now));
        let status = report::status(&object, &Report::default(), &Outcome::Done, now);
        assert_eq!(status["observedGeneration"], 3);
    }
}
