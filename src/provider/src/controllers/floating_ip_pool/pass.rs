//! One pass over an `OpenStackFloatingIPPool`.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use kube::Resource;

use super::{
    FINALIZER, kubernetes,
    names::PoolNames,
    plan::PoolPlan,
    report::{self, Report},
    validate,
};
use crate::{
    controllers::{Context, Outcome},
    kubernetes::{conditions::kind::FLOATING_IP_POOL_READY, patch::write_status},
    reconcile::{StepResult, creations::Creations, identity, name_of, start::Start},
    subject::Subject,
};
use capo_api::v1alpha1::OpenStackFloatingIPPool;
use capo_core::{ConditionState, ObjectName, Reason};

/// One pass over an `OpenStackFloatingIPPool`.
pub(super) fn pass(
    object: Arc<OpenStackFloatingIPPool>,
    context: Arc<Context>,
) -> BoxFuture<'static, Outcome> {
    async move {
        match Start::of(object.meta(), FINALIZER, false) {
            Start::Gone => {
                context.pool_creations.forget(&name_of(&*object));
                Outcome::Done
            }
            Start::Moved | Start::Paused => Outcome::Done,
            Start::Delete | Start::Apply => Pass::new(&context, (*object).clone()).run().await,
        }
    }
    .boxed()
}

/// The result of a pass in which no step failed.
pub(super) enum Action {
    /// The pool still exists, and its status has to be written.
    Settled(Outcome),
    /// The pool's finalizer was removed.
    Removed,
}

/// One pass over one `OpenStackFloatingIPPool`.
pub(super) struct Pass<'a> {
    /// The name of the object.
    pub(super) name: ObjectName,
    /// The names of the OpenStack objects of the pool.
    pub(super) names: PoolNames,
    /// The state that all passes share.
    pub(super) context: &'a Context,
    /// The object as it was last read or written.
    pub(super) object: OpenStackFloatingIPPool,
    /// The recorder of the floating IPs that the pass creates.
    pub(super) creations: Creations<OpenStackFloatingIPPool>,
    /// Whether OpenStack accepts the credentials; `None` if no sign-in was tried.
    authentication: Option<ConditionState>,
}

impl<'a> Pass<'a> {
    fn new(context: &'a Context, object: OpenStackFloatingIPPool) -> Self {
        let name = name_of(&object);
        let uncertain = &context.pool_creations;
        uncertain.load(&object, &name);
        let api = context.api(&name.namespace);
        Self {
            names: PoolNames::of(&name),
            creations: Creations::new(api, &object, uncertain, &context.events),
            name,
            context,
            object,
            authentication: None,
        }
    }

    async fn run(mut self) -> Outcome {
        let mut report = Report::default();
        let ended = match self.reconcile(&mut report).await {
            Ok(Action::Removed) => {
                self.context.pool_creations.forget(&self.name);
                return Outcome::Done;
            }
            Ok(Action::Settled(outcome)) => Ok(outcome),
            Err(error) => Err(error),
        };
        let recorded = self.creations.record(FLOATING_IP_POOL_READY).await;
        self.creations
            .take_written(&mut self.object, &self.context.replaced);
        let outcome = match ended.and_then(|outcome| recorded.map(|()| outcome)) {
            Ok(outcome) => outcome,
            Err(error) => {
                error
                    .outcome
                    .publish_failure(&self.object, &self.context.events);
                if error.condition == FLOATING_IP_POOL_READY {
                    report.ready = Some(error.state);
                }
                error.outcome
            }
        };
        report.authentication = self.authentication.take();
        let now = Timestamp::now();
        let api = self.context.api(&self.name.namespace);
        let build = |fresh: &OpenStackFloatingIPPool| report::status(fresh, &report, &outcome, now);
        match write_status(&self.context.replaced, &api, &self.object, build).await {
            Ok(_) => outcome,
            Err(error) => Outcome::status_not_written(&error),
        }
    }

    async fn reconcile(&mut self, report: &mut Report) -> StepResult<Action> {
        let subject = Subject::new("OpenStackFloatingIPPool", &self.name);
        let signed_in =
            identity::identity(self.context, &subject, &self.object.spec.identity_ref).await;
        let identity = match signed_in {
            Ok(identity) => {
                self.authentication = Some(ConditionState::met(Reason::Ready));
                identity
            }
            Err(error) => {
                self.authentication = Some(error.state.clone());
                return Err(error);
            }
        };
        self.add_finalizer().await?;
        let desired = validate::validate(&self.object.spec);
        let observed = self.observe(&identity, &desired).await?;
        let plan = PoolPlan::of(&observed, &desired, Timestamp::now());
        self.act(&identity, &observed, &desired, plan, report).await
    }

    /// Adds the finalizer before anything is allocated.
    async fn add_finalizer(&mut self) -> StepResult<()> {
        if self.object.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        self.context
            .set_finalizer(&mut self.object, FINALIZER, true)
            .await
            .map_err(|error| kubernetes("Adding the finalizer", &error))
    }
}
