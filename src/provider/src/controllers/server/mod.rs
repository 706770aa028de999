//! The controller of `OpenStackServer`: one server with its ports, trunks and volumes, for machines and bastions alike.
//!
//! A pass ([`pass()`]) reads what exists ([`observe`]), checks the spec ([`validate`]), decides ([`plan`]), creates
//! what is missing ([`act`]: [`ports`], [`block_devices`], [`instance`]) and shows the result ([`report`]). The objects
//! that the spec names are looked up once ([`resolve`]). Creating a server takes many passes, because no pass waits for
//! OpenStack. A server that existed and is gone is never created again; its Machine has to be replaced.

mod act;
mod address_pairs;
mod block_devices;
mod caches;
mod delete;
mod floating_ip;
mod instance;
mod observe;
mod ownership;
mod pass;
mod plan;
mod ports;
mod report;
mod resolve;
mod server_group;
mod server_state;
mod validate;
mod volume_plan;

use std::collections::BTreeMap;

pub(super) use caches::ServerCaches;
pub(super) use pass::pass;

use crate::kubernetes::conditions::kind::INSTANCE_READY as CONDITION;
use crate::reconcile::{
    StepError, StepResult, creations, filters,
    finalizer::OPENSTACK_SERVER as FINALIZER,
    server_error::{ambiguous, failed, failure, kubernetes_failed, missing, wait},
};
use capo_api::v1alpha1::{OpenStackServer, ResolvedServerSpec};
use capo_core::ObjectName;
use capo_core::ids::{PortId, ServerId};

/// The name of this controller in logs and metrics.
pub(super) const CONTROLLER: &str = "openstackserver";

/// The recorder of what is created for a server.
type Creations = creations::Creations<OpenStackServer>;

/// What is known of a server's OpenStack objects. It is written to the status regardless of the outcome of a pass, so
/// that no object that was created is lost.
#[derive(Debug, Clone, PartialEq, Default)]
struct Progress {
    /// The ids of the objects that the spec names.
    resolved: Option<ResolvedServerSpec>,
    /// The ids of the ports, in the order of the spec.
    port_ids: Vec<PortId>,
    /// The id of the server in Nova.
    instance_id: Option<ServerId>,
}

impl Progress {
    fn of(object: &OpenStackServer) -> Self {
        let Some(status) = &object.status else {
            return Self::default();
        };
        Self {
            resolved: status.resolved.clone(),
            port_ids: status
                .resources
                .iter()
                .flat_map(|resources| &resources.ports)
                .map(|port| port.id.clone().into())
                .collect(),
            instance_id: status
                .instance_id
                .clone()
                .filter(|id| !id.is_empty())
                .map(Into::into),
        }
    }

    /// Adds what the last pass has written, because the status in the store may be older.
    fn completed_by(&mut self, written: Self) {
        // `written` takes precedence, because the id of a managed server group is added later than the rest.
        self.resolved = written.resolved.or_else(|| self.resolved.take());
        if self.port_ids.len() < written.port_ids.len() {
            self.port_ids = written.port_ids;
        }
        self.instance_id = self.instance_id.take().or(written.instance_id);
    }
}

/// The ids of OpenStack objects that other `OpenStackServer`s of the same name have. The names of servers and ports in
/// OpenStack do not contain the namespace, so two objects can ask for the same name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct IdsOfOthers {
    servers: BTreeMap<ServerId, ObjectName>,
    ports: BTreeMap<PortId, ObjectName>,
}

impl IdsOfOthers {
    /// Collects the ids that `others` have.
    fn of<'a>(others: impl Iterator<Item = (&'a ObjectName, &'a OpenStackServer)>) -> Self {
        let mut ids = Self::default();
        for (name, other) in others {
            let progress = Progress::of(other);
            if let Some(id) = progress.instance_id {
                ids.servers.insert(id, name.clone());
            }
            for id in progress.port_ids {
                ids.ports.insert(id, name.clone());
            }
        }
        ids
    }

    fn server(&self, id: &ServerId) -> Option<&ObjectName> {
        self.servers.get(id)
    }

    /// Those of the ids that are among these ones.
    fn among(&self, servers: &[ServerId], ports: &[PortId]) -> Self {
        let mut ids = self.clone();
        ids.servers.retain(|id, _| servers.contains(id));
        ids.ports.retain(|id, _| ports.contains(id));
        ids
    }

    /// Whether the volumes of an object's names belong to another object. They do if only the other one has got as far
    /// as a server. Ports come before volumes, so they also do if only the other one has ports.
    fn hold_volumes_of(&self, progress: &Progress) -> bool {
        progress.instance_id.is_none()
            && (!self.servers.is_empty() || progress.port_ids.is_empty() && !self.ports.is_empty())
    }

    fn port(&self, id: &PortId) -> Option<&ObjectName> {
        self.ports.get(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_belong_to_the_object_that_has_got_as_far_as_its_volumes() {
        let holder = ObjectName::new("first", "m1");
        for (own_server, own_ports, servers, ports, expected) in [
            (false, false, false, false, false),
            (false, false, false, true, true),
            (false, true, false, true, false),
            (false, true, true, true, true),
            (true, true, true, true, false),
        ] {
            let progress = Progress {
                instance_id: own_server.then(|| "1".into()),
                port_ids: own_ports.then(|| "2".into()).into_iter().collect(),
                ..Progress::default()
            };
            let mut others = IdsOfOthers::default();
            if servers {
                others.servers.insert("3".into(), holder.clone());
            }
            if ports {
                others.ports.insert("4".into(), holder.clone());
            }
            let held = others.hold_volumes_of(&progress);
            assert_eq!(held, expected, "{progress:?} {others:?}");
        }
    }

    #[test]
    fn an_object_in_another_project_holds_no_volumes() {
        let holder = ObjectName::new("first", "m1");
        let others = IdsOfOthers {
            servers: [("3".into(), holder.clone())].into(),
            ports: [("4".into(), holder)].into(),
        };
        for (servers, ports, expected) in [
            (vec![], vec![], false),
            (vec!["1".into()], vec!["2".into()], false),
            (vec!["1".into(), "3".into()], vec![], true),
            (vec![], vec!["4".into()], true),
        ] {
            let here = others.among(&servers, &ports);
            let held = here.hold_volumes_of(&Progress::default());
            assert_eq!(held, expected, "{servers:?} {ports:?}");
        }
    }
}
