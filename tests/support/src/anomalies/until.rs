//! The conditions that a scenario waits for.

use serde_json::Value;

use super::{
    cluster_under_test::{ClusterUnderTest, INTERVAL, is_provisioned, shows_condition},
    truth::Truth,
};
use crate::waiting::{PATIENCE, Wait};

impl ClusterUnderTest {
    /// The `OpenStackMachine` as soon as `wanted` holds for it.
    pub async fn until_machine(
        &self,
        index: usize,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        self.until_object("OpenStackMachine", &format!("cp-{index}"), what, wanted)
            .await
    }

    /// The `OpenStackCluster` as soon as `wanted` holds for it.
    pub async fn until_cluster(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        self.until_object("OpenStackCluster", "c", "the cluster", wanted)
            .await
    }

    pub async fn until_object(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        match self
            .cluster_api
            .wait_for(kind, name, PATIENCE, wanted)
            .await
        {
            Ok(object) => object,
            Err(error) => panic!(
                "{}: {what}: {error}\n{:?}\n{:?}\n{}",
                self.namespace,
                self.truth(),
                self.writes(0),
                self.environment.logged(&self.namespace)
            ),
        }
    }

    /// Returns when the condition holds in the cloud.
    pub async fn until_truth(&self, what: &str, wanted: impl Fn(&Truth) -> bool) {
        let waiting = Wait::default().start();
        while !wanted(&self.truth()) {
            assert!(
                waiting.again().await,
                "{}: {what}: {:?}\n{:?}\n{}",
                self.namespace,
                self.truth(),
                self.writes(0),
                self.environment.logged(&self.namespace)
            );
        }
    }

    /// Waits until Cluster API has admitted the machine.
    pub async fn until_admitted(&self, index: usize) {
        self.until_object("Machine", &format!("cp-{index}"), "admitted", |machine| {
            !machine["status"]["nodeRef"].is_null()
        })
        .await;
    }

    /// Waits until the machine is held for this reason with this text, in its condition and in the metrics. The hold
    /// may end before the gauge of this cluster is read; the counter, which is of all clusters, stays.
    pub async fn until_held(&self, index: usize, reason: &str, text: &str) {
        let what = format!("held for {reason}: {text}");
        self.until_machine(index, &what, |machine| {
            shows_condition(machine, "False", reason, text) && !is_provisioned(machine)
        })
        .await;
        let counted = format!(
            r#"capo_gate_decisions_total{{decision="Held",gate="admission",reason="{reason}"}}"#
        );
        self.until_metric(&counted).await;
    }

    /// Waits until the load balancer's condition of an object (`c`, `cp-1`) has had this content, however briefly.
    pub async fn until_reported(&self, name: &str, reason: &str, text: &str) {
        let reason = format!("{reason}: ");
        let is_reported = |content: &String| content.starts_with(&reason) && content.contains(text);
        let waiting = Wait::default().start();
        while !self.watch.reported(name).iter().any(is_reported) {
            assert!(
                waiting.again().await,
                "{}: {name} never reported {reason}{text:?} but {:#?}\n{:?}",
                self.namespace,
                self.watch.reported(name),
                self.writes(0)
            );
        }
    }

    /// Deletes the first machine's Machine and waits until it is held, because the second one does not read ONLINE.
    pub async fn hold_the_first(&self) {
        self.leave(0).await;
        self.until_reported(
            "cp-0",
            "NoOtherMemberServing",
            "cp-1: its member is not ONLINE",
        )
        .await;
        self.until_metric(&self.held("release", "NoOtherMemberServing"))
            .await;
    }

    /// The metric of a gate that is held for this reason, for any machine.
    pub fn held(&self, gate: &str, reason: &str) -> String {
        format!(
            r#"capo_gate_held_reason{{cluster_name="c",cluster_namespace="{}",gate="{gate}",reason="{reason}"}}"#,
            self.namespace
        )
    }

    /// Waits until a series with all these labels is above zero.
    pub async fn until_metric(&self, series: &str) {
        let (name, labels) = series.trim_end_matches('}').split_once('{').unwrap();
        let is_asked_for = |line: &str| {
            line.starts_with(&format!("{name}{{"))
                && labels.split(',').all(|label| line.contains(label))
                && !line.ends_with(" 0")
        };
        let waiting = Wait::default().between(INTERVAL).start();
        while !self.environment.metrics().await.lines().any(is_asked_for) {
            assert!(waiting.again().await, "{}: no {series}", self.namespace);
        }
    }

    /// Waits until all objects are ACTIVE, in the cloud and in the cluster's condition.
    pub async fn until_well(&self) {
        self.until_truth("all is ACTIVE", Truth::is_well).await;
        self.until_cluster(|cluster| shows_condition(cluster, "True", "MembersActive", ""))
            .await;
    }

    /// Waits until a Machine does not exist any more.
    pub async fn until_gone(&self, index: usize) {
        self.until_object("Machine", &format!("cp-{index}"), "gone", Value::is_null)
            .await;
    }
}
