//! One pass over an `OpenStackMachine`.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use kube::{Resource, ResourceExt};

use super::{
    FINALIZER, Step,
    gate::{self, Answer},
    observe::Surroundings,
    report::{self, Report},
    server_object::identity_to_set,
    translate,
};
use crate::{
    controllers::{
        Context, Outcome, capi,
        server::{kubernetes_failed, sight::Sight},
    },
    kubernetes::{
        conditions::kind,
        patch::{Written, set_finalizer, write_status},
    },
    reconcile::{
        StepError,
        capi::Machine,
        deletion_hooks,
        health_check::{self, Deadline},
        related_objects::cached_or_read,
    },
};
use capo_api::v1beta2::{OpenStackCluster, OpenStackMachine};
use capo_core::{ConditionState, GateOverride, ObjectName, Reason, gate_override};
use capo_gate::findings::{Findings, Gate};

/// How soon to look again at something whose end is told by a watch.
const WATCHED: Duration = Duration::from_mins(1);

/// What is said of a floating IP that CAPO would put on a control-plane machine.
const FLOATING_IP_NOT_SUPPORTED: &str = "Without a managed load balancer the API server's floating IP belongs on a \
    control-plane machine; this version does not put it there. Put it on the machine's port by hand, use \
    spec.apiServer.managedLoadBalancer of the OpenStackCluster, or set spec.apiServer.enableFloatingIP to false";

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

/// Comes back with `Ok` when the server of the machine `name` may be deleted. Its object may have been deleted
/// alone, or by a foreground deletion that does not wait for the machine. A machine that is absent from the
/// store is read from the API server: only one that does not exist opens this gate.
pub(in crate::controllers) async fn may_server_go(
    name: &ObjectName,
    context: &Context,
) -> Step<()> {
    let store = &context.stores.openstack_machines;
    let found = cached_or_read(store, &context.client, &name.namespace, &name.name)
        .await
        .map_err(|error| kubernetes_failed("Reading the OpenStackMachine", &error))?;
    let Some(object) = found else {
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
    pub(super) findings: Option<Arc<Findings>>,
    pub(super) sight: Option<Sight>,
    pub(super) provisioned: bool,
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
            == Some(true)
            || around
                .machine
                .as_ref()
                .is_some_and(|machine| machine.is_admitted());
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
            let unseen = ConditionState::unknown(Reason::NotYetObserved, "The machine is paused");
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

    pub(super) fn is_deleting(&self) -> bool {
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

    pub(super) fn is_untouchable(&self) -> bool {
        self.is_paused() || self.is_moved()
    }

    /// Makes what the machine needs, and asks the gates.
    async fn make(&mut self) -> Step<()> {
        let Some(machine) = self.around.machine.clone() else {
            return Err(waiting(Reason::WaitingForOwner, &self.without_owner()));
        };
        self.keep_hook(&machine).await?;
        if !self.around.owned {
            return Err(waiting(
                Reason::WaitingForOwner,
                &format!(
                    "Waiting for Cluster API to make Machine {} the owner",
                    machine.name_any()
                ),
            ));
        }
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
        // Neither of the two steps depends on the other one.
        let identified = self.set_provider_id(&server).await;
        let mended = self.mend_server(&server, &cluster).await;
        identified?;
        let answer = gate::admission(&self.question());
        self.provisioned |= answer == Answer::Open;
        mended?;
        if server.metadata.deletion_timestamp.is_some() {
            return Err(waiting(
                Reason::InstanceDeleted,
                "The OpenStackServer of this machine is being deleted",
            ));
        }
        match answer {
            Answer::Open => Ok(()),
            Answer::Held { reason, message } => {
                let pause = self
                    .until_warning()
                    .map_or(WATCHED, |left| left.min(WATCHED));
                Err(Outcome::wait(reason, message, pause))
            }
        }
    }

    /// Puts our hooks on the Machine or takes them off, as the release gate says.
    pub(super) async fn keep_hook(&self, machine: &Machine) -> Step<()> {
        let api = self.context.api::<Machine>(&self.name.namespace);
        let change = gate::hook(&self.question());
        match deletion_hooks::apply(&api, machine, change).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Outcome::wait(
                Reason::WaitingForOwner,
                "The Machine is changing; its deletion hooks are set in a moment",
                Duration::from_secs(1),
            )),
            Err(error) => Err(kubernetes_failed(
                "Changing the deletion hooks of the Machine",
                &error,
            )),
        }
    }

    /// Adds the finalizer. Not before the owner reference is there, which Cluster API writes last.
    pub(super) async fn keep_finalizer(&mut self) -> Step<()> {
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

    fn without_owner(&self) -> String {
        match capi::owner(self.object.meta(), "Machine") {
            None => "Waiting for Cluster API to set the owner reference".to_owned(),
            Some(owner) => format!(
                "Its owner in metadata.ownerReferences, Machine {} with the uid {}, does not exist",
                owner.name, owner.uid
            ),
        }
    }

    /// Forgets the machine everywhere in this process.
    pub(super) fn forget(&self) {
        self.context.membership.forget_machine(&self.name);
        self.context.machines.forget(&self.name);
    }

    fn instance(&self) -> ConditionState {
        match &self.around.server {
            Some(server) => report::instance(server),
            None => {
                ConditionState::unknown(Reason::NotYetObserved, "The server was not looked at yet")
            }
        }
    }

    /// `InstanceReady` after a pass that did not come to its end. Where there is a server, that is what
    /// it tells about; what keeps the machine from being admitted is told by other conditions.
    fn instance_after(&self, outcome: &Outcome) -> ConditionState {
        match outcome {
            Outcome::Wait {
                reason, message, ..
            } if self.around.server.is_none()
                || (self.is_deleting() && *reason != Reason::Deleting) =>
            {
                ConditionState::unmet(*reason, message.clone())
            }
            Outcome::Failed {
                reason, message, ..
            } if self.around.server.is_none() => ConditionState::unmet(*reason, message.clone()),
            _ => self.instance(),
        }
    }

    /// Whether the server's own controller has seen what this machine wants of it.
    fn server_has_caught_up(&self) -> bool {
        let (Some(server), Some(cluster)) = (&self.around.server, &self.around.openstack_cluster)
        else {
            return false;
        };
        let observed = server
            .status
            .as_ref()
            .and_then(|status| status.observed_generation);
        observed == server.metadata.generation
            && identity_to_set(
                &server.spec.identity_ref,
                translate::identity(&self.object.spec, cluster),
            )
            .is_none()
    }

    fn load_balancer(&self) -> Option<ConditionState> {
        if !self.around.control_plane {
            return None;
        }
        if self.around.openstack_cluster.is_some() && !self.around.is_gated() {
            return Some(ConditionState::met(Reason::LoadBalancerDisabled));
        }
        let mut verdict = self
            .finding()
            .map_or_else(ConditionState::default, |finding| finding.verdict.clone());
        if let Some(deadline) = self.start_up_deadline() {
            verdict.message = format!("{}. {deadline}", verdict.message);
        }
        Some(verdict)
    }

    /// When a MachineHealthCheck gives the machine up, once most machines would have a Node.
    fn start_up_deadline(&self) -> Option<Deadline> {
        self.deadline()
            .filter(|deadline| deadline.is_near(Timestamp::now()))
    }

    /// How long it is until that is to be told; `None` when it is told, or never will be.
    fn until_warning(&self) -> Option<Duration> {
        let left = self.deadline()?.near_at().duration_since(Timestamp::now());
        let left = Duration::try_from(left).ok()?;
        (!left.is_zero()).then_some(left + Duration::from_millis(100))
    }

    /// When a MachineHealthCheck gives the machine up, as long as a gate keeps it from having a Node.
    fn deadline(&self) -> Option<Deadline> {
        let held = self
            .finding()
            .is_some_and(|finding| matches!(finding.admission, Gate::Held { .. }));
        let machine = self.around.machine.as_deref().filter(|_| held)?;
        let checks = self.context.stores.health_checks.state();
        health_check::deadline(&checks, machine, self.around.cluster.as_deref())
    }

    /// Tells of what is wrong around the machine and is in nobody's outcome.
    fn warn(&self, load_balancer: Option<&ConditionState>) {
        let about = self.object.object_ref(&());
        let warn = |reason, action, note: &str| {
            self.context.events.warning(&about, reason, action, note);
        };
        if let Some(machine) = &self.around.machine
            && !self.around.rivals.is_empty()
        {
            let note = format!(
                "Machine {} has this OpenStackMachine in spec.infrastructureRef, and so have others: {}. One server can't be \
                 two Machines; only the first one counts here, the others never get ready",
                machine.name_any(),
                self.around.rivals.join(", ")
            );
            warn(Reason::AmbiguousMatch, "Reconcile", &note);
        }
        let word = self.object.annotations().get(gate_override::KEY);
        if let GateOverride::Refused { message } =
            gate_override::parse_optional(word.map(String::as_str), Timestamp::now())
        {
            let note = format!("Annotation {}: {message}", gate_override::KEY);
            warn(Reason::InvalidSpec, "Gate", &note);
        }
        if let Some(server) = &self.around.server
            && let Some(refused) = report::pairs_not_supported(&self.object, server)
        {
            warn(Reason::NotSupported, "Reconcile", &refused);
        }
        if let Some(deadline) = self.start_up_deadline() {
            let reason = load_balancer.map_or(Reason::NotYetObserved, |verdict| verdict.reason);
            warn(reason, "Gate", &deadline.to_string());
        }
    }

    async fn report(
        &mut self,
        instance: ConditionState,
        outcome: Outcome,
        paused: bool,
    ) -> Outcome {
        if let Outcome::Failed {
            reason, message, ..
        } = &outcome
        {
            let about = self.object.object_ref(&());
            let events = &self.context.events;
            events.warning(&about, *reason, "Reconcile", message);
        }
        let load_balancer = self.load_balancer();
        if !paused {
            self.warn(load_balancer.as_ref());
        }
        let server = self.around.server.clone();
        let report = Report {
            paused,
            instance,
            load_balancer,
            unreachable: self
                .around
                .wants_floating_ip()
                .then(|| ConditionState::unmet(Reason::NotSupported, FLOATING_IP_NOT_SUPPORTED)),
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
            failure: failure(&outcome),
            complete: outcome == Outcome::Done && self.server_has_caught_up(),
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

/// What Ready shows of a pass that failed. A conflict is over with the next pass, seconds later.
fn failure(outcome: &Outcome) -> Option<ConditionState> {
    match outcome {
        Outcome::Failed { class, .. } if !class.is_conflict() => {
            Some(StepError::of(kind::READY, outcome.clone()).state)
        }
        _ => None,
    }
}

/// A wait for something that a watch shows.
pub(super) fn waiting(reason: Reason, message: &str) -> Outcome {
    Outcome::wait(reason, message, WATCHED)
}
