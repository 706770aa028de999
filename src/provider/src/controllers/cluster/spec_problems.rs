//! Reports the values of the spec that can't be used.

use super::{
    desired::DesiredCluster, pass::Pass, tracking::unsupported, validate::problems::Problem,
};
use crate::reconcile::StepError;
use capo_core::Reason;

/// Reports every value of the spec that can't be used: as an event where the value is optional, else in the condition
/// of its part.
pub(super) fn report(pass: &mut Pass<'_>, desired: &DesiredCluster, problems: Vec<Problem>) {
    for problem in problems {
        if problem.part.is_optional() {
            let events = &pass.context.events;
            events.warning(
                &pass.reference(),
                Reason::InvalidSpec,
                "Reconcile",
                &problem.message,
            );
        } else {
            pass.record(StepError::refused(
                problem.part.condition(),
                Reason::InvalidSpec,
                problem.message,
            ));
        }
    }
    let found = pass.cached.load_balancer.found();
    if let (Some(lb), Some(found)) = (&desired.load_balancer, found) {
        for limit in unsupported(lb, found, pass.cached.octavia_version) {
            let note = format!(
                "OpenStackCluster {}: spec.apiServer.managedLoadBalancer.{limit}",
                desired.object
            );
            let events = &pass.context.events;
            events.warning(&pass.reference(), Reason::NotSupported, "Reconcile", &note);
        }
    }
}
