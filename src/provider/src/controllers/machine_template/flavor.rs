//! Looks up the flavor and the image of a template in OpenStack, with one request each.

use super::capacity::{self, Offer};
use crate::{
    controllers::Context,
    kubernetes::conditions::kind,
    reconcile::{StepResult, identity::identity, image_and_flavor::ImageAndFlavor},
    subject::Subject,
};
use capo_api::v1beta2::{IdentityRef, OpenStackMachineTemplate};
use capo_core::{ObjectName, Priority};

/// Determines what a machine made from the template offers. The condition of the credentials shows an error, or Ready
/// does.
pub(super) async fn offer(
    object: &OpenStackMachineTemplate,
    name: &ObjectName,
    reference: &IdentityRef,
    context: &Context,
) -> StepResult<Offer> {
    let subject = Subject::new("OpenStackMachineTemplate", name);
    let identity = identity(context, &subject, reference).await?;
    let named = ImageAndFlavor {
        cloud: &identity.cloud,
        client: &context.client,
        namespace: &name.namespace,
        spec: "spec.template.spec",
        priority: Priority::Steady,
        waiter: None,
    };
    let spec = &object.spec.template.spec;
    let filled = |text: Option<&String>| text.filter(|text| !text.is_empty()).cloned();
    let flavor_name = spec
        .flavor
        .filter
        .as_ref()
        .and_then(|filter| filter.name.as_ref());
    let flavor = async {
        match (filled(spec.flavor.id.as_ref()), filled(flavor_name)) {
            (Some(id), _) => named.flavor_by_id("flavor.id", &id.into()).await,
            (None, Some(name)) => named.flavor_by_name("flavor.filter", &name).await,
            (None, None) => Err(named.missing("flavor", "id or filter.name")),
        }
    };
    let (flavor, image) = tokio::try_join!(flavor, named.image(&spec.image))
        .map_err(|error| error.shown_by(kind::READY))?;
    Ok(capacity::offer(spec, &flavor, &image))
}
