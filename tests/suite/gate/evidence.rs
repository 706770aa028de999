//! What counts as evidence that a member serves if no health monitor tells, and what does not.

use std::net::IpAddr;

use capo_gate::event::ProbeOutcome;
use capo_rs::tracker::prober::{Prober as _, TlsProber};

use super::{
    api_server::ApiServer,
    control_plane::{address, first_up, gate, join, pod_health, until_held},
};
use test_support::webhooks::Served;

use crate::env::{Authority, kubernetes::free_port};

const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

async fn probe(port: u16, authority: &Authority) -> ProbeOutcome {
    TlsProber::new()
        .probe(LOCAL, port, authority.certificate().into())
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_kube_apiserver_is_ready_under_its_own_authority_only() {
    let kubernetes = &Served::shared().await.kubernetes;
    let port: u16 = kubernetes
        .url()
        .rsplit_once(':')
        .and_then(|(_, port)| port.parse().ok())
        .unwrap();
    let ours = kubernetes.authority();
    assert_eq!(probe(port, ours).await, ProbeOutcome::Ready);
    let other = Authority::new("another authority").unwrap();
    assert_eq!(probe(port, &other).await, ProbeOutcome::WrongCertificate);
    assert_eq!(
        probe(free_port().unwrap(), ours).await,
        ProbeOutcome::Refused
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_200_is_evidence_for_and_only_server_errors_and_other_certificates_are_against() {
    let authority = Authority::new("cluster").unwrap();
    let port = free_port().unwrap();
    let server = ApiServer::listen((LOCAL, port), &authority, &["kubernetes"], 200).await;
    for (status, outcome) in [
        (200, ProbeOutcome::Ready),
        (401, ProbeOutcome::Answered),
        (403, ProbeOutcome::Answered),
        (404, ProbeOutcome::Answered),
        (500, ProbeOutcome::NotReady),
        (503, ProbeOutcome::NotReady),
    ] {
        server.answer(status);
        assert_eq!(probe(port, &authority).await, outcome, "{status}");
    }
    // A certificate of the cluster's authority that is neither for the address nor for the Service proves nothing.
    let port = free_port().unwrap();
    let _other = ApiServer::listen((LOCAL, port), &authority, &["kubelet"], 200).await;
    assert_eq!(probe(port, &authority).await, ProbeOutcome::Answered);
    // Without an authority there is no evidence.
    let nothing = TlsProber::new()
        .probe(LOCAL, port, "no certificate".into())
        .await;
    assert_eq!(nothing, ProbeOutcome::NoConnection);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_monitor_what_cluster_api_finds_wrong_holds_and_nothing_else_does() {
    let (environment, _authority, _m0) = first_up("evidence", "127.91.0.0/24").await;
    join(&environment, &["m1"]).await;
    environment
        .until_object("OpenStackMachine", "m1", |machine| {
            gate(machine).0 == "True"
        })
        .await;
    pod_health(&environment, "m1", "False").await;
    environment.cluster_api.delete("Machine", "m0").await;
    until_held(
        &environment,
        "m0",
        "NoOtherMemberServing",
        &["m1: APIServerPodHealthy is False"],
    )
    .await;
    // An answer at a machine's own address is no evidence for or against any machine.
    let own = address(&environment, "m1").await;
    let foreign = Authority::new("another authority").unwrap();
    let _stranger = ApiServer::listen((own, 6443), &foreign, &["kubernetes"], 200).await;
    pod_health(&environment, "m1", "Unknown").await;
    environment.until_gone("Machine", "m0").await;
}
