//! What keeps a pass from doing anything, and what its message says. Plain functions.

use super::{StepError, ambiguous, plan::ServerPlan};
use capo_core::ObjectName;
use capo_core::ids::ServerId;

/// The server that the object names belongs to another object.
pub(super) fn held_by_another(id: &ServerId, holder: &ObjectName) -> StepError {
    ambiguous(format!(
        "server {id} belongs to the OpenStackServer {holder}; two machines can't share one. Delete the Machine of this \
         one: the server stays"
    ))
}

/// Several servers have the object's name.
pub(super) fn several_servers(name: &str) -> StepError {
    ambiguous(format!(
        "more than one server is named {name}; delete the ones that are not used"
    ))
}

/// A server of the object's name shows nothing that was created for the object.
pub(super) fn strangers_server(id: &ServerId, name: &str) -> StepError {
    ambiguous(format!(
        "the server {id} is named {name} and has no port of this object, so it is taken for another owner's: it is neither \
         used nor deleted. Rename it, or give this object another name"
    ))
}

/// Why a plan for the server can't be carried out, if it can't.
pub(super) fn refusal(plan: &ServerPlan, name: &str) -> Option<StepError> {
    match plan {
        ServerPlan::Create | ServerPlan::Adopt(_) => None,
        ServerPlan::HeldByAnother { id, by } => Some(ambiguous(format!(
            "the server {id} named {name} belongs to the OpenStackServer {by}; two objects of one name can't share a project",
        ))),
        ServerPlan::Ambiguous => Some(several_servers(name)),
    }
}
