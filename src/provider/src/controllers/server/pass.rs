//! One pass over an `OpenStackServer`.

use std::{sync::Arc, time::Instant};

use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};

use super::{
    Claims, FINALIZER, Progress, Step,
    delete::{Deletion, Leftover},
    failed, instance, kubernetes_failed, names, ownership,
    ports::{Extensions, Ports, ambiguous},
    report::{self, Report},
    resolve::Resolver,
    volumes,
};
use crate::{
    controllers::{
        Context, Outcome,
        capi::{self, CLUSTER_NAME_LABEL, Cluster},
        identity::{self, Asker, Identity},
    },
    kubernetes::patch::{Written, set_finalizer, write_status},
};
use capo_api::v1alpha1::OpenStackServer;
use capo_core::{ConditionState, ObjectName, Reason};
use capo_core::{FailureClass, Priority};
use capo_gate::desired::ServerState;
use capo_openstack::{Cloud, compute::Server, network::PortFilter};

/// A pass over `object`.
pub(in crate::controllers) fn pass(
    object: Arc<OpenStackServer>,
    context: Arc<Context>,
) -> BoxFuture<'static, Outcome> {
    async move {
        let name = ObjectName::new(object.namespace().unwrap_or_default(), object.name_any());
        let (progress, holder) = ownership::progress(&object, &name, &context);
        Pass {
            name,
            context: &context,
            progress,
            holder,
            object: (*object).clone(),
            authentication: None,
            server: None,
            lost: false,
            news: false,
        }
        .run()
        .await
    }
    .boxed()
}

struct Pass<'a> {
    name: ObjectName,
    context: &'a Context,
    object: OpenStackServer,
    progress: Progress,
    /// Another object has the server that this one names: its id, and whose it is.
    holder: Option<(String, ObjectName)>,
    /// Whether OpenStack takes the credentials.
    authentication: Option<ConditionState>,
    /// The server as read in this pass.
    server: Option<Server>,
    /// The server known by its id is not there.
    lost: bool,
    /// Somebody waits for what was read.
    news: bool,
}

impl Pass<'_> {
    async fn run(mut self) -> Outcome {
        if capi::has_annotation(self.object.meta(), capi::DELETE_FOR_MOVE_ANNOTATION)
            || !ownership::is_watched(&self.object, self.context)
        {
            return Outcome::Done;
        }
        if self.is_paused() {
            return self.report(true, Outcome::Done).await;
        }
        let deleting = self.object.meta().deletion_timestamp.is_some();
        if deleting && !self.object.finalizers().iter().any(|f| f == FINALIZER) {
            self.context.servers.forget(&self.name);
            return Outcome::Done;
        }
        let ended = if deleting {
            self.delete().await
        } else {
            self.make().await
        };
        if self.news {
            self.context.queues.machines.enqueue(&self.name);
        }
        match ended {
            // Nothing is left to report on.
            Ok(()) if deleting => Outcome::Done,
            Ok(()) => self.report(false, Outcome::Done).await,
            Err(outcome) => self.report(false, outcome).await,
        }
    }

    fn is_paused(&self) -> bool {
        capi::has_annotation(self.object.meta(), capi::PAUSED_ANNOTATION)
            || self.cluster().is_some_and(|cluster| cluster.spec.paused)
    }

    fn cluster_name(&self) -> Option<&str> {
        self.object
            .labels()
            .get(CLUSTER_NAME_LABEL)
            .map(String::as_str)
    }

    fn cluster(&self) -> Option<Arc<Cluster>> {
        let key = ObjectRef::new(self.cluster_name()?).within(&self.name.namespace);
        self.context.stores.clusters.get(&key)
    }

    /// What other objects of the same name hold.
    fn claims(&self) -> Claims {
        let others = self.context.stores.openstack_servers.state_filter(|other| {
            other.name_any() == self.name.name
                && other.namespace().as_deref() != Some(self.name.namespace.as_str())
        });
        let named: Vec<(ObjectName, Arc<OpenStackServer>)> = others
            .into_iter()
            .map(|other| {
                let name = ObjectName::new(other.namespace().unwrap_or_default(), other.name_any());
                (name, other)
            })
            .collect();
        Claims::of(named.iter().map(|(name, other)| (name, other.as_ref())))
    }

    async fn identity(&mut self) -> Step<Identity> {
        let object = format!("OpenStackServer {}", self.name);
        let asker = Asker {
            object: &object,
            namespace: &self.name.namespace,
        };
        let found = identity::identity(self.context, asker, &self.object.spec.identity_ref).await;
        match found {
            Ok(identity) => {
                self.authentication = Some(ConditionState::met(Reason::Ready));
                Ok(identity)
            }
            Err(error) => {
                self.authentication = Some(error.state);
                Err(error.outcome)
            }
        }
    }

    /// Makes what is missing, one pass as far as it goes.
    async fn make(&mut self) -> Step<()> {
        if let Some((id, holder)) = &self.holder {
            return Err(ambiguous(format!(
                "server {id} belongs to the OpenStackServer {holder}; two machines can't share one. Delete the Machine of this \
                 one: the server stays"
            )));
        }
        if let Some(refused) = report::pool_not_supported(&self.object.spec)
            && self.progress.instance_id.is_none()
        {
            return Err(Outcome::failed(
                FailureClass::Invalid,
                Reason::NotSupported,
                refused,
            ));
        }
        let identity = self.identity().await?;
        self.keep().await?;
        if let Some(id) = self.progress.instance_id.clone() {
            let ended = self.look(&identity.cloud, &id).await;
            let has_ports = !self.object.spec.ports.is_empty();
            if has_ports && self.server.is_some() && self.progress.port_ids.is_empty() {
                // The status was lost.
                self.find_ports(&identity, &id).await?;
            }
            return ended;
        }
        let claims = self.claims();
        // A server that exists is adopted even where its image or flavor can't be found any more.
        if let Some(server) = instance::find(&identity.cloud, &self.name.name, &claims).await? {
            if let Err(outcome) = self.resolve(&identity).await {
                tracing::debug!(?outcome, "Adopting a server without resolving its spec");
            }
            self.adopt(&identity, server).await
        } else {
            self.resolve(&identity).await?;
            self.create(&identity, &claims).await
        }
    }

    /// Adds the finalizer, before anything is made.
    async fn keep(&mut self) -> Step<()> {
        let api = self.context.api::<OpenStackServer>(&self.name.namespace);
        match set_finalizer(&api, &self.object, FINALIZER, true).await {
            Ok(Some(written)) => {
                self.object = written;
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(error) => Err(kubernetes_failed("Adding the finalizer", &error)),
        }
    }

    /// Looks the names in the spec up, once, and writes down what they mean before anything is made.
    async fn resolve(&mut self, identity: &Identity) -> Step<()> {
        if self.progress.resolved.is_some() {
            return Ok(());
        }
        let resolver = Resolver {
            cloud: &identity.cloud,
            project: &identity.project,
            client: &self.context.client,
            namespace: &self.name.namespace,
            name: &self.name.name,
            cluster: self.cluster_name(),
            spec: &self.object.spec,
        };
        self.progress.resolved = Some(resolver.resolve().await?);
        let outcome = Outcome::wait(
            Reason::InstanceNotReady,
            "The server is being made",
            std::time::Duration::from_secs(2),
        );
        self.write(false, &outcome).await
    }

    /// Reads the server known by its id.
    async fn look(&mut self, cloud: &Cloud, id: &str) -> Step<()> {
        let priority = if self.context.servers.sights.is_wanted(&self.name) {
            Priority::Gate
        } else if self
            .object
            .status
            .as_ref()
            .is_some_and(|status| status.ready)
        {
            Priority::Steady
        } else {
            Priority::Settling
        };
        let read_at = Instant::now();
        match cloud.server(&id.into(), priority).await {
            Ok(server) => {
                self.see(server, read_at);
                self.ended()
            }
            Err(error) if error.is_not_found() => {
                self.lost = true;
                self.news = self.context.servers.sights.record(
                    &self.name,
                    ServerState::Absent,
                    None,
                    read_at,
                );
                Err(report::lost(id))
            }
            Err(error) => Err(failed(&error, Reason::OpenStackError)),
        }
    }

    fn see(&mut self, server: Server, read_at: Instant) {
        self.progress.instance_id = Some(server.id.to_string());
        self.news = self.context.servers.sights.record(
            &self.name,
            report::state(&server),
            Some(report::addresses(&server)),
            read_at,
        );
        self.server = Some(server);
    }

    fn ended(&self) -> Step<()> {
        match self.server.as_ref().map(report::outcome) {
            None | Some(Outcome::Done) => Ok(()),
            Some(outcome) => Err(outcome),
        }
    }

    /// Takes over a server of our name, with its ports: after a lost answer or a wiped status.
    async fn adopt(&mut self, identity: &Identity, server: Server) -> Step<()> {
        let read_at = Instant::now();
        if self.progress.port_ids.is_empty() {
            self.find_ports(identity, &server.id).await?;
        }
        tracing::info!(instance = %server.id, "Adopting the server of this name");
        self.see(server, read_at);
        self.ended()
    }

    /// The ports of a server that exists, in the order of the spec.
    async fn find_ports(&mut self, identity: &Identity, server: &str) -> Step<()> {
        let filter = PortFilter {
            device_id: Some(server.to_owned()),
            project_id: Some(identity.project.clone()),
            ..PortFilter::default()
        };
        let found = identity
            .cloud
            .ports(&filter, Priority::Settling)
            .await
            .map_err(|error| failed(&error, Reason::OpenStackError))?;
        let ports = self.object.spec.ports.iter().enumerate();
        let names = ports
            .map(|(index, port)| names::port(&self.name.name, port.name_suffix.as_deref(), index));
        let port = |name: String| found.iter().find(|port| port.name == name);
        self.progress.port_ids = names
            .filter_map(port)
            .map(|port| port.id.to_string())
            .collect();
        Ok(())
    }

    /// Makes ports, volumes and server, as far as this pass gets.
    async fn create(&mut self, identity: &Identity, claims: &Claims) -> Step<()> {
        let cloud = &identity.cloud;
        let resolved = self.progress.resolved.clone().unwrap_or_default();
        let doubts = self.context.servers.doubts.clone();
        let disks = volumes::disks(
            &self.name.name,
            &self.object.spec,
            resolved.image_id.as_deref().unwrap_or_default(),
        )?;
        let user_data = instance::user_data(
            &self.context.client,
            &self.name.namespace,
            &self.object.spec,
        )
        .await?;
        let extensions = Extensions::of(cloud).await?;
        let owner = self.name.clone();
        let ports = Ports {
            cloud,
            project: &identity.project,
            owner: &owner,
            claims,
            server_id: None,
        };
        let mut port_ids = Vec::with_capacity(resolved.ports.len());
        for port in &resolved.ports {
            let made = ports.ensure(port, extensions, &doubts).await;
            if let Ok(id) = &made {
                port_ids.push(id.clone());
                self.progress.port_ids.clone_from(&port_ids);
            }
            made?;
        }
        let attached = volumes::ensure(cloud, &owner, &disks, &doubts).await?;
        let new = instance::request(
            &owner.name,
            &self.object.spec,
            &resolved,
            &port_ids,
            attached,
            user_data,
        );
        let id = instance::create(cloud, &owner, &new, &doubts).await?;
        tracing::info!(OpenStackServer = %owner, instance = id, "Creating a server");
        let note = format!("Asked for server {} with id {id}", owner.name);
        let about = self.object.object_ref(&());
        self.context
            .events
            .normal(&about, Reason::Created, "Create", &note);
        self.progress.instance_id = Some(id);
        Err(Outcome::wait(
            Reason::InstanceNotReady,
            "The server is being built",
            std::time::Duration::from_secs(1),
        ))
    }

    /// Takes everything away, then the finalizer.
    async fn delete(&mut self) -> Step<()> {
        let identity = self.identity().await?;
        let claims = self.claims();
        let deletion = Deletion {
            cloud: &identity.cloud,
            project: &identity.project,
            object: &self.object,
            owner: &self.name,
            claims: &claims,
            progress: &self.progress,
            context: self.context,
        };
        let mut seen = Leftover::default();
        let ended = deletion.step(&mut seen).await;
        self.news = seen.news;
        if let Some(server) = seen.server {
            self.server = Some(server);
        }
        ended?;
        let api = self.context.api::<OpenStackServer>(&self.name.namespace);
        set_finalizer(&api, &self.object, FINALIZER, false)
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
        if let Outcome::Failed {
            reason, message, ..
        } = &outcome
        {
            let about = self.object.object_ref(&());
            let events = &self.context.events;
            events.warning(&about, *reason, "Reconcile", message);
        }
        match self.write(paused, &outcome).await {
            Ok(()) => outcome,
            Err(unwritten) => unwritten,
        }
    }

    async fn write(&mut self, paused: bool, outcome: &Outcome) -> Step<()> {
        let api = self.context.api::<OpenStackServer>(&self.name.namespace);
        let now = Timestamp::now();
        let report = Report {
            paused,
            authentication: self.authentication.clone(),
            outcome,
            progress: &self.progress,
            server: self.server.as_ref(),
            lost: self.lost,
        };
        let written = write_status(&api, &self.object, |fresh| {
            report::status(fresh, &report, now)
        })
        .await;
        match written {
            Ok(Written::Changed(object)) => {
                self.object = *object;
                Ok(())
            }
            Ok(Written::Unchanged | Written::Gone) => Ok(()),
            Err(error) => Err(kubernetes_failed("Writing the status", &error)),
        }
    }
}
