//! The controller of `OpenStackFloatingIPPool`. It allocates floating IPs for `IPAddressClaim`s, as Cluster API's IPAM
//! contract describes.
//!
//! A pass reads the pool's claims and addresses without a cache, and the floating IPs from Neutron ([`observe`]). It
//! checks the spec ([`validate`]), decides what to do about every claim and every address that is released ([`plan`]),
//! carries that out ([`act`]) and writes the status ([`report`]). Names, tags and finalizers are the same as CAPO's, so
//! that a pool can be migrated from CAPO and back.

mod act;
mod names;
mod network;
mod observe;
mod plan;
mod report;
mod validate;
mod watch;

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use kube::Resource;

use self::{act::Action, names::PoolNames, observe::Observed, plan::PoolPlan, report::Report};
use super::{Context, Outcome};
use crate::{
    kubernetes::{conditions::kind::FLOATING_IP_POOL_READY, patch::write_status},
    reconcile::{
        StepError, StepResult, finalizer::OPENSTACK_FLOATING_IP_POOL as FINALIZER, identity,
        name_of, start::Start,
    },
    subject::Subject,
};
use capo_api::v1alpha1::OpenStackFloatingIPPool;
use capo_core::{ConditionState, ObjectName, Reason};

pub(super) use watch::run;

/// The controller's name in logs and metrics.
const CONTROLLER: &str = "openstackfloatingippool";

/// The finalizer that keeps an `IPAddress` until its floating IP is released. The name is CAPO's.
const ADDRESS_FINALIZER: &str =
    "openstackfloatingippool.infrastructure.cluster.x-k8s.io/delete-floating-ip";

/// One pass over an `OpenStackFloatingIPPool`.
fn pass(
    object: Arc<OpenStackFloatingIPPool>,
    context: Arc<Context>,
) -> BoxFuture<'static, Outcome> {
    async move {
        let name = name_of(&*object);
        let pass = Pass {
            names: PoolNames::of(&name),
            name,
            context: &context,
            object: (*object).clone(),
            authentication: None,
        };
        match Start::of(object.meta(), FINALIZER, false) {
            Start::Gone | Start::Moved | Start::Paused => Outcome::Done,
            Start::Delete | Start::Apply => pass.run().await,
        }
    }
    .boxed()
}

struct Pass<'a> {
    name: ObjectName,
    names: PoolNames,
    context: &'a Context,
    object: OpenStackFloatingIPPool,
    /// Whether OpenStack accepts the credentials.
    authentication: Option<ConditionState>,
}

impl Pass<'_> {
    async fn run(mut self) -> Outcome {
        let mut report = Report::default();
        let ended = self.reconcile(&mut report).await;
        let outcome = match ended {
            Ok(Action::Removed) => return Outcome::Done,
            Ok(Action::Settled(outcome)) => outcome,
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
        let observed = Observed::read(self, &identity, &desired).await?;
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

fn kubernetes(doing: &str, error: &kube::Error) -> StepError {
    StepError::kubernetes(FLOATING_IP_POOL_READY, doing, error)
}

fn openstack(ordinary: Reason, doing: &str, error: &capo_openstack::Error) -> StepError {
    StepError::cloud(FLOATING_IP_POOL_READY, ordinary, doing, error)
}
