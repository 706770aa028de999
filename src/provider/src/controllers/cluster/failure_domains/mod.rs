//! Reads the availability zones in a pass.

pub(crate) mod plan;

use super::{networking::Scope, observation::RotatingRead, pass::Pass, step_context::StepContext};
use crate::kubernetes::conditions::kind;
use crate::reconcile::ReadAt;
use crate::reconcile::StepError;
use capo_core::{FailureClass, Priority, Reason};

/// Reports the zones in which machines may be placed. They are read if their turn has come or if they are too old.
pub(crate) async fn reconcile(pass: &mut Pass<'_>, context: &StepContext<'_>, scope: Scope) {
    // Zones seldom change, so they are read in turn with other parts. While the networking fails, their turn may not
    // come, so a list that is too old is read again as well.
    let oldest = pass.context.settings.sync_period * 6;
    let is_turn = scope == Scope::Part(RotatingRead::Zones);
    let fresh = pass
        .cached
        .zones
        .as_ref()
        .filter(|read| !is_turn && read.age(pass.now) < oldest)
        .map(|read| read.value.clone());
    // All clusters of the cloud share the list.
    let (shared, shared_age) = (
        context.cloud.shared_reads(),
        pass.context.settings.sync_period / 2,
    );
    let names = match fresh {
        Some(names) => names,
        None => match shared
            .availability_zones(shared_age, Priority::Settling)
            .await
        {
            Ok(zones) => {
                let available = zones.iter().filter(|zone| zone.available);
                let names: Vec<String> = available.map(|zone| zone.name.clone()).collect();
                pass.cached.zones = Some(ReadAt::new(names.clone(), pass.now));
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

/// Handles an error of the read. The zones in the status stay. A cluster that is not provisioned yet waits for the
/// zones, because otherwise its first machines would be placed without them. It does not wait if the credentials may
/// not list zones at all.
fn zones_failed(pass: &mut Pass<'_>, error: &capo_openstack::Error) {
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
    pass.record_wait(step_error.outcome);
}
