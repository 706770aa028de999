//! What Octavia loses, whitewashes, fails for others and gets stuck in, one after the other in one cluster.
//! Letters are those of the table in `tests/fake_cloud/README.md`.

use capo_core::ProvisioningStatus;
use capo_openstack::load_balancer::{LoadBalancerFilter, MemberStatus, StatusTree};
use reqwest::Method;
use serde_json::{Value, json};

use super::{PATIENCE, Stage, condition, provisioned};
use crate::contract::{CloudUnderTest, Contract, GATE, Kind, Pushes, Raw, until};

impl Stage {
    /// Four machines are admitted; three more join.
    pub(super) async fn meets_the_anomalies(
        &self,
        under: &impl CloudUnderTest,
        contract: &Contract,
    ) {
        self.a_failed_creation_was_made_anew(contract).await;
        self.a_lost_creation_is_made_anew(under, contract).await;
        self.an_additive_batch_whitewashes(under, contract).await;
        self.a_failed_additive_batch_removes_nobody(under, contract)
            .await;
        self.a_settled_member_turns_error(under, contract).await;
        self.a_worker_dies_and_a_failover_frees(under, contract)
            .await;
    }

    /// A: it was repaired already; here is what came of it.
    async fn a_failed_creation_was_made_anew(&self, contract: &Contract) {
        let tree = self.tree(contract).await;
        assert_eq!(
            self.member(&tree, 3)
                .map(|member| &member.provisioning_status),
            Some(&ACTIVE)
        );
    }

    /// C: PENDING_CREATE under ACTIVE for ever.
    async fn a_lost_creation_is_made_anew(&self, under: &impl CloudUnderTest, contract: &Contract) {
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

    /// E: the batch of somebody else turns it ACTIVE before it is repaired.
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
        assert_eq!(self.id(contract, 5).await, lost, "nobody had to repair it");
    }

    /// F: every member in ERROR while all of them serve.
    async fn a_failed_additive_batch_removes_nobody(
        &self,
        under: &impl CloudUnderTest,
        contract: &Contract,
    ) {
        let before = self.ids(contract).await;
        under.pushes(Pushes::Failing).await;
        self.additive_batch(contract).await;
        self.until_tree(contract, "every member is in ERROR", |tree| {
            tree.provisioning_status == ACTIVE
                && members(tree)
                    .all(|member| member.provisioning_status == ProvisioningStatus::Error)
        })
        .await;
        under.pushes(Pushes::Normal).await;
        assert!(self.has_seen(1, "MemberError").await);
        self.until_all_active(contract).await;
        assert_eq!(
            self.ids(contract).await,
            before,
            "pushed again, every one of them"
        );
    }

    /// Long after it was admitted: told, and pushed again.
    async fn a_settled_member_turns_error(&self, under: &impl CloudUnderTest, contract: &Contract) {
        let before = self.ids(contract).await;
        let tree = self.tree(contract).await;
        let name = self.member(&tree, 1).unwrap().name.clone();
        under.write_status(Kind::Member, &name, "ERROR").await;
        assert!(self.has_seen(1, "MemberError").await);
        let machine = self
            .cluster_api
            .get("OpenStackMachine", &self.name(1))
            .await;
        assert!(
            provisioned(&machine.unwrap().unwrap()),
            "an admitted machine stays so"
        );
        self.until_all_active(contract).await;
        assert_eq!(self.ids(contract).await, before);
    }

    /// Stuck with the load balancer; the operator puts it into ERROR and calls for a failover, which turns
    /// everything ACTIVE (G).
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
        let told = |cluster: &Value| {
            condition(cluster, "APIServerLoadBalancerReady").is_some_and(|(_, reason, message)| {
                reason == "MemberPending" && message.ends_with("; stuck")
            })
        };
        self.cluster_api
            .wait_for("OpenStackCluster", &self.cluster, PATIENCE, told)
            .await
            .unwrap();
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
            "never made anew while machines stand behind it"
        );
    }

    /// Somebody else's batch that adds nothing: it touches every member.
    async fn additive_batch(&self, contract: &Contract) {
        let pool = &self.tree(contract).await.pools[0].id;
        let path = format!("pools/{pool}/members?additive_only=true");
        let url = contract.raw.address("load-balancer", &path);
        until("the batch is accepted", async || {
            let body = json!({"members": []});
            let (status, _) = contract.raw.send(Method::PUT, &url, Some(body)).await;
            assert!(status == 202 || status == 409, "{status}");
            status == 202
        })
        .await;
    }

    async fn tree(&self, contract: &Contract) -> StatusTree {
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

    async fn until_tree(
        &self,
        contract: &Contract,
        what: &str,
        wanted: impl Fn(&StatusTree) -> bool,
    ) {
        until(what, async || wanted(&self.tree(contract).await)).await;
    }

    async fn until_all_active(&self, contract: &Contract) {
        self.until_tree(contract, "everything is ACTIVE", |tree| {
            tree.provisioning_status == ACTIVE
                && members(tree).all(|member| member.provisioning_status == ACTIVE)
        })
        .await;
    }

    fn member<'a>(&self, tree: &'a StatusTree, index: usize) -> Option<&'a MemberStatus> {
        let end = format!("-{}", self.name(index));
        members(tree).find(|member| member.name.ends_with(&end))
    }

    async fn id(&self, contract: &Contract, index: usize) -> String {
        let tree = self.tree(contract).await;
        self.member(&tree, index).unwrap().id.to_string()
    }

    async fn ids(&self, contract: &Contract) -> Vec<String> {
        let tree = self.tree(contract).await;
        members(&tree).map(|member| member.id.to_string()).collect()
    }
}

const ACTIVE: ProvisioningStatus = ProvisioningStatus::Active;

fn members(tree: &StatusTree) -> impl Iterator<Item = &MemberStatus> {
    tree.pools.iter().flat_map(|pool| &pool.members)
}
