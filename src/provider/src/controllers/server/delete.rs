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
    volume::VolumeStatus,
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
        let state = found.as_ref().map_or(ServerState::Absent, report::state);
        let addresses = found.as_ref().map(report::addresses);
        seen.news = self
            .context
            .servers
            .sights
            .record(self.owner, state, addresses, read_at);
        let Some(server) = found else {
            return Ok(());
        };
        let under_way = server.task_state.as_deref() == Some("deleting");
        let id = server.id.clone();
        seen.server = Some(server);
        if !under_way {
            self.ask().await?;
            gone(self.cloud.delete_server(&id, Priority::Gate).await)
                .map_err(|error| failed(&error, Reason::InstanceDeleteFailed))?;
        }
        Err(waiting("The server is being deleted"))
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
        let found = match &self.progress.instance_id {
            Some(id) => match self.cloud.server(&id.as_str().into(), READ).await {
                Ok(server) => Some(server),
                Err(error) if error.is_not_found() => None,
                Err(error) => return Err(failed(&error, Reason::InstanceDeleteFailed)),
            },
            None => instance::find(self.cloud, &self.owner.name, self.claims).await?,
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

    /// Attached volumes go with their server; those of a server that never came to be don't.
    async fn volumes(&self) -> Step<()> {
        let mut left = false;
        for name in volume_names(&self.owner.name, &self.object.spec) {
            let found = match self.cloud.volumes(&name, READ).await {
                Ok(found) => found,
                // Without block storage there are no volumes.
                Err(error) if error.class() == FailureClass::NoService => Vec::new(),
                Err(error) => return Err(failed(&error, Reason::InstanceDeleteFailed)),
            };
            for volume in found {
                let server = self.progress.instance_id.as_deref();
                let elsewhere = volume
                    .attachments
                    .iter()
                    .any(|attachment| Some(attachment.server_id.as_str()) != server);
                if elsewhere {
                    continue;
                }
                left = true;
                if matches!(
                    volume.status,
                    VolumeStatus::Available | VolumeStatus::Error | VolumeStatus::ErrorDeleting
                ) {
                    gone(self.cloud.delete_volume(&volume.id, Priority::Gate).await)
                        .map_err(|error| failed(&error, Reason::InstanceDeleteFailed))?;
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
