//! Octavia's providers: they have the same rules, each with its own times. OVN lacks some features.

use serde_json::json;

use super::{
    Scenario,
    cluster_under_test::{ClusterUnderTest, Shape, shows_condition},
    scenarios,
};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        "provider-amphora": amphora,
        "provider-octavia": the_alias,
        "ovn-early": ovn_reports_active_early,
        "ovn-removal": ovn_drains_by_disabling,
        "ovn-untrue": ovn_calls_a_failed_creation_active,
    ]
}

fn ovn() -> Shape {
    Shape {
        provider: "ovn",
        ..Shape::default()
    }
}

/// A machine joins and another one is deleted. The condition names the profile.
async fn plain(scenario: ClusterUnderTest, profile: &str, leaving: &[&str]) {
    let text = format!("provider profile {profile}");
    scenario
        .until_machine(1, "the profile", |machine| {
            shows_condition(machine, "True", "MembersActive", &text)
        })
        .await;
    scenario
        .until_cluster(|cluster| shows_condition(cluster, "True", "MembersActive", &text))
        .await;
    let mark = scenario.mark();
    scenario.leave(0).await;
    scenario.until_gone(0).await;
    scenario.end_with(mark, leaving).await;
}

async fn amphora(name: &'static str) {
    let shape = Shape {
        provider: "amphora",
        ..Shape::default()
    };
    let scenario = ClusterUnderTest::with(name, shape, 2).await;
    plain(scenario, "amphora", &["PUT member", "DELETE member"]).await;
}

async fn the_alias(name: &'static str) {
    let shape = Shape {
        provider: "octavia",
        ..Shape::default()
    };
    let scenario = ClusterUnderTest::with(name, shape, 2).await;
    plain(scenario, "amphora", &["PUT member", "DELETE member"]).await;
}

/// With this provider weight 0 keeps no client away, so the member is disabled instead.
async fn ovn_drains_by_disabling(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, ovn(), 2).await;
    plain(scenario, "ovn", &["PUT member", "DELETE member"]).await;
}

/// A health event reports the load balancer ACTIVE during an operation.
async fn ovn_reports_active_early(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, ovn(), 1).await;
    let mark = scenario.mark();
    scenario.join_under_an_early_active().await;
    scenario.until_admitted(1).await;
    // The member is created once and never treated as lost. A PUT enables it, if it was created disabled beside a
    // member that serves.
    let writes = scenario.writes(mark);
    let made_once = writes.first().is_some_and(|write| *write == "POST member")
        && writes[1..].iter().all(|write| *write == "PUT member");
    assert!(made_once, "{writes:?}");
    scenario.end().await;
}

/// With OVN a failed creation reads ACTIVE. The machine is admitted with a disabled member, which counts for no other
/// machine's release until the write that enables it has created it.
async fn ovn_calls_a_failed_creation_active(name: &'static str) {
    let scenario = ClusterUnderTest::with(name, ovn(), 1).await;
    scenario.command(json!({"operation": {"operation": "member-create", "name": "-cp-1", "fail": true, "count": 1}}));
    scenario.join(1).await;
    scenario.until_admitted(1).await;
    scenario.leave(0).await;
    scenario
        .until_reported("cp-0", "NoOtherMemberServing", "cp-1: ")
        .await;
    scenario.until_gone(0).await;
    let served = scenario.truth().in_data_path;
    assert_eq!(served, [(6443, scenario.member(1))]);
    scenario.until_well().await;
    scenario.end().await;
}
