//! Machines that are released: their member is taken out of rotation, a proof is made, the member is deleted, a second
//! proof is made, and only then the hook is removed.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use capo_gate::Settings;
use capo_openstack::load_balancer::Member;
use serde_json::Value;

use super::{ControlPlane, FLAGS, WATCHED, condition, leftovers};
use crate::{
    contract::{CloudUnderTest, Contract},
    env::{
        DataPath,
        data_path::{Request, is_in_service},
    },
    rollout::HOOK,
    waiting::until_true,
};

/// Two of three machines are released one after the other. While the second one is released, the changes of its member
/// do not reach the data path.
pub async fn lets_machines_go(under: &impl CloudUnderTest, provider: &str) {
    let contract = Contract::with(under).await;
    let data_path = DataPath::start(contract.cloud.clone(), &contract.name, provider)
        .await
        .unwrap();
    let control_plane =
        ControlPlane::create(under, &contract.name, provider, &FLAGS, Some(&data_path)).await;
    for index in 0..3 {
        control_plane.machine(index).await;
        control_plane.until_admitted(index).await;
    }
    // A newcomer is enabled once its API server is known to be up.
    until_true("every member is in service", async || {
        let members = data_path.members().await.unwrap_or_default();
        members.len() == 3 && members.iter().all(is_in_service)
    })
    .await;

    let first = control_plane.address(&data_path, 0).await;
    control_plane.delete_machine(0).await;
    control_plane.until_let_go(&data_path, 0).await;
    assert_proven(&data_path.take_requests(), first);

    let second = control_plane.address(&data_path, 1).await;
    data_path.stick(Some(second));
    control_plane.delete_machine(1).await;
    control_plane.stays_because_of_an_answer(1, second).await;
    until_true("the member is back in service", async || {
        let members = data_path.members().await.unwrap_or_default();
        let own = members.iter().find(|one| one.address == Some(second));
        own.is_some_and(is_in_service)
    })
    .await;
    let requests = data_path.take_requests();
    assert!(requests.iter().all(|one| one.answered_by == second));
    assert!(
        requests.iter().any(|one| is_drained(one, second)),
        "never out of rotation: {requests:#?}"
    );
    data_path.stick(None);
    control_plane.until_let_go(&data_path, 1).await;
    assert_proven(&data_path.take_requests(), second);

    control_plane.delete_cluster().await;
    assert_eq!(
        leftovers(&contract, &control_plane.cluster).await,
        Vec::<String>::new()
    );
}

impl ControlPlane {
    async fn delete_machine(&self, index: usize) {
        self.environment
            .cluster_api
            .delete("Machine", &self.name(index))
            .await;
    }

    /// The address of the machine's member.
    async fn address(&self, data_path: &DataPath, index: usize) -> IpAddr {
        let members = data_path.members().await.unwrap();
        let own = self.member_of(&members, index).unwrap();
        own.address.unwrap()
    }

    fn member_of<'a>(&self, members: &'a [Member], index: usize) -> Option<&'a Member> {
        let end = format!("-{}", self.name(index));
        members.iter().find(|member| member.name.ends_with(&end))
    }

    /// Waits until our hook is removed, at which time the member must not exist either, and then until the Machine is
    /// gone.
    async fn until_let_go(&self, data_path: &DataPath, index: usize) {
        let name = self.name(index);
        self.environment
            .cluster_api
            .until_object("Machine", &name, |machine| !is_hooked(machine))
            .await;
        let members = data_path.members().await.unwrap();
        assert!(
            self.member_of(&members, index).is_none(),
            "{name} was let go with a member: {members:#?}"
        );
        self.environment
            .cluster_api
            .until_gone("Machine", &name)
            .await;
    }

    /// Waits until the proof has failed, then watches for [`WATCHED`] that the machine is held for it.
    async fn stays_because_of_an_answer(&self, index: usize, own: IpAddr) {
        let name = self.name(index);
        let is_unproven = |machine: &Value| {
            condition(machine, "APIServerLoadBalancerReady").is_some_and(|(is, reason, message)| {
                (is, reason) == ("False", "NoOtherMemberServing")
                    && message.contains("too few requests through the endpoint were answered")
                    && message.contains(&own.to_string())
            })
        };
        self.environment
            .cluster_api
            .until_object("OpenStackMachine", &name, is_unproven)
            .await;
        let begun = Instant::now();
        while begun.elapsed() < WATCHED {
            let machine = self
                .environment
                .cluster_api
                .get("OpenStackMachine", &name)
                .await;
            let machine = machine.unwrap().unwrap();
            assert!(is_unproven(&machine), "another reason: {machine:#}");
            let machine = self.environment.cluster_api.get("Machine", &name).await;
            let machine = machine.unwrap().unwrap();
            assert!(is_hooked(&machine), "{name} was let go");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn is_hooked(machine: &Value) -> bool {
    machine["metadata"]["annotations"][HOOK].is_string()
}

/// Whether the member of this address existed and was out of rotation.
fn is_drained(request: &Request, address: IpAddr) -> bool {
    let mut members = request.members.iter();
    members.any(|member| {
        member.address == Some(address) && (member.weight == 0 || !member.admin_state_up)
    })
}

/// Checks that other machines answered as many requests as a proof needs while the member was out of rotation, and
/// again after it was removed.
fn assert_proven(requests: &[Request], left: IpAddr) {
    let by_others = || requests.iter().filter(|one| one.answered_by != left);
    let drained = by_others().filter(|one| is_drained(one, left)).count();
    let is_absent = |one: &&Request| {
        let mut members = one.members.iter();
        members.all(|member| member.address != Some(left))
    };
    let absent = by_others().filter(is_absent).count();
    let needed = usize::try_from(Settings::default().proof_answers).unwrap();
    assert!(
        drained >= needed && absent >= needed,
        "{drained} and {absent} of {needed} answers: {requests:#?}"
    );
}
