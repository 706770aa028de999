//! One pass over an `OpenStackServer`.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};

use super::{
    CONDITION, FINALIZER, Progress, StepResult, address_pairs,
    creations::described,
    delete::{Deletion, Leftover},
    floating_ip::{self, FloatingAddress},
    instance, kubernetes_failed,
    ownership::{self, can_be_its_server},
    plan::{ServerPlan, held_by_another, server_plan, unrelated_server},
    report::{self, Report},
    server_state::{self, being_built},
};
use crate::{
    controllers::{
        Context, Outcome,
        capi::{CLUSTER_NAME_LABEL, Cluster},
        identity::Identity,
        project_match::{ProjectMatch, project_match},
    },
    kubernetes::{
        events::CloudObject,
        patch::{Written, write_status},
    },
    reconcile::{name_of, start::Start},
};
use capo_api::v1alpha1::OpenStackServer;
use capo_core::{ConditionState, FailureClass, ObjectName, ids::ServerId};
use capo_gate::desired::ServerState;
use capo_openstack::compute::Server;

/// One pass over an `OpenStackServer`.
pub(in crate::controllers) fn pass(
    object: Arc<OpenStackServer>,
    context: Arc<Context>,
) -> BoxFuture<'static, Outcome> {
    async move {
        let name = name_of(&*object);
        let (progress, holder) = ownership::progress(&object, &name, &context);
        let uid = object.metadata.uid.as_deref();
        context.servers.observations.begin(&name, uid);
        context.servers.uncertain.load(&*object, &name);
        Pass {
            name,
            context: &context,
            progress,
            holder,
            object: (*object).clone(),
            authentication: None,
            server: None,
            lost: false,
            enqueue_machine: false,
            floating: FloatingAddress::default(),
            ports: None,
        }
        .run()
        .await
    }
    .boxed()
}

/// One pass over one `OpenStackServer`.
pub(super) struct Pass<'a> {
    /// The name of the object.
    pub(super) name: ObjectName,
    /// The state that all passes share.
    pub(super) context: &'a Context,
    /// The object as it was last read or written.
    pub(super) object: OpenStackServer,
    /// What is known of the OpenStack objects of the server.
    pub(super) progress: Progress,
    /// The id of the server and the name of the object that has it, if another object has the server that this one
    /// names.
    pub(super) holder: Option<(ServerId, ObjectName)>,
    /// Whether OpenStack accepts the credentials; `None` if no sign-in was tried.
    pub(super) authentication: Option<ConditionState>,
    /// The server as read in this pass.
    pub(super) server: Option<Server>,
    /// Whether Nova has no server with the known id.
    pub(super) lost: bool,
    /// Whether the machine controller waits for what was read.
    pub(super) enqueue_machine: bool,
    /// What is known of the floating IP from a pool.
    pub(super) floating: FloatingAddress,
    /// Whether the ports of an existing server are as the spec wants them; `None` if they were not compared.
    pub(super) ports: Option<StepResult<()>>,
}

impl Pass<'_> {
    async fn run(mut self) -> Outcome {
        if !ownership::is_watched(&self.object, self.context) {
            return Outcome::Done;
        }
        let is_paused = self.cluster().is_some_and(|cluster| cluster.spec.paused);
        let start = Start::of(self.object.meta(), FINALIZER, is_paused);
        let ended = match start {
            Start::Gone => {
                self.context.servers.forget(&self.name);
                return Outcome::Done;
            }
            Start::Moved => return Outcome::Done,
            Start::Paused => return self.report(true, Outcome::Done).await,
            Start::Delete => self.delete().boxed().await,
            Start::Apply => self.apply().boxed().await,
        };
        if self.enqueue_machine {
            self.context.queues.machines.enqueue(&self.name);
        }
        match ended {
            // The deletion is complete, so the status is not written any more.
            Ok(()) if start == Start::Delete => Outcome::Done,
            Ok(()) => self.report(false, Outcome::Done).await,
            Err(error) => self.report(false, error.outcome).await,
        }
    }

    /// Creates what is missing, as far as that is possible in one pass.
    async fn apply(&mut self) -> StepResult<()> {
        if let Some((id, holder)) = &self.holder {
            return Err(held_by_another(id, holder));
        }
        let identity = self.identity().await?;
        self.context
            .set_finalizer(&mut self.object, FINALIZER, true)
            .await
            .map_err(|error| kubernetes_failed("Adding the finalizer", &error))?;
        let ended = self.make_server(&identity).await;
        let attached = self.attach_floating_ip(&identity).await;
        let changed = self.change_address_pairs(&identity).await;
        ended.and(attached).and(changed)
    }

    async fn make_server(&mut self, identity: &Identity) -> StepResult<()> {
        if let Some(id) = self.progress.instance_id.clone() {
            if self.was_just_created(&identity.cloud) {
                return Err(being_built(&identity.cloud));
            }
            let ended = self.read_server(identity, &id).await;
            let has_ports = !self.object.spec.ports.is_empty();
            if has_ports && self.server.is_some() && self.progress.port_ids.is_empty() {
                // The status was lost, so the ports are looked up again.
                self.find_ports(identity, &id).await?;
            }
            return ended;
        }
        let ids_of_others = self.ids_of_others();
        let oldest = self.context.servers.changes.oldest_look_up(&self.name.name);
        let found = instance::named(&identity.cloud, &self.name.name, oldest).await?;
        let plan = server_plan(found, &ids_of_others);
        if let Some(refusal) = plan.refusal(&self.name.name) {
            return Err(refusal);
        }
        if let ServerPlan::Adopt(id) = plan {
            let (cloud, project) = (&identity.cloud, &identity.project);
            // If the names were resolved, a request to create this server may have been sent and its answer lost, so
            // the server is taken for the object's.
            if self.progress.resolved.is_none()
                && !can_be_its_server(&self.object, cloud, project, &id).await?
            {
                return Err(unrelated_server(&id, &self.name.name));
            }
            let found = self.read_found(&identity.cloud, &id, oldest).await?;
            // An existing server is adopted even if its image or flavor can't be found any more.
            if let Err(error) = self.resolve(identity).await {
                tracing::debug!(outcome = ?error.outcome, "Adopting a server without resolving its spec");
            }
            return self.adopt(identity, found).await;
        }
        // Nothing is created while the creation of the server may still be carried out, because that server uses the
        // existing ports and volumes.
        let server = described(CloudObject::Server, &self.name.name);
        let uncertain = &self.context.servers.uncertain;
        uncertain.check(CONDITION, &self.name, &server)?;
        self.resolve(identity).await?;
        if let Err(error) = floating_ip::claimed(&self.object, self.context).await {
            self.floating.record_incomplete(&error.outcome);
            return Err(error);
        }
        self.create(identity, &ids_of_others).await
    }

    /// Sets changed address pairs on the ports of an existing server.
    async fn change_address_pairs(&mut self, identity: &Identity) -> StepResult<()> {
        if self.server.is_none() {
            return Ok(());
        }
        let changed = address_pairs::apply(&identity.cloud, &self.object, &mut self.progress).await;
        self.ports = Some(changed.clone());
        changed
    }

    /// Puts the floating IP from the pool on the server, if the server exists.
    async fn attach_floating_ip(&mut self, identity: &Identity) -> StepResult<()> {
        let Some(server) = &self.server else {
            return Ok(());
        };
        if server_state::state(server) == ServerState::Absent {
            return Ok(());
        }
        let ports = &self.progress.port_ids;
        let attached = match floating_ip::claimed(&self.object, self.context).await {
            Ok(None) => return Ok(()),
            Ok(Some(ip)) => {
                floating_ip::attach(identity, server, ports, ip, &mut self.floating).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = &attached {
            self.floating.record_incomplete(&error.outcome);
        }
        attached
    }

    /// Deletes everything that was created for the object, then removes the finalizer.
    async fn delete(&mut self) -> StepResult<()> {
        let identity = self.identity().await?;
        let ids_of_others = self.ids_of_others();
        let deletion = Deletion {
            cloud: &identity.cloud,
            project: &identity.project,
            project_match: self.cluster().map_or(ProjectMatch::Own, |cluster| {
                let reference = &self.object.spec.identity_ref;
                project_match(self.context, &cluster, reference, &identity.project)
            }),
            object: &self.object,
            owner: &self.name,
            ids_of_others: &ids_of_others,
            progress: &self.progress,
            context: self.context,
        };
        let mut leftover = Leftover::default();
        let ended = deletion.step(&mut leftover).await;
        self.enqueue_machine = leftover.enqueue_machine;
        self.progress.port_ids.extend(leftover.ports);
        if let Some(server) = leftover.server {
            self.server = Some(server);
        }
        ended?;
        floating_ip::release(&self.object, self.context).await?;
        self.context
            .set_finalizer(&mut self.object, FINALIZER, false)
            .await
            .map_err(|error| kubernetes_failed("Removing the finalizer", &error))?;
        self.context.servers.forget(&self.name);
        Ok(())
    }

    async fn report(&mut self, paused: bool, outcome: Outcome) -> Outcome {
        if let Outcome::Failed {
            class: FailureClass::Auth,
            reason,
            message,
            ..
        } = &outcome
        {
            self.authentication = Some(ConditionState::unmet(*reason, message.clone()));
        }
        outcome.publish_failure(&self.object, &self.context.events);
        let recorded = self.record_creations(paused).await;
        let written = self.write(paused, &outcome).await;
        match recorded.and(written) {
            Ok(()) => outcome,
            Err(unwritten) => unwritten.outcome,
        }
    }

    /// Writes the uncertain creations to the object, because a lookup may have settled some of them.
    async fn record_creations(&mut self, paused: bool) -> StepResult<()> {
        if paused {
            return Ok(());
        }
        let creations = self.creations();
        let recorded = creations.record(CONDITION).await;
        creations.take_written(&mut self.object, &self.context.replaced);
        recorded
    }

    pub(super) async fn write(&mut self, paused: bool, outcome: &Outcome) -> StepResult<()> {
        let api = self.context.api::<OpenStackServer>(&self.name.namespace);
        let now = Timestamp::now();
        let report = Report {
            paused,
            authentication: self.authentication.clone(),
            outcome,
            progress: &self.progress,
            server: self.server.as_ref(),
            lost: self.lost,
            floating: &self.floating,
            ports: self.ports.as_ref(),
        };
        let written = write_status(&self.context.replaced, &api, &self.object, |fresh| {
            report::status(fresh, &report, now)
        })
        .await;
        match written {
            Ok(Written::Changed(object)) => self.object = *object,
            Ok(Written::Unchanged | Written::Gone) => {}
            Err(error) => return Err(kubernetes_failed("Writing the status", &error)),
        }
        let servers = &self.context.servers;
        servers
            .observations
            .record_request_hash(&self.name, self.request_hash());
        let uid = self.object.uid();
        if *outcome == Outcome::Done {
            servers.progress.forget(&self.name);
        } else {
            let progress = self.progress.clone();
            servers.progress.put(&self.name, uid.as_deref(), progress);
        }
        Ok(())
    }

    /// The name of the Cluster that the object belongs to, from its label.
    pub(super) fn cluster_name(&self) -> Option<&str> {
        self.object
            .labels()
            .get(CLUSTER_NAME_LABEL)
            .map(String::as_str)
    }

    /// The Cluster that the object belongs to, from the store.
    pub(super) fn cluster(&self) -> Option<Arc<Cluster>> {
        let key = ObjectRef::new(self.cluster_name()?).within(&self.name.namespace);
        self.context.stores.clusters.get(&key)
    }
}
