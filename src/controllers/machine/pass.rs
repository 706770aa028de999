//! One pass over an `OpenStackMachine`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    runtime::reflector::ObjectRef,
};
use serde_json::json;

use super::{
    FINALIZER, Step,
    gate::{self, Answer, HookChange, MachineSight, Question},
    handover,
    observe::Surroundings,
    report::{self, Report},
    translate,
};
use crate::{
    api::{
        gate_annotation,
        v1alpha1::OpenStackServer,
        v1beta2::{OpenStackCluster, OpenStackMachine},
    },
    controllers::{
        Context, Outcome,
        capi::{self, CLUSTER_NAME_LABEL, HOOK_ANNOTATION, HOOK_VALUE, Machine},
        server::{kubernetes_failed, sight::Sight},
    },
    membership::{
        desired::{DesiredMachine, ServerSight, ServerState},
        findings::{Findings, MachineFinding, Verdict},
    },
    names::ObjectName,
    status::{
        Reason,
        patch::{Written, is_conflict, is_not_found, set_finalizer, write_status},
    },
};

/// How soon to look again at something whose end is told by a watch.
const WATCHED: Duration = Duration::from_mins(1);

/// A pass over `object`.
pub(in crate::controllers) fn pass(
    object: Arc<OpenStackMachine>,
    context: Arc<Context>,
) -> BoxFuture<'static, Outcome> {
    async move {
        match Pass::of((*object).clone(), &context).await {
            Ok(pass) => pass.run().await,
            Err(outcome) => outcome,
        }
    }
    .boxed()
}

/// Comes back with `Ok` when the server of the machine `name` may go, for whoever is about to delete it: its object may
/// have been deleted alone, or by a foreground deletion that does not wait for the machine.
pub(in crate::controllers) async fn may_server_go(
    name: &ObjectName,
    context: &Context,
) -> Step<()> {
    let key = ObjectRef::new(&name.name).within(&name.namespace);
    let Some(object) = context.stores.openstack_machines.get(&key) else {
        return Ok(());
    };
    let mut pass = Pass::of((*object).clone(), context).await?;
    pass.hand_over();
    match gate::farewell(&pass.question()) {
        Answer::Open => Ok(()),
        Answer::Held { reason, message } => Err(waiting(reason, &message)),
    }
}

pub(super) struct Pass<'a> {
    pub(super) name: ObjectName,
    pub(super) context: &'a Context,
    pub(super) object: OpenStackMachine,
    pub(super) around: Surroundings,
    findings: Option<Arc<Findings>>,
    sight: Option<Sight>,
    provisioned: bool,
}

impl<'a> Pass<'a> {
    async fn of(object: OpenStackMachine, context: &'a Context) -> Step<Self> {
        let name = ObjectName::new(object.namespace().unwrap_or_default(), object.name_any());
        let around = Surroundings::of(&object, context).await?;
        let sight = context.servers.sights.get(&name);
        let provisioned = object
            .status
            .as_ref()
            .and_then(|status| status.initialization.as_ref()?.provisioned)
            == Some(true);
        Ok(Self {
            name,
            context,
            object,
            around,
            findings: None,
            sight,
            provisioned,
        })
    }

    async fn run(mut self) -> Outcome {
        if self.is_deleting() && !self.has_finalizer() {
            self.forget();
            return Outcome::Done;
        }
        self.hand_over();
        self.tell_server();
        let ended = if self.is_moved() {
            return Outcome::Done;
        } else if self.is_paused() {
            let unseen = Verdict::unknown(Reason::NotYetObserved, "The machine is paused");
            return self.report(unseen, Outcome::Done, true).await;
        } else if self.is_deleting() {
            self.delete().await
        } else {
            self.make().await
        };
        match ended {
            // Nothing is left to report on.
            Ok(()) if self.is_deleting() => Outcome::Done,
            Ok(()) => {
                let instance = self.instance();
                self.report(instance, Outcome::Done, false).await
            }
            Err(outcome) => {
                let instance = self.instance_after(&outcome);
                self.report(instance, outcome, false).await
            }
        }
    }

    fn is_deleting(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    fn has_finalizer(&self) -> bool {
        self.object.finalizers().iter().any(|f| f == FINALIZER)
    }

    fn is_paused(&self) -> bool {
        self.around.is_paused() || capi::has_annotation(self.object.meta(), capi::PAUSED_ANNOTATION)
    }

    /// clusterctl has moved it away: another process looks after its server.
    fn is_moved(&self) -> bool {
        capi::has_annotation(self.object.meta(), capi::DELETE_FOR_MOVE_ANNOTATION)
    }

    fn is_untouchable(&self) -> bool {
        self.is_paused() || self.is_moved()
    }

    /// Tells the load balancer's task what is known of a control-plane machine, and picks up what it found.
    fn hand_over(&mut self) {
        let machine = self.around.machine.as_deref();
        let (api_server_pod, node) =
            self.context
                .machines
                .health(&self.name, machine, Instant::now());
        if !self.around.control_plane {
            return;
        }
        let Some(cluster) = self.around.cluster_key() else {
            return;
        };
        let network = self
            .around
            .openstack_cluster
            .as_ref()
            .and_then(|cluster| cluster.status.as_ref()?.network.as_ref()?.name.clone());
        let addresses = self.sight.as_ref().map(|sight| sight.addresses.as_slice());
        let desired = DesiredMachine {
            cluster: cluster.clone(),
            machine: machine.map(ResourceExt::name_any),
            address: handover::member_address(
                addresses.unwrap_or_default(),
                network.as_deref().unwrap_or_default(),
            ),
            admitted: self.is_admitted(),
            untouchable: self.is_untouchable(),
            server: self.server_sight(),
            deletion: handover::deletion(
                self.object.meta(),
                self.around.server.as_ref().map(|server| server.meta()),
                machine,
            ),
            operator: gate_annotation::parse_optional(
                self.object
                    .annotations()
                    .get(gate_annotation::KEY)
                    .map(String::as_str),
                Timestamp::now(),
            ),
            api_server_pod,
            node,
        };
        self.context.membership.set_machine(&self.name, desired);
        self.findings = self.context.membership.findings(&cluster);
        if self.finding().is_some_and(|finding| finding.server_wanted)
            && self.around.server.is_some()
            && self.context.servers.sights.want(&self.name)
        {
            self.context.server_wakes.wake(self.name.clone());
        }
    }

    /// A server's object that is deleted alone waits for the same word as a machine's.
    fn tell_server(&self) {
        let deleting = |server: &Arc<OpenStackServer>| server.meta().deletion_timestamp.is_some();
        if self.around.server.as_ref().is_some_and(deleting)
            && gate::farewell(&self.question()) == Answer::Open
        {
            self.context.server_wakes.wake(self.name.clone());
        }
    }

    fn finding(&self) -> Option<&MachineFinding> {
        self.findings.as_ref()?.machines.get(&self.name)
    }

    /// Cluster API took over the provider id, or will in a moment because we said `provisioned`.
    fn is_admitted(&self) -> bool {
        self.provisioned
            || self
                .around
                .machine
                .as_ref()
                .is_some_and(|machine| machine.is_admitted())
    }

    fn server_sight(&self) -> ServerSight {
        if let Some(sight) = &self.sight {
            return sight.server;
        }
        if self.is_deleting() && self.around.server.is_none() {
            // Its object went after it.
            return ServerSight {
                state: ServerState::Absent,
                read_at: Some(Instant::now()),
                down_reads: 2,
            };
        }
        ServerSight {
            state: ServerState::Other,
            read_at: None,
            down_reads: 0,
        }
    }

    fn server_active(&self) -> bool {
        match &self.sight {
            Some(sight) => sight.server.state == ServerState::Active,
            None => self
                .around
                .server
                .as_ref()
                .and_then(|server| server.status.as_ref())
                .is_some_and(|status| status.ready),
        }
    }

    pub(super) fn question(&self) -> Question<'_> {
        Question {
            mode: self.context.membership.settings().mode,
            gated: self.around.is_gated(),
            untouchable: self.is_untouchable(),
            going: self.around.is_going(),
            admitted: self.is_admitted(),
            server_active: self.server_active(),
            machine: self.around.machine.as_ref().map(|machine| MachineSight {
                deleting: machine.is_deleting(),
                hooked: machine.has_our_hook(),
            }),
            finding: self.finding(),
        }
    }

    /// Makes what the machine needs, and asks the gates.
    async fn make(&mut self) -> Step<()> {
        let Some(machine) = self.around.machine.clone() else {
            return Err(waiting(
                Reason::WaitingForOwner,
                "Waiting for Cluster API to set the owner reference",
            ));
        };
        self.keep_hook(&machine).await?;
        let Some(cluster) = self.cluster_with_infrastructure() else {
            return Err(waiting(
                Reason::WaitingForClusterInfrastructure,
                "Waiting for the Cluster's infrastructure",
            ));
        };
        let server = match self.around.server.clone() {
            Some(server) => {
                self.keep_finalizer().await?;
                server
            }
            None => self.make_server(&machine, &cluster).await?,
        };
        self.keep_provider_id(&server, &cluster).await?;
        let answer = gate::admission(&self.question());
        self.provisioned |= answer == Answer::Open;
        self.mend_server(&server, &cluster).await?;
        if server.metadata.deletion_timestamp.is_some() {
            return Err(waiting(
                Reason::InstanceDeleted,
                "The OpenStackServer of this machine is being deleted",
            ));
        }
        match answer {
            Answer::Open => Ok(()),
            Answer::Held { reason, message } => Err(waiting(reason, &message)),
        }
    }

    /// Adds the finalizer. Not before the owner reference is there, which Cluster API writes last.
    async fn keep_finalizer(&mut self) -> Step<()> {
        let api = self.context.api::<OpenStackMachine>(&self.name.namespace);
        let written = set_finalizer(&api, &self.object, FINALIZER, true)
            .await
            .map_err(|error| kubernetes_failed("Adding the finalizer", &error))?;
        if let Some(written) = written {
            self.object = written;
        }
        Ok(())
    }

    /// The cluster, once machines may be made for it.
    fn cluster_with_infrastructure(&self) -> Option<Arc<OpenStackCluster>> {
        let provisioned = self
            .around
            .cluster
            .as_ref()?
            .status
            .initialization
            .infrastructure_provisioned;
        let cluster = self.around.openstack_cluster.clone()?;
        provisioned.then_some(cluster)
    }

    async fn make_server(
        &mut self,
        machine: &Machine,
        cluster: &OpenStackCluster,
    ) -> Step<Arc<OpenStackServer>> {
        if machine.spec.bootstrap.data_secret_name.is_none() {
            return Err(waiting(
                Reason::WaitingForBootstrapData,
                "Waiting for the bootstrap data secret",
            ));
        }
        let network = cluster
            .status
            .as_ref()
            .and_then(|status| status.network.as_ref());
        if network.and_then(|network| network.id.as_ref()).is_none() {
            return Err(waiting(
                Reason::WaitingForClusterInfrastructure,
                "Waiting for the cluster's network to be known",
            ));
        }
        self.keep_finalizer().await?;
        let wanted = self.server_object(machine, cluster);
        let servers = self.context.api::<OpenStackServer>(&self.name.namespace);
        match servers.create(&PostParams::default(), &wanted).await {
            Ok(made) => {
                tracing::info!(machine = %self.name, "made the OpenStackServer");
                Ok(Arc::new(made))
            }
            // The watch has not shown it yet.
            Err(error) if is_conflict(&error) => match servers.get_opt(&self.name.name).await {
                Ok(Some(found)) => Ok(Arc::new(found)),
                Ok(None) => Err(waiting(
                    Reason::InstanceNotReady,
                    "Waiting for the OpenStackServer",
                )),
                Err(error) => Err(kubernetes_failed("Reading the OpenStackServer", &error)),
            },
            Err(error) => Err(kubernetes_failed("Creating the OpenStackServer", &error)),
        }
    }

    fn server_object(&self, machine: &Machine, cluster: &OpenStackCluster) -> OpenStackServer {
        let spec = translate::server_spec(
            &self.object.spec,
            translate::Surroundings {
                cluster,
                machine,
                control_plane: self.around.control_plane,
            },
        );
        let mut server = OpenStackServer::new(&self.name.name, spec);
        server.metadata.namespace = Some(self.name.namespace.clone());
        let labels = server.metadata.labels.get_or_insert_default();
        labels.insert(
            CLUSTER_NAME_LABEL.to_owned(),
            machine.spec.cluster_name.clone(),
        );
        // A manager that looks at a part of all objects must see this one too.
        if let Some(filter) = self.object.labels().get(capi::WATCH_FILTER_LABEL) {
            labels.insert(capi::WATCH_FILTER_LABEL.to_owned(), filter.clone());
        }
        server.metadata.owner_references = Some(vec![self.owner_reference()]);
        server
    }

    fn owner_reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: OpenStackMachine::api_version(&()).into_owned(),
            kind: OpenStackMachine::kind(&()).into_owned(),
            name: self.name.name.clone(),
            uid: self.object.uid().unwrap_or_default(),
            block_owner_deletion: None,
            controller: None,
        }
    }

    /// What may change in a server's object after it was made: who owns it, and which credentials it uses.
    async fn mend_server(&self, server: &OpenStackServer, cluster: &OpenStackCluster) -> Step<()> {
        let mut patch = serde_json::Map::new();
        let uid = self.object.uid().unwrap_or_default();
        let mut owners = server.metadata.owner_references.clone().unwrap_or_default();
        if !owners.iter().any(|owner| owner.uid == uid) {
            owners.retain(|owner| owner.kind != "OpenStackMachine");
            owners.push(self.owner_reference());
            patch.insert(
                "metadata".to_owned(),
                json!({
                    "resourceVersion": server.resource_version(),
                    "ownerReferences": owners,
                }),
            );
        }
        let identity = translate::identity(&self.object.spec, cluster);
        if server.spec.identity_ref != *identity {
            patch.insert("spec".to_owned(), json!({ "identityRef": identity }));
        }
        if patch.is_empty() || server.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let api = self.context.api::<OpenStackServer>(&self.name.namespace);
        let patch = Patch::Merge(serde_json::Value::Object(patch));
        match api
            .patch(&self.name.name, &PatchParams::default(), &patch)
            .await
        {
            Ok(_) => Ok(()),
            Err(error) => Err(kubernetes_failed("Updating the OpenStackServer", &error)),
        }
    }

    /// Sets `spec.providerID` as soon as the server exists: a deletion finds its Node by it.
    async fn keep_provider_id(
        &mut self,
        server: &OpenStackServer,
        cluster: &OpenStackCluster,
    ) -> Step<()> {
        let Some(id) = server
            .status
            .as_ref()
            .and_then(|status| status.instance_id.as_deref())
        else {
            return Ok(());
        };
        let region = translate::identity(&self.object.spec, cluster)
            .region
            .as_deref();
        let wanted = translate::provider_id(region, id);
        if self.object.spec.provider_id.as_deref() == Some(wanted.as_str()) {
            return Ok(());
        }
        let api = self.context.api::<OpenStackMachine>(&self.name.namespace);
        let patch = Patch::Merge(json!({
            "metadata": { "uid": self.object.uid() },
            "spec": { "providerID": wanted },
        }));
        match api
            .patch(&self.name.name, &PatchParams::default(), &patch)
            .await
        {
            Ok(written) => {
                self.object = written;
                Ok(())
            }
            Err(error) => Err(kubernetes_failed("Setting the provider id", &error)),
        }
    }

    /// Puts our hook on the Machine or takes it off, as the release gate says.
    pub(super) async fn keep_hook(&self, machine: &Machine) -> Step<()> {
        let change = gate::hook(&self.question());
        let metadata = match change {
            HookChange::Keep => return Ok(()),
            // Only while nothing else changed: it must not land on a Machine that is being deleted.
            HookChange::Put => json!({
                "uid": machine.uid(),
                "resourceVersion": machine.resource_version(),
                "annotations": { HOOK_ANNOTATION: HOOK_VALUE },
            }),
            HookChange::Remove => json!({
                "uid": machine.uid(),
                "annotations": { HOOK_ANNOTATION: null },
            }),
        };
        let api: Api<Machine> = self.context.api(&self.name.namespace);
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let name = machine.name_any();
        match api.patch(&name, &PatchParams::default(), &patch).await {
            Ok(_) => {
                tracing::info!(machine = name, ?change, "changed the pre-terminate hook");
                Ok(())
            }
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) if is_conflict(&error) => Err(Outcome::wait(
                Reason::WaitingForOwner,
                "The Machine is changing; its pre-terminate hook is set in a moment",
                Duration::from_secs(1),
            )),
            Err(error) => Err(kubernetes_failed(
                "Changing the pre-terminate hook of the Machine",
                &error,
            )),
        }
    }

    /// Forgets the machine everywhere in this process.
    pub(super) fn forget(&self) {
        self.context.membership.forget_machine(&self.name);
        self.context.machines.forget(&self.name);
    }

    fn instance(&self) -> Verdict {
        match &self.around.server {
            Some(server) => report::instance(server),
            None => Verdict::unknown(Reason::NotYetObserved, "The server was not looked at yet"),
        }
    }

    /// `InstanceReady` after a pass that did not come to its end. Where there is a server, that is what
    /// it tells about; what keeps the machine from being admitted is told by other conditions.
    fn instance_after(&self, outcome: &Outcome) -> Verdict {
        match outcome {
            Outcome::Wait {
                reason, message, ..
            } if self.around.server.is_none()
                || (self.is_deleting() && *reason != Reason::Deleting) =>
            {
                Verdict::bad(*reason, message.clone())
            }
            Outcome::Failed {
                reason, message, ..
            } if self.around.server.is_none() => Verdict::bad(*reason, message.clone()),
            _ => self.instance(),
        }
    }

    fn load_balancer(&self) -> Option<Verdict> {
        if !self.around.control_plane {
            return None;
        }
        if self.around.openstack_cluster.is_some() && !self.around.is_gated() {
            return Some(Verdict::good(Reason::LoadBalancerDisabled));
        }
        Some(
            self.finding()
                .map_or_else(Verdict::default, |finding| finding.verdict.clone()),
        )
    }

    async fn report(&mut self, instance: Verdict, outcome: Outcome, paused: bool) -> Outcome {
        if let Outcome::Failed {
            reason, message, ..
        } = &outcome
        {
            let about = self.object.object_ref(&());
            let events = &self.context.events;
            events.warning(&about, *reason, "Reconcile", message);
        }
        let server = self.around.server.clone();
        let report = Report {
            paused,
            instance,
            load_balancer: self.load_balancer(),
            active_members: self
                .findings
                .as_ref()
                .filter(|_| self.around.is_gated())
                .and_then(|findings| report::active_members(findings, &self.name.name)),
            provisioned: self.provisioned,
            server: server.as_deref(),
            failure_domain: server
                .as_ref()
                .and_then(|server| server.spec.availability_zone.clone())
                .filter(|zone| !zone.is_empty()),
        };
        let api = self.context.api::<OpenStackMachine>(&self.name.namespace);
        let now = Timestamp::now();
        let written = write_status(&api, &self.object, |fresh| {
            report::status(fresh, &report, now)
        })
        .await;
        match written {
            Ok(Written::Changed(_) | Written::Unchanged | Written::Gone) => outcome,
            Err(error) => kubernetes_failed("Writing the status", &error),
        }
    }
}

/// A wait for something that a watch tells about.
pub(super) fn waiting(reason: Reason, message: &str) -> Outcome {
    Outcome::wait(reason, message, WATCHED)
}
