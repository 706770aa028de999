//! The behaviour of members on which the gate depends.

use capo_core::FailureClass;
use std::net::IpAddr;

use capo_core::{OperatingStatus, ProvisioningStatus, ids::MemberId};
use capo_openstack::load_balancer::{Member, MemberUpdate, NewMember, PoolUpdate, StatusTree};
use reqwest::Method;
use serde_json::json;

use super::{
    CloudUnderTest, Contract, GATE, Pushes,
    load_balancer::{Balancer, active, tree},
    refused,
};
use crate::waiting::until_true;

fn new_member(contract: &Contract, balancer: &Balancer, last: u8) -> NewMember {
    let Some(IpAddr::V4(vip)) = balancer.lb.vip_address else {
        panic!("no IPv4 address");
    };
    let [a, b, c, _] = vip.octets();
    NewMember {
        name: format!("{}-6443-m{last}", contract.name),
        address: [a, b, c, last].into(),
        protocol_port: 6443,
        subnet_id: None,
        weight: None,
        admin_state_up: true,
        tags: vec!["one".into()],
    }
}

async fn add(contract: &Contract, balancer: &Balancer, last: u8) -> Member {
    let new = new_member(contract, balancer, last);
    let made = contract
        .cloud
        .create_member(&balancer.pool.id, &new, GATE)
        .await
        .unwrap();
    assert_eq!(made.provisioning_status, ProvisioningStatus::PendingCreate);
    made
}

fn status_of(tree: &StatusTree, member: &MemberId) -> Option<ProvisioningStatus> {
    let mut members = tree.pools.iter().flat_map(|pool| &pool.members);
    let found = members.find(|one| one.id == *member)?;
    Some(found.provisioning_status.clone())
}

/// The statuses of the load balancer, its listener and its pool.
fn around(tree: &StatusTree) -> [&ProvisioningStatus; 3] {
    [
        &tree.provisioning_status,
        &tree.listeners[0].provisioning_status,
        &tree.pools[0].provisioning_status,
    ]
}

const ACTIVE: ProvisioningStatus = ProvisioningStatus::Active;

/// Reads trees until all objects around the members are ACTIVE. Returns all trees.
async fn settle(contract: &Contract, balancer: &Balancer) -> Vec<StatusTree> {
    let mut seen = Vec::new();
    until_true("load balancer, listener and pool are ACTIVE", async || {
        seen.push(tree(contract, &balancer.lb.id).await);
        around(seen.last().unwrap()) == [&ACTIVE; 3]
    })
    .await;
    seen
}

pub async fn statuses_turn_in_order_and_writes_wait(under: &impl CloudUnderTest) {
    let contract = Contract::with(under).await;
    let cloud = &contract.cloud;
    let balancer = Balancer::with(&contract, "10.69.0.0/24").await;
    let pool = balancer.pool.id.as_str();
    // Longer than a busy machine needs for what is refused meanwhile.
    under.pushes(Pushes::Slow(30)).await;
    let first = add(&contract, &balancer, 11).await;
    let while_busy = tree(&contract, &balancer.lb.id).await;
    assert_eq!(around(&while_busy), [&ProvisioningStatus::PendingUpdate; 3]);
    assert_eq!(
        status_of(&while_busy, &first.id),
        Some(ProvisioningStatus::PendingCreate)
    );
    let other = new_member(&contract, &balancer, 12);
    for error in [
        refused(cloud.create_member(&pool.into(), &other, GATE).await),
        refused(
            cloud
                .update_member(&pool.into(), &first.id, &MemberUpdate::default(), GATE)
                .await,
        ),
        refused(cloud.delete_member(&pool.into(), &first.id, GATE).await),
        refused(
            cloud
                .update_pool(&pool.into(), &PoolUpdate::default(), GATE)
                .await,
        ),
    ] {
        assert!(error.is(FailureClass::Locked), "{error}");
    }
    let seen = settle(&contract, &balancer).await;
    for tree in &seen {
        let lb_active = tree.provisioning_status == ACTIVE;
        let member = status_of(tree, &first.id).unwrap();
        assert!(
            !lb_active || member == ACTIVE,
            "in success the member turns first"
        );
    }
    under.pushes(Pushes::Normal).await;

    let duplicate = NewMember {
        name: "another name".into(),
        ..new_member(&contract, &balancer, 11)
    };
    let error = refused(cloud.create_member(&pool.into(), &duplicate, GATE).await);
    assert!(error.is(FailureClass::Duplicate), "{error}");
    let listed = cloud.members(&pool.into(), GATE).await.unwrap().remove(0);
    assert_eq!(
        listed.address,
        Some(new_member(&contract, &balancer, 11).address)
    );
    assert_eq!(
        (listed.protocol_port, listed.weight, listed.admin_state_up),
        (6443, 1, true)
    );
    assert_eq!(listed.operating_status, OperatingStatus::NoMonitor);
    assert_eq!(listed.tags, ["one"]);
    assert!(listed.created_at.is_some() && listed.updated_at.is_some());

    let drained = MemberUpdate {
        weight: Some(0),
        admin_state_up: Some(false),
        tags: Some(vec!["two".into()]),
        ..MemberUpdate::default()
    };
    let answer = cloud
        .update_member(&pool.into(), &first.id, &drained, GATE)
        .await
        .unwrap();
    assert_eq!(
        answer.provisioning_status,
        ProvisioningStatus::PendingUpdate
    );
    settle(&contract, &balancer).await;
    let listed = cloud.members(&pool.into(), GATE).await.unwrap().remove(0);
    assert_eq!((listed.weight, listed.admin_state_up), (0, false));
    assert_eq!(listed.tags, ["two"]);
    // Octavia accepts writes of an object's own values, of a pool too.
    cloud
        .update_member(&pool.into(), &first.id, &MemberUpdate::default(), GATE)
        .await
        .unwrap();
    settle(&contract, &balancer).await;
    cloud
        .update_pool(&pool.into(), &PoolUpdate::default(), GATE)
        .await
        .unwrap();
    settle(&contract, &balancer).await;

    cloud
        .delete_member(&pool.into(), &first.id, GATE)
        .await
        .unwrap();
    let seen = settle(&contract, &balancer).await;
    assert_eq!(
        status_of(seen.last().unwrap(), &first.id),
        None,
        "gone when it is absent"
    );
    assert!(refused(cloud.delete_member(&pool.into(), &first.id, GATE).await).is_not_found());
    balancer.delete(&contract).await;
}

pub async fn a_failed_push_leaves_the_member_in_error_and_the_rest_active(
    under: &impl CloudUnderTest,
) {
    let contract = Contract::with(under).await;
    let cloud = &contract.cloud;
    let balancer = Balancer::with(&contract, "10.70.0.0/24").await;
    let pool = balancer.pool.id.as_str();
    let error = Some(ProvisioningStatus::Error);
    under.pushes(Pushes::Failing).await;
    let member = add(&contract, &balancer, 21).await;
    let seen = settle(&contract, &balancer).await;
    assert_eq!(status_of(seen.last().unwrap(), &member.id), error);
    assert_eq!(
        cloud
            .load_balancer(&balancer.lb.id, GATE)
            .await
            .unwrap()
            .provisioning_status,
        ACTIVE
    );

    // A member in ERROR locks no other object, and a write of its own values repairs it.
    under.pushes(Pushes::Normal).await;
    let other = add(&contract, &balancer, 22).await;
    let seen = settle(&contract, &balancer).await;
    assert_eq!(status_of(seen.last().unwrap(), &other.id), Some(ACTIVE));
    assert_eq!(
        status_of(seen.last().unwrap(), &member.id),
        error,
        "it stays so"
    );
    cloud
        .update_member(&pool.into(), &member.id, &MemberUpdate::default(), GATE)
        .await
        .unwrap();
    let seen = settle(&contract, &balancer).await;
    assert_eq!(status_of(seen.last().unwrap(), &member.id), Some(ACTIVE));

    // A deletion that was accepted and then failed: the member still exists.
    under.pushes(Pushes::Failing).await;
    cloud
        .delete_member(&pool.into(), &member.id, GATE)
        .await
        .unwrap();
    let seen = settle(&contract, &balancer).await;
    assert_eq!(status_of(seen.last().unwrap(), &member.id), error);
    under.pushes(Pushes::Normal).await;
    cloud
        .delete_member(&pool.into(), &member.id, GATE)
        .await
        .unwrap();
    let seen = settle(&contract, &balancer).await;
    assert_eq!(status_of(seen.last().unwrap(), &member.id), None);
    balancer.delete(&contract).await;
}

pub async fn a_held_member_blocks_no_other_one(under: &impl CloudUnderTest) {
    let contract = Contract::with(under).await;
    let cloud = &contract.cloud;
    let balancer = Balancer::with(&contract, "10.71.0.0/24").await;
    let pool = balancer.pool.id.as_str();
    let pending = Some(ProvisioningStatus::PendingCreate);
    let held = new_member(&contract, &balancer, 31);
    under.hold(&held.name, "PENDING_CREATE").await;
    let member = add(&contract, &balancer, 31).await;
    let seen = settle(&contract, &balancer).await;
    assert_eq!(status_of(seen.last().unwrap(), &member.id), pending);
    let duplicate = refused(cloud.create_member(&pool.into(), &held, GATE).await);
    assert!(duplicate.is(FailureClass::Duplicate), "{duplicate}");
    let other = add(&contract, &balancer, 32).await;
    let seen = settle(&contract, &balancer).await;
    assert_eq!(status_of(seen.last().unwrap(), &other.id), Some(ACTIVE));
    assert_eq!(
        status_of(seen.last().unwrap(), &member.id),
        pending,
        "nothing heals it by itself"
    );
    under.release(&held.name).await;
    let seen = settle(&contract, &balancer).await;
    assert_eq!(status_of(seen.last().unwrap(), &member.id), Some(ACTIVE));

    // A held member can be deleted nevertheless, because only the load balancer and the pool are locked.
    under.hold(&held.name, "PENDING_UPDATE").await;
    cloud
        .update_member(&pool.into(), &member.id, &MemberUpdate::default(), GATE)
        .await
        .unwrap();
    let seen = settle(&contract, &balancer).await;
    assert_eq!(
        status_of(seen.last().unwrap(), &member.id),
        Some(ProvisioningStatus::PendingUpdate)
    );
    cloud
        .delete_member(&pool.into(), &member.id, GATE)
        .await
        .unwrap();
    let seen = settle(&contract, &balancer).await;
    assert_eq!(status_of(seen.last().unwrap(), &member.id), None);
    under.release(&held.name).await;
    balancer.delete(&contract).await;
}

pub async fn an_additive_batch_whitewashes(under: &impl CloudUnderTest) {
    let contract = Contract::with(under).await;
    let balancer = Balancer::with(&contract, "10.72.0.0/24").await;
    under.pushes(Pushes::Failing).await;
    let broken = add(&contract, &balancer, 41).await;
    settle(&contract, &balancer).await;
    under.pushes(Pushes::Normal).await;
    let fine = add(&contract, &balancer, 42).await;
    let seen = settle(&contract, &balancer).await;
    assert_eq!(
        status_of(seen.last().unwrap(), &broken.id),
        Some(ProvisioningStatus::Error)
    );

    let path = format!("pools/{}/members?additive_only=true", balancer.pool.id);
    let url = contract.raw.address("load-balancer", &path);
    let batch = async |last: u8| {
        let new = new_member(&contract, &balancer, last);
        let body =
            json!({"members": [{"name": new.name, "address": new.address, "protocol_port": 6443}]});
        contract.raw.send(Method::PUT, &url, Some(body)).await.0
    };
    // Another client's batch turns a member ACTIVE that was never pushed again.
    assert_eq!(batch(43).await, 202);
    let seen = settle(&contract, &balancer).await;
    assert_eq!(status_of(seen.last().unwrap(), &broken.id), Some(ACTIVE));
    // A batch that fails puts every member in ERROR, including those it does not change.
    active(&contract, &balancer.lb.id).await;
    under.pushes(Pushes::Failing).await;
    assert_eq!(batch(44).await, 202);
    until_true("every member is in ERROR", async || {
        let tree = tree(&contract, &balancer.lb.id).await;
        let all = tree.pools[0].members.iter();
        around(&tree) == [&ACTIVE; 3]
            && all.clone().count() == 4
            && all
                .clone()
                .all(|one| one.provisioning_status == ProvisioningStatus::Error)
    })
    .await;
    under.pushes(Pushes::Normal).await;
    let update = MemberUpdate::default();
    contract
        .cloud
        .update_member(&balancer.pool.id, &fine.id, &update, GATE)
        .await
        .unwrap();
    let seen = settle(&contract, &balancer).await;
    assert_eq!(status_of(seen.last().unwrap(), &fine.id), Some(ACTIVE));
    balancer.delete(&contract).await;
}
