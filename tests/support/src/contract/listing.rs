//! Pages, filters, and answers for objects that do not exist.

use capo_core::FailureClass;
use capo_openstack::{
    Error,
    load_balancer::{MemberUpdate, PoolUpdate},
    network::{NewPort, PortFilter},
};

use super::{CloudUnderTest, Contract, GATE, refused};

const NOBODY: &str = "9d1c7a1e-1111-4444-8888-123456789012";

pub async fn pages_and_filters(under: &impl CloudUnderTest) {
    let contract = Contract::with(under).await;
    let cloud = &contract.cloud;
    let (network, _) = contract.network("10.66.0.0/24").await;
    let mut ids = Vec::new();
    for number in 0..3 {
        let new = NewPort {
            name: format!("{}-{number}", contract.name),
            network_id: network.id.clone(),
            ..NewPort::default()
        };
        ids.push(cloud.create_port(&new, GATE).await.unwrap().id);
    }
    ids.sort();
    // The properties on which paging depends: a full page means that there may be more, and the last id is the marker.
    let query = format!("ports?network_id={}&limit=2", network.id);
    let (status, first) = contract.raw.get("network", &query).await;
    assert_eq!(status, 200);
    assert_eq!(first["ports"].as_array().unwrap().len(), 2);
    let says_next = |page: &serde_json::Value, key: &str| {
        let links = page[key].as_array();
        links.is_some_and(|links| links.iter().any(|link| link["rel"] == "next"))
    };
    assert!(says_next(&first, "ports_links"), "{first}");
    let marker = first["ports"][1]["id"].as_str().unwrap();
    let (_, second) = contract
        .raw
        .get("network", &format!("{query}&marker={marker}"))
        .await;
    assert_eq!(second["ports"].as_array().unwrap().len(), 1);
    assert!(!says_next(&second, "ports_links"), "{second}");
    let filter = PortFilter {
        network_id: Some(network.id.clone()),
        ..PortFilter::default()
    };
    let mut found: Vec<_> = cloud
        .ports(&filter, GATE)
        .await
        .unwrap()
        .into_iter()
        .map(|port| port.id)
        .collect();
    found.sort();
    assert_eq!(found, ids);

    let (_, flavors) = contract.raw.get("compute", "flavors/detail?limit=1").await;
    assert_eq!(flavors["flavors"].as_array().unwrap().len(), 1);
    assert!(says_next(&flavors, "flavors_links"), "{flavors}");
    let (_, images) = contract.raw.get("image", "images?limit=1").await;
    assert_eq!(images["images"].as_array().unwrap().len(), 1);
    assert!(images["next"].is_string(), "{images}");

    // Octavia refuses unknown filters, so that no filter is ignored silently.
    let (status, _) = contract
        .raw
        .get("load-balancer", "loadbalancers?colour=red")
        .await;
    assert_eq!(status, 400);
    let (status, body) = contract
        .raw
        .get("load-balancer", "loadbalancers?limit=1000")
        .await;
    assert_eq!(status, 200);
    assert!(body["loadbalancers"].is_array());
    for id in ids {
        cloud.delete_port(&id, GATE).await.unwrap();
    }
    contract.delete_network(&network).await;
}

pub async fn what_is_not_there_is_not_found(under: &impl CloudUnderTest) {
    fn check<T: std::fmt::Debug>(result: Result<T, Error>) {
        let error = refused(result);
        assert_eq!(
            (error.class(), error.status()),
            (FailureClass::NotFound, Some(404)),
            "{error}"
        );
        assert!(!error.message().contains("req-"), "{error}");
    }
    let contract = Contract::with(under).await;
    let cloud = &contract.cloud;
    check(cloud.load_balancer(&NOBODY.into(), GATE).await);
    check(cloud.status_tree(&NOBODY.into(), GATE).await);
    check(cloud.delete_load_balancer(&NOBODY.into(), GATE).await);
    check(
        cloud
            .update_pool(&NOBODY.into(), &PoolUpdate::default(), GATE)
            .await,
    );
    check(cloud.members(&NOBODY.into(), GATE).await);
    check(
        cloud
            .update_member(
                &NOBODY.into(),
                &NOBODY.into(),
                &MemberUpdate::default(),
                GATE,
            )
            .await,
    );
    check(
        cloud
            .delete_member(&NOBODY.into(), &NOBODY.into(), GATE)
            .await,
    );
    check(cloud.health_monitor(&NOBODY.into(), GATE).await);
    check(cloud.network(&NOBODY.into(), GATE).await);
    check(cloud.subnet(&NOBODY.into(), GATE).await);
    check(cloud.port(&NOBODY.into(), GATE).await);
    check(cloud.router(&NOBODY.into(), GATE).await);
    check(cloud.floating_ip(&NOBODY.into(), GATE).await);
    check(cloud.security_group(&NOBODY.into(), GATE).await);
    check(cloud.delete_port(&NOBODY.into(), GATE).await);
    check(cloud.server(&NOBODY.into(), GATE).await);
    check(cloud.flavor(&NOBODY.into(), GATE).await);
    check(cloud.image(&NOBODY.into(), GATE).await);
    check(cloud.volume(&NOBODY.into(), GATE).await);
}
