//! The bastion: an `OpenStackServer` of the cluster with a security group and a floating IP.
//!
//! The server controller creates and deletes the server. A change of the bastion's spec replaces the server; the
//! floating IP stays.

pub(crate) mod addresses;
mod attach_floating_ip;
mod floating_ip;
pub(crate) mod observation;
mod plan;
mod server_object;
mod server_spec;

use std::{net::IpAddr, time::Duration};

use kube::runtime::reflector::ObjectRef;

use self::{
    addresses::{is_enabled, server_name},
    plan::{BastionInputs, BastionPlan, Desired},
    server_spec::DesiredServer,
};
use super::{pass::Pass, security_groups, step_context::StepContext};
use crate::{
    kubernetes::conditions::kind::{self, BASTION_READY},
    reconcile::{StepError, StepResult, cluster_names::Role},
};
use capo_api::{v1alpha1::OpenStackServer, v1beta2::BastionStatus};
use capo_core::{ConditionState, Lookup, Reason, ids::PortId};

/// The time until the next pass over something that a watch also shows.
const WATCHED: Duration = Duration::from_mins(1);

/// Makes the bastion match the spec, as far as that is possible without waiting. The cluster counts as provisioned even
/// if the bastion is missing.
pub(crate) async fn reconcile(pass: &mut Pass<'_>, context: &StepContext<'_>) {
    let step = Bastion::observe(pass).await;
    let step = match step {
        Ok(bastion) => bastion.act(pass, context).await,
        Err(error) => Err(error),
    };
    match step {
        Ok(()) if is_enabled(&pass.object.spec) => {
            let state = ConditionState::met(Reason::Ready);
            pass.report.set_condition(BASTION_READY, state);
        }
        Ok(()) => {}
        Err(error) => pass.record_optional(error),
    }
}

/// Removes the bastion of a cluster that is being deleted.
pub(crate) async fn remove(pass: &mut Pass<'_>, context: &StepContext<'_>) -> StepResult<()> {
    let mut bastion = Bastion::observe(pass).await?;
    bastion.desired = DesiredState::Off;
    bastion.act(pass, context).await
}

/// What was read of the bastion, and what the spec asks for.
struct Bastion {
    name: String,
    desired: DesiredState,
    found: Option<OpenStackServer>,
    is_recorded: bool,
    given: Option<IpAddr>,
    kept: Option<IpAddr>,
}

enum DesiredState {
    Off,
    Unknown,
    Server(Box<DesiredServer>),
}

impl Bastion {
    async fn observe(pass: &Pass<'_>) -> StepResult<Self> {
        let spec = &pass.object.spec;
        let name = server_name(&pass.related.cluster_name);
        let status = last_status(pass);
        let networking = &pass.cached.networking;
        let group = networking.groups.found().and_then(|g| g.bastion.clone());
        let is_recorded = status.is_some() || group.is_some();
        let is_enabled = is_enabled(spec);
        let key = ObjectRef::new(&name).within(&pass.name.namespace);
        let is_deleting = pass.object.metadata.deletion_timestamp.is_some();
        let found = match pass.context.stores.openstack_servers.get(&key) {
            Some(server) => Some((*server).clone()),
            // The watch may not have shown a server that was just created, so its object is read from the API server.
            None if is_enabled || is_recorded || is_deleting => {
                let servers = pass.context.api::<OpenStackServer>(&pass.name.namespace);
                servers.get_opt(&name).await.map_err(|e| {
                    let doing = format!("Reading OpenStackServer {name}");
                    StepError::kubernetes(BASTION_READY, &doing, &e)
                })?
            }
            None => None,
        };
        let address = |text: &Option<String>| text.as_deref().and_then(|ip| ip.parse().ok());
        Ok(Self {
            name,
            desired: desired(pass),
            found,
            is_recorded,
            given: spec.bastion.as_ref().and_then(|b| address(&b.floating_ip)),
            kept: status.and_then(|status| address(&status.floating_ip)),
        })
    }

    async fn act(&self, pass: &mut Pass<'_>, context: &StepContext<'_>) -> StepResult<()> {
        let desired = match &self.desired {
            DesiredState::Off => Desired::Off,
            DesiredState::Unknown => Desired::Unknown,
            DesiredState::Server(server) => Desired::Server(server),
        };
        let inputs = BastionInputs {
            cluster: &pass.name.name,
            desired,
            found: self.found.as_ref(),
            is_recorded: self.is_recorded,
        };
        let is_off = matches!(desired, Desired::Off);
        match plan::plan(&inputs) {
            BastionPlan::Nothing => {
                pass.report.bastion = Lookup::Absent;
                Ok(())
            }
            BastionPlan::CleanUp => self.clean_up(pass, context).await,
            BastionPlan::Remove => {
                self.give_back(context).await?;
                self.delete(pass).await?;
                Err(self.deleting())
            }
            BastionPlan::AwaitDeletion => {
                if is_off {
                    self.give_back(context).await?;
                }
                self.replaced(pass);
                Err(self.deleting())
            }
            BastionPlan::Replace => {
                self.delete(pass).await?;
                self.replaced(pass);
                let message = format!("OpenStackServer {} is being replaced", self.name);
                Err(wait(Reason::ServerNotReady, message))
            }
            BastionPlan::Create(spec) => {
                self.create(pass, *spec).await?;
                self.replaced(pass);
                Err(self.not_ready("is being created"))
            }
            BastionPlan::CreateLater => Err(wait(
                Reason::ServerNotReady,
                "The bastion is created as soon as its network and its security group are known",
            )),
            BastionPlan::Keep => self.update(pass, context).await,
            BastionPlan::Foreign { owner } => Err(StepError::refused(
                BASTION_READY,
                Reason::AmbiguousMatch,
                format!(
                    "OpenStackCluster {}: OpenStackServer {} belongs to {owner}; the bastion is created once no other \
                     object has this name",
                    pass.name, self.name
                ),
            )),
        }
    }

    fn deleting(&self) -> StepError {
        let text = format!("OpenStackServer {} is being deleted", self.name);
        wait(Reason::Deleting, text)
    }

    fn not_ready(&self, why: &str) -> StepError {
        let text = format!("OpenStackServer {} {why}", self.name);
        wait(Reason::ServerNotReady, text)
    }

    /// Reports a bastion whose server is being replaced. Only the floating IP stays in the status.
    fn replaced(&self, pass: &mut Pass<'_>) {
        pass.cached.bastion = None;
        pass.report.bastion = Lookup::Found(BastionStatus {
            name: Some(self.name.clone()),
            floating_ip: self.kept.map(|ip| ip.to_string()),
            ..BastionStatus::default()
        });
    }

    async fn give_back(&self, context: &StepContext<'_>) -> StepResult<()> {
        let status = self
            .found
            .as_ref()
            .and_then(|server| server.status.as_ref());
        let ports = status.and_then(|status| status.resources.as_ref());
        let ports: Vec<PortId> = ports
            .iter()
            .flat_map(|resources| &resources.ports)
            .map(|port| port.id.as_str().into())
            .collect();
        floating_ip::give_back(context, &ports, self.given, self.kept).await
    }

    /// Removes the bastion's floating IP and security group. The server is gone already.
    async fn clean_up(&self, pass: &mut Pass<'_>, context: &StepContext<'_>) -> StepResult<()> {
        self.give_back(context).await?;
        let groups = &pass.cached.networking.groups;
        if context.desired.security.is_some() && !groups.is_known() {
            // The condition SecurityGroupsReady shows why the groups are unknown.
            return Ok(());
        }
        if let Lookup::Found(groups) = &pass.cached.networking.groups
            && groups.bastion.is_some()
        {
            security_groups::delete::one(context, Role::Bastion)
                .await
                .map_err(|error| error.shown_by(BASTION_READY))?;
        }
        if let Lookup::Found(groups) = &mut pass.cached.networking.groups {
            groups.bastion = None;
        }
        pass.report.networking = pass.cached.networking.clone();
        pass.cached.bastion = None;
        pass.report.bastion = Lookup::Absent;
        Ok(())
    }

    /// Brings the server object and the floating IP up to date, and reports the bastion.
    async fn update(&self, pass: &mut Pass<'_>, context: &StepContext<'_>) -> StepResult<()> {
        let Some(server) = &self.found else {
            return Ok(());
        };
        self.update_server_object(pass, server).await?;
        let status = server.status.clone().unwrap_or_default();
        let before = last_status(pass).cloned().unwrap_or_default();
        let is_same = before.id.is_some() && before.id == status.instance_id;
        let mut shown_status = BastionStatus {
            id: status.instance_id.clone(),
            name: Some(self.name.clone()),
            ssh_key_name: Some(server.spec.ssh_key_name.clone()).filter(|name| !name.is_empty()),
            state: status.instance_state.clone(),
            floating_ip: before.floating_ip.clone(),
            ..if is_same {
                before
            } else {
                BastionStatus::default()
            }
        };
        let step = match (&status.instance_id, status.ready) {
            (Some(instance), true) => {
                self.attach_floating_ip(pass, context, instance, &mut shown_status)
                    .await
            }
            _ => Err(self.not_ready(&why_not_ready(server))),
        };
        pass.report.bastion = Lookup::Found(shown_status);
        step
    }
}

/// The bastion as it was last read, or as the status shows it.
pub(crate) fn last_status<'a>(pass: &'a Pass<'_>) -> Option<&'a BastionStatus> {
    let seen = pass.cached.bastion.as_ref().map(|seen| &seen.status);
    seen.or(pass.object.status.as_ref()?.bastion.as_ref())
}

fn desired(pass: &Pass<'_>) -> DesiredState {
    let spec = &pass.object.spec;
    let Some(bastion) = spec.bastion.as_ref().filter(|_| is_enabled(spec)) else {
        return DesiredState::Off;
    };
    let networking = &pass.cached.networking;
    let Some(network) = networking.network.found() else {
        return DesiredState::Unknown;
    };
    let groups = networking.groups.found();
    let group = groups.and_then(|groups| groups.bastion.as_ref());
    if spec.managed_security_groups.is_some() && group.is_none() {
        return DesiredState::Unknown;
    }
    let group = group.map(|group| group.id.as_str());
    let server = DesiredServer::new(&pass.object, bastion, network.network.id.as_str(), group);
    DesiredState::Server(Box::new(server))
}

fn why_not_ready(server: &OpenStackServer) -> String {
    let conditions = server.status.iter().flat_map(|status| &status.conditions);
    let instance = conditions
        .into_iter()
        .find(|condition| condition.type_ == kind::INSTANCE_READY);
    match instance.filter(|condition| !condition.message.is_empty()) {
        Some(condition) => format!("is not ready: {}", condition.message),
        None => "is not ready".to_owned(),
    }
}

fn wait(reason: Reason, message: impl Into<String>) -> StepError {
    StepError::wait(BASTION_READY, reason, message, WATCHED)
}
