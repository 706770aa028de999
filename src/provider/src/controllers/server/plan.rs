//! Decides what a pass does about server and ports, with the errors of what it does not do. The functions are pure.

use capo_api::v1beta2::ResolvedPortSpec;
use capo_core::{
    ObjectName,
    ids::{PortId, ServerId},
};
use capo_openstack::network::Port;

use super::{IdsOfOthers, StepError, ambiguous};
use crate::reconcile::matching::{Match, resolve};

/// What to do about the server of an object whose id is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ServerPlan {
    /// No server has the name.
    Create,
    /// The only server with the name is adopted.
    Adopt(ServerId),
    /// Another object holds a server of the name.
    HeldByAnother { id: ServerId, by: ObjectName },
    /// Several servers have the name.
    Ambiguous,
}

/// Decides what to do about the servers `found` by their name.
pub(super) fn server_plan(found: Vec<ServerId>, ids_of_others: &IdsOfOthers) -> ServerPlan {
    let held = found
        .iter()
        .find_map(|id| Some((id, ids_of_others.server(id)?)));
    if let Some((id, by)) = held {
        return ServerPlan::HeldByAnother {
            id: id.clone(),
            by: by.clone(),
        };
    }
    match resolve(found, None, |id| id) {
        Match::None => ServerPlan::Create,
        Match::One(id) => ServerPlan::Adopt(id),
        Match::Several(_) => ServerPlan::Ambiguous,
    }
}

impl ServerPlan {
    /// The error that keeps the plan for the server called `name` from being carried out, if there is one.
    pub(super) fn refusal(&self, name: &str) -> Option<StepError> {
        match self {
            Self::Create | Self::Adopt(_) => None,
            Self::HeldByAnother { id, by } => Some(ambiguous(format!(
                "the server {id} named {name} belongs to the OpenStackServer {by}; two objects of one name can't share a project",
            ))),
            Self::Ambiguous => Some(several_servers(name)),
        }
    }
}

/// The error if several servers have the object's name.
pub(super) fn several_servers(name: &str) -> StepError {
    ambiguous(format!(
        "more than one server is named {name}; delete the ones that are not used"
    ))
}

/// The error if the server of the object belongs to another object.
pub(super) fn held_by_another(id: &ServerId, holder: &ObjectName) -> StepError {
    ambiguous(format!(
        "server {id} belongs to the OpenStackServer {holder}; two machines can't share one. Delete the Machine of this \
         one: the server stays"
    ))
}

/// The error if nothing shows that a server with the object's name was created for the object.
pub(super) fn unrelated_server(id: &ServerId, name: &str) -> StepError {
    ambiguous(format!(
        "the server {id} is named {name} and has no port of this object, so it is assumed to belong to someone else: it is \
         neither used nor deleted. Rename it, or give this object another name"
    ))
}

/// What a deletion does about the server of an object whose id is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ServerDeletionPlan {
    /// No server belongs to the object.
    Nothing,
    /// This server belongs to the object.
    Delete(ServerId),
    /// Several servers may belong to the object.
    Ambiguous,
}

/// Decides what to delete of the servers `found` by their name. If nothing was ever created for the object and several
/// servers have the name, none of them belongs to it.
pub(super) fn server_deletion_plan(
    mut found: Vec<ServerId>,
    ids_of_others: &IdsOfOthers,
    was_begun: bool,
) -> ServerDeletionPlan {
    found.retain(|id| ids_of_others.server(id).is_none());
    match resolve(found, None, |id| id) {
        Match::One(id) => ServerDeletionPlan::Delete(id),
        Match::Several(_) if was_begun => ServerDeletionPlan::Ambiguous,
        Match::None | Match::Several(_) => ServerDeletionPlan::Nothing,
    }
}

/// What to do about one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PortPlan {
    /// No port that could belong to the object has the name.
    Create,
    /// This port is used.
    Use(Box<Port>),
    /// Another object has the port with this name.
    HeldByAnother { id: PortId, by: ObjectName },
    /// Several unused ports have the name.
    Ambiguous(Vec<String>),
}

/// Decides what to do about the ports `found` by their name. Ports in another network and ports of another server do
/// not belong to the object.
pub(super) fn port_plan(
    mut found: Vec<Port>,
    wanted: &ResolvedPortSpec,
    ids_of_others: &IdsOfOthers,
    server_id: Option<&ServerId>,
) -> PortPlan {
    let server = server_id.map(ServerId::as_str);
    found.retain(|port| {
        port.network_id == *wanted.network_id
            && (port.device_id.is_empty() || Some(port.device_id.as_str()) == server)
    });
    let held = found
        .iter()
        .find_map(|port| Some((port, ids_of_others.port(&port.id)?)));
    if let Some((port, by)) = held {
        return PortPlan::HeldByAnother {
            id: port.id.clone(),
            by: by.clone(),
        };
    }
    match resolve(found, None, |port| &port.id) {
        Match::None => PortPlan::Create,
        Match::One(port) => PortPlan::Use(Box::new(port)),
        Match::Several(ids) => PortPlan::Ambiguous(ids),
    }
}

/// A port's name, and the id of its network if it is known.
pub(super) type PortName = (String, Option<String>);

/// The names under which a deletion looks for ports, of all `names` of the object's ports. `recorded` ids of ports are
/// known, in the order of the names, and `found` are those of them that still exist. A port of which the id is known is
/// not looked up by its name, because once it is gone, a port of that name would be someone else's. It is looked up
/// while the result of its creation is unknown.
pub(super) fn ports_to_look_up<'a>(
    names: &'a [PortName],
    recorded: usize,
    found: &[Port],
    is_uncertain: impl Fn(&str) -> bool,
) -> Vec<&'a PortName> {
    // While all of them exist, their names show exactly which ones are known. The order alone can mislead: it skips
    // ports that were off the server when the ids were looked up, and sub-ports follow at the end.
    let all_exist = found.len() >= recorded;
    let is_needed = |(index, (name, _)): &(usize, &PortName)| {
        let is_found = found.iter().any(|port| port.name == *name);
        !is_found && (all_exist || *index >= recorded || is_uncertain(name))
    };
    let names = names.iter().enumerate().filter(is_needed);
    names.map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holder() -> ObjectName {
        ObjectName::new("first", "m1")
    }

    fn ids(ids: &[&str]) -> Vec<ServerId> {
        ids.iter().map(|id| ServerId::from(*id)).collect()
    }

    #[test]
    fn a_server_is_adopted_only_where_it_can_be_no_other_ones() {
        let mut ids_of_others = IdsOfOthers::default();
        ids_of_others.servers.insert("1".into(), holder());
        let held = ServerPlan::HeldByAnother {
            id: "1".into(),
            by: holder(),
        };
        for (found, expected) in [
            (&[][..], ServerPlan::Create),
            (&["2"], ServerPlan::Adopt("2".into())),
            (&["1"], held.clone()),
            (&["2", "1"], held),
            (&["2", "3"], ServerPlan::Ambiguous),
        ] {
            assert_eq!(
                server_plan(ids(found), &ids_of_others),
                expected,
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_copy_deletes_no_server_that_another_object_holds() {
        use ServerDeletionPlan::{Ambiguous, Delete, Nothing};
        let mut ids_of_others = IdsOfOthers::default();
        ids_of_others.servers.insert("1".into(), holder());
        for (found, was_begun, expected) in [
            (&[][..], true, Nothing),
            (&["1"], true, Nothing),
            (&["1", "2"], true, Delete("2".into())),
            (&["2", "3"], true, Ambiguous),
            (&["2", "3"], false, Nothing),
        ] {
            let plan = server_deletion_plan(ids(found), &ids_of_others, was_begun);
            assert_eq!(plan, expected, "{found:?}");
        }
    }

    fn port(id: &str, network: &str, device: &str) -> Port {
        serde_json::from_value(json!({"id": id, "network_id": network, "device_id": device}))
            .unwrap()
    }

    #[test]
    fn a_port_is_used_where_it_is_free_or_on_the_server() {
        let wanted: ResolvedPortSpec =
            serde_json::from_value(json!({"name": "m1-0", "networkID": "n"})).unwrap();
        let mut ids_of_others = IdsOfOthers::default();
        ids_of_others.ports.insert("held".into(), holder());
        let used = |id, device| PortPlan::Use(Box::new(port(id, "n", device)));
        for (found, expected) in [
            (vec![], PortPlan::Create),
            (vec![port("p", "other", "")], PortPlan::Create),
            (vec![port("p", "n", "another")], PortPlan::Create),
            (vec![port("p", "n", "")], used("p", "")),
            (vec![port("p", "n", "server")], used("p", "server")),
            (
                vec![port("held", "n", "")],
                PortPlan::HeldByAnother {
                    id: "held".into(),
                    by: holder(),
                },
            ),
            (
                vec![port("q", "n", ""), port("p", "n", "")],
                PortPlan::Ambiguous(vec!["p".into(), "q".into()]),
            ),
        ] {
            let plan = port_plan(
                found.clone(),
                &wanted,
                &ids_of_others,
                Some(&"server".into()),
            );
            assert_eq!(plan, expected, "{found:?}");
        }
    }

    #[test]
    fn a_port_whose_id_is_known_is_not_looked_up_by_its_name() {
        let names: Vec<PortName> = ["m1-0", "m1-1"]
            .map(|name| (name.to_owned(), Some("n".to_owned())))
            .into();
        let port_called = |name: &str| Port {
            name: name.to_owned(),
            ..port("p", "n", "")
        };
        let (first, second) = (port_called("m1-0"), port_called("m1-1"));
        let sub_port = port_called("vlan-7");
        for (recorded, found, uncertain, expected) in [
            (0, vec![], "", &["m1-0", "m1-1"][..]),
            // The creation ended after the first port.
            (1, vec![first.clone()], "", &["m1-1"]),
            (1, vec![], "", &["m1-1"]),
            (2, vec![first.clone(), second.clone()], "", &[]),
            (2, vec![second.clone()], "", &[]),
            (2, vec![], "", &[]),
            (2, vec![], "m1-0", &["m1-0"]),
            // The first port was not on the server when the ids were looked up.
            (1, vec![second.clone()], "", &["m1-0"]),
            (2, vec![first.clone(), sub_port.clone()], "", &["m1-1"]),
            (3, vec![sub_port], "", &[]),
        ] {
            let names = ports_to_look_up(&names, recorded, &found, |name| name == uncertain);
            let names: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, expected, "{recorded} {found:?}");
        }
    }
}
