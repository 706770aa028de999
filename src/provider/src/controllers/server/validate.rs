//! The errors that keep a pass from doing anything, with their messages. The functions are pure.

use super::{StepError, ambiguous, plan::ServerPlan};
use capo_core::ObjectName;
use capo_core::ids::ServerId;

/// The error if the server of the object belongs to another object.
pub(super) fn held_by_another(id: &ServerId, holder: &ObjectName) -> StepError {
    ambiguous(format!(
        "server {id} belongs to the OpenStackServer {holder}; two machines can't share one. Delete the Machine of this \
         one: the server stays"
    ))
}

/// The error if several servers have the object's name.
pub(super) fn several_servers(name: &str) -> StepError {
    ambiguous(format!(
        "more than one server is named {name}; delete the ones that are not used"
    ))
}

/// The error if nothing shows that a server with the object's name was created for the object.
pub(super) fn unrelated_server(id: &ServerId, name: &str) -> StepError {
    ambiguous(format!(
        "the server {id} is named {name} and has no port of this object, so it is assumed to belong to someone else: it is \
         neither used nor deleted. Rename it, or give this object another name"
    ))
}

/// The error that keeps a plan for the server from being carried out, if there is one.
pub(super) fn refusal(plan: &ServerPlan, name: &str) -> Option<StepError> {
    match plan {
        ServerPlan::Create | ServerPlan::Adopt(_) => None,
        ServerPlan::HeldByAnother { id, by } => Some(ambiguous(format!(
            "the server {id} named {name} belongs to the OpenStackServer {by}; two objects of one name can't share a project",
        ))),
        ServerPlan::Ambiguous => Some(several_servers(name)),
    }
}
