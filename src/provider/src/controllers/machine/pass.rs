//! One pass over an `OpenStackMachine`.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use kube::{Resource, ResourceExt};

use super::{
    FINALIZER, StepError, StepResult, kubernetes_failed, observe::MachineRelatedObjects, plan,
};
use crate::{
    controllers::{Context, Outcome},
    kubernetes::conditions::kind,
    reconcile::{
        deletion_hooks::holding_machine, is_paused_or_moved, name_of,
        related_objects::cached_or_read, server_observation::Observation, start::Start,
    },
};
use capo_api::v1beta2::OpenStackMachine;
use capo_core::{ConditionState, ObjectName, Reason};
use capo_gate::findings::Findings;

/// The time until the next pass if a watch shows the end of the wait.
pub(super) const WATCHED: Duration = Duration::from_mins(1);

/// One pass over an `OpenStackMachine`.
pub(in crate::controllers) fn pass(
    object: Arc<OpenStackMachine>,
    context: Arc<Context>,
) -> BoxFuture<'static, Outcome> {
    async move {
        match Pass::of(object, &context).await {
            Ok(pass) => pass.run().await,
            Err(error) => error.outcome,
        }
    }
    .boxed()
}

/// Returns `Ok` if the server of the machine `name` may be deleted. This is asked by the server controller, because an
/// `OpenStackServer` can be deleted alone, or by a foreground deletion that does not wait for the machine. A machine
/// that is absent from the store is read from the API server, because only a machine that does not exist opens this
/// gate, and only if no hook on its Machine protects its members: a user may have removed the machine's finalizer.
pub(in crate::controllers) fn ensure_server_may_be_deleted<'a>(
    name: &'a ObjectName,
    context: &'a Context,
) -> BoxFuture<'a, StepResult<()>> {
    async move {
        let store = &context.stores.openstack_machines;
        let found = cached_or_read(store, &context.client, &name.namespace, &name.name)
            .await
            .map_err(|error| kubernetes_failed("Reading the OpenStackMachine", &error))?;
        let Some(object) = found else {
            return match holding_machine(context, name) {
                Some(machine) => Err(held_by_hooks(&name.name, &machine.name_any())),
                None => Ok(()),
            };
        };
        let mut pass = Pass::of(object, context).await?;
        pass.publish_desired();
        plan::may_delete_server(&pass.gate_inputs())
            .map_err(|hold| waiting(hold.reason, &hold.message))
    }
    .boxed()
}

fn held_by_hooks(openstack_machine: &str, machine: &str) -> StepError {
    let message = format!(
        "OpenStackMachine {openstack_machine} does not exist any more, but the deletion hooks on Machine {machine} still \
         protect its load balancer members"
    );
    waiting(Reason::NoOtherMemberServing, &message)
}

pub(super) struct Pass<'a> {
    pub(super) name: ObjectName,
    pub(super) context: &'a Context,
    pub(super) object: OpenStackMachine,
    pub(super) related: MachineRelatedObjects,
    pub(super) findings: Option<Arc<Findings>>,
    pub(super) observation: Option<Observation>,
    /// Whether the machine may count as provisioned.
    pub(super) provisioned: bool,
    /// Whether the machine counted as provisioned before this pass, or Cluster API has admitted it.
    pub(super) was_provisioned: bool,
    /// The object on which the decision about the gates is based.
    pub(super) observed: Arc<OpenStackMachine>,
}

impl<'a> Pass<'a> {
    async fn of(observed: Arc<OpenStackMachine>, context: &'a Context) -> StepResult<Self> {
        let object = (*observed).clone();
        let name = name_of(&object);
        let related = MachineRelatedObjects::of(&object, context).await?;
        let observation = context
            .servers
            .observations
            .get(&name, related.server_uid());
        let provisioned = object
            .status
            .as_ref()
            .and_then(|status| status.initialization.as_ref()?.provisioned)
            == Some(true)
            || related
                .machine
                .as_ref()
                .is_some_and(|machine| machine.is_admitted());
        Ok(Self {
            name,
            context,
            object,
            related,
            findings: None,
            observation,
            provisioned,
            was_provisioned: provisioned,
            observed,
        })
    }

    async fn run(mut self) -> Outcome {
        let start = Start::of(self.object.meta(), FINALIZER, self.related.is_paused());
        if start == Start::Gone {
            self.forget();
            return Outcome::Done;
        }
        self.publish_desired();
        self.enqueue_server();
        let ended = match start {
            Start::Gone | Start::Moved => return Outcome::Done,
            Start::Paused => {
                let unseen =
                    ConditionState::unknown(Reason::NotYetObserved, "The machine is paused");
                return self.report(unseen, Outcome::Done, true).await;
            }
            Start::Delete => self.delete().await,
            Start::Apply => self.apply().await,
        };
        match ended {
            // The deletion is complete, so the status is not written any more.
            Ok(()) if start == Start::Delete => Outcome::Done,
            Ok(()) => {
                let instance = self.instance();
                self.report(instance, Outcome::Done, false).await
            }
            Err(StepError { outcome, .. }) => {
                let instance = self.instance_after(&outcome);
                self.report(instance, outcome, false).await
            }
        }
    }

    pub(super) fn is_deleting(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    pub(super) fn is_paused_or_moved(&self) -> bool {
        self.related.is_paused() || is_paused_or_moved(self.object.meta())
    }

    /// Forgets the machine everywhere in this process.
    pub(super) fn forget(&self) {
        self.context.tracker.forget_machine(&self.name);
        self.context.machines.forget(&self.name);
    }
}

/// A wait whose end a watch shows.
pub(super) fn waiting(reason: Reason, message: &str) -> StepError {
    StepError::wait(kind::READY, reason, message, WATCHED)
}
