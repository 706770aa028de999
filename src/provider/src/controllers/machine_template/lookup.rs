//! Asks OpenStack for the flavor and the image of a template: two calls, one each.

use super::capacity::{self, Offer};
use crate::{
    controllers::{
        Context, Outcome,
        cluster::halt::{Halt, Step},
        identity::{Asker, identity},
        server::boot::Boot,
    },
    status::conditions::kind,
};
use capo_api::v1beta2::{IdentityRef, OpenStackMachineTemplate};
use capo_core::{ConditionState, ObjectName, Reason};
use capo_core::{FailureClass, Priority};

/// What a machine made from the template offers. A failure halts with the credentials' condition, or with
/// Ready.
pub(super) async fn offer(
    object: &OpenStackMachineTemplate,
    name: &ObjectName,
    reference: &IdentityRef,
    context: &Context,
) -> Step<Offer> {
    let shown = format!("OpenStackMachineTemplate {name}");
    let asker = Asker {
        object: &shown,
        namespace: &name.namespace,
    };
    let identity = identity(context, asker, reference).await?;
    let boot = Boot {
        cloud: &identity.cloud,
        client: &context.client,
        namespace: &name.namespace,
        spec: "spec.template.spec",
        priority: Priority::Steady,
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
            (Some(id), _) => boot.flavor_by_id("flavor.id", &id).await,
            (None, Some(name)) => boot.flavor_by_name("flavor.filter", &name).await,
            (None, None) => Err(boot.missing("flavor", "id or filter.name")),
        }
    };
    let (flavor, image) = tokio::try_join!(flavor, boot.image(&spec.image)).map_err(halt)?;
    Ok(capacity::offer(spec, &flavor, &image))
}

/// Trouble that goes away by itself says nothing about what exists.
fn halt(outcome: Outcome) -> Halt {
    let verdict = match &outcome {
        Outcome::Failed {
            class: FailureClass::Transient | FailureClass::Throttled | FailureClass::LeaseLost,
            reason,
            message,
            ..
        } => ConditionState::unknown(*reason, message.clone()),
        Outcome::Wait {
            reason, message, ..
        }
        | Outcome::Failed {
            reason, message, ..
        } => ConditionState::unmet(*reason, message.clone()),
        Outcome::Done => ConditionState::met(Reason::Ready),
    };
    Halt {
        condition: kind::READY,
        verdict,
        outcome,
    }
}
