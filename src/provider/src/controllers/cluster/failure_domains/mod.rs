//! The availability zones in a pass.

pub(crate) mod plan;

use std::time::Duration;

use super::{reconcile::Reconcile, step_context::StepContext};
use crate::kubernetes::conditions::kind;
use crate::reconcile::StepError;
use capo_core::{FailureClass, Priority, Reason};

/// Zones once read are used for this long, because they seldom change.
const ZONES_AGE: Duration = Duration::from_mins(10);

/// Reads the zones and reports those in which machines may be placed.
pub(crate) async fn zones(pass: &mut Reconcile<'_>, context: &StepContext<'_>) {
    let fresh = pass
        .seen
        .zones
        .as_ref()
        .filter(|(_, at)| pass.now.saturating_duration_since(*at) < ZONES_AGE)
        .map(|(names, _)| names.clone());
    let names = match fresh {
        Some(names) => names,
        None => match context.cloud.availability_zones(Priority::Settling).await {
            Ok(zones) => {
                let available = zones.into_iter().filter(|zone| zone.available);
                let names: Vec<String> = available.map(|zone| zone.name).collect();
                pass.seen.zones = Some((names.clone(), pass.now));
                names
            }
            Err(error) => {
                zones_failed(pass, &error);
                return;
            }
        },
    };
    pass.report.zones = Some(plan::plan(
        &names,
        &context.desired.control_plane_zones,
        context.desired.omit_zone,
    ));
}

/// The zones that are in the status stay. A cluster that is not provisioned yet waits for them, because its first machines
/// would be placed without them, unless the credentials may not list zones at all.
fn zones_failed(pass: &mut Reconcile<'_>, error: &capo_openstack::Error) {
    const DOING: &str = "Listing availability zones for status.failureDomains";
    let note = format!("{DOING}: {error}");
    let events = &pass.context.events;
    events.warning(
        &pass.reference(),
        Reason::OpenStackError,
        "Reconcile",
        &note,
    );
    if error.class() == FailureClass::Denied {
        return;
    }
    let step_error = StepError::cloud(kind::READY, Reason::OpenStackError, DOING, error);
    if !pass.is_provisioned() {
        pass.report.ready = Some(step_error.state);
    }
    pass.note_wait(step_error.outcome);
}
