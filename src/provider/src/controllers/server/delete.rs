//! The end of a server and of everything that was made for it: server, then trunks and ports, then
//! volumes. It is over when all of them were looked for and none was found.

use std::time::{Duration, Instant};

use kube::ResourceExt;

use super::{Claims, Progress, Step, failed, instance, names, report};
use crate::controllers::{Context, Outcome, machine};
use capo_api::{
    v1alpha1::{OpenStackServer, OpenStackServerSpec},
    v1beta2::BlockDeviceType,
};
use capo_core::ids::ProjectId;
use capo_core::{FailureClass, Priority};
use capo_core::{ObjectName, Reason};
use capo_gate::desired::ServerState;
use capo_openstack::{
    Cloud, Error,
    compute::{Server, ServerStatus},
    network::{Port, PortFilter},
    volume::{Volume, VolumeStatus},
};

const READ: Priority = Priority::Settling;

/// One pass of a deletion.
pub(super) struct Deletion<'a> {
    /// The cloud.
    pub cloud: &'a Cloud,
    /// The project of the credentials: nothing of another one is ever ours.
    pub project: &'a ProjectId,
    /// The object.
    pub object: &'a OpenStackServer,
    /// Its name.
    pub owner: &'a ObjectName,
    /// What other objects of ours hold.
    pub claims: &'a Claims,
    /// What is known of its OpenStack objects.
    pub progress: &'a Progress,
    /// Where looks at servers are left, and who is asked before a machine's server goes.
    pub context: &'a Context,
}

/// What a deletion saw of the server.
#[derive(Debug, Default)]
pub(super) struct Leftover {
    /// The server, while there is one.
    pub server: Option<Server>,
    /// Somebody waits for the look at the server.
    pub news: bool,
}

impl Deletion<'_> {
    /// Goes one step further, and comes back with `Ok` when nothing is left.
    pub(super) async fn step(&self, seen: &mut Leftover) -> Step<()> {
        self.server(seen).await?;
        self.ports().await?;
        self.volumes().await
    }

    async fn server(&self, seen: &mut Leftover) -> Step<()> {
        let read_at = Instant::now();
        let found = self.find_server().await?;
        let sights = &self.context.servers.sights;
        let before = sights.get(self.owner).map(|sight| sight.server.state);
        let state = found.as_ref().map_or(ServerState::Absent, report::state);
        let addresses = found.as_ref().map(report::addresses);
        seen.news = sights.record(self.owner, state, addresses, read_at);
        let Some(server) = found else {
            let what = format!("server {}", self.owner.name);
            self.context.servers.doubts.check(self.owner, &what)?;
            // One 404 can be a proxy's.
            if self.was_begun() && before != Some(ServerState::Absent) {
                return Err(waiting(
                    "The server was absent in one read; it is looked for once more",
                ));
            }
            return Ok(());
        };
        let under_way = matches!(
            server.task_state.as_deref(),
            Some("deleting" | "soft-deleting")
        );
        let id = server.id.clone();
        seen.server = Some(server);
        if !under_way {
            self.ask().await?;
            gone(self.cloud.delete_server(&id, Priority::Gate).await)
                .map_err(|error| failed(&error, Reason::InstanceDeleteFailed))?;
        }
        Err(waiting("The server is being deleted"))
    }

    /// Something may have been made for the object: its names were resolved, which comes before any creation.
    fn was_begun(&self) -> bool {
        self.progress.resolved.is_some() || self.progress.instance_id.is_some()
    }

    /// A machine's server does not go before its load balancer members.
    async fn ask(&self) -> Step<()> {
        let owners = self.object.owner_references();
        if !owners.iter().any(|owner| owner.kind == "OpenStackMachine") {
            return Ok(());
        }
        machine::may_server_go(self.owner, self.context).await
    }

    async fn find_server(&self) -> Step<Option<Server>> {
        let found = if let Some(id) = &self.progress.instance_id {
            match self.cloud.server(&id.as_str().into(), READ).await {
                Ok(server) => Some(server),
                Err(error) if error.is_not_found() => None,
                Err(error) => return Err(failed(&error, Reason::InstanceDeleteFailed)),
            }
        } else {
            let found = instance::named(self.cloud, &self.owner.name).await?;
            instance::unclaimed(found, &self.owner.name, self.claims, self.was_begun())?
        };
        Ok(found.filter(|server| {
            !matches!(
                server.status,
                ServerStatus::Deleted | ServerStatus::SoftDeleted
            )
        }))
    }

    async fn ports(&self) -> Step<()> {
        if self.leftover_ports(true).await?.is_empty() {
            for (name, _) in self.port_names() {
                let what = format!("port {name}");
                self.context.servers.doubts.check(self.owner, &what)?;
            }
            return Ok(());
        }
        if self.leftover_ports(false).await?.is_empty() {
            Ok(())
        } else {
            Err(waiting("The server's ports are being deleted"))
        }
    }

    /// The ports that are still there, each deleted on the way when `delete` says so.
    async fn leftover_ports(&self, delete: bool) -> Step<Vec<Port>> {
        let mut left = Vec::new();
        if !self.progress.port_ids.is_empty() {
            let filter = PortFilter {
                ids: self
                    .progress
                    .port_ids
                    .iter()
                    .map(|id| id.as_str().into())
                    .collect(),
                ..PortFilter::default()
            };
            left = self.list_ports(&filter).await?;
        }
        for (name, network_id) in self.port_names() {
            if left.iter().any(|port| port.name == name) {
                continue;
            }
            let filter = PortFilter {
                name: Some(name.clone()),
                project_id: Some(self.project.clone()),
                network_id: network_id.map(Into::into),
                ..PortFilter::default()
            };
            let found = self.list_ports(&filter).await?;
            if found.len() > 1 {
                return Err(super::ports::ambiguous(format!(
                    "more than one unused port is named {name}; delete the ones that are not used"
                )));
            }
            left.extend(found);
        }
        if delete {
            for port in &left {
                self.delete_port(port).await?;
            }
        }
        Ok(left)
    }

    /// Ports that nobody else uses or claims.
    async fn list_ports(&self, filter: &PortFilter) -> Step<Vec<Port>> {
        let mut found = self
            .cloud
            .ports(filter, READ)
            .await
            .map_err(|error| failed(&error, Reason::InstanceDeleteFailed))?;
        let server = self.progress.instance_id.as_deref();
        found.retain(|port| {
            (port.device_id.is_empty() || Some(port.device_id.as_str()) == server)
                && self.claims.port(&port.id).is_none()
        });
        Ok(found)
    }

    fn port_names(&self) -> Vec<(String, Option<String>)> {
        if let Some(resolved) = &self.progress.resolved {
            return resolved
                .ports
                .iter()
                .map(|port| (port.name.clone(), Some(port.network_id.clone())))
                .collect();
        }
        self.object
            .spec
            .ports
            .iter()
            .enumerate()
            .map(|(index, port)| {
                let name = names::port(&self.owner.name, port.name_suffix.as_deref(), index);
                let network_id = port.network.as_ref().and_then(|network| network.id.clone());
                (name, network_id)
            })
            .collect()
    }

    async fn delete_port(&self, port: &Port) -> Step<()> {
        let trunks = match self.cloud.trunks(&port.id, READ).await {
            Ok(trunks) => trunks,
            // A cloud without trunks has none.
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => return Err(failed(&error, Reason::InstanceDeleteFailed)),
        };
        for trunk in trunks {
            if !trunk.sub_ports.is_empty() {
                let removed = self
                    .cloud
                    .remove_sub_ports(&trunk.id, &trunk.sub_ports, Priority::Gate)
                    .await;
                gone(removed).map_err(|error| failed(&error, Reason::InstanceDeleteFailed))?;
                for sub_port in &trunk.sub_ports {
                    gone(
                        self.cloud
                            .delete_port(&sub_port.port_id, Priority::Gate)
                            .await,
                    )
                    .map_err(|error| failed(&error, Reason::InstanceDeleteFailed))?;
                }
            }
            gone(self.cloud.delete_trunk(&trunk.id, Priority::Gate).await)
                .map_err(|error| failed(&error, Reason::InstanceDeleteFailed))?;
        }
        gone(self.cloud.delete_port(&port.id, Priority::Gate).await)
            .map_err(|error| failed(&error, Reason::InstanceDeleteFailed))
    }

    /// Attached volumes are deleted by Nova with their server; those of a server that never came to be are not.
    async fn volumes(&self) -> Step<()> {
        if self.progress.instance_id.is_none() && self.claims.has_servers() {
            // Volumes of these names belong to the object of the same name in another namespace.
            return Ok(());
        }
        let mut left = false;
        for name in volume_names(&self.owner.name, &self.object.spec) {
            let found = match self.cloud.volumes(&name, READ).await {
                Ok(found) => found,
                // Without block storage there are no volumes.
                Err(error) if error.class() == FailureClass::NoService => Vec::new(),
                Err(error) => return Err(failed(&error, Reason::InstanceDeleteFailed)),
            };
            if found.is_empty() {
                let what = format!("volume {name}");
                self.context.servers.doubts.check(self.owner, &what)?;
            }
            for volume in found {
                match volume_plan(&volume, self.progress.instance_id.as_deref()) {
                    VolumePlan::Leave => {}
                    VolumePlan::Await => left = true,
                    VolumePlan::Delete => {
                        left = true;
                        gone(self.cloud.delete_volume(&volume.id, Priority::Gate).await)
                            .map_err(|error| failed(&error, Reason::InstanceDeleteFailed))?;
                    }
                }
            }
        }
        if left {
            Err(waiting("The server's volumes are being deleted"))
        } else {
            Ok(())
        }
    }
}

/// What a deletion does about one volume of our names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VolumePlan {
    /// It is not ours, or Nova deletes it.
    Leave,
    /// Its deletion is under way.
    Await,
    /// It is ours and free.
    Delete,
}

/// `server` is the id of the server that the object had, if it ever had one. What is still attached to that
/// one, or being detached from it, is Nova's to delete: on clouds that delete softly only after days.
fn volume_plan(volume: &Volume, server: Option<&str>) -> VolumePlan {
    let elsewhere = volume
        .attachments
        .iter()
        .any(|attachment| Some(attachment.server_id.as_str()) != server);
    match volume.status {
        _ if elsewhere => VolumePlan::Leave,
        VolumeStatus::Available | VolumeStatus::Error | VolumeStatus::ErrorDeleting => {
            VolumePlan::Delete
        }
        _ if server.is_some() => VolumePlan::Leave,
        _ => VolumePlan::Await,
    }
}

fn volume_names(server: &str, spec: &OpenStackServerSpec) -> Vec<String> {
    let root = spec.root_volume.iter().map(|_| names::root_volume(server));
    let devices = spec
        .additional_block_devices
        .iter()
        .filter(|device| device.storage.type_ == BlockDeviceType::Volume)
        .map(|device| names::device_volume(server, &device.name));
    root.chain(devices).collect()
}

/// What is to be deleted and is not there is as good as deleted.
fn gone(answer: Result<(), Error>) -> Result<(), Error> {
    match answer {
        Err(error) if error.is_not_found() => Ok(()),
        other => other,
    }
}

fn waiting(message: &str) -> Outcome {
    Outcome::wait(Reason::Deleting, message, Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_volume_is_waited_for_only_where_nova_does_not_delete_it() {
        use VolumePlan::{Await, Delete, Leave};
        for (status, attached_to, server, expected) in [
            ("available", None, None, Delete),
            ("available", None, Some("1"), Delete),
            ("error", None, Some("1"), Delete),
            ("error_deleting", None, None, Delete),
            ("creating", None, None, Await),
            ("deleting", None, None, Await),
            // The server is deleted softly, or its attachment is stale.
            ("in-use", Some("1"), Some("1"), Leave),
            ("detaching", Some("1"), Some("1"), Leave),
            ("deleting", None, Some("1"), Leave),
            // Another server's.
            ("in-use", Some("2"), Some("1"), Leave),
            ("in-use", Some("2"), None, Leave),
        ] {
            let attachments: Vec<_> = attached_to
                .iter()
                .map(|server| json!({"server_id": server}))
                .collect();
            let volume: Volume = serde_json::from_value(json!({"id": "v", "name": "m1-root",
                "status": status, "size": 1, "attachments": attachments}))
            .unwrap();
            assert_eq!(
                volume_plan(&volume, server),
                expected,
                "{status} {attached_to:?} {server:?}"
            );
        }
    }
}
