//! Octavia's anomalies, one after the other in one cluster: lost changes, statuses that wrongly become ACTIVE, failures
//! of other members, and stuck changes. The names of the anomalies are those of the table in
//! `tests/fake_cloud/README.md`.

use capo_core::ProvisioningStatus;
use capo_openstack::load_balancer::{LoadBalancerFilter, StatusTree, TreeMember};
use reqwest::Method;
use serde_json::{Value, json};

use super::{ControlPlane, condition, is_provisioned};
use crate::contract::{CloudUnderTest, Contract, GATE, Kind, Pushes, Raw};
use crate::waiting::until_true;

impl ControlPlane {
    /// Four machines are admitted; three more join.
    pub(super) async fn meets_the_anomalies(
        &self,
        under: &impl CloudUnderTest,
        contract: &Contract,
    ) {
        self.a_failed_creation_was_repaired(contract).await;
        self.a_lost_creation_is_repaired(under, contract).await;
        self.an_additive_batch_whitewashes(under, contract).await;
        self.a_failed_additive_batch_removes_no_member(under, contract)
            .await;
        self.a_settled_member_turns_error(under, contract).await;
        self.a_worker_dies_and_a_failover_frees(under, contract)
            .await;
    }

    /// `failed`: the repair before the admission created the member again, which stays ACTIVE. Its enabling may follow.
    async fn a_failed_creation_was_repaired(&self, contract: &Contract) {
        self.until_tree(contract, "the member of machine 3 is ACTIVE", |tree| {
            self.member(tree, 3)
                .is_some_and(|member| member.provisioning_status == ACTIVE)
        })
        .await;
    }

    /// `lost-error-write`: PENDING_CREATE under an ACTIVE load balancer, without an end.
    async fn a_lost_creation_is_repaired(&self, under: &impl CloudUnderTest, contract: &Contract) {
        under.lose(&self.name(4), "PENDING_CREATE").await;
        self.machine(4).await;
        self.held_for(4, "MemberPending").await;
        let lost = self.id(contract, 4).await;
        self.until_admitted(4).await;
        assert_ne!(
            self.id(contract, 4).await,
            lost,
            "deleted and created, not only pushed"
        );
    }

    /// `whitewash`: another client's batch turns the member ACTIVE before it is repaired.
    async fn an_additive_batch_whitewashes(
        &self,
        under: &impl CloudUnderTest,
        contract: &Contract,
    ) {
        under.lose(&self.name(5), "PENDING_CREATE").await;
        self.machine(5).await;
        self.held_for(5, "MemberPending").await;
        let lost = self.id(contract, 5).await;
        self.additive_batch(contract).await;
        self.until_admitted(5).await;
        assert_eq!(
            self.id(contract, 5).await,
            lost,
            "the member was created again"
        );
    }

    /// `failed`: every member is in ERROR while all of them serve.
    async fn a_failed_additive_batch_removes_no_member(
        &self,
        under: &impl CloudUnderTest,
        contract: &Contract,
    ) {
        let before = self.ids(contract).await;
        let since = self.log().len();
        under.pushes(Pushes::Failing).await;
        self.additive_batch(contract).await;
        self.until_tree(contract, "every member is in ERROR", |tree| {
            tree.provisioning_status == ACTIVE
                && members(tree)
                    .all(|member| member.provisioning_status == ProvisioningStatus::Error)
        })
        .await;
        under.pushes(Pushes::Normal).await;
        self.until_error_is_reported(1, since).await;
        self.until_all_active(contract).await;
        assert_eq!(
            self.ids(contract).await,
            before,
            "pushed again, every one of them"
        );
    }

    /// The member fails long after its machine was admitted: this is reported, and the member is repaired by an update.
    async fn a_settled_member_turns_error(&self, under: &impl CloudUnderTest, contract: &Contract) {
        let before = self.ids(contract).await;
        let tree = self.tree(contract).await;
        let name = self.member(&tree, 1).unwrap().name.clone();
        let since = self.log().len();
        under.write_status(Kind::Member, &name, "ERROR").await;
        self.until_error_is_reported(1, since).await;
        let machine = self
            .environment
            .cluster_api
            .get("OpenStackMachine", &self.name(1))
            .await;
        assert!(
            is_provisioned(&machine.unwrap().unwrap()),
            "an admitted machine stays so"
        );
        self.until_all_active(contract).await;
        assert_eq!(self.ids(contract).await, before);
    }

    /// The member is stuck together with the load balancer. The operator sets the load balancer to ERROR and requests a
    /// failover, which turns all objects ACTIVE.
    async fn a_worker_dies_and_a_failover_frees(
        &self,
        under: &impl CloudUnderTest,
        contract: &Contract,
    ) {
        under.doom_worker(&self.name(6)).await;
        self.machine(6).await;
        self.until_tree(contract, "the creation is under way", |tree| {
            tree.provisioning_status.is_pending() && self.member(tree, 6).is_some()
        })
        .await;
        under.worker_died().await;
        self.held_for(6, "MemberPending").await;
        let is_reported = |cluster: &Value| {
            condition(cluster, "APIServerLoadBalancerReady").is_some_and(|(_, reason, message)| {
                ["MemberPending", "NoOtherMemberServing"].contains(&reason)
                    && message.ends_with("; members are stuck in a PENDING status")
            })
        };
        self.environment
            .cluster_api
            .until_object("OpenStackCluster", &self.cluster, is_reported)
            .await;
        let tree = self.tree(contract).await;
        under
            .write_status(Kind::LoadBalancer, &tree.name, "ERROR")
            .await;
        self.held_for(6, "LoadBalancerError").await;
        let operator = Raw::sign_in(&under.operator()).await;
        let path = format!("loadbalancers/{}/failover", tree.id);
        let url = operator.address("load-balancer", &path);
        assert_eq!(operator.send(Method::PUT, &url, None).await.0, 202);
        self.until_admitted(6).await;
        self.until_all_active(contract).await;
        let again = self.tree(contract).await;
        assert_eq!(
            again.id, tree.id,
            "the load balancer is never replaced while machines are behind it"
        );
    }

    /// A batch of another client that adds no member: it writes every member.
    async fn additive_batch(&self, contract: &Contract) {
        let pool = &self.tree(contract).await.pools[0].id;
        let path = format!("pools/{pool}/members?additive_only=true");
        let url = contract.raw.address("load-balancer", &path);
        until_true("the batch is accepted", async || {
            let body = json!({"members": []});
            let (status, _) = contract.raw.send(Method::PUT, &url, Some(body)).await;
            assert!(status == 202 || status == 409, "{status}");
            status == 202
        })
        .await;
    }

    pub(super) async fn tree(&self, contract: &Contract) -> StatusTree {
        let all = contract
            .cloud
            .load_balancers(&LoadBalancerFilter::default(), GATE)
            .await
            .unwrap();
        let ours = all
            .iter()
            .find(|one| one.name.contains(&self.cluster))
            .unwrap();
        contract.cloud.status_tree(&ours.id, GATE).await.unwrap()
    }

    pub(super) async fn until_tree(
        &self,
        contract: &Contract,
        what: &str,
        wanted: impl Fn(&StatusTree) -> bool,
    ) {
        until_true(what, async || wanted(&self.tree(contract).await)).await;
    }

    pub(super) async fn until_all_active(&self, contract: &Contract) {
        self.until_tree(contract, "everything is ACTIVE", |tree| {
            tree.provisioning_status == ACTIVE
                && members(tree).all(|member| member.provisioning_status == ACTIVE)
        })
        .await;
    }

    pub(super) fn member<'a>(&self, tree: &'a StatusTree, index: usize) -> Option<&'a TreeMember> {
        let end = format!("-{}", self.name(index));
        members(tree).find(|member| member.name.ends_with(&end))
    }

    pub(super) async fn id(&self, contract: &Contract, index: usize) -> String {
        let tree = self.tree(contract).await;
        self.member(&tree, index).unwrap().id.to_string()
    }

    async fn ids(&self, contract: &Contract) -> Vec<String> {
        let tree = self.tree(contract).await;
        members(&tree).map(|member| member.id.to_string()).collect()
    }
}

pub(super) const ACTIVE: ProvisioningStatus = ProvisioningStatus::Active;

fn members(tree: &StatusTree) -> impl Iterator<Item = &TreeMember> {
    tree.pools.iter().flat_map(|pool| &pool.members)
}
