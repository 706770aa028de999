//! What a pass over an `OpenStackCluster` writes: the endpoint, the record of creations, the status, and what the next
//! pass needs.

use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::{ResourceExt, api::Patch};
use serde_json::json;

use super::Pass;
use crate::{
    controllers::{Outcome, cluster::report},
    kubernetes::{
        conditions::kind,
        patch::{self, Written},
    },
    reconcile::{StepError, StepResult},
};
use capo_api::v1beta2::{ApiEndpoint, OpenStackCluster};
use capo_core::ObjectName;

impl<'a> Pass<'a> {
    /// Writes the endpoint into the spec, where it never changes again.
    pub(crate) async fn write_endpoint(&mut self, host: &str, port: u16) -> StepResult<()> {
        self.take_written();
        let endpoint = ApiEndpoint {
            host: Some(host.to_owned()),
            port: Some(port.into()),
        };
        let body = json!({
            "metadata": { "resourceVersion": self.object.resource_version() },
            "spec": { "controlPlaneEndpoint": endpoint },
        });
        let api = self.context.api::<OpenStackCluster>(&self.name.namespace);
        let params = kube::api::PatchParams::default();
        match api
            .patch(&self.name.name, &params, &Patch::Merge(&body))
            .await
        {
            Ok(written) => {
                // The generation that this write creates requires no new read.
                let generation = written.metadata.generation.unwrap_or_default();
                if let Some(read) = &mut self.cached.networking_read {
                    read.value = generation;
                }
                self.object = written;
                Ok(())
            }
            Err(error) => Err(StepError::kubernetes(
                kind::API_ENDPOINT_READY,
                "Writing spec.controlPlaneEndpoint",
                &error,
            )),
        }
    }

    /// Takes over the object as the recorder of creations has written it. Later writes need its resource version.
    pub(crate) fn take_written(&mut self) {
        let replaced = &self.context.replaced;
        self.creations.take_written(&mut self.object, replaced);
    }

    /// Writes the uncertain creations to the object, because lookups and answers may have settled some of them.
    pub(crate) async fn record_creations(&mut self) {
        if let Err(error) = self.creations.record(kind::READY).await {
            self.record_wait(error.outcome);
        }
    }

    /// Writes the report into the status if the report differs from it.
    pub(crate) async fn write(&mut self) -> Result<(), Outcome> {
        self.take_written();
        let api = self.context.api::<OpenStackCluster>(&self.name.namespace);
        let (report, now) = (&self.report, Timestamp::now());
        let build = |object: &OpenStackCluster| report.status(object, now);
        match patch::write_status(&self.context.replaced, &api, &self.object, build).await {
            Ok(Written::Changed(written)) => {
                report::publish_problems(&self.context.events, &self.reference(), &self.report);
                self.object = *written;
                Ok(())
            }
            Ok(Written::Unchanged | Written::Gone) => Ok(()),
            Err(error) => Err(Outcome::status_not_written(&error)),
        }
    }

    /// Ends the pass: writes the status and keeps what was read for the next pass.
    pub(crate) fn end(self) -> BoxFuture<'a, Outcome> {
        Box::pin(self.finish())
    }

    async fn finish(mut self) -> Outcome {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        outcomes.append(&mut self.optional_outcomes);
        let outcome = Outcome::of_steps(outcomes);
        self.report.complete = outcome == Outcome::Done;
        let written = self.write().await;
        let uid = self.object.metadata.uid.as_deref();
        self.context.clusters.put(&self.name, uid, self.cached);
        if self.enqueue_machines {
            let cluster = ObjectName::new(&self.name.namespace, &self.related.cluster_name);
            let context = self.context;
            context
                .queues
                .enqueue_machines_of(&cluster, &context.stores);
        }
        match (written, outcome) {
            (Err(failed), Outcome::Done | Outcome::Wait { .. }) => failed,
            (_, outcome) => outcome,
        }
    }
}
